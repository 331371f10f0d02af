// SPDX-License-Identifier: MIT
// Complex Fourier transforms of lines of any length, in place: factor by factor, and what no factor is left for as a
// convolution.
#ifndef POISSON_PLAN_H
#define POISSON_PLAN_H

#include "poisson.h"
#include "transforms/small_transforms.h"

// Values of so many lines that fit in the first cache with the roots.
constexpr int64_t VALUES_IN_CACHE = 256;

// Transforms of a length with large prime factors (L. I. Bluestein, "A linear filtering approach to the computation of
// discrete Fourier transform", IEEE Trans. Audio Electroacoustics 18, 1970): as 2 k n = k^2 + n^2 - (k - n)^2, the
// transform of the values times a chirp is their convolution with the opposite chirp, times the chirp. The convolution
// is a product of spectra whose frequencies stay in the order of their digits reversed, so that parts of them go to
// the spectrum and back while they are in the cache.
template <class T>
class Convolution {
public:
    explicit Convolution(const poisson_convolution& all)
        : length(all.length),
          padded(all.padded),
          radix(all.radix),
          roots(static_cast<const Root<T>*>(all.roots)),
          chirp(static_cast<const Root<T>*>(all.chirp)),
          spectrum(static_cast<const Root<T>*>(all.spectrum)) {}

    // The transform of `length` values, with room for `padded`.
    void transform(Lines<T>* values, Lines<T>* room) const {
        with_radix(*radix, [&](auto number) { open<number>(values, room); });
        const int64_t part = padded / *radix;
        for (int64_t r = 0; r < *radix; ++r) multiply(room + part * r, part, radix + 1, *radix, spectrum + part * r);
        with_radix(*radix, [&](auto number) { close<number>(room, values); });
    }

private:
    int64_t length, padded;
    const int32_t* radix;
    const Root<T>*roots, *chirp, *spectrum;

    // The first factor, of values times the chirp with zeros behind them.
    template <int RADIX>
    void open(const Lines<T>* values, Lines<T>* room) const {
        const int64_t part = padded / RADIX;
        for (int64_t j = 0; j < part; ++j) {
            Lines<T> v[RADIX] = {};
            for (int r = 0; r < RADIX && j + part * r < length; ++r) v[r] = chirp[j + part * r] * values[j + part * r];
            small_transform<RADIX>(v);
            for (int r = 0; r < RADIX; ++r) room[j + part * r] = roots[j * r] * v[r];
        }
    }

    // The other factors, the product, and the same factors of the way back, whose values have their real and their
    // imaginary parts exchanged: that makes the transform its inverse.
    void multiply(Lines<T>* values, int64_t count, const int32_t* factors, int64_t step, const Root<T>* by) const {
        if (count > VALUES_IN_CACHE) {
            with_radix(*factors, [&](auto number) { factor<number>(values, 1, count, roots, step); });
            const int64_t part = count / *factors;
            for (int64_t r = 0; r < *factors; ++r)
                multiply(values + part * r, part, factors + 1, step * *factors, by + part * r);
            with_radix(*factors, [&](auto number) { transposed_factor<number>(values, 1, count, roots, step); });
            return;
        }
        int64_t blocks = 1;
        const int32_t* const first = factors;
        for (; factors[1]; ++factors) {
            with_radix(*factors, [&](auto number) { factor<number>(values, blocks, count, roots, step); });
            count /= *factors;
            blocks *= *factors;
            step *= *factors;
        }
        with_radix(*factors, [&](auto number) { there_and_back<number>(values, blocks, by); });
        while (factors-- != first) {
            count *= *factors;
            blocks /= *factors;
            step /= *factors;
            with_radix(*factors, [&](auto number) { transposed_factor<number>(values, blocks, count, roots, step); });
        }
    }

    template <int RADIX>
    void there_and_back(Lines<T>* values, int64_t blocks, const Root<T>* by) const {
        for (int64_t block = 0; block < blocks; ++block, values += RADIX, by += RADIX) {
            Lines<T> v[RADIX];
            for (int r = 0; r < RADIX; ++r) v[r] = values[r];
            small_transform<RADIX>(v);
            for (int r = 0; r < RADIX; ++r) {
                const Lines<T> product = by[r] * v[r];
                v[r] = {product.im, product.re};
            }
            small_transform<RADIX>(v);
            for (int r = 0; r < RADIX; ++r) values[r] = v[r];
        }
    }

    // The last factor of the way back, and the chirp.
    template <int RADIX>
    void close(const Lines<T>* room, Lines<T>* values) const {
        const int64_t part = padded / RADIX;
        for (int64_t j = 0; j < part; ++j) {
            Lines<T> v[RADIX];
            for (int r = 0; r < RADIX; ++r) v[r] = roots[j * r] * room[j + part * r];
            small_transform<RADIX>(v);
            for (int r = 0; r < RADIX && j + part * r < length; ++r)
                values[j + part * r] = chirp[j + part * r] * Lines<T>{v[r].im, v[r].re};
        }
    }
};

// What transforms a line, with the factors of its length.
template <class T>
struct Plan {
    const poisson_line* line;
    Lines<T>* room;  // of poisson_line::room values

    // Frequencies come in the order of their digits reversed. Parts that fit in the cache are finished one after the
    // other.
    __attribute__((noinline)) void transform(Lines<T>* values) const {
        transform(values, line->length, line->radix, 1);
    }

private:
    const Root<T>* roots() const { return static_cast<const Root<T>*>(line->roots); }

    void transform(Lines<T>* values, int64_t count, const int32_t* radix, int64_t step) const {
        if (count > VALUES_IN_CACHE) {
            apply(*radix, values, 1, count, step);
            const int64_t part = count / *radix;
            for (int64_t r = 0; part > 1 && r < *radix; ++r)
                transform(values + part * r, part, radix + 1, step * *radix);
            return;
        }
        int64_t blocks = 1;
        for (int64_t left = count; left > 1; ++radix) {
            apply(*radix, values, blocks, left, step);
            left /= *radix;
            blocks *= *radix;
            step *= *radix;
        }
    }

    void apply(int32_t radix, Lines<T>* values, int64_t blocks, int64_t count, int64_t step) const {
        const Root<T>* const all = roots();
        if (!with_radix(radix, [&](auto number) { factor<number>(values, blocks, count, all, step); }))
            apply_other(radix, values, blocks, count, step);
    }

    // A factor that has no transform of its own.
    __attribute__((noinline)) void apply_other(int32_t radix, Lines<T>* values, int64_t blocks, int64_t count,
                                               int64_t step) const {
        if (line->convolution && radix == line->convolution->length) {
            // The last factor: there is nothing but it in a block.
            const Convolution<T> convolution(*line->convolution);
            for (int64_t block = 0; block < blocks; ++block) convolution.transform(values + count * block, room);
        } else {
            odd_factor(radix, values, blocks, count, roots(), step, room);
        }
    }
};

#endif
