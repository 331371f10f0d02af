// Runs the GPU kernels on the CPU: what a kernel source needs of CUDA and HIP, for the system compiler on Linux.
//
// A library is one translation unit that Python writes: this header, the macros of the -D options, the kernel source,
// and what Python calls for each kernel (build.py). Each GPU thread of a block is a fiber, which runs until it waits or
// ends; blocks run one after another. The order of threads and of blocks is the caller's choice, so that a missing
// barrier, or a block that depends on another, gives different results in different orders, and the same result each
// time in the same order.
//
// At the start of a block every byte of __shared__ memory is 0xff, which is NaN, but for that of function templates:
// GCC does not put it where it belongs.
//
// Limits. No dynamic shared memory (`extern __shared__`); warps of 32 lanes; one launch of a library at a time; a
// thread that spins until another writes a value hangs.

#pragma once

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <type_traits>
#include <utility>

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

#define EMULATION_SITE(operation) (emulation::Site{operation, __FILE__, __LINE__})
#define __syncthreads() emulation::barrier(EMULATION_SITE("__syncthreads"))
#define __shfl_up_sync(...) emulation::shuffle_up(EMULATION_SITE("__shfl_up_sync"), __VA_ARGS__)
#define __shfl_down_sync(...) emulation::shuffle_down(EMULATION_SITE("__shfl_down_sync"), __VA_ARGS__)
#define __shfl_xor_sync(...) emulation::shuffle_xor(EMULATION_SITE("__shfl_xor_sync"), __VA_ARGS__)

using std::max;
using std::min;

struct uint3 {
    unsigned int x, y, z;
};

struct dim3 {
    unsigned int x = 1, y = 1, z = 1;
};

extern "C" {
extern char __start_emulation_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulation_shared[] __attribute__((weak, visibility("hidden")));
}

namespace emulation {

constexpr unsigned WARP = 32;
constexpr unsigned MAX_THREADS = 1024;
constexpr size_t STACK_BYTES = 64 * 1024;

// Mirrored by `Launch` in kernels.py.
struct Launch {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t order;  // 0 forward, 1 reversed, 2 shuffled
    uint32_t seed;
};

struct Site {
    const char* operation;
    const char* file;
    int line;

