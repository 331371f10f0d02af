// SPDX-License-Identifier: MIT
// Strong clusters (poisson/discrete/clusters.py): the groups of nodes that strong links join, and their factors.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "stencils/joined.h"
#include "stencils/neighbours.h"

namespace {

template <class C>
class Finder {
public:
    Finder(const poisson_stencil& s, double threshold)
        : s(s),
          nodes(s.lattice),
          nx(nodes.x.nodes),
          threshold(threshold),
          joined(nodes),
          groups(joined.groups()),
          sizes(some<int32_t>(nodes)),
          roots(some<double>(nodes)),
          loose(some<double>(nodes)) {}
    explicit operator bool() const { return joined && sizes && roots && loose; }

    // The roots of the diagonal of V A, or of the sums of scaled links, infinite where a node is in no group.
    void take_roots() {
        for_each_row([&](int64_t number, int64_t j, int64_t k) {
            const Row<double, C> row = row_at<double, C>(s, nodes, unread(), j, k);
            double* const root = roots.get() + nx * number;
            for (int64_t i = 0; i < nx; ++i) {
                root[i] = s.scales ? 0 : double(row.excess[i]);
                joined.alone(nx * number + i);
            }
            for (int n = 0; n < row.count; ++n) {
                const Neighbour<double, C>& to = row.neighbours[n];
                const int64_t place = to.link - coefficients - (to.stored_there ? to.across : 0);
                const double scale = scale_of(int(place / nodes.values()) - 1);
                for (int64_t i = 1; i < nx - 1; ++i) root[i] += scale * double(to.link[i]);
                for (int64_t i : {int64_t(0), nx - 1}) {
                    const int64_t there = nodes.x.node(i + to.across);
                    if (there >= 0) root[i] += scale * double(to.link[to.stored_there ? there - to.across : i]);
                    if (nx == 1) break;
                }
            }
            const double all = nodes.free(j, k) ? 0 : INFINITY;
#pragma omp simd
            for (int64_t i = 0; i < nx; ++i) root[i] = root[i] > 0 ? std::sqrt(root[i]) + all : INFINITY;
            for (int64_t i : {int64_t(0), nx - 1})
                if (!nodes.x.free(i)) root[i] = INFINITY;
            // Along a row no other thread joins yet.
            if (along_x < 0) return;
            const C* const link = coefficients + nodes.row(j, k) + (along_x + 1) * nodes.values();
            const double scale = scale_of(along_x);
            for (int64_t i = 0, n = nx * number; i < nx - 1; ++i, ++n)
                if (scale * double(link[i]) > threshold * root[i] * root[i + 1]) joined.follow(n + 1, n);
        });
    }

    // Whether any are.
    bool join_strong() {
        bool strong = false;
        for_each_row([&](int64_t number, int64_t j, int64_t k) {
            const C* const own = coefficients + nodes.row(j, k);
            const double* const root = roots.get() + nx * number;
            bool any = false;
            for (int n = 0; n < s.offsets; ++n) {
                const int64_t there = nodes.number(j + s.offset[n][1], k + s.offset[n][2]);
                if (there < 0) continue;
                const C* const link = own + (n + 1) * nodes.values();
                const double scale = scale_of(n);
                const double* const other = roots.get() + nx * there;
                const int64_t across = s.offset[n][0];
                const auto join_along = [&](int64_t first, int64_t last) {
                    for (int64_t i = first; i < last; ++i) {
                        const int64_t beside = nodes.x.node(i + across);
                        if (beside < 0 || !(scale * double(link[i]) > threshold * root[i] * other[beside])) continue;
                        joined.join(int32_t(nx * number + i), int32_t(nx * there + beside));
                        any = true;
                    }
                };
                // Most blocks of nodes have no strong link.
                for (int64_t first = 0; first < nx; first += BLOCK) {
                    const int64_t last = std::min(first + BLOCK, nx);
                    int32_t found = first + across < 0 || last + across > nx;
                    if (!found) {
#pragma omp simd reduction(| : found)
                        for (int64_t i = first; i < last; ++i)
                            found |= scale * double(link[i]) > threshold * root[i] * other[i + across];
                    }
                    if (found) join_along(first, last);
                }
            }
            if (any) __atomic_store_n(&strong, true, __ATOMIC_RELAXED);
        });
        if (!strong) return false;
        for_each_row([&](int64_t number, int64_t, int64_t) {
            for (int64_t n = nx * number; n < nx * (number + 1); ++n) joined.settle(int32_t(n));
        });
        return true;
    }

    // What holds the group of each node there: its excess, and the links that leave the group.
    void take_loose() {
        for_each_row([&](int64_t number, int64_t j, int64_t k) {
            const Row<double, C> row = row_at<double, C>(s, nodes, unread(), j, k);
            const int32_t* const group = groups + nx * number;
            double* __restrict const sum = loose.get() + nx * number;
            for (int64_t i = 0; i < nx; ++i) sum[i] = double(row.excess[i]);
            for (int n = 0; n < row.count; ++n) {
                const Neighbour<double, C>& to = row.neighbours[n];
                const int32_t* const others = groups + nx * row.rows[n];
                for (int64_t i : {int64_t(0), nx - 1}) {
                    const int64_t there = nodes.x.node(i + to.across);
                    if (there >= 0 && others[there] != group[i])
                        sum[i] += double(to.link[to.stored_there ? there - to.across : i]);
                    if (nx == 1) break;
                }
#pragma omp simd
                for (int64_t i = 1; i < nx - 1; ++i)
                    sum[i] += others[i + to.across] != group[i] ? double(to.link[i]) : 0.0;
            }
        });
    }

