// SPDX-License-Identifier: MIT
// The operator A u = -div(a grad u) + c u on nodes, as kernels see it: weights, coefficients that vary, neighbours.
//
// Options: LINKS (1: a varies; the coefficients of the links along each axis are arrays, as those of Coefficients),
// REACTION (1: c varies; it is an array), MASKED (1: that array has the mask of Coefficients), TABULATED (a bit for
// each axis whose links have other factors from node to node: it has tables). A kernel takes only the arrays and tables
// that there are. HALO_YL, HALO_YU, HALO_ZL and HALO_ZU (0 unless they are given: the nodes below and above along y and
// z that are those of other processes, and count in no sum or norm; whatever they hold is left out), PART (1: a launch
// has a part of the blocks of the grid; several that have them all leave what one launch does).

#ifndef LINKS
#define LINKS 0
#endif
#ifndef REACTION
#define REACTION 0
#endif
#ifndef MASKED
#define MASKED 0
#endif
#ifndef TABULATED
#define TABULATED 0
#endif
#define VARIES (LINKS || REACTION || TABULATED)
#ifdef HALO_YL
#define HALOS 1
#else
#define HALOS 0
#define HALO_YL 0
#define HALO_YU 0
#define HALO_ZL 0
#define HALO_ZU 0
#endif

#define EACH_LINKS_2(prefix) , prefix links_x, prefix links_y
#define EACH_LINKS_3(prefix) EACH_LINKS_2(prefix), prefix links_z
#if !LINKS
#define EACH_LINKS(prefix)
#elif DIMENSION == 2
#define EACH_LINKS(prefix) EACH_LINKS_2(prefix)
#else
#define EACH_LINKS(prefix) EACH_LINKS_3(prefix)
#endif
#if REACTION
#define EACH_REACTION(prefix) , prefix reaction
#else
#define EACH_REACTION(prefix)
#endif

// What kernels without an operator know of the mask of the grid that they write to, whose rows are as far apart.
#if MASKED
#define MASK_PARAMETER , const real* __restrict__ reaction
#define IS_MASKED(offset) (reaction[offset] < 0)
#else
#define MASK_PARAMETER
#define IS_MASKED(offset) false
#endif

// Of each tabulated axis: lower, upper and extra as common/tables.h has them and their sum, behind one another with
// TABLE_MARGIN more nodes on each side, where a pass may look; and the control widths over the spacing.
#define TABLE_MARGIN 160
#define TABLE_STRIDE(n) (((n) + 2 * TABLE_MARGIN + WIDTH - 1) / WIDTH * WIDTH)
#if TABULATED & 1
#define ALONG_X(parameter) , parameter##_x
#else
#define ALONG_X(parameter)
#endif
#if TABULATED & 2
#define ALONG_Y(parameter) , parameter##_y
#else
#define ALONG_Y(parameter)
#endif
#if TABULATED & 4
#define ALONG_Z(parameter) , parameter##_z
#else
#define ALONG_Z(parameter)
#endif
#define TABLE_PARAMETERS                    \
    ALONG_X(const real* __restrict__ table) \
    ALONG_Y(const real* __restrict__ table) ALONG_Z(const real* __restrict__ table)
#define WIDTH_PARAMETERS                      \
    ALONG_X(const double* __restrict__ width) \
    ALONG_Y(const double* __restrict__ width) ALONG_Z(const double* __restrict__ width)
#define EACH_TABLE ALONG_X(table) ALONG_Y(table) ALONG_Z(table)
#define EACH_WIDTH ALONG_X(width) ALONG_Y(width) ALONG_Z(width)

#ifndef PART
#define PART 0
#endif
// Of `bands` bands of blocks along the slowest axis a launch has so many, from the first on and around, and in 3D of
// the blocks along y so many, likewise. What it has is an argument of the kernels that can do parts.
#if PART
#define PART_PARAMETERS , int bands, int launched_bands, int first_band, unsigned first_y, unsigned blocks_y
#define BLOCK part_of_blocks(bands, launched_bands, first_band, first_y, blocks_y)
__device__ __forceinline__ Block part_of_blocks(int bands, int launched, int first, unsigned first_y,
                                                unsigned blocks_y) {
#if DIMENSION == 2
    return Block{(blockIdx.y + first) % bands, 0, (unsigned)bands, 1, true};
#else
    const unsigned strip = blockIdx.z / launched, band = (blockIdx.z % launched + first) % bands;
    // The difference goes around, too.
    const bool works = strip * gridDim.y + blockIdx.y - first_y < blocks_y;
    return Block{blockIdx.y, strip * bands + band, gridDim.y, gridDim.z / launched * bands, works};
#endif
}
#else
#define PART_PARAMETERS
#define BLOCK this_block()
#endif

