// SPDX-License-Identifier: MIT
/* The C interface of the OpenMP library.
 *
 * The operations have the names of poisson/backends/base.py and end in _f32 or _f64. Arrays are what poisson_allocate
 * gives: rows of `pitch` values, a multiple of 16, in the memory of the device that the library was built for. Every
 * function that can fail returns a poisson_status.
 *
 * Several threads may call it at once, on arrays of their own: what an operation works in belongs to the thread that
 * calls it. `threads` is how many an operation runs on, as poisson_threads gave it. A thread that forks has one thread
 * in the new process, where those of its regions are lost; other threads of that process have as many as ever.
 */
#ifndef POISSON_H
#define POISSON_H

#include <stdint.h>

#define POISSON_ABI_VERSION 25

#ifdef __cplusplus
extern "C" {
#endif

/* The library hides everything but this interface. */
#pragma GCC visibility push(default)

typedef enum {
    POISSON_SUCCESS = 0,
    POISSON_OUT_OF_MEMORY = 1,
    POISSON_NO_DEVICE = 2,
    POISSON_BAD_ARGUMENT = 3,
    POISSON_COPY_FAILED = 4
} poisson_status;

/* A u = -div(a grad u) + c u on nodes. shape, weight (a/h²) and rule run in the order x, y, z; in 2D shape[2] is 1.
 * rule holds lower and upper face of each axis: 0 fixed, 1 mirror, 2 wrap, 3 the edge of a halo. Where a varies, `a`
 * holds an array for each axis (the coefficients of the links, as poisson/discrete/discretisation.py has them) and
 * weight is 1/h²; where c varies, c_values holds it at the nodes and c is zero. Both are of the operation's type and
 * layout, and null where they are constant; `diagonal` has no meaning unless both are.
 *
 * The nodes may be a part of a grid, divided along y and z: `halo` holds how many below and above along y, and along z,
 * belong to others and do not count in sums and norms; what comes out in the outermost layer of a halo has no meaning.
 * Along an axis that is divided `first` holds the number that the first node has on the whole axis, and `intervals` the
 * links from one end of that to the other; elsewhere both are zero.
 *
 * Where an axis is tabulated (poisson/mesh/axis.py), `tables` has, in the operation's type, three rows for each axis:
 * lower, upper and extra at its nodes times `weight`; else it is null. `widths` has a row of the control widths for
 * each. All lie in the device's memory. A row of an axis of n nodes has room for POISSON_TABLE_PAD values, n in whole
 * multiples of 16, and POISSON_TABLE_PAD values; what is beyond the ends of an axis that wraps are images.
 *
 * With `masked` the nodes where c_values is negative are fixed too, and there are tables whatever the axes are. */
#define POISSON_TABLE_PAD 64

typedef struct {
    int32_t dimension;
    int32_t rule[6];
    int32_t threads;
    int64_t shape[3];
    int64_t pitch;
    double weight[3];
    double c;
    double diagonal;
    const void* a[3];
    const void* c_values;
    int64_t halo[4];
    int64_t first[3];
    int64_t intervals[3];
    const void* tables;
    const double* widths;
    int32_t masked;
} poisson_operator;

/* Between the nodes of two grids: for each axis the tables of poisson/mesh/axis_transfer.py, in the device's memory.
 * Where both axes are uniform or one and the same, `entries` is 0: there are as many indices and weights for each node
 * that is written as an operation knows. Else it is their number, at most 8, and on the host those of a restriction
 * stand for neighbours: entry n lies n nodes behind entry 0, which may be an image beyond the end of an axis that
 * wraps.
 *
 * `paired` is null, or has the weights of x on the host in the type of the arrays, where two fine nodes come to each
 * coarse one, in four rows of whole multiples of 16: of a restriction, what the node i takes of the fine nodes 2i - 1
 * to 2i + 2; else what the fine node 2i takes of i - 1 and i, and 2i + 1 of i and i + 1. Of cubics, whose nodes near
 * the ends go by the tables: from fine to coarse the same four rows, else what 2i takes of i - 2 to i + 1, and 2i + 1
 * of i - 1 to i + 2. */
typedef struct {
    const int32_t* index[3];
    const double* weight[3];
    int32_t entries[3];
    const void* paired;
} poisson_transfer;

/* First derivatives on nodes, by the differences of poisson/mesh/differences.py of order 2 half. shape, scale (1/h) and
 * wraps (1 where an axis is periodic, and 2 more where it is tabulated) run in the order x, y, z; in 2D shape[2] is 1.
 * weights lies in the device's memory: half weights of the central difference, then 2 half + 1 of a one-sided one for
 * each of the half nodes next to a face, then for each tabulated axis 2 half + 1 times a weight of every node; what
 * comes before each, and each of the 2 half + 1, goes up to a multiple of 8. */
typedef struct {
    int32_t dimension;
    int32_t half;
    int32_t wraps[3];
    int32_t threads;
    int64_t shape[3];
    int64_t pitch;
    double scale[3];
    const double* weights;
} poisson_differences;

/* The cells of a staggered grid (poisson/mac.py), and of its axes x, y(, z) the tables of 1 / the width of every cell
 * and of what a difference of pressures is multiplied by on every face, 0 where the velocity is not to change: of the
 * type of the arrays. An axis that does not wrap has one face more than cells. In 2D shape[2] is 1. */
typedef struct {
    int32_t dimension;
    int32_t threads;
    int32_t wraps[3];
    int64_t shape[3];
    const void* widths[3];
    const void* slopes[3];
} poisson_staggered;

/* A full stencil (poisson/discrete/full_stencil.py) on the host: of `lattice` dimension, rule, threads, shape, pitch
 * and widths are read. `coefficients` has the excess, and then the links to the `offsets` neighbours, as one array
 * behind the other in rows of `pitch` values: float with `single`, else double. `scales`, of each offset, or NULL, are
 * read where clusters are found. */
typedef struct {
    poisson_operator lattice;
    int32_t offset[13][3];
    int32_t offsets;
    int32_t single;
    const void* coefficients;
    const double* scales;
} poisson_stencil;

/* Both grids of a transfer by weights (StencilTransfer there), which is along the axes that are `halved`. `weights` has
 * an array of the coarse grid for each direction: double with `kind` 0, float with 1, and with 2 uint16_t, whose value
 * 32768 is 1. */
typedef struct {
    poisson_stencil fine;
    poisson_stencil coarse;
    int32_t halved[3];
    int32_t kind;
    const void* weights;
} poisson_weighted;

/* `count` groups of nodes (poisson/discrete/clusters.py): of the nodes that lie at these places of an array, a group
 * has those from starts[n] on, and a factor. With `levels` > 0 their corrections are those of the cycle of their graph
 * (poisson/discrete/contracted.py) instead, whose tables follow; graph n begins with node first[n] and has visits[n]
 * from the one before it, the links of a node are those in the packs of four from entries[n] on, and `inverse` may be
 * null. `values` has room for a number of each node of the graphs, and behind these for twice as many, or for those of
 * all places of strips. `strips` of `height` rows of nodes follow each other. The first places of strip n are those of
 * the groups from firsts[n] on, the next ones those of the guests from guests[n] on: a group that begins elsewhere, in
 * `hosts`, or -1 for none. `labels` has the place of each node in its strip, without padding. */
typedef struct {
    poisson_operator lattice;
    int64_t count;
    const uint32_t* places;
    const int32_t* starts;
    const double* factors;
    int64_t levels;
    const int32_t* first;
    const int32_t* visits;
    const int32_t* entries;
    const int32_t* columns;
    const float* links;
    const float* excess;
    const float* sweeps;
    const int32_t* groups;
    const int32_t* members;
    const double* inverse;
    double* values;
    int64_t strips;
    int64_t height;
    const uint16_t* labels;
    const int32_t* firsts;
    const int32_t* guests;
    const int32_t* hosts;
} poisson_clusters;

/* `count` rows of a sparse matrix (poisson/discrete/sparse_rows.py): the places of their nodes in an array, where the
 * entries of each begin, and the places of these in the array that they are read from. `found` has room for a number of
 * each row. */
typedef struct {
    int64_t count;
    const int64_t* places;
    const int64_t* starts;
    const int64_t* beside;
    const double* weights;
    const double* own;
    const double* constant;
    double* found;
    int32_t threads;
} poisson_rows;

/* A transform of `length` values as a convolution in `padded` ones, a product of 8, 5, 4, 3 and 2 of which there are
 * two factors at least; the factors end with a zero. roots (e^(-2 pi i n / padded)), chirp (e^(-i pi n^2 / length)) and
 * spectrum (of the opposite chirp, divided by padded, in the order of digits reversed) are complex, of the type of the
 * array. All lie in the host's memory. */
typedef struct {
    int64_t length;
    int64_t padded;
    int32_t radix[32];
    const void* roots;
    const void* chirp;
    const void* spectrum;
} poisson_convolution;

/* The lines of an array along one axis, as poisson/backends/spectra.py has them: kind is 0 sine, 1 cosine, 2 quarter
 * wave, 3 Fourier, of cells 4 cosine, 5 quarter wave, 6 sine; the factors of length, 8, 5, 4, 3, 2 and odd numbers, end
 * with a zero. The last one goes through the convolution if there is one. roots and turns are complex, of the type of
 * the array; order says where each frequency lies after a transform in place. A thread needs room for so many values
 * more. All lie in the host's memory. */
typedef struct {
    int32_t axis;
    int32_t kind;
    int32_t reversed;
    int32_t radix[32];
    int64_t length;
    int64_t room;
    const void* roots;
    const void* turns;
    const int32_t* order;
    const poisson_convolution* convolution;
} poisson_line;

/* ---- the library and its device */

int32_t poisson_abi_version(void);
const char* poisson_build(void); /* compiler, options and target, for people */
int32_t poisson_devices(void);   /* devices for target regions; 1 where they run on the host */

/* How many of so many threads the regions of the calling thread can have; 0: as many as OpenMP gives them. Fewer where
 * OMP_THREAD_LIMIT, 4096 or what the system lets a process start is less. */
int32_t poisson_threads(int32_t threads);

/* Threads that wait for others do so busily for a moment only. Where the run time was loaded before the library it is
 * too late for GOMP_SPINCOUNT, by which GCC's is told. */
void poisson_wait_shortly(int32_t run_time_was_loaded);

/* ---- memory */

poisson_status poisson_allocate(int64_t rows, int64_t row_bytes, int32_t threads, void** memory);
void poisson_release(void* memory);
poisson_status poisson_upload(void* array, int64_t pitch_bytes, const void* values, int64_t row_bytes, int64_t rows,
                              int32_t threads);
poisson_status poisson_download(void* values, int64_t row_bytes, const void* array, int64_t pitch_bytes, int64_t rows,
                                int32_t threads);

/* ---- reductions: a result is poisson_result_bytes() of device memory; poisson_read gives {sum, maximum} */

int64_t poisson_result_bytes(void);
poisson_status poisson_read(const double* result, double* sum_and_maximum);

/* A direct solution: transforms along all axes, or all but one, and what solves for their modes. */
typedef struct {
    const poisson_line* const* lines; /* of the first `transforms` axes; null for one that is not transformed */
    const double* scales;             /* of the way back from the modes */
    const double* spectra[3];
    double links[6]; /* what the value of a fixed node counts in the equations of its neighbour; 0 where none is */
    int32_t transforms;
    int32_t tridiagonal;
} poisson_direct;

/* The layers of nodes next to the ends of the axes, the lower one first: those across x as [ny][rows][2], `pitch`
 * apart, those across y as [rows][2][nx], in 2D the first alone, and across the slowest axis as [2][ny][nx], in 2D
 * [2][nx], with the pitch of arrays, where rows are those of the slowest axis without fixed nodes. `weights`: for the
 * lower and the upper end of x, and of y, a number for each mode, padded like rows; zeros where there is no layer. */
typedef struct {
    const double* weights[4];
    double* layers[3];
    int64_t pitch;
} poisson_faces;

/* ---- on the host's threads and memory alone: a library for a GPU has none of them.
 *
 * `transform` goes in place to the modes or back, where the nodes are not fixed, times `scale`.
 *
 * From the modes of f to those of u, at the nodes that are not fixed: the eigenvalues of the axes lie at their nodes,
 * those of x with c added. `divide` divides by their sum, and leaves zero where that is; `tridiagonal` solves along the
 * slowest axis, which does not wrap and whose table it does not read, for the modes of the other axes. Of a divided
 * axis it has the rows of one rank: `below` and `above`, null elsewhere, are the values of the modes, nx a row and not
 * padded, in the row below them and in the last of them, where the ends of the axis have no rule. Before these are
 * known, `condense` gives what the rows add to their equations; a null one is not there. `to_faces` solves the same
 * systems, and leaves in the layers the values of u in the modes of their axes, the slowest of which has none; f keeps
 * its values. `add_faces` is `tridiagonal` with what layers across x and y add to f, times the weights, in place.
 *
 * `chains` solves along any one axis that does not wrap, for the modes of the others (poisson/mesh/chain.py): `chain`
 * has the link below the first node that is not fixed, and for each such node the link above it, its control width and
 * what it loses to a wall, links and losses times the coupling. The eigenvalues of that axis are not read. `turned`,
 * null elsewhere, has the control widths over r^2 of a radius beside an angle, with which the eigenvalues of y count.
 *
 * `divergence` writes factor times that of a velocity, after zeros on the faces of the box that are bits of `walls`,
 * the lower one of x first; `subtract_gradient` takes factor times that of p from a velocity, times the coefficients of
 * the links above the cells, which may be null. In 2D w is any address. Arrays of cells have rows of any distances,
 * those of faces follow one another. `result`, if it is not null, gets the norms of what `divergence` writes, or would
 * write for what `subtract_gradient` leaves, with -1 / factor.
 *
 * `to_modes` leaves in u the modes of f - shift with what fixed nodes of u add to the equations of their neighbours,
 * and in `result` the norms of f - shift where no node is fixed, if it is not null; fixed nodes keep theirs.
 * `from_modes` leaves u from its modes, and the norms of f - shift - A u. */

/* The groups of `fewest` nodes or more that links above a threshold join (poisson/discrete/clusters.py), with `damping`
 * over what holds each: at most as many members as nodes, and as many groups for each `fewest` of them, whose number is
 * left in `count`. Groups of more nodes than are there before are left out. */
poisson_status poisson_find_clusters(const poisson_stencil* stencil, double threshold, double damping, double least,
                                     int64_t fewest, int32_t* members, int64_t* starts, double* factors,
                                     int64_t* count);

/* The graph of such groups (Graph in poisson/discrete/contracted.py), a node each: where the links of each begin, the
 * nodes at their other ends, and their values. There is room for those of all members to all their neighbours. */
poisson_status poisson_contract_clusters(const poisson_stencil* stencil, int64_t groups, const int32_t* members,
                                         const int64_t* starts, int32_t* entries, int32_t* columns, double* links,
                                         double* excess);

/* The aggregates of the nodes of a graph (aggregates in poisson/discrete/contracted.py), with their members, and the
 * graph on them, all of which have room for as much as the graph itself has; how many there are is left in `count`. */
poisson_status poisson_aggregate_graph(int64_t nodes, const int32_t* entries, const int32_t* columns,
                                       const double* links, const double* excess, int32_t* groups, int32_t* members,
                                       int32_t* coarse_entries, int32_t* coarse_columns, double* coarse_links,
                                       double* coarse_excess, int64_t* count);

/* Weights, double, in parts of 32768: those of a node are rounded so that their sum is the rounded sum. */
poisson_status poisson_round_weights(const poisson_weighted* transfer, const double* weights, uint16_t* rounded);

/* The full stencil of an operator of links (poisson/discrete/full_stencil.py), float with `of_single`, else double; the
 * operator's arrays are float with `single`, and with `masked` a node where c_values is negative has no equation. Of
 * each axis `tables` has three rows (StarTables there), and `numbers` two rows, or null. */
poisson_status poisson_star(const poisson_operator* operator_, int32_t single, int32_t masked,
                            const double* const* tables, const int32_t* const* numbers, int32_t of_single, void* out);

/* The parts of a grid that links of more than 0 join (poisson/discrete/mask.py). c, an array on the host, is negative
 * at the nodes of a mask; `fixed` is written there to those of fixed faces, and to those without a link where it is 0.
 * counts: these last, the parts that nothing holds, and the others; ends: the least link, and the
 * least and the largest c of the nodes that are left. */
poisson_status poisson_find_parts(const poisson_operator* operator_, double fixed, double* c, int64_t* counts,
                                  double* ends);

/* clang-format off */
#define POISSON_OF_HOST(real, suffix)                                                                                  \
    poisson_status poisson_transform_##suffix(const poisson_operator* operator_, const poisson_line* line,             \
        int32_t to_modes, double scale, real* values);                                                                 \
    poisson_status poisson_divide_##suffix(const poisson_operator* operator_, const double* spectrum_x,                \
        const double* spectrum_y, const double* spectrum_z, const real* f, real* u);                                   \
    poisson_status poisson_condense_##suffix(const poisson_operator* operator_, const double* spectrum_x,              \
        const double* spectrum_y, const real* f, real* first, real* last);                                             \
    poisson_status poisson_add_faces_##suffix(const poisson_operator* operator_, const double* spectrum_x,             \
        const double* spectrum_y, const poisson_faces* faces, real* u);                                                \
    poisson_status poisson_to_faces_##suffix(const poisson_operator* operator_, const double* spectrum_x,              \
        const double* spectrum_y, const poisson_faces* faces, const real* f);                                          \
    poisson_status poisson_tridiagonal_##suffix(const poisson_operator* operator_, const double* spectrum_x,           \
        const double* spectrum_y, const double* spectrum_z, const real* f, real* u, const real* below,                 \
        const real* above);                                                                                            \
    poisson_status poisson_chains_##suffix(const poisson_operator* operator_, int32_t axis,                            \
        const double* spectrum_x, const double* spectrum_y, const double* spectrum_z, const double* chain,             \
        const double* turned, const real* f, real* u);                                                                 \
    poisson_status poisson_divergence_##suffix(const poisson_staggered* grid, double factor, int32_t walls, real* u,   \
        real* v, real* w, real* out, int64_t pitch, int64_t plane, double* result);                                                    \
    poisson_status poisson_subtract_gradient_##suffix(const poisson_staggered* grid, double factor, const real* p,     \
        int64_t pitch, int64_t plane, real* u, real* v, real* w, const real* link_x, const real* link_y,               \
        const real* link_z, int64_t link_pitch, int64_t link_plane, double* result);                                                   \
    poisson_status poisson_to_modes_##suffix(const poisson_operator* operator_, const poisson_direct* direct,          \
        const real* f, int64_t pitch, double shift, real* u, double* result);                                          \
    poisson_status poisson_from_modes_##suffix(const poisson_operator* operator_, const poisson_direct* direct,        \
        real* u, const real* f, int64_t pitch, double shift, double* result);
