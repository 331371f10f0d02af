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
// Options: REACH, CENTRAL and CLOSURE (the weights, separated by commas); for a derivative ALONG (0: x, 1: another
// axis), WRAPS (whether the axis is periodic) and PENCILS (the form); for a gradient AXES (how many there are) and
// WRAPS (a bit each). Blocks are numbered along x alone, where a launch may have 2^31 of them.

#define POINTS (2 * REACH + 1)
#define SIDE ((REACH + WIDTH - 1) / WIDTH)  // packs beside a pack that hold the neighbours along x

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

// A pack of derivatives from the packs of the stencil, at(m) being the one m nodes up the axis.
template <class At>
__device__ __forceinline__ Pack combine(real scale, At at) {
    Pack out;
#pragma unroll
    for (int n = 0; n < WIDTH; ++n)
        out.node[n] = scale * central_difference<REACH>(central, [&](int m) { return at(m).node[n]; });
    return out;
}

// The derivatives along x at the nodes i to i + WIDTH - 1 from the packs around them; `row` is the whole row.
template <bool PERIODIC>
__device__ __forceinline__ Pack combine_along_x(const Pack (&window)[2 * SIDE + 1], const real* row, int i, int nx,
                                                real scale) {
    Pack out;
#pragma unroll
    for (int n = 0; n < WIDTH; ++n) {
        const int place = SIDE * WIDTH + n;
        out.node[n] = scale * central_difference<REACH>(central, [&](int m) {
                          return window[(place + m) / WIDTH].node[(place + m) % WIDTH];
                      });
    }
    if (!PERIODIC && (i < REACH || i + WIDTH > nx - REACH)) {
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            if (i + n < nx && is_near_face<PERIODIC>(i + n, nx)) out.node[n] = one_sided(row, i + n, nx, 1, scale);
        }
    }
    return out;
}

// The derivatives along x at the nodes i to i + WIDTH - 1 of a row in memory.
template <bool PERIODIC>
__device__ __forceinline__ Pack derivative_along_x(const real* row, int i, int nx, real scale) {
    Pack window[2 * SIDE + 1];
    if (i >= SIDE * WIDTH && i + (SIDE + 1) * WIDTH <= nx) {
#pragma unroll
        for (int q = 0; q <= 2 * SIDE; ++q) window[q] = load(row + i + (q - SIDE) * WIDTH);
    } else {
#pragma unroll
        for (int q = 0; q <= 2 * SIDE; ++q) {
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                // The packs reach further than the stencil of the row's first and last node does.
                const int index = i + (q - SIDE) * WIDTH + n;
                const bool needed = index >= -REACH && index < nx + REACH;
                window[q].node[n] = row[needed ? inside<PERIODIC>(index, nx) : 0];
            }
        }
    }
    return combine_along_x<PERIODIC>(window, row, i, nx, scale);
}

// The derivatives at the node `index` of WIDTH neighbouring lines in memory.
template <bool PERIODIC>
__device__ __forceinline__ Pack derivative_across(const real* lines, int index, int n, index_t stride, real scale) {
    if (is_near_face<PERIODIC>(index, n)) {
        Pack out;
#pragma unroll
        for (int lane = 0; lane < WIDTH; ++lane) out.node[lane] = one_sided(lines + lane, index, n, stride, scale);
        return out;
    }
    return combine(scale, [=](int m) { return load(lines + stride * inside<PERIODIC>(index + m, n)); });
}

// Calls emit(s, derivatives) for the nodes `first` to `last` - 1 of WIDTH neighbouring lines.
template <bool PERIODIC, class Emit>
__device__ __forceinline__ void march(const real* __restrict__ lines, int first, int last, int n, index_t stride,
                                      real scale, Emit emit) {
    const int begin = PERIODIC || first > REACH ? first : REACH;
    const int end = PERIODIC || last < n - REACH ? last : n - REACH;
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
        emit(s, combine(scale, [&](int m) { return ring[REACH + m]; }));
    }
}

#if defined(ALONG) && !PENCILS

// The lines along the axis: along x `others` rows of n = nx nodes, which begin `other_stride` values apart; along y and
// z `others` planes of nx lines of n nodes each, which are `stride` values apart along their line.
KERNEL poisson_derivative(const real* __restrict__ u, real* __restrict__ out, int nx, int n, index_t stride,
                          index_t others, index_t other_stride, real scale) {
    const int tiles = (nx + WIDTH * BLOCK_X - 1) / (WIDTH * BLOCK_X);
    const int i = WIDTH * (blockIdx.x % tiles * BLOCK_X + threadIdx.x);
    if (i >= nx) return;
#if ALONG == 0
    const index_t first = (index_t)(blockIdx.x / tiles) * (BLOCK_Y * MARCH) + threadIdx.y;
#pragma unroll UNROLL
    for (int step = 0; step < MARCH; ++step) {
        const index_t row = first + step * BLOCK_Y;
        if (row >= others) return;
        const index_t offset = other_stride * row;
        store_streaming(out + offset + i, derivative_along_x<WRAPS>(u + offset, i, nx, scale));
    }
#else
    const unsigned segments = (n + MARCH - 1) / MARCH, rest = blockIdx.x / tiles;
    const int first = rest % segments * MARCH;
    const int last = first + MARCH < n ? first + MARCH : n;
    const index_t other = (index_t)(rest / segments) * BLOCK_Y + threadIdx.y;
    if (other >= others) return;
    real* const to = out + other_stride * other + i;
    march<WRAPS>(u + other_stride * other + i, first, last, n, stride, scale,
                 [=](int s, const Pack& derivatives) { store_streaming(to + stride * s, derivatives); });
#endif
}

