// SPDX-License-Identifier: MIT
// Complex numbers, and the Fourier transforms of a few of them.

struct alignas(2 * sizeof(real)) Complex {
    real re, im;
};

__device__ __forceinline__ Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
__device__ __forceinline__ Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
__device__ __forceinline__ Complex operator*(real a, Complex b) { return {a * b.re, a * b.im}; }
__device__ __forceinline__ Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ __forceinline__ Complex conjugate(Complex a) { return {a.re, -a.im}; }

// e^(-2 pi i k n / RADIX) of RADIX values in registers, in place.

__device__ __forceinline__ Complex times_minus_i(Complex a) { return {a.im, -a.re}; }

// The cosines and sines of 2 pi m / RADIX for 0 < m <= RADIX / 2.
template <int RADIX>
__device__ __forceinline__ real circle(int m, bool sine);

template <>
__device__ __forceinline__ real circle<7>(int m, bool sine) {
    constexpr double cosines[] = {0.62348980185873353053, -0.22252093395631440429, -0.90096886790241912624};
    constexpr double sines[] = {0.78183148246802980871, 0.97492791218182360702, 0.43388373911755812048};
    return (real)(sine ? sines[m - 1] : cosines[m - 1]);
}

template <>
__device__ __forceinline__ real circle<11>(int m, bool sine) {
    constexpr double cosines[] = {0.84125353283118116886, 0.41541501300188642553, -0.14231483827328514044,
                                  -0.65486073394528506406, -0.95949297361449738989};
    constexpr double sines[] = {0.54064081745559758211, 0.90963199535451837141, 0.98982144188093273238,
                                0.75574957435425828377, 0.28173255684142969771};
    return (real)(sine ? sines[m - 1] : cosines[m - 1]);
}

template <>
__device__ __forceinline__ real circle<13>(int m, bool sine) {
    constexpr double cosines[] = {0.8854560256532098959,   0.56806474673115580251,  0.12053668025532305335,
                                  -0.35460488704253562597, -0.74851074817110109863, -0.97094181742605202716};
    constexpr double sines[] = {0.46472317204376854566, 0.82298386589365639458, 0.9927088740980539928,
                                0.93501624268541482344, 0.66312265824079520238, 0.23931566428755776715};
    return (real)(sine ? sines[m - 1] : cosines[m - 1]);
}

// Any odd number of values: cosines multiply the sums of opposite ones, sines the differences.
template <int RADIX>
struct Small {
    __device__ static __forceinline__ void transform(Complex* v) {
        constexpr int OPPOSITE = RADIX / 2;
        Complex sums[OPPOSITE], differences[OPPOSITE], total = v[0];
#pragma unroll
        for (int n = 1; n <= OPPOSITE; ++n) {
            sums[n - 1] = v[n] + v[RADIX - n];
            differences[n - 1] = times_minus_i(v[n] - v[RADIX - n]);
            total = total + sums[n - 1];
        }
#pragma unroll
        for (int k = 1; k <= OPPOSITE; ++k) {
            Complex even = v[0], odd = {0, 0};
#pragma unroll
            for (int n = 1; n <= OPPOSITE; ++n) {
                const int turn = k * n % RADIX;
                const bool upper = turn > OPPOSITE;
                even = even + circle<RADIX>(upper ? RADIX - turn : turn, false) * sums[n - 1];
                const Complex part = circle<RADIX>(upper ? RADIX - turn : turn, true) * differences[n - 1];
                odd = upper ? odd - part : odd + part;
            }
            v[k] = even + odd;
            v[RADIX - k] = even - odd;
        }
        v[0] = total;
    }
};

template <>
struct Small<2> {
    __device__ static __forceinline__ void transform(Complex* v) {
        const Complex a = v[0], b = v[1];
        v[0] = a + b;
        v[1] = a - b;
    }
};

template <>
struct Small<3> {
    __device__ static __forceinline__ void transform(Complex* v) {
        const Complex sum = v[1] + v[2], difference = times_minus_i(v[1] - v[2]);
        const Complex a = v[0] - (real)0.5 * sum, b = (real)0.86602540378443864676 * difference;
        v[0] = v[0] + sum;
        v[1] = a + b;
        v[2] = a - b;
    }
};

template <>
struct Small<4> {
    __device__ static __forceinline__ void transform(Complex* v) {
        const Complex a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = times_minus_i(v[1] - v[3]);
        v[0] = a + c;
        v[1] = b + d;
        v[2] = a - c;
        v[3] = b - d;
    }
};

template <>
struct Small<5> {
    __device__ static __forceinline__ void transform(Complex* v) {
        const real cos_1 = (real)0.30901699437494742410, cos_2 = (real)-0.80901699437494742410;
        const real sin_1 = (real)0.95105651629515357212, sin_2 = (real)0.58778525229247312917;
        const Complex a = v[1] + v[4], b = v[2] + v[3];
        const Complex c = times_minus_i(v[1] - v[4]), d = times_minus_i(v[2] - v[3]);
        const Complex e = v[0] + cos_1 * a + cos_2 * b, f = v[0] + cos_2 * a + cos_1 * b;
        const Complex g = sin_1 * c + sin_2 * d, h = sin_2 * c - sin_1 * d;
        v[0] = v[0] + a + b;
        v[1] = e + g;
        v[2] = f + h;
        v[3] = f - h;
        v[4] = e - g;
    }
};

template <>
struct Small<8> {
    __device__ static __forceinline__ void transform(Complex* v) {
        const real half = (real)0.70710678118654752440;
        Complex even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
        Small<4>::transform(even);
        Small<4>::transform(odd);
        odd[1] = half * Complex{odd[1].re + odd[1].im, odd[1].im - odd[1].re};
        odd[2] = times_minus_i(odd[2]);
        odd[3] = half * Complex{odd[3].im - odd[3].re, -odd[3].re - odd[3].im};
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            v[n] = even[n] + odd[n];
            v[n + 4] = even[n] - odd[n];
        }
    }
};
