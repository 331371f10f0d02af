// Operations on whole arrays: update, norm, fill, axpby and dot.
//
// A thread owns WIDTH neighbouring nodes of a row and visits every gridDim.y * BLOCK_Y-th row. Values past the end of a
// row may be read and written, but never count.

#define FOR_EACH_ROW(row, rows) \
    for (index_t row = (index_t)blockIdx.y * BLOCK_Y + threadIdx.y; row < (rows); row += (index_t)gridDim.y * BLOCK_Y)

__device__ __forceinline__ int first_node() { return WIDTH * (blockIdx.x * BLOCK_X + threadIdx.x); }

// r = f - au; u = u + scale r
KERNEL poisson_update(const real* __restrict__ f, const real* __restrict__ au, real* __restrict__ r,
                      real* __restrict__ u, int nx, index_t rows, index_t pitch, real scale) {
    const int i = first_node();
    if (i >= nx) return;
    FOR_EACH_ROW(row, rows) {
        const index_t offset = row * pitch + i;
        Pack source = {};
        if (SOURCE) source = load(f + offset);
        const Pack applied = load(au + offset);
        Pack value = load(u + offset);
        Pack residual;
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            residual.node[n] = source.node[n] - applied.node[n];
            value.node[n] = relax(value.node[n], residual.node[n], scale);
        }
        store_streaming(r + offset, residual);
        store_streaming(u + offset, value);
    }
}

// The sum of r² and the maximum of |r|.
KERNEL poisson_norm(const real* __restrict__ r, int nx, index_t rows, index_t pitch, double* partial, double* result) {
    const int i = first_node();
    Norms norms;
    if (i < nx) {
#pragma unroll UNROLL
        FOR_EACH_ROW(row, rows) {
            const Pack value = load(r + row * pitch + i);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                if (i + n < nx) norms.add(value.node[n]);
            }
        }
    }
    reduce_grid(norms.sum, norms.maximum, partial, result);
}

// The sum of w x y, where w is one half for each mirror face that the node lies on.
KERNEL poisson_dot(const real* __restrict__ x, const real* __restrict__ y, int nx, int ny, index_t rows, index_t pitch,
                   double* partial, double* result) {
    const int i = first_node();
    double sum = 0;
    if (i < nx) {
#pragma unroll UNROLL
        FOR_EACH_ROW(row, rows) {
            const Pack a = load(x + row * pitch + i);
            const Pack b = load(y + row * pitch + i);
            const int j = row % ny;
            double weight = 1;
            if (RULE_YL == MIRROR && j == 0) weight *= 0.5;
            if (RULE_YU == MIRROR && j == ny - 1) weight *= 0.5;
#if DIMENSION == 3
            if (RULE_ZL == MIRROR && row < ny) weight *= 0.5;
            if (RULE_ZU == MIRROR && row >= rows - ny) weight *= 0.5;
#endif
            double part = 0;
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                if (i + n < nx) {
                    double product = (double)a.node[n] * (double)b.node[n];
                    if (RULE_XL == MIRROR && i + n == 0) product *= 0.5;
                    if (RULE_XU == MIRROR && i + n == nx - 1) product *= 0.5;
                    part += product;
                }
            }
            sum += weight * part;
        }
    }
    reduce_grid(sum, 0, partial, result);
}

// x = value
KERNEL poisson_fill(real* __restrict__ x, int nx, index_t rows, index_t pitch, real value) {
    const int i = first_node();
    if (i >= nx) return;
    Pack pack;
#pragma unroll
    for (int n = 0; n < WIDTH; ++n) pack.node[n] = value;
    FOR_EACH_ROW(row, rows) store(x + row * pitch + i, pack);
}

// y = a x + b y; y is not read where b is zero.
KERNEL poisson_axpby(real a, const real* __restrict__ x, real b, real* __restrict__ y, int nx, index_t rows,
                     index_t pitch) {
    const int i = first_node();
    if (i >= nx) return;
    FOR_EACH_ROW(row, rows) {
        const index_t offset = row * pitch + i;
        const Pack from = load(x + offset);
        Pack to;
        if (b != 0) to = load(y + offset);
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) to.node[n] = b != 0 ? a * from.node[n] + b * to.node[n] : a * from.node[n];
        store(y + offset, to);
    }
}
