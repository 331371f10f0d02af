// SPDX-License-Identifier: MIT
// The difference that a node of a line takes: central, or one-sided near a face.
#ifndef POISSON_DIFFERENCES_H
#define POISSON_DIFFERENCES_H

#include "core/regions.h"

// The index of a node up to n nodes before the first or behind the last of a periodic line.
inline int64_t wrapped(int64_t i, int64_t n) { return i < 0 ? i + n : i < n ? i : i - n; }

// How far the weights of a tabulated axis lie apart: they begin at whole packs.
inline int64_t table_stride(int64_t n) { return (n + 7) / 8 * 8; }

// A line of n nodes along an axis.
template <class T>
struct Line {
    int64_t n;
    bool wraps;
    T scale;
    const double* table;  // of a tabulated axis

    // The weight of the m-th of the nodes that the node s takes.
    const double& weight(int64_t m, int64_t s) const { return table[m * table_stride(n) + s]; }

    // From node to node, where they lie so far apart. The neighbours of a single node are that node, however often an
    // index is wrapped.
    int64_t stride(int64_t apart) const { return n > 1 ? apart : 0; }
    bool near_face(int64_t s, int64_t half) const { return !wraps && (s < half || s >= n - half); }
};

// The derivative at the node s of a line, or of several neighbouring lines; at(s) is the value there.
template <int HALF, class T, class At>
inline auto derivative_at(const Line<T>& line, int64_t s, const T* central, const double* closure, At at) {
    constexpr int POINTS = 2 * HALF + 1;
    if (line.near_face(s, HALF)) {
        const bool upper = s >= HALF;
        const int64_t last = line.n - 1;
        const double* weight = closure + POINTS * (upper ? last - s : s);
        const auto centre = at(s);
        auto sum = centre - centre;
        // Not unrolled: these nodes are few, and the registers of a GPU's thread would have to hold all the values.
#pragma GCC unroll 1
        for (int j = 0; j < POINTS; ++j)
            sum += one_sided_difference<1, T>(weight + j, centre, [&](int) { return at(upper ? last - j : j); });
        return (upper ? -line.scale : line.scale) * sum;
    }
    return line.scale * central_difference<HALF>(central, [&](int m) { return at(wrapped(s + m, line.n)); });
}

// The first of the nodes that the derivative at the node s of a line takes: `half` below it, or as far as the face.
template <class T>
inline int64_t first_of(const Line<T>& line, int64_t s, int64_t half) {
    const int64_t first = s - half, last = line.n - 1 - 2 * half;
    return line.wraps ? first : first < 0 ? 0 : first < last ? first : last;
}

// The same along a tabulated axis.
template <int HALF, class T, class At>
inline auto tabulated_derivative_at(const Line<T>& line, int64_t s, At at) {
    const int64_t first = first_of(line, s, HALF);
    const auto centre = at(s);
    auto sum = centre - centre;
    for (int m = 0; m <= 2 * HALF; ++m) sum += T(line.weight(m, s)) * (at(wrapped(first + m, line.n)) - centre);
    return sum;
}

inline bool wraps_along(const poisson_differences* d, int axis) { return d->wraps[axis] & 1; }

// The table of an axis in the array of all weights, or none.
inline const double* table_along(const poisson_differences* d, int axis) {
    const int64_t points = 2 * d->half + 1;
    const double* table = d->weights + table_stride(d->half * (1 + points));
    for (int before = 0; before < axis; ++before)
        if (d->wraps[before] & 2) table += points * table_stride(d->shape[before]);
    return d->wraps[axis] & 2 ? table : nullptr;
}

#endif
