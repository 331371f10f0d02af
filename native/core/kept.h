// SPDX-License-Identifier: MIT
// Memory that the threads of a region work in, kept from call to call.
#ifndef POISSON_KEPT_H
#define POISSON_KEPT_H

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "core/team.h"

// A row of memory for each thread of a region. It is made ahead of the region, by the thread that the memory belongs
// to, and captured: the other threads of the region have memory of their own, for the regions that they start.
class WorkingRows {
public:
    // Where there are fewer iterations than threads, each of these has a row: where a grid is one long row, so is what
    // works on it.
    WorkingRows(int64_t iterations, int64_t needed_bytes)
        : by_iteration(iterations < team_size), row_bytes((needed_bytes + LINE - 1) / LINE * LINE) {
        static thread_local KeptMemory kept;
        there = kept.reserve(std::min<int64_t>(iterations, team_size), row_bytes);
        memory = static_cast<char*>(kept.get());
    }
    // Whether there was enough memory.
    explicit operator bool() const { return there; }
    // The row of the thread at this iteration; what is in it may be from another operation.
    template <class T>
    T* row(int64_t iteration) const {
        const int64_t number = by_iteration ? iteration : omp_get_thread_num();
        return reinterpret_cast<T*>(memory + row_bytes * number);
    }

private:
    static constexpr int64_t LINE = 64;
    bool by_iteration, there;
    int64_t row_bytes;
    char* memory;
};

#endif
