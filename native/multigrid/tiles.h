// SPDX-License-Identifier: MIT
// The tiles of the passes over memory that several sweeps share, of about equal sizes. They do not depend on the number
// of threads, so neither do the sums that are made tile by tile.
#ifndef POISSON_TILES_H
#define POISSON_TILES_H

#include <algorithm>
#include <cstdint>

#include "core/regions.h"

constexpr int64_t round_down(int64_t value, int64_t step) { return value - (value % step + step) % step; }
constexpr int64_t round_up(int64_t value, int64_t step) { return -round_down(-value, step); }
constexpr int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// A cache line of neighbouring nodes.
template <class T>
constexpr int64_t WIDE = 64 / sizeof(T);
template <class T>
using Line = Pack<T, WIDE<T>>;

// Asks for a row that will be written: a store of a line that is in no cache waits as long as a load.
template <class T>
inline void ask_to_write(T* row, int64_t nodes) {
    for (int64_t i = 0; i < nodes; i += WIDE<T>) __builtin_prefetch(row + i, 1, 3);
}

// The range of indices [start, stop).
struct Span {
    int64_t start, stop;

    bool holds(int64_t index) const { return start <= index && index < stop; }
};

// A tile has `width` columns, `rows` of the middle axis and `march` rows or planes of the slowest axis.
struct Tiles {
    int64_t nx, mid, slowest, width, rows, march, columns, blocks, bands;

    int64_t count() const { return columns * blocks * bands; }
    Tile tile(int64_t number) const {
        const int64_t first = number % columns * width, rest = number / columns;
        const int64_t low = rest % blocks * rows, start = rest / blocks * march;
        return {first, std::min(first + width, nx),     low, std::min(low + rows, mid),
                start, std::min(start + march, slowest)};
    }

protected:
    template <class T>
    explicit Tiles(const Local<T>& a)
        : nx(a.nx), mid(a.dimension == 3 ? a.ny : 1), slowest(a.dimension == 3 ? a.nz : a.ny) {}

    // At least so many parts of each axis; columns come in whole lines.
    template <class T>
    void cut_columns(int64_t parts) {
        width = round_up(divide_up(nx, parts), WIDE<T>);
        columns = divide_up(nx, width);
    }
    void cut_rows(int64_t parts) {
        rows = divide_up(mid, parts);
        blocks = divide_up(mid, rows);
    }
    void cut_march(int64_t parts) {
        march = divide_up(slowest, parts);
        bands = divide_up(slowest, march);
    }
};

// The most sweeps of a pass of `sweeps`, and the most columns, bytes of a plane and rows or planes to march of a tile.
// In 2D a group of rows of a stage stays in the core's first cache and the rings in its second one; with fewer columns
// it would take longer to prepare short rows than the first cache saves. In 3D the rings take 5 MB of the cache that
// the cores share: tiles that fit in the second cache would be so small that the nodes computed twice, and the short
// rows read from memory, cost what the pass saves.
template <int DIMENSION, class T>
struct Limits {
    static constexpr int32_t DEPTH = DIMENSION == 2 ? 16 : 8;
    static constexpr int64_t COLUMNS = (DIMENSION == 2 ? 3072 : 4096) / sizeof(T), PLANE = 131072,
                             MARCH = DIMENSION == 2 ? 1024 : 256;
};

template <int DIMENSION, class T>
struct Blocks : Tiles {
    explicit Blocks(const Local<T>& a) : Tiles(a) {
        using Most = Limits<DIMENSION, T>;
        cut_columns<T>(divide_up(nx, Most::COLUMNS));
        cut_rows(divide_up(mid, std::max<int64_t>(1, Most::PLANE / (width * int64_t(sizeof(T))))));
        cut_march(divide_up(slowest, Most::MARCH));
    }
};

// The tiles of `smooth`: as many as TILES, unless they would march along fewer than MARCH rows or planes, since the
// nodes around a tile are computed twice; two from FOR_TWO rows or planes on, for two threads; more where rows or
// planes have more bytes than the caches of a core take.
template <int DIMENSION, class T>
struct SmoothingTiles : Tiles {
    explicit SmoothingTiles(const Local<T>& a) : Tiles(a) {
        // A row that wraps is whole, so that its ends have each other.
        cut_columns<T>(a.rule(0) == WRAP ? 1 : divide_up(nx, ROW_BYTES / int64_t(sizeof(T))));
        cut_rows(even(divide_up(mid, std::max<int64_t>(1, PLANE_BYTES / (width * int64_t(sizeof(T)))))));
        const int64_t wanted = divide_up(TILES, columns * blocks);
        cut_march(even(std::min(wanted, std::max<int64_t>(slowest / MARCH, slowest < FOR_TWO ? 1 : 2))));
    }

private:
    // So that two threads have as much to do.
    static int64_t even(int64_t count) { return count > 1 ? round_up(count, 2) : 1; }

    static constexpr int64_t ROW_BYTES = 12288, PLANE_BYTES = 131072, TILES = DIMENSION == 2 ? 16 : 8,
                             MARCH = DIMENSION == 2 ? 96 : 48, FOR_TWO = DIMENSION == 2 ? 192 : 64;
};

#endif
