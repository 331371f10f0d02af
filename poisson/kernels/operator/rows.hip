// SPDX-License-Identifier: MIT
// Rows of a sparse matrix at a few nodes, a thread each: own x + the sum of weight times u + constant, in float64.
//
// Places are offsets in a padded array; the entries of a row are those from its start to that of the next.

// With `found` the values go there, in the order of the rows, for the kernel below; else to `out`, which is not u.
KERNEL poisson_replace_rows(const real* x, const real* u, real* out, double* __restrict__ found,
                            const index_t* __restrict__ places, const index_t* __restrict__ starts,
                            const index_t* __restrict__ beside, const double* __restrict__ weights,
                            const double* __restrict__ own, const double* __restrict__ constant, int rows) {
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= rows) return;
    const index_t place = places[row];
    double sum = own[row] * (double)x[place] + constant[row];
    for (index_t entry = starts[row]; entry < starts[row + 1]; ++entry)
        sum += weights[entry] * (double)u[beside[entry]];
    if (found)
        found[row] = sum;
    else
        out[place] = (real)sum;
}

KERNEL poisson_rows_put(const double* __restrict__ found, real* __restrict__ out, const index_t* __restrict__ places,
                        int rows) {
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row < rows) out[places[row]] = (real)found[row];
}
