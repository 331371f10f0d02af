// SPDX-License-Identifier: MIT
// Direct solution on axes with tables (poisson/backends/gpu/eigenvectors.py): the tridiagonal systems along one axis,
// of each mode of the others, to which an angle adds a multiple of 1/r². A thread has one mode; the modes of a row are
// neighbours in memory. All numbers are doubles.

// Of each row: the links to the rows below and above, what a wall takes, 1/r², and its part of the mean.
#define NUMBERS 5

// values: of f, and then of u, times `scale`; shares: room for as many. In `singular` systems the first mode has a
// solution up to a constant, where f has no mean; the one without a mean is taken.
KERNEL poisson_along_radius(double* __restrict__ values, double* __restrict__ shares, const double* __restrict__ rows,
                            const double* __restrict__ others, const double* __restrict__ of_angle, int count,
                            index_t modes, double scale, int singular) {
    const index_t mode = (index_t)blockIdx.x * THREADS + threadIdx.x;
    if (mode >= modes) return;
    const bool free = singular && mode == 0;
    double x = 0, lost = 1, mean = 0;
    if (free) {
        for (int row = 0; row < count; ++row) mean += rows[NUMBERS * row + 4] * values[modes * row];
    }
    for (int row = 0; row < count; ++row) {
        const double* const here = rows + NUMBERS * row;
        const index_t place = modes * row + mode;
        const double loss = others[mode] + of_angle[mode] * here[3] + here[2] + here[0] * lost;
        const double inverse = free && row == count - 1 ? 0 : 1 / (here[1] + loss);
        x = (scale * (values[place] - mean) + here[0] * x) * inverse;
        values[place] = x;
        shares[place] = here[1] * inverse;
        lost = loss * inverse;
    }
    for (int row = count - 2; row >= 0; --row) {
        const index_t place = modes * row + mode;
        x = values[place] + shares[place] * x;
        values[place] = x;
    }
    if (!free) return;
    mean = 0;
    for (int row = 0; row < count; ++row) mean += rows[NUMBERS * row + 4] * values[modes * row];
    for (int row = 0; row < count; ++row) values[modes * row] -= mean;
}
