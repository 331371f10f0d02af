// SPDX-License-Identifier: MIT
// First derivatives on a GPU: how threads go along the lines of an axis.
//
// Along y and z a thread owns a pack of neighbouring lines and marches along them with the packs of the difference in
// registers, so that each is read once. Along x the packs beside its own come through the cache. A gradient in 2D is
// one launch, whose threads march along y and take the derivative along x on their way. In 3D it is one for each axis;
// a kernel for all three was 6% faster on an H200, not enough for a third way to march.
//
// Along x a row has inner packs, which have all the packs that they need in the row, and two edges, which go a node at
// a time.
#ifndef POISSON_LINES_H
#define POISSON_LINES_H

#include <type_traits>

#include "derivatives/differences.h"

// Rows of a thread along x, and how many rows have their loads under way together.
constexpr int32_t ROWS_ALONG_X = 4, TOGETHER_ALONG_X = 2, TOGETHER = 4, TOGETHER_WITH_ANOTHER = 1;
// Nodes of a march along one axis: many, because each begins with the nodes before it. Where there would be fewer
// threads than fill a device, it is shorter.
constexpr int32_t LONG_MARCH = 128, SHORT_MARCH = 8;
constexpr int64_t FULL_DEVICE = 1 << 17;

template <int32_t N>
using Batch = std::integral_constant<int32_t, N>;

inline int64_t pieces(int64_t n, int64_t length) { return (n + length - 1) / length; }

// The weights of the differences in the registers of a thread.
template <int HALF, class T>
struct Weights {
    T central[HALF];
    const double* closure;

    explicit Weights(const double* weights) : closure(weights + HALF) {
#pragma GCC unroll 8
        for (int32_t m = 0; m < HALF; ++m) central[m] = T(load_constant_value(weights + m));
    }
};

// ---- along x

// A row in packs: those beside a pack that hold its neighbours, and the most nodes of its edges.
template <int HALF, class T>
struct Row {
    static constexpr int32_t SIDE = (HALF + WIDTH<T> - 1) / WIDTH<T>, LOWER = SIDE * WIDTH<T>,
                             EDGE = 2 * LOWER + WIDTH<T> - 1;

    static bool is_inner(int64_t i, int64_t nx) { return i >= LOWER && i + LOWER + WIDTH<T> <= nx; }
    // Whether some of the nodes from `start` to `stop` are in an edge.
    static bool has_edge(int64_t start, int64_t stop, int64_t nx) {
        return start < LOWER || stop > nx - LOWER - WIDTH<T>;
    }
    // The m-th of the EDGE nodes that no inner pack has; there may be fewer in the row.
    static int64_t edge_node(int32_t m, int64_t nx) {
        const int64_t inner = nx / WIDTH<T> * WIDTH<T> - LOWER;
        return m < LOWER ? m : (inner > LOWER ? inner : LOWER) + m - LOWER;
    }
};

// An inner pack and those beside it.
template <int HALF, class T>
struct Window {
    static constexpr int32_t SIDE = Row<HALF, T>::SIDE;
    Pack<T> packs[2 * SIDE + 1];

    void load_around(const T* at) {
#pragma GCC unroll 16
        for (int32_t q = 0; q <= 2 * SIDE; ++q) packs[q] = load_constant(at + WIDTH<T> * (q - SIDE));
    }
    Pack<T> derivatives(T scale, const T* central) const {
        Pack<T> out;
#pragma GCC unroll 8
        for (int32_t lane = 0; lane < WIDTH<T>; ++lane) {
            const int32_t place = SIDE * WIDTH<T> + lane;
            out[lane] = scale * central_difference<HALF>(central, [&](int m) {
                            return packs[(place + m) / WIDTH<T>][(place + m) % WIDTH<T>];
                        });
        }
        return out;
    }
};

// The derivative at the m-th node of the edges of a row, if it is one of those from `start` to `stop`.
template <int HALF, class T>
inline void derive_edge_node(const Line<T>& line, const Weights<HALF, T>& weights, int32_t m, int64_t start,
                             int64_t stop, const T* row, T* out) {
    const int64_t i = Row<HALF, T>::edge_node(m, line.n);
    if (i < start || i >= stop || i >= line.n) return;
    out[i] = derivative_at<HALF>(line, i, weights.central, weights.closure,
                                 [=](int64_t index) { return load_constant_value(row + index); });
}

