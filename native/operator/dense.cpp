// SPDX-License-Identifier: MIT
// The product of a dense matrix, the inverse of A on a small grid, and the values of an array: dense.
#include "core/regions.h"
#ifndef POISSON_OFFLOAD
#include <algorithm>

#include "core/kept.h"
#endif

namespace {

#ifdef POISSON_OFFLOAD

// Independent sums of a node, so that the additions need not wait for one another.
constexpr int64_t CHAINS = 8;

template <class T>
poisson_status multiply(const T* matrix, int64_t matrix_pitch, const T* x, T* y, int64_t columns, int64_t rows,
                        int64_t pitch) {
    const int64_t nodes = columns * rows;
    POISSON_REGION(nodes * nodes, (matrix_pitch, columns, rows, pitch, nodes), (matrix, x, y))
    for (int64_t node = 0; node < nodes; ++node) {
        T sums[CHAINS] = {}, sum = 0;
        for (int64_t row = 0; row < rows; ++row) {
            const T *factors = matrix + node * matrix_pitch + row * columns, *values = x + row * pitch;
            int64_t i = 0;
            for (; i + CHAINS <= columns; i += CHAINS)
                for (int64_t chain = 0; chain < CHAINS; ++chain) sums[chain] += factors[i + chain] * values[i + chain];
            for (; i < columns; ++i) sum += factors[i] * values[i];
        }
        for (int64_t chain = 0; chain < CHAINS; ++chain) sum += sums[chain];
        y[node / columns * pitch + node % columns] = sum;
    }
    return POISSON_SUCCESS;
}

#else

// Nodes whose rows of the matrix are read together: their sums do not wait for one another.
constexpr int64_t GROUP = 4;

// The products of N rows of the matrix, from `factors` on, and the values x, which end with zeros in a whole line.
template <int64_t N, class T>
inline void products(const T* factors, int64_t matrix_pitch, const T* x, int64_t nodes, T* results) {
    constexpr int64_t W = 64 / sizeof(T);
    Pack<T, W> sums[N] = {};
    const int64_t whole = nodes / W * W;
    for (int64_t i = 0; i < whole; i += W) {
        const Pack<T, W> values = load<W>(x + i);
#pragma GCC unroll 4
        for (int64_t n = 0; n < N; ++n) sums[n] += load<W>(factors + n * matrix_pitch + i) * values;
    }
#pragma GCC unroll 4
    for (int64_t n = 0; n < N; ++n) {
        T rest[W] = {};
        std::memcpy(rest, factors + n * matrix_pitch + whole, (nodes - whole) * sizeof(T));
        sums[n] += load<W>(static_cast<const T*>(rest)) * load<W>(x + whole);
        T sum = 0;
        for (int64_t lane = 0; lane < W; ++lane) sum += sums[n][lane];
        results[n] = sum;
    }
}

// The values are put in one row first: lines of a grid are too short for packs.
template <class T>
poisson_status multiply(const T* matrix, int64_t matrix_pitch, const T* x, T* y, int64_t columns, int64_t rows,
                        int64_t pitch) {
    constexpr int64_t W = 64 / sizeof(T);
    const int64_t nodes = columns * rows, groups = (nodes + GROUP - 1) / GROUP;
    const WorkingRows memory(1, (nodes / W + 1) * W * int64_t(sizeof(T)));
    if (!memory) return POISSON_OUT_OF_MEMORY;
    T* const values = memory.row<T>(0);
    for (int64_t row = 0; row < rows; ++row) std::copy_n(x + row * pitch, columns, values + row * columns);
    std::fill(values + nodes, values + (nodes / W + 1) * W, T(0));
    POISSON_REGION(nodes * nodes, (), ())
    for (int64_t group = 0; group < groups; ++group) {
        const int64_t first = group * GROUP, count = std::min(GROUP, nodes - first);
        const T* const factors = matrix + first * matrix_pitch;
        T results[GROUP];
        if (count == GROUP)
            products<GROUP>(factors, matrix_pitch, values, nodes, results);
        else
            for (int64_t n = 0; n < count; ++n)
                products<1>(factors + n * matrix_pitch, matrix_pitch, values, nodes, results + n);
        for (int64_t n = 0; n < count; ++n) y[(first + n) / columns * pitch + (first + n) % columns] = results[n];
    }
    return POISSON_SUCCESS;
}

#endif

template <class T>
poisson_status dense(const T* matrix, int64_t matrix_pitch, const T* x, T* y, int64_t columns, int64_t rows,
                     int64_t pitch) {
    if (!matrix || !x || !y || columns < 1 || columns > pitch || rows < 1 || columns * rows > matrix_pitch)
        return POISSON_BAD_ARGUMENT;
    return multiply(matrix, matrix_pitch, x, y, columns, rows, pitch);
}

}  // namespace

POISSON_EXPORT(dense,
               (const real* matrix, int64_t matrix_pitch, const real* x, real* y, int64_t columns, int64_t rows,
                int64_t pitch, int32_t threads),
               threads, dense(matrix, matrix_pitch, x, y, columns, rows, pitch))
