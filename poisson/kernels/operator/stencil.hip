// SPDX-License-Identifier: MIT
// The operator on nodes: laplacian, boundary_conditions, residual, residual_at and sweep.
//
// Options, beside those of the prelude and operator.h: KEPT (0: a residual is wanted for its norm alone), GIVEN (the
// type of a source in the memory of the caller, which `certify` reads).

#ifndef KEPT
#define KEPT 1
#endif

// out = A u at the nodes that lie on no face, zero at those of the mask; the others keep their values. No rule is
// needed there, so with constant coefficients this has a march of its own, whose few registers let more threads be
// resident.
KERNEL poisson_laplacian(const real* __restrict__ u, real* __restrict__ out, OPERATOR_PARAMETERS) {
#if VARIES
    march(Values{u}, OPERATOR, [&](const Place& at, const Pack&, const Pack& au, const Links&, const bool (&)[WIDTH]) {
        if (at.j == 0 || at.j == ny - 1 || (DIMENSION == 3 && (at.k == 0 || at.k == nz - 1))) return;
        if (at.i > 0 && at.i + WIDTH < nx) {
            store(out + at.offset, au);
            return;
        }
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            if (at.i + n > 0 && at.i + n < nx - 1) out[at.offset + n] = au.node[n];
        }
    });
#else
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
#endif
}

// A u at one node by the rules of the faces, and whether that is fixed.
struct AppliedAlone {
    real value;
    bool fixed;
};

__device__ __forceinline__ AppliedAlone apply_alone(const Operator& a, const real* __restrict__ u, const Place& at) {
    const index_t row = at.offset - at.i;
    const real x_lower = u[row + below(at.i, a.nx, RULE_XL)];
    const real x_upper = u[row + above(at.i, a.nx, RULE_XU)];
    const real y_lower = u[at.offset + a.pitch * (below(at.j, a.ny, RULE_YL) - at.j)];
    const real y_upper = u[at.offset + a.pitch * (above(at.j, a.ny, RULE_YU) - at.j)];
    bool fixed = is_fixed(at.i, a.nx, RULE_XL, RULE_XU) || is_fixed(at.j, a.ny, RULE_YL, RULE_YU);
    real z_lower = 0, z_upper = 0;
#if DIMENSION == 3
    z_lower = u[at.offset + a.pitch * a.ny * (below(at.k, a.nz, RULE_ZL) - at.k)];
    z_upper = u[at.offset + a.pitch * a.ny * (above(at.k, a.nz, RULE_ZU) - at.k)];
    fixed = fixed || is_fixed(at.k, a.nz, RULE_ZL, RULE_ZU);
#endif
    Links links;
    load_lone(a, at, links);
    const real au = apply_at(a, at, links, 0, u[at.offset], x_lower, x_upper, y_lower, y_upper, z_lower, z_upper);
    return AppliedAlone{au, fixed || is_masked(links, 0)};
}

// out = A u at the nodes on the faces, by the rules of the faces; zero at fixed nodes, so that f - out is zero there.
KERNEL poisson_boundary_conditions(const real* __restrict__ u, real* __restrict__ out, OPERATOR_PARAMETERS) {
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
    const Place at{i + pitch * (j + (index_t)ny * k), i, j, k};
    const AppliedAlone applied = apply_alone(OPERATOR, u, at);
    out[at.offset] = applied.fixed ? (real)0 : applied.value;
}

// r = f - A u at some nodes, of which this has the numbers in C order; the others keep their values.
KERNEL poisson_residual_at(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ r,
                           const int* __restrict__ nodes, int count, OPERATOR_PARAMETERS) {
    const int place = blockIdx.x * THREADS + threadIdx.x + BLOCK_X * threadIdx.y;
    if (place >= count) return;
    const int number = nodes[place], line = number / nx, k = DIMENSION == 3 ? line / ny : 0;
    const Place at{number - (index_t)nx * line + pitch * line, number - nx * line, line - ny * k, k};
    const AppliedAlone applied = apply_alone(OPERATOR, u, at);
    r[at.offset] = applied.fixed ? (real)0 : residual_of(SOURCE ? f[at.offset] : (real)0, applied.value);
}

// An array of the backend as a source; zero without one.
struct Source {
    const real* __restrict__ f;

    __device__ __forceinline__ Pack at(const Place& place) const {
        Pack source = {};
        if (SOURCE) source = load(f + place.offset);
        return source;
    }
};

// The same, each value times a weight.
struct WeighedSource {
    const real* __restrict__ f;
    real weight;

