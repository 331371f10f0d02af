// SPDX-License-Identifier: MIT
// Rows between two grids on the same box, on the host: linear interpolation and its scaled transpose.
//
// The weights are those of poisson/mesh/axis_transfer.py. Along y and z they follow from the places of the nodes, and
// beyond a mirror or wrap face the images of the nodes take part with the same weights; so whole rows are added up
// first, in packs, and one row of sums goes between the grids along x: in packs where the intervals halve, else by the
// tables. Where an axis is tabulated all comes from these, and the nodes of a mirror have no images.
#ifndef POISSON_GRIDS_H
#define POISSON_GRIDS_H

#include "multigrid/by_tables.h"
#include "multigrid/tiles.h"

// An axis of both grids. Where these are parts, the cells are those of the whole axis, nodes are counted from the first
// one of each part, and a coarse node may lie beyond the fine ones, or a fine one beyond the coarse ones: what is said
// of it then has no meaning, but nodes that are here.
struct Pairing {
    int64_t fine, coarse, fine_cells, coarse_cells, fine_first = 0, coarse_first = 0;
    bool wraps;
    // The tables of one direction between tabulated axes, with so many entries for a node; 0 between uniform ones.
    int64_t entries = 0;
    const int32_t* index = nullptr;
    const double* factors = nullptr;

    Pairing(int64_t fine_nodes, int64_t coarse_nodes, bool periodic)
        : fine(fine_nodes),
          coarse(coarse_nodes),
          fine_cells(periodic ? fine_nodes : fine_nodes - 1),
          coarse_cells(periodic ? coarse_nodes : coarse_nodes - 1),
          wraps(periodic) {}
    Pairing(const poisson_operator& fine_operator, const poisson_operator& coarse_operator,
            const poisson_transfer& tables, int axis)
        : Pairing(fine_operator.shape[axis], coarse_operator.shape[axis],
                  axis >= fine_operator.dimension || fine_operator.rule[2 * axis] == WRAP) {
        if (axis < fine_operator.dimension && tables.entries[axis]) {
            // Neither as many as the coarse ones nor twice as many.
            fine_cells = 1;
            coarse_cells = 0;
            entries = tables.entries[axis];
            index = tables.index[axis];
            factors = tables.weight[axis];
            return;
        }
        if (fine_operator.intervals[axis] == 0) return;
        fine_cells = fine_operator.intervals[axis];
        coarse_cells = coarse_operator.intervals[axis];
        fine_first = fine_operator.first[axis];
        coarse_first = coarse_operator.first[axis];
    }

