// SPDX-License-Identifier: MIT
// The parts of a grid that links of more than 0 join (poisson/discrete/mask.py), and the mask of the nodes without one.
#include <algorithm>
#include <cmath>

#include "stencils/joined.h"

namespace {

constexpr uint8_t JOINED = 1, HELD = 2;

class Parts {
public:
    Parts(const poisson_operator& a, double* c)
        : a(a),
          nodes(a),
          nx(nodes.x.nodes),
          c(c),
          joined(nodes),
          groups(joined.groups()),
          marks(some<uint8_t>(nodes)) {}
    explicit operator bool() const { return joined && marks; }

    // Join the nodes of each row, and then rows with one another.
    void join() {
        for_each_row([&](int64_t number, int64_t, int64_t, int64_t row) {
            for (int64_t i = 0, n = nx * number; i < nx; ++i, ++n) {
                marks[n] = 0;
                joined.alone(n);
                if (i > 0 && of(0)[row + i - 1] > 0) joined.follow(n, n - 1);
            }
        });
        for_each_row([&](int64_t number, int64_t j, int64_t k, int64_t row) {
            const int64_t first = nx * number, around = nodes.x.node(nx);
            if (around >= 0 && of(0)[row + nx - 1] > 0) joined.join(int32_t(first + nx - 1), int32_t(first + around));
            for (int axis = 1; axis < a.dimension; ++axis) {
                const int64_t there = nodes.number(j + (axis == 1), k + (axis == 2));
                if (there < 0) continue;
                const double *const across = of(axis) + row, *const own = of(0) + row,
                                    *const other = of(0) + nodes.pitch * there;
                for (int64_t i = 0; i < nx; ++i) {
                    // Where the nodes before are joined, and both of these with them, nothing is new.
                    const bool known = i > 0 && across[i - 1] > 0 && own[i - 1] > 0 && other[i - 1] > 0;
                    if (across[i] > 0 && !known) joined.join(int32_t(first + i), int32_t(nx * there + i));
                }
            }
        });
        for_each_row([&](int64_t number, int64_t, int64_t, int64_t) {
            for (int64_t n = nx * number; n < nx * (number + 1); ++n) joined.settle(int32_t(n));
        });
    }

    // Mark the first node of each part of several nodes, and of each that a fixed node or c holds.
    void hold() {
        for_each_row([&](int64_t number, int64_t j, int64_t k, int64_t row) {
            const bool free = nodes.free(j, k);
            for (int64_t i = 0, n = nx * number; i < nx; ++i, ++n) {
                const bool holds = !free || !nodes.x.free(i) || c[row + i] != 0;
                const uint8_t mark = uint8_t((groups[n] != n ? JOINED : 0) | (holds ? HELD : 0));
                uint8_t* const known = &marks[groups[n]];
                if (mark & ~__atomic_load_n(known, __ATOMIC_RELAXED)) __atomic_fetch_or(known, mark, __ATOMIC_RELAXED);
            }
        });
    }

    // Write the mask, and what is found.
    void write(double fixed, int64_t* counts, double* ends) {
        for_each_row([&](int64_t number, int64_t j, int64_t k, int64_t row) {
            int64_t alone = 0, loose = 0, held = 0;
            double link = INFINITY, least = INFINITY, most = 0;
            const bool free = nodes.free(j, k);
            for (int64_t i = 0, n = nx * number; i < nx; ++i, ++n) {
                for (int axis = 0; axis < a.dimension; ++axis) {
                    const double value = of(axis)[row + i];
                    if (value > 0) link = std::min(link, value);
                }
                const bool several = groups[n] != n || (marks[n] & JOINED);
                if (groups[n] == n && several) ++(marks[n] & HELD ? held : loose);
                double& here = c[row + i];
                if (!free || !nodes.x.free(i)) {
                    here = fixed;
                } else if (here == 0 && !several) {
                    here = fixed;
                    ++alone;
                } else if (here > 0 && !several) {
                    ++held;  // a part of one node
                }
                if (here < 0) continue;
                least = std::min(least, here);
                most = std::max(most, here);
            }
#pragma omp critical(poisson_parts)
            {
                counts[0] += alone;
                counts[1] += loose;
                counts[2] += held;
                ends[0] = std::min(ends[0], link);
                ends[1] = std::min(ends[1], least);
                ends[2] = std::max(ends[2], most);
            }
        });
    }

private:
    const double* of(int axis) const { return static_cast<const double*>(a.a[axis]); }
    template <class Visit>
    void for_each_row(Visit visit) {
        POISSON_THREADS(number, nodes.rows(), nodes.count() * 4, (), ()) {
            visit(number, number % nodes.y.nodes, number / nodes.y.nodes, nodes.pitch * number);
        }
    }

    const poisson_operator& a;
    const Nodes nodes;
    const int64_t nx;
    double* const c;
    Joined joined;
    const int32_t* const groups;
    std::unique_ptr<uint8_t[], Release> marks;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) poisson_status poisson_find_parts(const poisson_operator* a,
                                                                                    double fixed, double* c,
                                                                                    int64_t* counts, double* ends) {
    if (!a || !c || !counts || !ends) return POISSON_BAD_ARGUMENT;
    for (int axis = 0; axis < a->dimension; ++axis)
        if (!a->a[axis]) return POISSON_BAD_ARGUMENT;
    use_threads(a);
    Parts parts(*a, c);
    if (!parts) return POISSON_OUT_OF_MEMORY;
    std::fill_n(counts, 3, 0);
    ends[0] = ends[1] = INFINITY;
    ends[2] = 0;
    parts.join();
    parts.hold();
    parts.write(fixed, counts, ends);
    return POISSON_SUCCESS;
}