    __device__ __forceinline__ Pack at(const Place& place) const {
        Pack source = Source{f}.at(place);
#pragma unroll
        for (int n = 0; n < WIDTH && SOURCE; ++n) source.node[n] *= weight;
        return source;
    }
};

// r = f - A u, or out = u + scale (f - A u); zero or u at fixed nodes. With a norm, the sum of squares and the maximum
// of |f - A u| over the nodes of this block go to `result`. `visit(value, fixed)` sees the source at every node that
// counts.
template <bool RELAX, bool NORM, class AnySource, class Visit>
__device__ __forceinline__ void residual_or_sweep(const real* __restrict__ u, const AnySource& f,
                                                  real* __restrict__ out, const Operator& a, real scale,
                                                  double* partial, double* result, Visit visit) {
    if (!a.block.works) return;
    Norms norms;
    march(Values{u}, a,
          [&](const Place& at, const Pack& centre, const Pack& au, const Links& links, const bool (&fixed)[WIDTH]) {
              const Pack source = f.at(at);
              Pack after;
#pragma unroll
              for (int n = 0; n < WIDTH; ++n) {
                  const real r = fixed[n] ? (real)0 : residual_of(source.node[n], au.node[n]);
                  after.node[n] = RELAX ? relax_at(a, at, links, n, centre.node[n], r, scale) : r;
                  if (NORM && at.i + n < a.nx && counts(at.j, at.k, a.ny, a.nz)) {
                      norms.add(r);
                      visit(source.node[n], fixed[n]);
                  }
              }
              if (KEPT) store_streaming(out + at.offset, after);
          });
    if (NORM) reduce_grid(norms.sum, norms.maximum, partial, result, a.block);
}

// Nobody sees the source.
struct Nobody {
    __device__ __forceinline__ void operator()(real, bool) const {}
};

KERNEL poisson_residual(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ r,
                        OPERATOR_PARAMETERS PART_PARAMETERS) {
    residual_or_sweep<false, false>(u, Source{f}, r, OPERATOR_FOR(BLOCK), 0, 0, 0, Nobody{});
}

KERNEL poisson_residual_norm(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ r,
                             OPERATOR_PARAMETERS PART_PARAMETERS, double* partial, double* result) {
    residual_or_sweep<false, true>(u, Source{f}, r, OPERATOR_FOR(BLOCK), 0, partial, result, Nobody{});
}

KERNEL poisson_sweep(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out,
                     OPERATOR_PARAMETERS, real scale, real source_weight PART_PARAMETERS) {
    residual_or_sweep<true, false>(u, WeighedSource{f, source_weight}, out, OPERATOR_FOR(BLOCK), scale, 0, 0, Nobody{});
}

KERNEL poisson_sweep_norm(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out,
                          OPERATOR_PARAMETERS, real scale PART_PARAMETERS, double* partial, double* result) {
    residual_or_sweep<true, true>(u, Source{f}, out, OPERATOR_FOR(BLOCK), scale, partial, result, Nobody{});
}

#ifdef GIVEN

// A source less `shift` in the memory of the caller: in rows of its own distances, and maybe its own type.
struct CallersSource {
    const GIVEN* __restrict__ f;
    index_t pitch, plane;
    double shift;
    int nx;

    __device__ __forceinline__ Pack at(const Place& place) const {
        const GIVEN* const from = f + plane * place.k + pitch * place.j + place.i;
        Pack source = {};
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            if (place.i + n < nx) source.node[n] = (real)((double)from[n] - shift);
        }
        return source;
    }
};

// The norm of f - A u, and with room for its parts that of f where nodes are not fixed; a value of f that is not finite
// shows at any node.
KERNEL poisson_certify(const real* __restrict__ u, const GIVEN* __restrict__ f, index_t f_pitch, index_t f_plane,
                       double shift, OPERATOR_PARAMETERS, double* f_partial, double* f_result, double* partial,
                       double* result) {
    const CallersSource source = {f, f_pitch, f_plane, shift, nx};
    const Operator a = OPERATOR_FOR(BLOCK);
    Norms norms;
    residual_or_sweep<false, true>(u, source, (real*)0, a, 0, partial, result, [&](real value, bool fixed) {
        if (fixed) {
            norms.sum += 0 * value;
        } else {
            norms.add(value);
        }
    });
    if (f_result && a.block.works) reduce_grid(norms.sum, norms.maximum, f_partial, f_result, a.block);
}

#endif