    bool same() const { return fine_cells == coarse_cells; }
    // The one coarse node stands for the mean of all.
    bool collapses() const { return coarse == 1 && fine > 1; }
    bool halves() const { return fine_cells == 2 * coarse_cells; }
    // How many fine nodes beyond a range take part in the restriction to the coarse nodes that lie in it.
    int64_t reach() const { return same() ? 0 : halves() ? 1 : entries ? entries / 2 : 2; }
    // The coarse nodes that lie in a range of fine nodes.
    Span within(Span nodes) const {
        if (entries) return {first_within(nodes.start), first_within(nodes.stop)};
        const auto first = [&](int64_t node) {
            return std::clamp<int64_t>(-floor_divide(-(node + fine_first) * coarse_cells, fine_cells) - coarse_first, 0,
                                       coarse);
        };
        return {first(nodes.start), first(nodes.stop)};
    }
    // The fine nodes, images among them, that take part in the restriction to a coarse node.
    Span around(int64_t node) const {
        if (entries) return of_table(node);
        if (collapses()) return {0, fine};
        node += coarse_first;
        if (same()) return {node - fine_first, node + 1 - fine_first};
        if (halves()) return {2 * node - 1 - fine_first, 2 * node + 2 - fine_first};
        return {floor_divide((node - 1) * fine_cells, coarse_cells) + 1 - fine_first,
                -floor_divide(-(node + 1) * fine_cells, coarse_cells) - fine_first};
    }
    double weight(int64_t fine_node, int64_t node) const {
        if (same()) return 1;
        if (entries) return factors[entries * node + fine_node - index[entries * node]];
        if (collapses()) return (!wraps && (fine_node == 0 || fine_node == fine - 1) ? 0.5 : 1.0) / double(fine_cells);
        fine_node += fine_first;
        node += coarse_first;
        if (halves()) return fine_node == 2 * node ? 0.5 : 0.25;
        const int64_t distance = fine_node * coarse_cells - node * fine_cells;
        return double((fine_cells - (distance < 0 ? -distance : distance)) * coarse_cells) /
               (double(fine_cells) * double(fine_cells));
    }
    // The coarse node at or below a fine one, and how far the fine one lies above it.
    int64_t below(int64_t node) const {
        if (collapses()) return 0;
        node += fine_first;
        const int64_t lower = same() ? node : halves() ? node >> 1 : floor_divide(node * coarse_cells, fine_cells);
        return std::clamp<int64_t>(lower - coarse_first, 0, coarse - 1);
    }
    double fraction(int64_t node) const {
        if (same() || collapses()) return 0;
        node += fine_first;
        if (halves()) return double(node & 1) / 2;
        const int64_t place = node * coarse_cells;
        return double(place - floor_divide(place, fine_cells) * fine_cells) / double(fine_cells);
    }
    // The coarse nodes that a fine one takes its value from, and their weights.
    struct Two {
        int64_t node[2];
        double weight[2];
    };
    Two two(int64_t node) const {
        if (entries) return {{index[2 * node], index[2 * node + 1]}, {factors[2 * node], factors[2 * node + 1]}};
        const double way = fraction(node);
        return {{below(node), next(below(node))}, {1 - way, way}};
    }
    // The coarse nodes that the fine ones [start, stop) take their values from, or more.
    Span sources(int64_t start, int64_t stop) const {
        if (!entries) return {below(start), std::min(below(stop - 1) + 2, coarse)};
        if (wraps) return {0, coarse};
        return {std::max<int64_t>(std::min<int64_t>(index[2 * start], start / 2 - 1), 0),
                std::min(std::max<int64_t>(index[2 * stop - 1], stop / 2 + 1) + 1, coarse)};
    }
    // The coarse node behind one.
    int64_t next(int64_t node) const { return node + 1 < coarse ? node + 1 : 0; }

private:
    Span of_table(int64_t node) const {
        int64_t count = entries;
        while (count > 1 && factors[entries * node + count - 1] == 0) --count;
        return {index[entries * node], index[entries * node] + count};
    }
    // The first coarse node whose middle lies at this fine node or behind it. The one of the last lies on the axis too.
    int64_t first_within(int64_t place) const {
        if (place >= fine) return coarse;
        int64_t low = 0, high = coarse;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (index[entries * middle] + entries / 2 < place)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
    static int64_t floor_divide(int64_t n, int64_t by) { return (n - (n % by + by) % by) / by; }
};

// Rows that are to be added up, each with a weight.
template <class T>
struct Mix {
    static constexpr int MOST = 64;
    int count = 0;
    const T* row[MOST];
    T weight[MOST];

