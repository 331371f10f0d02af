// SPDX-License-Identifier: MIT
// The product of a dense matrix, the inverse of A on a small grid, and the values of an array: dense.
#include "core/regions.h"

namespace {

// Independent sums of a node, so that the additions need not wait for one another.
constexpr int64_t CHAINS = 8;

template <class T>
poisson_status dense(const T* matrix, int64_t matrix_pitch, const T* x, T* y, int64_t columns, int64_t rows,
                     int64_t pitch) {
    if (!matrix || !x || !y || columns < 1 || columns > pitch || rows < 1 || columns * rows > matrix_pitch)
        return POISSON_BAD_ARGUMENT;
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

}  // namespace

POISSON_EXPORT(dense,
               (const real* matrix, int64_t matrix_pitch, const real* x, real* y, int64_t columns, int64_t rows,
                int64_t pitch, int32_t threads),
               threads, dense(matrix, matrix_pitch, x, y, columns, rows, pitch))
