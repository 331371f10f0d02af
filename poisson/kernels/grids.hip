// From one grid to another: interpolate; and the coefficients of links: edges and coarsen_edges.
//
// The weights of each axis come in tables (poisson/transfer.py) with four entries for each node that is written:
// index[4 i + n] and weight[4 i + n]. Entries that are not needed have weight zero and a valid index.
//
// Options: EVERYWHERE (whether interpolate writes the fixed nodes too), ALONG (the axis of the links), HARMONIC (which
// mean edges takes).

#define ENTRIES 4

#ifndef EVERYWHERE
#define EVERYWHERE 0
#endif
#ifndef ALONG
#define ALONG 0
#endif
#ifndef HARMONIC
#define HARMONIC 1
#endif

// The entries of one node.
struct Entries {
    int index[ENTRIES];
    real weight[ENTRIES];
};

__device__ __forceinline__ Entries entries_of(const int* __restrict__ index, const real* __restrict__ weight, int i) {
    Entries entries;
#pragma unroll
    for (int n = 0; n < ENTRIES; ++n) {
        entries.index[n] = index[ENTRIES * i + n];
        entries.weight[n] = weight[ENTRIES * i + n];
    }
    return entries;
}

// out = the cubic interpolant of `source`. A thread marches along the slowest axis with the four planes of the source
// that it needs, interpolated along the others, in registers: on a finer grid most steps need no new one, or one.
KERNEL poisson_interpolate(const real* __restrict__ source, real* __restrict__ out, int source_ny, index_t source_pitch,
                           int nx, int ny, int nz, index_t pitch, const int* __restrict__ index_x,
                           const real* __restrict__ weight_x, const int* __restrict__ index_y,
                           const real* __restrict__ weight_y, const int* __restrict__ index_z,
                           const real* __restrict__ weight_z) {
    const int i = WIDTH * (blockIdx.x * BLOCK_X + threadIdx.x);
#if DIMENSION == 2
    const int j = 0, slowest = ny, first = (blockIdx.y * BLOCK_Y + threadIdx.y) * MARCH;
    const index_t source_stride = source_pitch, stride = pitch;
    const int* __restrict__ const index_s = index_y;
    const real* __restrict__ const weight_s = weight_y;
    if (i >= nx || first >= slowest) return;
#else
    const int j = block_along_y(nz) * BLOCK_Y + threadIdx.y, slowest = nz, first = band_along_z(nz) * MARCH;
    const index_t source_stride = source_pitch * source_ny, stride = pitch * ny;
    const int* __restrict__ const index_s = index_z;
    const real* __restrict__ const weight_s = weight_z;
    if (i >= nx || j >= ny) return;
#endif
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    // Where intervals halve, all that the nodes of a thread take from a row lies side by side, and is read once.
    const auto column = [&](int n) { return i + n < nx ? i + n : nx - 1; };
    const int nearest = index_x[ENTRIES * i];
    bool close = true;
    real weights[WIDTH][ENTRIES];
#pragma unroll
    for (int n = 0; n < WIDTH; ++n) {
        const Entries entries = entries_of(index_x, weight_x, column(n));
#pragma unroll
        for (int m = 0; m < ENTRIES; ++m) {
            weights[n][m] = entries.weight[m];
            close = close && entries.index[m] == nearest + n / 2 + m;
        }
    }
    const auto along_x = [&](const real* row) {
        Pack sum = {};
        if (close) {
            real taken[ENTRIES + (WIDTH - 1) / 2];
#pragma unroll
            for (int m = 0; m < ENTRIES + (WIDTH - 1) / 2; ++m) taken[m] = row[nearest + m];
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
#pragma unroll
                for (int m = 0; m < ENTRIES; ++m) sum.node[n] += weights[n][m] * taken[n / 2 + m];
            }
            return sum;
        }
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            const int* const from = index_x + ENTRIES * column(n);
#pragma unroll
            for (int m = 0; m < ENTRIES; ++m) sum.node[n] += weights[n][m] * row[from[m]];
        }
        return sum;
    };
    const auto plane_of = [&](int s) {
        const real* const plane = source + source_stride * s;
#if DIMENSION == 2
        return along_x(plane);
#else
        Pack sum = {};
        // A line on one of the source takes from that alone. Not unrolled: the values of one row have many registers.
#pragma unroll 1
        for (int m = ENTRIES * j; m < ENTRIES * (j + 1); ++m) {
            if (weight_y[m] == 0) continue;
            const Pack row = along_x(plane + source_pitch * index_y[m]);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) sum.node[n] += weight_y[m] * row.node[n];
        }
        return sum;
#endif
    };

    Pack planes[ENTRIES] = {};
    int held[ENTRIES] = {-1, -1, -1, -1};
    for (int s = first; s < last; ++s) {
        const Entries needed = entries_of(index_s, weight_s, s);
        bool same = true, next = true;
#pragma unroll
        for (int m = 0; m < ENTRIES; ++m) {
            same = same && needed.index[m] == held[m];
            next = next && (m + 1 == ENTRIES || needed.index[m] == held[m + 1 < ENTRIES ? m + 1 : m]);
        }
#pragma unroll 1
        for (int m = same ? ENTRIES : next ? ENTRIES - 1 : 0; m < ENTRIES; ++m) {
#pragma unroll
            for (int o = 0; o + 1 < ENTRIES; ++o) planes[o] = planes[o + 1];
            planes[ENTRIES - 1] = plane_of(index_s[ENTRIES * s + m]);
        }
#pragma unroll
        for (int m = 0; m < ENTRIES; ++m) held[m] = needed.index[m];
        Pack value;
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            value.node[n] = needed.weight[0] * planes[0].node[n];
#pragma unroll
            for (int m = 1; m < ENTRIES; ++m) value.node[n] += needed.weight[m] * planes[m].node[n];
        }
        bool fixed_line = false;