    bool operator==(const Site& other) const {
        return line == other.line && strcmp(file, other.file) == 0 && strcmp(operation, other.operation) == 0;
    }
};

enum class State { READY, BARRIER, SHUFFLE, FINISHED };

struct Fiber {
    jmp_buf context;
    bool started;  // `context` holds the place to go on from
    State state;
    uint3 index;
    Site site;
    unsigned mask;       // SHUFFLE: the lanes that take part
    unsigned source;     // SHUFFLE: the lane to read
    uint64_t deposited;  // SHUFFLE: what the others may read
    uint64_t received;
};

struct Engine {
    void (*body)(const uint64_t* arguments);
    const uint64_t* arguments;
    const char* kernel;
    uint3 thread, block;
    dim3 block_dim, grid_dim;
    unsigned threads;
    uint32_t order;
    uint32_t random;
    Fiber* running;
    jmp_buf scheduler;
    char error[512];
};

static Engine engine;
static Fiber fibers[MAX_THREADS];
alignas(4096) static unsigned char stacks[MAX_THREADS][STACK_BYTES];

// ---- errors ---------------------------------------------------------------------------------------------------------

// Keeps the first error; on a fiber it does not return, and the launch ends there.
__attribute__((format(printf, 1, 2))) static void fail(const char* format, ...) {
    if (!engine.error[0]) {
        const uint3 b = engine.block;
        int used = snprintf(engine.error, sizeof engine.error, "kernel %.100s, block (%u, %u, %u)", engine.kernel, b.x,
                            b.y, b.z);
        if (engine.running) {
            const uint3 t = engine.running->index;
            used += snprintf(engine.error + used, sizeof engine.error - used, ", thread (%u, %u, %u)", t.x, t.y, t.z);
        }
        used += snprintf(engine.error + used, sizeof engine.error - used, ": ");
        va_list values;
        va_start(values, format);
        vsnprintf(engine.error + used, sizeof engine.error - used, format, values);
        va_end(values);
    }
    if (engine.running) _longjmp(engine.scheduler, 1);
}

static void fail_disagreement(const Fiber& one, const Fiber& other) {
    fail("thread (%u, %u, %u) waits at %s in line %d, thread (%u, %u, %u) at %s in line %d", one.index.x, one.index.y,
         one.index.z, one.site.operation, one.site.line, other.index.x, other.index.y, other.index.z,
         other.site.operation, other.site.line);
}

static void on_signal(int number, siginfo_t* info, void*) {
    if (!engine.running) {  // not a kernel's doing
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    if (number == SIGFPE) fail("an integer division by zero");
    fail("an access outside all arrays, at address %p", info->si_addr);
}

// While it lives, a wild access in a kernel is an error of the launch and not the end of the process.
class SignalGuard {
public:
    SignalGuard() {
        struct sigaction action{};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        for (int i = 0; i < COUNT; ++i) sigaction(NUMBERS[i], &action, &previous_[i]);
    }
    ~SignalGuard() {
        for (int i = 0; i < COUNT; ++i) sigaction(NUMBERS[i], &previous_[i], nullptr);
    }
    SignalGuard(const SignalGuard&) = delete;
    SignalGuard& operator=(const SignalGuard&) = delete;

private:
    static constexpr int COUNT = 3;
    static constexpr int NUMBERS[COUNT] = {SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction previous_[COUNT];
};

// ---- fibers ---------------------------------------------------------------------------------------------------------

static void enter() {
    for (;;) {  // a fiber serves one thread of each block, launch after launch
        engine.body(engine.arguments);
        engine.running->state = State::FINISHED;
        if (_setjmp(engine.running->context) == 0) _longjmp(engine.scheduler, 1);
    }
}

// Runs a fiber until it waits, ends or fails. Past its first start a fiber is entered by longjmp, which, unlike
// swapcontext, makes no system call.
__attribute__((noinline)) static void resume(unsigned thread) {
    Fiber& fiber = fibers[thread];
    engine.running = &fiber;
    engine.thread = fiber.index;
    if (_setjmp(engine.scheduler) == 0) {
        if (fiber.started) _longjmp(fiber.context, 1);
        fiber.started = true;
        ucontext_t start;
        getcontext(&start);
        start.uc_stack.ss_sp = stacks[thread];
        start.uc_stack.ss_size = STACK_BYTES;
        start.uc_link = nullptr;
        makecontext(&start, enter, 0);
        setcontext(&start);
    }
    engine.running = nullptr;
}

__attribute__((noinline)) static void wait(State state, Site site) {
    engine.running->state = state;
    engine.running->site = site;
    if (_setjmp(engine.running->context) == 0) _longjmp(engine.scheduler, 1);
}

// ---- order ----------------------------------------------------------------------------------------------------------

static uint32_t next_random() {  // xorshift
    engine.random ^= engine.random << 13;
    engine.random ^= engine.random >> 17;
    engine.random ^= engine.random << 5;
    return engine.random;
}

// 0 ... count - 1, each once: start, start + step, start + 2 step, ... modulo count, the step prime to the count.
class Sequence {
public:
    explicit Sequence(uint64_t count) : count_(count), start_(0), step_(1) {
        if (engine.order == 1) {
            start_ = step_ = count - 1;
        } else if (engine.order == 2) {
            start_ = next_random() % count;
            do step_ = 1 + next_random() % count;
            while (common_divisor(step_, count) != 1);
        }
    }
    uint64_t operator[](uint64_t position) const { return (start_ + position * step_) % count_; }

private:
    static uint64_t common_divisor(uint64_t a, uint64_t b) { return b == 0 ? a : common_divisor(b, a % b); }

    uint64_t count_, start_, step_;
};

// ---- waiting --------------------------------------------------------------------------------------------------------

static void barrier(Site site) { wait(State::BARRIER, site); }

// Lets the lanes go on that wait at the same shuffle, where all that take part have come. A lane that has ended or
// never was takes no part; what is read from it is NaN.
static bool release_shuffles() {
    bool released = false;
    for (unsigned first = 0; first < engine.threads; first += WARP) {
        const unsigned lanes = std::min(WARP, engine.threads - first);
        Fiber* const warp = fibers + first;
        for (unsigned lane = 0; lane < lanes; ++lane) {
            if (warp[lane].state != State::SHUFFLE) continue;
            const unsigned mask = warp[lane].mask;
            const auto takes_part = [&](unsigned other) {
                return other < lanes && (mask >> other & 1u) && warp[other].state != State::FINISHED;
            };
            bool complete = true;
            for (unsigned other = 0; other < lanes; ++other) {
                if (!takes_part(other)) continue;
                complete = complete && warp[other].state == State::SHUFFLE && warp[other].mask == mask &&
                           warp[other].site == warp[lane].site;
            }
            if (!complete) continue;
            for (unsigned other = 0; other < lanes; ++other) {
                if (!takes_part(other)) continue;
                const unsigned source = warp[other].source;
                warp[other].received = takes_part(source) ? warp[source].deposited : ~uint64_t{0};
            }
            for (unsigned other = 0; other < lanes; ++other) {
                if (takes_part(other)) warp[other].state = State::READY;
            }
            released = true;
        }
    }
    return released;
}

// Lets the block go on if all its living threads wait at one barrier. False: the block has ended, or it never will.
static bool release_barrier() {
    const Fiber* waiting = nullptr;
    for (unsigned thread = 0; thread < engine.threads; ++thread) {
        const Fiber& fiber = fibers[thread];
        if (fiber.state == State::FINISHED) continue;
        if (!waiting) waiting = &fiber;
        if (!(fiber.site == waiting->site)) {
            fail_disagreement(*waiting, fiber);
            return false;
        }
    }
    if (!waiting) return false;
    if (waiting->state == State::SHUFFLE) {
        fail("threads wait for each other with different masks at %s in line %d", waiting->site.operation,
             waiting->site.line);
        return false;
    }
    for (unsigned thread = 0; thread < engine.threads; ++thread) {
        if (fibers[thread].state == State::BARRIER) fibers[thread].state = State::READY;
    }
    return true;
}

template <class T>
static T exchange(Site site, unsigned mask, T value, unsigned source) {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= sizeof(uint64_t), "a shuffle moves one number");
    Fiber& self = *engine.running;
    const unsigned lane = static_cast<unsigned>(&self - fibers) % WARP;
    if (!(mask >> lane & 1u))
        fail("the mask %#x at %s in line %d leaves out its own lane", mask, site.operation, site.line);
    self.mask = mask;
    self.source = source;
    memcpy(&self.deposited, &value, sizeof value);
    wait(State::SHUFFLE, site);
    memcpy(&value, &self.received, sizeof value);
    return value;
}

static unsigned own_lane() { return static_cast<unsigned>(engine.running - fibers) % WARP; }

static void check_width(Site site, int width) {
    if (width < 1 || width > static_cast<int>(WARP) || (width & (width - 1)) != 0)
        fail("the width %d at %s in line %d is not a power of two up to 32", width, site.operation, site.line);
}

// As in CUDA, a lane whose source lies outside its group of `width` lanes keeps its own value.
template <class T>
static T shuffle_down(Site site, unsigned mask, T value, unsigned offset, int width = WARP) {
    check_width(site, width);
    const unsigned lane = own_lane();
    const bool inside = lane % width + offset < static_cast<unsigned>(width);
    return exchange(site, mask, value, inside ? lane + offset : lane);
}

template <class T>
static T shuffle_up(Site site, unsigned mask, T value, unsigned offset, int width = WARP) {
    check_width(site, width);
    const unsigned lane = own_lane();
    return exchange(site, mask, value, lane % width >= offset ? lane - offset : lane);
}

// As in CUDA, a lane may read from a group of `width` lanes before its own, and keeps its value in place of one behind.
template <class T>
static T shuffle_xor(Site site, unsigned mask, T value, int lane_mask, int width = WARP) {
    check_width(site, width);
    const unsigned lane = own_lane(), source = lane ^ static_cast<unsigned>(lane_mask);
    return exchange(site, mask, value, source / width > lane / width ? lane : source);
}

// ---- launches -------------------------------------------------------------------------------------------------------

static void run_block() {
    if (__start_emulation_shared)
        memset(__start_emulation_shared, 0xff, __stop_emulation_shared - __start_emulation_shared);
    const dim3 size = engine.block_dim;
    for (unsigned thread = 0; thread < engine.threads; ++thread) {
        fibers[thread].state = State::READY;
        fibers[thread].index = {thread % size.x, thread / size.x % size.y, thread / (size.x * size.y)};
    }
    do {
        const Sequence sequence(engine.threads);
        for (unsigned position = 0; position < engine.threads; ++position) {
            const unsigned thread = static_cast<unsigned>(sequence[position]);
            if (fibers[thread].state == State::READY) resume(thread);
            if (engine.error[0]) return;
        }
    } while (release_shuffles() || release_barrier());
}

static int launch(const Launch& geometry, const char* kernel, void (*body)(const uint64_t*),
                  const uint64_t* arguments) {
    const dim3 grid{geometry.grid[0], geometry.grid[1], geometry.grid[2]};
    engine.body = body;
    engine.arguments = arguments;
    engine.kernel = kernel;
    engine.block_dim = {geometry.block[0], geometry.block[1], geometry.block[2]};
    engine.grid_dim = grid;
    engine.threads = geometry.block[0] * geometry.block[1] * geometry.block[2];
    engine.order = geometry.order;
    engine.random = geometry.seed * 2654435761u + 1u;
    if (engine.random == 0) engine.random = 1;
    engine.error[0] = '\0';

    const SignalGuard guard;
    const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
    const Sequence sequence(blocks);
    for (uint64_t position = 0; position < blocks && !engine.error[0]; ++position) {
        const uint64_t block = sequence[position];
        engine.block = {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
                        static_cast<unsigned>(block / grid.x / grid.y)};
        run_block();
    }
    if (!engine.error[0]) return 0;
    for (Fiber& fiber : fibers) fiber.started = false;  // those in the middle of the kernel must not go on with it
    return 1;
}

// ---- signatures -----------------------------------------------------------------------------------------------------

// NumPy's text for a type: f8, i4, ...
template <class T>
struct Code {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8,
                  "the parameters of a kernel are pointers to numbers, and numbers");
    static constexpr char text[3] = {std::is_same_v<T, bool>       ? 'b'
                                     : std::is_floating_point_v<T> ? 'f'
                                     : std::is_signed_v<T>         ? 'i'
                                                                   : 'u',
                                     '0' + sizeof(T), '\0'};
};

// How a parameter reads in a signature: "*f8" for double*, "+f8" for const double*, "=f8" for double.
template <class T>
struct Parameter {
    static constexpr char kind = !std::is_pointer_v<T> ? '=' : std::is_const_v<std::remove_pointer_t<T>> ? '+' : '*';
    using Value = std::remove_cv_t<std::remove_pointer_t<T>>;
};

template <auto KERNEL>
struct Entry;

template <class... Parameters, void (*KERNEL)(Parameters...)>
struct Entry<KERNEL> {
    static void body(const uint64_t* arguments) { call(arguments, std::index_sequence_for<Parameters...>()); }

