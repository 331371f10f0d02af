// SPDX-License-Identifier: MIT
/* The C interface of the library of studies, which stands beside the OpenMP library and calls it: what only
 * measurements need. Arrays are those of the OpenMP library unless it says otherwise.
 */
#ifndef POISSON_STUDIES_H
#define POISSON_STUDIES_H

#include "poisson.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* The POISSON_ABI_VERSION that it was built with. */
int32_t poisson_studies_abi_version(void);

/* ---- `to` = `from`, `count` values. On a CPU the stores of arrays that no cache holds go around the caches, as those
 * of operations do: a line is not read before it is written. */

poisson_status poisson_copy(double* to, const double* from, int64_t count, int32_t threads);

/* ---- `count` times poisson_peak_chains_... independent chains of `rounds` multiply-adds x = a x + b; the
 * sums of their ends go to out */

int64_t poisson_peak_chains_f32(void);
int64_t poisson_peak_chains_f64(void);
poisson_status poisson_multiply_adds_f32(float* out, int64_t count, int64_t rounds, double a, double b,
                                         int32_t threads);
poisson_status poisson_multiply_adds_f64(double* out, int64_t count, int64_t rounds, double a, double b,
                                         int32_t threads);

/* ---- the four stages on 2D arrays in the host's memory, each mapped to the device and back around
 * its own region */

#define POISSON_STRUCTURED(real, suffix)                                                                               \
    poisson_status poisson_structured_laplacian_##suffix(const poisson_operator* operator_, const real* u, real* out); \
    poisson_status poisson_structured_boundary_conditions_##suffix(const poisson_operator* operator_, const real* u,   \
                                                                   real* out);                                         \
    poisson_status poisson_structured_update_##suffix(const poisson_operator* operator_, const real* f,                \
                                                      const real* au, real* r, real* u, double omega);                 \
    poisson_status poisson_structured_norm_##suffix(const poisson_operator* operator_, const real* r,                  \
                                                    double* sum_and_maximum);

POISSON_STRUCTURED(float, f32)
POISSON_STRUCTURED(double, f64)

#undef POISSON_STRUCTURED

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
