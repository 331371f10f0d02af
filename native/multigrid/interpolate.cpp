// SPDX-License-Identifier: MIT
// From grid to grid by cubics: interpolate, by the tables of poisson/discrete/transfer.py.
#ifdef POISSON_OFFLOAD
#include "multigrid/gather.h"
#else
#include "multigrid/summed_rows.h"
#endif

namespace {

constexpr int64_t ENTRIES = 4;

#ifndef POISSON_OFFLOAD

// The axis x of both grids, with its tables.
template <class T>
struct CubicsAlongX {
    Pairing finer, coarser;  // the target as the finer one of the two grids, and as the coarser one
    const int32_t* index;
    const double* weight;
    bool tabulated;
    const T* paired;
    TableGroups groups = {};
    bool coincide = false;  // whether every other node, away from the ends, is one of the source

    CubicsAlongX(const Local<T>& source, const Local<T>& target, const poisson_transfer& tables)
        : finer(target.nx, source.nx, source.rule(0) == WRAP),
          coarser(source.nx, target.nx, source.rule(0) == WRAP),
          index(tables.index[0]),
          weight(tables.weight[0]),
          tabulated(tables.entries[0] != 0),
          paired(static_cast<const T*>(tables.paired)) {
        if (!paired && !tabulated && !finer.same() && !coarser.halves() && !finer.halves() && source.nx > ENTRIES)
            groups = kept.make(index, weight, finer.fine, ENTRIES, WIDE<T>);
        if (!paired || down()) return;
        coincide = true;
        for (int64_t i = 2; i < source.nx - 2; ++i) coincide &= row(0)[i] == 0 && row(1)[i] == 0 && row(3)[i] == 0;
    }
    bool down() const { return finer.fine < finer.coarse; }
    // The n-th row of `paired`.
    const T* row(int64_t n) const { return paired + n * round_up(down() ? finer.fine : (finer.fine + 1) / 2, 16); }

private:
    KeptGroups<T> kept;
};

// A row of the target from a row of the source.
template <class T>
inline void interpolate_along_x(const CubicsAlongX<T>& x, const T* __restrict from, T* __restrict to) {
    const int64_t few = x.finer.coarse, nodes = x.finer.fine;
    const auto by_table = [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            T sum = 0;
            for (int64_t n = ENTRIES * i; n < ENTRIES * (i + 1); ++n) sum += T(x.weight[n]) * from[x.index[n]];
            to[i] = sum;
        }
    };
    if (x.paired && x.down()) {
        const T *const w0 = x.row(0), *const w1 = x.row(1), *const w2 = x.row(2), *const w3 = x.row(3);
        by_table(0, 1);
#pragma omp simd
        for (int64_t i = 1; i < nodes - 1; ++i)
            to[i] =
                (w0[i] * from[2 * i - 1] + w1[i] * from[2 * i]) + (w2[i] * from[2 * i + 1] + w3[i] * from[2 * i + 2]);
        by_table(nodes - 1, nodes);
    } else if (x.paired) {
        const T *const w0 = x.row(4), *const w1 = x.row(5), *const w2 = x.row(6), *const w3 = x.row(7);
        const auto odd = [=](int64_t i) {
            return (w0[i] * from[i - 1] + w1[i] * from[i]) + (w2[i] * from[i + 1] + w3[i] * from[i + 2]);
        };
        by_table(0, 4);
        if (x.coincide) {
#pragma omp simd
            for (int64_t i = 2; i < few - 2; ++i) {
                to[2 * i] = from[i];
                to[2 * i + 1] = odd(i);
            }
        } else {
            const T *const v0 = x.row(0), *const v1 = x.row(1), *const v2 = x.row(2), *const v3 = x.row(3);
#pragma omp simd
            for (int64_t i = 2; i < few - 2; ++i) {
                to[2 * i] = (v0[i] * from[i - 2] + v1[i] * from[i - 1]) + (v2[i] * from[i] + v3[i] * from[i + 1]);
                to[2 * i + 1] = odd(i);
            }
        }
        by_table(2 * (few - 2), nodes);
    } else if (x.tabulated) {
        by_table(0, nodes);
    } else if (x.finer.same()) {
        std::copy(from, from + nodes, to);
    } else if (x.coarser.halves()) {
        for (int64_t i = 0; i < nodes; ++i) to[i] = from[2 * i];
    } else if (x.finer.halves()) {
        // Away from the ends every other node lies midway between two on each side.
        const int64_t last = std::max<int64_t>(1, few - 2);
        by_table(0, 2);
#pragma omp simd
        for (int64_t i = 1; i < last; ++i) {
            to[2 * i] = from[i];
            to[2 * i + 1] = T(0.5625) * (from[i] + from[i + 1]) - T(0.0625) * (from[i - 1] + from[i + 2]);
        }
        by_table(2 * last, nodes);
    } else {
        const int64_t first = by_groups<ENTRIES>(x.groups, from, static_cast<const T*>(nullptr), to, 0, nodes);
        by_table(first, nodes);
    }
}

// to = row, in whole lines.
template <class T>
inline void stream_row(const T* row, int64_t nodes, T* to) {
    for (int64_t i = 0; i < nodes; i += WIDE<T>) store_streaming(to + i, load<WIDE<T>>(row + i));
}

