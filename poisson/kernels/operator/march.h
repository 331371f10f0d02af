// SPDX-License-Identifier: MIT
// The march of a thread through the grid, with A u at every node that it comes to.
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

// What is marched through: the values of an array.
struct Values {
    static constexpr bool ZERO_WHERE_FIXED = false;
    const real* __restrict__ u;

    __device__ __forceinline__ Pack pack(index_t offset) const { return load(u + offset); }
    __device__ __forceinline__ real one(index_t offset) const { return u[offset]; }
};

// Calls emit(at, centre, au, links, fixed) for each pack of nodes: its place, u there, A u there, which is zero at
// nodes of the mask, what varies, and which of its nodes are fixed. Nodes past the end of a row have no meaning. Where
// u is said to be zero at fixed nodes, what `u` gives for them is not used.
template <class Field, class Emit>
__device__ __forceinline__ void march(const Field& u, const Operator& a, Emit emit) {
    const int nx = a.nx, ny = a.ny, nz = a.nz;
    const index_t pitch = a.pitch;
    const int i = WIDTH * (blockIdx.x * BLOCK_X + threadIdx.x);
#if DIMENSION == 2
    const int slowest = ny;
    const index_t stride = pitch;
    const int first = (a.block.y * BLOCK_Y + threadIdx.y) * MARCH;
    const bool fixed_row = false;
    if (i >= nx || first >= slowest) return;
    const index_t column = i;
#else
    const int slowest = nz;
    const index_t stride = pitch * ny;
    const int j = block_along_y(nz, a.block) * BLOCK_Y + threadIdx.y;
    const int first = band_along_z(nz, a.block) * MARCH;
    if (i >= nx || j >= ny) return;
    const bool fixed_row = is_fixed(j, ny, RULE_YL, RULE_YU);
    const index_t column = i + pitch * j;
    const int j_lower = below(j, ny, RULE_YL), j_upper = above(j, ny, RULE_YU);
    const index_t to_y_lower = pitch * (j_lower - j);
    const index_t to_y_upper = pitch * (j_upper - j);
#endif
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    const int to_x_lower = below(i, nx, RULE_XL) - i;
    const int end = i + WIDTH < nx ? i + WIDTH : above(nx - 1, nx, RULE_XU);
    const int to_x_upper = end - i;
    // A pack of the row j and plane k, or of the row k in 2D.
    const auto at_row = [&](index_t offset, bool fixed_row_too, int s) {
        Pack pack = u.pack(offset);
        if (Field::ZERO_WHERE_FIXED) {
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                if (fixed_row_too || is_fixed(s, slowest, RULE_SL, RULE_SU) || is_fixed(i + n, nx, RULE_XL, RULE_XU))
                    pack.node[n] = 0;
            }
        }
        return pack;
    };

    index_t offset = column + stride * first;
    const int start = below(first, slowest, RULE_SL);
    Pack lower = at_row(column + stride * start, fixed_row, start);
    Pack centre = at_row(offset, fixed_row, first);
    Links links;
#if DIMENSION == 2
    load_lowest(a, Place{offset, i, first, 0}, links);
#else
    load_lowest(a, Place{offset, i, j, first}, links);
#endif
#pragma unroll UNROLL
    for (int s = first; s < last; ++s) {
#if DIMENSION == 2
        const Place at{offset, i, s, 0};
#else
        const Place at{offset, i, j, s};
#endif
        const int next = above(s, slowest, RULE_SU);
        const Pack upper = at_row(column + stride * next, fixed_row, next);
        const real x_lower = u.one(offset + to_x_lower);
        real x_upper = u.one(offset + to_x_upper);
        // The first node of the next pack is the only one that may be fixed and have an inner neighbour in this one.
        if (Field::ZERO_WHERE_FIXED && is_fixed(end, nx, RULE_XL, RULE_XU)) x_upper = 0;
#if DIMENSION == 3
        const Pack y_lower = at_row(offset + to_y_lower, is_fixed(j_lower, ny, RULE_YL, RULE_YU), s);
        const Pack y_upper = at_row(offset + to_y_upper, is_fixed(j_upper, ny, RULE_YL, RULE_YU), s);
#endif
        load_others(a, at, links);
        Pack au;
        bool fixed[WIDTH];
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            const real left = n == 0 ? x_lower : centre.node[n > 0 ? n - 1 : 0];
            const bool at_end = n == WIDTH - 1 || (RULE_XU != FIXED && i + n == nx - 1);
            const real right = at_end ? x_upper : centre.node[n < WIDTH - 1 ? n + 1 : 0];
#if DIMENSION == 2
            au.node[n] =
                apply_at(a, at, links, n, centre.node[n], left, right, lower.node[n], upper.node[n], (real)0, (real)0);
#else
            au.node[n] = apply_at(a, at, links, n, centre.node[n], left, right, y_lower.node[n], y_upper.node[n],
                                  lower.node[n], upper.node[n]);
#endif
            fixed[n] = fixed_row || is_fixed(i + n, nx, RULE_XL, RULE_XU) || is_fixed(s, slowest, RULE_SL, RULE_SU) ||
                       is_masked(links, n);
            if (is_masked(links, n)) au.node[n] = 0;
        }
        emit(at, centre, au, links, fixed);
        step_up(links);
        lower = centre;
        centre = upper;
        offset += stride;
    }
}

// The part of a sum of w x y that a pack gives: w is one half for each mirror face of a uniform axis that a node lies
// on, times the control widths along the others.
__device__ __forceinline__ double weighted_product(const Operator& a, const Place& at, const Pack& x, const Pack& y) {
    double weight = 1;
#if TABULATED & 2
    weight *= a.width_y[at.j];
#else
    if (RULE_YL == MIRROR && at.j == 0) weight *= 0.5;
    if (RULE_YU == MIRROR && at.j == a.ny - 1) weight *= 0.5;
#endif
#if TABULATED & 4
    weight *= a.width_z[at.k];
#elif DIMENSION == 3
    if (RULE_ZL == MIRROR && at.k == 0) weight *= 0.5;
    if (RULE_ZU == MIRROR && at.k == a.nz - 1) weight *= 0.5;
#endif
    double part = 0;
#pragma unroll
    for (int n = 0; n < WIDTH; ++n) {
        if (at.i + n < a.nx) {
            double product = (double)x.node[n] * (double)y.node[n];
#if TABULATED & 1
            product *= a.width_x[at.i + n];
#else
            if (RULE_XL == MIRROR && at.i + n == 0) product *= 0.5;
            if (RULE_XU == MIRROR && at.i + n == a.nx - 1) product *= 0.5;
#endif
            part += product;
        }
    }
    return weight * part;
}
