// SPDX-License-Identifier: MIT
// A stencil over all the nodes of a grid, in one region.
#ifndef POISSON_VISIT_H
#define POISSON_VISIT_H

#ifdef POISSON_OFFLOAD
#include "operator/march.h"
#else
#include "operator/together.h"
#endif

template <int DIMENSION, class M, class T>
inline poisson_status visit(const poisson_operator* operator_, const T* u, const T* f, Output<M::KIND, T>* out,
                            const Factors<T>& factors, double* result) {
    POISSON_OPERATOR(T, operator_, a);
    POISSON_COEFFICIENTS(T, operator_, a);
    const T scale = factors.scale;
    const int32_t color = factors.color;
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t threads = M::NORM ? reduction_threads(all.count()) : all.count();
    double* partial = M::NORM ? partial_results(threads) : nullptr;
    if (M::NORM && !partial) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, threads, all.nodes(), (POISSON_PARTS(a), scale, color, threads),
                    (u, f, out, partial, result, POISSON_ARRAYS(a))) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Coefficients<T> arrays = POISSON_VARYING(T, a);
        const Factors<T> own = {scale, color};
        double sum = 0, maximum = 0;
        for_each_tile(Tiling(local), number, threads, [&](const Tile& tile) {
            visit_tile<DIMENSION, M>(local, arrays, tile, u, f, out, own, sum, maximum);
        });
        if (M::NORM) keep_pair(partial, number, threads, sum, maximum, result);
    }
    if (M::NORM) join_partials(partial, threads, result);
    return POISSON_SUCCESS;
}

template <int DIMENSION, Kind KIND, Varies VARIES, class T>
inline poisson_status visit_with(const poisson_operator* a, const T* u, const T* f, Output<KIND, T>* out,
                                 const Factors<T>& factors, double* result) {
    if constexpr (KIND != APPLY && KIND != COLOR) {
        if (result) return visit<DIMENSION, Mode<KIND, true, VARIES>>(a, u, f, out, factors, result);
    }
    return visit<DIMENSION, Mode<KIND, false, VARIES>>(a, u, f, out, factors, result);
}

template <Kind KIND, Varies VARIES, class T>
inline poisson_status visit_all(const poisson_operator* a, const T* u, const T* f, Output<KIND, T>* out,
                                const Factors<T>& factors, double* result) {
    return a->dimension == 2 ? visit_with<2, KIND, VARIES>(a, u, f, out, factors, result)
                             : visit_with<3, KIND, VARIES>(a, u, f, out, factors, result);
}

// The same where the diagonal varies: varying.cpp and tabulated.cpp.
template <Kind KIND, bool TABULATED, class T>
poisson_status visit_varying(const poisson_operator* a, const T* u, const T* f, Output<KIND, T>* out,
                             const Factors<T>& factors, double* result);

// Any operator. `factor` is omega, or the factor of DEFECT.
template <Kind KIND, class T>
inline poisson_status visit_any(const poisson_operator* a, const T* u, const T* f, Output<KIND, T>* out, double factor,
                                double* result, int32_t color = 0) {
    if (!a || !u || !out) return POISSON_BAD_ARGUMENT;
    const bool relaxes = KIND == RELAX || KIND == COLOR;
    if (a->tables) return visit_varying<KIND, true, T>(a, u, f, out, {T(factor), color}, result);
    if (varies(*a)) return visit_varying<KIND, false, T>(a, u, f, out, {T(factor), color}, result);
    const Factors<T> factors = {T(relaxes ? factor / a->diagonal : factor), color};
    return visit_all<KIND, NOTHING>(a, u, f, out, factors, result);
}

#endif
