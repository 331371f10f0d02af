// SPDX-License-Identifier: MIT
// Several steps of smoothing in one pass over memory: what the marches of lines.h (2D) and planes.h (3D) share.
//
// Groups of 32 lanes own strips of nodes along x and march along the slowest axis. A pass is a chain of stages: DEPTH
// Jacobi sweeps, and after them, with RESIDUAL, the residual. Stage t + 1 works one plane (in 2D: line) behind stage t:
// when a plane of u arrives, each stage can do one more plane. So u is read once and written once for all of them.
// Everything between stays on the chip; of what each stage reads two planes are kept. Blocks wait for no other; the
// price is a halo on every side, of a node for each stage, that each computes for itself.
//
// Options besides the prelude's and those of operator.h: DEPTH, ROWS (in 3D: neighbouring lines of a lane), and each 0
// unless it is given:
// ZERO (u is zero and is not read: the first sweep then needs no neighbours, and is no stage),
// BLANK (ZERO unless it is given: u is not read, as it is zero, but for what CORRECT adds),
// CORRECT (to u is added the interpolation of an array on a coarser grid),
// RESIDUAL (the residual after the last sweep is computed), RESTRICT (what the last stage leaves, the residual or u
// itself, is restricted to the coarser grid),
// HALVE_X, HALVE_Y, HALVE_Z (along which axes the coarser grid has the even nodes only; else it has the same nodes),
// COARSE_WINDOW (in 3D: the coarser grid is a window in arrays with more rows, whose number is an argument),
// COARSE_MASKED (the coarser grid has a mask, in its array of c),
// WEIGHTED (a bit for each axis that halves with weights in a table, as tabulated ones have),
// WIDE_PLANES (in 3D: a plane of an array has more values than 32 bits count),
// WEIGHS_SOURCE (the last sweep multiplies f by a weight, an argument; without RESIDUAL and with a stage).
// SHARED_BYTES (in 3D: the shared memory that a launch gives a block).
// BLOCK_X is 32. With a coarser grid MARCH is even. Arrays of coefficients are for 3D alone, with one stage at most and
// no ZERO. Tabulated axes may have any number of stages.
//
// Without a stage u and out may be the same array: no other group then uses what one writes.
//
// Beyond a face the nodes are the images of those inside, by its rule, and every stage keeps them so. The weights of
// interpolation and restriction are those of poisson/discrete/transfer.py, to which images belong too.

#ifndef ZERO
#define ZERO 0
#endif
#ifndef BLANK
#define BLANK ZERO
#endif
#ifndef CORRECT
#define CORRECT 0
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef RESTRICT
#define RESTRICT 0
#endif
#ifndef HALVE_X
#define HALVE_X 0
#define HALVE_Y 0
#define HALVE_Z 0
#endif

#ifndef COARSE_WINDOW
#define COARSE_WINDOW 0
#endif
#ifndef COARSE_MASKED
#define COARSE_MASKED 0
#endif
#ifndef WEIGHTED
#define WEIGHTED 0
#endif
#ifndef WIDE_PLANES
#define WIDE_PLANES 0
#endif
#ifndef WEIGHS_SOURCE
#define WEIGHS_SOURCE 0
#endif

#define LANES 32
#define WRITES (DEPTH + CORRECT > 0)
#define SWEEPS (DEPTH - ZERO)  // those that need neighbours
#define STAGES (SWEEPS + RESIDUAL)
#if DIMENSION == 2
#define RULE_SL RULE_YL
#define RULE_SU RULE_YU
#define HALVE_S HALVE_Y
#else
#define RULE_SL RULE_ZL
#define RULE_SU RULE_ZU
#define HALVE_S HALVE_Z
#endif
// A restriction needs the residual one node below those that are owned, too.
#define FURTHER_S (RESTRICT && HALVE_S)
#define FURTHER_L (RESTRICT && HALVE_Y)
// Along x in whole packs. The last lane cannot interpolate its last node: another sees the coarse node behind it.
#define MARGIN ((STAGES + ((RESTRICT || CORRECT) && HALVE_X) + WIDTH - 1) / WIDTH * WIDTH)
#define STRIP (LANES * WIDTH)
#define OWNED (STRIP - 2 * MARGIN)
#define COARSE_WIDTH (HALVE_X ? WIDTH / 2 : WIDTH)  // coarse nodes of a lane

// The weights omega / diag(A) of the sweeps, or omega where the diagonal varies: arguments of a kernel one by one, an
// array within; and the weight of f in the last one.
#define MOST_SWEEPS 8
#define SCALE_PARAMETERS \
    real scale_0, real scale_1, real scale_2, real scale_3, real scale_4, real scale_5, real scale_6, real scale_7
#define SCALES(source) \
    Scales { {scale_0, scale_1, scale_2, scale_3, scale_4, scale_5, scale_6, scale_7}, source }
