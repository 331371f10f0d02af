// SPDX-License-Identifier: MIT
// The Laplacian in three dimensions in the ways of three tutorials, for `python -m poisson bench laplacian` alone:
// out = A u at the nodes that lie on no face, as poisson_laplacian computes it. docs/kernels.md explains each way.
//
// A variant is a kernel with its options, beside those of the prelude:
// BLOCK_Z (threads of a block along z), BOUND (threads that the compiler must expect in a block),
// TILE (nodes of a thread along y), ASCENDING (whether it loads them in the order of their addresses),
// STREAMING (whether a store asks the cache to let go of the line first), and GRID_X, GRID_Y, GRID_Z (the index of a
// block, x, y or z, that counts along each axis: blocks that differ in the index x run at the same time).

#define VARIANT extern "C" __global__ void __launch_bounds__(BOUND)

__device__ __forceinline__ void put(real* to, real value) {
#if !STREAMING || defined(POISSON_EMULATION)
    *to = value;
#elif defined(__HIP__) || defined(__HIPCC__)
    __builtin_nontemporal_store(value, to);
#else
    __stcs(to, value);
#endif
}

// A u at COUNT nodes one above the other along y, the first of which `u` and `out` point to.
template <int COUNT>
__device__ __forceinline__ void apply_along_y(const real* __restrict__ u, real* __restrict__ out, index_t pitch,
                                              index_t plane, real weight_x, real weight_y, real weight_z, real c) {
    real au[COUNT];
#if ASCENDING
    real z_lower[COUNT], left[COUNT], right[COUNT], column[COUNT + 2];
#pragma unroll
    for (int n = 0; n < COUNT; ++n) z_lower[n] = u[pitch * n - plane];
    column[0] = u[-pitch];
#pragma unroll
    for (int n = 0; n < COUNT; ++n) {
        left[n] = u[pitch * n - 1];
        column[n + 1] = u[pitch * n];
        right[n] = u[pitch * n + 1];
    }
    column[COUNT + 1] = u[pitch * COUNT];
#pragma unroll
    for (int n = 0; n < COUNT; ++n) {
        au[n] = apply_operator(column[n + 1], left[n], right[n], column[n], column[n + 2], z_lower[n],
                               u[pitch * n + plane], weight_x, weight_y, weight_z, c);
    }
#else
#pragma unroll
    for (int n = 0; n < COUNT; ++n) {
        const real* const at = u + pitch * n;
        au[n] = apply_operator(at[0], at[-1], at[1], at[-pitch], at[pitch], at[-plane], at[plane], weight_x, weight_y,
                               weight_z, c);
    }
#endif
#pragma unroll
    for (int n = 0; n < COUNT; ++n) put(out + pitch * n, au[n]);
}

// One thread for TILE nodes along y, in the rows [begin, end).
VARIANT poisson_tiled(const real* __restrict__ u, real* __restrict__ out, int nx, int ny, int nz, index_t pitch,
                      real weight_x, real weight_y, real weight_z, real c, int begin, int end) {
    const int i = blockIdx.GRID_X * BLOCK_X + threadIdx.x;
    const int j = begin + TILE * (blockIdx.GRID_Y * BLOCK_Y + threadIdx.y);
    const int k = 1 + blockIdx.GRID_Z * BLOCK_Z + threadIdx.z;
    if (i == 0 || i >= nx - 1 || k >= nz - 1) return;
    const index_t plane = pitch * ny;
    index_t node = i + pitch * j + plane * k;
    if (j + TILE <= end) {
        apply_along_y<TILE>(u + node, out + node, pitch, plane, weight_x, weight_y, weight_z, c);
        return;
    }
    for (int row = j; row < end; ++row, node += pitch) {
        apply_along_y<1>(u + node, out + node, pitch, plane, weight_x, weight_y, weight_z, c);
    }
}

// Blocks whose outermost threads along x and y only load what the others need overlap by two nodes. Where a thread of
// such a block stands; it loads the nodes of its column, and if it is an inner one, computes those off the faces.
struct Column {
    index_t first;
    bool loads, computes;
};

