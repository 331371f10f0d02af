// SPDX-License-Identifier: MIT
// From one grid to another: interpolate; and the coefficients of links: links and coarsen_links.
//
// The weights of each axis come in tables (poisson/discrete/transfer.py) with so many entries for each node that is
// written: index[ENTRIES i + n] and weight[ENTRIES i + n]. Entries that are not needed have weight zero and a valid
// index.
//
// Options: ENTRIES (4 unless it is given), MASKED (that of the grid that an interpolation writes), EVERYWHERE (whether
// interpolate writes the fixed nodes too), ADD (whether poisson_interpolate_gather adds to what is there), HALVE_X,
// HALVE_Y, HALVE_Z (along which axes the source of interpolate has half the intervals, and ENTRIES nodes or more), ROWS
// (lines of a thread in 3D), ALONG (the axis of the links), HARMONIC (which mean links takes). Where the slowest axis
// halves MARCH is even.

#ifndef ENTRIES
#define ENTRIES 4
#endif
#ifndef EVERYWHERE
#define EVERYWHERE 0
#endif
#ifndef ADD
#define ADD 0
#endif
#ifndef HALVE_X
#define HALVE_X 0
#define HALVE_Y 0
#define HALVE_Z 0
#endif
#if DIMENSION == 2
#define HALVE_S HALVE_Y
#else
#define HALVE_S HALVE_Z
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

// out = the cubic interpolant of `source`, which has no more nodes than `out` along any axis. A thread has WIDTH nodes
// of ROWS lines and marches along the slowest axis, with the four planes of the source that it needs, interpolated
// along the others, in registers: most steps need no new one, or one.
KERNEL poisson_interpolate(const real* __restrict__ source, real* __restrict__ out, int source_ny, index_t source_pitch,
                           int nx, int ny, int nz, index_t pitch, const int* __restrict__ index_x,
                           const real* __restrict__ weight_x, const int* __restrict__ index_y,
                           const real* __restrict__ weight_y, const int* __restrict__ index_z,
                           const real* __restrict__ weight_z, int source_nx MASK_PARAMETER) {
    const int i = WIDTH * (blockIdx.x * BLOCK_X + threadIdx.x);
#if DIMENSION == 2
    const int j = 0, lines = 1, slowest = ny, first = (blockIdx.y * BLOCK_Y + threadIdx.y) * MARCH;
    const index_t source_stride = source_pitch, stride = pitch;
    const int* __restrict__ const index_s = index_y;
    const real* __restrict__ const weight_s = weight_y;
    if (i >= nx || first >= slowest) return;
#else
    const int lines = ROWS, slowest = nz, first = band_along_z(nz) * MARCH;
    const int j = (block_along_y(nz) * BLOCK_Y + threadIdx.y) * lines;
    const index_t source_stride = source_pitch * source_ny, stride = pitch * ny;
    const int* __restrict__ const index_s = index_z;
    const real* __restrict__ const weight_s = weight_z;
    if (i >= nx || j >= ny) return;
    const Window<ENTRIES, lines, HALVE_Y> beside(index_y, weight_y, j, ny, source_ny, RULE_YL == WRAP);
#endif
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    const Window<ENTRIES, WIDTH, HALVE_X> along(index_x, weight_x, i, nx, source_nx, RULE_XL == WRAP);
    const auto line_of = [&](const real* row) {
        Pack sum = {};
#pragma unroll
        for (int l = 0; l < along.LENGTH; ++l) {
            const real taken = row[along.place[l]];
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) sum.node[n] += along.weight[n][l] * taken;
        }
        return sum;
    };

    // Where the slowest axis halves an odd node needs the planes of the even one before it.
    const int together = 1 + HALVE_S;
    const bool whole =
        EVERYWHERE || (!MASKED && !is_fixed(i, nx, RULE_XL, RULE_XU) && (RULE_XU != FIXED || i + WIDTH < nx));
    Pack planes[ENTRIES][lines] = {};
    int held[ENTRIES];
