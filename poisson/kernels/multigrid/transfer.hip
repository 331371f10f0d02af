// SPDX-License-Identifier: MIT
// Between two grids on the same box: restrict and prolong_add.
//
// The weights of each axis come in tables (poisson/discrete/transfer.py): the coarse node I gathers from the fine nodes
// restrict_index[RESTRICTED I + n]; the fine node i takes from the coarse nodes prolong_index[2 i + n], n = 0, 1.
// A weight of zero stands at entries that are not needed; their index is a valid one.
//
// Options: RESTRICTED (4 unless it is given: fine nodes of a coarse one); MASKED is that of the grid that is written.

#ifndef RESTRICTED
#define RESTRICTED 4
#endif
#define PROLONGED 2
#if DIMENSION == 2
#define RULE_SL RULE_YL
#define RULE_SU RULE_YU
#else
#define RULE_SL RULE_ZL
#define RULE_SU RULE_ZU
#endif

// coarse = R fine: the transpose of the interpolation, scaled so that it keeps the trapezoidal mean; zero at fixed
// nodes. A thread marches along the slowest axis and keeps what it has gathered from the last four fine planes, which
// two coarse ones may both need.
KERNEL poisson_restrict(const real* __restrict__ fine, real* __restrict__ coarse, int fine_ny, index_t fine_pitch,
                        int nx, int ny, int nz, index_t pitch, const int* __restrict__ index_x,
                        const real* __restrict__ weight_x, const int* __restrict__ index_y,
                        const real* __restrict__ weight_y, const int* __restrict__ index_z,
                        const real* __restrict__ weight_z MASK_PARAMETER) {
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
#if DIMENSION == 2
    const int slowest = ny, first = (blockIdx.y * BLOCK_Y + threadIdx.y) * MARCH;
    const index_t fine_stride = fine_pitch, stride = pitch, row = i;
    const int* __restrict__ const index_s = index_y;
    const real* __restrict__ const weight_s = weight_y;
    if (i >= nx || first >= slowest) return;
    const bool fixed_column = is_fixed(i, nx, RULE_XL, RULE_XU);
#else
    const int j = block_along_y(nz) * BLOCK_Y + threadIdx.y, slowest = nz, first = band_along_z(nz) * MARCH;
    const index_t fine_stride = fine_pitch * fine_ny, stride = pitch * ny, row = i + pitch * j;
    const int* __restrict__ const index_s = index_z;
    const real* __restrict__ const weight_s = weight_z;
    if (i >= nx || j >= ny) return;
    const bool fixed_column = is_fixed(i, nx, RULE_XL, RULE_XU) || is_fixed(j, ny, RULE_YL, RULE_YU);
#endif
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    if (fixed_column) {
        for (int s = first; s < last; ++s) coarse[row + stride * s] = 0;
        return;
    }
    int place_x[RESTRICTED];
    real part_x[RESTRICTED];
#pragma unroll
    for (int a = 0; a < RESTRICTED; ++a) {
        place_x[a] = index_x[RESTRICTED * i + a];
        part_x[a] = weight_x[RESTRICTED * i + a];
    }
#if DIMENSION == 3
    int place_y[RESTRICTED];
    real part_y[RESTRICTED];
#pragma unroll
    for (int b = 0; b < RESTRICTED; ++b) {
        place_y[b] = index_y[RESTRICTED * j + b];
        part_y[b] = weight_y[RESTRICTED * j + b];
    }
#endif
    const auto line_of = [&](const real* line) {
        real sum = 0;
#pragma unroll
        for (int a = 0; a < RESTRICTED; ++a) {
            if (part_x[a] != 0) sum += part_x[a] * line[place_x[a]];
        }
        return sum;
    };
    const auto plane_of = [&](const real* plane) {
#if DIMENSION == 2
        return line_of(plane);
#else
        real sum = 0;
#pragma unroll
        for (int b = 0; b < RESTRICTED; ++b) {
            if (part_y[b] != 0) sum += part_y[b] * line_of(plane + fine_pitch * place_y[b]);
        }
        return sum;
#endif
    };
    int held[RESTRICTED];
#pragma unroll
    for (int m = 0; m < RESTRICTED; ++m) held[m] = -1;
    real planes[RESTRICTED] = {};
    for (int s = first; s < last; ++s) {
        const bool fixed = is_fixed(s, slowest, RULE_SL, RULE_SU);
        real sum = 0;
#pragma unroll 1
        for (int c = fixed ? RESTRICTED : 0; c < RESTRICTED; ++c) {
            const real part = weight_s[RESTRICTED * s + c];
            const int needed = index_s[RESTRICTED * s + c];
            if (part == 0) continue;
            real value = 0;
            bool found = false;
#pragma unroll
            for (int m = 0; m < RESTRICTED; ++m) {
                if (held[m] != needed) continue;
                value = planes[m];
                found = true;
            }
            if (!found) {
                value = plane_of(fine + fine_stride * needed);
#pragma unroll
                for (int m = 0; m + 1 < RESTRICTED; ++m) {
                    planes[m] = planes[m + 1];
                    held[m] = held[m + 1];
                }
                planes[RESTRICTED - 1] = value;
                held[RESTRICTED - 1] = needed;
            }
            sum += part * value;
        }
        coarse[row + stride * s] = IS_MASKED(row + stride * s) ? (real)0 : sum;
    }
}

