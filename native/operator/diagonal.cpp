// SPDX-License-Identifier: MIT
// What divides by the diagonal of A: diagonal_solve, and update where a or c varies.
#include "operator/diagonal.h"

#include "operator/packs.h"

template <Varies VARIES, class T>
poisson_status update_on(const poisson_operator* operator_, const T* f, const T* au, T* r, T* u, double omega) {
    POISSON_OPERATOR(T, operator_, a);
    POISSON_COEFFICIENTS(T, operator_, a);
    const T factor = T(omega);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t threads = all.count();
    POISSON_THREADS(number, threads, all.nodes(), (POISSON_PARTS(a), threads, factor),
                    (f, au, r, u, POISSON_ARRAYS(a))) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Coefficients<T> arrays = POISSON_VARYING(T, a);
        for_each_tile(Tiling(local), number, threads, [&](const Tile& tile) {
            for_each_pack(local, tile, [&](int64_t i, int64_t j, int64_t k) {
                const int64_t at = local.row(j, k) + i;
                const Pack<T> difference = f ? residual_of(load(f + at), load(au + at)) : -load(au + at);
                store(r + at, difference);
                Pack<T> scale;
                if constexpr (tabulated(VARIES))
                    scale = scale_at(local, tables_at(local, arrays, j, k), factor, i);
                else
                    scale = spread(factor) / diagonal_at(local, arrays, i, j, k);
                store(u + at, only_inside(local, i, relax(load(u + at), difference, scale)));
            });
        });
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status update_varying(const poisson_operator* a, const T* f, const T* au, T* r, T* u, double omega) {
    return a->tables ? update_on<LINKS_AND_TABLES>(a, f, au, r, u, omega) : update_on<LINKS>(a, f, au, r, u, omega);
}

template poisson_status update_varying<float>(const poisson_operator*, const float*, const float*, float*, float*,
                                              double);
template poisson_status update_varying<double>(const poisson_operator*, const double*, const double*, double*, double*,
                                               double);

namespace {

template <Varies VARIES, bool DOT, class T>
poisson_status solve(const poisson_operator* operator_, const T* r, T* z, double omega, double* result) {
    POISSON_OPERATOR(T, operator_, a);
    POISSON_COEFFICIENTS(T, operator_, a);
    const T factor = T(VARIES == NOTHING ? omega / operator_->diagonal : omega);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t threads = DOT ? reduction_threads(all.count()) : all.count();
    const bool stream = goes_around_cache(a_pitch * a_ny * a_nz * int64_t(sizeof(T)));
    double* partial = DOT ? partial_results(threads) : nullptr;
    if (DOT && !partial) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, threads, all.nodes(), (POISSON_PARTS(a), threads, factor, stream),
                    (r, z, partial, result, POISSON_ARRAYS(a))) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Coefficients<T> arrays = POISSON_VARYING(T, a);
        PackTotals<T> totals;
        for_each_tile(Tiling(local), number, threads, [&](const Tile& tile) {
            for_each_row(local, tile, [&](int64_t j, int64_t k) {
                const bool fixed = fixed_row(local, j, k), counts = DOT && local.counts(j, k);
                const double* const widths = tabulated(VARIES) ? arrays.widths : nullptr;
                const double weight = DOT ? width_of_row(local, widths, j, k) : 0.0;
                const double* const along_x = tabulated(VARIES) ? widths + local.table(0, 1) : nullptr;
                RowTables<T> tables = {};
                if constexpr (tabulated(VARIES)) tables = tables_at(local, arrays, j, k);
                for (int64_t i = tile.first; i < tile.last; i += PACK<T>) {
                    const int64_t at = local.row(j, k) + i;
                    Pack<T> scale = spread(factor);
                    if constexpr (tabulated(VARIES))
                        scale = scale_at(local, tables, factor, i);
                    else if (VARIES == LINKS)
                        scale /= diagonal_at(local, arrays, i, j, k);
                    const Pack<T> source = load_constant(r + at);
                    const Pack<T> value = only_free(local, fixed, i, scale * source);
                    store_pack(stream, z + at, value);
                    if (counts) totals.add_product(local, along_x, i, weight, value, source);
                }
            });
        });
        end_of_streaming(stream);
        if (DOT) {
            double sum = 0, maximum = 0;
            totals.join(sum, maximum);
            keep_pair(partial, number, threads, sum, maximum, result);
        }
    }
    if (DOT) join_partials(partial, threads, result);
    return POISSON_SUCCESS;
}

template <class T>
poisson_status diagonal_solve(const poisson_operator* a, const T* r, T* z, double omega, double* result) {
    if (!a || !r || !z) return POISSON_BAD_ARGUMENT;
    const auto with = [&](auto varies) {
        constexpr Varies VARIES = decltype(varies)::value;
        return result ? solve<VARIES, true>(a, r, z, omega, result) : solve<VARIES, false>(a, r, z, omega, result);
    };
    if (a->tables) return with(std::integral_constant<Varies, LINKS_AND_TABLES>());
    return varies(*a) ? with(std::integral_constant<Varies, LINKS>()) : with(std::integral_constant<Varies, NOTHING>());
}

}  // namespace

POISSON_EXPORT(diagonal_solve, (const poisson_operator* a, const real* r, real* z, double omega, double* result), a,
               diagonal_solve(a, r, z, omega, result))
