// The operator A u = -div(grad u) + c u on nodes: laplacian, boundary_conditions, residual and sweep.
//
// A thread owns WIDTH neighbouring nodes along x and marches along the slowest axis (y in 2D, z in 3D), keeping the
// lower neighbour, the node and the upper neighbour of that axis in registers: u is read once from memory. The rules of
// the faces are compile-time constants; a rule that needs no work costs none.

#if DIMENSION == 2
#define RULE_SL RULE_YL  // the slowest axis, along which a thread marches
#define RULE_SU RULE_YU
#else
#define RULE_SL RULE_ZL
#define RULE_SU RULE_ZU
#endif

// The neighbour of node 0 across a lower face, and of node n - 1 across an upper one. At a FIXED face the value is not
// used; the index only has to lie in the array.
__device__ __forceinline__ int below(int i, int n, int rule) { return i > 0 ? i - 1 : rule == WRAP ? n - 1 : 1; }
__device__ __forceinline__ int above(int i, int n, int rule) { return i < n - 1 ? i + 1 : rule == WRAP ? 0 : n - 2; }

__device__ __forceinline__ bool is_fixed(int i, int n, int lower, int upper) {
    return (lower == FIXED && i == 0) || (upper == FIXED && i == n - 1);
}

// Calls emit(offset, i, s, centre, au, fixed) for each pack of nodes: its place in the array, the x index of its first
// node, its index along the slowest axis, u there, A u there, and which of its nodes are fixed. Nodes past the end of a
// row have no meaning.
template <class Emit>
__device__ __forceinline__ void march(const real* __restrict__ u, int nx, int ny, int nz, index_t pitch, real weight_x,
                                      real weight_y, real weight_z, real c, Emit emit) {
    const int i = WIDTH * (blockIdx.x * BLOCK_X + threadIdx.x);
#if DIMENSION == 2
    const int slowest = ny;
    const index_t stride = pitch;
    const int first = (blockIdx.y * BLOCK_Y + threadIdx.y) * MARCH;
    const bool fixed_row = false;
    if (i >= nx || first >= slowest) return;
    const index_t column = i;
#else
    const int slowest = nz;
    const index_t stride = pitch * ny;
    const int j = block_along_y(nz) * BLOCK_Y + threadIdx.y;
    const int first = band_along_z(nz) * MARCH;
    if (i >= nx || j >= ny) return;
    const bool fixed_row = is_fixed(j, ny, RULE_YL, RULE_YU);
    const index_t column = i + pitch * j;
    const index_t to_y_lower = pitch * (below(j, ny, RULE_YL) - j);
    const index_t to_y_upper = pitch * (above(j, ny, RULE_YU) - j);
#endif
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    const int to_x_lower = below(i, nx, RULE_XL) - i;
    const int to_x_upper = (i + WIDTH < nx ? i + WIDTH : above(nx - 1, nx, RULE_XU)) - i;

    index_t offset = column + stride * first;
    Pack lower = load(u + column + stride * below(first, slowest, RULE_SL));
    Pack centre = load(u + offset);
#pragma unroll UNROLL
    for (int s = first; s < last; ++s) {
        const Pack upper = load(u + column + stride * above(s, slowest, RULE_SU));
        const real x_lower = u[offset + to_x_lower];
        const real x_upper = u[offset + to_x_upper];
#if DIMENSION == 3
        const Pack y_lower = load(u + offset + to_y_lower);
        const Pack y_upper = load(u + offset + to_y_upper);
#endif
        Pack au;
        bool fixed[WIDTH];
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            const real left = n == 0 ? x_lower : centre.node[n > 0 ? n - 1 : 0];
            const bool at_end = n == WIDTH - 1 || (RULE_XU != FIXED && i + n == nx - 1);
            const real right = at_end ? x_upper : centre.node[n < WIDTH - 1 ? n + 1 : 0];
#if DIMENSION == 2
            au.node[n] =
                apply_operator(centre.node[n], left, right, lower.node[n], upper.node[n], weight_x, weight_y, c);
#else
            au.node[n] = apply_operator(centre.node[n], left, right, y_lower.node[n], y_upper.node[n], lower.node[n],
                                        upper.node[n], weight_x, weight_y, weight_z, c);
#endif
            fixed[n] = fixed_row || is_fixed(i + n, nx, RULE_XL, RULE_XU) || is_fixed(s, slowest, RULE_SL, RULE_SU);
        }
        emit(offset, i, s, centre, au, fixed);
        lower = centre;
        centre = upper;
        offset += stride;
    }
}

