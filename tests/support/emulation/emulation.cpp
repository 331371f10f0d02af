// SPDX-License-Identifier: MIT
// What the libraries of kernels share: the threads of a block, their order, what they wait for, launches and errors.
//
// Each GPU thread of a block is a fiber, which runs until it waits or ends; blocks run one after another. The order of
// threads and of blocks is the caller's choice, so that a missing barrier, or a block that depends on another, gives
// different results in different orders, and the same result each time in the same order.

#define EMULATION_RUNTIME
#include "emulation.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <iterator>

#ifdef EMULATION_RACES
// ThreadSanitizer's calls for fibers: to it each GPU thread is a thread of its own, which nothing orders but barriers,
// atomics, and the begin and end of a block. What is here is not instrumented, so it sees the kernels alone.
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace emulation {

constexpr unsigned MAX_THREADS = 1024;
constexpr size_t STACK_BYTES = 64 * 1024;

static bool operator==(const Site& one, const Site& other) {
    return one.line == other.line && strcmp(one.file, other.file) == 0 && strcmp(one.operation, other.operation) == 0;
}

enum class State { READY, BARRIER, SHUFFLE, FINISHED };

// A place to go on from. Past its first start a fiber is entered by longjmp, which, unlike swapcontext, makes no system
// call; ThreadSanitizer has its own longjmp, which stays on one stack.
#ifdef EMULATION_RACES
typedef ucontext_t Context;
#else
typedef jmp_buf Context;
#endif

struct Fiber {
    Context context;
    void* strand;  // what ThreadSanitizer calls it
    bool started;  // `context` holds the place to go on from
    State state;
    uint3 index;
    Site site;
    unsigned mask;    // SHUFFLE: the lanes that take part
    unsigned source;  // SHUFFLE: the lane to read
    Slot deposited;   // SHUFFLE: what the others may read
    Slot received;
};

struct Engine {
    Kernel kernel;
    const Slot* arguments;
    unsigned threads;
    uint32_t order;
    uint32_t random;
    Fiber* running;
    Context scheduler;
    void* strand;
    char begin, end, met;  // addresses for ThreadSanitizer: of a block, and of its barriers
    char error[512];
};

View view;
static Engine engine;
static Fiber fibers[MAX_THREADS];
alignas(4096) static unsigned char stacks[MAX_THREADS][STACK_BYTES];

// ---- from one stack to another --------------------------------------------------------------------------------------

#ifdef EMULATION_RACES

constexpr unsigned WITHOUT_ORDER = 1;

static void leave_for_good() {
    __tsan_switch_to_fiber(engine.strand, WITHOUT_ORDER);
    setcontext(&engine.scheduler);
}

__attribute__((noinline)) static void leave() {
    Fiber* const self = engine.running;
    __tsan_switch_to_fiber(engine.strand, WITHOUT_ORDER);
    swapcontext(&self->context, &engine.scheduler);
}

__attribute__((noinline)) static void enter(Fiber& fiber, void (*start)(), unsigned char* stack, size_t bytes) {
    engine.strand = __tsan_get_current_fiber();
    if (!fiber.started) {
        if (fiber.strand) __tsan_destroy_fiber(fiber.strand);
        fiber.strand = __tsan_create_fiber(0);
        fiber.started = true;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = stack;
        fiber.context.uc_stack.ss_size = bytes;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, start, 0);
    }
    __tsan_switch_to_fiber(fiber.strand, WITHOUT_ORDER);
    swapcontext(&engine.scheduler, &fiber.context);
}

static void acquire(char& address) { __tsan_acquire(&address); }
static void release(char& address) { __tsan_release(&address); }

#else

static void leave_for_good() { _longjmp(engine.scheduler, 1); }

__attribute__((noinline)) static void leave() {
    if (_setjmp(engine.running->context) == 0) _longjmp(engine.scheduler, 1);
}

__attribute__((noinline)) static void enter(Fiber& fiber, void (*start)(), unsigned char* stack, size_t bytes) {
    if (_setjmp(engine.scheduler) == 0) {
        if (fiber.started) _longjmp(fiber.context, 1);
        fiber.started = true;
        ucontext_t first;
        getcontext(&first);
        first.uc_stack.ss_sp = stack;
        first.uc_stack.ss_size = bytes;
        first.uc_link = nullptr;
        makecontext(&first, start, 0);
        setcontext(&first);
    }
}

static void acquire(char&) {}
static void release(char&) {}

#endif

