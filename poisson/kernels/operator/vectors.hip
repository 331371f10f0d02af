// SPDX-License-Identifier: MIT
// Operations on whole arrays: update, norm, take, integrate, fill, axpby, dot, advance, correct and dense.
//
// A thread owns WIDTH neighbouring nodes of a row and visits every gridDim.y * BLOCK_Y-th row. Values past the end of a
// row may be read and written, but never count.

// The type of an array of the caller, of `take` and `integrate`.
#ifndef GIVEN
#define GIVEN real
#endif

#define FOR_EACH_ROW(row, rows) \
    for (index_t row = (index_t)blockIdx.y * BLOCK_Y + threadIdx.y; row < (rows); row += (index_t)gridDim.y * BLOCK_Y)

__device__ __forceinline__ int first_node() { return WIDTH * (blockIdx.x * BLOCK_X + threadIdx.x); }

#if VARIES
#define UPDATE_PARAMETERS , int ny, int nz, real weight_x, real weight_y, real weight_z, real c COEFFICIENT_PARAMETERS
#else
#define UPDATE_PARAMETERS
#endif

// Where some rows do not count a kernel needs to know which they are.
#if HALOS
#define ROW_PARAMETERS , int ny
#define ROW_COUNTS(row) row_counts(row, rows, ny)
__device__ __forceinline__ bool row_counts(index_t row, index_t rows, int ny) {
#if DIMENSION == 2
    return row >= HALO_YL && row < rows - HALO_YU;
#else
    if (row < (index_t)HALO_ZL * ny || row >= rows - (index_t)HALO_ZU * ny) return false;
    // A division of 64 bits takes a hundred instructions: slabs need none.
    if (HALO_YL + HALO_YU == 0) return true;
    const int j = (int)(row % ny);
    return j >= HALO_YL && j < ny - HALO_YU;
#endif
}
#else
#define ROW_PARAMETERS
#define ROW_COUNTS(row) true
#endif

// r = f - au; u = u + scale r, or u + scale r / diag(A) where coefficients vary.
KERNEL poisson_update(const real* __restrict__ f, const real* __restrict__ au, real* __restrict__ r,
                      real* __restrict__ u, int nx, index_t rows, index_t pitch, real scale UPDATE_PARAMETERS) {
    const int i = first_node();
    if (i >= nx) return;
    FOR_EACH_ROW(row, rows) {
        const index_t offset = row * pitch + i;
        Pack source = {};
        if (SOURCE) source = load(f + offset);
        const Pack applied = load(au + offset);
        Pack value = load(u + offset);
        Pack residual;
#if VARIES
        const Operator a = OPERATOR;
        const Place at{offset, i, (int)(row % ny), (int)(row / ny)};
        Links links;
        load_lowest(a, at, links);
        load_others(a, at, links);
#endif
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            residual.node[n] = residual_of(source.node[n], applied.node[n]);
#if VARIES
            value.node[n] = relax_at(a, at, links, n, value.node[n], residual.node[n], scale);
#else
            value.node[n] = relax(value.node[n], residual.node[n], scale);
#endif
        }
        store_streaming(r + offset, residual);
        store_streaming(u + offset, value);
    }
}

// The sum of r² and the maximum of |r|.
KERNEL poisson_norm(const real* __restrict__ r, int nx, index_t rows, index_t pitch ROW_PARAMETERS, double* partial,
                    double* result) {
    const int i = first_node();
    Norms norms;
    if (i < nx) {
#pragma unroll UNROLL
        FOR_EACH_ROW(row, rows) {
            const Pack value = load(r + row * pitch + i);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                if (i + n < nx && ROW_COUNTS(row)) norms.add(value.node[n]);
            }
        }
    }
    reduce_grid(norms.sum, norms.maximum, partial, result);
}

// Where a row of an array of the caller begins.
__device__ __forceinline__ const GIVEN* row_of_caller(const GIVEN* f, index_t row, int ny, index_t pitch,
                                                      index_t plane) {
#if DIMENSION == 2
    return f + pitch * row;
#else
    const int k = (int)((unsigned)row / (unsigned)ny);
    return f + plane * k + pitch * ((int)row - k * ny);
#endif
}

