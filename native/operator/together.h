// SPDX-License-Identifier: MIT
// The nodes of a tile on the host: whole rows, of which neighbouring ones are computed together where the coefficients
// are constant.
#ifndef POISSON_TOGETHER_H
#define POISSON_TOGETHER_H

#include "operator/rows.h"

// Rows that are computed together, neighbours along the slowest axis: each but the first and the last is read once for
// itself and both of its neighbours.
constexpr int64_t TOGETHER = 4;

// Whether values go through the cache, around it, or nowhere: then the norms alone are wanted.
enum Stores { NEAR, AROUND, NONE };

// How far ahead memory is asked for: in 3D the row after the next one of each plane; in 2D a group of rows, as less
// would be a row that is computed now, or in the row where the groups fill too much of the second cache. Operations for
// which that is no gain have a constant, which takes no register.
template <int DIMENSION, class M, class T>
inline auto far_ahead(const Local<T>& a) {
    constexpr int64_t MOST_BYTES = 131072, IN_ROW = 512 / int64_t(sizeof(T));
    if constexpr (DIMENSION == 3)
        return 2 * a.pitch;
    else if constexpr (M::KIND == APPLY || (M::KIND == RELAX && sizeof(T) == 8))
        return std::integral_constant<int64_t, IN_ROW>();
    else
        return TOGETHER * a.pitch * int64_t(sizeof(T)) <= MOST_BYTES ? TOGETHER * a.pitch : IN_ROW;
}

// Whether rows may be computed together: in float32 those of planes that begin in the same set of the first cache would
// drive each other out of it.
template <int DIMENSION, class T>
inline bool lie_apart(const Local<T>& a) {
    constexpr int64_t SETS_BYTES = 4096;
    return DIMENSION == 2 || sizeof(T) == 8 || a.pitch * a.ny * int64_t(sizeof(T)) % SETS_BYTES != 0;
}

// Neighbouring rows along the slowest axis, of which `rows` has the first: none of them lies on a face of that axis.
// Several streams from memory hide more of its latency than one, and in 3D a row comes from the second cache half as
// often as for its plane and for each of the two beside it.
//
// The rows of f are as far apart as those of u, or, where nothing is written, `f_stride` values: one distance for all
// takes fewer registers.
template <int DIMENSION, class M, Stores STORES, class T, class O>
__attribute__((noinline)) void visit_together(const Local<T>& a, const Rows<T>& rows, const T* f, int64_t f_stride,
                                              O* out, const Factors<T>& factors, Sums& sums) {
    constexpr int64_t G = TOGETHER;
    constexpr bool SOLID = DIMENSION == 3;
    const T *const u = rows.centre, *const lower = rows.y_lower, *const upper = rows.y_upper;
    const int64_t stride = SOLID ? a.pitch * a.ny : a.pitch;
    const auto ahead = far_ahead<DIMENSION, M>(a);
    const int64_t last = a.nx - 1, last_pack = last / LANES * LANES, f_step = STORES == NONE ? f_stride : stride;
    // The values at the ends of the rows, and their norms.
    O at_first[G], at_last[G];
    Sums of_first[G] = {}, of_last[G] = {};
    for (int64_t g = 0; g < G; ++g) {
        const int64_t at = g * stride;
        if constexpr (M::KIND == APPLY) {
            at_first[g] = out[at], at_last[g] = out[at + last];
        } else {
            const T *const before = u + at - stride, *const behind = u + at + stride;
            const Rows<T> row = {u + at, SOLID ? lower + at : before, SOLID ? upper + at : behind, before, behind,
                                 false};
            const auto end_value = [&](int64_t i, Sums& into) {
                return node_value<DIMENSION, M>(a, row, RowLinks<T>{}, f ? f + g * f_step : nullptr, O(0), factors, i,
                                                into);
            };
            at_first[g] = end_value(0, of_first[g]), at_last[g] = end_value(last, of_last[g]);
        }
    }
    const Weights<T> w(a, factors.scale);
    const Pack<T> weight[3] = {w.x, w.y, w.z}, lane = lane_numbers<T>();
    PackNorms norms[G];
    Pack<T> before[G], here[G];
    for (int64_t g = 0; g < G; ++g) {
        before[g] = load(u + g * stride - LANES);
        here[g] = load(u + g * stride);
    }
    const auto step = [&](int64_t i, auto at_an_end) __attribute__((always_inline)) {
        Pack<T> below = load(u - stride + i);
        const Pack<T> behind_all = load(u + G * stride + i);
#pragma GCC unroll 4
        for (int64_t g = 0; g < G; ++g) {
            const int64_t at = g * stride + i, f_at = g * f_step + i;
            prefetch(u + at + stride, ahead);
            if (M::TAKES_SOURCE && f) prefetch(f + f_at, ahead);
            // A store of a line that is in no cache waits as long as a load.
            if (SOLID && STORES == NEAR) __builtin_prefetch(out + at + ahead, 1, 3);
            const Pack<T> middle = here[g], behind = load(u + at + LANES), above = g + 1 < G ? here[g + 1] : behind_all;
            const Pack<T> neighbour[6] = {left_of(u + at, before[g], middle),
                                          right_of(u + at, middle, behind),
                                          SOLID ? load(lower + at) : below,
                                          SOLID ? load(upper + at) : above,
                                          below,
                                          above};
            const Applied<Pack<T>> applied = {apply_operator<DIMENSION>(middle, neighbour, weight, w.c), Pack<T>{}};
            Pack<T> r = {};
            if (M::TAKES_SOURCE) r = f ? residual_of(load(f + f_at), applied.au) : -applied.au;
            Pack<T> value = written<M>(middle, applied, r, w.scale);
            if constexpr (at_an_end) {
                const auto inside = (lane > T(-i)) & (lane < T(last - i));
                value = inside                ? value
                        : lane == T(last - i) ? spread(T(at_last[g]))
                        : lane == T(-i)       ? spread(T(at_first[g]))
                                              : Pack<T>{};
                r = inside ? r : Pack<T>{};
            }
            if (STORES != NONE) put(out + at, value, STORES == AROUND);
            if (M::NORM) norms[g].template add<T>(r);
            below = middle;
            before[g] = middle;
            here[g] = behind;
        }
    };
    step(0, std::true_type());
    for (int64_t i = LANES; i < last_pack; i += LANES) step(i, std::false_type());
    if (last_pack == last && last > 0) {
        for (int64_t g = 0; STORES != NONE && g < G; ++g)
            put(out + g * stride + last, lane == T(0) ? spread(T(at_last[g])) : Pack<T>{}, STORES == AROUND);
    } else if (last_pack > 0) {
        step(last_pack, std::true_type());
    }
    // Row by row, as `certify` adds up.
    for (int64_t g = 0; M::NORM && g < G; ++g) {
        const Sums ends[] = {of_first[g], last > 0 ? of_last[g] : Sums{}};
        for (const Sums& end : ends) {
            sums.sum += end.sum;
            sums.maximum = end.maximum > sums.maximum ? end.maximum : sums.maximum;
        }
        norms[g].join(sums.sum, sums.maximum);
    }
}