#define COEFFICIENT_PARAMETERS \
    EACH_LINKS(const real* __restrict__) EACH_REACTION(const real* __restrict__) TABLE_PARAMETERS WIDTH_PARAMETERS

// The parameters of a kernel that make up an operator, and the operator of them: of OPERATOR_FOR(BLOCK) in parts.
#define OPERATOR_PARAMETERS \
    int nx, int ny, int nz, index_t pitch, real weight_x, real weight_y, real weight_z, real c COEFFICIENT_PARAMETERS
#define OPERATOR OPERATOR_FOR(this_block())
#define OPERATOR_FOR(block)                                                                                          \
    Operator {                                                                                                       \
        block, nx, ny, nz, pitch, weight_x, weight_y, weight_z, c EACH_LINKS() EACH_REACTION() EACH_TABLE EACH_WIDTH \
    }

struct Operator {
    Block block;
    int nx, ny, nz;
    index_t pitch;
    real weight_x, weight_y, weight_z, c;
#if LINKS
    const real* links_x;
    const real* links_y;
#if DIMENSION == 3
    const real* links_z;
#endif
#endif
#if REACTION
    const real* reaction;
#endif
#if TABULATED & 1
    const real* table_x;
#endif
#if TABULATED & 2
    const real* table_y;
#endif
#if TABULATED & 4
    const real* table_z;
#endif
#if TABULATED & 1
    const double* width_x;
#endif
#if TABULATED & 2
    const double* width_y;
#endif
#if TABULATED & 4
    const double* width_z;
#endif
};

// Whether the nodes of a row count in sums and norms.
__device__ __forceinline__ bool counts(int j, int k, int ny, int nz) {
    if (HALO_YL > 0 && j < HALO_YL) return false;
    if (HALO_YU > 0 && j >= ny - HALO_YU) return false;
    if (HALO_ZL > 0 && k < HALO_ZL) return false;
    if (HALO_ZU > 0 && k >= nz - HALO_ZU) return false;
    return true;
}

// Where a pack of nodes is: its place in an array, and the indices of its first node. k is 0 in 2D.
struct Place {
    index_t offset;
    int i, j, k;
};

// lower, upper, extra and their sum, of the nodes of a pack along x and of the pack along the other axes. A thread
// keeps in registers what does not change on its way.
#if TABULATED
struct Tables {
    real x[WIDTH][4], y[4], z[4];
};
#endif

// What varies at the nodes of a pack: the coefficients of their links, c and tables. x.node[n] is above the node n.
struct Links {
#if TABULATED
    Tables tables;
#endif
#if LINKS
    real x_below;
    Pack x, y_below, y_above;
#if DIMENSION == 3
    Pack z_below, z_above;
#endif
#endif
#if REACTION
    Pack c;
#endif
};

// The tables at a node of an axis; a uniform one has its weight for both links.
__device__ __forceinline__ void load_table(const real* __restrict__ values, int i, int n, real (&table)[4]) {
#pragma unroll
    for (int m = 0; m < 4; ++m) table[m] = values[m * TABLE_STRIDE(n) + TABLE_MARGIN + i];
}
__device__ __forceinline__ void spread_weight(real weight, real (&table)[4]) {
    table[0] = table[1] = weight;
    table[2] = 0;
    table[3] = 2 * weight;
}
// Those of a pack along x, from its first node on, and along the other axes.
__device__ __forceinline__ void load_along_x(const Operator& a, int i, Links& links) {
#if TABULATED
#pragma unroll
    for (int n = 0; n < WIDTH; ++n)
#if TABULATED & 1
        load_table(a.table_x, i + n, a.nx, links.tables.x[n]);
#else
        spread_weight(a.weight_x, links.tables.x[n]);
#endif
#endif
}
__device__ __forceinline__ void load_along_y(const Operator& a, int j, Links& links) {
#if TABULATED & 2
    load_table(a.table_y, j, a.ny, links.tables.y);
#elif TABULATED
    spread_weight(a.weight_y, links.tables.y);
#endif
}
__device__ __forceinline__ void load_along_z(const Operator& a, int k, Links& links) {
#if TABULATED & 4
    load_table(a.table_z, k, a.nz, links.tables.z);
#elif TABULATED
    spread_weight(a.weight_z, links.tables.z);
#endif
}

