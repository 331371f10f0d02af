// Operations on whole arrays: update, norm, fill, axpby and dot.
#include "regions.h"

namespace {

// r = f - au; u = u + scale r
template <class T>
poisson_status update(const poisson_operator* operator_, const T* f, const T* au, T* r, T* u, double omega) {
    if (!operator_ || !f || !au || !r || !u) return POISSON_BAD_ARGUMENT;
    const int64_t count = operator_->pitch * operator_->shape[1] * operator_->shape[2];
    const T scale = T(omega / operator_->diagonal);
    POISSON_FLAT_REGION(count, (scale), (f, au, r, u))
    for (int64_t n = 0; n < count; ++n) {
        const T residual = f[n] - au[n];
        r[n] = residual;
        u[n] = relax(u[n], residual, scale);
    }
    return POISSON_SUCCESS;
}

// The sum of squares and the maximum of the values [first, last) of a row.
template <class T>
inline void norms_of_row(const T* r, int64_t first, int64_t last, double& sum, double& maximum) {
    int64_t i = first;
#ifndef POISSON_OFFLOAD
    PackNorms norms;
    for (; i + LANES <= last; i += LANES) norms.add<T>(load(r + i));
    norms.join(sum, maximum);
#endif
    for (; i < last; ++i) {
        const double x = r[i], size = x < 0 ? -x : x;
        sum += x * x;
        maximum = size > maximum ? size : maximum;
    }
}

template <class T>
poisson_status norm(const poisson_operator* operator_, const T* r, double* result) {
    if (!operator_ || !r || !result) return POISSON_BAD_ARGUMENT;
    POISSON_OPERATOR(T, operator_, a);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t tiles = all.count();
    double* partial = partial_results(tiles);
    if (!partial) return POISSON_OUT_OF_MEMORY;
    POISSON_REGION(all.nodes(), (POISSON_PARTS(a)), (r, partial))
    for (int64_t number = 0; number < tiles; ++number) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Tile tile = Tiling(local).tile(number);
        double sum = 0, maximum = 0;
        for_each_row(local, tile, [&](int64_t j, int64_t k) {
            norms_of_row(r + local.row(j, k), tile.first, tile.last, sum, maximum);
        });
        partial[2 * number] = sum;
        partial[2 * number + 1] = maximum;
    }
    join_partials(partial, tiles, result);
    return POISSON_SUCCESS;
}

// One half for each mirror face that a node with this index along an axis of n nodes lies on.
template <class T>
inline double trapezoidal(const Local<T>& a, int axis, int64_t index, int64_t n) {
    const bool lower = index == 0 && a.rule(2 * axis) == MIRROR;
    const bool upper = index == n - 1 && a.rule(2 * axis + 1) == MIRROR;
    return lower || upper ? 0.5 : 1.0;
}

// The weighted sum of products of the values [first, last) of a row.
template <class T>
inline double dot_of_row(const Local<T>& a, const T* x, const T* y, int64_t first, int64_t last) {
    double sum = 0;
    int64_t i = first;
    for (; i < last && i < 1; ++i) sum += trapezoidal(a, 0, i, a.nx) * double(x[i]) * double(y[i]);
#ifndef POISSON_OFFLOAD
    Pack<double> sums = {};
    for (; i + LANES < last; i += LANES)
        sums += __builtin_convertvector(load(x + i), Pack<double>) * __builtin_convertvector(load(y + i), Pack<double>);
    for (int64_t lane = 0; lane < LANES; ++lane) sum += sums[lane];
#endif
    for (; i < last; ++i) sum += trapezoidal(a, 0, i, a.nx) * double(x[i]) * double(y[i]);
    return sum;
}

template <class T>
poisson_status dot(const poisson_operator* operator_, const T* x, const T* y, double* result) {
    if (!operator_ || !x || !y || !result) return POISSON_BAD_ARGUMENT;
    POISSON_OPERATOR(T, operator_, a);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t tiles = all.count();
    double* partial = partial_results(tiles);
    if (!partial) return POISSON_OUT_OF_MEMORY;
    POISSON_REGION(all.nodes(), (POISSON_PARTS(a)), (x, y, partial))
    for (int64_t number = 0; number < tiles; ++number) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Tile tile = Tiling(local).tile(number);
        double total = 0;
        for_each_row(local, tile, [&](int64_t j, int64_t k) {
            const double weight =
                trapezoidal(local, 1, j, local.ny) * (local.dimension == 3 ? trapezoidal(local, 2, k, local.nz) : 1.0);
            const int64_t row = local.row(j, k);
            total += weight * dot_of_row(local, x + row, y + row, tile.first, tile.last);
        });
        partial[2 * number] = total;
        partial[2 * number + 1] = 0;
    }
    join_partials(partial, tiles, result);
    return POISSON_SUCCESS;
}

template <class T>
poisson_status fill(T* x, int64_t rows, int64_t pitch, double value) {
    if (!x) return POISSON_BAD_ARGUMENT;
    const int64_t count = rows * pitch;
    const T typed = T(value);
    POISSON_FLAT_REGION(count, (typed), (x))
    for (int64_t n = 0; n < count; ++n) x[n] = typed;
    return POISSON_SUCCESS;
}

// y = a x + b y; y is not read where b is zero.
template <class T>
poisson_status axpby(double a, const T* x, double b, T* y, int64_t rows, int64_t pitch) {
    if (!x || !y) return POISSON_BAD_ARGUMENT;
    const int64_t count = rows * pitch;
    const T typed_a = T(a), typed_b = T(b);
    if (typed_b == 0) {
        POISSON_FLAT_REGION(count, (typed_a), (x, y))
        for (int64_t n = 0; n < count; ++n) y[n] = typed_a * x[n];
    } else {
        POISSON_FLAT_REGION(count, (typed_a, typed_b), (x, y))
        for (int64_t n = 0; n < count; ++n) y[n] = typed_a * x[n] + typed_b * y[n];
    }
    return POISSON_SUCCESS;
}

}  // namespace

extern "C" poisson_status poisson_triad(double* x, const double* y, const double* z, double a, int64_t count) {
    if (!x || !y || !z) return POISSON_BAD_ARGUMENT;
    POISSON_FLAT_REGION(count, (a), (x, y, z))
    for (int64_t n = 0; n < count; ++n) x[n] = y[n] + a * z[n];
    return POISSON_SUCCESS;
}

#define POISSON_DEFINE(real, suffix)                                                                            \
    extern "C" poisson_status poisson_update_##suffix(const poisson_operator* a, const real* f, const real* au, \
                                                      real* r, real* u, double omega) {                         \
        return update<real>(a, f, au, r, u, omega);                                                             \
    }                                                                                                           \
    extern "C" poisson_status poisson_norm_##suffix(const poisson_operator* a, const real* r, double* result) { \
        return norm<real>(a, r, result);                                                                        \
    }                                                                                                           \
    extern "C" poisson_status poisson_dot_##suffix(const poisson_operator* a, const real* x, const real* y,     \
                                                   double* result) {                                            \
        return dot<real>(a, x, y, result);                                                                      \
    }                                                                                                           \
    extern "C" poisson_status poisson_fill_##suffix(real* x, int64_t rows, int64_t pitch, double value) {       \
        return fill<real>(x, rows, pitch, value);                                                               \
    }                                                                                                           \
    extern "C" poisson_status poisson_axpby_##suffix(double a, const real* x, double b, real* y, int64_t rows,  \
                                                     int64_t pitch) {                                           \
        return axpby<real>(a, x, b, y, rows, pitch);                                                            \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