// The weight of a node: one half for each mirror face of a uniform axis that it lies on, times the control widths along
// the others.
__device__ __forceinline__ double weight_of_row(index_t row, index_t rows, int ny WIDTH_PARAMETERS) {
    const int j = (int)(row % ny);
    double weight = 1;
#if TABULATED & 2
    weight *= width_y[j];
#else
    if (RULE_YL == MIRROR && j == 0) weight *= 0.5;
    if (RULE_YU == MIRROR && j == ny - 1) weight *= 0.5;
#endif
#if TABULATED & 4
    weight *= width_z[row / ny];
#elif DIMENSION == 3
    if (RULE_ZL == MIRROR && row < ny) weight *= 0.5;
    if (RULE_ZU == MIRROR && row >= rows - ny) weight *= 0.5;
#endif
    return weight;
}

__device__ __forceinline__ double weight_along_x(int i, int nx WIDTH_PARAMETERS) {
#if TABULATED & 1
    return width_x[i];
#else
    return (RULE_XL == MIRROR && i == 0 ? 0.5 : 1.0) * (RULE_XU == MIRROR && i == nx - 1 ? 0.5 : 1.0);
#endif
}

// out = f - shift, zero at fixed nodes and past the end of a row; the sum of its squares, which is not finite if a
// value of f is not, and the maximum of its size. f is in the caller's memory, in rows of its own distances and maybe
// its own type, or what is in out already.
KERNEL poisson_take(const GIVEN* f, index_t f_pitch, index_t f_plane, double shift, real* out, int nx, int ny,
                    index_t rows, index_t pitch MASK_PARAMETER, double* partial, double* result) {
    const int i = first_node();
    Norms norms;
    if (i < nx) {
        const index_t step = (index_t)gridDim.y * BLOCK_Y;
        for (index_t first = (index_t)blockIdx.y * BLOCK_Y + threadIdx.y; first < rows; first += UNROLL * step) {
            // f may be out: only where all rows are asked for before one is written does a thread wait for them at
            // once.
            GIVEN given[UNROLL][WIDTH];
#pragma unroll
            for (int m = 0; m < UNROLL; ++m) {
                const index_t row = first + m * step < rows ? first + m * step : first;
                const GIVEN* from = row_of_caller(f, row, ny, f_pitch, f_plane);
#pragma unroll
                for (int n = 0; n < WIDTH; ++n) given[m][n] = from[i + n < nx ? i + n : nx - 1];
            }
#pragma unroll
            for (int m = 0; m < UNROLL; ++m) {
                const index_t row = first + m * step;
                if (row >= rows) break;
                const int j = (int)((unsigned)row % (unsigned)ny);
                bool fixed_row = is_fixed(j, ny, RULE_YL, RULE_YU);
#if DIMENSION == 3
                fixed_row = fixed_row || (RULE_ZL == FIXED && row < ny) || (RULE_ZU == FIXED && row >= rows - ny);
#endif
                Pack value = {};
#pragma unroll
                for (int n = 0; n < WIDTH; ++n) {
                    if (i + n >= nx) continue;
                    if (fixed_row || is_fixed(i + n, nx, RULE_XL, RULE_XU) || IS_MASKED(row * pitch + i + n)) {
                        // A value that is not finite shows there, too.
                        if (ROW_COUNTS(row)) norms.sum += 0 * (double)given[m][n];
                    } else {
                        value.node[n] = (real)((double)given[m][n] - shift);
                        if (ROW_COUNTS(row)) norms.add(value.node[n]);
                    }
                }
                store(out + row * pitch + i, value);
            }
        }
    }
    reduce_grid(norms.sum, norms.maximum, partial, result);
}

// The sum of w x y with these weights.
KERNEL poisson_dot(const real* __restrict__ x, const real* __restrict__ y, int nx, int ny, index_t rows,
                   index_t pitch WIDTH_PARAMETERS, double* partial, double* result) {
    const int i = first_node();
    double sum = 0;
    if (i < nx) {
#pragma unroll UNROLL
        FOR_EACH_ROW(row, rows) {
            const Pack a = load(x + row * pitch + i);
            const Pack b = load(y + row * pitch + i);
            const double weight = weight_of_row(row, rows, ny EACH_WIDTH);
            double part = 0;
#pragma unroll
            for (int n = 0; n < WIDTH; ++n)
                if (i + n < nx) part += weight_along_x(i + n, nx EACH_WIDTH) * ((double)a.node[n] * (double)b.node[n]);
            if (ROW_COUNTS(row)) sum += weight * part;
        }
    }
    reduce_grid(sum, 0, partial, result);
}

