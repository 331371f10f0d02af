// SPDX-License-Identifier: MIT
// What the device streams and computes at most: a copy, and independent chains of multiply-adds, several a thread, so
// that none waits for the one before.
#include "core/regions.h"
#include "studies/studies.h"

namespace {

#ifdef POISSON_OFFLOAD
constexpr int64_t CHAINS = 8;
template <class T>
using Chain = T;
template <class T>
T total(const T& x) {
    return x;
}
#else
// Values that a thread copies before it takes the next ones.
constexpr int64_t PART = 4096;

// As many registers of the widest kind as hide the latency of two multiply-adds in each clock.
#if defined(__AVX512F__)
constexpr int64_t CHAINS = 10, REGISTER = 64;
#elif defined(__AVX__)
constexpr int64_t CHAINS = 10, REGISTER = 32;
#else
constexpr int64_t CHAINS = 10, REGISTER = 16;
#endif
template <class T>
struct ChainOf {
    typedef T type __attribute__((vector_size(REGISTER)));
};
template <class T>
using Chain = typename ChainOf<T>::type;
template <class T, class Lanes>
T total(const Lanes& x) {
    T sum = 0;
    for (int64_t lane = 0; lane < REGISTER / int64_t(sizeof(T)); ++lane) sum += x[lane];
    return sum;
}
#endif

template <class T>
poisson_status multiply_adds(T* out, int64_t count, int64_t rounds, T a, T b) {
    if (!out || count < 1 || rounds < 1) return POISSON_BAD_ARGUMENT;
    POISSON_REGION(count * rounds, (count, rounds, a, b), (out))
    for (int64_t n = 0; n < count; ++n) {
        Chain<T> x[CHAINS];
        for (int64_t chain = 0; chain < CHAINS; ++chain) x[chain] = Chain<T>{} + T(chain);
        for (int64_t round = 0; round < rounds; ++round) {
            for (int64_t chain = 0; chain < CHAINS; ++chain) x[chain] = x[chain] * a + b;
        }
        Chain<T> sum = x[0];
        for (int64_t chain = 1; chain < CHAINS; ++chain) sum += x[chain];
        out[n] = total<T>(sum);
    }
    return POISSON_SUCCESS;
}

template <class T>
int64_t chains() {
    return CHAINS * int64_t(sizeof(Chain<T>) / sizeof(T));
}

}  // namespace

extern "C" poisson_status poisson_copy(double* to, const double* from, int64_t count, int32_t threads) {
    if (!to || !from) return POISSON_BAD_ARGUMENT;
    use_threads(threads);
#ifdef POISSON_OFFLOAD
    const Unit<double>* values = units_of(from);
    Unit<double>* copies = units_of(to);
    const int64_t all = units<double>(count);
    POISSON_UNITS(n, all, (), (values, copies)) copies[n] = values[n];
#else
    const bool stream = goes_around_cache(count * int64_t(sizeof(double)));
    POISSON_REGION(count, (), ())
    for (int64_t part = 0; part < count; part += PART) {
        const int64_t end = part + PART < count ? part + PART : count;
        for (int64_t n = part; n < end; n += LANES) {
            const Pack<double> pack = load(from + n);
            prefetch(from + n, FAR_AHEAD);
            if (stream)
                store_streaming(to + n, pack);
            else
                store(to + n, pack);
        }
        if (stream) store_fence();
    }
#endif
    return POISSON_SUCCESS;
}

extern "C" int64_t poisson_peak_chains_f32(void) { return chains<float>(); }
extern "C" int64_t poisson_peak_chains_f64(void) { return chains<double>(); }

extern "C" poisson_status poisson_multiply_adds_f32(float* out, int64_t count, int64_t rounds, double a, double b,
                                                    int32_t threads) {
    use_threads(threads);
    return multiply_adds(out, count, rounds, float(a), float(b));
}
extern "C" poisson_status poisson_multiply_adds_f64(double* out, int64_t count, int64_t rounds, double a, double b,
                                                    int32_t threads) {
    use_threads(threads);
    return multiply_adds(out, count, rounds, a, b);
}
