// From grid to grid by cubics: interpolate, by the tables of poisson/transfer.py.
#include "gather.h"

#ifndef POISSON_OFFLOAD
#include <omp.h>

#include "kept.h"
#endif

namespace {

constexpr int64_t ENTRIES = 4;

#ifndef POISSON_OFFLOAD

// to = the sum of the rows of `from` that the tables name for this row of the target; only what has a weight is read.
template <class T>
inline void gather_rows(const Local<T>& from, const T* values, const int32_t* index_y, const double* weight_y,
                        const int32_t* index_z, const double* weight_z, T* to) {
    bool first = true;
    for (int64_t n_z = 0; n_z < ENTRIES; ++n_z) {
        for (int64_t n_y = 0; n_y < ENTRIES; ++n_y) {
            const T weight = T(weight_y[n_y]) * T(weight_z[n_z]);
            if (weight == 0) continue;
            const T* row = values + from.row(index_y[n_y], index_z[n_z]);
            if (first) {
                for (int64_t i = 0; i < from.nx; ++i) to[i] = weight * row[i];
            } else {
                for (int64_t i = 0; i < from.nx; ++i) to[i] += weight * row[i];
            }
            first = false;
        }
    }
}

// Row by row: what a row of the target needs is put together along the other axes first, which is done in packs, and
// along x last.
template <class T>
poisson_status interpolate(const poisson_operator* source_operator, const poisson_operator* target_operator,
                           const poisson_transfer* tables, bool everywhere, const T* values, T* out) {
    POISSON_OPERATOR(T, source_operator, from);
    POISSON_OPERATOR(T, target_operator, to);
    const Local<T> source = POISSON_LOCAL(T, from), target = POISSON_LOCAL(T, to);
    const bool solid = source.dimension == 3;
    const Tiling all(target);
    // A 2D grid has one plane.
    const int32_t plane[ENTRIES] = {};
    const double whole[ENTRIES] = {1.0};
    static KeptMemory kept;
    char* const memory = static_cast<char*>(kept.reserve(omp_get_max_threads(), source.pitch * int64_t(sizeof(T))));
    if (!memory) return POISSON_OUT_OF_MEMORY;
    POISSON_REGION(all.nodes(), (), ())
    for (int64_t number = 0; number < all.count(); ++number) {
        T* const gathered = reinterpret_cast<T*>(memory + kept.row_bytes * omp_get_thread_num());
        for_each_row(target, all.tile(number), [&](int64_t j, int64_t k) {
            const bool fixed_row = target.fixed(j, target.ny, 1) || (solid && target.fixed(k, target.nz, 2));
            if (fixed_row && !everywhere) return;
            gather_rows(source, values, tables->index[1] + ENTRIES * j, tables->weight[1] + ENTRIES * j,
                        solid ? tables->index[2] + ENTRIES * k : plane, solid ? tables->weight[2] + ENTRIES * k : whole,
                        gathered);
            T* const row = out + target.row(j, k);
            const int64_t start = !everywhere && target.rule(0) == FIXED,
                          stop = target.nx - (!everywhere && target.rule(1) == FIXED);
            for (int64_t i = start; i < stop; ++i) {
                const int32_t* index = tables->index[0] + ENTRIES * i;
                const double* weight = tables->weight[0] + ENTRIES * i;
                T sum = 0;
                for (int64_t n = 0; n < ENTRIES; ++n) sum += T(weight[n]) * gathered[index[n]];
                row[i] = sum;
            }
        });
    }
    return POISSON_SUCCESS;
}

#else

template <int DIMENSION, class T>
poisson_status interpolate_on(const poisson_operator* source_operator, const poisson_operator* target_operator,
                              const poisson_transfer* tables, bool everywhere, const T* values, T* out) {
    POISSON_OPERATOR(T, source_operator, from);
    POISSON_OPERATOR(T, target_operator, to);
    const Tiling all = tiling_by_node(POISSON_LOCAL(T, to));
    const int64_t tiles = all.count();
    const int32_t *index_x = tables->index[0], *index_y = tables->index[1], *index_z = tables->index[2];
    const double *weight_x = tables->weight[0], *weight_y = tables->weight[1], *weight_z = tables->weight[2];
    POISSON_THREADS(number, tiles, all.nodes(), (POISSON_PARTS(from), POISSON_PARTS(to), everywhere),
                    (index_x, index_y, index_z, weight_x, weight_y, weight_z, values, out)) {
        const Local<T> source = POISSON_LOCAL(T, from), target = POISSON_LOCAL(T, to);
        const Tile tile = tiling_by_node(target).tile(number);
        for_each_row(target, tile, [&](int64_t j, int64_t k) {
            const bool fixed_row = target.fixed(j, target.ny, 1) || (DIMENSION == 3 && target.fixed(k, target.nz, 2));
            T* row = out + target.row(j, k);
            for (int64_t i = tile.first; i < tile.last; ++i) {
                if (!everywhere && (fixed_row || target.fixed(i, target.nx, 0))) continue;
                row[i] = gather<DIMENSION, ENTRIES>(source, index_x, weight_x, index_y, weight_y, index_z, weight_z,
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

#define POISSON_DEFINE(real, suffix)                                                         \
    extern "C" poisson_status poisson_interpolate_##suffix(                                  \
        const poisson_operator* source_operator, const poisson_operator* target_operator,    \
        const poisson_transfer* tables, int32_t everywhere, const real* source, real* out) { \
        return checked(source_operator, target_operator, tables, everywhere, source, out);   \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