/* clang-format on */

POISSON_OF_HOST(float, f32)
POISSON_OF_HOST(double, f64)

#undef POISSON_OF_HOST

/* Solves for `count` sources in the memory of the caller, each on one thread; u[n] takes the values at fixed nodes from
 * `start`. `norms` gets four numbers for a source: the sum of squares and the maximum of f, and of the residual. A is
 * not singular. */
poisson_status poisson_solve_many(const poisson_operator* operator_, const poisson_direct* direct, int64_t count,
                                  const double* const* f, const int64_t* pitches, const double* start, double* const* u,
                                  double* norms);

/* ---- operations; `result` may be null where no norm is wanted, and so may `f` where the source is zero, but not that
 * of `smooth`. f of `integrate`, `take` and `certify` may be in the memory of the caller: rows of `f_pitch` float64
 * values, or real ones, which need no alignment, less `f_shift`. `certify` is for an operator with one diagonal, and
 * computes in float64 where f has such values. The omegas of `sweeps` and `smooth` lie in the host's memory. Tables of
 * interpolate are those of its cubics; those of coarsen_links run in series along `axis`. Arrays of dense have rows of
 * `columns` values; its matrix has a row for each of their nodes. `smooth` begins with zero where `u` is null;
 * `correction` and `restriction` are null, and their operators and tables not read, where there are none; `u` and
 * `work` lose their values. Of `smooth` the coarse grid has no axis of one node where the fine one has more; unless
 * `short_waves` is zero, its last sweep has a weight that is not, and adds `short_waves` f / diag(A). */

