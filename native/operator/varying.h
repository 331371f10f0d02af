// SPDX-License-Identifier: MIT
// The stencils of operators whose diagonal varies from node to node.
#ifndef POISSON_VARYING_H
#define POISSON_VARYING_H

#include "operator/visit.h"

template <Kind KIND, bool TABULATED, class T>
poisson_status visit_varying(const poisson_operator* a, const T* u, const T* f, Output<KIND, T>* out,
                             const Factors<T>& factors, double* result) {
    return with_varies<TABULATED, REACTION_APART>(
        *a, [&](auto varies) { return visit_all<KIND, decltype(varies)::value>(a, u, f, out, factors, result); });
}

#define POISSON_INSTANCE(KIND, TABULATED, real)                                                                     \
    template poisson_status visit_varying<KIND, TABULATED, real>(const poisson_operator*, const real*, const real*, \
                                                                 Output<KIND, real>*, const Factors<real>&, double*);
#define POISSON_INSTANCES(TABULATED, real)      \
    POISSON_INSTANCE(APPLY, TABULATED, real)    \
    POISSON_INSTANCE(RESIDUAL, TABULATED, real) \
    POISSON_INSTANCE(DEFECT, TABULATED, real)   \
    POISSON_INSTANCE(RELAX, TABULATED, real)    \
    POISSON_INSTANCE(COLOR, TABULATED, real)

#endif
