// SPDX-License-Identifier: MIT
// Runs the GPU kernels on the CPU: what a kernel source needs of CUDA and HIP, for the system compiler on Linux.
//
// A library is one translation unit that Python writes: this header, the macros of the -D options, the kernel source,
// and what Python calls for each kernel (build.py). Nothing is included here, as each library would read it again; what
// is not a kernel's own is in emulation.cpp, which all libraries share.
//
// At the start of a block every byte of __shared__ memory is 0xff, which is NaN, but for that of function templates:
// GCC does not put it where it belongs.
//
// Limits. No dynamic shared memory (`extern __shared__`); warps of 32 lanes; one launch at a time; a thread that spins
// until another writes a value hangs.

#pragma once

#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
// A section of their own lets the start of a block poison all shared arrays; `used` keeps the optimiser from assuming
// that it sees every write to them.
#define __shared__ static __attribute__((section("emulation_shared"), used))
// The unknown attributes are marks that Python finds in the preprocessed text; the compiler ignores them.
#define __global__ __attribute__((emulation_kernel, visibility("default")))
#define EMULATION_FIRST(first, ...) first
#define __launch_bounds__(...) __attribute__((emulation_bounds(EMULATION_FIRST(__VA_ARGS__, )), emulation_bounds_end))
#define EMULATION_SHARED __attribute__((visibility("default")))  // by the libraries

#define EMULATION_SITE(operation) (emulation::Site{operation, __FILE__, __LINE__})
#define __syncthreads() emulation::barrier(EMULATION_SITE("__syncthreads"))
#define __shfl_up_sync(...) emulation::shuffle_up(EMULATION_SITE("__shfl_up_sync"), __VA_ARGS__)
#define __shfl_down_sync(...) emulation::shuffle_down(EMULATION_SITE("__shfl_down_sync"), __VA_ARGS__)
#define __shfl_xor_sync(...) emulation::shuffle_xor(EMULATION_SITE("__shfl_xor_sync"), __VA_ARGS__)

typedef __SIZE_TYPE__ size_t;

static inline int __popc(unsigned value) {
    int count = 0;
    for (int bit = 0; bit < 32; ++bit) count += value >> bit & 1;
    return count;
}

struct uint3 {
    unsigned int x, y, z;
};

struct dim3 {
    unsigned int x = 1, y = 1, z = 1;
};

namespace emulation {

constexpr unsigned WARP = 32;
typedef unsigned long Slot;  // what a number of any type fits in
static_assert(sizeof(Slot) == 8, "Python packs slots of 8 bytes");

// Mirrored by `_Launch` in kernels.py.
struct Launch {
    unsigned grid[3];
    unsigned block[3];
    unsigned order;  // 0 forward, 1 reversed, 2 shuffled
    unsigned seed;
    int chosen[EMULATION_CHOSEN];  // the values of the macros in build.CHOSEN
};

struct Site {
    const char* operation;
    const char* file;
    int line;
};

// A kernel as a launch sees it.
struct Kernel {
    const char* name;
    void (*body)(const Slot* arguments);
    char *shared, *shared_end;
};

// What the thread that runs sees.
struct View {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
    int chosen[EMULATION_CHOSEN];
};

EMULATION_SHARED extern View view;
EMULATION_SHARED int launch(const Launch& geometry, const Kernel& kernel, const Slot* arguments);
EMULATION_SHARED void out_of_bounds(void* data, void* index);
EMULATION_SHARED void misaligned(void* data, void* address);
EMULATION_SHARED void barrier(Site site);
EMULATION_SHARED unsigned own_lane();
EMULATION_SHARED void check_width(Site site, int width);
EMULATION_SHARED Slot exchange(Site site, unsigned mask, Slot value, unsigned source);

// NumPy's text for the type of a number: f8, i4, ...
template <class T>
constexpr const char* CODE = nullptr;
template <>
constexpr const char* CODE<bool> = "b1";
template <>
constexpr const char* CODE<char> = "i1";
template <>
constexpr const char* CODE<signed char> = "i1";
template <>
constexpr const char* CODE<unsigned char> = "u1";
template <>
constexpr const char* CODE<short> = "i2";
template <>
constexpr const char* CODE<unsigned short> = "u2";
template <>
constexpr const char* CODE<int> = "i4";
template <>
constexpr const char* CODE<unsigned> = "u4";
template <>
constexpr const char* CODE<long> = "i8";
template <>
constexpr const char* CODE<unsigned long> = "u8";
template <>
constexpr const char* CODE<long long> = "i8";
template <>
constexpr const char* CODE<unsigned long long> = "u8";
template <>
constexpr const char* CODE<float> = "f4";
template <>
constexpr const char* CODE<double> = "f8";

// ---- shuffles -------------------------------------------------------------------------------------------------------

template <class T>
static T exchanged(Site site, unsigned mask, T value, unsigned source) {
    static_assert(CODE<T> != nullptr, "a shuffle moves one number");
    Slot slot = 0;
    __builtin_memcpy(&slot, &value, sizeof value);
    slot = exchange(site, mask, slot, source);
    __builtin_memcpy(&value, &slot, sizeof value);
    return value;
}

// As in CUDA, a lane whose source lies outside its group of `width` lanes keeps its own value.
template <class T>
static T shuffle_down(Site site, unsigned mask, T value, unsigned offset, int width = WARP) {
    check_width(site, width);
    const unsigned lane = own_lane();
    const bool inside = lane % width + offset < static_cast<unsigned>(width);
    return exchanged(site, mask, value, inside ? lane + offset : lane);
}

template <class T>
static T shuffle_up(Site site, unsigned mask, T value, unsigned offset, int width = WARP) {
    check_width(site, width);
    const unsigned lane = own_lane();
    return exchanged(site, mask, value, lane % width >= offset ? lane - offset : lane);
}

// As in CUDA, a lane may read from a group of `width` lanes before its own, and keeps its value in place of one behind.
template <class T>
static T shuffle_xor(Site site, unsigned mask, T value, int lane_mask, int width = WARP) {
    check_width(site, width);
    const unsigned lane = own_lane(), source = lane ^ static_cast<unsigned>(lane_mask);
    return exchanged(site, mask, value, source / width > lane / width ? lane : source);
}

// ---- signatures and calls -------------------------------------------------------------------------------------------

// How a parameter reads in a signature: "*f8" for double*, "+f8" for const double*, "=f8" for double.
template <class T>
struct Parameter {
    static constexpr char kind = '=';
    static constexpr const char* code = CODE<T>;
};
template <class T>
struct Parameter<T*> {
    static constexpr char kind = '*';
    static constexpr const char* code = CODE<T>;
};
template <class T>
struct Parameter<const T*> {
    static constexpr char kind = '+';
    static constexpr const char* code = CODE<T>;
};

template <int... POSITIONS>
struct Positions {};

template <auto KERNEL>
struct Entry;

template <class... Parameters, void (*KERNEL)(Parameters...)>
struct Entry<KERNEL> {
    static_assert(((Parameter<Parameters>::code != nullptr) && ...),
                  "the parameters of a kernel are pointers to numbers, and numbers");

