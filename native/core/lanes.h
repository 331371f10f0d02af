// SPDX-License-Identifier: MIT
// Eight neighbouring nodes at once on the host, in the vector types of GCC and Clang: the formulas take them as they
// are.
#ifndef POISSON_LANES_H
#define POISSON_LANES_H

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX__)
#include <immintrin.h>
#endif

constexpr int64_t LANES = 8;

template <class T, int64_t N = LANES>
struct PackOf {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <class T, int64_t N = LANES>
using Pack = typename PackOf<T, N>::type;

template <int64_t N = LANES, class T>
inline Pack<T, N> load(const T* from) {
    Pack<T, N> pack;
    std::memcpy(&pack, from, sizeof pack);
    return pack;
}

template <int64_t N = LANES, class T>
inline Pack<T, N> spread(T value) {
    return value - Pack<T, N>{};  // a sum would turn -0 into 0, and cost an addition
}

template <class T, int64_t N = LANES>
inline Pack<T, N> lane_numbers() {
    Pack<T, N> pack;
    for (int64_t lane = 0; lane < N; ++lane) pack[lane] = T(lane);
    return pack;
}

template <class T, class P>
inline void store(T* to, P pack) {
    std::memcpy(to, &pack, sizeof pack);
}

// The neighbours on one side of the nodes at `at`, which are `here`, from the pack before or behind them. Loads that
// cross a cache line cost more than shuffles, where one instruction shuffles a pack.
#ifdef __AVX512VL__
#ifdef __clang__
#define POISSON_LANES_OF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define POISSON_LANES_OF(a, b, ...) __builtin_shuffle(a, b, decltype(a < b){__VA_ARGS__})
#endif
template <class T, class P>
inline P left_of(const T*, P before, P here) {
    if constexpr (sizeof here == 8 * sizeof(T))
        return POISSON_LANES_OF(before, here, 7, 8, 9, 10, 11, 12, 13, 14);
    else
        return POISSON_LANES_OF(before, here, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
}
template <class T, class P>
inline P right_of(const T*, P here, P behind) {
    if constexpr (sizeof here == 8 * sizeof(T))
        return POISSON_LANES_OF(here, behind, 1, 2, 3, 4, 5, 6, 7, 8);
    else
        return POISSON_LANES_OF(here, behind, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
}
#else
template <class T, class P>
inline P left_of(const T* at, P, P) {
    return load<sizeof(P) / sizeof(T)>(at - 1);
}
template <class T, class P>
inline P right_of(const T* at, P, P) {
    return load<sizeof(P) / sizeof(T)>(at + 1);
}
#endif

// A pack in another type. Of one in float64 GCC takes each half for itself, apart and together again.
template <class O, class P>
inline auto converted(P pack) {
    constexpr int64_t lanes = sizeof pack / sizeof pack[0];
#ifdef __AVX512F__
    if constexpr (lanes == 8 && sizeof pack[0] == 4 && std::is_same_v<O, double>)
        return Pack<double>(_mm512_maskz_cvtps_pd(0xff, __m256(pack)));
    else if constexpr (lanes == 8 && sizeof pack[0] == 8 && std::is_same_v<O, float>)
        return Pack<float>(_mm512_maskz_cvtpd_ps(0xff, __m512d(pack)));
    else
#endif
        return __builtin_convertvector(pack, Pack<O, lanes>);
}

// 1 / x to a unit or two of rounding; a division of a pack takes as long as a dozen other operations.
template <class P>
inline P inverse_of(P x) {
#ifdef __AVX512VL__
    // From a value to 14 bits: with e = 1 - x y the inverse is y (1 + e) (1 + e²) (1 + e⁴) …
    constexpr size_t lanes = sizeof x / sizeof x[0];
    P y;
    if constexpr (sizeof x[0] == 4)
        if constexpr (lanes == 16)
            y = P(_mm512_maskz_rcp14_ps(0xffff, __m512(x)));
        else
            y = P(_mm256_rcp14_ps(__m256(x)));
    else
        y = P(_mm512_maskz_rcp14_pd(0xff, __m512d(x)));
    const P e = 1 - x * y, closer = y + y * e;
    return sizeof x[0] == 4 ? closer : closer + closer * (e * e);
#else
    return 1 / x;
#endif
}
inline float inverse_of(float x) { return 1 / x; }
inline double inverse_of(double x) { return 1 / x; }

// So many values before it is needed, what comes from memory is asked for.
constexpr int64_t FAR_AHEAD = 512;

// Into the second cache: the first one can wait for fewer lines at a time. A call of it that is not inlined at once is
// left out: to the compiler it does nothing.
template <class T>
__attribute__((always_inline)) inline void prefetch(const T* at, int64_t ahead) {
    __builtin_prefetch(at + ahead, 0, 2);
}

// Arrays of more bytes than this do not stay in a cache from one sweep to the next.
inline bool goes_around_cache(int64_t bytes) { return bytes > int64_t{32} << 20; }

// A store that goes around the cache, to an address aligned to the pack: the line is not read first. store_fence() must
// come before other threads read it.
template <class T, class P>
inline void store_streaming(T* to, P pack) {
#if defined(__AVX512F__)
    if constexpr (sizeof pack == 64) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<const __m512i&>(pack));
        return;
    }
#endif
#if defined(__AVX__)
    __m256i part[sizeof pack / 32];
    std::memcpy(part, &pack, sizeof pack);
    for (size_t n = 0; n < sizeof pack / 32; ++n) _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + n, part[n]);
#else
    store(to, pack);
#endif
}

inline void store_fence() {
#if defined(__AVX__)
    _mm_sfence();
#endif
}

// The larger of what is there and the size of a value, lane by lane.
template <class P>
inline P larger_size(P largest, P value) {
#ifdef __AVX512F__
    if constexpr (sizeof value == 64 && sizeof value[0] == 4)
        return P(_mm512_maskz_max_ps(0xffff, _mm512_abs_ps(__m512(value)), __m512(largest)));
    else if constexpr (sizeof value == 64)
        return P(_mm512_maskz_max_pd(0xff, _mm512_abs_pd(__m512d(value)), __m512d(largest)));
#endif
    const P size = value < P{} ? -value : value;
    return size > largest ? size : largest;
}

// The sum of squares and the maximum of what it is given, lane by lane.
struct PackNorms {
    Pack<double> sum = {}, maximum = {};

    template <class T>
    void add(Pack<T> values) {
        const Pack<double> x = converted<double>(values);
        sum += x * x;
        maximum = larger_size(maximum, x);
    }
    void join(double& total, double& largest) const {
        for (int64_t lane = 0; lane < LANES; ++lane) {
            total += sum[lane];
            largest = maximum[lane] > largest ? maximum[lane] : largest;
        }
    }
};

#endif
