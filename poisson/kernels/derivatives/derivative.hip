// SPDX-License-Identifier: MIT
// First derivatives by differences of order 2 REACH: derivative along one axis, in two forms, and gradient.
//
// On an axis that wraps every node takes the central difference over 2 REACH + 1 nodes. On another one the REACH nodes
// next to each face take a one-sided difference over as many nodes from the face inwards. The weights are in constant
// memory: all threads read the same ones at a time.
//
// poisson_derivative marches: along y and z a thread owns WIDTH neighbouring nodes along x and goes along the axis with
// the nodes of the stencil in a ring of registers, so that each is read once; along x it goes from row to row and reads
// the nodes beside its own through the cache. poisson_derivative_pencil puts pencils, pieces of lines along the axis,
// into shared memory, with the REACH nodes that lie before and behind.
//
// Along a tabulated axis each node has POINTS weights of its own, for as many nodes around it or from the face inwards.
//
// Along x a row has inner packs, with all packs that their nodes need in the row, and two edges.
//
// Options: REACH, CENTRAL and CLOSURE (the weights, separated by commas); for a derivative ALONG (0: x, 1: another
// axis), WRAPS (whether the axis is periodic) and PENCILS (the form); for a gradient AXES (how many there are) and
// WRAPS (a bit each); TABULATED (a bit for each axis with a table, of a derivative one in all). Blocks are numbered
// along x alone, where a launch may have 2^31 of them.

#define POINTS (2 * REACH + 1)
#define SIDE ((REACH + WIDTH - 1) / WIDTH)  // packs beside a pack that hold the neighbours along x
#define EDGE ((2 * SIDE + 1) * WIDTH - 1)
#define TILE (WIDTH * BLOCK_X)

__constant__ real central[REACH] = {CENTRAL};
__constant__ real closure[REACH * POINTS] = {CLOSURE};

// The index of a node up to REACH nodes before the first or behind the last.
template <bool PERIODIC>
__device__ __forceinline__ int inside(int index, int n) {
    if (!PERIODIC) return index < 0 ? 0 : index < n ? index : n - 1;
    return index < 0 ? index + n : index < n ? index : index - n;
}

template <bool PERIODIC>
__device__ __forceinline__ bool is_near_face(int index, int n) {
    return !PERIODIC && (index < REACH || index >= n - REACH);
}

#ifndef TABULATED
#define TABULATED 0
#endif

// The weights along a tabulated axis of n nodes: those for the m-th node that each takes lie at m `stride`.
struct Table {
    const real* __restrict__ weight;
    int stride;

    __device__ __forceinline__ Table(const real* __restrict__ weight, int n)
        : weight(weight), stride((n + WIDTH - 1) / WIDTH * WIDTH) {}
};

// What an axis has: the scale 1/h of a uniform one, or its table.
#if TABULATED & 1
#define SCALE_X_PARAMETER , const real* __restrict__ table_x
#define SCALE_X Table(table_x, nx)
#else
#define SCALE_X_PARAMETER
#define SCALE_X scale_x
#endif
#if TABULATED & 2
#define SCALE_Y_PARAMETER , const real* __restrict__ table_y
#define SCALE_Y Table(table_y, ny)
#else
#define SCALE_Y_PARAMETER
#define SCALE_Y scale_y
#endif
#if TABULATED & 4
#define SCALE_Z_PARAMETER , const real* __restrict__ table_z
#define SCALE_Z Table(table_z, nz)
#else
#define SCALE_Z_PARAMETER
#define SCALE_Z scale_z
#endif
#if TABULATED
#define SCALE_PARAMETER , const real* __restrict__ table
#define SCALE Table(table, n)
#else
#define SCALE_PARAMETER
#define SCALE scale
#endif

// The difference around the node s, at(m) being the value m nodes up the axis.
template <class At>
__device__ __forceinline__ real difference(real scale, int s, At at) {
    return scale * central_difference<REACH>(central, at);
}
template <class At>
__device__ __forceinline__ real difference(const Table& table, int s, At at) {
    const real centre = at(0);
    real sum = 0;
#pragma unroll
    for (int m = 0; m < POINTS; ++m) sum += table.weight[table.stride * m + s] * (at(m - REACH) - centre);
    return sum;
}