#pragma unroll
    for (int m = 0; m < ENTRIES; ++m) held[m] = -1;
    for (int s = first; s < last; s += together) {
        int needed[ENTRIES];
        real weight[together][ENTRIES];
        bool same = true, next = true;
#pragma unroll
        for (int m = 0; m < ENTRIES; ++m) {
            needed[m] = index_s[ENTRIES * s + m];
#pragma unroll
            for (int t = 0; t < together; ++t) weight[t][m] = weight_s[ENTRIES * (s + t < slowest ? s + t : s) + m];
        }
#pragma unroll
        for (int m = 0; m < ENTRIES; ++m) {
            same = same && needed[m] == held[m];
            next = next && (m + 1 == ENTRIES || needed[m] == held[m + 1 < ENTRIES ? m + 1 : m]);
        }
#pragma unroll 1
        for (int m = same ? ENTRIES : next ? ENTRIES - 1 : 0; m < ENTRIES; ++m) {
            // A table is not asked again for the plane that most steps need.
            const int number = m + 1 == ENTRIES ? needed[ENTRIES - 1] : index_s[ENTRIES * s + m];
            const real* const plane = source + source_stride * number;
#pragma unroll
            for (int l = 0; l < lines; ++l) {
#pragma unroll
                for (int o = 0; o + 1 < ENTRIES; ++o) planes[o][l] = planes[o + 1][l];
                planes[ENTRIES - 1][l] = Pack{};
            }
#if DIMENSION == 2
            planes[ENTRIES - 1][0] = line_of(plane);
#else
#pragma unroll
            for (int b = 0; b < beside.LENGTH; ++b) {
                const Pack line = line_of(plane + (index_t)beside.place[b] * (int)source_pitch);
#pragma unroll
                for (int l = 0; l < lines; ++l) {
#pragma unroll
                    for (int n = 0; n < WIDTH; ++n)
                        planes[ENTRIES - 1][l].node[n] += beside.weight[l][b] * line.node[n];
                }
            }
#endif
        }
#pragma unroll
        for (int m = 0; m < ENTRIES; ++m) held[m] = needed[m];
        // All values come before the first is stored: between branches a thread would wait for each operation.
        Pack value[together][lines];
#pragma unroll
        for (int t = 0; t < together; ++t) {
            // Inside an even node has the value of the node of the source in its place.
            const bool own = HALVE_S && t == 0 && weight[0][1] == 1;
#pragma unroll
            for (int l = 0; l < lines; ++l) {
                value[t][l] = planes[1][l];
                if (own) continue;
#pragma unroll
                for (int n = 0; n < WIDTH; ++n) {
                    real sum = weight[t][0] * planes[0][l].node[n];
#pragma unroll
                    for (int m = 1; m < ENTRIES; ++m) sum += weight[t][m] * planes[m][l].node[n];
                    value[t][l].node[n] = sum;
                }
            }
        }
#pragma unroll
        for (int t = 0; t < together; ++t) {
            if (s + t >= last) break;
#pragma unroll
            for (int l = 0; l < lines; ++l) {
#if DIMENSION == 2
                const bool fixed_line = is_fixed(s + t, ny, RULE_YL, RULE_YU);
#else
                const bool fixed_line = is_fixed(j + l, ny, RULE_YL, RULE_YU) || is_fixed(s + t, nz, RULE_ZL, RULE_ZU);
                if (j + l >= ny) continue;
#endif
                if (fixed_line && !EVERYWHERE) continue;
                const index_t place = i + pitch * (j + l) + stride * (s + t);
                real* const to = out + place;
                if (whole) {
                    store_streaming(to, value[t][l]);
                    continue;
                }
#pragma unroll
                for (int n = 0; n < WIDTH; ++n) {
                    if (i + n < nx && !is_fixed(i + n, nx, RULE_XL, RULE_XU) && !IS_MASKED(place + n))
                        to[n] = value[t][l].node[n];
                }
            }
        }
    }
}

// The same from any source: a thread gathers for one node. Nodes that lie on some of the source take from these alone.
KERNEL poisson_interpolate_gather(const real* __restrict__ source, real* __restrict__ out, int source_ny,
                                  index_t source_pitch, int nx, int ny, int nz, index_t pitch,
                                  const int* __restrict__ index_x, const real* __restrict__ weight_x,
                                  const int* __restrict__ index_y, const real* __restrict__ weight_y,
                                  const int* __restrict__ index_z, const real* __restrict__ weight_z MASK_PARAMETER) {
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    const int j = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int k = blockIdx.z;
    if (i >= nx || j >= ny) return;
    bool fixed = is_fixed(i, nx, RULE_XL, RULE_XU) || is_fixed(j, ny, RULE_YL, RULE_YU);
#if DIMENSION == 3
    fixed = fixed || is_fixed(k, nz, RULE_ZL, RULE_ZU);
#endif
    if ((fixed || IS_MASKED(i + pitch * (j + (index_t)ny * k))) && !EVERYWHERE) return;
    const Entries x = entries_of(index_x, weight_x, i);
    real sum = 0;
    // Not unrolled: with few registers many threads wait for their values at a time.
#pragma unroll 1
    for (int c = DIMENSION == 3 ? ENTRIES * k : 0; c < (DIMENSION == 3 ? ENTRIES * (k + 1) : 1); ++c) {
        const real further = DIMENSION == 3 ? weight_z[c] : (real)1;
        if (further == 0) continue;
        const index_t plane = DIMENSION == 3 ? (index_t)source_ny * index_z[c] : 0;
#pragma unroll 1
        for (int b = ENTRIES * j; b < ENTRIES * (j + 1); ++b) {
            if (weight_y[b] == 0) continue;
            const real* const row = source + source_pitch * (plane + index_y[b]);
            real line = 0;
#pragma unroll
            for (int a = 0; a < ENTRIES; ++a) {
                if (x.weight[a] != 0) line += x.weight[a] * row[x.index[a]];
            }
            sum += further * weight_y[b] * line;
        }
    }
    real* const to = out + i + pitch * (j + (index_t)ny * k);
    *to = ADD ? *to + sum : sum;
}

// out = the mean of `a` at the ends of the links along an axis. The last link along it leads back to the first node
// where the axis wraps, and repeats the one before elsewhere.
KERNEL poisson_links(const real* __restrict__ a, real* __restrict__ out, int nx, int ny, int nz, index_t rows,
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
KERNEL poisson_coarsen_links(const real* __restrict__ fine, real* __restrict__ coarse, int ny, index_t pitch,
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
