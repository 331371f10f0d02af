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

// The transposed step: the transform is symmetric, so all of them in the opposite order take values in the order of
// their digits reversed and leave frequencies in their own order.
template <int RADIX, class T>
inline void transposed_factor(Lines<T>* values, int64_t blocks, int64_t count, const Root<T>* roots, int64_t step) {
    const int64_t part = count / RADIX;
    for (int64_t block = 0; block < blocks; ++block, values += count) {
        for (int64_t j = 0; j < part; ++j) {
            Lines<T> v[RADIX];
            for (int r = 0; r < RADIX; ++r) v[r] = values[j + part * r];
            for (int r = 1; j > 0 && r < RADIX; ++r) v[r] = roots[j * step * r] * v[r];
            small_transform<RADIX>(v);
            for (int r = 0; r < RADIX; ++r) values[j + part * r] = v[r];
        }
    }
}

// Results of an odd factor that are computed together, from values that are read once.
constexpr int64_t ODD_TOGETHER = 4;

// The frequencies k, k + 1, ... and their opposites of an odd factor, from the first value and the sums and differences
// of opposite ones: the cosines multiply the ones, the sines the others.
template <int64_t TOGETHER, class T, class Put>
inline void odd_frequencies(int64_t radix, int64_t k, const Lines<T>& first, const Lines<T>* sums, const Root<T>* roots,
                            int64_t turn, Put put) {
    Lines<T> even[TOGETHER], odd[TOGETHER];
    int64_t index[TOGETHER];
    for (int64_t n = 0; n < TOGETHER; ++n) {
        even[n] = first;
        odd[n] = Lines<T>{};
        index[n] = k + n;
    }
    for (int64_t m = 0; m < radix / 2; ++m) {
        const Lines<T> sum = sums[2 * m], difference = sums[2 * m + 1];
        for (int64_t n = 0; n < TOGETHER; ++n) {
            const Root<T> root = roots[turn * index[n]];
            even[n] = even[n] + root.re * sum;
            odd[n] = odd[n] + root.im * difference;
            index[n] += k + n;
            index[n] -= index[n] >= radix ? radix : 0;
        }
    }
    for (int64_t n = 0; n < TOGETHER; ++n) {
        put(k + n, Lines<T>{even[n].re - odd[n].im, even[n].im + odd[n].re});
        put(radix - k - n, Lines<T>{even[n].re + odd[n].im, even[n].im - odd[n].re});
    }
}

// A factor that is any odd number, by as many multiplications a value; `sums` has room for radix - 1 values.
template <class T>
inline void odd_factor(int64_t radix, Lines<T>* values, int64_t blocks, int64_t count, const Root<T>* roots,
                       int64_t step, Lines<T>* sums) {
    const int64_t part = count / radix, half = radix / 2, turn = step * part;
    for (int64_t block = 0; block < blocks; ++block, values += count) {
        for (int64_t j = 0; j < part; ++j) {
            const Lines<T> first = values[j];
            Lines<T> total = first;
            for (int64_t m = 1; m <= half; ++m) {
                const Lines<T>&a = values[j + part * m], &b = values[j + part * (radix - m)];
                sums[2 * m - 2] = a + b;
                sums[2 * m - 1] = a - b;
                total = total + sums[2 * m - 2];
            }
            const auto put = [&](int64_t k, const Lines<T>& value) {
                values[j + part * k] = j > 0 ? roots[j * step * k] * value : value;
            };
            values[j] = total;
            int64_t k = 1;
            for (; k + ODD_TOGETHER <= half + 1; k += ODD_TOGETHER)
                odd_frequencies<ODD_TOGETHER>(radix, k, first, sums, roots, turn, put);
            for (; k <= half; ++k) odd_frequencies<1>(radix, k, first, sums, roots, turn, put);
        }
    }
}

// Calls call(number) with one of the radices that have a transform of their own, as a number that the compiler knows;
// tells whether it is one.
template <class Call>
inline bool with_radix(int32_t radix, Call call) {
    switch (radix) {
        case 2:
            return call(std::integral_constant<int, 2>{}), true;
        case 3:
            return call(std::integral_constant<int, 3>{}), true;
        case 4:
            return call(std::integral_constant<int, 4>{}), true;
        case 5:
            return call(std::integral_constant<int, 5>{}), true;
        case 8:
            return call(std::integral_constant<int, 8>{}), true;
        default:
            return false;
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
