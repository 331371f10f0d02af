// SPDX-License-Identifier: MIT
// The correction of strong clusters: each group of nodes gets the weighted sum of the residual there, times its factor.
#include <algorithm>

#include "stencils/full.h"

namespace {

// Nodes of which one thread makes a sum, so that a large group has those of many: the sums do not depend on the
// threads.
constexpr int64_t BLOCK = 8192;

// Rows of a cycle that a thread takes at once.
constexpr int64_t ROWS = 64;

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

// The first group from a place on.
int64_t first_from(const poisson_clusters* c, int64_t place) {
    int64_t low = 0, high = c->count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (c->starts[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Calls small(n) for groups of at most BLOCK nodes, by the thread of the block in which the first node lies, and
// large(n, blocks, end_of) for each other one, whose nodes up to end_of(k) belong to its block k.
template <class Small, class Large>
void for_each_group(const poisson_clusters* c, const Small& small, const Large& large) {
    const int32_t* const starts = c->starts;
    const int64_t members = starts[c->count], blocks = (members + BLOCK - 1) / BLOCK;
    POISSON_THREADS(number, blocks, 4 * members, (), ()) {
        const int64_t end = first_from(c, (number + 1) * BLOCK);
        for (int64_t n = first_from(c, number * BLOCK); n < end; ++n)
            if (starts[n + 1] - starts[n] <= BLOCK) small(n);
    }
    for (int64_t n = 0; n < c->count; ++n) {
        const int64_t first = starts[n], size = starts[n + 1] - first, parts = (size + BLOCK - 1) / BLOCK;
        if (size > BLOCK)
            large(n, parts, [=](int64_t part) { return first + (part + 1 < parts ? (part + 1) * BLOCK : size); });
    }
}

// The sum of a large group, from those of its blocks in their order.
template <class T, class End>
double sum_of_blocks(const Groups<T>& groups, int64_t first, int64_t parts, const End& end_of, double* partial) {
    POISSON_THREADS(part, parts, 4 * BLOCK * parts, (), ()) {
        partial[2 * part] = groups.sum(first + part * BLOCK, end_of(part));
    }
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += partial[2 * part];
    return sum;
}

// The rows of the cycle, stage by stage, from the sums of the groups.
void cycle(const poisson_clusters* c) {
    double* const values = c->values;
    for (int64_t n = 0; n < c->stages; ++n) {
        const int64_t first = c->stage[n], rows = c->stage[n + 1] - first;
        const int64_t entries = c->entries[first + rows] - c->entries[first], blocks = (rows + ROWS - 1) / ROWS;
        POISSON_THREADS(block, blocks, 4 * entries, (), ()) {
            const int64_t last = first + std::min(rows, (block + 1) * ROWS);
            for (int64_t row = first + block * ROWS; row < last; ++row) {
                double sum = 0;
                for (int64_t entry = c->entries[row]; entry < c->entries[row + 1]; ++entry)
                    sum += double(c->weights[entry]) * values[c->columns[entry]];
                values[c->count + row] = sum;
            }
        }
    }
}

template <class T>
poisson_status correct(const poisson_clusters* c, const T* r, T* u) {
    if (!c || !r || !u || (c->count && (!c->places || !c->starts || !(c->factors || c->stages))))
        return POISSON_BAD_ARGUMENT;
    if (c->count == 0) return POISSON_SUCCESS;
    const Groups<T> groups(c, r, u);
    const int32_t* const starts = c->starts;
    double* const partial = partial_results(starts[c->count] / BLOCK + 1);
    if (!partial) return POISSON_OUT_OF_MEMORY;
    const auto sum_all = [&](int64_t n) { return groups.sum(starts[n], starts[n + 1]); };
    const auto add_all = [&](int64_t n, double value) { groups.add(starts[n], starts[n + 1], T(value)); };
    const auto sum_blocks = [&](int64_t n, int64_t parts, const auto& end_of) {
        return sum_of_blocks(groups, starts[n], parts, end_of, partial);
    };
    const auto add_blocks = [&](int64_t n, int64_t parts, const auto& end_of, double value) {
        POISSON_THREADS(part, parts, 4 * BLOCK * parts, (), ()) {
            groups.add(starts[n] + part * BLOCK, end_of(part), T(value));
        }
    };
    if (c->stages == 0) {
        for_each_group(
            c, [&](int64_t n) { add_all(n, c->factors[n] * sum_all(n)); },
            [&](int64_t n, int64_t parts, const auto& end_of) {
                add_blocks(n, parts, end_of, c->factors[n] * sum_blocks(n, parts, end_of));
            });
        return POISSON_SUCCESS;
    }
    double* const sums = c->values;
    for_each_group(
        c, [&](int64_t n) { sums[n] = sum_all(n); },
        [&](int64_t n, int64_t parts, const auto& end_of) { sums[n] = sum_blocks(n, parts, end_of); });
    cycle(c);
    const double* const found = sums + c->stage[c->stages];
    for_each_group(
        c, [&](int64_t n) { add_all(n, found[n]); },
        [&](int64_t n, int64_t parts, const auto& end_of) { add_blocks(n, parts, end_of, found[n]); });
    return POISSON_SUCCESS;
}

}  // namespace

POISSON_EXPORT(correct_clusters, (const poisson_clusters* c, const real* r, real* u), lattice_of(c), correct(c, r, u))
