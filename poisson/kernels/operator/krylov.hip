// SPDX-License-Identifier: MIT
// Passes with the operator that Krylov methods, smoothing by colors and mixed precision need: diagonal_solve,
// two sweeps from zero, direction, color_sweep and defect.

// z = omega r / diag(A), zero at fixed nodes; the neighbours that the march would read are not used, and so not loaded.
template <bool DOT>
__device__ __forceinline__ void diagonal_solve(const real* __restrict__ r, real* __restrict__ z, const Operator& a,
                                               real scale, double* partial, double* result) {
    double sum = 0;
    march(Values{r}, a,
          [&](const Place& at, const Pack& centre, const Pack&, const Links& links, const bool (&fixed)[WIDTH]) {
              Pack after;
#pragma unroll
              for (int n = 0; n < WIDTH; ++n)
                  after.node[n] = relax_at(a, at, links, n, (real)0, fixed[n] ? (real)0 : centre.node[n], scale);
              store_streaming(z + at.offset, after);
              if (DOT && counts(at.j, at.k, a.ny, a.nz)) sum += weighted_product(a, at, centre, after);
          });
    if (DOT) reduce_grid(sum, 0, partial, result);
}

KERNEL poisson_diagonal_solve(const real* __restrict__ r, real* __restrict__ z, OPERATOR_PARAMETERS, real scale) {
    diagonal_solve<false>(r, z, OPERATOR, scale, 0, 0);
}

KERNEL poisson_diagonal_solve_dot(const real* __restrict__ r, real* __restrict__ z, OPERATOR_PARAMETERS, real scale,
                                  double* partial, double* result) {
    diagonal_solve<true>(r, z, OPERATOR, scale, partial, result);
}

// What a sweep from zero gives, as an array to march through: f over the diagonal, whose inverse is an array that is
// zero at fixed nodes.
struct FirstSweep {
    static constexpr bool ZERO_WHERE_FIXED = false;
    const real* __restrict__ f;
    const real* __restrict__ inverse;
    real scale;

    __device__ __forceinline__ Pack pack(index_t offset) const {
        Pack value = load(f + offset);
        const Pack factor = load(inverse + offset);
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) value.node[n] *= scale * factor.node[n];
        return value;
    }
    __device__ __forceinline__ real one(index_t offset) const { return f[offset] * (scale * inverse[offset]); }
};

// out = u after two sweeps from zero.
KERNEL poisson_two_sweeps(const real* __restrict__ f, const real* __restrict__ inverse, real* __restrict__ out,
                          OPERATOR_PARAMETERS, real first, real second) {
    const Operator a = OPERATOR;
    march(FirstSweep{f, inverse, first}, a,
          [&](const Place& at, const Pack& centre, const Pack& au, const Links& links, const bool (&fixed)[WIDTH]) {
              const Pack source = load(f + at.offset);
              Pack after;
#pragma unroll
              for (int n = 0; n < WIDTH; ++n) {
                  const real r = fixed[n] ? (real)0 : residual_of(source.node[n], au.node[n]);
                  after.node[n] = relax_at(a, at, links, n, centre.node[n], r, second);
              }
              store_streaming(out + at.offset, after);
          });
}

// z + beta p, or z where there is no p, as an array to march through: the neighbours are put together again where they
// are needed, from what is in the cache.
struct Combination {
    static constexpr bool ZERO_WHERE_FIXED = true;
    const real* __restrict__ z;
    const real* __restrict__ p;
    real beta;
#if MASKED
    const real* __restrict__ reaction;
#endif

    __device__ __forceinline__ Pack pack(index_t offset) const {
        Pack sum = load(z + offset);
        if (SOURCE) {
            const Pack other = load(p + offset);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) sum.node[n] += beta * other.node[n];
        }
#if MASKED
        const Pack c = load(reaction + offset);
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            if (c.node[n] < 0) sum.node[n] = 0;
        }
#endif
        return sum;
    }
    __device__ __forceinline__ real one(index_t offset) const {
        if (IS_MASKED(offset)) return 0;
        return SOURCE ? z[offset] + beta * p[offset] : z[offset];
    }
};

