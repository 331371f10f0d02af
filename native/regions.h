// How a parallel region is written once for the host's threads and for a GPU.
//
// A region is a loop over tiles. On the host a tile is a row in 2D; in 3D it is a block of rows that stays in the cache
// while the thread goes from plane to plane. Its nodes are visited with SIMD instructions. On a GPU a tile is a thread:
// one column of nodes along the slowest axis.
#ifndef POISSON_REGIONS_H
#define POISSON_REGIONS_H

#include <cstdint>

#include "poisson.h"

#define POISSON_PRAGMA(text) _Pragma(#text)
#define POISSON_FORMULA static inline

// POISSON_REGION is a parallel loop over `work` nodes; `values` lists what it captures by value, `pointers` the device
// memory that it uses. POISSON_FLAT_REGION is one over single values.
#ifdef POISSON_OFFLOAD
#define POISSON_REGION(work, values, pointers) \
    POISSON_PRAGMA(omp target teams distribute parallel for firstprivate values is_device_ptr pointers)
#define POISSON_FLAT_REGION(work, values, pointers) POISSON_REGION(work, values, pointers)
inline bool goes_around_cache(int64_t) { return false; }
constexpr int64_t TILE_X = 1, BLOCK_BYTES = 0;
// A quarter of a million threads fill a large GPU; more nodes go into longer columns.
constexpr int64_t THREADS = int64_t{1} << 18, LONGEST_MARCH = 64;
#else
// Starting a team of threads costs microseconds, and far more on a busy machine: a region of fewer nodes runs on one.
constexpr int64_t SMALL_WORK = 32768;
#define POISSON_REGION(work, values, pointers) POISSON_PRAGMA(omp parallel for schedule(static) if ((work) >= SMALL_WORK))
#define POISSON_FLAT_REGION(work, values, pointers) \
    POISSON_PRAGMA(omp parallel for simd schedule(static) if ((work) >= SMALL_WORK))
// Three planes of a block of rows fill about a third of a megabyte, the better part of a core's L2 cache.
constexpr int64_t TILE_X = INT64_MAX, BLOCK_BYTES = 131072, PLANES = 32;
#include "lanes.h"
#endif

#include "formulas.h"

enum Rule : int32_t { FIXED = 0, MIRROR = 1, WRAP = 2 };

// An operator in the type of the arrays.
template <class T>
struct Local {
    int64_t dimension, nx, ny, nz, pitch, rules;
    T weight_x, weight_y, weight_z, c;

    // The rule of a face; faces run x lower, x upper, y lower, …
    int32_t rule(int face) const { return rules >> 2 * face & 3; }
    // Whether a node with this index along an axis of n nodes is fixed by the faces of that axis.
    bool fixed(int64_t index, int64_t n, int axis) const {
        return (index == 0 && rule(2 * axis) == FIXED) || (index == n - 1 && rule(2 * axis + 1) == FIXED);
    }
    int64_t row(int64_t j, int64_t k) const { return pitch * (j + ny * k); }
};

inline int64_t packed_rules(const poisson_operator& a) {
    int64_t rules = 0;
    for (int face = 0; face < 6; ++face) rules |= int64_t(a.rule[face]) << 2 * face;
    return rules;
}

// A target region takes scalars with its launch, and a structure by a transfer of its own: so an operator is taken
// apart before a region and put together in it. POISSON_OPERATOR(T, a, name) declares the parts of *a,
// POISSON_PARTS(name) lists them as captures, and POISSON_LOCAL(T, name) is the whole.
#define POISSON_OPERATOR(T, a, name)                                                                       \
    const int64_t name##_dimension = (a)->dimension, name##_nx = (a)->shape[0], name##_ny = (a)->shape[1], \
                  name##_nz = (a)->shape[2], name##_pitch = (a)->pitch, name##_rules = packed_rules(*(a)); \
    const T name##_x = T((a)->weight[0]), name##_y = T((a)->weight[1]), name##_z = T((a)->weight[2]),      \
            name##_c = T((a)->c)
#define POISSON_PARTS(name)                                                                                      \
    name##_dimension, name##_nx, name##_ny, name##_nz, name##_pitch, name##_rules, name##_x, name##_y, name##_z, \
        name##_c
#define POISSON_LOCAL(T, name) (Local<T>{POISSON_PARTS(name)})

// The nodes [first, last) along x, the rows [low, high) of the middle axis (0 to 1 in 2D) and the rows or planes
// [start, stop) of the slowest axis.
struct Tile {
    int64_t first, last, low, high, start, stop;
};

// The tiles of the nodes of an operator, x fastest. They do not depend on the number of threads, so neither do the sums
// that are made tile by tile.
struct Tiling {
    int64_t nx, mid, slowest, block, march, columns, blocks, bands;

    template <class T>
    explicit Tiling(const Local<T>& a)
        : nx(a.nx),
          mid(a.dimension == 3 ? a.ny : 1),
          slowest(a.dimension == 3 ? a.nz : a.ny),
          block(BLOCK_BYTES / (a.pitch * int64_t(sizeof(T)))),
          march(1),
          columns(TILE_X >= nx ? 1 : (nx + TILE_X - 1) / TILE_X) {
        block = block < 1 ? 1 : block;
#ifdef POISSON_OFFLOAD
        march = nx * mid * slowest / THREADS;
        march = march < 1 ? 1 : march > LONGEST_MARCH ? LONGEST_MARCH : march;
#else
        if (a.dimension == 3) march = PLANES;
#endif
        blocks = (mid + block - 1) / block;
        bands = (slowest + march - 1) / march;
    }
    int64_t count() const { return columns * blocks * bands; }
    int64_t nodes() const { return nx * mid * slowest; }
    Tile tile(int64_t number) const {
        const int64_t column = number % columns, rest = number / columns;
        Tile t;
        t.first = TILE_X >= nx ? 0 : column * TILE_X;
        t.last = TILE_X >= nx - t.first ? nx : t.first + TILE_X;
        t.low = rest % blocks * block;
        t.high = t.low + block < mid ? t.low + block : mid;
        t.start = rest / blocks * march;
        t.stop = t.start + march < slowest ? t.start + march : slowest;
        return t;
    }
};

// Calls visit(j, k) for each row of a tile.
template <class T, class Visit>
inline void for_each_row(const Local<T>& a, const Tile& tile, Visit visit) {
    for (int64_t s = tile.start; s < tile.stop; ++s) {
        for (int64_t m = tile.low; m < tile.high; ++m) visit(a.dimension == 2 ? s : m, a.dimension == 2 ? 0 : s);
    }
}

// Reductions leave a pair {sum, maximum} for each tile; join_partials adds them up in a fixed order, in this many
// groups.
constexpr int64_t GROUPS = 256;

// Device memory for `count` pairs and their join, kept from call to call; null where there is not enough.
double* partial_results(int64_t count);

// The pairs of `count` tiles, joined into the GROUPS pairs of a result.
void join_partials(double* partial, int64_t count, double* result);

#endif