// out = A u at the nodes that lie on no face; the others keep their values. No rule is needed there, so this has a
// march of its own, whose few registers let more threads be resident.
KERNEL poisson_laplacian(const real* __restrict__ u, real* __restrict__ out, int nx, int ny, int nz, index_t pitch,
                         real weight_x, real weight_y, real weight_z, real c) {
    const int i = WIDTH * (blockIdx.x * BLOCK_X + threadIdx.x);
#if DIMENSION == 2
    const int slowest = ny;
    const int band = blockIdx.y * BLOCK_Y + threadIdx.y;
    const index_t stride = pitch;
    const index_t column = i;
    if (i >= nx) return;
#else
    const int slowest = nz;
    const int band = band_along_z(nz);
    const int j = block_along_y(nz) * BLOCK_Y + threadIdx.y;
    const index_t stride = pitch * ny;
    const index_t column = i + pitch * j;
    if (i >= nx || j < 1 || j >= ny - 1) return;
#endif
    const int first = band > 0 ? band * MARCH : 1;
    const int last = band * MARCH + MARCH < slowest - 1 ? band * MARCH + MARCH : slowest - 1;
    if (first >= last) return;
    // The outermost nodes of a row are not written, so any neighbour that lies in the array will do for them.
    const int to_left = i > 0 ? -1 : 0;
    const int to_right = i + WIDTH < nx ? WIDTH : 0;
    const bool whole = i > 0 && i + WIDTH < nx;
    const real* at = u + column + stride * first;
    real* to = out + column + stride * first;
    Pack lower = load(at - stride);
    Pack centre = load(at);
#pragma unroll UNROLL
    for (int s = first; s < last; ++s) {
        const Pack upper = load(at + stride);
        const real left = at[to_left];
        const real right = at[to_right];
#if DIMENSION == 3
        const Pack y_lower = load(at - pitch);
        const Pack y_upper = load(at + pitch);
#endif
        Pack au;
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            const real x_lower = n == 0 ? left : centre.node[n > 0 ? n - 1 : 0];
            const real x_upper = n == WIDTH - 1 ? right : centre.node[n < WIDTH - 1 ? n + 1 : 0];
#if DIMENSION == 2
            au.node[n] =
                apply_operator(centre.node[n], x_lower, x_upper, lower.node[n], upper.node[n], weight_x, weight_y, c);
#else
            au.node[n] = apply_operator(centre.node[n], x_lower, x_upper, y_lower.node[n], y_upper.node[n],
                                        lower.node[n], upper.node[n], weight_x, weight_y, weight_z, c);
#endif
        }
        if (whole) {
            store(to, au);
        } else {
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                if (i + n > 0 && i + n < nx - 1) to[n] = au.node[n];
            }
        }
        lower = centre;
        centre = upper;
        at += stride;
        to += stride;
    }
}

