// SPDX-License-Identifier: MIT
// The coefficients of links: links, and coarsen_links by the tables of poisson/discrete/transfer.py.
#ifdef POISSON_OFFLOAD
#include "core/regions.h"
#else
#include "multigrid/summed_rows.h"
#endif

namespace {

template <class T>
inline T mean_of(T one, T other, bool harmonic) {
    // The inverse of the mean of the inverses neither over- nor underflows where a product of both would.
    return harmonic ? T(2) / (T(1) / one + T(1) / other) : (one + other) / T(2);
}

template <class T>
poisson_status links(const poisson_operator* operator_, int32_t axis, const T* values, int32_t harmonic, T* out) {
    if (!operator_ || !values || !out || axis < 0 || axis >= operator_->dimension) return POISSON_BAD_ARGUMENT;
    POISSON_OPERATOR(T, operator_, a);
    const Tiling all = tiling_by_node(POISSON_LOCAL(T, a));
    const int64_t tiles = all.count();
    POISSON_THREADS(number, tiles, all.nodes(), (POISSON_PARTS(a), axis, harmonic), (values, out)) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Tile tile = tiling_by_node(local).tile(number);
        const int32_t rule = local.rule(2 * axis + 1);
        for_each_row(local, tile, [&](int64_t j, int64_t k) {
            T* const to = out + local.row(j, k);
            if (axis == 0) {
                const T* const row = values + local.row(j, k);
                const int64_t inner = tile.last < local.nx ? tile.last : local.nx - 1;
                for (int64_t i = tile.first; i < inner; ++i) to[i] = mean_of(row[i], row[i + 1], harmonic);
                if (tile.last < local.nx || tile.first == tile.last) return;
                const int64_t lower = link_above(local.nx - 1, local.nx, rule);
                to[local.nx - 1] = mean_of(row[lower], row[lower + 1 < local.nx ? lower + 1 : 0], harmonic);
                return;
            }
            const int64_t n = axis == 1 ? local.ny : local.nz, lower = link_above(axis == 1 ? j : k, n, rule);
            const int64_t upper = lower + 1 < n ? lower + 1 : 0;
            const T* const one = values + (axis == 1 ? local.row(lower, k) : local.row(j, lower));
            const T* const other = values + (axis == 1 ? local.row(upper, k) : local.row(j, upper));
            for (int64_t i = tile.first; i < tile.last; ++i) to[i] = mean_of(one[i], other[i], harmonic);
        });
    }
    return POISSON_SUCCESS;
}

#ifdef POISSON_OFFLOAD

// The indices and weights of a node along an axis; in 2D the z axis has one entry of weight one.
struct Entries {
    const int32_t* index;
    const double* weight;
    int64_t count;
};

// The coefficient of one coarse link: the weighted mean, over the fine links beside one another, of what those behind
// one another give.
template <class T>
inline T coarse_link(const Entries (&beside)[2], const int64_t (&strides)[3], const Entries& behind, const T* values) {
    T sum = 0;
    for (int64_t m = 0; m < beside[1].count; ++m) {
        for (int64_t n = 0; n < beside[0].count; ++n) {
            const T weight = T(beside[1].weight[m]) * T(beside[0].weight[n]);
            if (weight == 0) continue;
            const T* from = values + strides[1] * beside[0].index[n] + strides[2] * beside[1].index[m];
            T mean = 0;
            for (int64_t s = 0; s < behind.count; ++s) mean += T(behind.weight[s]) * from[strides[0] * behind.index[s]];
            sum += weight * mean;
        }
    }
    return sum;
}

