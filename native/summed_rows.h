// Rows of one grid from weighted sums of whole rows of another, on the host.
#ifndef POISSON_SUMMED_ROWS_H
#define POISSON_SUMMED_ROWS_H

#include <omp.h>

#include "grids.h"
#include "kept.h"

inline KeptMemory row_memory;

template <class T>
Local<T> local(const poisson_operator* operator_) {
    POISSON_OPERATOR(T, operator_, a);
    return POISSON_LOCAL(T, a);
}

// Calls visit(j, k, memory) for each row of an operator, with a line and a row of a fine grid of a thread's own memory
// and two lines behind them.
template <class T, class Visit>
poisson_status for_rows(const Local<T>& a, int64_t fine_pitch, Visit visit) {
    constexpr int64_t W = WIDE<T>;
    const int64_t nodes = a.nx * a.ny * a.nz, values = fine_pitch + 3 * W;
    char* memory = static_cast<char*>(
        row_memory.reserve(nodes >= SMALL_WORK ? omp_get_max_threads() : 1, round_up(values * int64_t(sizeof(T)), 64)));
    if (!memory) return POISSON_OUT_OF_MEMORY;
    const int64_t rows = a.ny * a.nz;
    POISSON_THREADS(number, rows, nodes, (), ()) {
        T* mine = reinterpret_cast<T*>(memory + row_memory.row_bytes * omp_get_thread_num());
        visit(number % a.ny, number / a.ny, mine + W);
    }
    return POISSON_SUCCESS;
}

#endif