// What a march along the slowest axis begins with: the links below along it, and the tables of the other axes.
__device__ __forceinline__ void load_lowest(const Operator& a, const Place& at, Links& links) {
    load_along_x(a, at.i, links);
#if DIMENSION == 3
    load_along_y(a, at.j, links);
#endif
#if LINKS && DIMENSION == 2
    links.y_below = load(a.links_y + at.offset + a.pitch * (link_below(at.j, a.ny, RULE_YL) - at.j));
#elif LINKS
    links.z_below = load(a.links_z + at.offset + a.pitch * a.ny * (link_below(at.k, a.nz, RULE_ZL) - at.k));
#endif
}

// All others.
__device__ __forceinline__ void load_others(const Operator& a, const Place& at, Links& links) {
#if DIMENSION == 2
    load_along_y(a, at.j, links);
#else
    load_along_z(a, at.k, links);
#endif
#if LINKS
    links.x_below = a.links_x[at.offset + (link_below(at.i, a.nx, RULE_XL) - at.i)];
    links.x = load(a.links_x + at.offset);
    links.y_above = load(a.links_y + at.offset + a.pitch * (link_above(at.j, a.ny, RULE_YU) - at.j));
#if DIMENSION == 3
    links.y_below = load(a.links_y + at.offset + a.pitch * (link_below(at.j, a.ny, RULE_YL) - at.j));
    links.z_above = load(a.links_z + at.offset + a.pitch * a.ny * (link_above(at.k, a.nz, RULE_ZU) - at.k));
#endif
#endif
#if REACTION
    links.c = load(a.reaction + at.offset);
#endif
}

// What varies at one node, which counts as the first of a pack: it need not lie where a pack begins.
__device__ __forceinline__ void load_lone(const Operator& a, const Place& at, Links& links) {
    load_along_x(a, at.i, links);
    load_along_y(a, at.j, links);
    load_along_z(a, at.k, links);
#if LINKS
    const index_t plane = a.pitch * a.ny;
    links.x_below = a.links_x[at.offset + (link_below(at.i, a.nx, RULE_XL) - at.i)];
    links.x.node[0] = a.links_x[at.offset + (link_above(at.i, a.nx, RULE_XU) - at.i)];
    links.y_below.node[0] = a.links_y[at.offset + a.pitch * (link_below(at.j, a.ny, RULE_YL) - at.j)];
    links.y_above.node[0] = a.links_y[at.offset + a.pitch * (link_above(at.j, a.ny, RULE_YU) - at.j)];
#if DIMENSION == 3
    links.z_below.node[0] = a.links_z[at.offset + plane * (link_below(at.k, a.nz, RULE_ZL) - at.k)];
    links.z_above.node[0] = a.links_z[at.offset + plane * (link_above(at.k, a.nz, RULE_ZU) - at.k)];
#endif
#endif
#if REACTION
    links.c.node[0] = a.reaction[at.offset];
#endif
}

// What is above a place is below the next one along the slowest axis.
__device__ __forceinline__ void step_up(Links& links) {
#if LINKS && DIMENSION == 2
    links.y_below = links.y_above;
#elif LINKS
    links.z_below = links.z_above;
#endif
}

#if LINKS
// The links below and above the node n of a pack along x.
__device__ __forceinline__ real x_link_below(const Links& links, int n) {
    return n == 0 ? links.x_below : links.x.node[n > 0 ? n - 1 : 0];
}
__device__ __forceinline__ real x_link_above(const Operator& a, const Place& at, const Links& links, int n) {
    return RULE_XU != WRAP && at.i + n == a.nx - 1 ? x_link_below(links, n) : links.x.node[n];
}
#endif

#if LINKS
// The links of the node n of a pack, as the formulas take them.
__device__ __forceinline__ void links_at(const Operator& a, const Place& at, const Links& links, int n,
                                         real (&link)[6]) {
    link[0] = x_link_below(links, n);
    link[1] = x_link_above(a, at, links, n);
    link[2] = links.y_below.node[n];
    link[3] = links.y_above.node[n];
#if DIMENSION == 3
    link[4] = links.z_below.node[n];
    link[5] = links.z_above.node[n];
#endif
}
#endif

// Whether the node n of a pack belongs to the mask.
__device__ __forceinline__ bool is_masked(const Links& links, int n) {
#if MASKED
    return links.c.node[n] < 0;
#else
    return false;
#endif
}

// c at the node n of a pack; what follows from it at one of the mask has no meaning.
__device__ __forceinline__ real reaction_at(const Operator& a, const Links& links, int n) {
#if REACTION
    return links.c.node[n];
#else
    return a.c;
#endif
}

