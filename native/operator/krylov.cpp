// SPDX-License-Identifier: MIT
// The two passes over memory of an iteration of conjugate gradients: direction and advance.
#include "operator/packs.h"

#ifdef POISSON_OFFLOAD
#include "operator/direction_march.h"
#else
#include "operator/direction_rows.h"
#endif

namespace {

// u = u + alpha p, r = r - alpha q, and the norms of r.
template <class T>
poisson_status advance(const poisson_operator* operator_, double alpha, const T* p, const T* q, T* u, T* r,
                       double* result) {
    if (!operator_ || !p || !q || !u || !r || !result) return POISSON_BAD_ARGUMENT;
    POISSON_OPERATOR(T, operator_, a);
    const T step = T(alpha);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t threads = reduction_threads(all.count());
    double* partial = partial_results(threads);
    if (!partial) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, threads, all.nodes(), (POISSON_PARTS(a), threads, step), (p, q, u, r, partial, result)) {
        const Local<T> local = POISSON_LOCAL(T, a);
        PackTotals<T> totals;
        for_each_tile(Tiling(local), number, threads, [&](const Tile& tile) {
            for_each_pack(local, tile, [&](int64_t i, int64_t j, int64_t k) {
                const int64_t at = local.row(j, k) + i;
                const Pack<T> residual = load(r + at) - step * load_constant(q + at);
                store(u + at, load(u + at) + step * load_constant(p + at));
                store(r + at, residual);
                // None of a row that does not count, rather than a branch around the sums.
                totals.add_norms(only_before<T>(local.counts(j, k) ? local.nx : 0, i, residual));
            });
        });
        double sum = 0, maximum = 0;
        totals.join(sum, maximum);
        keep_pair(partial, number, threads, sum, maximum, result);
    }
    join_partials(partial, threads, result);
    return POISSON_SUCCESS;
}

template <Varies VARIES, class T>
poisson_status direction_in(const poisson_operator* a, const T* z, double beta, const T* p, T* out, T* q,
                            double* result) {
    return a->dimension == 2 ? direction_of<2, VARIES>(a, z, beta, p, out, q, result)
                             : direction_of<3, VARIES>(a, z, beta, p, out, q, result);
}

template <class T>
poisson_status direction(const poisson_operator* a, const T* z, double beta, const T* p, T* out, T* q, double* result) {
    if (!a || !z || !p || !out || !q || !result) return POISSON_BAD_ARGUMENT;
    const auto visit = [&](auto varies) {
        return direction_in<decltype(varies)::value>(a, z, beta, p, out, q, result);
    };
    if (a->tables) return with_varies<true, REACTION_APART>(*a, visit);
    if (varies(*a)) return with_varies<false, REACTION_APART>(*a, visit);
    return visit(std::integral_constant<Varies, NOTHING>());
}

}  // namespace

POISSON_EXPORT(direction,
               (const poisson_operator* a, const real* z, double beta, const real* p, real* out, real* q,
                double* result),
               a, direction(a, z, beta, p, out, q, result))
POISSON_EXPORT(advance,
               (const poisson_operator* a, double alpha, const real* p, const real* q, real* u, real* r,
                double* result),
               a, advance(a, alpha, p, q, u, r, result))
