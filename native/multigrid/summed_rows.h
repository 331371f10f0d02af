// SPDX-License-Identifier: MIT
// Rows of one grid from weighted sums of whole rows of another, on the host.
#ifndef POISSON_SUMMED_ROWS_H
#define POISSON_SUMMED_ROWS_H

#include "core/kept.h"
#include "multigrid/grids.h"

// Calls visit(j, k, memory) for each row of an operator, with a line and a row of a fine grid of a thread's own memory
// and two lines behind them.
template <class T, class Visit>
poisson_status for_rows(const Local<T>& a, int64_t fine_pitch, Visit visit) {
    constexpr int64_t W = WIDE<T>;
    const int64_t nodes = a.nx * a.ny * a.nz, values = fine_pitch + 3 * W;
    const int64_t rows = a.ny * a.nz;
    const WorkingRows memory(rows, values * int64_t(sizeof(T)));
    if (!memory) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, rows, nodes, (), ()) { visit(number % a.ny, number / a.ny, memory.row<T>(number) + W); }
    return POISSON_SUCCESS;
}

#endif