#elif defined(ALONG)

// Along x a block takes BLOCK_Y * MARCH pencils of WIDTH * BLOCK_X nodes; along y and z as many neighbouring pencils as
// WIDTH * BLOCK_X, of BLOCK_Y * MARCH nodes each.
KERNEL poisson_derivative_pencil(const real* __restrict__ u, real* __restrict__ out, int nx, int n, index_t stride,
                                 index_t others, index_t other_stride, real scale) {
    const int tiles = (nx + WIDTH * BLOCK_X - 1) / (WIDTH * BLOCK_X);
    const int start = blockIdx.x % tiles * (WIDTH * BLOCK_X);
    const int i = start + WIDTH * threadIdx.x;
    const int length = BLOCK_Y * MARCH;
#if ALONG == 0
    const int piece = nx - start < WIDTH * BLOCK_X ? nx - start : WIDTH * BLOCK_X;
    const index_t first = (index_t)(blockIdx.x / tiles) * length;
    __shared__ Pack pencils[BLOCK_Y * MARCH][BLOCK_X + 2 * SIDE];
    for (int p = threadIdx.y; p < length && first + p < others; p += BLOCK_Y) {
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
    if (i >= nx) return;
    for (int p = threadIdx.y; p < length && first + p < others; p += BLOCK_Y) {
        const index_t offset = other_stride * (first + p);
        Pack window[2 * SIDE + 1];
#pragma unroll
        for (int q = 0; q <= 2 * SIDE; ++q) window[q] = pencils[p][threadIdx.x + q];
        store_streaming(out + offset + i, combine_along_x<WRAPS>(window, u + offset, i, nx, scale));
    }
#else
    const unsigned segments = (n + length - 1) / length, rest = blockIdx.x / tiles;
    const int first = rest % segments * length;
    const index_t offset = other_stride * (rest / segments) + i;
    const int piece = n - first < length ? n - first : length;
    __shared__ Pack pencils[BLOCK_Y * MARCH + 2 * REACH][BLOCK_X];
    if (i < nx) {
        for (int q = threadIdx.y; q < piece + 2 * REACH; q += BLOCK_Y)
            pencils[q][threadIdx.x] = load(u + offset + stride * inside<WRAPS>(first + q - REACH, n));
    }
    __syncthreads();
    if (i >= nx) return;
    for (int q = threadIdx.y; q < piece; q += BLOCK_Y) {
        const Pack derivatives = is_near_face<WRAPS>(first + q, n)
                                     ? derivative_across<WRAPS>(u + offset, first + q, n, stride, scale)
                                     : combine(scale, [&](int m) { return pencils[q + REACH + m][threadIdx.x]; });
        store_streaming(out + offset + stride * (first + q), derivatives);
    }
#endif
}

#else

#define WRAPS_X ((WRAPS & 1) != 0)
#define WRAPS_Y ((WRAPS & 2) != 0)
#define WRAPS_Z ((WRAPS & 4) != 0)

// A thread marches along the slowest axis as in poisson_derivative; the neighbours along the other axes come through
// the cache, so that u is read once from memory.
KERNEL poisson_gradient(const real* __restrict__ u, real* __restrict__ out_x, real* __restrict__ out_y,
                        real* __restrict__ out_z, int nx, int ny, int nz, index_t pitch, real scale_x, real scale_y,
                        real scale_z) {
    const int tiles = (nx + WIDTH * BLOCK_X - 1) / (WIDTH * BLOCK_X);
    const int i = WIDTH * (blockIdx.x % tiles * BLOCK_X + threadIdx.x);
    const int slowest = AXES == 3 ? nz : ny;
    const unsigned rest = blockIdx.x / tiles, groups = AXES == 3 ? (ny + BLOCK_Y - 1) / BLOCK_Y : 1;
    const int j = AXES == 3 ? rest % groups * BLOCK_Y + threadIdx.y : 0;
    const int first = (AXES == 3 ? rest / groups : rest * BLOCK_Y + threadIdx.y) * MARCH;
    if (i >= nx || first >= slowest || (AXES == 3 && j >= ny)) return;
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    const index_t stride = AXES == 3 ? pitch * ny : pitch;
    const index_t line = pitch * j;
    const auto emit = [=](int s, const Pack& along) {
        const index_t row = line + stride * s;
        store_streaming(out_x + row + i, derivative_along_x<WRAPS_X>(u + row, i, nx, scale_x));
#if AXES == 3
        store_streaming(out_y + row + i, derivative_across<WRAPS_Y>(u + stride * s + i, j, ny, pitch, scale_y));
        store_streaming(out_z + row + i, along);
#else
        store_streaming(out_y + row + i, along);
#endif
    };
    march<AXES == 3 ? WRAPS_Z : WRAPS_Y>(u + line + i, first, last, slowest, stride, AXES == 3 ? scale_z : scale_y,
                                         emit);
}

#endif
