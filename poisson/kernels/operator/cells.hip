// SPDX-License-Identifier: MIT
// A periodic cell of nodes, by the links from each node to the next one along each axis.
//
// Options: HARMONIC (which mean of a at its ends a link has).

#define CELL_PARAMETERS const real *__restrict__ a, index_t a_pitch, int nx, int ny, int nz
#define CELL \
    Cell { a, a_pitch, nx, ny, nz }

// Of a node its place along x, and its row.
struct Cell {
    const real* a;
    index_t pitch;
    int nx, ny, nz;

    // The next node along an axis, or with a `step` of -1 the one before.
    __device__ __forceinline__ void move(int& i, index_t& row, int axis, int step) const {
        const int j = row % ny, k = row / ny;
        if (axis == 0) i = step > 0 ? above(i, nx, WRAP) : below(i, nx, WRAP);
        if (axis == 1) row += (step > 0 ? above(j, ny, WRAP) : below(j, ny, WRAP)) - j;
        if (axis == 2) row += (index_t)ny * ((step > 0 ? above(k, nz, WRAP) : below(k, nz, WRAP)) - k);
    }
    __device__ __forceinline__ double at(int i, index_t row) const { return a[i + pitch * row]; }
};

__device__ __forceinline__ double link_of(double lower, double upper) {
    return HARMONIC ? 2 / (1 / lower + 1 / upper) : (lower + upper) / 2;
}

// Calls visit(i, row) for each node of a cell.
template <class Visit>
__device__ __forceinline__ void for_each_node(const Cell& cell, Visit visit) {
    const index_t rows = (index_t)cell.ny * cell.nz;
    for (index_t row = (index_t)blockIdx.y * BLOCK_Y + threadIdx.y; row < rows; row += (index_t)gridDim.y * BLOCK_Y)
        for (int i = threadIdx.x; i < cell.nx; i += BLOCK_X) visit(i, row);
}

// f = what flows into each node from a unit gradient along an axis with this spacing.
KERNEL poisson_cell_source(real* __restrict__ f, index_t pitch, CELL_PARAMETERS, int axis, double h) {
    const Cell cell = CELL;
    for_each_node(cell, [&](int i, index_t row) {
        int next = i, last = i;
        index_t next_row = row, last_row = row;
        cell.move(next, next_row, axis, 1);
        cell.move(last, last_row, axis, -1);
        const double own = cell.at(i, row);
        f[i + pitch * row] = (link_of(own, cell.at(next, next_row)) - link_of(cell.at(last, last_row), own)) / h;
    });
}

// The sums of a (grad u_j + e_j) (grad u_k + e_k) over all links, of j and k = 00 and 01 into one result, 02 and 11
// into the next, 12 and 22 into the last. A potential may be null, and so is the third in 2D, where nz is 1; what has
// to do with it has no meaning then.
KERNEL poisson_cell_energies(const real* __restrict__ u_0, const real* __restrict__ u_1, const real* __restrict__ u_2,
                             index_t pitch, CELL_PARAMETERS, double h_x, double h_y, double h_z, double* partial_0,
                             double* partial_1, double* partial_2, double* result_0, double* result_1,
                             double* result_2) {
    const Cell cell = CELL;
    const real* const fields[3] = {u_0, u_1, u_2};
    const double h[3] = {h_x, h_y, h_z};
    double sums[6] = {};
    for_each_node(cell, [&](int i, index_t row) {
        const double own = cell.at(i, row);
        double here[3];
#pragma unroll
        for (int n = 0; n < 3; ++n) here[n] = fields[n] ? (double)fields[n][i + pitch * row] : 0;
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            int next = i;
            index_t next_row = row;
            cell.move(next, next_row, axis, 1);
            const double link = link_of(own, cell.at(next, next_row)) / (h[axis] * h[axis]);
            double drops[3];
#pragma unroll
            for (int n = 0; n < 3; ++n) {
                drops[n] = fields[n] ? (double)fields[n][next + pitch * next_row] - here[n] : 0;
                if (n == axis) drops[n] += h[axis];
            }
            int pair = 0;
#pragma unroll
            for (int n = 0; n < 3; ++n) {
                const double flow = link * drops[n];
#pragma unroll
                for (int m = n; m < 3; ++m) sums[pair++] += flow * drops[m];
            }
        }
    });
    reduce_grid(sums[0], sums[1], partial_0, result_0);
    __syncthreads();
    reduce_grid(sums[2], sums[3], partial_1, result_1);
    __syncthreads();
    reduce_grid(sums[4], sums[5], partial_2, result_2);
}
