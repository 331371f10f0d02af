// SPDX-License-Identifier: MIT
// Values in the memory of the caller, whose rows need no alignment: taken into an array, and the residual against them.
#include <algorithm>
#include <type_traits>

#include "core/kept.h"
#include "operator/certify_row.h"

namespace {

// The row `to` from the row `from` less `shift`, zero at the nodes that are fixed and behind the row. Where a value is
// not finite the sum is not, whether its node is fixed or not.
template <class T, class V>
void take_row(const Local<T>& a, bool fixed_row, const T* mask, const V* from, double shift, T* to, bool stream,
              double& sum, double& maximum) {
    const bool lower = fixed_row || a.fixed(0, a.nx, 0), upper = fixed_row || a.fixed(a.nx - 1, a.nx, 0);
    const double kept = fixed_row ? 0.0 : 1.0, moved = fixed_row ? 0.0 : shift;
    const Pack<double> factor = spread(kept), less = spread(moved);
    const bool asks = a.dimension == 3 && !stream;
    PackNorms norms;
    const auto step = [&](int64_t i, auto at_an_end) __attribute__((always_inline)) {
        Pack<V> given = {};
        if (!at_an_end || i + LANES <= a.nx)
            given = load(from + i);
        else
            std::memcpy(&given, from + i, (a.nx - i) * sizeof(V));
        prefetch(from + i, FAR_AHEAD);
        // A store of a line that is in no cache waits as long as a load.
        if (asks) __builtin_prefetch(to + i + FAR_AHEAD / 2, 1, 3);
        Pack<double> values = converted<double>(given) * factor - less;
        if (mask) values = converted<double>(load(mask + i)) < 0.0 ? 0.0 * values : values;
        if constexpr (at_an_end) {
            for (int64_t lane = a.nx - i; lane < LANES; ++lane) values[lane] = 0;
            if (i == 0 && lower) values[0] *= 0.0;
            if (upper && a.nx - 1 - i < LANES) values[a.nx - 1 - i] *= 0.0;
        }
        norms.add<double>(values);
        put(to + i, values, stream);
    };
    const int64_t last = (a.nx - 1) / LANES * LANES;
    step(0, std::true_type());
    for (int64_t i = LANES; i < last; i += LANES) step(i, std::false_type());
    if (last > 0) step(last, std::true_type());
    for (int64_t i = (a.nx + LANES - 1) / LANES * LANES; i < a.pitch; ++i) to[i] = 0;
    norms.join(sum, maximum);
}

template <class T, class V>
poisson_status take(const poisson_operator* operator_, const V* from, int64_t from_pitch, double shift, T* to,
                    double* result) {
    if (!operator_ || !from || !to || !result) return POISSON_BAD_ARGUMENT;
    const Local<T> a = local<T>(operator_);
    const Tiling all(a);
    const bool stream = goes_around_cache(a.pitch * a.ny * a.nz * int64_t(sizeof(T)));
    const T* const mask = mask_of<T>(operator_);
    double* const partial = partial_results(all.count());
    if (!partial) return POISSON_OUT_OF_MEMORY;
    POISSON_REGION(all.nodes(), (), ())
    for (int64_t number = 0; number < all.count(); ++number) {
        double sum = 0, maximum = 0, other_sum = 0, other_maximum = 0;
        for_each_row(a, all.tile(number), [&](int64_t j, int64_t k) {
            const bool counts = a.counts(j, k);
            const bool fixed = a.fixed(j, a.ny, 1) || (a.dimension == 3 && a.fixed(k, a.nz, 2));
            take_row(a, fixed, mask ? mask + a.row(j, k) : nullptr, from + from_pitch * (j + a.ny * k), shift,
                     to + a.row(j, k), stream, counts ? sum : other_sum, counts ? maximum : other_maximum);
        });
        if (stream) store_fence();
        keep_pair(partial, number, all.count(), sum, maximum, result);
    }
    join_partials(partial, all.count(), result);
    return POISSON_SUCCESS;
}

// The sums of w (f - shift) and of its size, with the control volumes w.
template <class T, class V>
poisson_status integrate(const poisson_operator* operator_, const V* from, int64_t from_pitch, double shift,
                         double* result) {
    if (!operator_ || !from || !result) return POISSON_BAD_ARGUMENT;
    const Local<T> a = local<T>(operator_);
    const Tiling all(a);
    double* const partial = partial_results(all.count());
    if (!partial) return POISSON_OUT_OF_MEMORY;
    // The ends of a row count half where a mirror is there.
    const double lower = 1 - trapezoidal(a, 0, 0, a.nx), upper = 1 - trapezoidal(a, 0, a.nx - 1, a.nx);
    const double *const widths = operator_->widths, *const along_x = widths ? widths + a.table(0, 1) : nullptr;
    POISSON_REGION(all.nodes(), (), ())
    for (int64_t number = 0; number < all.count(); ++number) {
        double sum = 0, size = 0;
        for_each_row(a, all.tile(number), [&](int64_t j, int64_t k) {
            if (!a.counts(j, k)) return;
            const V* const values = from + from_pitch * (j + a.ny * k);
            const auto row = [&](int64_t i) { return double(values[i]) - shift; };
            double of_row = 0, size_of_row = 0;
            if (!along_x) {
                of_row = -lower * row(0), size_of_row = -lower * std::abs(row(0));
                if (a.nx > 1) {
                    of_row -= upper * row(a.nx - 1);
                    size_of_row -= upper * std::abs(row(a.nx - 1));
                }
            }
            // An order that does not depend on where rows lie, as one that begins at aligned values would.
            Pack<double> sums = {}, sizes = {};
            int64_t i = 0;
            for (; i + LANES <= a.nx; i += LANES) {
                Pack<double> pack = converted<double>(load(values + i)) - shift;
                if (along_x) pack *= load(along_x + i);
                sums += pack;
                sizes += pack < 0.0 ? -pack : pack;
            }
            for (int64_t lane = 0; i < a.nx; ++i, ++lane) {
                const double value = along_x ? along_x[i] * row(i) : row(i);
                sums[lane] += value;
                sizes[lane] += std::abs(value);
            }
            for (int64_t lane = 0; lane < LANES; ++lane) {
                of_row += sums[lane];
                size_of_row += sizes[lane];
            }
            const double weight = width_of_row(a, widths, j, k);
            sum += weight * of_row;
            size += weight * size_of_row;
        });
        partial[2 * number] = sum;
        partial[2 * number + 1] = size;
    }
    std::fill(result, result + 2 * GROUPS, 0.0);
    for (int64_t number = 0; number < all.count(); ++number) {
        result[0] += partial[2 * number];
        result[1] += partial[2 * number + 1];
    }
    return POISSON_SUCCESS;
}

// Values of the same row in another type, between others.
inline int64_t widened_values(const Local<double>& a) { return (a.nx + LANES - 1) / LANES * LANES + 2 * LANES; }

inline const double* widened(const float* from, int64_t values, double* to) {
    for (int64_t i = 0; i < values - 2 * LANES; i += LANES) store(to + LANES + i, converted<double>(load(from + i)));
    return to + LANES;
}

// A row and those beside it in float64, in the memory behind that of certify_row.
template <int DIMENSION>
Rows<double> rows_in(const Local<double>& a, const float* u, int64_t j, int64_t k, double* to) {
    Local<float> narrow = {};
    narrow.dimension = a.dimension, narrow.nx = a.nx, narrow.ny = a.ny, narrow.nz = a.nz, narrow.pitch = a.pitch;
    narrow.rules = a.rules;
    const Rows<float> from = rows_at<DIMENSION>(narrow, u, j, k);
    const int64_t values = widened_values(a);
    to += certify_bytes(a) / int64_t(sizeof(double));
    Rows<double> rows = {};
    rows.fixed = from.fixed;
    rows.centre = rows.z_lower = rows.z_upper = widened(from.centre, values, to);
    rows.y_lower = widened(from.y_lower, values, to + values);
    rows.y_upper = widened(from.y_upper, values, to + 2 * values);
    if (DIMENSION == 3) {
        rows.z_lower = widened(from.z_lower, values, to + 3 * values);
        rows.z_upper = widened(from.z_upper, values, to + 4 * values);
    }
    return rows;
}

// The norms of f - shift - A u, which is written nowhere, in the type of f.
template <int DIMENSION, class T, class U>
poisson_status certify_on(const poisson_operator* operator_, const U* u, const Source<T>& f, double* result) {
    const Local<T> a = local<T>(operator_);
    const Tiling all(a);
    const int64_t rows = std::is_same<T, U>::value ? 0 : (2 * DIMENSION - 1) * widened_values(local<double>(operator_));
    const WorkingRows work(all.count(), certify_bytes(a) + rows * int64_t(sizeof(T)));
    double* const partial = partial_results(all.count());
    if (!partial || !work) return POISSON_OUT_OF_MEMORY;
    POISSON_REGION(all.nodes(), (), ())
    for (int64_t number = 0; number < all.count(); ++number) {
        T* const row = work.row<T>(number);
        Sums sums = {0, 0};
        for_each_group<DIMENSION>(a, all.tile(number), [&](int64_t m, int64_t start, int64_t stop) {
            if constexpr (std::is_same_v<T, U>) {
                certify_group<DIMENSION>(a, u, f, m, start, stop, row, sums);
            } else {
                for (int64_t at = start; at < stop; ++at) {
                    const int64_t j = DIMENSION == 2 ? at : m, k = DIMENSION == 2 ? 0 : at;
                    certify_row<DIMENSION>(a, rows_in<DIMENSION>(a, u, j, k, row), f, j, k, row, sums);
                }
            }
        });
        keep_pair(partial, number, all.count(), sums.sum, sums.maximum, result);
    }
    join_partials(partial, all.count(), result);
    return POISSON_SUCCESS;
}

template <class T, class U>
poisson_status certify(const poisson_operator* a, const U* u, const T* f, int64_t f_pitch, double shift,
                       double* result) {
    if (!a || !u || !f || !result || varies(*a)) return POISSON_BAD_ARGUMENT;
    const Source<T> source = {f, f_pitch, shift};
    return a->dimension == 2 ? certify_on<2>(a, u, source, result) : certify_on<3>(a, u, source, result);
}

}  // namespace

POISSON_EXPORT(take,
               (const poisson_operator* a, const void* f, int64_t f_pitch, double f_shift, int32_t f_double, real* out,
                double* result),
               a,
               f_double ? take(a, static_cast<const double*>(f), f_pitch, f_shift, out, result)
                        : take(a, static_cast<const real*>(f), f_pitch, f_shift, out, result))
POISSON_EXPORT(integrate,
               (const poisson_operator* a, const void* f, int64_t f_pitch, double f_shift, int32_t f_double,
                double* result),
               a,
               f_double ? integrate<real>(a, static_cast<const double*>(f), f_pitch, f_shift, result)
                        : integrate<real>(a, static_cast<const real*>(f), f_pitch, f_shift, result))
POISSON_EXPORT(certify,
               (const poisson_operator* a, const real* u, const void* f, int64_t f_pitch, double f_shift,
                int32_t f_double, double* result),
               a,
               f_double ? certify(a, u, static_cast<const double*>(f), f_pitch, f_shift, result)
                        : certify(a, u, static_cast<const real*>(f), f_pitch, f_shift, result))
