// SPDX-License-Identifier: MIT
// The nodes of a tile on a GPU: a pack of columns, along which a thread marches.
//
// The lower neighbour, the node and the upper neighbour along the slowest axis stay in registers, so that u is read
// once from memory. All that some rows need is loaded before the first of them is written: a load behind a store would
// wait.
#ifndef POISSON_MARCH_H
#define POISSON_MARCH_H

#include "operator/packs.h"

// A thread has registers for links even where there are none: so where c alone varies there is a form without.
constexpr bool REACTION_APART = true;

// Rows whose loads are under way together, in 2D and 3D, and where the norms are made, whose sums need registers too:
// more rows at once would let fewer threads be resident.
constexpr int32_t ROWS_2D = 4, ROWS_3D = 2, ROWS_NORM_2D = 1, ROWS_NORM_3D = 1;

template <int DIMENSION, class M>
using Together = std::integral_constant<int32_t, linked(M::VARIES) || tabulated(M::VARIES) ? 1
                                                 : DIMENSION == 2 ? (M::NORM ? ROWS_NORM_2D : ROWS_2D)
                                                                  : (M::NORM ? ROWS_NORM_3D : ROWS_3D)>;
using Alone = std::integral_constant<int32_t, 1>;

// The values beside those of a pack: `left` of the first and `right` of the last node of the pack or the row.
template <class T>
struct Sides {
    Pack<T> left, right;
};

template <class T>
inline Sides<T> sides_of(Pack<T> centre, T left, T right, int32_t last) {
    Sides<T> sides;
    for (int32_t lane = 0; lane < WIDTH<T>; ++lane) {
        sides.left[lane] = lane == 0 ? left : centre[lane > 0 ? lane - 1 : 0];
        sides.right[lane] = lane == WIDTH<T> - 1 || lane == last ? right : centre[lane < WIDTH<T> - 1 ? lane + 1 : 0];
    }
    return sides;
}

// A pack in the type of the array that it goes to.
template <class O, class P>
inline void put_pack(O* to, P pack) {
    if constexpr (std::is_same_v<P, Pack<O>>) {
        store_streaming(to, pack);
    } else {
        for (int32_t lane = 0; lane < int32_t(sizeof pack / sizeof pack[0]); ++lane) to[lane] = O(pack[lane]);
    }
}

