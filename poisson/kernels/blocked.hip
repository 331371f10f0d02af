// Several Jacobi sweeps in one pass over memory: sweeps.
//
// A group of 32 lanes owns a strip of nodes along x (in 3D: on ROWS lines along y) and marches along the slowest axis
// (y in 2D, z in 3D). Sweep t + 1 works one step behind sweep t: when a plane of u arrives, each sweep can do one more
// plane, and the last one's is stored. So u is read once and written once for DEPTH sweeps. Everything between lives in
// registers: a lane has WIDTH neighbouring nodes of each line, its neighbours along x come from the next lanes, those
// along y are lines of its own, and of each sweep two planes are kept. Groups share nothing and wait for nobody; the
// price is a halo of DEPTH nodes on every side that each group computes for itself.
//
// Options besides the prelude's: DEPTH (sweeps), ROWS (lines of a group; 1 in 2D).
// BLOCK_X is 32; the BLOCK_Y groups of a block lie side by side along x in 2D, along y in 3D.
//
// Beyond a face the nodes are the images of those inside, by its rule, and the same sweeps keep them so.

#define LANES 32
#define HALO ((DEPTH + WIDTH - 1) / WIDTH * WIDTH)  // along x, in whole packs
#define STRIP (LANES * WIDTH)
#define OWNED (STRIP - 2 * HALO)
#if DIMENSION == 2
#define RULE_SL RULE_YL
#define RULE_SU RULE_YU
#define BESIDE 0  // lines that a sweep needs beyond its own on either side
#else
#define RULE_SL RULE_ZL
#define RULE_SU RULE_ZU
#define BESIDE 1
#endif
// So many planes ahead of its need a plane is asked for; on its way it passes through shared memory, in rings of slots.
#ifndef AHEAD
#define AHEAD (DIMENSION == 2 ? 2 : 1)
#endif
#define U_SLOTS (AHEAD + 1)
#define F_SLOTS (AHEAD + DEPTH)
#define SLOT(s, slots) ((unsigned)((s) + 2 * DEPTH) % (slots))  // the lowest plane asked for is -DEPTH - 1
// Lines that a group has of the iterate after t sweeps.
#define LINES(t) (ROWS + 2 * BESIDE * (DEPTH - (t)))

// The node inside that a node beyond the faces of an axis is an image of. Beyond a fixed face any node will do.
__device__ __forceinline__ int image(int i, int n, int lower, int upper) {
    if (lower == WRAP) {
        i %= n;
        return i < 0 ? i + n : i;
    }
    if (lower == MIRROR && upper == MIRROR) i %= 2 * (n - 1);
    if (i < 0) i = lower == MIRROR ? -i : 0;
    if (i >= n) i = upper == MIRROR ? 2 * (n - 1) - i : n - 1;
    return i < 0 ? 0 : i;
}

__device__ __forceinline__ bool is_fixed(int i, int n, int lower, int upper) {
    return (lower == FIXED && i == 0) || (upper == FIXED && i == n - 1);
}

// The slots of a group: each lane reads only what it copied itself, so nobody waits for anybody.
struct Slots {
    Pack u[U_SLOTS][LINES(0)][LANES];
    Pack f[SOURCE ? F_SLOTS : 1][LINES(1)][LANES];
};

// At an edge the nodes of a lane are copied one by one from where their images are.
template <bool EDGE>
__device__ __forceinline__ void fill_slot(Pack& slot, const real* __restrict__ row, const int (&place)[WIDTH]) {
    if (EDGE) {
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) copy_ahead(&slot.node[n], row + place[n]);
    } else {
        copy_ahead(&slot, reinterpret_cast<const Pack*>(row + place[0]));
    }
}

