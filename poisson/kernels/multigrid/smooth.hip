// What multigrid does on a level between two coarser visits, or a part of it, in one pass over memory: smooth. passes.h
// has the options.

KERNEL poisson_smooth(const real* u, const real* __restrict__ f, real* out, const real* __restrict__ correction,
                      real* __restrict__ restriction, int coarse_nx, int coarse_ny, int coarse_nz, index_t coarse_pitch,
                      OPERATOR_PARAMETERS, SCALE_PARAMETERS) {
    pass<false>(u, f, out, OPERATOR, Coarser{correction, restriction, coarse_nx, coarse_ny, coarse_nz, coarse_pitch},
                SCALES, 0, 0);
}

KERNEL poisson_smooth_norm(const real* u, const real* __restrict__ f, real* out, const real* __restrict__ correction,
                           real* __restrict__ restriction, int coarse_nx, int coarse_ny, int coarse_nz,
                           index_t coarse_pitch, OPERATOR_PARAMETERS, SCALE_PARAMETERS, double* partial,
                           double* result) {
    pass<true>(u, f, out, OPERATOR, Coarser{correction, restriction, coarse_nx, coarse_ny, coarse_nz, coarse_pitch},
               SCALES, partial, result);
}
