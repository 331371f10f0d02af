// SPDX-License-Identifier: MIT
// Operations on whole arrays: update, norm, fill, axpby, dot and correct.
#include "operator/diagonal.h"
#include "operator/stencil.h"

namespace {

// r = f - au; u = u + scale r
template <class T>
poisson_status update(const poisson_operator* operator_, const T* f, const T* au, T* r, T* u, double omega) {
    if (!operator_ || !au || !r || !u) return POISSON_BAD_ARGUMENT;
    if (varies(*operator_)) return update_varying(operator_, f, au, r, u, omega);
    const int64_t count = units<T>(operator_->pitch * operator_->shape[1] * operator_->shape[2]);
    const T scale = T(omega / operator_->diagonal);
    const Unit<T>*source = units_of(f), *applied = units_of(au);
    Unit<T>*residual = units_of(r), *value = units_of(u);
    if (f) {
        POISSON_UNITS(n, count, (scale), (source, applied, residual, value)) {
            const Unit<T> difference = residual_of(source[n], applied[n]);
            residual[n] = difference;
            value[n] = relax(value[n], difference, unit(scale));
        }
    } else {
        POISSON_UNITS(n, count, (scale), (applied, residual, value)) {
            const Unit<T> difference = -applied[n];
            residual[n] = difference;
            value[n] = relax(value[n], difference, unit(scale));
        }
    }
    return POISSON_SUCCESS;
}

// The sum of squares and the maximum of the values [first, last) of a row: on a GPU, of one pack.
template <class T>
inline void norms_of_row(const T* r, int64_t first, int64_t last, double& sum, double& maximum) {
    const auto add = [&](double x) {
        const double size = x < 0 ? -x : x;
        sum += x * x;
        maximum = size > maximum ? size : maximum;
    };
#ifdef POISSON_OFFLOAD
    const Pack<T> pack = load(r + first);
    for (int32_t lane = 0; lane < WIDTH<T>; ++lane) add(first + lane < last ? double(pack[lane]) : 0.0);
#else
    int64_t i = first;
    PackNorms norms;
    for (; i + LANES <= last; i += LANES) norms.add<T>(load(r + i));
    norms.join(sum, maximum);
    for (; i < last; ++i) add(r[i]);
#endif
}

template <class T>
poisson_status norm(const poisson_operator* operator_, const T* r, double* result) {
    if (!operator_ || !r || !result) return POISSON_BAD_ARGUMENT;
    POISSON_OPERATOR(T, operator_, a);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t threads = reduction_threads(all.count());
    double* partial = partial_results(threads);
    if (!partial) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, threads, all.nodes(), (POISSON_PARTS(a), threads), (r, partial, result)) {
        const Local<T> local = POISSON_LOCAL(T, a);
        double sum = 0, maximum = 0;
        for_each_tile(Tiling(local), number, threads, [&](const Tile& tile) {
            for_each_row(local, tile, [&](int64_t j, int64_t k) {
                const int64_t stop = local.counts(j, k) ? tile.last : tile.first;
                norms_of_row(r + local.row(j, k), tile.first, stop, sum, maximum);
            });
        });
        keep_pair(partial, number, threads, sum, maximum, result);
    }
    join_partials(partial, threads, result);
    return POISSON_SUCCESS;
}

// The sum of products of the values [first, last) of a row with the widths of a tabulated axis.
template <class T>
__attribute__((noinline)) double dot_with_widths(const double* widths, const T* x, const T* y, int64_t first,
                                                 int64_t last) {
    double sum = 0;
    int64_t i = first;
#ifndef POISSON_OFFLOAD
    using Doubles = Pack<double>;
    Doubles sums = {};
    for (; i + LANES <= last; i += LANES)
        sums += load(widths + i) * converted<double>(load(x + i)) * converted<double>(load(y + i));
    for (int64_t lane = 0; lane < LANES; ++lane) sum += sums[lane];
#endif
    for (; i < last; ++i) sum += widths[i] * double(x[i]) * double(y[i]);
    return sum;
}

// The weighted sum of products of the values [first, last) of a row: on a GPU, of one pack.
template <class T>
inline double dot_of_row(const Local<T>& a, const T* x, const T* y, int64_t first, int64_t last) {
    double sum = 0;
    const auto add = [&](int64_t i, double product) { sum += trapezoidal(a, 0, i, a.nx) * product; };
#ifdef POISSON_OFFLOAD
    const Pack<T> one = load(x + first), other = load(y + first);
    for (int32_t lane = 0; lane < WIDTH<T>; ++lane)
        add(first + lane, first + lane < last ? double(one[lane]) * double(other[lane]) : 0.0);
#else
    int64_t i = first;
    for (; i < last && i < 1; ++i) add(i, double(x[i]) * double(y[i]));
    Pack<double> sums = {};
    for (; i + LANES < last; i += LANES) sums += converted<double>(load(x + i)) * converted<double>(load(y + i));
    for (int64_t lane = 0; lane < LANES; ++lane) sum += sums[lane];
    for (; i < last; ++i) add(i, double(x[i]) * double(y[i]));
#endif
    return sum;
}