// fine = fine + P coarse, by linear interpolation along each axis; fixed nodes keep their values. A thread has WIDTH
// nodes and marches along the slowest axis with what it takes from two coarse planes.
KERNEL poisson_prolong_add(const real* __restrict__ coarse, real* __restrict__ fine, int coarse_ny,
                           index_t coarse_pitch, int nx, int ny, int nz, index_t pitch, const int* __restrict__ index_x,
                           const real* __restrict__ weight_x, const int* __restrict__ index_y,
                           const real* __restrict__ weight_y, const int* __restrict__ index_z,
                           const real* __restrict__ weight_z, int coarse_nx MASK_PARAMETER) {
    const int i = WIDTH * (blockIdx.x * BLOCK_X + threadIdx.x);
#if DIMENSION == 2
    const int slowest = ny, first = (blockIdx.y * BLOCK_Y + threadIdx.y) * MARCH;
    const index_t coarse_stride = coarse_pitch, stride = pitch, row = i;
    const int* __restrict__ const index_s = index_y;
    const real* __restrict__ const weight_s = weight_y;
    if (i >= nx || first >= slowest) return;
#else
    const int j = block_along_y(nz) * BLOCK_Y + threadIdx.y, slowest = nz, first = band_along_z(nz) * MARCH;
    const index_t coarse_stride = coarse_pitch * coarse_ny, stride = pitch * ny, row = i + pitch * j;
    const int* __restrict__ const index_s = index_z;
    const real* __restrict__ const weight_s = weight_z;
    if (i >= nx || j >= ny || is_fixed(j, ny, RULE_YL, RULE_YU)) return;
    const Window<PROLONGED, 1, false> beside(index_y, weight_y, j, ny, coarse_ny, RULE_YL == WRAP);
#endif
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    const Window<PROLONGED, WIDTH, false> along(index_x, weight_x, i, nx, coarse_nx, RULE_XL == WRAP);
    const auto line_of = [&](const real* line) {
        Pack sum = {};
#pragma unroll
        for (int l = 0; l < along.LENGTH; ++l) {
            const real taken = line[along.place[l]];
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) sum.node[n] += along.weight[n][l] * taken;
        }
        return sum;
    };
    const auto plane_of = [&](const real* plane) {
#if DIMENSION == 2
        return line_of(plane);
#else
        Pack sum = {};
#pragma unroll
        for (int b = 0; b < PROLONGED; ++b) {
            const Pack line = line_of(plane + coarse_pitch * beside.place[b]);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) sum.node[n] += beside.weight[0][b] * line.node[n];
        }
        return sum;
#endif
    };
    Pack lower = {}, upper = {};
    int held_lower = -1, held_upper = -1;
    for (int s = first; s < last; ++s) {
        const int below_s = index_s[PROLONGED * s], above_s = index_s[PROLONGED * s + 1];
        const real part_below = weight_s[PROLONGED * s], part_above = weight_s[PROLONGED * s + 1];
        if (below_s != held_lower) lower = below_s == held_upper ? upper : plane_of(coarse + coarse_stride * below_s);
        if (above_s != held_upper) upper = plane_of(coarse + coarse_stride * above_s);
        held_lower = below_s;
        held_upper = above_s;
        if (is_fixed(s, slowest, RULE_SL, RULE_SU)) continue;
        real* const to = fine + row + stride * s;
        Pack value = load(to);
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            const real change = part_below * lower.node[n] + part_above * upper.node[n];
            const bool fixed = is_fixed(i + n, nx, RULE_XL, RULE_XU) || IS_MASKED(row + stride * s + n);
            value.node[n] += fixed ? (real)0 : change;
        }
        store_streaming(to, value);
    }
}
