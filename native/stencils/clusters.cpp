// SPDX-License-Identifier: MIT
// The correction of strong clusters: each group of nodes gets the weighted sum of the residual there, times its factor.
#include <vector>

#include "stencils/full.h"

namespace {

// Nodes of which one thread makes a sum, so that a large group has those of many: the sums do not depend on the
// threads.
constexpr int64_t BLOCK = 8192;

template <class T>
class Groups {
public:
    Groups(const poisson_clusters* c, const T* r, T* u)
        : nodes(c->lattice), c(c), r(r), u(u), one_width(!c->lattice.widths && all_wrap_or_are_fixed(c->lattice)) {}

    double sum(int64_t first, int64_t last) const {
        double total[4] = {};
        if (one_width) {
            int64_t n = first;
            for (; n + 4 <= last; n += 4)
                for (int lane = 0; lane < 4; ++lane) total[lane] += double(r[c->places[n + lane]]);
            for (; n < last; ++n) total[0] += double(r[c->places[n]]);
        } else {
            for (int64_t n = first; n < last; ++n) {
                const int64_t place = c->places[n], row = place / nodes.pitch;
                const double width = nodes.width_of_row(row % nodes.y.nodes, row / nodes.y.nodes);
                total[0] += width * nodes.width(place % nodes.pitch) * double(r[place]);
            }
        }
        return (total[0] + total[1]) + (total[2] + total[3]);
    }
    void add(int64_t first, int64_t last, T value) const {
        for (int64_t n = first; n < last; ++n) u[c->places[n]] += value;
    }

private:
    static bool all_wrap_or_are_fixed(const poisson_operator& a) {
        for (int face = 0; face < 2 * a.dimension; ++face)
            if (a.rule[face] == MIRROR) return false;
        return true;
    }
    const Nodes nodes;
    const poisson_clusters* c;
    const T* r;
    T* u;
    const bool one_width;
};

template <class T>
poisson_status correct(const poisson_clusters* c, const T* r, T* u) {
    if (!c || !r || !u || (c->count && (!c->places || !c->starts || !c->factors))) return POISSON_BAD_ARGUMENT;
    if (c->count == 0) return POISSON_SUCCESS;
    const Groups<T> groups(c, r, u);
    const int64_t *starts = c->starts, members = starts[c->count];
    // The groups of which the first node lies in a block belong to its thread, but for larger ones.
    const int64_t blocks = (members + BLOCK - 1) / BLOCK;
    POISSON_THREADS(number, blocks, 4 * members, (), ()) {
        const auto first_from = [&](int64_t place) {
            int64_t low = 0, high = c->count;
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (starts[middle] < place)
                    low = middle + 1;
                else
                    high = middle;
            }
            return low;
        };
        const int64_t end = first_from((number + 1) * BLOCK);
        for (int64_t n = first_from(number * BLOCK); n < end; ++n) {
            if (starts[n + 1] - starts[n] <= BLOCK)
                groups.add(starts[n], starts[n + 1], T(c->factors[n] * groups.sum(starts[n], starts[n + 1])));
        }
    }
    for (int64_t n = 0; n < c->count; ++n) {
        const int64_t first = starts[n], size = starts[n + 1] - first;
        if (size <= BLOCK) continue;
        const int64_t parts = (size + BLOCK - 1) / BLOCK;
        double* const partial = partial_results(parts);
        if (!partial) return POISSON_OUT_OF_MEMORY;
        const auto end_of = [&](int64_t part) { return first + (part + 1 < parts ? (part + 1) * BLOCK : size); };
        POISSON_THREADS(part, parts, 4 * size, (), ()) {
            partial[2 * part] = groups.sum(first + part * BLOCK, end_of(part));
        }
        double sum = 0;
        for (int64_t part = 0; part < parts; ++part) sum += partial[2 * part];
        const T value = T(c->factors[n] * sum);
        POISSON_THREADS(part, parts, 4 * size, (), ()) { groups.add(first + part * BLOCK, end_of(part), value); }
    }
    return POISSON_SUCCESS;
}

}  // namespace

POISSON_EXPORT(correct_clusters, (const poisson_clusters* c, const real* r, real* u), lattice_of(c), correct(c, r, u))
