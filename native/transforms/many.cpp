// SPDX-License-Identifier: MIT
// Direct solutions for several sources of one operator: each by one thread, on data that stay in its cache.
#include <omp.h>

#include <cstring>

#include "core/regions.h"

namespace {

#ifndef POISSON_OFFLOAD

// The first error of one call after another.
poisson_status solve_one(const poisson_operator* a, const poisson_direct* direct, const double* f, int64_t pitch,
                         const double* start, const double* terms, double* work, double* u, double* norms) {
    double result[2 * GROUPS];
    const int64_t values = a->pitch * a->shape[1] * a->shape[2];
    poisson_status status = poisson_take_f64(a, f, pitch, 0.0, work, result);
    if (!status) status = poisson_read(result, norms);
    if (terms)
        for (int64_t n = 0; n < values; ++n) work[n] += terms[n];
    std::memcpy(u, start, values * sizeof(double));
    for (int32_t n = 0; !status && n < direct->transforms; ++n)
        status = poisson_transform_f64(a, direct->lines[n], 1, 1.0, work);
    const double* const* s = direct->spectra;
    if (!status)
        status = direct->tridiagonal ? poisson_tridiagonal_f64(a, s[0], s[1], s[2], work, u, nullptr, nullptr)
                                     : poisson_divide_f64(a, s[0], s[1], s[2], work, u);
    for (int32_t n = direct->transforms; !status && n-- > 0;)
        status = poisson_transform_f64(a, direct->lines[n], 0, direct->scales[n], u);
    if (!status) status = poisson_certify_f64(a, u, f, pitch, 0.0, result);
    if (!status) status = poisson_read(result, norms + 2);
    return status;
}

#endif

}  // namespace

extern "C" poisson_status poisson_solve_many(const poisson_operator* a, const poisson_direct* direct, int64_t count,
                                             const double* const* f, const int64_t* pitches, const double* start,
                                             const double* terms, double* const* u, double* norms) {
#ifdef POISSON_OFFLOAD
    return POISSON_BAD_ARGUMENT;
#else
    if (!a || !direct || !f || !pitches || !start || !u || !norms || varies(*a)) return POISSON_BAD_ARGUMENT;
    use_threads(a);
    poisson_operator alone = *a;
    alone.threads = 1;
    // An array for each thread, apart from the memory that operations work in.
    static thread_local KeptMemory kept;
    const int64_t values = a->pitch * a->shape[1] * a->shape[2];
    if (!kept.reserve(team_size, values * int64_t(sizeof(double)))) return POISSON_OUT_OF_MEMORY;
    double* const work = static_cast<double*>(kept.get());
    int32_t worst = POISSON_SUCCESS;
#pragma omp parallel for schedule(dynamic) num_threads(team_size) reduction(max : worst)
    for (int64_t n = 0; n < count; ++n) {
        double* const own = work + values * omp_get_thread_num();
        const int32_t status = solve_one(&alone, direct, f[n], pitches[n], start, terms, own, u[n], norms + 4 * n);
        worst = status > worst ? status : worst;
    }
    return poisson_status(worst);
#endif
}
