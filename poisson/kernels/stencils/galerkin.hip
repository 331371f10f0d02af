// SPDX-License-Identifier: MIT
// What a coarse grid is set up by: the weights that follow the operator, and the Galerkin product.
//
// A block has BLOCK_X coarse nodes of a row, and each of its rows of threads other directions or arrays of them. Masks
// of axes and slots are arguments: these kernels run once a set-up, and would be compiled for each.
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

// out = the weights. A direction along more axes needs those along fewer, which other rows of threads have made.
KERNEL poisson_stencil_interpolation(WEIGHT* __restrict__ out, STENCIL_LINKS_PARAMETERS, int halved, int coarse_nx,
                                     int coarse_ny, int coarse_nz, index_t out_pitch, double balanced, int spreads) {
    const StencilLinks fine = STENCIL_LINKS;
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y, k = blockIdx.z, lane = threadIdx.x;
    __shared__ double weights[27][BLOCK_X];
    const bool works = i < coarse_nx;
    const int to_x = halved & 1, to_y = halved >> 1 & 1, to_z = halved >> 2 & 1;
    if (threadIdx.y == 0)
        weights[13][lane] = is_fixed_node(Nodes{coarse_nx, coarse_ny, coarse_nz}, i, j, k) ? 0.0 : 1.0;
    for (int count = 1; count <= DIMENSION; ++count) {
        __syncthreads();
        int array = 0, turn = 0;
        for (int z = -to_z; z <= to_z; ++z) {
            for (int y = -to_y; y <= to_y; ++y) {
                for (int x = -to_x; x <= to_x; ++x) {
                    const int axes = (x != 0) + (y != 0) + (z != 0), own = array;
                    if (axes > 0) ++array;
                    if (axes != count || turn++ % BLOCK_Y != threadIdx.y || !works) continue;
                    const int at_x = fine_of(to_x, i, x, nx, RULE_XL), at_y = fine_of(to_y, j, y, ny, RULE_YL);
                    const int at_z = DIMENSION == 3 ? fine_of(to_z, k, z, nz, RULE_ZL) : 0;
                    const bool takes = lies_between(to_x, i, x, nx, RULE_XL) && lies_between(to_y, j, y, ny, RULE_YL) &&
                                       (DIMENSION == 2 || lies_between(to_z, k, z, nz, RULE_ZL)) &&
                                       !is_fixed_node(fine.nodes, at_x, at_y, at_z);
                    double weight = 0;
                    if (takes) {
                        double holding = fine.at(0, at_x, at_y, at_z), balance = 0, taken = 0, along = 0;
                        int from = 0;
                        for (int slot = 0; slot < SLOTS; ++slot) {
                            if (!fine.has(slot)) continue;
                            ++from;
                            for (int sign = 1; sign >= -1; sign -= 2) {
                                const int step_x = sign * step_of(slot, 0), step_y = sign * step_of(slot, 1);
                                const int step_z = sign * step_of(slot, 2);
                                int p = at_x, q = at_y, s = at_z;
                                if (!moved(fine.nodes, p, q, s, step_x, step_y, step_z)) continue;
                                const double link = sign > 0 ? fine.at(from, at_x, at_y, at_z) : fine.at(from, p, q, s);
                                if (is_fixed_node(fine.nodes, p, q, s)) {
                                    holding += link;
                                    continue;
                                }
                                // The links are summed over the axes along which the node is coarse itself.
                                const int across_x = x ? step_x : 0, across_y = y ? step_y : 0,
                                          across_z = z ? step_z : 0;
                                const double size = link < 0 ? -link : link;
                                if (across_x == 0 && across_y == 0 && across_z == 0) {
                                    along += size;
                                    continue;
                                }
                                balance += size;
                                const int near_x = x + across_x, near_y = y + across_y, near_z = z + across_z;
                                if (near_x * near_x <= 1 && near_y * near_y <= 1 && near_z * near_z <= 1)
                                    taken += size * weights[13 + near_x + 3 * near_y + 9 * near_z][lane];
                            }
                        }
                        const double centre = balance + (holding > balanced * balance ? holding : 0.0);
                        if (balance > 0)
                            weight = taken / centre;
                        else if (spreads && !(holding > balanced * along))
                            weight =
                                weights[13][lane] / (ends_of(i, x, coarse_nx, RULE_XL, RULE_XU) *
                                                     ends_of(j, y, coarse_ny, RULE_YL, RULE_YU) *
                                                     (DIMENSION == 2 ? 1 : ends_of(k, z, coarse_nz, RULE_ZL, RULE_ZU)));
                    }
                    weights[13 + x + 3 * y + 9 * z][lane] = weight;
                    out[i + out_pitch * (j + (index_t)coarse_ny * (k + (index_t)coarse_nz * own))] = (WEIGHT)weight;
                }
            }
        }
    }
}

// The coarse nodes that a fine one takes from along an axis, as steps from a coarse node that is `away` fine steps from
// it, and its directions from them. Around an axis of an odd number of nodes the first and the last coarse node are
// neighbours.
struct Takes {
    int count, step[2], direction[2];
};

__device__ __forceinline__ Takes takes_of(bool halved, int away, int coarse, int n_coarse, int n, int lower) {
    if (!halved) return Takes{1, {away, away}, {0, 0}};
    const bool seam = lower == WRAP && n % 2 == 1 && coarse == (away > 0 ? n_coarse - 1 : 0);
    if (away % 2 == 0 || seam) {
        const int step = seam ? away : away / 2;
        return Takes{1, {step, step}, {0, 0}};
    }
    return away > 0 ? Takes{2, {0, 1}, {1, -1}} : Takes{2, {-1, 0}, {1, -1}};
}

