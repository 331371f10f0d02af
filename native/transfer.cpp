// Between two grids on the same box: restrict and prolong_add, by the tables of poisson/transfer.py.
#include "regions.h"

namespace {

constexpr int64_t RESTRICT_ENTRIES = 4;
constexpr int64_t PROLONG_ENTRIES = 2;

// The weighted sum over `from` at the node (i, j, k) of another grid. In 2D the z axis has one entry of weight one.
template <int DIMENSION, int64_t ENTRIES, class T>
inline T gather(const Local<T>& from, const int32_t* index_x, const double* weight_x, const int32_t* index_y,
                const double* weight_y, const int32_t* index_z, const double* weight_z, const T* values, int64_t i,
                int64_t j, int64_t k) {
    // Of four weights one or more are zero; of two, seldom any: then a branch costs more than what it saves.
    constexpr bool SOLID = DIMENSION == 3, SKIP = ENTRIES > 2;
    T sum = 0;
    for (int64_t n_z = 0; n_z < (SOLID ? ENTRIES : 1); ++n_z) {
        const T w_z = SOLID ? T(weight_z[ENTRIES * k + n_z]) : T(1);
        if (SKIP && w_z == 0) continue;
        const int64_t plane = SOLID ? from.ny * index_z[ENTRIES * k + n_z] : 0;
        for (int64_t n_y = 0; n_y < ENTRIES; ++n_y) {
            const T w_y = T(weight_y[ENTRIES * j + n_y]);
            if (SKIP && w_y == 0) continue;
            const T* row = values + from.pitch * (plane + index_y[ENTRIES * j + n_y]);
            T part = 0;
            for (int64_t n_x = 0; n_x < ENTRIES; ++n_x) {
                const T w_x = T(weight_x[ENTRIES * i + n_x]);
                if (!SKIP || w_x != 0) part += w_x * row[index_x[ENTRIES * i + n_x]];
            }
            sum += w_z * w_y * part;
        }
    }
    return sum;
}

// to = gather(from), or to = to + gather(from), at every node that is not fixed.
template <int DIMENSION, int64_t ENTRIES, bool ADD, class T>
poisson_status transfer_on(const poisson_operator* from_operator, const poisson_operator* to_operator,
                           const poisson_transfer* tables, const T* values, T* out) {
    POISSON_OPERATOR(T, from_operator, from);
    POISSON_OPERATOR(T, to_operator, to);
    const Tiling all = tiling_by_node(POISSON_LOCAL(T, to));
    const int64_t tiles = all.count();
    const int32_t *index_x = tables->index[0], *index_y = tables->index[1], *index_z = tables->index[2];
    const double *weight_x = tables->weight[0], *weight_y = tables->weight[1], *weight_z = tables->weight[2];
    POISSON_THREADS(number, tiles, all.nodes(), (POISSON_PARTS(from), POISSON_PARTS(to)),
                    (index_x, index_y, index_z, weight_x, weight_y, weight_z, values, out)) {
        const Local<T> source = POISSON_LOCAL(T, from), target = POISSON_LOCAL(T, to);
        const Tile tile = tiling_by_node(target).tile(number);
        for_each_row(target, tile, [&](int64_t j, int64_t k) {
            const bool fixed_row = target.fixed(j, target.ny, 1) || (DIMENSION == 3 && target.fixed(k, target.nz, 2));
            T* row = out + target.row(j, k);
            for (int64_t i = tile.first; i < tile.last; ++i) {
                const bool fixed = fixed_row || target.fixed(i, target.nx, 0);
                if (fixed && ADD) continue;
                const T sum = fixed ? T(0)
                                    : gather<DIMENSION, ENTRIES>(source, index_x, weight_x, index_y, weight_y, index_z,
                                                                 weight_z, values, i, j, k);
                row[i] = ADD ? row[i] + sum : sum;
            }
        });
    }
    return POISSON_SUCCESS;
}

template <int64_t ENTRIES, bool ADD, class T>
poisson_status transfer(const poisson_operator* from, const poisson_operator* to, const poisson_transfer* tables,
                        const T* values, T* out) {
    if (!from || !to || !tables || !values || !out) return POISSON_BAD_ARGUMENT;
    return from->dimension == 2 ? transfer_on<2, ENTRIES, ADD>(from, to, tables, values, out)
                                : transfer_on<3, ENTRIES, ADD>(from, to, tables, values, out);
}

}  // namespace

#define POISSON_DEFINE(real, suffix)                                                                    \
    extern "C" poisson_status poisson_restrict_##suffix(                                                \
        const poisson_operator* fine_operator, const poisson_operator* coarse_operator,                 \
        const poisson_transfer* tables, const real* fine, real* coarse) {                               \
        return transfer<RESTRICT_ENTRIES, false>(fine_operator, coarse_operator, tables, fine, coarse); \
    }                                                                                                   \
    extern "C" poisson_status poisson_prolong_add_##suffix(                                             \
        const poisson_operator* fine_operator, const poisson_operator* coarse_operator,                 \
        const poisson_transfer* tables, const real* coarse, real* fine) {                               \
        return transfer<PROLONG_ENTRIES, true>(coarse_operator, fine_operator, tables, coarse, fine);   \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
