// SPDX-License-Identifier: MIT
// Staggered grids (poisson/mac.py) in the memory of the caller: the divergence at the centres of the cells, and the
// gradient of a pressure taken from a velocity, a cell to a thread; and walls, which nothing flows through.
//
// Options, beside those of the prelude: WITH_Z (1: there is a z), LINK_FACTORS (1: links have coefficients). `kinds`
// has 1, 2 and 4 where x, y and z wrap. All that a thread reads it asks for before it uses any of it.

__device__ __forceinline__ bool wraps_along(int kinds, int axis) { return kinds >> axis & 1; }

// One axis of a cell: its number among n cells, the way to the cell below it, and what the pressures on both sides of
// its lower face count there.
struct Along {
    int number, n;
    bool wraps;
    index_t stride, link_stride;

    __device__ __forceinline__ bool has_lower() const { return number > 0 || wraps; }
    __device__ __forceinline__ index_t to_lower() const { return stride * (number > 0 ? -1 : wraps ? n - 1 : 0); }
    // The link of a face, from that above this cell: 0 is the lower face of the cell, and 1 its upper one.
    __device__ __forceinline__ index_t to_link(int face) const {
        return link_stride * (face ? (number == n - 1 ? -1 : 0) : number > 0 ? -1 : wraps ? n - 1 : 0);
    }
};

// The factor of a link, which is 1 where no array has them.
__device__ __forceinline__ real factor_of(const real* links, index_t place) {
#if LINK_FACTORS
    return links[place];
#else
    return 1;
#endif
}

// What the upper face of the last cell of an axis loses.
__device__ __forceinline__ void subtract_last(real* face, const Along& axis, real centre, const real* links,
                                              index_t link, real weight) {
    if (axis.number != axis.n - 1 || axis.wraps) return;
    *face -= factor_of(links, link + axis.to_link(1)) * pressure_slope(centre, (real)0, weight);
}

KERNEL poisson_subtract_gradient(const real* __restrict__ p, index_t pitch, index_t plane, real* __restrict__ u,
                                 real* __restrict__ v, real* __restrict__ w, const real* __restrict__ links_x,
                                 const real* __restrict__ links_y, const real* __restrict__ links_z, index_t link_pitch,
                                 index_t link_plane, int nx, int ny, index_t rows, int kinds, real factor,
                                 const real* __restrict__ x, const real* __restrict__ y, const real* __restrict__ z) {
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    if (i >= nx) return;
    for (index_t row = (index_t)blockIdx.y * BLOCK_Y + threadIdx.y; row < rows; row += (index_t)gridDim.y * BLOCK_Y) {
        const int k = (int)((unsigned)row / (unsigned)ny), j = (int)row - ny * k, nz = (int)(rows / ny);
        const Along along_x = {i, nx, wraps_along(kinds, 0), 1, 1};
        const Along along_y = {j, ny, wraps_along(kinds, 1), pitch, link_pitch};
        const Along along_z = {k, nz, wraps_along(kinds, 2), plane, link_plane};
        const real* const here = p + plane * k + pitch * j + i;
        const index_t link = link_plane * k + link_pitch * j + i;
        real* const to_x = u + (nx + !along_x.wraps) * row + i;
        real* const to_y = v + nx * ((index_t)(ny + !along_y.wraps) * k + j) + i;
        const real centre = *here, west = here[along_x.to_lower()], south = here[along_y.to_lower()];
        const real before_x = *to_x, before_y = *to_y;
        const real link_x = factor_of(links_x, link + along_x.to_link(0));
        const real link_y = factor_of(links_y, link + along_y.to_link(0));
        const real weight_x = factor * x[i], weight_y = factor * y[j];
#if WITH_Z
        real* const to_z = w + nx * row + i;
        const real down = here[along_z.to_lower()], before_z = *to_z, weight_z = factor * z[k];
        const real link_z = factor_of(links_z, link + along_z.to_link(0));
        *to_z = before_z - link_z * pressure_slope(along_z.has_lower() ? down : (real)0, centre, weight_z);
        subtract_last(to_z + (index_t)nx * ny, along_z, centre, links_z, link, factor * z[k + 1 - along_z.wraps]);
#endif
        *to_x = before_x - link_x * pressure_slope(along_x.has_lower() ? west : (real)0, centre, weight_x);
        *to_y = before_y - link_y * pressure_slope(along_y.has_lower() ? south : (real)0, centre, weight_y);
        subtract_last(to_x + 1, along_x, centre, links_x, link, factor * x[i + 1 - along_x.wraps]);
        subtract_last(to_y + nx, along_y, centre, links_y, link, factor * y[j + 1 - along_y.wraps]);
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
#if WITH_Z
        const index_t layer = (index_t)nx * ny;
        const real* const down = w + (index_t)nx * j + i;
        const bool last = wraps_along(kinds, 2) && row >= rows - ny;
        sum += flow_out(down[layer * k], down[last ? 0 : layer * (k + 1)], z[k]);
#endif
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
