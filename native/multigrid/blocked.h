// What the sweeps of a pass work on: the nodes of an axis with their images, and one group of rows.
#ifndef POISSON_BLOCKED_H
#define POISSON_BLOCKED_H

#include <type_traits>

#include "multigrid/tiles.h"

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