// The derivative at the node `index` near a face of a line of n nodes, which are `stride` values apart.
__device__ __forceinline__ real one_sided(const real* line, int index, int n, index_t stride, real scale) {
    const bool upper = index >= REACH;
    const int from_face = upper ? n - 1 - index : index;
    const real* face = upper ? line + stride * (n - 1) : line;
    const index_t inwards = upper ? -stride : stride;
    const real sum = one_sided_difference<POINTS, real>(closure + POINTS * from_face, line[stride * index],
                                                        [=](int j) { return face[inwards * j]; });
    return upper ? -scale * sum : scale * sum;
}
__device__ __forceinline__ real one_sided(const real* line, int index, int n, index_t stride, const Table& table) {
    const real* const first = index >= REACH ? line + stride * (n - POINTS) : line;
    const real centre = line[stride * index];
    real sum = 0;
    for (int m = 0; m < POINTS; ++m) sum += table.weight[table.stride * m + index] * (first[stride * m] - centre);
    return sum;
}

// A pack of derivatives at the node s from the packs of the stencil, at(m) being the one m nodes up the axis.
template <class Scale, class At>
__device__ __forceinline__ Pack combine(Scale scale, int s, At at) {
    Pack out;
#pragma unroll
    for (int n = 0; n < WIDTH; ++n) out.node[n] = difference(scale, s, [&](int m) { return at(m).node[n]; });
    return out;
}

// Whether all packs beside the one at node i lie in the row.
__device__ __forceinline__ bool is_inner(int i, int nx) { return i >= SIDE * WIDTH && i + (SIDE + 1) * WIDTH <= nx; }

// The derivatives along x at the nodes of the inner pack at the node i, at(q) being the pack q to the right.
template <class Scale, class At>
__device__ __forceinline__ Pack combine_along_x(Scale scale, int i, At at) {
    Pack window[2 * SIDE + 1], out;
#pragma unroll
    for (int q = 0; q <= 2 * SIDE; ++q) window[q] = at(q - SIDE);
#pragma unroll
    for (int n = 0; n < WIDTH; ++n) {
        const int place = SIDE * WIDTH + n;
        out.node[n] =
            difference(scale, i + n, [&](int m) { return window[(place + m) / WIDTH].node[(place + m) % WIDTH]; });
    }
    return out;
}

__device__ __forceinline__ bool has_edge(int start, int nx) {
    return start < SIDE * WIDTH || start + TILE > nx - (SIDE + 1) * WIDTH;
}

// The derivative along x at the m-th of the up to EDGE nodes of a row that no inner pack has, if it is in the tile that
// begins at `start`.
template <bool PERIODIC, class Scale>
__device__ __forceinline__ void derivative_at_edge(const real* row, real* out, int m, int start, int nx, Scale scale) {
    const int lower = SIDE * WIDTH, inner = nx / WIDTH * WIDTH - lower, upper = inner > lower ? inner : lower;
    const int i = m < lower ? m : upper + m - lower;
    if (i < start || i >= start + TILE || i >= nx) return;
    out[i] = is_near_face<PERIODIC>(i, nx)
                 ? one_sided(row, i, nx, 1, scale)
                 : difference(scale, i, [=](int j) { return row[inside<PERIODIC>(i + j, nx)]; });
}

// The derivatives at the node `index` of WIDTH neighbouring lines in memory.
template <bool PERIODIC, class Scale>
__device__ __forceinline__ Pack derivative_across(const real* lines, int index, int n, index_t stride, Scale scale) {
    if (is_near_face<PERIODIC>(index, n)) {
        Pack out;
#pragma unroll
        for (int lane = 0; lane < WIDTH; ++lane) out.node[lane] = one_sided(lines + lane, index, n, stride, scale);
        return out;
    }
    return combine(scale, index, [=](int m) {
        return load(lines + stride * (PERIODIC ? inside<PERIODIC>(index + m, n) : index + m));
    });
}

// Calls emit(s, derivatives) for the nodes `first` to `last` - 1 of WIDTH neighbouring lines.
template <bool PERIODIC, class Scale, class Emit>
__device__ __forceinline__ void march(const real* __restrict__ lines, int first, int last, int n, index_t stride,
                                      Scale scale, Emit emit) {
    const int begin = PERIODIC || first > REACH ? first : REACH;
    // Not from `last`, the lesser of two itself: CUDA 13.0 gets the number of steps wrong where it is of three.
    const int end = PERIODIC ? last : first + MARCH < n - REACH ? first + MARCH : n - REACH;
    if (begin > first || end < last) {
        for (int s = first; s < last; ++s) {
            if (is_near_face<PERIODIC>(s, n)) emit(s, derivative_across<PERIODIC>(lines, s, n, stride, scale));
        }
        if (begin >= end) return;
    }
    Pack ring[POINTS];
#pragma unroll
    for (int q = 1; q < POINTS; ++q) ring[q] = load(lines + stride * inside<PERIODIC>(begin + q - 1 - REACH, n));
    const real* next = lines + stride * inside<PERIODIC>(begin + REACH, n);
#pragma unroll UNROLL
    for (int s = begin; s < end; ++s) {
#pragma unroll
        for (int q = 1; q < POINTS; ++q) ring[q - 1] = ring[q];
        ring[POINTS - 1] = load(next);
        next = PERIODIC && s + REACH == n - 1 ? lines : next + stride;
        emit(s, combine(scale, s, [&](int m) { return ring[REACH + m]; }));
    }
}