/* scripts/method_tables.py writes these, but for the last one, from the entries of the operations. A library for a GPU
 * has no `integrate`, `take` and `certify`. */
/* clang-format off */
#define POISSON_OPERATIONS(real, suffix)                                                                               \
    poisson_status poisson_laplacian_##suffix(                                                                         \
        const poisson_operator* operator_, const real* u, real* out);                                                  \
    poisson_status poisson_boundary_conditions_##suffix(                                                               \
        const poisson_operator* operator_, const real* u, real* out);                                                  \
    poisson_status poisson_update_##suffix(                                                                            \
        const poisson_operator* operator_, const real* f, const real* au, real* r, real* u, double omega);             \
    poisson_status poisson_norm_##suffix(                                                                              \
        const poisson_operator* operator_, const real* r, double* result);                                             \
    poisson_status poisson_sweep_##suffix(                                                                             \
        const poisson_operator* operator_, const real* u, const real* f, real* out, double omega, double* result);     \
    poisson_status poisson_sweeps_##suffix(                                                                            \
        const poisson_operator* operator_, const real* u, const real* f, real* out, const double* omegas,              \
        int32_t count, double* result);                                                                                \
    poisson_status poisson_residual_##suffix(                                                                          \
        const poisson_operator* operator_, const real* u, const real* f, real* r, double* result);                     \
    poisson_status poisson_fill_##suffix(                                                                              \
        real* x, int64_t rows, int64_t pitch, double value, int32_t threads);                                          \
    poisson_status poisson_axpby_##suffix(                                                                             \
        double a, const real* x, double b, real* y, int64_t rows, int64_t pitch, int32_t threads);                     \
    poisson_status poisson_dot_##suffix(                                                                               \
        const poisson_operator* operator_, const real* x, const real* y, double* result);                              \
    poisson_status poisson_integrate_##suffix(                                                                         \
        const poisson_operator* operator_, const void* f, int64_t f_pitch, double f_shift, int32_t f_double,           \
        double* result);                                                                                               \
    poisson_status poisson_restrict_##suffix(                                                                          \
        const poisson_operator* fine_operator, const poisson_operator* coarse_operator,                                \
        const poisson_transfer* tables, const real* fine, real* coarse);                                               \
    poisson_status poisson_prolong_add_##suffix(                                                                       \
        const poisson_operator* fine_operator, const poisson_operator* coarse_operator,                                \
        const poisson_transfer* tables, const real* coarse, real* fine);                                               \
    poisson_status poisson_interpolate_##suffix(                                                                       \
        const poisson_operator* source_operator, const poisson_operator* target_operator,                              \
        const poisson_transfer* tables, int32_t everywhere, const real* source, real* out);                            \
    poisson_status poisson_color_sweep_##suffix(                                                                       \
        const poisson_operator* operator_, real* u, const real* f, int32_t color, double omega);                       \
    poisson_status poisson_diagonal_solve_##suffix(                                                                    \
        const poisson_operator* operator_, const real* r, real* z, double omega, double* result);                      \
    poisson_status poisson_direction_##suffix(                                                                         \
        const poisson_operator* operator_, const real* z, double beta, const real* p, real* out, real* q,              \
        double* result);                                                                                               \
    poisson_status poisson_advance_##suffix(                                                                           \
        const poisson_operator* operator_, double alpha, const real* p, const real* q, real* u, real* r,               \
        double* result);                                                                                               \
    poisson_status poisson_defect_##suffix(                                                                            \
        const poisson_operator* operator_, const real* u, const real* f, double factor, float* r, double* result);     \
    poisson_status poisson_correct_##suffix(                                                                           \
        double factor, const float* x, real* y, int64_t rows, int64_t pitch, int32_t threads);                         \
    poisson_status poisson_dense_##suffix(                                                                             \
        const real* matrix, int64_t matrix_pitch, const real* x, real* y, int64_t columns, int64_t rows,               \
        int64_t pitch, int32_t threads);                                                                               \
    poisson_status poisson_links_##suffix(                                                                             \
        const poisson_operator* operator_, int32_t axis, const real* a, int32_t harmonic, real* out);                  \
    poisson_status poisson_coarsen_links_##suffix(                                                                     \
        const poisson_operator* fine_operator, const poisson_operator* coarse_operator,                                \
        const poisson_transfer* tables, int32_t axis, const real* fine, real* coarse);                                 \
    poisson_status poisson_derivative_##suffix(                                                                        \
        const poisson_differences* differences, int32_t axis, const real* u, real* out);                               \
    poisson_status poisson_gradient_##suffix(                                                                          \
        const poisson_differences* differences, const real* u, real* const* outs);                                     \
    poisson_status poisson_stencil_residual_##suffix(                                                                  \
        const poisson_stencil* stencil, const real* u, const real* f, real* r, double* result);                        \
    poisson_status poisson_stencil_sweep_##suffix(                                                                     \
        const poisson_stencil* stencil, const real* u, const real* f, real* out, double omega, double* result);        \
    poisson_status poisson_stencil_color_sweep_##suffix(                                                               \
        const poisson_stencil* stencil, real* u, const real* f, int32_t color, double omega);                          \
    poisson_status poisson_stencil_diagonal_solve_##suffix(                                                            \
        const poisson_stencil* stencil, const real* r, real* z, double omega, double* result);                         \
    poisson_status poisson_stencil_direction_##suffix(                                                                 \
        const poisson_stencil* stencil, const real* z, double beta, const real* p, real* out, real* q,                 \
        double* result);                                                                                               \
    poisson_status poisson_stencil_restrict_##suffix(                                                                  \
        const poisson_weighted* transfer, const real* fine, real* coarse);                                             \
    poisson_status poisson_stencil_prolong_add_##suffix(                                                               \
        const poisson_weighted* transfer, const real* coarse, real* fine);                                             \
    poisson_status poisson_stencil_interpolation_##suffix(                                                             \
        const poisson_weighted* transfer, void* out, int32_t out_single, int32_t spreads);                             \
    poisson_status poisson_stencil_galerkin_##suffix(                                                                  \
        const poisson_weighted* transfer, void* out, int32_t out_single);                                              \
    poisson_status poisson_correct_clusters_##suffix(                                                                  \
        const poisson_clusters* clusters, const real* r, real* u);                                                     \
    poisson_status poisson_replace_rows_##suffix(                                                                      \
        const poisson_rows* rows, const real* x, const real* u, real* out);                                            \
    poisson_status poisson_smooth_##suffix(                                                                            \
        const poisson_operator* operator_, real* u, const real* f, real* out, real* work, const double* omegas,        \
        int32_t count, const poisson_operator* correction_operator, const poisson_transfer* correction_tables,         \
        real* correction, const poisson_operator* restriction_operator, const poisson_transfer* restriction_tables,    \
        real* restriction, double* result, double short_waves);                                                        \
    poisson_status poisson_take_##suffix(                                                                              \
        const poisson_operator* operator_, const void* f, int64_t f_pitch, double f_shift, int32_t f_double,           \
        real* out, double* result);                                                                                    \
    poisson_status poisson_certify_##suffix(                                                                           \
        const poisson_operator* operator_, const real* u, const void* f, int64_t f_pitch, double f_shift,              \
        int32_t f_double, double* result);                                                                             \
    int32_t poisson_depth_##suffix(const poisson_operator* operator_);
/* clang-format on */

POISSON_OPERATIONS(float, f32)
POISSON_OPERATIONS(double, f64)

#undef POISSON_OPERATIONS

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