// Row by row: what a row of the target needs is put together along the other axes first, and along x last.
template <class T>
poisson_status interpolate(const poisson_operator* source_operator, const poisson_operator* target_operator,
                           const poisson_transfer* tables, bool everywhere, const T* values, T* out) {
    const Local<T> source = local<T>(source_operator), target = local<T>(target_operator);
    const bool solid = source.dimension == 3;
    const T* const mask = everywhere ? nullptr : mask_of<T>(target_operator);
    const CubicsAlongX<T> x(source, target, *tables);
    const bool stream = goes_around_cache(target.pitch * target.ny * target.nz * int64_t(sizeof(T)));
    const Tiling all(target);
    const int64_t read = round_up(source.pitch, WIDE<T>), written = round_up(target.pitch, WIDE<T>);
    const WorkingRows memory(all.count(), (read + written) * int64_t(sizeof(T)));
    if (!memory) return POISSON_OUT_OF_MEMORY;
    POISSON_REGION(all.nodes(), (), ())
    for (int64_t number = 0; number < all.count(); ++number) {
        T* const sums = memory.row<T>(number);
        for_each_row(target, all.tile(number), [&](int64_t j, int64_t k) {
            const bool fixed_row = target.fixed(j, target.ny, 1) || (solid && target.fixed(k, target.nz, 2));
            if (fixed_row && !everywhere) return;
            Mix<T> mix;
            for (int64_t n_z = ENTRIES * k; n_z < (solid ? ENTRIES * (k + 1) : 1); ++n_z) {
                const double by_plane = solid ? tables->weight[2][n_z] : 1;
                const int64_t plane = solid ? tables->index[2][n_z] : 0;
                for (int64_t n_y = ENTRIES * j; n_y < ENTRIES * (j + 1); ++n_y) {
                    const double weight = by_plane * tables->weight[1][n_y];
                    if (weight != 0) mix.add(values + source.row(tables->index[1][n_y], plane), weight);
                }
            }
            // By groups a row is read beyond its end.
            const bool alone = mix.count == 1 && mix.weight[0] == 1 && x.groups.size == 0;
            if (!alone) add_up(mix, 0, round_up(source.nx, WIDE<T>), sums);
            T* const row = out + target.row(j, k);
            if (solid && !stream) ask_to_write(row + 2 * target.pitch, target.nx);
            T* const to = stream || mask ? sums + read : row;
            const T first = row[0], last = row[target.nx - 1];
            interpolate_along_x(x, alone ? mix.row[0] : sums, to);
            if (!everywhere && target.rule(0) == FIXED) to[0] = first;
            if (!everywhere && target.rule(1) == FIXED) to[target.nx - 1] = last;
            if (mask) hold_masked(mask + target.row(j, k), static_cast<const T*>(row), to, 0, target.nx);
            if (mask && !stream) std::copy(to, to + target.nx, row);
            if (stream) {
                std::fill(to + target.nx, to + round_up(target.nx, WIDE<T>), T(0));
                stream_row(to, target.nx, row);
            }
        });
        if (stream) store_fence();
    }
    return POISSON_SUCCESS;
}

#else

template <int DIMENSION, class T>
poisson_status interpolate_on(const poisson_operator* source_operator, const poisson_operator* target_operator,
                              const poisson_transfer* tables, bool everywhere, const T* values, T* out) {
    POISSON_OPERATOR(T, source_operator, from);
    POISSON_OPERATOR(T, target_operator, to);
    const T* const mask = mask_of<T>(target_operator);
    const Tiling all = tiling_by_node(POISSON_LOCAL(T, to));
    const int64_t tiles = all.count();
    const int32_t *index_x = tables->index[0], *index_y = tables->index[1], *index_z = tables->index[2];
    const double *weight_x = tables->weight[0], *weight_y = tables->weight[1], *weight_z = tables->weight[2];
    POISSON_THREADS(number, tiles, all.nodes(), (POISSON_PARTS(from), POISSON_PARTS(to), everywhere),
                    (index_x, index_y, index_z, weight_x, weight_y, weight_z, values, out, mask)) {
        const Local<T> source = POISSON_LOCAL(T, from), target = POISSON_LOCAL(T, to);
        const Tile tile = tiling_by_node(target).tile(number);
        for_each_row(target, tile, [&](int64_t j, int64_t k) {
            const bool fixed_row = target.fixed(j, target.ny, 1) || (DIMENSION == 3 && target.fixed(k, target.nz, 2));
            T* row = out + target.row(j, k);
            for (int64_t i = tile.first; i < tile.last; ++i) {
                const bool of_mask = mask && mask[target.row(j, k) + i] < 0;
                if (!everywhere && (fixed_row || of_mask || target.fixed(i, target.nx, 0))) continue;
                row[i] = gather<DIMENSION, ENTRIES>(source, {}, index_x, weight_x, index_y, weight_y, index_z, weight_z,
                                                    values, i, j, k);
            }
        });
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status interpolate(const poisson_operator* source, const poisson_operator* target,
                           const poisson_transfer* tables, bool everywhere, const T* values, T* out) {
    return source->dimension == 2 ? interpolate_on<2>(source, target, tables, everywhere, values, out)
                                  : interpolate_on<3>(source, target, tables, everywhere, values, out);
}

#endif

template <class T>
poisson_status checked(const poisson_operator* source, const poisson_operator* target, const poisson_transfer* tables,
                       int32_t everywhere, const T* values, T* out) {
    if (!source || !target || !tables || !values || !out) return POISSON_BAD_ARGUMENT;
    return interpolate(source, target, tables, everywhere != 0, values, out);
}

}  // namespace

POISSON_EXPORT(interpolate,
               (const poisson_operator* source_operator, const poisson_operator* target_operator,
                const poisson_transfer* tables, int32_t everywhere, const real* source, real* out),
               target_operator, checked(source_operator, target_operator, tables, everywhere, source, out))
