// SPDX-License-Identifier: MIT
// Staggered grids (poisson/mac.py) in the memory of the caller: the divergence at the centres of the cells, and the
// gradient of a pressure taken from a velocity, a cell to a thread; and walls, which nothing flows through.
//
// `kinds` tells of the grid: 1, 2 and 4 where x, y and z wrap, 8 where there is a z, 16 where links have coefficients.

__device__ __forceinline__ bool wraps_along(int kinds, int axis) { return kinds >> axis & 1; }

// What the face `face` of n cells, and of n + 1 faces where it does not wrap, loses, where the pressure of this cell is
// on one side; along the axis cells and links lie `stride` and `link_stride` values apart.
__device__ __forceinline__ void subtract(real* velocity, int face, int n, bool wraps, const real* line, index_t stride,
                                         const real* links, index_t link_stride, real weight) {
    const int below = face > 0 ? face - 1 : n - 1;
    const real lower = face > 0 || wraps ? line[stride * below] : (real)0;
    const real upper = face < n ? line[stride * face] : (real)0;
    real slope = pressure_slope(lower, upper, weight);
    if (links) slope *= links[link_stride * (face == 0 && !wraps ? 0 : face == n ? n - 2 : below)];
    *velocity -= slope;
}

KERNEL poisson_subtract_gradient(const real* __restrict__ p, index_t pitch, index_t plane, real* __restrict__ u,
                                 real* __restrict__ v, real* __restrict__ w, const real* __restrict__ links_x,
                                 const real* __restrict__ links_y, const real* __restrict__ links_z, index_t link_pitch,
                                 index_t link_plane, int nx, int ny, index_t rows, int kinds, real factor,
                                 const real* __restrict__ x, const real* __restrict__ y, const real* __restrict__ z) {
    const bool wraps_x = wraps_along(kinds, 0), wraps_y = wraps_along(kinds, 1), wraps_z = wraps_along(kinds, 2);
    const bool varies = kinds & 16;
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    if (i >= nx) return;
    for (index_t row = (index_t)blockIdx.y * BLOCK_Y + threadIdx.y; row < rows; row += (index_t)gridDim.y * BLOCK_Y) {
        const int k = (int)((unsigned)row / (unsigned)ny), j = (int)row - ny * k;
        const real* const along_x = varies ? links_x + link_plane * k + link_pitch * j : nullptr;
        const real* const along_y = varies ? links_y + link_plane * k + i : nullptr;
        for (int face = i; face < nx + !wraps_x && face <= (i == nx - 1 ? nx : i); ++face)
            subtract(u + (nx + !wraps_x) * row + face, face, nx, wraps_x, p + plane * k + pitch * j, 1, along_x, 1,
                     factor * x[face]);
        for (int face = j; face < ny + !wraps_y && face <= (j == ny - 1 ? ny : j); ++face)
            subtract(v + nx * ((index_t)(ny + !wraps_y) * k + face) + i, face, ny, wraps_y, p + plane * k + i, pitch,
                     along_y, link_pitch, factor * y[face]);
        if (!(kinds & 8)) continue;
        const int nz = (int)(rows / ny);
        const real* const along_z = varies ? links_z + link_pitch * j + i : nullptr;
        for (int face = k; face < nz + !wraps_z && face <= (k == nz - 1 ? nz : k); ++face)
            subtract(w + nx * ((index_t)ny * face + j) + i, face, nz, wraps_z, p + pitch * j + i, plane, along_z,
                     link_plane, factor * z[face]);
    }
}

KERNEL poisson_divergence(const real* __restrict__ u, const real* __restrict__ v, const real* __restrict__ w,
                          real* __restrict__ out, index_t pitch, index_t plane, int nx, int ny, index_t rows, int kinds,
                          real factor, const real* __restrict__ x, const real* __restrict__ y,
                          const real* __restrict__ z) {
    const bool wraps_x = wraps_along(kinds, 0), wraps_y = wraps_along(kinds, 1);
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    if (i >= nx) return;
    for (index_t row = (index_t)blockIdx.y * BLOCK_Y + threadIdx.y; row < rows; row += (index_t)gridDim.y * BLOCK_Y) {
        const int k = (int)((unsigned)row / (unsigned)ny), j = (int)row - ny * k;
        const real* const west = u + (nx + !wraps_x) * row;
        const real* const south = v + nx * (index_t)(ny + !wraps_y) * k + i;
        real sum = flow_out(west[i], west[wraps_x && i == nx - 1 ? 0 : i + 1], x[i]) +
                   flow_out(south[(index_t)nx * j], south[wraps_y && j == ny - 1 ? 0 : (index_t)nx * (j + 1)], y[j]);
        if (kinds & 8) {
            const index_t layer = (index_t)nx * ny;
            const real* const down = w + (index_t)nx * j + i;
            const bool last = wraps_along(kinds, 2) && row >= rows - ny;
            sum += flow_out(down[layer * k], down[last ? 0 : layer * (k + 1)], z[k]);
        }
        out[plane * k + pitch * j + i] = factor * sum;
    }
}

// Zeros on the walls, of which the bits of `walls` tell: 1 and 2 for the lower and the upper one along x, and so on. A
// block has nodes of the wall blockIdx.z.
KERNEL poisson_close_walls(real* __restrict__ u, real* __restrict__ v, real* __restrict__ w, int nx, int ny, int nz,
                           int kinds, int walls) {
    const int axis = blockIdx.z / 2;
    if (!(walls >> blockIdx.z & 1)) return;
    const int upper = blockIdx.z % 2;
    const int a = blockIdx.x * BLOCK_X + threadIdx.x, b = blockIdx.y * BLOCK_Y + threadIdx.y;
    if (a >= (axis == 0 ? ny : nx) || b >= (axis == 2 ? ny : nz)) return;
    const index_t faces_x = nx + !wraps_along(kinds, 0), faces_y = ny + !wraps_along(kinds, 1);
    if (axis == 0) u[upper * (faces_x - 1) + faces_x * (a + (index_t)ny * b)] = 0;
    if (axis == 1) v[a + nx * (upper * (faces_y - 1) + faces_y * b)] = 0;
    if (axis == 2) w[a + nx * (b + (index_t)ny * (upper * nz))] = 0;
}
