// SPDX-License-Identifier: MIT
// The four stages on arrays in the host's memory, each mapped to the device and back around its own region: the naive
// form of the Jacobi method with OpenMP target regions. Only `bench jacobi` uses it, to show what the mapping costs. In
// a build for the host's threads nothing is mapped.
#include "core/regions.h"
#include "studies/studies.h"

// A region in the middle of its own mapping; `clauses` adds to its loop.
#ifdef POISSON_OFFLOAD
#define POISSON_MAPPED_REGION(maps, values, clauses) \
    POISSON_PRAGMA(omp target data maps)             \
    POISSON_PRAGMA(omp target teams distribute parallel for firstprivate values clauses)
#define POISSON_ROWS collapse(2)
#else
#define POISSON_MAPPED_REGION(maps, values, clauses) \
    POISSON_PRAGMA(omp parallel for schedule(static) num_threads(team_size) clauses)
#define POISSON_ROWS
#endif

namespace {

bool is_flat(const poisson_operator* a) { return a && a->dimension == 2; }

template <class T>
poisson_status laplacian(const poisson_operator* operator_, const T* u, T* out) {
    if (!is_flat(operator_) || !u || !out) return POISSON_BAD_ARGUMENT;
    POISSON_OPERATOR(T, operator_, a);
    [[maybe_unused]] const int64_t count = a_pitch * a_ny;
    POISSON_MAPPED_REGION(map(to : u [0:count]) map(tofrom : out [0:count]), (POISSON_PARTS(a)), POISSON_ROWS)
    for (int64_t j = 1; j < a_ny - 1; ++j) {
        for (int64_t i = 1; i < a_nx - 1; ++i) {
            const Local<T> local = POISSON_LOCAL(T, a);
            const int64_t n = local.row(j, 0) + i;
            out[n] = apply_operator(u[n], u[n - 1], u[n + 1], u[n - local.pitch], u[n + local.pitch], local.weight_x,
                                    local.weight_y, local.c);
        }
    }
    return POISSON_SUCCESS;
}

// The lower and the upper y face come first, whole; then the nodes of the x faces in pairs.
template <class T>
poisson_status boundary_conditions(const poisson_operator* operator_, const T* u, T* out) {
    if (!is_flat(operator_) || !u || !out) return POISSON_BAD_ARGUMENT;
    POISSON_OPERATOR(T, operator_, a);
    [[maybe_unused]] const int64_t count = a_pitch * a_ny;
    const int64_t nodes = a_ny == 1 ? a_nx : 2 * (a_nx + a_ny) - 4;
    POISSON_MAPPED_REGION(map(to : u [0:count]) map(tofrom : out [0:count]), (POISSON_PARTS(a)), )
    for (int64_t node = 0; node < nodes; ++node) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const int64_t side = node - 2 * local.nx;
        const int64_t i = side < 0 ? node % local.nx : side % 2 * (local.nx - 1);
        const int64_t j = side >= 0 ? 1 + side / 2 : node < local.nx ? 0 : local.ny - 1;
        const int64_t row = local.row(j, 0);
        const T* lower = u + local.row(below(j, local.ny, local.rule(2)), 0);
        const T* upper = u + local.row(above(j, local.ny, local.rule(3)), 0);
        const int64_t left = below(i, local.nx, local.rule(0)), right = above(i, local.nx, local.rule(1));
        const bool fixed = local.fixed(i, local.nx, 0) || local.fixed(j, local.ny, 1);
        out[row + i] = fixed ? T(0)
                             : apply_operator(u[row + i], u[row + left], u[row + right], lower[i], upper[i],
                                              local.weight_x, local.weight_y, local.c);
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status update(const poisson_operator* operator_, const T* f, const T* au, T* r, T* u, double omega) {
    if (!is_flat(operator_) || !f || !au || !r || !u) return POISSON_BAD_ARGUMENT;
    const int64_t count = operator_->pitch * operator_->shape[1];
    const T scale = T(omega / operator_->diagonal);
    POISSON_MAPPED_REGION(map(to : f [0:count]) map(to : au [0:count]) map(from : r [0:count])
                              map(tofrom : u [0:count]),
                          (scale, count), )
    for (int64_t n = 0; n < count; ++n) {
        const T residual = residual_of(f[n], au[n]);
        r[n] = residual;
        u[n] = relax(u[n], residual, scale);
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status norm(const poisson_operator* operator_, const T* r, double* sum_and_maximum) {
    if (!is_flat(operator_) || !r || !sum_and_maximum) return POISSON_BAD_ARGUMENT;
    const int64_t count = operator_->pitch * operator_->shape[1];
    double sum = 0, maximum = 0;
    POISSON_MAPPED_REGION(map(to : r [0:count]), (count), reduction(+ : sum) reduction(max : maximum))
    for (int64_t n = 0; n < count; ++n) {
        const double x = r[n], size = x < 0 ? -x : x;
        sum += x * x;
        maximum = size > maximum ? size : maximum;
    }
    sum_and_maximum[0] = sum;
    sum_and_maximum[1] = maximum;
    return POISSON_SUCCESS;
}

}  // namespace

#define POISSON_DEFINE(real, suffix)                                                                               \
    extern "C" poisson_status poisson_structured_laplacian_##suffix(const poisson_operator* a, const real* u,      \
                                                                    real* out) {                                   \
        use_threads(a);                                                                                            \
        return laplacian(a, u, out);                                                                               \
    }                                                                                                              \
    extern "C" poisson_status poisson_structured_boundary_conditions_##suffix(const poisson_operator* a,           \
                                                                              const real* u, real* out) {          \
        use_threads(a);                                                                                            \
        return boundary_conditions(a, u, out);                                                                     \
    }                                                                                                              \
    extern "C" poisson_status poisson_structured_update_##suffix(const poisson_operator* a, const real* f,         \
                                                                 const real* au, real* r, real* u, double omega) { \
        use_threads(a);                                                                                            \
        return update(a, f, au, r, u, omega);                                                                      \
    }                                                                                                              \
    extern "C" poisson_status poisson_structured_norm_##suffix(const poisson_operator* a, const real* r,           \
                                                               double* sum_and_maximum) {                          \
        use_threads(a);                                                                                            \
        return norm(a, r, sum_and_maximum);                                                                        \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
