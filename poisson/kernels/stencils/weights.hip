// SPDX-License-Identifier: MIT
// Restriction and prolongation by the weights of each node.
//
// Options: HALVED (a bit for each axis that is halved).

#ifndef HALVED
#define HALVED 7
#endif

#define WEIGHTS_PARAMETERS \
    int coarse_nx, int coarse_ny, int coarse_nz, const WEIGHT *__restrict__ weights, index_t weights_pitch
#define WEIGHTS \
    Weights { HALVED, coarse_nx, coarse_ny, coarse_nz, weights, weights_pitch }

// coarse = R fine, zero at fixed nodes: a thread has a coarse node. `scale` is the spacings of the fine nodes over
// those of the coarse ones.
KERNEL poisson_stencil_restrict(const real* __restrict__ fine, real* __restrict__ coarse, int nx, int ny, int nz,
                                index_t pitch, index_t coarse_pitch, WEIGHTS_PARAMETERS, real scale WIDTH_PARAMETERS) {
    const Nodes nodes{nx, ny, nz EACH_WIDTH}, coarser{coarse_nx, coarse_ny, coarse_nz EACH_WIDTH};
    const Weights p = WEIGHTS;
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    if (i >= coarse_nx || j >= coarse_ny) return;
    real sum = 0;
    if (!is_fixed_node(coarser, i, j, k)) {
        const int to_x = HALVED & 1 ? 1 : 0, to_y = HALVED & 2 ? 1 : 0, to_z = HALVED & 4 ? 1 : 0;
#pragma unroll
        for (int z = -to_z; z <= to_z; ++z) {
            const int fine_k = fine_of(HALVED & 4, k, z, nz, RULE_ZL);
#pragma unroll
            for (int y = -to_y; y <= to_y; ++y) {
                const int fine_j = fine_of(HALVED & 2, j, y, ny, RULE_YL);
                const real* const row = fine + pitch * (fine_j + (index_t)ny * fine_k);
#pragma unroll
                for (int x = -to_x; x <= to_x; ++x) {
                    const int fine_i = fine_of(HALVED & 1, i, x, nx, RULE_XL);
                    sum +=
                        (real)p.at(i, j, k, x, y, z) * ((real)volume_of(nodes, fine_i, fine_j, fine_k) * row[fine_i]);
                }
            }
        }
        sum = scale * sum / (real)volume_of<HALVED>(coarser, i, j, k);
    }
    coarse[i + coarse_pitch * (j + (index_t)coarse_ny * k)] = sum;
}

// fine = fine + P coarse: a thread has the two fine nodes of a row that begin with a coarse one, or one where x is not
// halved.
KERNEL poisson_stencil_prolong_add(const real* __restrict__ coarse, real* __restrict__ fine, int nx, int ny, int nz,
                                   index_t pitch, index_t coarse_pitch, WEIGHTS_PARAMETERS) {
    const Weights p = WEIGHTS;
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    const int first = HALVED & 1 ? 2 * i : i;
    if (first >= nx || j >= ny) return;
    const Parents beside = parents_of(HALVED & 2, j, coarse_ny, RULE_YL);
    const Parents further = parents_of(HALVED & 4, k, coarse_nz, RULE_ZL);
    const Parents along = parents_of(HALVED & 1, first + 1, coarse_nx, RULE_XL);
    const bool second = HALVED & 1 && first + 1 < nx;
    real change = 0, next = 0;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
            if (b >= beside.count || c >= further.count) continue;
            const int at_y = beside.at[b], at_z = further.at[c], y = beside.step[b], z = further.step[c];
            const real* const row = coarse + coarse_pitch * (at_y + (index_t)coarse_ny * at_z);
            change += (real)p.at(i, at_y, at_z, 0, y, z) * row[i];
            if (!second) continue;
            next += (real)p.at(i, at_y, at_z, 1, y, z) * row[i];
            if (along.count == 2) next += (real)p.at(along.at[1], at_y, at_z, -1, y, z) * row[along.at[1]];
        }
    }
    real* const to = fine + first + pitch * (j + (index_t)ny * k);
    to[0] += change;
    if (second) to[1] += next;
}