// A team has a piece of some rows, as long as the longest where no thread is spared by a shorter one. Its threads share
// the edges, a node to each: if those beside an edge took it, their warp would wait for them row after row.
template <int HALF, class T>
poisson_status derive_along_x(const poisson_differences* d, const T* u, T* out) {
    const int64_t nx = d->shape[0], rows = d->shape[1] * d->shape[2], pitch = d->pitch, packs = pieces(nx, WIDTH<T>);
    const int64_t side = pieces(packs, TEAM) * TEAM == pieces(packs, TEAM_X) * TEAM_X ? TEAM : TEAM_X;
    const int64_t tiles = pieces(packs, side), threads = TEAM * tiles * pieces(rows, TEAM / side * ROWS_ALONG_X);
    const int64_t wraps = wraps_along(d, 0);
    const T scale = T(d->scale[0]);
    const double* table = d->weights;
    POISSON_THREADS(number, threads, nx * rows, (nx, rows, pitch, side, tiles, wraps, scale), (table, u, out)) {
        const Weights<HALF, T> weights(table);
        const Line<T> line = {nx, wraps != 0, scale, nullptr};
        const int32_t team = int32_t(number / TEAM), thread = int32_t(number % TEAM), across = int32_t(side);
        const int32_t group = team / int32_t(tiles), step = TEAM / across, each = step * ROWS_ALONG_X;
        const int64_t start = int64_t(team - group * int32_t(tiles)) * across * WIDTH<T>;
        const int64_t stop = start + across * WIDTH<T>, first = int64_t(group) * each;
        const int32_t count = first + each < rows ? each : int32_t(rows - first);
        const int64_t i = start + thread % across * WIDTH<T>;
        if (Row<HALF, T>::is_inner(i, nx)) {
            const int64_t leap = pitch * step;
            const T* at = u + pitch * (first + thread / across) + i;
            T* to = out + pitch * (first + thread / across) + i;
            const auto visit_rows = [&](auto together) {
                constexpr int32_t ROWS = decltype(together)::value;
                Window<HALF, T> window[ROWS];
#pragma GCC unroll 8
                for (int32_t n = 0; n < ROWS; ++n, at += leap) window[n].load_around(at);
#pragma GCC unroll 8
                for (int32_t n = 0; n < ROWS; ++n, to += leap)
                    store_streaming(to, window[n].derivatives(scale, weights.central));
            };
            int32_t row = thread / across;
#pragma GCC unroll 1
            for (; row + (TOGETHER_ALONG_X - 1) * step < count; row += TOGETHER_ALONG_X * step)
                visit_rows(Batch<TOGETHER_ALONG_X>{});
#pragma GCC unroll 1
            for (; row < count; row += step) visit_rows(Batch<1>{});
        }
        if (Row<HALF, T>::has_edge(start, stop, nx)) {
            constexpr int32_t EDGE = Row<HALF, T>::EDGE;
#pragma GCC unroll 1
            for (int32_t k = thread; k < EDGE * count; k += TEAM) {
                const int64_t row = pitch * (first + k / EDGE);
                derive_edge_node<HALF>(line, weights, k % EDGE, start, stop, u + row, out + row);
            }
        }
    }
    return POISSON_SUCCESS;
}

// ---- along y and z

// Calls emit(s, derivatives) for the nodes `first` to `last` - 1 of the lines of a pack. Loads of TOGETHER_ rows are
// under way together.
template <int32_t TOGETHER_, int HALF, class T, class Emit>
inline void march_along(const Line<T>& line, const Weights<HALF, T>& weights, int32_t first, int32_t last,
                        int64_t stride, const T* lines, Emit emit) {
    const int32_t n = int32_t(line.n), behind = n - HALF;
    const int32_t begin = line.wraps || first > HALF ? first : HALF, end = line.wraps || last < behind ? last : behind;
    if (begin > first || end < last) {
#pragma GCC unroll 1
        for (int32_t s = first; s < last; ++s) {
            if (line.near_face(s, HALF))
                emit(s, derivative_at<HALF>(line, s, weights.central, weights.closure,
                                            [=](int64_t index) { return load_constant(lines + stride * index); }));
        }
    }
    if (begin >= end) return;
    Pack<T> ring[2 * HALF + TOGETHER_];
#pragma GCC unroll 16
    for (int32_t q = 0; q < 2 * HALF; ++q) ring[q] = load_constant(lines + stride * wrapped(begin + q - HALF, n));
    const T* const past = lines + stride * n;
    const T* next = lines + stride * wrapped(begin + HALF, n);
    const auto visit_rows = [&](auto together, int32_t s) {
        constexpr int32_t ROWS = decltype(together)::value;
#pragma GCC unroll 8
        for (int32_t row = 0; row < ROWS; ++row) {
            ring[2 * HALF + row] = load_constant(next);
            next = next + stride == past ? lines : next + stride;
        }
#pragma GCC unroll 8
        for (int32_t row = 0; row < ROWS; ++row) {
            emit(s + row,
                 line.scale * central_difference<HALF>(weights.central, [&](int m) { return ring[HALF + row + m]; }));
        }
#pragma GCC unroll 16
        for (int32_t q = 0; q < 2 * HALF; ++q) ring[q] = ring[q + ROWS];
    };
    int32_t s = begin;
#pragma GCC unroll 1
    for (; s + TOGETHER_ <= end; s += TOGETHER_) visit_rows(Batch<TOGETHER_>{}, s);
    if constexpr (TOGETHER_ > 1) {
#pragma GCC unroll 1
        for (; s < end; ++s) visit_rows(Batch<1>{}, s);
    }
}