// The sums of w (f - shift) and of its size; f is in the caller's memory, as `take` has it.
KERNEL poisson_integrate(const GIVEN* __restrict__ f, index_t f_pitch, index_t f_plane, double shift, int nx, int ny,
                         index_t rows WIDTH_PARAMETERS, double* partial, double* result) {
    const int i = first_node();
    double sum = 0, size = 0;
    if (i < nx) {
#pragma unroll UNROLL
        FOR_EACH_ROW(row, rows) {
            const GIVEN* from = row_of_caller(f, row, ny, f_pitch, f_plane) + i;
            if (!ROW_COUNTS(row)) continue;
            const double weight = weight_of_row(row, rows, ny EACH_WIDTH);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                if (i + n >= nx) continue;
                const double part = weight * weight_along_x(i + n, nx EACH_WIDTH) * ((double)from[n] - shift);
                sum += part;
                size += part < 0 ? -part : part;
            }
        }
    }
    reduce_grid(sum, size, partial, result);
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

// x = the rough values of poisson/solvers/spectrum.py, by the numbers of the nodes.
KERNEL poisson_rough(real* __restrict__ x, int nx, index_t rows, index_t pitch) {
    const int i = first_node();
    if (i >= nx) return;
    FOR_EACH_ROW(row, rows) {
        Pack pack;
#pragma unroll
        for (int n = 0; n < WIDTH; ++n)
            pack.node[n] = (real)((double)((i + n + nx * row) * 7919 % 10007) / 10007.0 - 0.3);
        store(x + row * pitch + i, pack);
    }
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

// u = u + alpha p, r = r - alpha q; the sum of r² and the maximum of |r|.
KERNEL poisson_advance(real alpha, const real* __restrict__ p, const real* __restrict__ q, real* __restrict__ u,
                       real* __restrict__ r, int nx, index_t rows, index_t pitch ROW_PARAMETERS, double* partial,
                       double* result) {
    const int i = first_node();
    Norms norms;
    if (i < nx) {
#pragma unroll UNROLL
        FOR_EACH_ROW(row, rows) {
            const index_t offset = row * pitch + i;
            const Pack along = load(p + offset);
            const Pack applied = load(q + offset);
            Pack value = load(u + offset);
            Pack residual = load(r + offset);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                value.node[n] += alpha * along.node[n];
                residual.node[n] -= alpha * applied.node[n];
                if (i + n < nx && ROW_COUNTS(row)) norms.add(residual.node[n]);
            }
            store(u + offset, value);
            store(r + offset, residual);
        }
    }
    reduce_grid(norms.sum, norms.maximum, partial, result);
}

// y = y + factor x, where x is in float32.
KERNEL poisson_correct(real factor, const float* __restrict__ x, real* __restrict__ y, int nx, index_t rows,
                       index_t pitch, index_t x_pitch) {
    const int i = first_node();
    if (i >= nx) return;
#pragma unroll UNROLL
    FOR_EACH_ROW(row, rows) {
        const FloatPack from = *reinterpret_cast<const FloatPack*>(x + row * x_pitch + i);
        Pack to = load(y + row * pitch + i);
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) to.node[n] += factor * (real)from.node[n];
        store(y + row * pitch + i, to);
    }
}

// y = M x over all nodes in C order: 32 lanes share a row of the matrix.
KERNEL poisson_dense(const real* __restrict__ matrix, const real* __restrict__ x, real* __restrict__ y, int nx,
                     int nodes, index_t matrix_pitch, index_t pitch) {
    const int node = blockIdx.x * BLOCK_Y + threadIdx.y;
    if (node >= nodes) return;
    real sum = 0;
#pragma unroll UNROLL
    for (int first = WIDTH * threadIdx.x; first < nodes; first += WIDTH * BLOCK_X) {
        const Pack weights = load(matrix + matrix_pitch * node + first);
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            const int other = first + n;
            if (other < nodes) sum += weights.node[n] * x[pitch * (other / nx) + other % nx];
        }
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += lane_above(sum, offset);
    if (threadIdx.x == 0) y[pitch * (node / nx) + node % nx] = sum;
}
