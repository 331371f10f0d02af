// SPDX-License-Identifier: MIT
// Several Jacobi sweeps in one pass over memory: sweeps. passes.h has the options.

KERNEL poisson_sweeps(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out,
                      OPERATOR_PARAMETERS, SCALE_PARAMETERS PART_PARAMETERS) {
    pass<false>(u, f, out, OPERATOR_FOR(BLOCK), Coarser{}, SCALES(1), 0, 0);
}

KERNEL poisson_sweeps_norm(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out,
                           OPERATOR_PARAMETERS, SCALE_PARAMETERS PART_PARAMETERS, double* partial, double* result) {
    pass<true>(u, f, out, OPERATOR_FOR(BLOCK), Coarser{}, SCALES(1), partial, result);
}