#if defined(ALONG)

// The derivatives along x at the edges of the rows of a block, a node to a thread: if the threads that have inner packs
// took them besides, their warps would wait for them row after row.
template <class Scale>
__device__ __forceinline__ void derivatives_at_edges(const real* __restrict__ u, real* __restrict__ out, int start,
                                                     int nx, index_t first, int rows, index_t pitch, Scale scale) {
    if (!has_edge(start, nx)) return;
    for (int k = threadIdx.x + BLOCK_X * threadIdx.y; k < EDGE * rows; k += THREADS) {
        const index_t offset = pitch * (first + k / EDGE);
        derivative_at_edge<WRAPS>(u + offset, out + offset, k % EDGE, start, nx, scale);
    }
}

#if !PENCILS

// The lines along the axis: along x `others` rows of n = nx nodes, which begin `other_stride` values apart; along y and
// z `others` planes of nx lines of n nodes each, which are `stride` values apart along their line.
KERNEL poisson_derivative(const real* __restrict__ u, real* __restrict__ out, int nx, int n, index_t stride,
                          index_t others, index_t other_stride, real scale SCALE_PARAMETER) {
    const int tiles = (nx + TILE - 1) / TILE;
    const int start = blockIdx.x % tiles * TILE;
    const int i = start + WIDTH * threadIdx.x;
#if ALONG == 0
    const index_t first = (index_t)(blockIdx.x / tiles) * (BLOCK_Y * MARCH);
    const int rows = first + BLOCK_Y * MARCH < others ? BLOCK_Y * MARCH : (int)(others - first);
    if (is_inner(i, nx)) {
#pragma unroll UNROLL
        for (int row = threadIdx.y; row < rows; row += BLOCK_Y) {
            const index_t place = other_stride * (first + row) + i;
            store_streaming(out + place, combine_along_x(SCALE, i, [=](int q) { return load(u + place + WIDTH * q); }));
        }
    }
    derivatives_at_edges(u, out, start, nx, first, rows, other_stride, SCALE);
#else
    if (i >= nx) return;
    const unsigned segments = (n + MARCH - 1) / MARCH, rest = blockIdx.x / tiles;
    const int first = rest % segments * MARCH;
    const int last = first + MARCH < n ? first + MARCH : n;
    const index_t other = (index_t)(rest / segments) * BLOCK_Y + threadIdx.y;
    if (other >= others) return;
    real* const to = out + other_stride * other + i;
    march<WRAPS>(u + other_stride * other + i, first, last, n, stride, SCALE,
                 [=](int s, const Pack& derivatives) { store_streaming(to + stride * s, derivatives); });
#endif
}

#else