// out = z + beta p, q = A out, both zero at fixed nodes, and the sum of w out q.
KERNEL poisson_direction(const real* __restrict__ z, const real* __restrict__ p, real* __restrict__ out,
                         real* __restrict__ q, OPERATOR_PARAMETERS, real beta, double* partial, double* result) {
    const Operator a = OPERATOR;
    double sum = 0;
#if MASKED
    const Combination direction{z, p, beta, reaction};
#else
    const Combination direction{z, p, beta};
#endif
    march(direction, a,
          [&](const Place& at, const Pack& centre, const Pack& au, const Links&, const bool (&fixed)[WIDTH]) {
              Pack applied;
#pragma unroll
              for (int n = 0; n < WIDTH; ++n) applied.node[n] = fixed[n] ? (real)0 : au.node[n];
              store_streaming(out + at.offset, centre);
              store_streaming(q + at.offset, applied);
              if (counts(at.j, at.k, a.ny, a.nz)) sum += weighted_product(a, at, centre, applied);
          });
    reduce_grid(sum, 0, partial, result);
}

// An array that changes while it is marched through, at nodes of which no other thread uses the values.
struct Changing {
    static constexpr bool ZERO_WHERE_FIXED = false;
    const real* u;

    __device__ __forceinline__ Pack pack(index_t offset) const { return load(u + offset); }
    __device__ __forceinline__ real one(index_t offset) const { return u[offset]; }
};

// u = u + scale (f - A u) at the nodes of one color that are not fixed; the others are stored as they were read.
KERNEL poisson_color_sweep(real* u, const real* __restrict__ f, OPERATOR_PARAMETERS, real scale, int color) {
    const Operator a = OPERATOR;
    march(Changing{u}, a,
          [&](const Place& at, const Pack& centre, const Pack& au, const Links& links, const bool (&fixed)[WIDTH]) {
              Pack source = {};
              if (SOURCE) source = load(f + at.offset);
              Pack after = centre;
#pragma unroll
              for (int n = 0; n < WIDTH; ++n) {
                  if (!fixed[n] && (at.i + n + at.j + at.k) % 2 == color) {
                      const real r = residual_of(source.node[n], au.node[n]);
                      after.node[n] = relax_at(a, at, links, n, centre.node[n], r, scale);
                  }
              }
              store(u + at.offset, after);
          });
}

// r = factor (f - A u) in float32, zero at fixed nodes; the norms are those of f - A u.
template <bool NORM>
__device__ __forceinline__ void defect(const real* __restrict__ u, const real* __restrict__ f, float* __restrict__ r,
                                       const Operator& a, index_t r_pitch, real factor, double* partial,
                                       double* result) {
    if (!a.block.works) return;
    Norms norms;
    march(Values{u}, a, [&](const Place& at, const Pack&, const Pack& au, const Links&, const bool (&fixed)[WIDTH]) {
        Pack source = {};
        if (SOURCE) source = load(f + at.offset);
        FloatPack rounded;
        const bool counted = counts(at.j, at.k, a.ny, a.nz);
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            const real full = fixed[n] ? (real)0 : residual_of(source.node[n], au.node[n]);
            rounded.node[n] = (float)(factor * full);
            if (NORM && at.i + n < a.nx) norms.add(counted ? full : (real)0);
        }
        *reinterpret_cast<FloatPack*>(r + at.i + r_pitch * (at.j + (index_t)a.ny * at.k)) = rounded;
    });
    if (NORM) reduce_grid(norms.sum, norms.maximum, partial, result, a.block);
}

KERNEL poisson_defect(const real* __restrict__ u, const real* __restrict__ f, float* __restrict__ r,
                      OPERATOR_PARAMETERS, index_t r_pitch, real factor PART_PARAMETERS) {
    defect<false>(u, f, r, OPERATOR_FOR(BLOCK), r_pitch, factor, 0, 0);
}

KERNEL poisson_defect_norm(const real* __restrict__ u, const real* __restrict__ f, float* __restrict__ r,
                           OPERATOR_PARAMETERS, index_t r_pitch, real factor PART_PARAMETERS, double* partial,
                           double* result) {
    defect<true>(u, f, r, OPERATOR_FOR(BLOCK), r_pitch, factor, partial, result);
}