struct Scales {
    real of[MOST_SWEEPS];
    real source;
};
#define SOURCE_WEIGHT(stage) (WEIGHS_SOURCE && (stage) == STAGES - 1 ? scale.source : (real)1)

// The coarser grid: what is interpolated from it, and where the restriction goes.
struct Coarser {
    const real* correction;
    real* restriction;
    int nx, ny, nz;
    index_t pitch;
#if COARSE_WINDOW
    int rows;

    __device__ __forceinline__ int rows_of_plane() const { return rows; }
#else
    __device__ __forceinline__ int rows_of_plane() const { return ny; }
#endif
#if COARSE_MASKED
    const real* reaction;
#endif
#if WEIGHTED & 1
    const real* weights_x;
#endif
#if WEIGHTED & 2
    const real* weights_y;
#endif
#if WEIGHTED & 4
    const real* weights_z;
#endif
};

// What the tables of weights have for each node of the fine grid, with the margins of those of operators: what it takes
// from the coarse nodes below and above, all from its own one if it is even; and what it gives these.
enum Weight { FROM_LOWER = 0, FROM_UPPER = 1, TO_LOWER = 2, TO_UPPER = 3 };

__device__ __forceinline__ real weight_at(const real* __restrict__ weights, Weight which, int i, int n) {
    return weights[which * TABLE_STRIDE(n) + TABLE_MARGIN + i];
}
#if DIMENSION == 2
#define WEIGHTED_S (WEIGHTED & 2)
#else
#define WEIGHTED_S (WEIGHTED & 4)
#endif
// The weight of a node along the slowest axis; with equal intervals that of an odd or an even node, if it has one.
__device__ __forceinline__ real weight_along(const Coarser& coarser, Weight which, bool odd, int s, int n) {
#if WEIGHTED_S && DIMENSION == 2
    return weight_at(coarser.weights_y, which, s, n);
#elif WEIGHTED_S
    return weight_at(coarser.weights_z, which, s, n);
#else
    return odd ? (real)0.25 : (real)0.5;
#endif
}

struct alignas(COARSE_WIDTH * sizeof(real)) CoarsePack {
    real node[COARSE_WIDTH];
};

// The weights of the nodes of a lane along x, where they are in a table.
struct LaneWeights {
#if WEIGHTED & 1
    real from_lower[WIDTH], from_upper[WIDTH];                         // of a correction
    real below[COARSE_WIDTH], own[COARSE_WIDTH], above[COARSE_WIDTH];  // of the fine nodes, in a coarse one
#endif

    __device__ __forceinline__ LaneWeights(const Coarser& coarser, int column, int nx) {
#if WEIGHTED & 1
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            from_lower[n] = weight_at(coarser.weights_x, FROM_LOWER, column + n, nx);
            from_upper[n] = weight_at(coarser.weights_x, FROM_UPPER, column + n, nx);
        }
#pragma unroll
        for (int n = 0; n < COARSE_WIDTH; ++n) {
            below[n] = weight_at(coarser.weights_x, TO_UPPER, column + 2 * n - 1, nx);
            own[n] = weight_at(coarser.weights_x, TO_LOWER, column + 2 * n, nx);
            above[n] = weight_at(coarser.weights_x, TO_LOWER, column + 2 * n + 1, nx);
        }
#endif
    }
};

// The interpolation along x of a line of the coarser grid: to the nodes of a lane.
__device__ __forceinline__ Pack interpolate_line(const CoarsePack& coarse, const LaneWeights& weights) {
    Pack fine;
    const real beyond = HALVE_X ? lane_above(coarse.node[0], 1) : (real)0;
#pragma unroll
    for (int n = 0; n < WIDTH; ++n) {
        if (!HALVE_X) {
            fine.node[n] = coarse.node[n % COARSE_WIDTH];
        } else if (n % 2 == 0) {
            fine.node[n] = coarse.node[n / 2];
        } else {
            const real next = n + 1 < WIDTH ? coarse.node[(n + 1) / 2 % COARSE_WIDTH] : beyond;
#if WEIGHTED & 1
            fine.node[n] = weights.from_lower[n] * coarse.node[n / 2] + weights.from_upper[n] * next;
#else
            fine.node[n] = (real)0.5 * (coarse.node[n / 2] + next);
#endif
        }
    }
    return fine;
}

