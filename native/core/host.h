// SPDX-License-Identifier: MIT
// How a region runs on the host's threads; device.h is the same for a GPU.
#ifndef POISSON_HOST_H
#define POISSON_HOST_H

#include "core/lanes.h"

// A loop over `count` iterations on `work` nodes, and one over `count` units.
#define POISSON_THREADS(number, count, work, values, pointers) \
    POISSON_REGION(work, values, pointers)                     \
    for (int64_t number = 0; number < (count); ++number)
// A condition of all directives would let small loops be scalar, too.
#define POISSON_UNITS(number, count, values, pointers)                           \
    POISSON_PRAGMA(omp parallel for simd schedule(static) num_threads(team_size)   \
                       if (parallel : (count) >= SMALL_WORK))                    \
    for (int64_t number = 0; number < (count); ++number)

// An operator outside of the regions that take it apart.
template <class T>
inline Local<T> local(const poisson_operator* operator_) {
    POISSON_OPERATOR(T, operator_, a);
    return POISSON_LOCAL(T, a);
}

// Flat regions work on single values, which the compiler packs.
template <class T>
using Unit = T;
template <class T>
inline int64_t units(int64_t values) {
    return values;
}
template <class T>
inline Unit<T> unit(T value) {
    return value;
}

// Three planes of a block of rows fill about a third of a megabyte, the better part of a core's L2 cache.
constexpr int64_t BLOCK_BYTES = 131072, PLANES = 32;
// Rows of a tile in 2D: some are computed together.
constexpr int64_t TILE_ROWS = 8;

// The tiles of the nodes of an operator. They do not depend on the number of threads, so neither do the sums that are
// made tile by tile.
struct Tiling {
    int64_t nx, mid, slowest, block, march, blocks, bands;

    template <class T>
    explicit Tiling(const Local<T>& a)
        : nx(a.nx),
          mid(a.dimension == 3 ? a.ny : 1),
          slowest(a.dimension == 3 ? a.nz : a.ny),
          block(BLOCK_BYTES / (a.pitch * int64_t(sizeof(T)))),
          march(a.dimension == 3 ? PLANES : TILE_ROWS) {
        block = block < 1 ? 1 : block;
        blocks = (mid + block - 1) / block;
        bands = (slowest + march - 1) / march;
    }
    int64_t count() const { return blocks * bands; }
    int64_t nodes() const { return nx * mid * slowest; }
    Tile tile(int64_t number) const {
        Tile t;
        t.first = 0;
        t.last = nx;
        t.low = number % blocks * block;
        t.high = t.low + block < mid ? t.low + block : mid;
        t.start = number / blocks * march;
        t.stop = t.start + march < slowest ? t.start + march : slowest;
        return t;
    }
};

template <class T>
inline Tiling tiling_by_node(const Local<T>& a) {
    return Tiling(a);
}

// Calls visit(j, k) for each row of a tile.
template <class T, class Visit>
inline void for_each_row(const Local<T>& a, const Tile& tile, Visit visit) {
    for (int64_t s = tile.start; s < tile.stop; ++s) {
        for (int64_t m = tile.low; m < tile.high; ++m) visit(a.dimension == 2 ? s : m, a.dimension == 2 ? 0 : s);
    }
}

// The groups of pairs of a result; every tile of a reduction leaves a pair of its own.
constexpr int64_t GROUPS = 256;
inline int64_t reduction_threads(int64_t tiles) { return tiles; }

#endif