#if DIMENSION == 2
        fixed_line = is_fixed(s, ny, RULE_YL, RULE_YU);
#else
        fixed_line = is_fixed(j, ny, RULE_YL, RULE_YU) || is_fixed(s, nz, RULE_ZL, RULE_ZU);
#endif
        if (fixed_line && !EVERYWHERE) continue;
        real* const to = out + i + pitch * j + stride * s;
        if (EVERYWHERE || (!is_fixed(i, nx, RULE_XL, RULE_XU) && (RULE_XU != FIXED || i + WIDTH < nx))) {
            store_streaming(to, value);
        } else {
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                if (i + n < nx && !is_fixed(i + n, nx, RULE_XL, RULE_XU)) to[n] = value.node[n];
            }
        }
    }
}

// out = the mean of `a` at the ends of the links along an axis. The last link along it leads back to the first node
// where the axis wraps, and repeats the one before elsewhere.
KERNEL poisson_edges(const real* __restrict__ a, real* __restrict__ out, int nx, int ny, int nz, index_t rows,
                     index_t pitch) {
    const int i = WIDTH * (blockIdx.x * BLOCK_X + threadIdx.x);
    const int rule = ALONG == 0 ? RULE_XU : ALONG == 1 ? RULE_YU : RULE_ZU;
    if (i >= nx) return;
    const auto mean = [](real lower, real upper) {
        return HARMONIC ? 2 / (1 / lower + 1 / upper) : (lower + upper) / 2;
    };
    for (index_t row = (index_t)blockIdx.y * BLOCK_Y + threadIdx.y; row < rows; row += (index_t)gridDim.y * BLOCK_Y) {
        Pack value;
#if ALONG == 0
        const real* const line = a + row * pitch;
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            const int at = i + n < nx ? i + n : nx - 1;
            const int lower = link_above(at, nx, rule);
            value.node[n] = mean(line[lower], line[above(lower, nx, rule)]);
        }
#else
        const int j = row % ny, k = row / ny, at = ALONG == 1 ? j : k, nodes = ALONG == 1 ? ny : nz;
        const int lower = link_above(at, nodes, rule), upper = above(lower, nodes, rule);
        const index_t stride = ALONG == 1 ? pitch : pitch * ny;
        const Pack from = load(a + row * pitch + stride * (lower - at) + i);
        const Pack to = load(a + row * pitch + stride * (upper - at) + i);
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) value.node[n] = mean(from.node[n], to.node[n]);
#endif
        store(out + row * pitch + i, value);
    }
}

// coarse = the coefficients of the coarse links along an axis: the mean over the fine links that lie behind one
// another, and the weighted mean of these along the other axes. The tables of the axis have the links and the parts
// that they cover, those of the others nodes and weights that add up to one.
KERNEL poisson_coarsen_edges(const real* __restrict__ fine, real* __restrict__ coarse, int ny, index_t pitch,
                             int coarse_nx, int coarse_ny, int coarse_nz, index_t coarse_pitch,
                             const int* __restrict__ index_x, const real* __restrict__ weight_x,
                             const int* __restrict__ index_y, const real* __restrict__ weight_y,
                             const int* __restrict__ index_z, const real* __restrict__ weight_z) {
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    const int j = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int k = blockIdx.z;
    if (i >= coarse_nx || j >= coarse_ny) return;
    Entries x = entries_of(index_x, weight_x, i), y = entries_of(index_y, weight_y, j), z = {};
    z.weight[0] = 1;
#if DIMENSION == 3
    z = entries_of(index_z, weight_z, k);
#endif
    const Entries along = ALONG == 0 ? x : ALONG == 1 ? y : z;
    const Entries beside = ALONG == 0 ? y : x;
    const Entries further = ALONG == 2 ? y : z;
    const index_t strides[] = {1, pitch, pitch * ny};
    const index_t stride = strides[ALONG];
    const index_t stride_beside = strides[ALONG == 0 ? 1 : 0];
    const index_t stride_further = strides[ALONG == 2 ? 1 : 2];
    real sum = 0;
    for (int c = 0; c < ENTRIES; ++c) {
        if (further.weight[c] == 0) continue;
        for (int b = 0; b < ENTRIES; ++b) {
            if (beside.weight[b] == 0) continue;
            const real* const line = fine + stride_further * further.index[c] + stride_beside * beside.index[b];
            real mean = 0;
            for (int n = 0; n < ENTRIES; ++n) mean += along.weight[n] * line[stride * along.index[n]];
            sum += further.weight[c] * beside.weight[b] * mean;
        }
    }
    coarse[i + coarse_pitch * (j + (index_t)coarse_ny * k)] = sum;
}
