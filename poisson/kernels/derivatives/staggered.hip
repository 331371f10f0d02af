// SPDX-License-Identifier: MIT
// Staggered grids (poisson/mac.py) in the memory of the caller: the divergence at the centres of the cells, and the
// gradient of a pressure taken from a velocity, a cell to a thread.
//
// Options, beside those of the prelude: WITH_Z (1: there is a z), LINK_FACTORS (1: links have coefficients), KEPT (0:
// of a divergence there are only the norms). `kinds` has 1, 2 and 4 where x, y and z wrap. All that a thread reads it
// asks for before it uses any of it.

// A block has rows that follow one another.
#define FOR_EACH_ROW(row, rows)                                                                           \
    const unsigned each = ((unsigned)(rows) + gridDim.y * BLOCK_Y - 1) / (gridDim.y * BLOCK_Y) * BLOCK_Y; \
    const index_t first = (index_t)blockIdx.y * each;                                                     \
    _Pragma("unroll 1") for (index_t row = first + threadIdx.y; row < first + each && row < (rows); row += BLOCK_Y)

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
    FOR_EACH_ROW(row, rows) {
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

// The bits 1, 2, 4, ... of `walls` are the lower wall along x, the upper one, the lower one along y, and so on.
KERNEL poisson_divergence(real* __restrict__ u, real* __restrict__ v, real* __restrict__ w, real* __restrict__ out,
                          index_t pitch, index_t plane, int walls, int nx, int ny, index_t rows, int kinds, real factor,
                          const real* __restrict__ x, const real* __restrict__ y, const real* __restrict__ z,
                          double* partial, double* result) {
    const bool wraps_x = wraps_along(kinds, 0), wraps_y = wraps_along(kinds, 1);
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    const index_t live = i < nx ? rows : 0;
    Norms norms;
    FOR_EACH_ROW(row, live) {
        const int k = (int)((unsigned)row / (unsigned)ny), j = (int)row - ny * k;
        real* const west = u + (nx + !wraps_x) * row + i;
        real* const east = west + (i < nx - 1 || !wraps_x ? 1 : 1 - nx);
        real* const south = v + nx * (row + (wraps_y ? 0 : k)) + i;
        real* const north = south + (index_t)nx * (j < ny - 1 || !wraps_y ? 1 : 1 - ny);
        // Which of its faces are walls.
        int closed = (i == 0) + 2 * (i == nx - 1) + 4 * (j == 0) + 8 * (j == ny - 1);
#if WITH_Z
        const bool last = row >= rows - ny;
        closed += 16 * (k == 0) + 32 * last;
        real* const down = w + nx * row + i;
        real* const up = down + (index_t)nx * (last && wraps_along(kinds, 2) ? ny - (int)rows : ny);
#endif
        closed &= walls;
        const real in_x = closed & 1 ? (real)0 : *west, out_x = closed & 2 ? (real)0 : *east;
        const real in_y = closed & 4 ? (real)0 : *south, out_y = closed & 8 ? (real)0 : *north;
#if WITH_Z
        const real in_z = closed & 16 ? (real)0 : *down, out_z = closed & 32 ? (real)0 : *up;
#endif
        real sum = flow_out(in_x, out_x, x[i]) + flow_out(in_y, out_y, y[j]);
#if WITH_Z
        sum += flow_out(in_z, out_z, z[k]);
#endif
        const real value = factor * sum;
        norms.add(value);
#if KEPT
        out[plane * k + pitch * j + i] = value;
#endif
        if (!closed) continue;
        if (closed & 1) *west = 0;
        if (closed & 2) *east = 0;
        if (closed & 4) *south = 0;
        if (closed & 8) *north = 0;
#if WITH_Z
        if (closed & 16) *down = 0;
        if (closed & 32) *up = 0;
#endif
    }
    reduce_grid(norms.sum, norms.maximum, partial, result);
}
