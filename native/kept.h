// Memory that an operation keeps from call to call: a row for each thread.
#ifndef POISSON_KEPT_H
#define POISSON_KEPT_H

#include <algorithm>
#include <cstdint>

#include "poisson.h"

struct KeptMemory {
    void* memory = nullptr;
    int64_t rows = 0, row_bytes = 0;

    void* reserve(int64_t needed_rows, int64_t needed_bytes) {
        if (needed_rows > rows || needed_bytes > row_bytes) {
            poisson_release(memory);
            rows = std::max(rows, needed_rows);
            row_bytes = std::max(row_bytes, needed_bytes);
            if (poisson_allocate(rows, row_bytes, &memory)) {
                memory = nullptr;
                rows = row_bytes = 0;
            }
        }
        return memory;
    }
};

#endif