// out = A u at the nodes on the faces, by the rules of the faces; zero at fixed nodes, so that f - out is zero there.
KERNEL poisson_boundary_conditions(const real* __restrict__ u, real* __restrict__ out, int nx, int ny, int nz,
                                   index_t pitch, real weight_x, real weight_y, real weight_z, real c) {
    index_t node = (index_t)blockIdx.x * THREADS + threadIdx.x + BLOCK_X * threadIdx.y;
    int i, j, k = 0;
    // The faces of the slowest axis come first, whole; then those of the next axis without the nodes counted already.
#if DIMENSION == 3
    const index_t plane = (index_t)nx * ny;
    const index_t band = (index_t)nx * (nz - 2);
    if (node < 2 * plane) {
        k = node < plane ? 0 : nz - 1;
        node %= plane;
        i = node % nx;
        j = node / nx;
    } else if ((node -= 2 * plane) < 2 * band) {
        j = node < band ? 0 : ny - 1;
        node %= band;
        i = node % nx;
        k = 1 + node / nx;
    } else if ((node -= 2 * band) < 2 * (index_t)(ny - 2) * (nz - 2)) {
        i = node % 2 == 0 ? 0 : nx - 1;
        node /= 2;
        j = 1 + node % (ny - 2);
        k = 1 + node / (ny - 2);
    } else {
        return;
    }
#else
    if (node < 2 * (index_t)nx) {
        j = node < nx ? 0 : ny - 1;
        i = node % nx;
    } else if ((node -= 2 * (index_t)nx) < 2 * (index_t)(ny - 2)) {
        i = node % 2 == 0 ? 0 : nx - 1;
        j = 1 + node / 2;
    } else {
        return;
    }
#endif
    const index_t row = pitch * (j + (index_t)ny * k);
    const real centre = u[row + i];
    const real x_lower = u[row + below(i, nx, RULE_XL)];
    const real x_upper = u[row + above(i, nx, RULE_XU)];
    const real y_lower = u[row + i + pitch * (below(j, ny, RULE_YL) - j)];
    const real y_upper = u[row + i + pitch * (above(j, ny, RULE_YU) - j)];
    bool fixed = is_fixed(i, nx, RULE_XL, RULE_XU) || is_fixed(j, ny, RULE_YL, RULE_YU);
#if DIMENSION == 2
    const real au = apply_operator(centre, x_lower, x_upper, y_lower, y_upper, weight_x, weight_y, c);
#else
    const real z_lower = u[row + i + pitch * ny * (below(k, nz, RULE_ZL) - k)];
    const real z_upper = u[row + i + pitch * ny * (above(k, nz, RULE_ZU) - k)];
    fixed = fixed || is_fixed(k, nz, RULE_ZL, RULE_ZU);
    const real au =
        apply_operator(centre, x_lower, x_upper, y_lower, y_upper, z_lower, z_upper, weight_x, weight_y, weight_z, c);
#endif
    out[row + i] = fixed ? (real)0 : au;
}

// r = f - A u, or out = u + scale (f - A u); zero or u at fixed nodes. With a norm, the sum of squares and the maximum
// of |f - A u| over the nodes of this block go to `result`.
template <bool RELAX, bool NORM>
__device__ __forceinline__ void residual_or_sweep(const real* __restrict__ u, const real* __restrict__ f,
                                                  real* __restrict__ out, int nx, int ny, int nz, index_t pitch,
                                                  real weight_x, real weight_y, real weight_z, real c, real scale,
                                                  double* partial, double* result) {
    Norms norms;
    march(u, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c,
          [&](index_t offset, int i, int, const Pack& centre, const Pack& au, const bool (&fixed)[WIDTH]) {
              Pack source = {};
              if (SOURCE) source = load(f + offset);
              Pack after;
#pragma unroll
              for (int n = 0; n < WIDTH; ++n) {
                  const real r = fixed[n] ? (real)0 : source.node[n] - au.node[n];
                  after.node[n] = RELAX ? relax(centre.node[n], r, scale) : r;
                  if (NORM && i + n < nx) norms.add(r);
              }
              store_streaming(out + offset, after);
          });
    if (NORM) reduce_grid(norms.sum, norms.maximum, partial, result);
}

KERNEL poisson_residual(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ r, int nx, int ny,
                        int nz, index_t pitch, real weight_x, real weight_y, real weight_z, real c) {
    residual_or_sweep<false, false>(u, f, r, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c, 0, 0, 0);
}

KERNEL poisson_residual_norm(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ r, int nx,
                             int ny, int nz, index_t pitch, real weight_x, real weight_y, real weight_z, real c,
                             double* partial, double* result) {
    residual_or_sweep<false, true>(u, f, r, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c, 0, partial, result);
}

KERNEL poisson_sweep(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out, int nx, int ny,
                     int nz, index_t pitch, real weight_x, real weight_y, real weight_z, real c, real scale) {
    residual_or_sweep<true, false>(u, f, out, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c, scale, 0, 0);
}

KERNEL poisson_sweep_norm(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out, int nx,
                          int ny, int nz, index_t pitch, real weight_x, real weight_y, real weight_z, real c,
                          real scale, double* partial, double* result) {
    residual_or_sweep<true, true>(u, f, out, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c, scale, partial,
                                  result);
}
