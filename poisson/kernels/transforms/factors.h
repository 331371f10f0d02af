// SPDX-License-Identifier: MIT
// The complex transform of a line in shared memory: factor by factor, or as a convolution where the length has a large
// prime factor. Options, beside those of transform.hip: RADICES, the factors of LENGTH; of a convolution PADDED, its
// length, and RADICES, the factors of that, two or more.

#ifdef RADICES

// The powers of a root: the first RADIX of them.
template <int RADIX>
__device__ __forceinline__ void powers_of(Complex root, Complex* power) {
    power[0] = Complex{1, 0};
    power[1] = root;
#pragma unroll
    for (int r = 2; r < RADIX; ++r) power[r] = power[r / 2] * power[r - r / 2];
}

// One factor of a transform of LENGTH values in the order of T. G. Stockham (1966), which needs no sorting at the end:
// DONE is the product of the factors before. Each thread holds its values while all of the line changes.
template <int DONE, int RADIX, class AnyLine>
__device__ __forceinline__ void factor(const AnyLine& line, const Complex* roots) {
    constexpr int COUNT = LENGTH / RADIX, EACH = (COUNT + BLOCK_X - 1) / BLOCK_X;
    const int lane = afresh(threadIdx.x);
    Complex values[EACH][RADIX];
#pragma unroll
    for (int n = 0; n < EACH; ++n) {
        const int j = lane + BLOCK_X * n;
        if (COUNT % BLOCK_X && j >= COUNT) continue;
#pragma unroll
        for (int r = 0; r < RADIX; ++r) values[n][r] = line[j + COUNT * r];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < EACH; ++n) {
        const int j = lane + BLOCK_X * n;
        if (COUNT % BLOCK_X && j >= COUNT) continue;
        const int k = j % DONE;
        if (DONE > 1) {
            Complex power[RADIX];
            powers_of<RADIX>(roots[k * (LENGTH / (DONE * RADIX))], power);
#pragma unroll
            for (int r = 1; r < RADIX; ++r) values[n][r] = power[r] * values[n][r];
        }
        Small<RADIX>::transform(values[n]);
        const int to = (j - k) * RADIX + k;
#pragma unroll
        for (int r = 0; r < RADIX; ++r) line[to + DONE * r] = values[n][r];
    }
    __syncthreads();
}

// All factors one after the other.
template <int DONE, int... RADIX>
struct Factors {
    template <class AnyLine>
    __device__ static __forceinline__ void apply(const AnyLine&, const Complex*) {}
};

template <int DONE, int RADIX, int... OTHERS>
struct Factors<DONE, RADIX, OTHERS...> {
    template <class AnyLine>
    __device__ static __forceinline__ void apply(const AnyLine& line, const Complex* roots) {
        factor<DONE, RADIX>(line, roots);
        Factors<DONE * RADIX, OTHERS...>::apply(line, roots);
    }
};

// ---- the transform as a convolution

// L. I. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", IEEE Trans. Audio
// Electroacoustics 18, 1970: as 2 k n = k^2 + n^2 - (k - n)^2, the transform of the values times a chirp is their
// convolution with the opposite chirp, times the chirp. Every step is in place; the product of the spectra takes the
// frequencies in the order of their digits reversed. Behind the roots lie the chirp, e^(-i pi n^2 / LENGTH), and the
// spectrum, as the last factor takes it: the values of a number r of its RADIX behind those of r - 1.

// One factor of transforms of BLOCK values each. To the spectrum the roots multiply what comes out; on the way back,
// the transposed step, what goes in.
template <int BLOCK, int RADIX, bool BACK, class AnyLine>
__device__ __forceinline__ void convolution_factor(const AnyLine& line, const Complex* roots) {
    constexpr int COUNT = PADDED / RADIX, PART = BLOCK / RADIX;
    constexpr bool OUTER = BLOCK == PADDED;
    const Complex* const chirp = roots + PADDED;
    for (int n = afresh(threadIdx.x); n < COUNT; n += BLOCK_X) {
        const int k = n % PART, first = (n - k) * RADIX + k;
        Complex values[RADIX], power[RADIX];
        powers_of<RADIX>(roots[k * (PADDED / BLOCK)], power);
#pragma unroll
        for (int r = 0; r < RADIX; ++r) {
            const int p = first + PART * r;
            if (OUTER && !BACK) {
                values[r] = p < LENGTH ? chirp[p] * line[p] : Complex{0, 0};
            } else {
                values[r] = line[p];
            }
            if (BACK && r > 0) values[r] = power[r] * values[r];
        }
        Small<RADIX>::transform(values);
#pragma unroll
        for (int r = 0; r < RADIX; ++r) {
            const int p = first + PART * r;
            if (OUTER && BACK) {
                if (p < LENGTH) line[p] = chirp[p] * Complex{values[r].im, values[r].re};
            } else {
                line[p] = BACK || r == 0 ? values[r] : power[r] * values[r];
            }
        }
    }
    __syncthreads();
}

// The last factor, the product, and the same factor of the way back. That is a transform of values whose real and
// imaginary parts are exchanged, which makes it the inverse.
template <int RADIX, class AnyLine>
__device__ __forceinline__ void convolution_product(const AnyLine& line, const Complex* roots) {
    constexpr int COUNT = PADDED / RADIX;
    const Complex* const spectrum = roots + PADDED + LENGTH;
    for (int n = afresh(threadIdx.x); n < COUNT; n += BLOCK_X) {
        Complex values[RADIX];
#pragma unroll
        for (int r = 0; r < RADIX; ++r) values[r] = line[RADIX * n + r];
        Small<RADIX>::transform(values);
#pragma unroll
        for (int r = 0; r < RADIX; ++r) {
            const Complex product = spectrum[n + COUNT * r] * values[r];
            values[r] = Complex{product.im, product.re};
        }
        Small<RADIX>::transform(values);
#pragma unroll
        for (int r = 0; r < RADIX; ++r) line[RADIX * n + r] = values[r];
    }
    __syncthreads();
}

template <int BLOCK, int RADIX, int... OTHERS>
struct ConvolutionFactors {
    template <class AnyLine>
    __device__ static __forceinline__ void apply(const AnyLine& line, const Complex* roots) {
        convolution_factor<BLOCK, RADIX, false>(line, roots);
        ConvolutionFactors<BLOCK / RADIX, OTHERS...>::apply(line, roots);
        convolution_factor<BLOCK, RADIX, true>(line, roots);
    }
};

template <int BLOCK, int RADIX>
struct ConvolutionFactors<BLOCK, RADIX> {
    template <class AnyLine>
    __device__ static __forceinline__ void apply(const AnyLine& line, const Complex* roots) {
        convolution_product<RADIX>(line, roots);
    }
};

template <int... RADIX>
struct TransformOf {
    template <class AnyLine>
    __device__ static __forceinline__ void apply(const AnyLine& line, const Complex* roots) {
#if PADDED == LENGTH
        Factors<1, RADIX...>::apply(line, roots);
#else
        ConvolutionFactors<PADDED, RADIX...>::apply(line, roots);
#endif
    }
};

#endif
