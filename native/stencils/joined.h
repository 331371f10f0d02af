// SPDX-License-Identifier: MIT
// Groups of nodes that threads join with one another.
#ifndef POISSON_JOINED_H
#define POISSON_JOINED_H

#include <memory>
#include <utility>

#include "stencils/full.h"

struct Release {
    void operator()(void* memory) const { poisson_release(memory); }
};

// Memory of the library, which the next search takes again, for values that the threads of the rows work on.
template <class T>
std::unique_ptr<T[], Release> some(int64_t rows, int64_t values) {
    void* memory = nullptr;
    allocate(rows, values * int64_t(sizeof(T)), &memory);
    return std::unique_ptr<T[], Release>(static_cast<T*>(memory));
}
template <class T>
std::unique_ptr<T[], Release> some(const Nodes& nodes) {
    return some<T>(nodes.rows(), nodes.x.nodes);
}

// Groups of numbers, known by their least one: which thread joins two first makes no difference to them.
class Joined {
public:
    explicit Joined(const Nodes& nodes) : above(some<int32_t>(nodes)) {}
    explicit operator bool() const { return bool(above); }
    void alone(int64_t n) { above[n] = int32_t(n); }
    void follow(int64_t n, int64_t before) { above[n] = above[before]; }
    int32_t least_of(int32_t n) {
        for (;;) {
            const int32_t next = at(n);
            if (next == n) return n;
            const int32_t beyond = at(next);
            // What other threads have stored meanwhile leads there too.
            if (beyond != next) __atomic_store_n(&above[n], beyond, __ATOMIC_RELAXED);
            n = beyond;
        }
    }
    void join(int32_t one, int32_t other) {
        while (at(one) != at(other)) {
            one = least_of(one);
            other = least_of(other);
            if (one == other) return;
            if (one < other) std::swap(one, other);
            int32_t expected = one;
            if (__atomic_compare_exchange_n(&above[one], &expected, other, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                return;
        }
    }

    // When all are joined: has every number know its group.
    void settle(int32_t n) {
        int32_t least = n;
        for (int32_t next; (next = at(least)) != least;) least = next;
        __atomic_store_n(&above[n], least, __ATOMIC_RELAXED);
    }
    const int32_t* groups() const { return above.get(); }

private:
    int32_t at(int32_t n) { return __atomic_load_n(&above[n], __ATOMIC_RELAXED); }
    std::unique_ptr<int32_t[], Release> above;
};

#endif