// Along x a block takes BLOCK_Y * MARCH pencils of WIDTH * BLOCK_X nodes; along y and z as many neighbouring pencils as
// WIDTH * BLOCK_X, of BLOCK_Y * MARCH nodes each.
KERNEL poisson_derivative_pencil(const real* __restrict__ u, real* __restrict__ out, int nx, int n, index_t stride,
                                 index_t others, index_t other_stride, real scale SCALE_PARAMETER) {
    const int tiles = (nx + TILE - 1) / TILE;
    const int start = blockIdx.x % tiles * TILE;
    const int i = start + WIDTH * threadIdx.x;
    const int length = BLOCK_Y * MARCH;
#if ALONG == 0
    const int piece = nx - start < TILE ? nx - start : TILE;
    const index_t first = (index_t)(blockIdx.x / tiles) * length;
    const int rows = first + length < others ? length : (int)(others - first);
    __shared__ Pack pencils[BLOCK_Y * MARCH][BLOCK_X + 2 * SIDE];
#pragma unroll UNROLL
    for (int p = threadIdx.y; p < rows; p += BLOCK_Y) {
        const real* row = u + other_stride * (first + p);
        real* pencil = pencils[p]->node + SIDE * WIDTH;
        if (i + WIDTH <= nx) {
            store(pencil + WIDTH * threadIdx.x, load(row + i));
        } else {
            for (int k = i; k < nx; ++k) pencil[k - start] = row[k];
        }
        for (int m = threadIdx.x; m < REACH; m += BLOCK_X) {
            pencil[m - REACH] = row[inside<WRAPS>(start + m - REACH, nx)];
            pencil[piece + m] = row[inside<WRAPS>(start + piece + m, nx)];
        }
    }
    __syncthreads();
    if (is_inner(i, nx)) {
#pragma unroll 1
        for (int p = threadIdx.y; p < rows; p += BLOCK_Y)
            store_streaming(out + other_stride * (first + p) + i,
                            combine_along_x(SCALE, i, [&](int q) { return pencils[p][threadIdx.x + SIDE + q]; }));
    }
    derivatives_at_edges(u, out, start, nx, first, rows, other_stride, SCALE);
#else
    const unsigned segments = (n + length - 1) / length, rest = blockIdx.x / tiles;
    const int first = rest % segments * length;
    const index_t offset = other_stride * (rest / segments) + i;
    const int piece = n - first < length ? n - first : length;
    __shared__ Pack pencils[BLOCK_Y * MARCH + 2 * REACH][BLOCK_X];
    if (i < nx) {
#pragma unroll UNROLL
        for (int q = threadIdx.y; q < piece + 2 * REACH; q += BLOCK_Y)
            pencils[q][threadIdx.x] = load(u + offset + stride * inside<WRAPS>(first + q - REACH, n));
    }
    __syncthreads();
    if (i >= nx) return;
#pragma unroll 1
    for (int q = threadIdx.y; q < piece; q += BLOCK_Y) {
        const Pack derivatives =
            is_near_face<WRAPS>(first + q, n)
                ? derivative_across<WRAPS>(u + offset, first + q, n, stride, SCALE)
                : combine(SCALE, first + q, [&](int m) { return pencils[q + REACH + m][threadIdx.x]; });
        store_streaming(out + offset + stride * (first + q), derivatives);
    }
#endif
}

#endif

#else

#define WRAPS_X ((WRAPS & 1) != 0)
#define WRAPS_Y ((WRAPS & 2) != 0)
#define WRAPS_Z ((WRAPS & 4) != 0)

// A thread marches along the slowest axis as in poisson_derivative; the neighbours along the other axes come through
// the cache, so that u is read once from memory.
KERNEL poisson_gradient(const real* __restrict__ u, real* __restrict__ out_x, real* __restrict__ out_y,
                        real* __restrict__ out_z, int nx, int ny, int nz, index_t pitch, real scale_x, real scale_y,
                        real scale_z SCALE_X_PARAMETER SCALE_Y_PARAMETER SCALE_Z_PARAMETER) {
    const int tiles = (nx + TILE - 1) / TILE;
    const int start = blockIdx.x % tiles * TILE;
    const int i = start + WIDTH * threadIdx.x;
    const int slowest = AXES == 3 ? nz : ny;
    const unsigned rest = blockIdx.x / tiles, groups = AXES == 3 ? (ny + BLOCK_Y - 1) / BLOCK_Y : 1;
    const int j = AXES == 3 ? rest % groups * BLOCK_Y + threadIdx.y : 0;
    const int first = (AXES == 3 ? rest / groups : rest * BLOCK_Y + threadIdx.y) * MARCH;
    if (i >= nx || first >= slowest || (AXES == 3 && j >= ny)) return;
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    const index_t stride = AXES == 3 ? pitch * ny : pitch;
    const index_t line = pitch * j;
    const int lanes = start + TILE <= nx ? BLOCK_X : (nx - start + WIDTH - 1) / WIDTH;
#if AXES == 3
#define SCALE_S SCALE_Z
#else
#define SCALE_S SCALE_Y
#endif
    const auto emit = [=](int s, const Pack& along) {
        const index_t row = line + stride * s;
        if (is_inner(i, nx))
            store_streaming(out_x + row + i,
                            combine_along_x(SCALE_X, i, [=](int q) { return load(u + row + i + WIDTH * q); }));
        if (has_edge(start, nx)) {
            for (int m = threadIdx.x; m < EDGE; m += lanes)
                derivative_at_edge<WRAPS_X>(u + row, out_x + row, m, start, nx, SCALE_X);
        }
#if AXES == 3
        store_streaming(out_y + row + i, derivative_across<WRAPS_Y>(u + stride * s + i, j, ny, pitch, SCALE_Y));
        store_streaming(out_z + row + i, along);
#else
        store_streaming(out_y + row + i, along);
#endif
    };
    march<AXES == 3 ? WRAPS_Z : WRAPS_Y>(u + line + i, first, last, slowest, stride, SCALE_S, emit);
}

#endif
