// SPDX-License-Identifier: MIT
// The stencils of operators whose coefficients vary from node to node.
#include "operator/visit.h"

template <Kind KIND, class T>
poisson_status visit_varying(const poisson_operator* a, const T* u, const T* f, Output<KIND, T>* out,
                             const Factors<T>& factors, double* result) {
    if constexpr (REACTION_APART) {
        if (!a->a[0]) return visit_all<KIND, REACTION>(a, u, f, out, factors, result);
    }
    return visit_all<KIND, LINKS>(a, u, f, out, factors, result);
}

#define POISSON_INSTANCE(KIND, real)                                                                     \
    template poisson_status visit_varying<KIND, real>(const poisson_operator*, const real*, const real*, \
                                                      Output<KIND, real>*, const Factors<real>&, double*);
#define POISSON_INSTANCES(real)      \
    POISSON_INSTANCE(APPLY, real)    \
    POISSON_INSTANCE(RESIDUAL, real) \
    POISSON_INSTANCE(DEFECT, real)   \
    POISSON_INSTANCE(RELAX, real)    \
    POISSON_INSTANCE(COLOR, real)

POISSON_INSTANCES(float)
POISSON_INSTANCES(double)