    void add(const T* from, double factor) {
        row[count] = from;
        weight[count++] = T(factor);
    }
};

template <int N, class T>
inline void add_up_rows(const Mix<T>& mix, int64_t shift, int64_t width, T* to) {
    constexpr int64_t W = WIDE<T>;
    const T* row[N];
    Line<T> weight[N];
    for (int n = 0; n < N; ++n) {
        row[n] = mix.row[n] + shift;
        weight[n] = spread<W>(mix.weight[n]);
    }
    for (int64_t i = 0; i < width; i += W) {
        Line<T> sum = weight[0] * load<W>(row[0] + i);
        for (int n = 1; n < N; ++n) sum += weight[n] * load<W>(row[n] + i);
        store(to + i, sum);
    }
}

// to = the weighted sum of the rows, from the place `shift` on, in whole lines.
template <class T>
inline void add_up(const Mix<T>& mix, int64_t shift, int64_t width, T* to) {
    switch (mix.count) {
        case 1:
            return add_up_rows<1>(mix, shift, width, to);
        case 2:
            return add_up_rows<2>(mix, shift, width, to);
        case 3:
            return add_up_rows<3>(mix, shift, width, to);
        case 4:
            return add_up_rows<4>(mix, shift, width, to);
        case 9:
            return add_up_rows<9>(mix, shift, width, to);
        case 16:
            return add_up_rows<16>(mix, shift, width, to);
        default:
            break;
    }
    constexpr int64_t W = WIDE<T>;
    for (int64_t i = 0; i < width; i += W) {
        Line<T> sum = {};
        for (int n = 0; n < mix.count; ++n) sum += spread<W>(mix.weight[n]) * load<W>(mix.row[n] + shift + i);
        store(to + i, sum);
    }
}

constexpr int64_t RESTRICT_ENTRIES = 4, PROLONG_ENTRIES = 2, MOST_ENTRIES = 8;

// An axis x with the tables of one direction.
struct AlongX {
    Pairing pairing;
    const int32_t* index;
    const double* weight;
    const void* paired;
    TableGroups groups = {};
};

// The weights of a row of `paired`, of so many nodes each.
template <class T>
inline const T* paired_row(const AlongX& x, int64_t nodes, int64_t n) {
    return static_cast<const T*>(x.paired) + n * round_up(nodes, 16);
}

// The coarse nodes [start, stop) of a row from a row of fine nodes; both are counted from the first node of the grid.
// Where intervals halve, the values on both sides of the range are there, images where the grid ends; where nodes are
// paired, two of them behind.
template <class T>
inline void restrict_along_x(const AlongX& x, const T* __restrict fine, T* __restrict coarse, int64_t start,
                             int64_t stop) {
    if (x.pairing.same()) {
        std::copy(fine + start, fine + stop, coarse + start);
    } else if (x.pairing.halves()) {
        for (int64_t i = start; i < stop; ++i)
            coarse[i] = T(0.5) * fine[2 * i] + T(0.25) * (fine[2 * i - 1] + fine[2 * i + 1]);
    } else if (x.paired) {
        const T* const weight[4] = {paired_row<T>(x, x.pairing.coarse, 0), paired_row<T>(x, x.pairing.coarse, 1),
                                    paired_row<T>(x, x.pairing.coarse, 2), paired_row<T>(x, x.pairing.coarse, 3)};
#pragma omp simd
        for (int64_t i = start; i < stop; ++i)
            coarse[i] = (weight[0][i] * fine[2 * i - 1] + weight[1][i] * fine[2 * i]) +
                        (weight[2][i] * fine[2 * i + 1] + weight[3][i] * fine[2 * i + 2]);
    } else if (x.pairing.entries) {
        const int64_t entries = x.pairing.entries;
        for (int64_t i = start; i < stop; ++i) {
            const T* const from = fine + x.index[entries * i];
            const double* const weight = x.weight + entries * i;
            T sum = 0;
            for (int64_t n = 0; n < entries && weight[n] != 0; ++n) sum += T(weight[n]) * from[n];
            coarse[i] = sum;
        }
    } else {
        start = by_groups<RESTRICT_ENTRIES>(x.groups, fine, static_cast<const T*>(nullptr), coarse, start, stop);
        for (int64_t i = start; i < stop; ++i) {
            T sum = 0;
            // An entry without weight has an index that may lie elsewhere.
            for (int64_t n = RESTRICT_ENTRIES * i; n < RESTRICT_ENTRIES * (i + 1); ++n)
                if (x.weight[n] != 0) sum += T(x.weight[n]) * fine[x.index[n]];
            coarse[i] = sum;
        }
    }
}

// out = u + P coarse at the fine nodes [start, stop), start being even, where nodes are paired.
template <bool ADD, class T>
__attribute__((noinline)) void prolong_pairs(const AlongX& x, const T* __restrict coarse, const T* u, T* out,
                                             int64_t start, int64_t stop) {
    const int64_t count = (x.pairing.fine + 1) / 2, pairs = stop / 2;
    const T *const below = paired_row<T>(x, count, 0), *const here = paired_row<T>(x, count, 1),
                   *const there = paired_row<T>(x, count, 2), *const above = paired_row<T>(x, count, 3);
#pragma omp simd
    for (int64_t i = start / 2; i < pairs; ++i) {
        const T even = below[i] * coarse[i - 1] + here[i] * coarse[i];
        const T odd = there[i] * coarse[i] + above[i] * coarse[i + 1];
        out[2 * i] = ADD ? u[2 * i] + even : even;
        out[2 * i + 1] = ADD ? u[2 * i + 1] + odd : odd;
    }
    if (stop % 2)
        out[stop - 1] = (ADD ? u[stop - 1] : T(0)) + below[pairs] * coarse[pairs - 1] + here[pairs] * coarse[pairs];
}

// out = u + P coarse at the fine nodes [start, stop) of a row, start being even; without u it is zero. Where intervals
// halve, the coarse row goes on beyond a wrap face; where nodes are paired, on both sides. `out` may be u.
template <class T>
inline void prolong_along_x(const AlongX& x, const T* __restrict coarse, const T* u, T* out, int64_t start,
                            int64_t stop) {
    if (x.pairing.same()) {
        for (int64_t i = start; i < stop; ++i) out[i] = (u ? u[i] : T(0)) + coarse[i];
    } else if (x.pairing.halves()) {
        const int64_t pairs = stop / 2;
        if (u) {
#pragma omp simd
            for (int64_t i = start / 2; i < pairs; ++i) {
                out[2 * i] = u[2 * i] + coarse[i];
                out[2 * i + 1] = u[2 * i + 1] + T(0.5) * (coarse[i] + coarse[i + 1]);
            }
        } else {
#pragma omp simd
            for (int64_t i = start / 2; i < pairs; ++i) {
                out[2 * i] = coarse[i];
                out[2 * i + 1] = T(0.5) * (coarse[i] + coarse[i + 1]);
            }
        }
        if (stop % 2) out[stop - 1] = (u ? u[stop - 1] : T(0)) + coarse[pairs];
    } else if (x.paired) {
        u ? prolong_pairs<true>(x, coarse, u, out, start, stop) : prolong_pairs<false>(x, coarse, u, out, start, stop);
    } else {
        start = by_groups<PROLONG_ENTRIES>(x.groups, coarse, u, out, start, stop);
        for (int64_t i = start; i < stop; ++i) {
            const int64_t n = PROLONG_ENTRIES * i;
            out[i] =
                (u ? u[i] : T(0)) + (T(x.weight[n]) * coarse[x.index[n]] + T(x.weight[n + 1]) * coarse[x.index[n + 1]]);
        }
    }
}

// to = kept, or zero without it, at the nodes [start, stop) of a row that its mask fixes.
template <class T>
__attribute__((noinline)) void hold_masked(const T* mask, const T* kept, T* to, int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i)
        if (mask[i] < 0) to[i] = kept ? kept[i] : T(0);
}

