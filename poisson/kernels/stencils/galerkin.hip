// SPDX-License-Identifier: MIT
// What a coarse grid is set up by: the weights that follow the operator, and the Galerkin product.
//
// Options: PRODUCT (the type of the coefficients of the product).

#ifndef PRODUCT
#define PRODUCT real
#endif

// How many free nodes of an axis a fine node lies between, a coarse one counted that is in the other direction of it.
__device__ __forceinline__ int ends_of(int coarse, int step, int n, int lower, int upper) {
    const int other = coarse + step;
    if (step == 0) return 1;
    return lower == WRAP || (other >= 0 && other < n && !is_fixed(other, n, lower, upper)) ? 2 : 1;
}

// Whether a number is -1, 0 or 1. Not `number * number <= 1`, which NVRTC 13.0 compiled for sm_90 to other results.
__device__ __forceinline__ bool is_step(int number) { return number >= -1 && number <= 1; }

// out = the weights: a thread has a coarse node. A direction along more axes needs those along fewer.
KERNEL poisson_stencil_interpolation(WEIGHT* __restrict__ out, STENCIL_LINKS_PARAMETERS, int halved, int coarse_nx,
                                     int coarse_ny, int coarse_nz, index_t out_pitch, double balanced, int spreads) {
    const StencilLinks fine = STENCIL_LINKS;
    const Weights p{halved, coarse_nx, coarse_ny, coarse_nz, out, out_pitch};
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    __shared__ double of_threads[27][THREADS];
    double* const weights = &of_threads[13][threadIdx.x + BLOCK_X * threadIdx.y];
    if (i >= coarse_nx || j >= coarse_ny) return;
    const int to_x = halved & 1, to_y = halved >> 1 & 1, to_z = halved >> 2 & 1;
    const double own = is_fixed_node(Nodes{coarse_nx, coarse_ny, coarse_nz}, i, j, k) ? 0.0 : 1.0;
    weights[0] = own;
#pragma unroll 1
    for (int turn = 0; turn < 27 * DIMENSION; ++turn) {
        const int x = turn % 3 - 1, y = turn / 3 % 3 - 1, z = turn / 9 % 3 - 1;
        const int axes = (x ? 1 : 0) + (y ? 1 : 0) + (z ? 1 : 0);
        if (axes != 1 + turn / 27 || (x && !to_x) || (y && !to_y) || (z && !to_z)) continue;
        const int at_x = fine_of(to_x, i, x, nx, RULE_XL), at_y = fine_of(to_y, j, y, ny, RULE_YL);
        const int at_z = DIMENSION == 3 ? fine_of(to_z, k, z, nz, RULE_ZL) : 0;
        const bool takes = lies_between(to_x, i, x, nx, RULE_XL) && lies_between(to_y, j, y, ny, RULE_YL) &&
                           (DIMENSION == 2 || lies_between(to_z, k, z, nz, RULE_ZL)) &&
                           !is_fixed_node(fine.nodes, at_x, at_y, at_z);
        double weight = 0;
        if (takes) {
            double holding = fine.at(0, at_x, at_y, at_z), balance = 0, taken = 0, along = 0;
            for_each_link(fine, at_x, at_y, at_z, [&](const Step& to, double link) {
                // The links are summed over the axes along which the node is coarse itself.
                const int across_x = x ? to.x : 0, across_y = y ? to.y : 0, across_z = z ? to.z : 0;
                const int near_x = x + across_x, near_y = y + across_y, near_z = z + across_z;
                const bool fixed = is_fixed_node(fine.nodes, to.i, to.j, to.k);
                const bool inside = across_x == 0 && across_y == 0 && across_z == 0;
                const double size = fixed ? 0.0 : link < 0 ? -link : link;
                holding += fixed ? link : 0.0;
                along += inside ? size : 0.0;
                balance += inside ? 0.0 : size;
                if (!inside && is_step(near_x) && is_step(near_y) && is_step(near_z))
                    taken += size * weights[THREADS * (near_x + 3 * near_y + 9 * near_z)];
            });
            const double centre = balance + (holding > balanced * balance ? holding : 0.0);
            if (balance > 0)
                weight = taken / centre;
            else if (spreads && !(holding > balanced * along))
                weight =
                    own / (ends_of(i, x, coarse_nx, RULE_XL, RULE_XU) * ends_of(j, y, coarse_ny, RULE_YL, RULE_YU) *
                           (DIMENSION == 2 ? 1 : ends_of(k, z, coarse_nz, RULE_ZL, RULE_ZU)));
        }
        weights[THREADS * (x + 3 * y + 9 * z)] = weight;
        out[p.offset(i, j, k, x, y, z)] = (WEIGHT)weight;
    }
}