    static void body(const Slot* arguments) { call(arguments, Positions<__integer_pack(sizeof...(Parameters))...>()); }

    static const char* signature() {
        static char text[4 * sizeof...(Parameters) + 1];
        char* end = text;
        ((*end++ = Parameter<Parameters>::kind, *end++ = Parameter<Parameters>::code[0],
          *end++ = Parameter<Parameters>::code[1], *end++ = ' '),
         ...);
        *end = '\0';
        return text;
    }

private:
    template <class T>
    static T value(const Slot& slot) {
        T result;
        __builtin_memcpy(&result, &slot, sizeof result);
        return result;
    }

    template <int... POSITIONS>
    static void call([[maybe_unused]] const Slot* arguments, Positions<POSITIONS...>) {
        KERNEL(value<Parameters>(arguments[POSITIONS])...);
    }
};

}  // namespace emulation

#ifndef EMULATION_RUNTIME  // what follows is for kernels

extern "C" {
extern char __start_emulation_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulation_shared[] __attribute__((weak, visibility("hidden")));

// Called by what -fsanitize=bounds puts before each access to an array of known length.
__attribute__((visibility("hidden"))) void __ubsan_handle_out_of_bounds(void* data, void* index) {
    emulation::out_of_bounds(data, index);
}
// Called by what -fsanitize=alignment puts before each access, where a GPU would refuse it.
__attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(void* data, void* address) {
    emulation::misaligned(data, address);
}
}

static const uint3& threadIdx = emulation::view.thread;
static const uint3& blockIdx = emulation::view.block;
static const dim3& blockDim = emulation::view.block_dim;
static const dim3& gridDim = emulation::view.grid_dim;
static constexpr int warpSize = emulation::WARP;

template <class T>
static inline T max(T a, T b) {
    return a < b ? b : a;
}
template <class T>
static inline T min(T a, T b) {
    return b < a ? b : a;
}
static inline float sqrt(float x) { return __builtin_sqrtf(x); }
static inline double sqrt(double x) { return __builtin_sqrt(x); }
static inline float fabs(float x) { return __builtin_fabsf(x); }
static inline double fabs(double x) { return __builtin_fabs(x); }
static inline float fmax(float x, float y) { return __builtin_fmaxf(x, y); }
static inline double fmax(double x, double y) { return __builtin_fmax(x, y); }
static inline float exp(float x) { return __builtin_expf(x); }
static inline double exp(double x) { return __builtin_exp(x); }
static inline double log(double x) { return __builtin_log(x); }
static inline double expm1(double x) { return __builtin_expm1(x); }
static inline double asinh(double x) { return __builtin_asinh(x); }

static inline void __threadfence() {}

static inline unsigned int atomicAdd(unsigned int* address, unsigned int value) {
    return __atomic_fetch_add(address, value, __ATOMIC_ACQ_REL);  // with the fence that stands before it in a kernel
}

static inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
    return __atomic_fetch_add(address, value, __ATOMIC_ACQ_REL);
}

static inline void atomicMin(unsigned long long* address, unsigned long long value) {
    auto found = __atomic_load_n(address, __ATOMIC_ACQUIRE);
    while (value < found &&
           !__atomic_compare_exchange_n(address, &found, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
}

static inline void atomicMin(int* address, int value) {
    auto found = __atomic_load_n(address, __ATOMIC_ACQUIRE);
    while (value < found &&
           !__atomic_compare_exchange_n(address, &found, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
}

static inline void atomicMax(unsigned long long* address, unsigned long long value) {
    auto found = __atomic_load_n(address, __ATOMIC_ACQUIRE);
    while (value > found &&
           !__atomic_compare_exchange_n(address, &found, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
}

static inline int atomicCAS(int* address, int compare, int value) {
    __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return compare;
}

#endif
