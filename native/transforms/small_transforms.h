// SPDX-License-Identifier: MIT
// Complex Fourier transforms of many lines at once: a vector register has one value of each.
#ifndef POISSON_SMALL_TRANSFORMS_H
#define POISSON_SMALL_TRANSFORMS_H

#include <utility>

#include "core/formulas.h"
#include "core/lanes.h"

// Lanes of 64 bytes: as many lines in the real parts, and as many others in the imaginary parts.
template <class T>
constexpr int64_t WIDE = 64 / int64_t(sizeof(T));
template <class T>
using Wide = Pack<T, WIDE<T>>;

template <class T>
struct Lines {
    Wide<T> re, im;
};

template <class T>
inline Lines<T> operator+(const Lines<T>& a, const Lines<T>& b) {
    return {a.re + b.re, a.im + b.im};
}
template <class T>
inline Lines<T> operator-(const Lines<T>& a, const Lines<T>& b) {
    return {a.re - b.re, a.im - b.im};
}
template <class T>
inline Lines<T> operator*(T a, const Lines<T>& b) {
    return {a * b.re, a * b.im};
}

template <class T>
struct Root {
    T re, im;
};

template <class T>
inline Lines<T> operator*(const Root<T>& a, const Lines<T>& b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
inline Lines<T> conjugate(const Lines<T>& a) {
    return {a.re, -a.im};
}
template <class T>
inline Lines<T> times_minus_i(const Lines<T>& a) {
    return {a.im, -a.re};
}

// e^(-2 pi i k n / RADIX) of RADIX values, in place.
template <int RADIX, class T>
inline void small_transform(Lines<T>* v) {
    if constexpr (RADIX == 2) {
        const Lines<T> a = v[0];
        v[0] = a + v[1];
        v[1] = a - v[1];
    } else if constexpr (RADIX == 3) {
        const Lines<T> sum = v[1] + v[2], difference = T(0.86602540378443864676) * times_minus_i(v[1] - v[2]);
        const Lines<T> a = v[0] - T(0.5) * sum;
        v[0] = v[0] + sum;
        v[1] = a + difference;
        v[2] = a - difference;
    } else if constexpr (RADIX == 4) {
        const Lines<T> a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = times_minus_i(v[1] - v[3]);
        v[0] = a + c;
        v[1] = b + d;
        v[2] = a - c;
        v[3] = b - d;
    } else if constexpr (RADIX == 5) {
        const T cos_1 = T(0.30901699437494742410), cos_2 = T(-0.80901699437494742410);
        const T sin_1 = T(0.95105651629515357212), sin_2 = T(0.58778525229247312917);
        const Lines<T> a = v[1] + v[4], b = v[2] + v[3];
        const Lines<T> c = times_minus_i(v[1] - v[4]), d = times_minus_i(v[2] - v[3]);
        const Lines<T> e = v[0] + cos_1 * a + cos_2 * b, f = v[0] + cos_2 * a + cos_1 * b;
        const Lines<T> g = sin_1 * c + sin_2 * d, h = sin_2 * c - sin_1 * d;
        v[0] = v[0] + a + b;
        v[1] = e + g;
        v[2] = f + h;
        v[3] = f - h;
        v[4] = e - g;
    } else {
        static_assert(RADIX == 8, "there is no transform of this many values");
        const T half = T(0.70710678118654752440);
        Lines<T> even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
        small_transform<4>(even);
        small_transform<4>(odd);
        odd[1] = half * Lines<T>{odd[1].re + odd[1].im, odd[1].im - odd[1].re};
        odd[2] = times_minus_i(odd[2]);
        odd[3] = half * Lines<T>{odd[3].im - odd[3].re, -odd[3].re - odd[3].im};
        for (int n = 0; n < 4; ++n) {
            v[n] = even[n] + odd[n];
            v[n + 4] = even[n] - odd[n];
        }
    }
}

// One factor of a transform of `count` values, for `blocks` of them behind one another. `step` times `count` is the
// number of roots. What belongs together afterwards lies in one of RADIX parts of the block.
template <int RADIX, class T>
inline void factor(Lines<T>* values, int64_t blocks, int64_t count, const Root<T>* roots, int64_t step) {
    const int64_t part = count / RADIX;
    for (int64_t block = 0; block < blocks; ++block, values += count) {
        for (int64_t j = 0; j < part; ++j) {
            Lines<T> v[RADIX];
            for (int r = 0; r < RADIX; ++r) v[r] = values[j + part * r];
            small_transform<RADIX>(v);
            values[j] = v[0];
            if (j == 0) {
                for (int r = 1; r < RADIX; ++r) values[part * r] = v[r];
            } else {
                for (int r = 1; r < RADIX; ++r) values[j + part * r] = roots[j * step * r] * v[r];
            }
        }
    }
}

template <class T>
inline void factor_of(int32_t radix, Lines<T>* values, int64_t blocks, int64_t count, const Root<T>* roots,
                      int64_t step) {
    switch (radix) {
        case 2:
            return factor<2>(values, blocks, count, roots, step);
        case 3:
            return factor<3>(values, blocks, count, roots, step);
        case 4:
            return factor<4>(values, blocks, count, roots, step);
        case 5:
            return factor<5>(values, blocks, count, roots, step);
        default:
            return factor<8>(values, blocks, count, roots, step);
    }
}

// Values of so many lines that fit in the first cache with the roots.
constexpr int64_t VALUES_IN_CACHE = 256;

// The transform of `count` values in place; frequencies come in the order of their digits reversed. Parts that fit in
// the cache are finished one after the other.
template <class T>
inline void transform_digits_reversed(Lines<T>* values, int64_t count, const int32_t* radix, const Root<T>* roots,
                                      int64_t step) {
    if (count > VALUES_IN_CACHE) {
        factor_of(*radix, values, 1, count, roots, step);
        const int64_t part = count / *radix;
        for (int64_t r = 0; part > 1 && r < *radix; ++r) {
            transform_digits_reversed(values + part * r, part, radix + 1, roots, step * *radix);
        }
        return;
    }
    int64_t blocks = 1;
    for (int64_t left = count; left > 1; ++radix) {
        factor_of(*radix, values, blocks, left, roots, step);
        left /= *radix;
        blocks *= *radix;
        step *= *radix;
    }
}

// Calls do_for(lane) for each lane of a register, each time with a number that the compiler knows.
template <class T, class Do, int... LANE>
POISSON_INLINE void for_lanes_of(Do do_for, std::integer_sequence<int, LANE...>) {
    (do_for(std::integral_constant<int, LANE>{}), ...);
}

// ---- rows of an array as lanes: a square of WIDE by WIDE values, mirrored at its diagonal

template <int DISTANCE, class P, int... LANE>
inline void swap_corners(P& a, P& b, std::integer_sequence<int, LANE...>) {
    constexpr int WIDTH = sizeof...(LANE);
    const P low = __builtin_shufflevector(a, b, ((LANE & DISTANCE) ? WIDTH + LANE - DISTANCE : LANE)...);
    b = __builtin_shufflevector(a, b, ((LANE & DISTANCE) ? WIDTH + LANE : LANE + DISTANCE)...);
    a = low;
}

template <int DISTANCE, class T>
inline void swap_all_corners(Wide<T>* rows) {
    constexpr int WIDTH = int(WIDE<T>);
    for (int row = 0; row < WIDTH; ++row) {
        if (!(row & DISTANCE)) {
            swap_corners<DISTANCE>(rows[row], rows[row + DISTANCE], std::make_integer_sequence<int, WIDTH>{});
        }
    }
    if constexpr (DISTANCE > 1) swap_all_corners<DISTANCE / 2, T>(rows);
}

template <class T>
inline void mirror_square(Wide<T>* rows) {
    swap_all_corners<int(WIDE<T>) / 2, T>(rows);
}

#endif