// ---- errors ---------------------------------------------------------------------------------------------------------

// Keeps the first error; on a fiber it does not return, and the launch ends there.
__attribute__((format(printf, 1, 2))) static void fail(const char* format, ...) {
    if (!engine.error[0]) {
        const uint3 b = view.block;
        int used = snprintf(engine.error, sizeof engine.error, "kernel %.100s, block (%u, %u, %u)", engine.kernel.name,
                            b.x, b.y, b.z);
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
    if (engine.running) leave_for_good();
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

static void serve() {
    for (;;) {  // a fiber serves one thread of each block, launch after launch
        acquire(engine.begin);
        engine.kernel.body(engine.arguments);
        release(engine.end);
        engine.running->state = State::FINISHED;
        leave();
    }
}

// Runs a fiber until it waits, ends or fails.
static void resume(unsigned thread) {
    Fiber& fiber = fibers[thread];
    engine.running = &fiber;
    view.thread = fiber.index;
    enter(fiber, serve, stacks[thread], STACK_BYTES);
    engine.running = nullptr;
}

static void wait(State state, Site site) {
    engine.running->state = state;
    engine.running->site = site;
    leave();
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

void barrier(Site site) {
    release(engine.met);
    wait(State::BARRIER, site);
    acquire(engine.met);
}

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
                warp[other].received = takes_part(source) ? warp[source].deposited : ~Slot{0};
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

Slot exchange(Site site, unsigned mask, Slot value, unsigned source) {
    Fiber& self = *engine.running;
    if (!(mask >> own_lane() & 1u))
        fail("the mask %#x at %s in line %d leaves out its own lane", mask, site.operation, site.line);
    self.mask = mask;
    self.source = source;
    self.deposited = value;
    wait(State::SHUFFLE, site);
    return self.received;
}

unsigned own_lane() { return static_cast<unsigned>(engine.running - fibers) % WARP; }

void check_width(Site site, int width) {
    if (width < 1 || width > static_cast<int>(WARP) || (width & (width - 1)) != 0)
        fail("the width %d at %s in line %d is not a power of two up to 32", width, site.operation, site.line);
}

// ---- launches -------------------------------------------------------------------------------------------------------

static void run_block() {
    const Kernel& kernel = engine.kernel;
    if (kernel.shared) memset(kernel.shared, 0xff, kernel.shared_end - kernel.shared);
    const dim3 size = view.block_dim;
    for (unsigned thread = 0; thread < engine.threads; ++thread) {
        fibers[thread].state = State::READY;
        fibers[thread].index = {thread % size.x, thread / size.x % size.y, thread / (size.x * size.y)};
    }
    release(engine.begin);
    do {
        const Sequence sequence(engine.threads);
        for (unsigned position = 0; position < engine.threads; ++position) {
            const unsigned thread = static_cast<unsigned>(sequence[position]);
            if (fibers[thread].state == State::READY) resume(thread);
            if (engine.error[0]) return;
        }
    } while (release_shuffles() || release_barrier());
    acquire(engine.end);
}

int launch(const Launch& geometry, const Kernel& kernel, const Slot* arguments) {
    const dim3 grid{geometry.grid[0], geometry.grid[1], geometry.grid[2]};
    engine.kernel = kernel;
    engine.arguments = arguments;
    std::copy(std::begin(geometry.chosen), std::end(geometry.chosen), view.chosen);
    view.block_dim = {geometry.block[0], geometry.block[1], geometry.block[2]};
    view.grid_dim = grid;
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
        view.block = {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
                      static_cast<unsigned>(block / grid.x / grid.y)};
        run_block();
    }
    if (!engine.error[0]) return 0;
    for (Fiber& fiber : fibers) fiber.started = false;  // those in the middle of the kernel must not go on with it
    return 1;
}

// The data that the compiler passes begin with the place.
// What UBSan's handlers are given begins with the place in the source.
static unsigned line_of(void* data) {
    struct Place {
        const char* file;
        uint32_t line, column;
    };
    return static_cast<Place*>(data)->line;
}

void out_of_bounds(void* data, void* index) {
    fail("index %lld is outside the array in line %u", static_cast<long long>(reinterpret_cast<intptr_t>(index)),
         line_of(data));
}

void misaligned(void* data, void* address) {
    fail("an access to the address %p in line %u, which is not aligned for its type", address, line_of(data));
}

}  // namespace emulation

extern "C" EMULATION_SHARED const char* emulation_error() { return emulation::engine.error; }
