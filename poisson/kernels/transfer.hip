// Between two grids on the same box: restrict and prolong_add.
//
// The weights of each axis come in tables (poisson/transfer.py): the coarse node I gathers from the fine nodes
// restrict_index[4 I + n], n = 0..3; the fine node i takes from the coarse nodes prolong_index[2 i + n], n = 0, 1.
// A weight of zero stands at entries that are not needed; their index is a valid one.

__device__ __forceinline__ bool is_fixed(int i, int n, int lower, int upper) {
    return (lower == FIXED && i == 0) || (upper == FIXED && i == n - 1);
}

// coarse = R fine: the transpose of the interpolation, scaled so that it keeps the trapezoidal mean; zero at fixed
// nodes.
KERNEL poisson_restrict(const real* __restrict__ fine, real* __restrict__ coarse, int ny, index_t pitch, int coarse_nx,
                        int coarse_ny, int coarse_nz, index_t coarse_pitch, const int* __restrict__ index_x,
                        const real* __restrict__ weight_x, const int* __restrict__ index_y,
                        const real* __restrict__ weight_y, const int* __restrict__ index_z,
                        const real* __restrict__ weight_z) {
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    const int j = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int k = blockIdx.z;
    if (i >= coarse_nx || j >= coarse_ny) return;
    bool fixed = is_fixed(i, coarse_nx, RULE_XL, RULE_XU) || is_fixed(j, coarse_ny, RULE_YL, RULE_YU);
#if DIMENSION == 3
    fixed = fixed || is_fixed(k, coarse_nz, RULE_ZL, RULE_ZU);
#endif
    real sum = 0;
    if (!fixed) {
#if DIMENSION == 3
        for (int c = 0; c < 4; ++c) {
            const real wz = weight_z[4 * k + c];
            if (wz == 0) continue;
            const index_t plane = (index_t)index_z[4 * k + c] * ny;
#else
        {
            const real wz = 1;
            const index_t plane = 0;
#endif
            for (int b = 0; b < 4; ++b) {
                const real wy = weight_y[4 * j + b];
                if (wy == 0) continue;
                const index_t row = (plane + index_y[4 * j + b]) * pitch;
                real part = 0;
                for (int a = 0; a < 4; ++a) {
                    const real wx = weight_x[4 * i + a];
                    if (wx != 0) part += wx * fine[row + index_x[4 * i + a]];
                }
                sum += wz * wy * part;
            }
        }
    }
    coarse[i + coarse_pitch * (j + (index_t)coarse_ny * k)] = sum;
}

// fine = fine + P coarse, by linear interpolation along each axis; fixed nodes keep their values.
KERNEL poisson_prolong_add(const real* __restrict__ coarse, real* __restrict__ fine, int coarse_ny,
                           index_t coarse_pitch, int nx, int ny, int nz, index_t pitch, const int* __restrict__ index_x,
                           const real* __restrict__ weight_x, const int* __restrict__ index_y,
                           const real* __restrict__ weight_y, const int* __restrict__ index_z,
                           const real* __restrict__ weight_z) {
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    const int j = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int k = blockIdx.z;
    if (i >= nx || j >= ny) return;
    if (is_fixed(i, nx, RULE_XL, RULE_XU) || is_fixed(j, ny, RULE_YL, RULE_YU)) return;
#if DIMENSION == 3
    if (is_fixed(k, nz, RULE_ZL, RULE_ZU)) return;
#endif
    real sum = 0;
#if DIMENSION == 3
    for (int c = 0; c < 2; ++c) {
        const real wz = weight_z[2 * k + c];
        const index_t plane = (index_t)index_z[2 * k + c] * coarse_ny;
#else
    {
        const real wz = 1;
        const index_t plane = 0;
#endif
        for (int b = 0; b < 2; ++b) {
            const index_t row = (plane + index_y[2 * j + b]) * coarse_pitch;
            const real part =
                weight_x[2 * i] * coarse[row + index_x[2 * i]] + weight_x[2 * i + 1] * coarse[row + index_x[2 * i + 1]];
            sum += wz * weight_y[2 * j + b] * part;
        }
    }
    fine[i + pitch * (j + (index_t)ny * k)] += sum;
}