template <class T>
poisson_status dot(const poisson_operator* operator_, const T* x, const T* y, double* result) {
    if (!operator_ || !x || !y || !result) return POISSON_BAD_ARGUMENT;
    POISSON_OPERATOR(T, operator_, a);
    const double* const widths = operator_->widths;
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t threads = reduction_threads(all.count());
    double* partial = partial_results(threads);
    if (!partial) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, threads, all.nodes(), (POISSON_PARTS(a), threads), (x, y, partial, result, widths)) {
        const Local<T> local = POISSON_LOCAL(T, a);
        double total = 0;
        for_each_tile(Tiling(local), number, threads, [&](const Tile& tile) {
            for_each_row(local, tile, [&](int64_t j, int64_t k) {
                if (!local.counts(j, k)) return;
                const double weight = width_of_row(local, widths, j, k);
                const int64_t row = local.row(j, k);
                total += weight *
                         (widths ? dot_with_widths(widths + local.table(0, 1), x + row, y + row, tile.first, tile.last)
                                 : dot_of_row(local, x + row, y + row, tile.first, tile.last));
            });
        });
        keep_pair(partial, number, threads, total, 0, result);
    }
    join_partials(partial, threads, result);
    return POISSON_SUCCESS;
}

// x = value
template <class T>
poisson_status fill(T* x, int64_t rows, int64_t pitch, double value) {
    if (!x) return POISSON_BAD_ARGUMENT;
    const int64_t count = units<T>(rows * pitch);
    const T typed = T(value);
    Unit<T>* to = units_of(x);
    POISSON_UNITS(n, count, (typed), (to)) to[n] = unit(typed);
    return POISSON_SUCCESS;
}

// y = a x + b y; y is not read where b is zero.
template <class T>
poisson_status axpby(double a, const T* x, double b, T* y, int64_t rows, int64_t pitch) {
    if (!x || !y) return POISSON_BAD_ARGUMENT;
    const int64_t count = units<T>(rows * pitch);
    const T typed_a = T(a), typed_b = T(b);
    const Unit<T>* from = units_of(x);
    Unit<T>* to = units_of(y);
    if (typed_b == 0) {
        POISSON_UNITS(n, count, (typed_a), (from, to)) to[n] = unit(typed_a) * from[n];
    } else {
        POISSON_UNITS(n, count, (typed_a, typed_b), (from, to)) to[n] = unit(typed_a) * from[n] + unit(typed_b) * to[n];
    }
    return POISSON_SUCCESS;
}

// y = y + factor x; x has single precision, y either.
template <class T>
poisson_status correct(double factor, const float* x, T* y, int64_t rows, int64_t pitch) {
    if (!x || !y) return POISSON_BAD_ARGUMENT;
    const int64_t count = units<T>(rows * pitch);
    const T typed = T(factor);
    Unit<T>* to = units_of(y);
    POISSON_UNITS(n, count, (typed), (x, to)) {
#ifdef POISSON_OFFLOAD
        Pack<T> step;
        for (int32_t lane = 0; lane < WIDTH<T>; ++lane) step[lane] = T(x[n * WIDTH<T> + lane]);
        to[n] = to[n] + unit(typed) * step;
#else
        to[n] = to[n] + typed * T(x[n]);
#endif
    }
    return POISSON_SUCCESS;
}

}  // namespace

POISSON_EXPORT(update, (const poisson_operator* a, const real* f, const real* au, real* r, real* u, double omega), a,
               update<real>(a, f, au, r, u, omega))
POISSON_EXPORT(norm, (const poisson_operator* a, const real* r, double* result), a, norm<real>(a, r, result))
POISSON_EXPORT(dot, (const poisson_operator* a, const real* x, const real* y, double* result), a,
               dot<real>(a, x, y, result))
POISSON_EXPORT(fill, (real * x, int64_t rows, int64_t pitch, double value, int32_t threads), threads,
               fill<real>(x, rows, pitch, value))
POISSON_EXPORT(axpby, (double a, const real* x, double b, real* y, int64_t rows, int64_t pitch, int32_t threads),
               threads, axpby<real>(a, x, b, y, rows, pitch))
POISSON_EXPORT(correct, (double factor, const float* x, real* y, int64_t rows, int64_t pitch, int32_t threads), threads,
               correct<real>(factor, x, y, rows, pitch))
