// SPDX-License-Identifier: MIT
// The direction of conjugate gradients on a GPU: d = z + beta p, and A d.
//
// A thread marches along the slowest axis with d of three rows in registers. What it needs of d beside its pack it
// computes from z and p, which the cache has, because the threads beside it read them.
#ifndef POISSON_DIRECTION_MARCH_H
#define POISSON_DIRECTION_MARCH_H

#include "operator/march.h"

template <class T>
struct Direction {
    const T *z, *p;
    T *out, *q;
    T beta;

    // d at a pack of nodes or at one of them, not yet zero where nodes are fixed.
    Pack<T> pack(int64_t at) const {
        const Pack<T> value = load_constant(z + at);
        return beta == 0 ? value : value + spread(beta) * load_constant(p + at);
    }
    T value(int64_t at) const {
        const T value = load_constant_value(z + at);
        return beta == 0 ? value : value + beta * load_constant_value(p + at);
    }
};

template <int DIMENSION, Varies VARIES, class T>
inline double direct_tile(const Local<T>& a, const Coefficients<T>& arrays, const Tile& tile,
                          const Direction<T>& direction) {
    constexpr bool SOLID = DIMENSION == 3, LINKED = linked(VARIES);
    constexpr int32_t AXIS = DIMENSION - 1;
    const int32_t nx = int32_t(a.nx), i = int32_t(tile.first), column_j = int32_t(tile.low);
    const int32_t slowest = int32_t(SOLID ? a.nz : a.ny), start = int32_t(tile.start), stop = int32_t(tile.stop);
    if (start >= stop || (SOLID && column_j >= a.ny)) return 0;
    const auto j_of = [&](int32_t s) { return SOLID ? column_j : s; };
    const auto k_of = [&](int32_t s) { return SOLID ? s : 0; };
    const T* const mask = tabulated(VARIES) ? arrays.mask : nullptr;
    const auto unmasked = [&](Pack<T> pack, int64_t at) {
        for (int32_t lane = 0; mask && lane < WIDTH<T>; ++lane) pack[lane] = mask[at + lane] < 0 ? T(0) : pack[lane];
        return pack;
    };
    // d at this column, in any row of the two other axes.
    const auto at_row = [&](int64_t j, int64_t k) {
        const int64_t at = a.row(j, k) + i;
        return unmasked(only_free(a, fixed_row(a, j, k), i, direction.pack(at)), at);
    };
    const auto at_level = [&](int64_t s) { return at_row(SOLID ? column_j : s, SOLID ? s : 0); };
    const int64_t left = below(i, nx, a.rule(0)), end = i + WIDTH<T> < nx ? i + WIDTH<T> - 1 : nx - 1;
    const int64_t right = above(end, nx, a.rule(1));
    const bool left_free = !a.fixed(left, nx, 0), right_free = !a.fixed(right, nx, 0);

    Pack<T> lower = at_level(below(start, slowest, a.rule(2 * AXIS)));
    Pack<T> centre = at_level(start);
    PackTotals<T> totals;
    for (int32_t s = start; s < stop; ++s) {
        const int64_t j = j_of(s), k = k_of(s), row = a.row(j, k);
        const bool fixed = fixed_row(a, j, k);
        const Pack<T> upper = at_level(above(s, slowest, a.rule(2 * AXIS + 1)));
        const auto beside = [&](int64_t at, bool is_free) {
            return is_free && !fixed && !(mask && mask[at] < 0) ? direction.value(at) : T(0);
        };
        const T before = beside(row + left, left_free), behind = beside(row + right, right_free);
        const Sides<T> sides = sides_of(centre, before, behind, nx - 1 - i);
        Pack<T> y_lower = lower, y_upper = upper;
        if (SOLID) {
            y_lower = at_row(below(j, a.ny, a.rule(2)), k);
            y_upper = at_row(above(j, a.ny, a.rule(3)), k);
        }
        const Pack<T> neighbour[6] = {sides.left, sides.right, y_lower, y_upper, lower, upper};
        const Pack<T> weight[3] = {spread(a.weight_x), spread(a.weight_y), spread(a.weight_z)};
        Pack<T> link[6] = {};
        if (LINKED) {
            const LinkPacks<T> x = links_along_x(a, arrays.x + row, i);
            link[0] = x.lower;
            link[1] = x.upper;
            link[2] = load_constant(arrays.y + a.row(link_below(j, a.ny, a.rule(2)), k) + i);
            link[3] = load_constant(arrays.y + a.row(link_above(j, a.ny, a.rule(3)), k) + i);
            if (SOLID) {
                link[4] = load_constant(arrays.z + a.row(j, link_below(k, a.nz, a.rule(4))) + i);
                link[5] = load_constant(arrays.z + a.row(j, link_above(k, a.nz, a.rule(5))) + i);
            }
        }
        const Pack<T> c = VARIES != NOTHING && arrays.c ? load_constant(arrays.c + row + i) : spread(a.c);
        Pack<T> table[9] = {};
        tables_of<DIMENSION, VARIES>(links_at<DIMENSION, without_links(VARIES)>(a, arrays, j, k), i, table,
                                     [](const T* from) { return load_constant(from); });
        const Applied<Pack<T>> applied = apply_varying<DIMENSION, VARIES>(centre, neighbour, link, table, weight, c);
        const Pack<T> product = unmasked(only_free(a, fixed, i, applied.au), row + i);
        const double* const widths = tabulated(VARIES) ? arrays.widths : nullptr;
        const double* const along_x = widths ? widths + a.table(0, 1) : nullptr;
        if (a.counts(j, k)) totals.add_product(a, along_x, i, width_of_row(a, widths, j, k), centre, product);
        store_streaming(direction.out + row + i, centre);
        store_streaming(direction.q + row + i, product);
        lower = centre;
        centre = upper;
    }
    double sum = 0, maximum = 0;
    totals.join(sum, maximum);
    return sum;
}

template <int DIMENSION, Varies VARIES, class T>
inline poisson_status direction_of(const poisson_operator* operator_, const T* z, double beta, const T* p, T* out, T* q,
                                   double* result) {
    POISSON_OPERATOR(T, operator_, a);
    POISSON_COEFFICIENTS(T, operator_, a);
    const T factor = T(beta);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t threads = reduction_threads(all.count());
    double* partial = partial_results(threads);
    if (!partial) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, threads, all.nodes(), (POISSON_PARTS(a), threads, factor),
                    (z, p, out, q, partial, result, POISSON_ARRAYS(a))) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Coefficients<T> arrays = POISSON_VARYING(T, a);
        const Direction<T> direction = {z, p, out, q, factor};
        double sum = 0;
        for_each_tile(Tiling(local), number, threads,
                      [&](const Tile& tile) { sum += direct_tile<DIMENSION, VARIES>(local, arrays, tile, direction); });
        keep_pair(partial, number, threads, sum, 0, result);
    }
    join_partials(partial, threads, result);
    return POISSON_SUCCESS;
}

#endif