// Two grids with the same rules; `tables` has those of one direction.
template <class T>
struct Grids {
    Local<T> coarse;
    const T* coarse_mask;
    AlongX x;
    Pairing y, z;

    // `direction` says how many entries the tables along x have for a node: of the finer grid, or of the coarser one.
    Grids(const poisson_operator& fine, const poisson_operator& coarse_, const poisson_transfer& tables,
          int64_t direction)
        : coarse(local<T>(&coarse_)),
          coarse_mask(mask_of<T>(&coarse_)),
          x{Pairing(fine, coarse_, tables, 0), tables.index[0], tables.weight[0], tables.paired},
          y(fine, coarse_, tables, 1),
          z(fine, coarse_, tables, 2) {
        const Pairing& along = x.pairing;
        if (!x.index || along.same() || along.halves() || along.entries || along.collapses()) return;
        const bool down = direction == RESTRICT_ENTRIES;
        x.groups =
            kept.make(x.index, x.weight, down ? along.coarse : along.fine, direction, down ? WIDE<T> / 2 : WIDE<T>);
    }

    bool fixed_row(int64_t j, int64_t k) const {
        return coarse.fixed(j, coarse.ny, 1) || (coarse.dimension == 3 && coarse.fixed(k, coarse.nz, 2));
    }
    // The rows of coarse values that make up a row of fine nodes.
    Mix<T> above(const T* values, int64_t j, int64_t k) const {
        Mix<T> mix;
        if (y.entries || z.entries) {
            add_by_tables(values, j, k, mix);
            return mix;
        }
        const double y_fraction = y.fraction(j), z_fraction = z.fraction(k);
        for (int64_t n = 0; n <= (z_fraction > 0); ++n) {
            const double by_z = n ? z_fraction : 1 - z_fraction;
            const int64_t row = y.below(j), plane = n ? z.next(z.below(k)) : z.below(k);
            mix.add(values + coarse.row(row, plane), by_z * (1 - y_fraction));
            if (y_fraction > 0) mix.add(values + coarse.row(y.next(row), plane), by_z * y_fraction);
        }
        return mix;
    }
    // Zeros at the fixed nodes among [start, stop) of a row of coarse values, which begins at `at`.
    void hold_fixed(T* values, int64_t at, int64_t start, int64_t stop) const {
        T* const row = values + at;
        if (coarse_mask) hold_masked(coarse_mask + at, static_cast<const T*>(nullptr), row, start, stop);
        if (start == 0 && coarse.rule(0) == FIXED) row[0] = 0;
        if (stop == coarse.nx && coarse.rule(1) == FIXED) row[stop - 1] = 0;
    }
    // Puts what restriction asks for beside a fine row that begins or ends: images, or zeros for tables.
    void end_fine_row(T* row, bool begins, bool ends) const {
        const int64_t fine = x.pairing.fine;
        if (x.pairing.entries) return end_row(row, fine, begins, ends);
        if (begins) row[-1] = x.pairing.wraps ? row[fine - 1] : row[1];
        if (ends) row[fine] = x.pairing.wraps ? row[0] : row[fine - 2];
    }
    // The same of interpolation beside a coarse row.
    void end_coarse_row(T* row, bool begins, bool ends) const {
        if (x.pairing.entries) return end_row(row, x.pairing.coarse, begins, ends);
        if (x.pairing.wraps) row[x.pairing.coarse] = row[0];
    }

private:
    KeptGroups<T> kept;

    __attribute__((noinline)) void add_by_tables(const T* values, int64_t j, int64_t k, Mix<T>& mix) const {
        const Pairing::Two of_y = y.two(j), of_z = z.two(k);
        for (int n = 0; n < 4; ++n) {
            const double weight = of_y.weight[n & 1] * of_z.weight[n >> 1];
            if (weight != 0) mix.add(values + coarse.row(of_y.node[n & 1], of_z.node[n >> 1]), weight);
        }
    }
    __attribute__((noinline)) void end_row(T* row, int64_t nodes, bool begins, bool ends) const {
        for (int64_t n = 1; n <= MOST_ENTRIES; ++n) {
            if (begins) row[-n] = x.pairing.wraps ? row[nodes - 1 - (n - 1) % nodes] : T(0);
            if (ends) row[nodes - 1 + n] = x.pairing.wraps ? row[(n - 1) % nodes] : T(0);
        }
    }
};

#endif