// The fine nodes along an axis from two before a coarse one to two behind it, and which of them there are; the index of
// one that is not lies in the array.
struct Near {
    int at[5];
    bool there[5];
};

__device__ __forceinline__ Near near_of(bool halved, int coarse, int n, int lower) {
    Near near;
#pragma unroll
    for (int step = -2; step <= 2; ++step) {
        int at = fine_of(halved, coarse, 0, n, lower);
        near.there[step + 2] = moved(at, step, n, lower);
        near.at[step + 2] = at < 0 ? 0 : at >= n ? n - 1 : at;
    }
    return near;
}

// The coarse nodes that a fine one takes from along an axis, as steps from a coarse node that is `away` fine steps from
// it, and its directions from them. Around an axis of an odd number of nodes the first and the last coarse node are
// neighbours.
struct Takes {
    int count, step[2], direction[2];
};

__device__ __forceinline__ Takes takes_of(bool halved, int away, int coarse, int n_coarse, int n, int lower) {
    const bool seam = lower == WRAP && n % 2 == 1 && coarse == (away > 0 ? n_coarse - 1 : 0);
    if (away % 2 == 0 && halved) return Takes{1, {away / 2, away / 2}, {0, 0}};
    if (!halved || seam) return Takes{1, {away, away}, {0, 0}};
    return away > 0 ? Takes{2, {0, 1}, {1, -1}} : Takes{2, {-1, 0}, {1, -1}};
}

