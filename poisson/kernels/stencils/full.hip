// SPDX-License-Identifier: MIT
// Passes with operators of 9 and 27 points.

__device__ __forceinline__ real residual_at(const Stencil& a, const Place& at, real source, real au, bool solves) {
    return solves ? residual_of(source, au / (real)volume_of(a.nodes, at.i, at.j, at.k)) : (real)0;
}

// omega / diag(A); 0 without an equation.
__device__ __forceinline__ real scale_of(const Stencil& a, const Place& at, real omega, real diagonal, bool solves) {
    return solves ? omega * (real)volume_of(a.nodes, at.i, at.j, at.k) / diagonal : (real)0;
}

template <bool NORM>
__device__ __forceinline__ void stencil_residual(const real* __restrict__ u, const real* __restrict__ f,
                                                 real* __restrict__ r, const Stencil& a, double* partial,
                                                 double* result) {
    Norms norms;
    march_through(StencilValues{u}, a, [&](const Place& at, real, const Applied& applied, bool solves) {
        const real value = residual_at(a, at, SOURCE ? f[at.offset] : (real)0, applied.value, solves);
        r[at.offset] = value;
        if (NORM) norms.add(value);
    });
    if (NORM) reduce_grid(norms.sum, norms.maximum, partial, result);
}

// r = f - A u, zero at fixed nodes and without an equation.
KERNEL poisson_stencil_residual(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ r,
                                STENCIL_PARAMETERS) {
    stencil_residual<false>(u, f, r, STENCIL, 0, 0);
}

KERNEL poisson_stencil_residual_norm(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ r,
                                     STENCIL_PARAMETERS, double* partial, double* result) {
    stencil_residual<true>(u, f, r, STENCIL, partial, result);
}

// The nodes around one that is on no march, and A u there.
__device__ __forceinline__ Around around_node(const Stencil& a, int i, int j, int k) {
    Around around{beside(i, a.nodes.nx, RULE_XL, RULE_XU), beside(j, a.nodes.ny, RULE_YL, RULE_YU)};
    if (DIMENSION == 3) around.z = beside(k, a.nodes.nz, RULE_ZL, RULE_ZU);
    return around;
}
__device__ __forceinline__ Applied apply_alone(const Stencil& a, const Around& around, const real* u) {
    return apply_at(a, around,
                    [&](int x, int y, int z) { return u[around.x.at[x + 1] + a.pitch * around.row(a, y, z)]; });
}

// r = f - A u at some nodes, of which this has the numbers in C order; the others keep their values.
KERNEL poisson_stencil_residual_at(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ r,
                                   const int* __restrict__ nodes, int count, STENCIL_PARAMETERS) {
    const int place = blockIdx.x * THREADS + threadIdx.x + BLOCK_X * threadIdx.y;
    if (place >= count) return;
    const Stencil a = STENCIL;
    const int number = nodes[place], line = number / nx, k = DIMENSION == 3 ? line / ny : 0;
    const Place at{number - (index_t)nx * line + pitch * line, number - nx * line, line - ny * k, k};
    const Applied applied = apply_alone(a, around_node(a, at.i, at.j, at.k), u);
    const bool solves = !is_fixed_node(a.nodes, at.i, at.j, at.k) && applied.diagonal > 0;
    r[at.offset] = residual_at(a, at, SOURCE ? f[at.offset] : (real)0, applied.value, solves);
}

template <bool NORM>
__device__ __forceinline__ void stencil_sweep(const real* __restrict__ u, const real* __restrict__ f,
                                              real* __restrict__ out, const Stencil& a, real omega, double* partial,
                                              double* result) {
    Norms norms;
    march_through(StencilValues{u}, a, [&](const Place& at, real centre, const Applied& applied, bool solves) {
        const real r = residual_at(a, at, SOURCE ? f[at.offset] : (real)0, applied.value, solves);
        out[at.offset] = relax(centre, r, scale_of(a, at, omega, applied.diagonal, solves));
        if (NORM) norms.add(r);
    });
    if (NORM) reduce_grid(norms.sum, norms.maximum, partial, result);
}

// out = u + omega (f - A u) / diag(A).
KERNEL poisson_stencil_sweep(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out,
                             STENCIL_PARAMETERS, real omega) {
    stencil_sweep<false>(u, f, out, STENCIL, omega, 0, 0);
}