// Threads lie in the order of memory: packs, then the marches of a plane or its rows.
template <int HALF, class T>
poisson_status derive_across(const poisson_differences* d, int32_t axis, const T* u, T* out) {
    const int64_t row = d->pitch, plane = row * d->shape[1], packs = pieces(d->shape[0], WIDTH<T>);
    const int64_t n = d->shape[axis], stride = n == 1 ? 0 : axis == 1 ? row : plane;
    const int64_t others = d->shape[3 - axis], other_stride = axis == 1 ? plane : row;
    int64_t length = LONG_MARCH;
    while (length > SHORT_MARCH && packs * others * pieces(n, length) < FULL_DEVICE) length /= 2;
    const int64_t marches = pieces(n, length), threads = packs * others * marches, wraps = wraps_along(d, axis);
    const T scale = T(d->scale[axis]);
    const double* table = d->weights;
    POISSON_THREADS(number, threads, d->shape[0] * n * others,
                    (packs, n, stride, others, other_stride, length, marches, wraps, scale), (table, u, out)) {
        const uint32_t rest = uint32_t(number) / uint32_t(packs), column = uint32_t(number) - rest * uint32_t(packs);
        const bool marches_first = stride < other_stride;
        const uint32_t inner = uint32_t(marches_first ? marches : others), outer = rest / inner;
        const uint32_t within = rest - outer * inner;
        const int64_t place = other_stride * (marches_first ? outer : within) + int64_t(column) * WIDTH<T>;
        const int32_t first = int32_t(marches_first ? within : outer) * int32_t(length);
        const int32_t last = int32_t(first + length < n ? first + length : n);
        T* const to = out + place;
        march_along<TOGETHER>(Line<T>{n, wraps != 0, scale, nullptr}, Weights<HALF, T>(table), first, last, stride,
                              u + place, [=](int32_t s, Pack<T> pack) { store_streaming(to + stride * s, pack); });
    }
    return POISSON_SUCCESS;
}

// ---- two axes

// The derivatives along both axes of a plane.
template <int HALF, class T>
poisson_status derive_plane(const poisson_differences* d, const poisson_operator* grid, const T* u, T* out_x,
                            T* out_y) {
    POISSON_OPERATOR(T, grid, a);
    const double* table = d->weights;
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t threads = all.count();
    POISSON_THREADS(number, threads, all.nodes(), (POISSON_PARTS(a)), (table, u, out_x, out_y)) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Tile tile = Tiling(local).tile(number);
        const int64_t i = tile.first, nx = local.nx, pitch = local.pitch;
        if (tile.start < tile.stop) {
            const Weights<HALF, T> weights(table);
            const Line<T> along_x = {nx, local.rule(0) == WRAP, local.weight_x, nullptr};
            const Line<T> along_y = {local.ny, local.rule(2) == WRAP, local.weight_y, nullptr};
            // The threads beside this one, which share the edges of its rows.
            const int32_t thread = int32_t(number % TEAM_X);
            const int64_t start = i - thread * WIDTH<T>, stop = start + TEAM_X * WIDTH<T>;
            const int32_t sharing = int32_t(stop <= nx ? TEAM_X : pieces(nx - start, WIDTH<T>));
            const bool inner = Row<HALF, T>::is_inner(i, nx), edge = Row<HALF, T>::has_edge(start, stop, nx);
            march_along<TOGETHER_WITH_ANOTHER>(
                along_y, weights, int32_t(tile.start), int32_t(tile.stop), along_y.stride(pitch), u + i,
                [&](int32_t j, Pack<T> across) {
                    const int64_t row = pitch * j;
                    if (inner) {
                        Window<HALF, T> window;
                        window.load_around(u + row + i);
                        store_streaming(out_x + row + i, window.derivatives(along_x.scale, weights.central));
                    }
                    if (edge) {
                        for (int32_t m = thread; m < Row<HALF, T>::EDGE; m += sharing)
                            derive_edge_node<HALF>(along_x, weights, m, start, stop, u + row, out_x + row);
                    }
                    store_streaming(out_y + row + i, across);
                });
        }
    }
    return POISSON_SUCCESS;
}

#endif