// out = the coefficients of R A P: a thread has a coarse node. For each row of fine nodes Pᵀ A is summed, to those at
// most two steps away along x, and is multiplied by P from the coarse nodes that they take from. The excess is that of
// A applied to the row sums of P at the fine nodes, `sums`.
KERNEL poisson_stencil_galerkin(PRODUCT* __restrict__ out, STENCIL_LINKS_PARAMETERS, int halved, int coarse_nx,
                                int coarse_ny, int coarse_nz, const WEIGHT* __restrict__ weights, index_t weights_pitch,
                                const double* __restrict__ sums, index_t sums_pitch, index_t out_pitch,
                                int coarse_offsets, double scale) {
    const StencilLinks fine = STENCIL_LINKS;
    const Weights p{halved, coarse_nx, coarse_ny, coarse_nz, weights, weights_pitch};
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    const int to_x = halved & 1, to_y = halved >> 1 & 1, to_z = halved >> 2 & 1, more_z = DIMENSION == 3 ? 1 + to_z : 0;
    __shared__ double of_threads[SLOTS + 1][THREADS];  // the excess, and the links to each slot
    double* const totals = &of_threads[0][threadIdx.x + BLOCK_X * threadIdx.y];
    if (i >= coarse_nx || j >= coarse_ny) return;
#pragma unroll
    for (int number = 0; number <= SLOTS; ++number) totals[THREADS * number] = 0;
    const Near x = near_of(to_x, i, nx, RULE_XL);
    const int centre_y = fine_of(to_y, j, 0, ny, RULE_YL);
    const int centre_z = DIMENSION == 3 ? fine_of(to_z, k, 0, nz, RULE_ZL) : 0;
    int before = i, behind = i;
    const bool has_before = moved(before, -1, coarse_nx, RULE_XL), has_behind = moved(behind, 1, coarse_nx, RULE_XL);
    const bool wide_before = takes_of(to_x, -1, i, coarse_nx, nx, RULE_XL).count == 2;
    const bool wide_behind = takes_of(to_x, 1, i, coarse_nx, nx, RULE_XL).count == 2;
    double excess = 0;
#pragma unroll 1
    for (int z = -more_z; z <= more_z; ++z) {
#pragma unroll 1
        for (int y = -1 - to_y; y <= 1 + to_y; ++y) {
            double flows[5] = {0, 0, 0, 0, 0};
            int next_y = centre_y, next_z = centre_z;
            const bool has_next = moved(next_y, y, ny, RULE_YL) && (DIMENSION == 2 || moved(next_z, z, nz, RULE_ZL));
            if (!has_next) continue;
#pragma unroll 1
            for (int from_z = z > 0 ? z - 1 : -to_z; from_z <= (z < 0 ? z + 1 : to_z); ++from_z) {
#pragma unroll 1
                for (int from_y = y > 0 ? y - 1 : -to_y; from_y <= (y < 0 ? y + 1 : to_y); ++from_y) {
                    const int across = 3 * (y - from_y) + 9 * (z - from_z), size = across < 0 ? -across : across;
                    if (size > 0 && !(fine.offsets >> (size - 2) & 7)) continue;
                    const WeightRow row = p.row(j, k, from_y, from_z);
                    const double own[3] = {to_x ? row.at(i, -1) : 0.0, row.at(i, 0), to_x ? row.at(i, 1) : 0.0};
                    if (own[0] == 0 && own[1] == 0 && own[2] == 0) continue;
                    int at_y = centre_y, at_z = centre_z;
                    moved(at_y, from_y, ny, RULE_YL);
                    if (DIMENSION == 3) moved(at_z, from_z, nz, RULE_ZL);
#pragma unroll
                    for (int step_x = -1; step_x <= 1; ++step_x) {
                        const int place = step_x + across, slot = (place < 0 ? -place : place) - 1;
                        if (place == 0 || !fine.has(slot)) continue;
                        const int number = 1 + __popc(fine.offsets & ((1 << slot) - 1));
#pragma unroll
                        for (int n = -1; n <= 1; ++n) {
                            const int next = n + step_x + 2;
                            double link = 0;
                            if (place > 0)
                                link = fine.at(number, x.at[n + 2], at_y, at_z);
                            else if (x.there[next])
                                link = fine.at(number, x.at[next], next_y, next_z);
                            flows[next] += own[n + 1] * link;
                        }
                    }
                    if (across != 0) continue;
#pragma unroll
                    for (int n = -1; n <= 1; ++n) {
                        if (own[n + 1] == 0) continue;
                        const auto sum_at = [&](int u, int v, int w) {
                            return sums[u + sums_pitch * (v + (index_t)ny * w)];
                        };
                        const double sum = sum_at(x.at[n + 2], at_y, at_z);
                        double diagonal = fine.at(0, x.at[n + 2], at_y, at_z), held = diagonal * sum;
                        for_each_link(fine, x.at[n + 2], at_y, at_z, [&](const Step& to, double link) {
                            diagonal += link;
                            held += link * (sum - sum_at(to.i, to.j, to.k));
                        });
                        flows[n + 2] -= own[n + 1] * diagonal;
                        excess += own[n + 1] * held;
                    }
                }
            }
            const Takes beside = takes_of(to_y, y, j, coarse_ny, ny, RULE_YL);
            const Takes further = DIMENSION == 3 ? takes_of(to_z, z, k, coarse_nz, nz, RULE_ZL) : Takes{1};
#pragma unroll
            for (int c = 0; c < 2; ++c) {
#pragma unroll
                for (int b = 0; b < 2; ++b) {
                    if (c >= further.count || b >= beside.count) continue;
                    const int across = 3 * beside.step[b] + 9 * further.step[c];
                    int q = j, r = k;
                    if (across < 0 || !moved(q, beside.step[b], coarse_ny, RULE_YL)) continue;
                    if (DIMENSION == 3 && !moved(r, further.step[c], coarse_nz, RULE_ZL)) continue;
                    const WeightRow row = p.row(q, r, beside.direction[b], further.direction[c]);
                    double* const links = totals + THREADS * across;  // to the nodes of that row
                    if (has_before && across > 0) {
                        const double far = row.at(before, 0), near = wide_before ? row.at(before, 1) : far;
                        links[-THREADS] += flows[0] * far + flows[1] * near;
                    }
                    if (across > 0) {
                        double sum = flows[2] * row.at(i, 0);
                        if (to_x) sum += flows[1] * row.at(i, -1) + flows[3] * row.at(i, 1);
                        links[0] += sum;
                    }
                    if (has_behind) {
                        const double far = row.at(behind, 0), near = wide_behind ? row.at(behind, -1) : far;
                        links[THREADS] += flows[4] * far + flows[3] * near;
                    }
                }
            }
        }
    }
    totals[0] = excess;
    index_t at = i + out_pitch * (j + (index_t)coarse_ny * k);
#pragma unroll 1
    for (int number = 0; number <= SLOTS; ++number) {
        if (number > 0 && !(coarse_offsets >> (number - 1) & 1)) continue;
        out[at] = (PRODUCT)(scale * totals[THREADS * number]);
        at += out_pitch * coarse_ny * coarse_nz;
    }
}