    // The members, starts and factors of the groups of `fewest` to `most` nodes that something holds; how many there
    // are.
    int64_t write(double damping, double least, int64_t fewest, int64_t most, int32_t* members, int64_t* starts,
                  double* factors) {
        // The least node of each group gets its size, what holds it, and its diagonal, in the order of the nodes.
        for_each_member([&](int64_t n, int32_t group) {
            if (n == group) {
                sizes[n] = 1;
                roots[n] *= roots[n];
                return;
            }
            ++sizes[group];
            loose[group] += loose[n];
            roots[group] += roots[n] * roots[n];
        });
        struct {
            int64_t groups, members;
        } before[MOST_PARTS + 1] = {};
        for_each_part([&](int part, int64_t first, int64_t last) {
            for (int64_t n = first; n < last; ++n) {
                if (groups[n] != n) continue;
                if (sizes[n] < fewest || sizes[n] > most || !(loose[n] > least * roots[n])) sizes[n] = 0;
                before[part + 1].groups += sizes[n] > 0;
                before[part + 1].members += sizes[n];
            }
        });
        for (int part = 0; part < parts; ++part) {
            before[part + 1].groups += before[part].groups;
            before[part + 1].members += before[part].members;
        }
        for_each_part([&](int part, int64_t first, int64_t last) {
            int64_t found = before[part].groups, place = before[part].members;
            for (int64_t n = first; n < last; ++n) {
                if (groups[n] != n) continue;
                const int32_t size = sizes[n];
                sizes[n] = size ? int32_t(place) : -1;  // from here on where its next member goes
                if (!size) continue;
                starts[found] = place;
                factors[found++] = damping / loose[n];
                place += size;
            }
        });
        for_each_member([&](int64_t n, int32_t group) {
            if (sizes[group] >= 0) members[sizes[group]++] = int32_t(n);
        });
        starts[before[parts].groups] = before[parts].members;
        return before[parts].groups;
    }

private:
    template <class Visit>
    void for_each_row(Visit visit) {
        POISSON_THREADS(number, nodes.rows(), nodes.count() * (1 + s.offsets), (), ()) {
            visit(number, number % nodes.y.nodes, number / nodes.y.nodes);
        }
    }
    // The groups whose least nodes lie in a part belong to one thread.
    template <class Visit>
    void for_each_part(Visit visit) {
        const int64_t count = nodes.count();
        POISSON_THREADS(part, parts, count, (), ()) {
            visit(int(part), count * part / parts, count * (part + 1) / parts);
        }
    }
    // Calls visit(node, group) for all nodes of each group in order.
    template <class Visit>
    void for_each_member(Visit visit) {
        for_each_part([&](int, int64_t first, int64_t last) {
            for (int64_t n = first; n < nodes.count(); ++n) {
                const int32_t group = groups[n];
                if (group >= first && group < last) visit(n, group);
            }
        });
    }
    // In the place of u, of which nothing is read.
    const double* unread() const { return static_cast<const double*>(s.coefficients); }
    double scale_of(int offset) const { return s.scales ? s.scales[offset] : 1.0; }

    static constexpr int64_t BLOCK = 64;
    static constexpr int MOST_PARTS = 16;  // each goes through the numbers of all groups
    const poisson_stencil& s;
    const C* const coefficients = static_cast<const C*>(s.coefficients);
    const Nodes nodes;
    const int64_t nx;
    // The number of the links along a row, if there are any.
    const int along_x = [&] {
        for (int n = 0; n < s.offsets; ++n)
            if (s.offset[n][0] == 1 && !s.offset[n][1] && !s.offset[n][2]) return n;
        return -1;
    }();
    const int parts = nodes.count() < SMALL_WORK ? 1 : std::min(team_size, MOST_PARTS);
    const double threshold;
    Joined joined;
    const int32_t* const groups;
    std::unique_ptr<int32_t[], Release> sizes;
    std::unique_ptr<double[], Release> roots, loose;
};

template <class C>
poisson_status find(const poisson_stencil* s, double threshold, double damping, double least, int64_t fewest,
                    int32_t* members, int64_t* starts, double* factors, int64_t* count) {
    Finder<C> finder(*s, threshold);
    if (!finder) return POISSON_OUT_OF_MEMORY;
    finder.take_roots();
    if (!finder.join_strong() && fewest > 1) {
        *count = starts[0] = 0;
        return POISSON_SUCCESS;
    }
    finder.take_loose();
    *count = finder.write(damping, least, fewest, *count, members, starts, factors);
    return POISSON_SUCCESS;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) poisson_status
poisson_find_clusters(const poisson_stencil* s, double threshold, double damping, double least, int64_t fewest,
                      int32_t* members, int64_t* starts, double* factors, int64_t* count) {
    if (!s || !s->coefficients || s->offsets > MOST / 2 || fewest < 1 || !members || !starts || !factors || !count)
        return POISSON_BAD_ARGUMENT;
    use_threads(lattice_of(s));
    return s->single ? find<float>(s, threshold, damping, least, fewest, members, starts, factors, count)
                     : find<double>(s, threshold, damping, least, fewest, members, starts, factors, count);
}