__device__ __forceinline__ Column column_of_thread(int nx, int ny, index_t pitch) {
    const int i = blockIdx.x * (BLOCK_X - 2) + threadIdx.x;
    const int j = blockIdx.y * (BLOCK_Y - 2) + threadIdx.y;
    const bool inner = threadIdx.x > 0 && threadIdx.x < BLOCK_X - 1 && threadIdx.y > 0 && threadIdx.y < BLOCK_Y - 1;
    return {i + pitch * j, i < nx && j < ny, inner && i < nx - 1 && j < ny - 1};
}

// A box of nodes in shared memory, with its neighbours on all sides.
VARIANT poisson_shared(const real* __restrict__ u, real* __restrict__ out, int nx, int ny, int nz, index_t pitch,
                       real weight_x, real weight_y, real weight_z, real c) {
    __shared__ real box[BLOCK_Z][BLOCK_Y][BLOCK_X];
    const int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    const Column column = column_of_thread(nx, ny, pitch);
    const int k = blockIdx.z * (BLOCK_Z - 2) + z;
    const index_t node = column.first + pitch * ny * k;
    if (column.loads && k < nz) box[z][y][x] = u[node];
    __syncthreads();
    if (column.computes && z > 0 && z < BLOCK_Z - 1 && k < nz - 1) {
        out[node] = apply_operator(box[z][y][x], box[z][y][x - 1], box[z][y][x + 1], box[z][y - 1][x], box[z][y + 1][x],
                                   box[z - 1][y][x], box[z + 1][y][x], weight_x, weight_y, weight_z, c);
    }
}

// Three planes in shared memory, which march along z over MARCH planes of results. The planes change their parts and
// not their values. One barrier a plane is enough: what is overwritten before it was last read by the same thread.
VARIANT poisson_coarsened(const real* __restrict__ u, real* __restrict__ out, int nx, int ny, int nz, index_t pitch,
                          real weight_x, real weight_y, real weight_z, real c) {
    __shared__ real planes[3][BLOCK_Y][BLOCK_X];
    const int x = threadIdx.x, y = threadIdx.y;
    const Column column = column_of_thread(nx, ny, pitch);
    const index_t plane = pitch * ny;
    const int begin = 1 + blockIdx.z * MARCH;
    const int end = begin + MARCH < nz - 1 ? begin + MARCH : nz - 1;
    index_t node = column.first + plane * begin;
    int lower = 0, centre = 1, upper = 2;
    if (column.loads) {
        planes[lower][y][x] = u[node - plane];
        planes[centre][y][x] = u[node];
    }
    for (int k = begin; k < end; ++k, node += plane) {
        if (column.loads) planes[upper][y][x] = u[node + plane];
        __syncthreads();
        if (column.computes) {
            out[node] = apply_operator(planes[centre][y][x], planes[centre][y][x - 1], planes[centre][y][x + 1],
                                       planes[centre][y - 1][x], planes[centre][y + 1][x], planes[lower][y][x],
                                       planes[upper][y][x], weight_x, weight_y, weight_z, c);
        }
        const int free = lower;
        lower = centre;
        centre = upper;
        upper = free;
    }
}

// The same with the values above and below in registers: only the middle plane is in shared memory, and a second
// barrier keeps it until all have read it.
VARIANT poisson_registers(const real* __restrict__ u, real* __restrict__ out, int nx, int ny, int nz, index_t pitch,
                          real weight_x, real weight_y, real weight_z, real c) {
    __shared__ real middle[BLOCK_Y][BLOCK_X];
    const int x = threadIdx.x, y = threadIdx.y;
    const Column column = column_of_thread(nx, ny, pitch);
    const index_t plane = pitch * ny;
    const int begin = 1 + blockIdx.z * MARCH;
    const int end = begin + MARCH < nz - 1 ? begin + MARCH : nz - 1;
    index_t node = column.first + plane * begin;
    real lower = column.loads ? u[node - plane] : (real)0;
    real centre = column.loads ? u[node] : (real)0;
    for (int k = begin; k < end; ++k, node += plane) {
        const real upper = column.loads ? u[node + plane] : (real)0;
        middle[y][x] = centre;
        __syncthreads();
        if (column.computes) {
            out[node] = apply_operator(centre, middle[y][x - 1], middle[y][x + 1], middle[y - 1][x], middle[y + 1][x],
                                       lower, upper, weight_x, weight_y, weight_z, c);
        }
        __syncthreads();
        lower = centre;
        centre = upper;
    }
}