template <int DIMENSION, class M, class T, class O>
inline void visit_tile(const Local<T>& a, const Coefficients<T>& arrays, const Tile& tile, const T* u, const T* f,
                       O* out, const Factors<T>& factors, double& sum, double& maximum) {
    constexpr bool SOLID = DIMENSION == 3;
    constexpr int32_t AXIS = DIMENSION - 1;
    const int32_t nx = int32_t(a.nx), i = int32_t(tile.first), j = int32_t(tile.low);
    const int32_t slowest = int32_t(SOLID ? a.nz : a.ny), start = int32_t(tile.start), stop = int32_t(tile.stop);
    const int64_t stride = SOLID ? a.pitch * a.ny : a.pitch, column = i + (SOLID ? a.pitch * j : 0);
    if (start >= stop || (SOLID && (j >= a.ny || (M::KIND == APPLY && (j == 0 || j == a.ny - 1))))) return;
    constexpr bool VARYING = M::VARIES != NOTHING, LINKED = linked(M::VARIES);

    // The neighbours across faces: of this pack in x, of this column in the middle axis, of the ends of the slowest.
    const int64_t to_left = below(i, nx, a.rule(0)) - i;
    const int64_t to_right = (i + WIDTH<T> < nx ? i + WIDTH<T> : above(nx - 1, nx, a.rule(1))) - i;
    const int64_t to_y_lower = a.pitch * (below(j, a.ny, a.rule(2)) - j);
    const int64_t to_y_upper = a.pitch * (above(j, a.ny, a.rule(3)) - j);
    const int64_t above_last = above(slowest - 1, slowest, a.rule(2 * AXIS + 1));

    // The lanes whose residual counts: nodes of the row that no face in x or in the middle axis fixes.
    const int32_t last = nx - 1 - i;
    bool free_lane[WIDTH<T>];
    for (int32_t lane = 0; lane < WIDTH<T>; ++lane)
        free_lane[lane] = lane <= last && !a.fixed(i + lane, nx, 0) && !(SOLID && a.fixed(j, a.ny, 1));

    Pack<T> lower = load_constant(u + column + stride * below(start, slowest, a.rule(2 * AXIS)));
    Pack<T> centre = load_constant(u + column + stride * start);
    const T* at = u + column + stride * start;
    // Without f something is read that is in the cache already, rather than to branch between the loads.
    const T* source_at = f ? f + column + stride * start : at;
    O* to = out + column + stride * start;
    // The coefficients at this place: c, and the links along x and, in 3D, to both sides along y. The links along the
    // slowest axis are passed on from row to row as the values are.
    const T* c_at = VARYING && arrays.c ? arrays.c + column + stride * start : at;
    const T* x_at = LINKED ? arrays.x + column - i + stride * start : at;
    const T *y_links = LINKED && SOLID ? arrays.y + i + stride * start : at, *slow_links = SOLID ? arrays.z : arrays.y;
    const int64_t to_y_link_lower = a.pitch * link_below(j, a.ny, a.rule(2));
    const int64_t to_y_link_upper = a.pitch * link_above(j, a.ny, a.rule(3));
    Pack<T> lower_link = {};
    if (LINKED) lower_link = load_constant(slow_links + column + stride * link_below(start, slowest, a.rule(2 * AXIS)));
    const auto visit_rows = [&](auto together, int32_t row) {
        constexpr int32_t ROWS = decltype(together)::value;
        Pack<T> upper[ROWS], source[ROWS], y_lower[ROWS], y_upper[ROWS];
        T left[ROWS], right[ROWS];
        [[maybe_unused]] Pack<T> c[ROWS], y_link_lower[ROWS], y_link_upper[ROWS], upper_link[ROWS];
        [[maybe_unused]] LinkPacks<T> x_links[ROWS];
#pragma GCC unroll 8
        for (int32_t n = 0; n < ROWS; ++n) {
            upper[n] =
                load_constant(n == ROWS - 1 && row + n == slowest - 1 ? u + column + stride * above_last : at + stride);
            left[n] = load_constant_value(at + to_left);
            right[n] = load_constant_value(at + to_right);
            if (SOLID) {
                y_lower[n] = load_constant(at + to_y_lower);
                y_upper[n] = load_constant(at + to_y_upper);
            }
            if (M::TAKES_SOURCE) source[n] = load_constant(source_at);
            if constexpr (VARYING) c[n] = load_constant(c_at);
            if constexpr (LINKED) {
                x_links[n] = links_along_x(a, x_at, i);
                upper_link[n] =
                    load_constant(slow_links + column + stride * link_above(row + n, slowest, a.rule(2 * AXIS + 1)));
                if (SOLID) {
                    y_link_lower[n] = load_constant(y_links + to_y_link_lower);
                    y_link_upper[n] = load_constant(y_links + to_y_link_upper);
                }
                x_at += stride;
                y_links += stride;
            }
            at += stride;
            source_at += stride;
            if (VARYING) c_at += stride;
        }
#pragma GCC unroll 8
        for (int32_t n = 0; n < ROWS; ++n) {
            const int32_t s = row + n;
            const Sides<T> sides = sides_of(centre, left[n], right[n], last);
            Applied<Pack<T>> applied = {};
            bool of_mask[WIDTH<T>] = {};
            const Pack<T> neighbour[6] = {
                sides.left, sides.right, SOLID ? y_lower[n] : lower, SOLID ? y_upper[n] : upper[n], lower, upper[n]};
            const Pack<T> weight[3] = {spread(a.weight_x), spread(a.weight_y), spread(a.weight_z)};
            if constexpr (VARYING) {
                Pack<T> link[6] = {};
                if (LINKED) {
                    link[0] = x_links[n].lower;
                    link[1] = x_links[n].upper;
                    link[2] = SOLID ? y_link_lower[n] : lower_link;
                    link[3] = SOLID ? y_link_upper[n] : upper_link[n];
                    link[4] = lower_link;
                    link[5] = upper_link[n];
                }
                const Pack<T> c_here = arrays.c ? c[n] : spread(a.c);
                Pack<T> table[9] = {};
                tables_of<DIMENSION, M::VARIES>(
                    links_at<DIMENSION, without_links(M::VARIES)>(a, arrays, SOLID ? j : s, SOLID ? s : 0), i, table,
                    [](const T* from) { return load_constant(from); });
                applied = apply_varying<DIMENSION, M::VARIES>(centre, neighbour, link, table, weight, c_here);
                if (tabulated(M::VARIES) && arrays.mask) {
                    for (int32_t lane = 0; lane < WIDTH<T>; ++lane) {
                        of_mask[lane] = c_here[lane] < T(0);
                        applied.au[lane] = of_mask[lane] ? T(0) : applied.au[lane];
                        applied.diagonal[lane] = of_mask[lane] ? T(1) : applied.diagonal[lane];
                    }
                }
            } else {
                applied.au = apply_operator<DIMENSION>(centre, neighbour, weight, spread(a.c));
            }
            const Pack<T> au = applied.au;
            if constexpr (M::KIND == APPLY) {
                // Nodes on the faces keep their values.
                if (s > 0 && s < slowest - 1) {
                    if (i > 0 && WIDTH<T> <= last) {
                        put_pack(to, au);
                    } else {
                        for (int32_t lane = 0; lane < WIDTH<T>; ++lane)
                            if (i + lane > 0 && lane < last) to[lane] = au[lane];
                    }
                }
            } else {
                const bool free_row = !a.fixed(s, slowest, AXIS);
                [[maybe_unused]] const bool counts = !M::NORM || a.counts(SOLID ? j : s, SOLID ? s : 0);
                Pack<T> r = f ? residual_of(source[n], au) : -au;
                for (int32_t lane = 0; lane < WIDTH<T>; ++lane) {
                    const bool colored = M::KIND != COLOR || ((i + lane + j + s) & 1) == factors.color;
                    r[lane] = free_row && free_lane[lane] && !of_mask[lane] && colored ? r[lane] : T(0);
                    if (M::NORM && counts) {
                        const double x = r[lane], size = x < 0 ? -x : x;
                        sum += x * x;
                        maximum = size > maximum ? size : maximum;
                    }
                }
                put_pack(to, written<M>(centre, applied, r, spread(factors.scale)));
            }
            lower = centre;
            centre = upper[n];
            if (LINKED) lower_link = upper_link[n];
            to += stride;
        }
    };
    using Batch = Together<DIMENSION, M>;
    int32_t row = start;
#pragma GCC unroll 1
    for (; row + Batch::value <= stop; row += Batch::value) visit_rows(Batch{}, row);
#pragma GCC unroll 1
    for (; row < stop; ++row) visit_rows(Alone{}, row);
}

#endif