// Calls visit(place, weight) for each coarse node that a fine one takes from; the place counts the neighbours of the
// coarse node (i, j, k), from which the fine one is x, y and z steps away.
template <class Visit>
__device__ __forceinline__ void each_taken(const Weights& p, const Nodes& fine, int i, int j, int k, int x, int y,
                                           int z, Visit visit) {
    const Nodes coarse{p.nx, p.ny, p.nz};
    const Takes along = takes_of(p.halves(0), x, i, p.nx, fine.nx, RULE_XL);
    const Takes beside = takes_of(p.halves(1), y, j, p.ny, fine.ny, RULE_YL);
    const Takes further = DIMENSION == 3 ? takes_of(p.halves(2), z, k, p.nz, fine.nz, RULE_ZL) : Takes{1};
#pragma unroll
    for (int c = 0; c < 2; ++c) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
#pragma unroll
            for (int a = 0; a < 2; ++a) {
                if (a >= along.count || b >= beside.count || c >= further.count) continue;
                int q = i, r = j, s = k;
                if (!moved(coarse, q, r, s, along.step[a], beside.step[b], further.step[c])) continue;
                const int place = along.step[a] + 3 * beside.step[b] + 9 * further.step[c];
                visit(place, p.at(q, r, s, along.direction[a], beside.direction[b], further.direction[c]));
            }
        }
    }
}

// out = the coefficients of R A P. The links of a coarse node come from the fine nodes that take from it, and its
// excess is that of A applied to the row sums of P. The rows of threads share the fine nodes of a coarse one.
KERNEL poisson_stencil_galerkin(PRODUCT* __restrict__ out, STENCIL_LINKS_PARAMETERS, int halved, int coarse_nx,
                                int coarse_ny, int coarse_nz, const WEIGHT* __restrict__ weights, index_t weights_pitch,
                                index_t out_pitch, int coarse_offsets, double scale) {
    const StencilLinks fine = STENCIL_LINKS;
    const Weights p{halved, coarse_nx, coarse_ny, coarse_nz, weights, weights_pitch};
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y, k = blockIdx.z, lane = threadIdx.x;
    const int to_x = halved & 1, to_y = halved >> 1 & 1, to_z = halved >> 2 & 1;
    __shared__ double totals[BLOCK_Y][SLOTS + 1][BLOCK_X];  // the excess, and the links to each slot
    double (&own)[SLOTS + 1][BLOCK_X] = totals[threadIdx.y];
    for (int number = 0; number <= SLOTS; ++number) own[number][lane] = 0;
    int turn = 0;
    for (int z = -to_z; z <= to_z; ++z) {
        for (int y = -to_y; y <= to_y; ++y) {
            for (int x = -to_x; x <= to_x; ++x) {
                if (turn++ % BLOCK_Y != threadIdx.y || i >= coarse_nx) continue;
                const double weight = p.at(i, j, k, x, y, z);
                if (weight == 0) continue;
                const int at_x = fine_of(to_x, i, x, nx, RULE_XL), at_y = fine_of(to_y, j, y, ny, RULE_YL);
                const int at_z = DIMENSION == 3 ? fine_of(to_z, k, z, nz, RULE_ZL) : 0;
                const double excess = fine.at(0, at_x, at_y, at_z);
                double here = 0, diagonal = excess, flow = 0;
                each_taken(p, fine.nodes, i, j, k, x, y, z, [&](int, double taken) { here += taken; });
                int from = 0;
                for (int slot = 0; slot < SLOTS; ++slot) {
                    if (!fine.has(slot)) continue;
                    ++from;
                    for (int sign = 1; sign >= -1; sign -= 2) {
                        const int step_x = sign * step_of(slot, 0), step_y = sign * step_of(slot, 1);
                        const int step_z = sign * step_of(slot, 2);
                        int q = at_x, r = at_y, s = at_z;
                        if (!moved(fine.nodes, q, r, s, step_x, step_y, step_z)) continue;
                        const double link = sign > 0 ? fine.at(from, at_x, at_y, at_z) : fine.at(from, q, r, s);
                        double there = 0;
                        each_taken(p, fine.nodes, i, j, k, x + step_x, y + step_y, z + step_z,
                                   [&](int place, double taken) {
                                       there += taken;
                                       if (place > 0) own[place][lane] += weight * (link * taken);
                                   });
                        diagonal += link;
                        flow += link * (here - there);
                    }
                }
                own[0][lane] += weight * (excess * here + flow);
                each_taken(p, fine.nodes, i, j, k, x, y, z, [&](int place, double taken) {
                    if (place > 0) own[place][lane] -= weight * (diagonal * taken);
                });
            }
        }
    }
    __syncthreads();
    int array = 0;
    for (int number = 0; number <= SLOTS; ++number) {
        if (number > 0 && !(coarse_offsets >> (number - 1) & 1)) continue;
        if (array++ % BLOCK_Y != threadIdx.y || i >= coarse_nx) continue;
        double total = 0;
        for (int row = 0; row < BLOCK_Y; ++row) total += totals[row][number][lane];
        out[i + out_pitch * (j + (index_t)coarse_ny * (k + (index_t)coarse_nz * (array - 1)))] =
            (PRODUCT)(scale * total);
    }
}
