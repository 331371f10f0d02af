// SPDX-License-Identifier: MIT
// Strong clusters (poisson/discrete/clusters.py): the groups of nodes that strong links join, and their factors.
#include <cmath>
#include <initializer_list>
#include <memory>
#include <new>
#include <utility>

#include "stencils/neighbours.h"

namespace {

template <class T>
std::unique_ptr<T[]> some(int64_t count) {
    return std::unique_ptr<T[]>(new (std::nothrow) T[count]);
}

// Groups of numbers, known by their least one: which thread joins two first makes no difference to them.
class Joined {
public:
    explicit Joined(int64_t count) : above(some<int32_t>(count)) {}
    explicit operator bool() const { return bool(above); }
    void alone(int64_t n) { above[n] = int32_t(n); }
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
        for (;;) {
            one = least_of(one);
            other = least_of(other);
            if (one == other) return;
            if (one < other) std::swap(one, other);
            int32_t expected = one;
            if (__atomic_compare_exchange_n(&above[one], &expected, other, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                return;
        }
    }

private:
    int32_t at(int32_t n) { return __atomic_load_n(&above[n], __ATOMIC_RELAXED); }
    std::unique_ptr<int32_t[]> above;
};

template <class C>
class Finder {
public:
    Finder(const poisson_stencil& s, double threshold)
        : s(s),
          nodes(s.lattice),
          nx(nodes.x.nodes),
          threshold(threshold),
          joined(nodes.count()),
          groups(some<int32_t>(nodes.count())),
          roots(some<double>(nodes.count())),
          loose(some<double>(nodes.count())) {}
    explicit operator bool() const { return joined && groups && roots && loose; }

    // The roots of the diagonal of V A, infinite where a node is in no group.
    void take_roots() {
        for_each_row([&](int64_t number, int64_t j, int64_t k) {
            const Row<double, C> row = row_at<double, C>(s, nodes, unread(), j, k);
            double* const root = roots.get() + nx * number;
            for (int64_t i = 0; i < nx; ++i) {
                root[i] = double(row.excess[i]);
                joined.alone(nx * number + i);
            }
            for (int n = 0; n < row.count; ++n) {
                const C* const link = row.neighbours[n].link;
                for (int64_t i = 1; i < nx - 1; ++i) root[i] += double(link[i]);
            }
            for (int64_t i : {int64_t(0), nx - 1}) root[i] = at_node<false>(row, nodes.x, i).diagonal;
            const bool free = nodes.free(j, k);
            for (int64_t i = 0; i < nx; ++i)
                root[i] = free && nodes.x.free(i) && root[i] > 0 ? std::sqrt(root[i]) : INFINITY;
        });
    }

    void join_strong() {
        for_each_row([&](int64_t number, int64_t j, int64_t k) {
            const C* const own = static_cast<const C*>(s.coefficients) + nodes.row(j, k);
            const double* const root = roots.get() + nx * number;
            for (int n = 0; n < s.offsets; ++n) {
                const int64_t there = nodes.number(j + s.offset[n][1], k + s.offset[n][2]);
                if (there < 0) continue;
                const C* const link = own + (n + 1) * nodes.values();
                const double* const other = roots.get() + nx * there;
                for (int64_t i = 0; i < nx; ++i) {
                    const int64_t beside = nodes.x.node(i + s.offset[n][0]);
                    if (beside >= 0 && double(link[i]) > threshold * root[i] * other[beside])
                        joined.join(int32_t(nx * number + i), int32_t(nx * there + beside));
                }
            }
        });
        for_each_row([&](int64_t number, int64_t, int64_t) {
            for (int64_t n = nx * number; n < nx * (number + 1); ++n) groups[n] = joined.least_of(int32_t(n));
        });
    }

