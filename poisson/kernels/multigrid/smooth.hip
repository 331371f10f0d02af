// SPDX-License-Identifier: MIT
// What multigrid does on a level between two coarser visits, or a part of it, in one pass over memory: smooth. passes.h
// has the options.

#if COARSE_WINDOW
#define EACH_ROWS(type) , type coarse_rows
#else
#define EACH_ROWS(type)
#endif
#if COARSE_MASKED
#define EACH_MASK(type) , type coarse_reaction
#else
#define EACH_MASK(type)
#endif
#if WEIGHTED & 1
#define EACH_WEIGHT_X(type) , type weights_x
#else
#define EACH_WEIGHT_X(type)
#endif
#if WEIGHTED & 2
#define EACH_WEIGHT_Y(type) , type weights_y
#else
#define EACH_WEIGHT_Y(type)
#endif
#if WEIGHTED & 4
#define EACH_WEIGHT_Z(type) , type weights_z
#else
#define EACH_WEIGHT_Z(type)
#endif
#define EACH_WEIGHT(type) EACH_WEIGHT_X(type) EACH_WEIGHT_Y(type) EACH_WEIGHT_Z(type)
#define COARSER_PARAMETERS                       \
    int coarse_nx, int coarse_ny, int coarse_nz, \
        index_t coarse_pitch EACH_ROWS(int) EACH_MASK(const real* __restrict__) EACH_WEIGHT(const real* __restrict__)
#define COARSER                                                                                                      \
    Coarser {                                                                                                        \
        correction, restriction, coarse_nx, coarse_ny, coarse_nz, coarse_pitch EACH_ROWS() EACH_MASK() EACH_WEIGHT() \
    }

KERNEL poisson_smooth(const real* u, const real* __restrict__ f, real* out, const real* __restrict__ correction,
                      real* __restrict__ restriction, COARSER_PARAMETERS, OPERATOR_PARAMETERS, SCALE_PARAMETERS,
                      real source_weight PART_PARAMETERS) {
    pass<false>(u, f, out, OPERATOR_FOR(BLOCK), COARSER, SCALES(source_weight), 0, 0);
}

KERNEL poisson_smooth_norm(const real* u, const real* __restrict__ f, real* out, const real* __restrict__ correction,
                           real* __restrict__ restriction, COARSER_PARAMETERS, OPERATOR_PARAMETERS, SCALE_PARAMETERS,
                           real source_weight PART_PARAMETERS, double* partial, double* result) {
    pass<true>(u, f, out, OPERATOR_FOR(BLOCK), COARSER, SCALES(source_weight), partial, result);
}
