// SPDX-License-Identifier: MIT
// Between two grids on the same box: restrict and prolong_add. On the host whole rows are added up first (grids.h); a
// thread of a GPU gathers each value by the tables of poisson/discrete/transfer.py.
#ifdef POISSON_OFFLOAD
#include "multigrid/gather.h"
#else
#include "multigrid/summed_rows.h"
#include "multigrid/whole_rows.h"
#endif

namespace {

#ifdef POISSON_OFFLOAD

constexpr int64_t RESTRICT_ENTRIES = 4;
constexpr int64_t PROLONG_ENTRIES = 2;

// to = gather(from), or to = to + gather(from), at every node that is not fixed.
template <int DIMENSION, int64_t ENTRIES, bool ADD, class T>
poisson_status transfer_on(const poisson_operator* from_operator, const poisson_operator* to_operator,
                           const poisson_transfer* tables, const T* values, T* out) {
    POISSON_OPERATOR(T, from_operator, from);
    POISSON_OPERATOR(T, to_operator, to);
    const T* const mask = mask_of<T>(to_operator);
    const Tiling all = tiling_by_node(POISSON_LOCAL(T, to));
    const int64_t tiles = all.count();
    const int32_t *index_x = tables->index[0], *index_y = tables->index[1], *index_z = tables->index[2];
    const double *weight_x = tables->weight[0], *weight_y = tables->weight[1], *weight_z = tables->weight[2];
    const int64_t entries_x = entries_of(tables, 0), entries_y = entries_of(tables, 1),
                  entries_z = entries_of(tables, 2);
    POISSON_THREADS(number, tiles, all.nodes(),
                    (POISSON_PARTS(from), POISSON_PARTS(to), entries_x, entries_y, entries_z),
                    (index_x, index_y, index_z, weight_x, weight_y, weight_z, values, out, mask)) {
        const Local<T> source = POISSON_LOCAL(T, from), target = POISSON_LOCAL(T, to);
        const Tile tile = tiling_by_node(target).tile(number);
        const int64_t entries[3] = {entries_x, entries_y, entries_z};
        for_each_row(target, tile, [&](int64_t j, int64_t k) {
            const bool fixed_row = target.fixed(j, target.ny, 1) || (DIMENSION == 3 && target.fixed(k, target.nz, 2));
            T* row = out + target.row(j, k);
            for (int64_t i = tile.first; i < tile.last; ++i) {
                const bool of_mask = mask && mask[target.row(j, k) + i] < 0;
                const bool fixed = fixed_row || of_mask || target.fixed(i, target.nx, 0);
                if (fixed && ADD) continue;
                const T sum = fixed ? T(0)
                                    : gather<DIMENSION, ENTRIES>(source, entries, index_x, weight_x, index_y, weight_y,
                                                                 index_z, weight_z, values, i, j, k);
                row[i] = ADD ? row[i] + sum : sum;
            }
        });
    }
    return POISSON_SUCCESS;
}

template <int64_t ENTRIES, bool ADD, class T>
poisson_status transfer(const poisson_operator* from, const poisson_operator* to, const poisson_transfer* tables,
                        const T* values, T* out) {
    return from->dimension == 2 ? transfer_on<2, ENTRIES, ADD>(from, to, tables, values, out)
                                : transfer_on<3, ENTRIES, ADD>(from, to, tables, values, out);
}

template <class T>
poisson_status restrict_to(const poisson_operator* fine, const poisson_operator* coarse, const poisson_transfer* tables,
                           const T* values, T* out) {
    const bool tabulated = tables->entries[0] || tables->entries[1] || tables->entries[2];
    return tabulated ? transfer<0, false>(fine, coarse, tables, values, out)
                     : transfer<RESTRICT_ENTRIES, false>(fine, coarse, tables, values, out);
}
template <class T>
poisson_status prolong_add(const poisson_operator* fine, const poisson_operator* coarse, const poisson_transfer* tables,
                           const T* values, T* out) {
    return transfer<PROLONG_ENTRIES, true>(coarse, fine, tables, values, out);
}

#else

// Whether some of these nodes are beyond the edge of a halo.
inline bool elsewhere(Span nodes, int64_t n, int32_t lower, int32_t upper) {
    return (lower == HALO && nodes.start < 0) || (upper == HALO && nodes.stop > n);
}

// Asks memory for a row.
template <class T>
inline void ask_for(const T* row, int64_t nodes) {
    for (int64_t i = 0; i < nodes; i += WIDE<T>) prefetch(row, i);
}

template <class T>
poisson_status restrict_to(const poisson_operator* fine_operator, const poisson_operator* coarse_operator,
                           const poisson_transfer* tables, const T* values, T* out) {
    const Local<T> fine = local<T>(fine_operator), coarse = local<T>(coarse_operator);
    const Grids<T> grids(*fine_operator, *coarse_operator, *tables, RESTRICT_ENTRIES);
    return for_rows(coarse, fine.pitch, [&](int64_t j, int64_t k, T* sums) {
        T* row = out + coarse.row(j, k);
        if (grids.fixed_row(j, k)) {
            std::fill(row, row + coarse.nx, T(0));
            return;
        }
        const Span rows = grids.y.around(j), planes = fine.dimension == 3 ? grids.z.around(k) : Span{0, 1};
        if (elsewhere(rows, fine.ny, fine.rule(2), fine.rule(3)) ||
            elsewhere(planes, fine.nz, fine.rule(4), fine.rule(5))) {
            std::fill(row, row + coarse.nx, T(0));
            return;
        }
        Mix<T> mix;
        for (int64_t p = planes.start; p < planes.stop; ++p) {
            const double by_plane = fine.dimension == 3 ? grids.z.weight(p, k) : 1;
            const int64_t plane = fine.dimension == 3 ? image(p, fine.nz, fine.rule(4), fine.rule(5)) : 0;
            for (int64_t r = rows.start; r < rows.stop; ++r) {
                const int64_t line = image(r, fine.ny, fine.rule(2), fine.rule(3));
                // The next coarse row needs what is two rows on; the first of its planes is in a cache.
                if (fine.dimension == 3 && p > planes.start && r > rows.start)
                    ask_for(values + fine.row(line, plane) + 2 * fine.pitch, fine.nx);
                mix.add(values + fine.row(line, plane), by_plane * grids.y.weight(r, j));
            }
        }
        const int64_t width = round_up(fine.nx, WIDE<T>);
        restrict_sum(grids, mix, 0, width, true, true, out, coarse.row(j, k), {0, coarse.nx}, sums);
    });
}

template <class T>
poisson_status prolong_add(const poisson_operator* fine_operator, const poisson_operator* coarse_operator,
                           const poisson_transfer* tables, const T* values, T* out) {
    const Local<T> fine = local<T>(fine_operator);
    const Grids<T> grids(*fine_operator, *coarse_operator, *tables, PROLONG_ENTRIES);
    const T* const mask = mask_of<T>(fine_operator);
    // Behind the sums there is room for what masked nodes keep.
    const int64_t room = fine.pitch + 2 * WIDE<T>;
    return for_rows(fine, (mask ? 2 : 1) * room, [&](int64_t j, int64_t k, T* sums) {
        if (fine.fixed(j, fine.ny, 1) || (fine.dimension == 3 && fine.fixed(k, fine.nz, 2))) return;
        T* row = out + fine.row(j, k);
        const T first = row[0], last = row[fine.nx - 1];
        const Mix<T> mix = grids.above(values, j, k);
        if (mask) std::copy(row, row + fine.nx, sums + room);
        prolong_sum(grids, mix, static_cast<const T*>(row), row, 0, fine.nx, sums);
        if (mask) hold_masked(mask + fine.row(j, k), sums + room, row, 0, fine.nx);
        if (fine.rule(0) == FIXED) row[0] = first;
        if (fine.rule(1) == FIXED) row[fine.nx - 1] = last;
    });
}

#endif

}  // namespace

POISSON_EXPORT(restrict,
               (const poisson_operator* fine_operator, const poisson_operator* coarse_operator,
                const poisson_transfer* tables, const real* fine, real* coarse),
               fine_operator,
               fine_operator && coarse_operator && tables && fine && coarse
                   ? restrict_to(fine_operator, coarse_operator, tables, fine, coarse)
                   : POISSON_BAD_ARGUMENT)
POISSON_EXPORT(prolong_add,
               (const poisson_operator* fine_operator, const poisson_operator* coarse_operator,
                const poisson_transfer* tables, const real* coarse, real* fine),
               fine_operator,
               fine_operator && coarse_operator && tables && fine && coarse
                   ? prolong_add(fine_operator, coarse_operator, tables, coarse, fine)
                   : POISSON_BAD_ARGUMENT)
