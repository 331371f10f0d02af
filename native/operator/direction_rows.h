// SPDX-License-Identifier: MIT
// The direction of conjugate gradients on the host: d = z + beta p, and A d.
//
// A tile marches along the slowest axis. The rows (planes) of d around the one at hand stay in the cache, in a ring of
// three, where A finds them; memory gives z and p once and takes d and A d once. The rows beside a tile are computed by
// both neighbours.
#ifndef POISSON_DIRECTION_ROWS_H
#define POISSON_DIRECTION_ROWS_H

#include "core/kept.h"
#include "operator/packs.h"
#include "operator/rows.h"

template <class T>
struct Direction {
    const T *z, *p;
    T *out, *q;
    T beta;
};

// The rows of a ring along the slowest axis, and room before and behind each row.
constexpr int64_t RING = 3, PAD = 16;

// Longer tiles than others have, because the rows beside them cost.
constexpr int64_t DIRECTION_MARCH_2D = 256, DIRECTION_MARCH_3D = 64;

template <class T>
inline Tiling direction_tiling(const Local<T>& a) {
    Tiling tiling(a);
    tiling.march = a.dimension == 3 ? DIRECTION_MARCH_3D : DIRECTION_MARCH_2D;
    tiling.bands = (tiling.slowest + tiling.march - 1) / tiling.march;
    return tiling;
}

template <class T>
inline int64_t ring_stride(const Local<T>& a) {
    return a.pitch + 2 * PAD;
}

// One row of d, zero at fixed nodes and past the row, into the ring and, where it is the tile's own, into `out`.
template <class T, class Stream>
inline void direct_row(const Local<T>& a, const Direction<T>& direction, bool fixed, const T* mask, int64_t row,
                       T* ring, T* out, Stream stream) {
    const T *z = direction.z + row, *p = direction.p + row;
    const Pack<T> beta = spread(direction.beta);
    const bool reads = direction.beta != 0;
    for (int64_t i = 0; i < a.nx; i += LANES) {
        prefetch(z + i, FAR_AHEAD);
        if (reads) prefetch(p + i, FAR_AHEAD);
        const Pack<T> value = reads ? load(z + i) + beta * load(p + i) : load(z + i);
        Pack<T> d = only_free(a, fixed, i, value);
        if (mask) d = load(mask + row + i) < T(0) ? Pack<T>{} : d;
        store(ring + i, d);
        if (out) store_pack(stream, out + i, d);
    }
}

// The nodes of a tile; the dot product of d and A d.
template <int DIMENSION, Varies VARIES, class T, class Stream>
inline double direct_tile(const Local<T>& a, const Coefficients<T>& arrays, const Tile& tile,
                          const Direction<T>& direction, T* memory, Stream stream) {
    constexpr bool SOLID = DIMENSION == 3;
    // The rows of the middle axis with those beside the tile.
    const int64_t lines = SOLID ? tile.high - tile.low + 2 : 1, stride = ring_stride(a);
    const auto ring = [&](int64_t s, int64_t m) {
        const int64_t line = SOLID ? m - tile.low + 1 : 0;
        return memory + PAD + stride * ((s + RING - tile.start) % RING * lines + line);
    };
    const auto inner = [](int64_t index, int64_t n, int32_t lower, int32_t upper) {
        return index < 0 ? below(0, n, lower) : index >= n ? above(n - 1, n, upper) : index;
    };
    const int64_t slowest = SOLID ? a.nz : a.ny;
    const int axis = DIMENSION - 1;
    Sums sums = {0, 0};
    for (int64_t s = tile.start - 1; s <= tile.stop; ++s) {
        const int64_t at = inner(s, slowest, a.rule(2 * axis), a.rule(2 * axis + 1));
        const bool own = s >= tile.start && s < tile.stop;
        for (int64_t m = SOLID ? tile.low - 1 : 0; m < (SOLID ? tile.high + 1 : 1); ++m) {
            const int64_t j = SOLID ? inner(m, a.ny, a.rule(2), a.rule(3)) : at, k = SOLID ? at : 0;
            const bool writes = own && (!SOLID || (m >= tile.low && m < tile.high));
            const int64_t row = a.row(j, k);
            const T* const mask = tabulated(VARIES) ? arrays.mask : nullptr;
            direct_row(a, direction, fixed_row(a, j, k), mask, row, ring(s, m), writes ? direction.out + row : nullptr,
                       stream);
        }
        const int64_t v = s - 1;
        if (v < tile.start) continue;
        for (int64_t m = tile.low; m < tile.high; ++m) {
            const int64_t j = SOLID ? m : v, k = SOLID ? v : 0;
            Rows<T> rows;
            rows.centre = ring(v, m);
            rows.y_lower = SOLID ? ring(v, m - 1) : ring(v - 1, m);
            rows.y_upper = SOLID ? ring(v, m + 1) : ring(v + 1, m);
            rows.z_lower = SOLID ? ring(v - 1, m) : rows.centre;
            rows.z_upper = SOLID ? ring(v + 1, m) : rows.centre;
            rows.fixed = fixed_row(a, j, k);
            Sums of_row = {0, 0};
            visit_row<DIMENSION, Mode<PRODUCT, false, VARIES>>(
                a, rows, links_at<DIMENSION, VARIES>(a, arrays, j, k), static_cast<const T*>(nullptr),
                direction.q + a.row(j, k), Factors<T>{T(1), 0}, stream, of_row);
            if (a.counts(j, k))
                sums.sum += width_of_row(a, tabulated(VARIES) ? arrays.widths : nullptr, j, k) * of_row.sum;
        }
    }
    end_of_streaming(stream);
    return sums.sum;
}

template <int DIMENSION, Varies VARIES, class T>
inline poisson_status direction_of(const poisson_operator* operator_, const T* z, double beta, const T* p, T* out, T* q,
                                   double* result) {
    const Direction<T> direction = {z, p, out, q, T(beta)};
    POISSON_COEFFICIENTS(T, operator_, a);
    const Local<T> a = local<T>(operator_);
    const Coefficients<T> arrays = POISSON_VARYING(T, a);
    const Tiling tiling = direction_tiling(a);
    const bool stream = goes_around_cache(a.pitch * a.ny * a.nz * int64_t(sizeof(T)));
    const int64_t tiles = tiling.count(), lines = DIMENSION == 3 ? tiling.block + 2 : 1;
    double* partial = partial_results(tiles);
    const WorkingRows memory(tiles, RING * lines * ring_stride(a) * int64_t(sizeof(T)));
    if (!partial || !memory) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, tiles, tiling.nodes(), (), ()) {
        const double sum = with_stream<VARIES == NOTHING>(stream, [&](auto chosen) {
            return direct_tile<DIMENSION, VARIES>(a, arrays, tiling.tile(number), direction, memory.row<T>(number),
                                                  chosen);
        });
        keep_pair(partial, number, tiles, sum, 0, result);
    }
    join_partials(partial, tiles, result);
    return POISSON_SUCCESS;
}

#endif