// The planes first to last - 1 of the slowest axis, at a strip whose first node is `strip` and lines from `row` on.
template <bool EDGE, bool NORM>
__device__ __forceinline__ void march(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out,
                                      int nx, int ny, int nz, index_t pitch, real weight_x, real weight_y,
                                      real weight_z, real c, real scale, int strip, int row, int first, int last,
                                      Slots& slots, Norms& norms) {
    const int slowest = DIMENSION == 2 ? ny : nz;
    const index_t stride = DIMENSION == 2 ? pitch : pitch * ny;
    const int lane = threadIdx.x;
    const int column = strip + lane * WIDTH;
    const bool owned = lane * WIDTH >= HALO && lane * WIDTH < HALO + OWNED;
    int place[WIDTH];
    bool fixed_node[WIDTH];
#pragma unroll
    for (int n = 0; n < WIDTH; ++n) {
        place[n] = EDGE ? image(column + n, nx, RULE_XL, RULE_XU) : column + n;
        fixed_node[n] = EDGE && is_fixed(place[n], nx, RULE_XL, RULE_XU);
    }
    int line[LINES(0)];
    unsigned fixed_lines = 0;
#pragma unroll
    for (int l = 0; l < LINES(0); ++l) {
        line[l] = DIMENSION == 2 ? 0 : image(row + l - DEPTH, ny, RULE_YL, RULE_YU);
        if (DIMENSION == 3 && is_fixed(line[l], ny, RULE_YL, RULE_YU)) fixed_lines |= 1u << l;
    }
    // Plane s of u, and the plane of f that the first sweep needs beside it. In 3D, where a march is short, no more
    // than is needed; in 2D the branches would cost more than they save.
    const auto ask_for = [&](int s) {
        if (DIMENSION == 2 || s < last + DEPTH) {
            const bool source_too = SOURCE && (DIMENSION == 2 || s > first - DEPTH + 1);
            const real* const u_plane = u + stride * image(s, slowest, RULE_SL, RULE_SU);
            const real* const f_plane = f + stride * image(s - 1, slowest, RULE_SL, RULE_SU);
#pragma unroll
            for (int l = 0; l < LINES(0); ++l) {
                const index_t row_at = DIMENSION == 2 ? 0 : (index_t)line[l] * (int)pitch;
                fill_slot<EDGE>(slots.u[SLOT(s, U_SLOTS)][l][lane], u_plane + row_at, place);
                if (source_too && l >= BESIDE && l < LINES(0) - BESIDE)
                    fill_slot<EDGE>(slots.f[SLOT(s - 1, F_SLOTS)][l - BESIDE][lane], f_plane + row_at, place);
            }
        }
        copies_committed();
    };

    Pack lower[DEPTH][LINES(0)] = {};
    Pack centre[DEPTH][LINES(0)] = {};
#pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) ask_for(first - DEPTH + ahead);

#pragma unroll UNROLL
    for (int s = first - DEPTH; s < last + DEPTH; ++s) {
        ask_for(s + AHEAD);
        copies_arrived<AHEAD>();
        Pack upper[LINES(0)];
#pragma unroll
        for (int l = 0; l < LINES(0); ++l) upper[l] = slots.u[SLOT(s, U_SLOTS)][l][lane];
#pragma unroll
        for (int t = 0; t < DEPTH; ++t) {
            const int own_plane = s - t - 1;
            const bool fixed_plane = is_fixed(image(own_plane, slowest, RULE_SL, RULE_SU), slowest, RULE_SL, RULE_SU);
            // The planes that this sweep owes the later ones. Before and behind them it would compute for nobody.
            const bool wanted =
                DIMENSION == 2 || (own_plane > first - (DEPTH - t) && own_plane < last + (DEPTH - 1 - t));
            Pack relaxed[LINES(0)] = {};
#pragma unroll
            for (int l = 0; wanted && l < LINES(t + 1); ++l) {
                const int own = l + BESIDE;              // the same line, counted among those of the sweep before
                const int start = l + BESIDE * (t + 1);  // and among those of the initial iterate
                const Pack& middle = centre[t][own];
                const bool fixed_line = fixed_plane || (fixed_lines >> start & 1u);
                Pack source = {};
                if (SOURCE) source = slots.f[SLOT(own_plane, F_SLOTS)][start - BESIDE][lane];
                const real from_left = lane_below(middle.node[WIDTH - 1], 1);
                const real from_right = lane_above(middle.node[0], 1);
#pragma unroll
                for (int n = 0; n < WIDTH; ++n) {
                    const real left = n == 0 ? from_left : middle.node[n > 0 ? n - 1 : 0];
                    const real right = n == WIDTH - 1 ? from_right : middle.node[n < WIDTH - 1 ? n + 1 : 0];
#if DIMENSION == 2
                    const real au = apply_operator(middle.node[n], left, right, lower[t][own].node[n],
                                                   upper[own].node[n], weight_x, weight_y, c);
#else
                    const real au = apply_operator(middle.node[n], left, right, centre[t][own - 1].node[n],
                                                   centre[t][own + 1].node[n], lower[t][own].node[n],
                                                   upper[own].node[n], weight_x, weight_y, weight_z, c);
#endif
                    const real r = fixed_line || fixed_node[n] ? (real)0 : source.node[n] - au;
                    relaxed[l].node[n] = relax(middle.node[n], r, scale);
                    if (NORM && t == DEPTH - 1) {
                        if (owned && column + n < nx && (DIMENSION == 2 || row + l < ny) && s - DEPTH >= first)
                            norms.add(r);
                    }
                }
            }
#pragma unroll
            for (int l = 0; l < LINES(t); ++l) {
                lower[t][l] = centre[t][l];
                centre[t][l] = upper[l];
            }
#pragma unroll
            for (int l = 0; l < LINES(t + 1); ++l) upper[l] = relaxed[l];
        }
        if (owned && column < nx && s - DEPTH >= first) {
            real* const to = out + stride * (s - DEPTH) + column;
#pragma unroll
            for (int l = 0; l < ROWS; ++l) {
                if (DIMENSION == 2 || row + l < ny)
                    store_streaming(to + pitch * (DIMENSION == 2 ? 0 : row + l), upper[l]);
            }
        }
    }
}

