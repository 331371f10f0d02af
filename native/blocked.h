// What the sweeps of a pass work on: the nodes of an axis with their images, the tiles, and one group of rows.
#ifndef POISSON_BLOCKED_H
#define POISSON_BLOCKED_H

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "regions.h"

constexpr int64_t round_down(int64_t value, int64_t step) { return value - (value % step + step) % step; }
constexpr int64_t round_up(int64_t value, int64_t step) { return -round_down(-value, step); }
constexpr int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// A cache line of neighbouring nodes.
template <class T>
constexpr int64_t WIDE = 64 / sizeof(T);
template <class T>
using Line = Pack<T, WIDE<T>>;

// The range of indices [start, stop).
struct Span {
    int64_t start, stop;

    bool holds(int64_t index) const { return start <= index && index < stop; }
};

// The indices of an axis, and of the images of its nodes beyond mirror and wrap faces. `low` and `high` are the nearest
// fixed nodes, images among them.
struct Axis {
    static constexpr int64_t NOWHERE = int64_t{1} << 60;
    int64_t nodes, low, high;
    bool wraps;

    Axis(int64_t n, int32_t lower, int32_t upper)
        : nodes(n),
          low(lower == FIXED                      ? 0
              : lower == MIRROR && upper == FIXED ? 1 - n
                                                  : -NOWHERE),
          high(upper == FIXED                      ? n - 1
               : upper == MIRROR && lower == FIXED ? 2 * (n - 1)
                                                   : NOWHERE),
          wraps(lower == WRAP) {}

    bool fixed(int64_t index) const { return index == low || index == high; }
    // The node that an index is the image of.
    int64_t node(int64_t index) const {
        if (0 <= index && index < nodes) return index;
        const int64_t period = wraps ? nodes : 2 * (nodes - 1), place = index - round_down(index, period);
        return place < nodes ? place : period - place;
    }
    // A range with the `margin` nodes on each side, as far as there are any.
    Span around(Span inner, int64_t margin) const {
        return {std::max(inner.start - margin, low), std::min(inner.stop + margin, high + 1)};
    }
};

// The most sweeps of a pass, and the most columns, bytes of a plane and rows or planes to march of a tile. In 2D a
// group of rows of two levels stays in the core's first cache and the rings in its second one. In 3D the rings take
// 5 MB of the cache that the cores share: tiles that fit in the second cache would be so small that the nodes computed
// twice, and the short rows read from memory, cost what the pass saves.
template <int DIMENSION, class T>
struct Limits {
    static constexpr int64_t DEPTH = DIMENSION == 2 ? 16 : 8, COLUMNS = (DIMENSION == 2 ? 2048 : 4096) / sizeof(T);
    static constexpr int64_t PLANE = 131072, MARCH = DIMENSION == 2 ? 1024 : 256;
};

// The tiles of a pass, of about equal sizes. They do not depend on the number of threads, so neither do the sums that
// are made tile by tile.
template <int DIMENSION, class T>
struct Blocks {
    int64_t nx, mid, slowest, width, rows, march, columns, blocks, bands;

    explicit Blocks(const Local<T>& a)
        : nx(a.nx), mid(DIMENSION == 3 ? a.ny : 1), slowest(DIMENSION == 3 ? a.nz : a.ny) {
        using Most = Limits<DIMENSION, T>;
        width = round_up(divide_up(nx, divide_up(nx, Most::COLUMNS)), WIDE<T>);
        columns = divide_up(nx, width);
        const int64_t most = std::max<int64_t>(1, Most::PLANE / (width * int64_t(sizeof(T))));
        rows = divide_up(mid, divide_up(mid, most));
        blocks = divide_up(mid, rows);
        march = divide_up(slowest, divide_up(slowest, Most::MARCH));
        bands = divide_up(slowest, march);
    }
    int64_t count() const { return columns * blocks * bands; }
    Tile tile(int64_t number) const {
        const int64_t first = number % columns * width, rest = number / columns;
        const int64_t low = rest % blocks * rows, start = rest / blocks * march;
        return {first, std::min(first + width, nx),     low, std::min(low + rows, mid),
                start, std::min(start + march, slowest)};
    }
};

// G rows of one level along the slowest axis: centre[g] and centre[g + 2] are the neighbours of centre[g + 1] there,
// lower[g] and upper[g] those along the middle axis. What is read of f goes to `kept` too.
template <int64_t G, class T>
struct Group {
    const T *centre[G + 2], *lower[G], *upper[G], *f[G];
    T *out[G], *kept[G];
};

// The first level keeps f for the others; the last one goes to memory, around the cache or not, and has the norms.
template <bool KEEP_, bool LAST_, bool NORM_, bool STREAM_>
struct Level {
    static constexpr bool KEEP = KEEP_, LAST = LAST_, NORM = NORM_, STREAM = STREAM_;
};