    static const char* signature() {
        static char text[4 * sizeof...(Parameters) + 1];
        char* end = text;
        ((*end++ = Parameter<Parameters>::kind, *end++ = Code<typename Parameter<Parameters>::Value>::text[0],
          *end++ = Code<typename Parameter<Parameters>::Value>::text[1], *end++ = ' '),
         ...);
        *end = '\0';
        return text;
    }

private:
    template <class T>
    static T value(const uint64_t& slot) {
        T result;
        memcpy(&result, &slot, sizeof result);
        return result;
    }

    template <size_t... POSITIONS>
    static void call([[maybe_unused]] const uint64_t* arguments, std::index_sequence<POSITIONS...>) {
        KERNEL(value<Parameters>(arguments[POSITIONS])...);
    }
};

}  // namespace emulation

extern "C" __attribute__((visibility("default"))) const char* emulation_error() { return emulation::engine.error; }

// Called by what -fsanitize=bounds puts before each access to an array of known length. The data begin with the place.
extern "C" void __ubsan_handle_out_of_bounds(void* data, void* index) {
    struct Place {
        const char* file;
        uint32_t line, column;
    };
    emulation::fail("index %lld is outside the array in line %u",
                    static_cast<long long>(reinterpret_cast<intptr_t>(index)), static_cast<Place*>(data)->line);
}

// ---- what kernels see -----------------------------------------------------------------------------------------------

static const uint3& threadIdx = emulation::engine.thread;
static const uint3& blockIdx = emulation::engine.block;
static const dim3& blockDim = emulation::engine.block_dim;
static const dim3& gridDim = emulation::engine.grid_dim;
static constexpr int warpSize = emulation::WARP;

static inline void __threadfence() {}

static inline unsigned int atomicAdd(unsigned int* address, unsigned int value) {
    const unsigned int before = *address;
    *address += value;
    return before;
}