// Calls visit(m, start, stop) for rows of a tile along the slowest axis, TOGETHER of them where none lies on a face, at
// a place m of the middle axis: the order in which `residual` and `certify` add up.
template <int DIMENSION, class T, class Visit>
inline void for_each_group(const Local<T>& a, const Tile& tile, Visit visit) {
    const int64_t slowest = DIMENSION == 2 ? a.ny : a.nz;
    for (int64_t start = tile.start, stop; start < tile.stop; start = stop) {
        const bool inner =
            lie_apart<DIMENSION>(a) && start > 0 && start + TOGETHER < slowest && start + TOGETHER <= tile.stop;
        stop = inner ? start + TOGETHER : start + 1;
        for (int64_t m = tile.low; m < tile.high; ++m) visit(m, start, stop);
    }
}

// From so many bytes of u on, `defect` in 3D goes around the cache: with u and f, what it leaves does not stay there.
constexpr int64_t DEFECT_BYTES = int64_t{8} << 20;

// The nodes of a tile. With APPLY those on the faces keep their values.
template <int DIMENSION, class M, class T, class O>
inline void visit_tile(const Local<T>& a, const Coefficients<T>& arrays, const Tile& tile, const T* u, const T* f,
                       O* out, const Factors<T>& factors, double& sum, double& maximum) {
    const int64_t bytes = a.pitch * a.ny * a.nz * int64_t(sizeof(T));
    const bool stream =
        M::KIND != COLOR && (goes_around_cache(bytes) || (DIMENSION == 3 && M::KIND == DEFECT && bytes > DEFECT_BYTES));
    Sums sums = {sum, maximum}, of_others = {0, 0};
    const auto visit_rows = [&](auto chosen) {
        const auto visit_one = [&](int64_t j, int64_t k) {
            const bool on_face = j == 0 || j == a.ny - 1 || (DIMENSION == 3 && (k == 0 || k == a.nz - 1));
            if (M::KIND == APPLY && on_face) return;
            const int64_t row = a.row(j, k);
            const Factors<T> of_row = {factors.scale, M::KIND == COLOR ? int32_t(factors.color + j + k) & 1 : 0};
            visit_row<DIMENSION, M>(a, rows_at<DIMENSION>(a, u, j, k), links_at<DIMENSION, M::VARIES>(a, arrays, j, k),
                                    f ? f + row : nullptr, out + row, of_row, chosen,
                                    a.counts(j, k) ? sums : of_others);
        };
        if constexpr (M::VARIES == NOTHING && M::KIND != COLOR && M::KIND != PRODUCT &&
                      !(DIMENSION == 3 && M::KIND == APPLY)) {
            const auto j = [](int64_t at, int64_t m) { return DIMENSION == 2 ? at : m; };
            const auto k = [](int64_t at) { return DIMENSION == 2 ? 0 : at; };
            for_each_group<DIMENSION>(a, tile, [&](int64_t m, int64_t start, int64_t stop) {
                const int64_t first = j(start, m), plane = k(start), row = a.row(first, plane);
                const Rows<T> rows = rows_at<DIMENSION>(a, u, first, plane);
                if (stop - start == TOGETHER && !rows.fixed && a.counts(first, plane) &&
                    a.counts(j(stop - 1, m), k(stop - 1))) {
                    constexpr Stores STORES = decltype(chosen)::value ? AROUND : NEAR;
                    visit_together<DIMENSION, M, STORES>(a, rows, f ? f + row : nullptr, 0, out + row, factors, sums);
                } else {
                    for (int64_t at = start; at < stop; ++at) visit_one(j(at, m), k(at));
                }
            });
        } else {
            for_each_row(a, tile, visit_one);
        }
    };
    with_stream<M::VARIES == NOTHING && M::KIND != COLOR>(stream, visit_rows);
    sum = sums.sum;
    maximum = sums.maximum;
    if (stream) store_fence();
}

#endif