// The restriction along x of a line of residuals.
__device__ __forceinline__ CoarsePack restrict_line(const Pack& fine, const LaneWeights& weights) {
    CoarsePack coarse;
    const real before = HALVE_X ? lane_below(fine.node[WIDTH - 1], 1) : (real)0;
#pragma unroll
    for (int n = 0; n < COARSE_WIDTH; ++n) {
        if (HALVE_X) {
            const int m = 2 * n % WIDTH;
            const real lower = m == 0 ? before : fine.node[m > 0 ? m - 1 : 0];
#if WEIGHTED & 1
            coarse.node[n] = weights.own[n] * fine.node[m] + weights.below[n] * lower +
                             weights.above[n] * fine.node[(m + 1) % WIDTH];
#else
            coarse.node[n] = (real)0.5 * fine.node[m] + (real)0.25 * (lower + fine.node[(m + 1) % WIDTH]);
#endif
        } else {
            coarse.node[n] = fine.node[n];
        }
    }
    return coarse;
}

__device__ __forceinline__ void add(CoarsePack& to, const CoarsePack& value, real factor) {
#pragma unroll
    for (int n = 0; n < COARSE_WIDTH; ++n) to.node[n] += factor * value.node[n];
}

// Whether the nodes beyond the faces along x have values: the images of those inside. Beyond a FIXED face or a HALO
// none is needed, and a whole pack of the row stands in for what lies there.
#define IMAGES_X ((RULE_XL != FIXED && RULE_XL != HALO) || (RULE_XU != FIXED && RULE_XU != HALO))

// Where a lane loads its nodes along x from: those that its own are the images of, or one pack.
template <bool EDGE, int COUNT>
struct Source {
    int place[COUNT];

    __device__ __forceinline__ Source(int column, int nx) {
        const int last = (nx - 1) / COUNT * COUNT;
#pragma unroll
        for (int n = 0; n < COUNT; ++n) {
            if (!EDGE)
                place[n] = column + n;
            else if (IMAGES_X)
                place[n] = image(column + n, nx, RULE_XL, RULE_XU);
            else
                place[n] = (column < 0 ? 0 : column > last ? last : column) + n;
        }
    }
};

// The place of a lane along x: its first node, where it loads from, and which of its nodes are fixed. Only the strips
// at the faces are at an EDGE of the grid.
template <bool EDGE>
struct Columns : Source<EDGE, WIDTH> {
    int column;
    bool owned;
    bool fixed[WIDTH];

    __device__ __forceinline__ Columns(int strip, int nx)
        : Source<EDGE, WIDTH>(strip + threadIdx.x * WIDTH, nx), column(strip + threadIdx.x * WIDTH) {
        const int lane = threadIdx.x;
        owned = lane * WIDTH >= MARGIN && lane * WIDTH < MARGIN + OWNED;
#pragma unroll
        for (int n = 0; n < WIDTH; ++n)
            fixed[n] = EDGE && is_fixed(IMAGES_X ? this->place[n] : column + n, nx, RULE_XL, RULE_XU);
    }
};
// The same of the coarser grid, which there need not be without a correction.
template <bool EDGE>
using CoarseSource = Source<(EDGE && CORRECT), COARSE_WIDTH>;
template <bool EDGE>
struct CoarseColumns : CoarseSource<EDGE> {
    int column;

    // Rounds down, for nodes below the lower face too.
    __device__ __forceinline__ CoarseColumns(int fine_column, int nx)
        : CoarseSource<EDGE>(fine_column >> HALVE_X, nx), column(fine_column >> HALVE_X) {}
};

// Neighbouring nodes of a row, as one pack or at an edge where there are images one by one; the row is the one at
// `offset`, from where those of a plane are counted.
template <bool EDGE, class Nodes, int COUNT, class Offset = int>
__device__ __forceinline__ Nodes load_nodes(const real* from, const int (&place)[COUNT], Offset offset = 0) {
    Nodes nodes;
    if (EDGE && IMAGES_X) {
#pragma unroll
        for (int n = 0; n < COUNT; ++n) nodes.node[n] = from[offset + (Offset)place[n]];
    } else {
        nodes = *reinterpret_cast<const Nodes*>(from + (offset + (Offset)place[0]));
    }
    return nodes;
}

// Stores a pack of the restriction in the row at `offset`, zero at fixed nodes. What lies behind the end of a row
// belongs to the row's padding.
template <bool EDGE>
__device__ __forceinline__ void store_coarse(const Coarser& coarser, index_t offset, CoarsePack value, int column,
                                             bool fixed_line) {
    if (column >= coarser.nx) return;
#if COARSE_MASKED
    const CoarsePack c = *reinterpret_cast<const CoarsePack*>(coarser.reaction + offset + column);
#endif
#pragma unroll
    for (int n = 0; n < COARSE_WIDTH; ++n) {
        if (fixed_line || (EDGE && is_fixed(column + n, coarser.nx, RULE_XL, RULE_XU))) value.node[n] = 0;
#if COARSE_MASKED
        if (c.node[n] < 0) value.node[n] = 0;
#endif
    }
    *reinterpret_cast<CoarsePack*>(coarser.restriction + offset + column) = value;
}