#if TABULATED
// What common/tables.h has of the node n of a pack.
__device__ __forceinline__ Tabulated<real> tabulated_at(const Operator& a, const Place& at, const Links& links, int n) {
    const real(&x)[4] = links.tables.x[n], (&y)[4] = links.tables.y, (&z)[4] = links.tables.z;
#if LINKS
    const real table[9] = {x[0], x[1], x[2], y[0], y[1], y[2], z[0], z[1], z[2]};
    real link[6];
    links_at(a, at, links, n, link);
    return tabulate<DIMENSION, LINKS>(table, link, reaction_at(a, links, n));
#else
    const bool solid = DIMENSION == 3;
    const real c = reaction_at(a, links, n), extra = solid ? y[2] + z[2] : y[2], diagonal = solid ? y[3] + z[3] : y[3];
    return {{x[0], x[1], y[0], y[1], z[0], z[1]}, (x[2] + c) + extra, (x[3] + c) + diagonal};
#endif
}
#endif

// A u at the node n of a pack, from u there and at its neighbours; in 2D those along z have no meaning.
__device__ __forceinline__ real apply_at(const Operator& a, const Place& at, const Links& links, int n, real centre,
                                         real x_lower, real x_upper, real y_lower, real y_upper, real z_lower,
                                         real z_upper) {
    const real neighbour[6] = {x_lower, x_upper, y_lower, y_upper, z_lower, z_upper};
#if TABULATED
    return apply_tabulated<DIMENSION>(centre, neighbour, tabulated_at(a, at, links, n));
#else
    const real c = reaction_at(a, links, n);
    const real weight[3] = {a.weight_x, a.weight_y, a.weight_z};
#if LINKS
    real link[6];
    links_at(a, at, links, n, link);
    return apply_operator<DIMENSION>(centre, neighbour, link, weight, c);
#else
    return apply_operator<DIMENSION>(centre, neighbour, weight, c);
#endif
#endif
}

// diag(A) at the node n of a pack. Where nothing varies the host knows it.
__device__ __forceinline__ real diagonal_at(const Operator& a, const Place& at, const Links& links, int n) {
#if TABULATED
    return tabulated_at(a, at, links, n).diagonal;
#else
    const real c = reaction_at(a, links, n);
    const real weight[3] = {a.weight_x, a.weight_y, a.weight_z};
#if LINKS
    real link[6];
    links_at(a, at, links, n, link);
    return diagonal<DIMENSION>(link, weight, c);
#else
    return diagonal<DIMENSION>(weight, c);
#endif
#endif
}

// What a step of weighted Jacobi multiplies the residual by at the node n of a pack: the host's omega / diag(A), or its
// omega over the diagonal where that varies. At a node of the mask the diagonal may be zero.
__device__ __forceinline__ real scale_at(const Operator& a, const Place& at, const Links& links, int n, real scale) {
    if (is_masked(links, n)) return 0;
    return VARIES ? scale * inverse_of(diagonal_at(a, at, links, n)) : scale;
}
__device__ __forceinline__ real relax_at(const Operator& a, const Place& at, const Links& links, int n, real centre,
                                         real residual, real scale) {
    return relax(centre, residual, scale_at(a, at, links, n, scale));
}

// The same step from f and the neighbours. On tabulated axes it adds up what these give: fewer operations, and a
// rounding error relative to u, as `smooth` of the library has; with TABULATED_BY_SUM=0 it goes by the residual.
#ifndef TABULATED_BY_SUM
#define TABULATED_BY_SUM 1
#endif
#define BY_SUM (TABULATED ? TABULATED_BY_SUM : sizeof(real) == 4)
__device__ __forceinline__ real sweep_by_sum(const Operator& a, const Place& at, const Links& links, int n, real f,
                                             real centre, const real (&neighbour)[6], real scale, real source_weight) {
    const real weight[3] = {a.weight_x, a.weight_y, a.weight_z};
#if !VARIES
    const real share[3] = {scale * weight[0], scale * weight[1], scale * weight[2]};
    return relax_by_sum<DIMENSION>(centre, f, neighbour, share, 1 - scale * diagonal_at(a, at, links, n),
                                   scale * source_weight);
#else
    f *= source_weight;
#if TABULATED
    const real sum = add_neighbours<DIMENSION>(f, neighbour, tabulated_at(a, at, links, n));
#elif LINKS
    real link[6];
    links_at(a, at, links, n, link);
    const real sum = add_neighbours<DIMENSION>(f, neighbour, link, weight);
#else
    const real sum = add_neighbours<DIMENSION>(f, neighbour, weight);
#endif
    return (1 - scale) * centre + scale_at(a, at, links, n, scale) * sum;
#endif
}