// The columns of a group, numbered from the first of them: those between `low` and `high` are not fixed, those from
// `end` on lie beyond the tile.
struct Columns {
    int64_t width, low, high, end;
};

// The neighbours on one side of the nodes at `at`. Loads that cross a cache line cost more than shuffles, where one
// instruction shuffles a line.
#ifdef __AVX512F__
#ifdef __clang__
#define POISSON_LANES_OF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define POISSON_LANES_OF(a, b, ...) __builtin_shuffle(a, b, decltype(a < b){__VA_ARGS__})
#endif
inline Line<double> left_of(const double*, Line<double> before, Line<double> here) {
    return POISSON_LANES_OF(before, here, 7, 8, 9, 10, 11, 12, 13, 14);
}
inline Line<double> right_of(const double*, Line<double> here, Line<double> behind) {
    return POISSON_LANES_OF(here, behind, 1, 2, 3, 4, 5, 6, 7, 8);
}
inline Line<float> left_of(const float*, Line<float> before, Line<float> here) {
    return POISSON_LANES_OF(before, here, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
}
inline Line<float> right_of(const float*, Line<float> here, Line<float> behind) {
    return POISSON_LANES_OF(here, behind, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
}
#undef POISSON_LANES_OF
#else
template <class T>
inline Line<T> left_of(const T* at, Line<T>, Line<T>) {
    return load<WIDE<T>>(at - 1);
}
template <class T>
inline Line<T> right_of(const T* at, Line<T>, Line<T>) {
    return load<WIDE<T>>(at + 1);
}
#endif

template <class T>
inline void add_norms(PackNorms& norms, Line<T> r) {
    Pack<T> part[WIDE<T> / LANES];
    static_assert(sizeof part == sizeof r);
    std::memcpy(part, &r, sizeof r);
    for (const Pack<T>& pack : part) norms.add<T>(pack);
}

// One sweep of a group of rows; `ahead` is a row of memory that will be read soon. A line before the rows and one
// behind them are read too. On its own the function gets a loop without spills; within its caller it ran half as fast.
template <int DIMENSION, class L, int64_t G, class T>
__attribute__((noinline)) void relax_group(const Local<T>& a, const Group<G, T>& rows, T scale, const Columns& columns,
                                           const T* ahead, PackNorms& norms) {
    constexpr int64_t W = WIDE<T>;
    const Line<T> weight_x = spread<W>(a.weight_x), weight_y = spread<W>(a.weight_y), c = spread<W>(a.c),
                  factor = spread<W>(scale);
    [[maybe_unused]] const Line<T> weight_z = spread<W>(a.weight_z);
    Line<T> before[G], here[G];
    for (int64_t g = 0; g < G; ++g) {
        before[g] = load<W>(rows.centre[g + 1] - W);
        here[g] = load<W>(rows.centre[g + 1]);
    }
    const auto step = [&](int64_t i, auto at_an_end) __attribute__((always_inline)) {
        __builtin_prefetch(ahead + i);
        const Line<T> first = load<W>(rows.centre[0] + i), last = load<W>(rows.centre[G + 1] + i);
        Line<T> below = first;
#pragma GCC unroll 4
        for (int64_t g = 0; g < G; ++g) {
            const Line<T> centre = here[g], above = g + 1 < G ? here[g + 1] : last,
                          behind = load<W>(rows.centre[g + 1] + i + W);
            const Line<T> left = left_of(rows.centre[g + 1] + i, before[g], centre),
                          right = right_of(rows.centre[g + 1] + i, centre, behind);
            Line<T> au;
            if constexpr (DIMENSION == 2)
                au = apply_operator(centre, left, right, below, above, weight_x, weight_y, c);
            else
                au = apply_operator(centre, left, right, load<W>(rows.lower[g] + i), load<W>(rows.upper[g] + i), below,
                                    above, weight_x, weight_y, weight_z, c);
            const Line<T> f = load<W>(rows.f[g] + i);
            if (L::KEEP) store(rows.kept[g] + i, f);
            Line<T> r = f - au;
            Line<T> value = relax(centre, r, factor);
            if constexpr (at_an_end) {
                const Line<T> column = lane_numbers<T, W>() + T(i);
                const auto free = (column > T(columns.low)) & (column < T(columns.high)),
                           inside = column < T(columns.end);
                value = free ? value : centre;
                if (L::LAST) value = inside ? value : Line<T>{};
                r = (free & inside) ? r : Line<T>{};
            }
            if (L::STREAM)
                store_streaming(rows.out[g] + i, value);
            else
                store(rows.out[g] + i, value);
            if (L::NORM) add_norms<T>(norms, r);
            below = centre;
            before[g] = centre;
            here[g] = behind;
        }
    };
    step(0, std::true_type());
    for (int64_t i = W; i < columns.width - W; i += W) step(i, std::false_type());
    if (columns.width > W) step(columns.width - W, std::true_type());
}

#endif