    // What holds the group of each node there: its excess, and the links that leave the group.
    void take_loose() {
        for_each_row([&](int64_t number, int64_t j, int64_t k) {
            const Row<double, C> row = row_at<double, C>(s, nodes, unread(), j, k);
            const int32_t* const group = groups.get() + nx * number;
            double* const sum = loose.get() + nx * number;
            for (int64_t i = 0; i < nx; ++i) sum[i] = double(row.excess[i]);
            for (int n = 0; n < row.count; ++n) {
                const Neighbour<double, C>& to = row.neighbours[n];
                const int32_t* const others = groups.get() + nx * row.rows[n];
                for (int64_t i = 0; i < nx; ++i) {
                    const int64_t there = nodes.x.node(i + to.across);
                    if (there < 0 || others[there] == group[i]) continue;
                    sum[i] += double(to.link[to.stored_there ? there - to.across : i]);
                }
            }
        });
    }

    // The members, starts and factors of the groups of two nodes or more that something holds; how many there are.
    int64_t write(double damping, double least, int32_t* members, int64_t* starts, double* factors) {
        const int64_t count = nodes.count();
        // Of the least node of each group: its size, what holds it, and its diagonal.
        const auto sizes = some<int32_t>(count);
        const auto held = some<double>(count);
        const auto diagonals = some<double>(count);
        if (!sizes || !held || !diagonals) return -1;
        for (int64_t n = 0; n < count; ++n) {
            if (groups[n] == n) {
                sizes[n] = 0;
                held[n] = diagonals[n] = 0;
            }
            const int32_t group = groups[n];
            ++sizes[group];
            held[group] += loose[n];
            diagonals[group] += roots[n] * roots[n];
        }
        int64_t found = 0, place = 0;
        for (int64_t n = 0; n < count; ++n) {
            if (groups[n] != n) continue;
            if (sizes[n] < 2 || !(held[n] > least * diagonals[n])) {
                sizes[n] = -1;
                continue;
            }
            starts[found] = place;
            factors[found++] = damping / held[n];
            const int32_t size = sizes[n];
            sizes[n] = int32_t(place);  // from here on where its next member goes
            place += size;
        }
        starts[found] = place;
        for (int64_t n = 0; n < count; ++n) {
            if (sizes[groups[n]] >= 0) members[sizes[groups[n]]++] = int32_t(n);
        }
        return found;
    }

private:
    template <class Visit>
    void for_each_row(Visit visit) {
        POISSON_THREADS(number, nodes.rows(), nodes.count() * (1 + s.offsets), (), ()) {
            visit(number, number % nodes.y.nodes, number / nodes.y.nodes);
        }
    }
    // In the place of u, of which nothing is read.
    const double* unread() const { return static_cast<const double*>(s.coefficients); }

    const poisson_stencil& s;
    const Nodes nodes;
    const int64_t nx;
    const double threshold;
    Joined joined;
    std::unique_ptr<int32_t[]> groups;
    std::unique_ptr<double[]> roots, loose;
};

template <class C>
poisson_status find(const poisson_stencil* s, double threshold, double damping, double least, int32_t* members,
                    int64_t* starts, double* factors, int64_t* count) {
    Finder<C> finder(*s, threshold);
    if (!finder) return POISSON_OUT_OF_MEMORY;
    finder.take_roots();
    finder.join_strong();
    finder.take_loose();
    *count = finder.write(damping, least, members, starts, factors);
    return *count < 0 ? POISSON_OUT_OF_MEMORY : POISSON_SUCCESS;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) poisson_status poisson_find_clusters(const poisson_stencil* s,
                                                                                       double threshold, double damping,
                                                                                       double least, int32_t* members,
                                                                                       int64_t* starts, double* factors,
                                                                                       int64_t* count) {
    if (!s || !s->coefficients || s->offsets > MOST / 2 || !members || !starts || !factors || !count)
        return POISSON_BAD_ARGUMENT;
    use_threads(lattice_of(s));
    return s->single ? find<float>(s, threshold, damping, least, members, starts, factors, count)
                     : find<double>(s, threshold, damping, least, members, starts, factors, count);
}
