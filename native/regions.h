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
#define POISSON_SIMD
inline bool goes_around_cache(int64_t) { return false; }
constexpr int64_t TILE_X = 1, MARCH_2D = 16, MARCH_3D = 16, BLOCK_BYTES = 0;
#else
// Starting a team of threads costs microseconds, and far more on a busy machine: a region of fewer nodes runs on one.
constexpr int64_t SMALL_WORK = 32768;
#define POISSON_REGION(work, values, pointers) POISSON_PRAGMA(omp parallel for schedule(static) if ((work) >= SMALL_WORK))
#define POISSON_FLAT_REGION(work, values, pointers) \
    POISSON_PRAGMA(omp parallel for simd schedule(static) if ((work) >= SMALL_WORK))
#define POISSON_SIMD POISSON_PRAGMA(omp simd)
// Three planes of a block of rows fill about a third of a megabyte, the better part of a core's L2 cache.
constexpr int64_t TILE_X = INT64_MAX, MARCH_2D = 1, MARCH_3D = 32, BLOCK_BYTES = 131072;
#include "lanes.h"
#endif

#include "formulas.h"

enum Rule : int32_t { FIXED = 0, MIRROR = 1, WRAP = 2 };

// The nodes [first, last) along x, the rows [low, high) of the middle axis (0 to 1 in 2D) and the rows or planes
// [start, stop) of the slowest axis.
struct Tile {
    int64_t first, last, low, high, start, stop;
};

// The tiles of the nodes of an operator, x fastest. They do not depend on the number of threads, so neither do the sums
// that are made tile by tile.
struct Tiling {
    int64_t nx, mid, slowest, block, march, columns, blocks, bands;

    Tiling(const poisson_operator& a, int64_t value_bytes)
        : nx(a.shape[0]),
          mid(a.dimension == 3 ? a.shape[1] : 1),
          slowest(a.dimension == 3 ? a.shape[2] : a.shape[1]),
          block(BLOCK_BYTES / (a.pitch * value_bytes)),
          march(a.dimension == 3 ? MARCH_3D : MARCH_2D),
          columns(TILE_X >= nx ? 1 : (nx + TILE_X - 1) / TILE_X) {
        block = block < 1 ? 1 : block;
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

// Calls visit(row, j, k) for each row of a tile.
template <class Visit>
inline void for_each_row(const poisson_operator& a, const Tile& tile, Visit visit) {
    for (int64_t s = tile.start; s < tile.stop; ++s) {
        for (int64_t m = tile.low; m < tile.high; ++m) {
            const int64_t j = a.dimension == 2 ? s : m, k = a.dimension == 2 ? 0 : s;
            visit(a.pitch * (j + a.shape[1] * k), j, k);
        }
    }
}

// Reductions leave a pair {sum, maximum} for each tile; join_partials adds them up in a fixed order, in this many groups.
constexpr int64_t GROUPS = 256;

// Device memory for `count` pairs, kept from call to call; null where there is not enough.
double* partial_results(int64_t count);

// The pairs of `count` tiles, joined into the GROUPS pairs of a result.
void join_partials(const double* partial, int64_t count, double* result);

#endif