KERNEL poisson_stencil_sweep_norm(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out,
                                  STENCIL_PARAMETERS, real omega, double* partial, double* result) {
    stencil_sweep<true>(u, f, out, STENCIL, omega, partial, result);
}

// The same at the nodes of one color, in place: a thread has one of them.
KERNEL poisson_stencil_color_sweep(real* u, const real* __restrict__ f, STENCIL_PARAMETERS, real omega, int color) {
    const Stencil a = STENCIL;
    const int i = 2 * (blockIdx.x * BLOCK_X + threadIdx.x) + (color & 1);
    const int j = 2 * (blockIdx.y * BLOCK_Y + threadIdx.y) + (color >> 1 & 1), k = 2 * blockIdx.z + (color >> 2);
    if (i >= nx || j >= ny || k >= nz || is_fixed_node(a.nodes, i, j, k)) return;
    const Around around = around_node(a, i, j, k);
    const Applied applied = apply_alone(a, around, u);
    const Place at{i + pitch * around.row(a, 0, 0), i, j, k};
    const bool solves = applied.diagonal > 0;
    const real r = residual_at(a, at, SOURCE ? f[at.offset] : (real)0, applied.value, solves);
    u[at.offset] = relax(u[at.offset], r, scale_of(a, at, omega, applied.diagonal, solves));
}

// The field of an array of which the neighbours do not count.
struct Alone {
    __device__ __forceinline__ real one(index_t, const Nodes&, int, int, int) const { return 0; }
};

template <bool DOT>
__device__ __forceinline__ void stencil_diagonal_solve(const real* __restrict__ r, real* __restrict__ z,
                                                       const Stencil& a, real omega, double* partial, double* result) {
    double sum = 0;
    march_through(Alone{}, a, [&](const Place& at, real, const Applied& applied, bool solves) {
        const real value = r[at.offset];
        const real solved = solves ? scale_of(a, at, omega, applied.diagonal, solves) * value : (real)0;
        z[at.offset] = solved;
        if (DOT) sum += volume_of(a.nodes, at.i, at.j, at.k) * ((double)value * (double)solved);
    });
    if (DOT) reduce_grid(sum, 0, partial, result);
}

// z = omega r / diag(A), zero at fixed nodes and without an equation.
KERNEL poisson_stencil_diagonal_solve(const real* __restrict__ r, real* __restrict__ z, STENCIL_PARAMETERS,
                                      real omega) {
    stencil_diagonal_solve<false>(r, z, STENCIL, omega, 0, 0);
}

KERNEL poisson_stencil_diagonal_solve_dot(const real* __restrict__ r, real* __restrict__ z, STENCIL_PARAMETERS,
                                          real omega, double* partial, double* result) {
    stencil_diagonal_solve<true>(r, z, STENCIL, omega, partial, result);
}

// z + beta p, or z where there is no p, zero at fixed nodes.
struct FreeCombination {
    const real* __restrict__ z;
    const real* __restrict__ p;
    real beta;

    __device__ __forceinline__ real one(index_t offset, const Nodes& nodes, int i, int j, int k) const {
        const real value = SOURCE ? z[offset] + beta * p[offset] : z[offset];
        return is_fixed_node(nodes, i, j, k) ? (real)0 : value;
    }
};

// out = z + beta p, q = A out, both zero at fixed nodes, and the sum of w out q.
KERNEL poisson_stencil_direction(const real* __restrict__ z, const real* __restrict__ p, real* __restrict__ out,
                                 real* __restrict__ q, STENCIL_PARAMETERS, real beta, double* partial, double* result) {
    const Stencil a = STENCIL;
    double sum = 0;
    march_through(FreeCombination{z, p, beta}, a,
                  [&](const Place& at, real centre, const Applied& applied, bool solves) {
                      const double volume = volume_of(a.nodes, at.i, at.j, at.k);
                      const real value = solves ? applied.value / (real)volume : (real)0;
                      out[at.offset] = centre;
                      q[at.offset] = value;
                      sum += volume * ((double)centre * (double)value);
                  });
    reduce_grid(sum, 0, partial, result);
}