template <class T>
poisson_status coarsen(const poisson_operator* fine_operator, const poisson_operator* coarse_operator,
                       const poisson_transfer* tables, int32_t axis, const T* values, T* out) {
    POISSON_OPERATOR(T, fine_operator, from);
    POISSON_OPERATOR(T, coarse_operator, to);
    const Tiling all = tiling_by_node(POISSON_LOCAL(T, to));
    const int64_t tiles = all.count();
    const int32_t *index_x = tables->index[0], *index_y = tables->index[1], *index_z = tables->index[2];
    const double *weight_x = tables->weight[0], *weight_y = tables->weight[1], *weight_z = tables->weight[2];
    const int64_t e_x = entries_of(tables, 0), e_y = entries_of(tables, 1), e_z = entries_of(tables, 2);
    POISSON_THREADS(number, tiles, all.nodes(), (POISSON_PARTS(from), POISSON_PARTS(to), axis, e_x, e_y, e_z),
                    (index_x, index_y, index_z, weight_x, weight_y, weight_z, values, out)) {
        const Local<T> fine = POISSON_LOCAL(T, from), coarse = POISSON_LOCAL(T, to);
        const Tile tile = tiling_by_node(coarse).tile(number);
        const int32_t zero = 0;
        const double one = 1.0;
        const bool solid = coarse.dimension == 3;
        const int64_t row_stride = fine.pitch, plane_stride = solid ? fine.pitch * fine.ny : 0;
        for_each_row(coarse, tile, [&](int64_t j, int64_t k) {
            const Entries y = {index_y + e_y * j, weight_y + e_y * j, e_y};
            const Entries z = solid ? Entries{index_z + e_z * k, weight_z + e_z * k, e_z} : Entries{&zero, &one, 1};
            for (int64_t i = tile.first; i < tile.last; ++i) {
                const Entries x = {index_x + e_x * i, weight_x + e_x * i, e_x};
                out[coarse.row(j, k) + i] = axis == 0 ? coarse_link<T>({y, z}, {1, row_stride, plane_stride}, x, values)
                                            : axis == 1
                                                ? coarse_link<T>({x, z}, {row_stride, 1, plane_stride}, y, values)
                                                : coarse_link<T>({x, y}, {plane_stride, 1, row_stride}, z, values);
            }
        });
    }
    return POISSON_SUCCESS;
}

#else

// The mean beside the links and that behind one another are weighted sums along one axis each, so that their order does
// not matter: whole rows are added up first, and one row of sums is gathered along x.
template <class T>
poisson_status coarsen(const poisson_operator* fine_operator, const poisson_operator* coarse_operator,
                       const poisson_transfer* tables, int32_t, const T* values, T* out) {
    const Local<T> fine = local<T>(fine_operator), coarse = local<T>(coarse_operator);
    const bool solid = fine.dimension == 3;
    const int64_t entries[3] = {entries_of(tables, 0), entries_of(tables, 1), entries_of(tables, 2)};
    return for_rows(coarse, fine.pitch, [&](int64_t j, int64_t k, T* sums) {
        Mix<T> mix;
        for (int64_t m = entries[2] * k; m < (solid ? entries[2] * (k + 1) : 1); ++m) {
            const double by_plane = solid ? tables->weight[2][m] : 1;
            const int64_t plane = solid ? tables->index[2][m] : 0;
            for (int64_t n = entries[1] * j; n < entries[1] * (j + 1); ++n) {
                const double weight = by_plane * tables->weight[1][n];
                if (weight != 0) mix.add(values + fine.row(tables->index[1][n], plane), weight);
            }
        }
        add_up(mix, 0, round_up(fine.nx, WIDE<T>), sums);
        T* const row = out + coarse.row(j, k);
        for (int64_t i = 0; i < coarse.nx; ++i) {
            const int32_t* const index = tables->index[0] + entries[0] * i;
            const double* const weight = tables->weight[0] + entries[0] * i;
            T sum = 0;
            for (int64_t n = 0; n < entries[0]; ++n) sum += T(weight[n]) * sums[index[n]];
            row[i] = sum;
        }
    });
}

#endif

template <class T>
poisson_status coarsen_links(const poisson_operator* fine, const poisson_operator* coarse,
                             const poisson_transfer* tables, int32_t axis, const T* values, T* out) {
    if (!fine || !coarse || !tables || !values || !out || axis < 0 || axis >= fine->dimension)
        return POISSON_BAD_ARGUMENT;
    return coarsen(fine, coarse, tables, axis, values, out);
}

}  // namespace

POISSON_EXPORT(links, (const poisson_operator* a, int32_t axis, const real* values, int32_t harmonic, real* out), a,
               links(a, axis, values, harmonic, out))
POISSON_EXPORT(coarsen_links,
               (const poisson_operator* fine_operator, const poisson_operator* coarse_operator,
                const poisson_transfer* tables, int32_t axis, const real* fine, real* coarse),
               fine_operator, coarsen_links(fine_operator, coarse_operator, tables, axis, fine, coarse))
