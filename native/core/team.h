// SPDX-License-Identifier: MIT
// The threads that the regions of an operation run on, and the memory that they work in. Both belong to the thread that
// calls the library, so that several threads may call it at once.
#ifndef POISSON_TEAM_H
#define POISSON_TEAM_H

#include <cstdint>

#include "poisson.h"

// The threads of the next regions that the calling thread starts, and those that it asked for.
inline thread_local int32_t team_size = 1, team_asked = -1;

// Starting a team of threads costs microseconds, and far more on a busy machine: a region of fewer nodes runs on one.
constexpr int64_t SMALL_WORK = 98304;

// Sets both; see poisson_threads.
void make_team(int32_t threads);

// The next regions of the calling thread have so many threads: every operation begins with this, because another one
// may have asked for another number.
inline void use_threads(int32_t threads) {
    if (threads != team_asked) make_team(threads);
}
inline void use_threads(const poisson_operator* a) {
    if (a) use_threads(a->threads);
}
inline void use_threads(const poisson_differences* d) {
    if (d) use_threads(d->threads);
}

// A function of the interface for both types of arrays: `team` says on which threads, and the rest what it returns.
#define POISSON_EXPORT_AS(type, suffix, name, parameters, team, ...)                                            \
    namespace of_##suffix {                                                                                     \
        using real = type;                                                                                      \
        extern "C" __attribute__((visibility("default"))) poisson_status poisson_##name##_##suffix parameters { \
            use_threads(team);                                                                                  \
            return __VA_ARGS__;                                                                                 \
        }                                                                                                       \
    }
#define POISSON_EXPORT(name, parameters, team, ...)                    \
    POISSON_EXPORT_AS(float, f32, name, parameters, team, __VA_ARGS__) \
    POISSON_EXPORT_AS(double, f64, name, parameters, team, __VA_ARGS__)

// Memory like that of poisson_allocate, whose pages the threads of the calling thread's team write first.
poisson_status allocate(int64_t rows, int64_t row_bytes, void** memory);

// Memory of a thread that calls the library, kept from call to call and released when the thread ends.
class KeptMemory {
public:
    KeptMemory() = default;
    KeptMemory(const KeptMemory&) = delete;
    KeptMemory& operator=(const KeptMemory&) = delete;
    ~KeptMemory() { release(); }
    // Whether there are so many rows of so many bytes now, or more.
    bool reserve(int64_t rows, int64_t row_bytes) {
        if (rows * row_bytes <= capacity) return true;
        release();
        if (allocate(rows, row_bytes, &memory)) return false;
        capacity = rows * row_bytes;
        return true;
    }
    void release() {
        if (memory) poisson_release(memory);
        memory = nullptr;
        capacity = 0;
    }
    void* get() const { return memory; }
    int64_t bytes() const { return capacity; }

private:
    void* memory = nullptr;
    int64_t capacity = 0;
};

// No thread changes what poisson_release keeps for other arrays while it is held, as it is around a fork.
void hold_released_memory();
void let_released_memory_go();

#endif
