// Memory that operations work in, kept from call to call.
#ifndef POISSON_KEPT_H
#define POISSON_KEPT_H

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "poisson.h"

class WorkingMemory {
public:
    // Whether each thread of a region of so many iterations has a row of so many bytes now. Where there are fewer
    // iterations than threads, each of these has one: where a grid is one long row, so is what works on it.
    bool reserve(int64_t iterations, int64_t needed_bytes) {
        const int64_t threads = omp_get_max_threads();
        by_iteration = iterations < threads;
        row_bytes = (needed_bytes + LINE - 1) / LINE * LINE;
        const int64_t rows = std::min(iterations, threads);
        if (rows * row_bytes <= capacity) return true;
        poisson_release(memory);
        memory = nullptr;
        capacity = 0;
        if (poisson_allocate(rows, row_bytes, &memory)) return false;
        capacity = rows * row_bytes;
        return true;
    }
    // The row of the thread at this iteration; what is in it may be from another operation.
    template <class T>
    T* row(int64_t iteration) const {
        const int64_t number = by_iteration ? iteration : omp_get_thread_num();
        return reinterpret_cast<T*>(static_cast<char*>(memory) + row_bytes * number);
    }

private:
    static constexpr int64_t LINE = 64;
    void* memory = nullptr;
    int64_t capacity = 0, row_bytes = 0;
    bool by_iteration = false;
};

// One for all operations, because one of them runs at a time.
inline WorkingMemory working_memory;

#endif
