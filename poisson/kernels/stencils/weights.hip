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

// fine = fine + P coarse: a thread has the fine nodes that begin with a coarse one, two along an axis that is halved.
KERNEL poisson_stencil_prolong_add(const real* __restrict__ coarse, real* __restrict__ fine, int nx, int ny, int nz,
                                   index_t pitch, index_t coarse_pitch, WEIGHTS_PARAMETERS) {
    constexpr int along_x = HALVED & 1 ? 2 : 1, along_y = HALVED & 2 ? 2 : 1, along_z = HALVED & 4 ? 2 : 1;
    const Weights p = WEIGHTS;
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    if (along_x * i >= nx || along_y * j >= ny) return;
    real change[along_z][along_y][along_x] = {};
    // The coarse nodes of which one or both take part, and the fine nodes in their directions.
#pragma unroll
    for (int c = 0; c < along_z; ++c) {
#pragma unroll
        for (int b = 0; b < along_y; ++b) {
#pragma unroll
            for (int a = 0; a < along_x; ++a) {
                int q = i, r = j, s = k;
                if (!moved(Nodes{coarse_nx, coarse_ny, coarse_nz}, q, r, s, a, b, c)) continue;
                const real value = coarse[q + coarse_pitch * (r + (index_t)coarse_ny * s)];
#pragma unroll
                for (int z = c; z < along_z; ++z) {
#pragma unroll
                    for (int y = b; y < along_y; ++y) {
#pragma unroll
                        for (int x = a; x < along_x; ++x)
                            change[z][y][x] += (real)p.at(q, r, s, x - 2 * a, y - 2 * b, z - 2 * c) * value;
                    }
                }
            }
        }
    }
#pragma unroll
    for (int z = 0; z < along_z; ++z) {
#pragma unroll
        for (int y = 0; y < along_y; ++y) {
            if (along_y * j + y >= ny || along_z * k + z >= nz) continue;
            real* const to = fine + along_x * i + pitch * (along_y * j + y + (index_t)ny * (along_z * k + z));
#pragma unroll
            for (int x = 0; x < along_x; ++x)
                if (along_x * i + x < nx) to[x] += change[z][y][x];
        }
    }
}