template <bool NORM>
__device__ __forceinline__ void sweeps(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out,
                                       int nx, int ny, int nz, index_t pitch, real weight_x, real weight_y,
                                       real weight_z, real c, real scale, double* partial, double* result) {
#if DIMENSION == 2
    const int strip = (blockIdx.x * BLOCK_Y + threadIdx.y) * OWNED - HALO;
    const int row = 0, slowest = ny, band = blockIdx.y;
#else
    const int strip = (int)blockIdx.x * OWNED - HALO;
    const int row = (block_along_y(nz) * BLOCK_Y + threadIdx.y) * ROWS, slowest = nz, band = band_along_z(nz);
#endif
    const int first = band * MARCH;
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    __shared__ Slots slots[BLOCK_Y];
    Norms norms;
    if (strip + HALO < nx && (DIMENSION == 2 || row < ny)) {
        if (strip <= 0 || strip + STRIP >= nx)
            march<true, NORM>(u, f, out, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c, scale, strip, row, first,
                              last, slots[threadIdx.y], norms);
        else
            march<false, NORM>(u, f, out, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c, scale, strip, row, first,
                               last, slots[threadIdx.y], norms);
    }
    if (NORM) reduce_grid(norms.sum, norms.maximum, partial, result);
}

KERNEL poisson_sweeps(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out, int nx, int ny,
                      int nz, index_t pitch, real weight_x, real weight_y, real weight_z, real c, real scale) {
    sweeps<false>(u, f, out, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c, scale, 0, 0);
}

KERNEL poisson_sweeps_norm(const real* __restrict__ u, const real* __restrict__ f, real* __restrict__ out, int nx,
                           int ny, int nz, index_t pitch, real weight_x, real weight_y, real weight_z, real c,
                           real scale, double* partial, double* result) {
    sweeps<true>(u, f, out, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c, scale, partial, result);
}
