// Groups of rows of one level of a smoothing pass: a Jacobi sweep or the residual, at the nodes of a tile.
#ifndef POISSON_LEVELS_H
#define POISSON_LEVELS_H

#include "multigrid/blocked.h"
#include "operator/stencil.h"

// An axis whose nodes beyond a wrap face are images of those inside; a mirror face needs none, because both neighbours
// of a node on it are the inner one.
struct Reach {
    int64_t nodes;
    int32_t lower, upper;

    bool wraps() const { return lower == WRAP; }
    bool fixed(int64_t index) const { return (index == 0 && lower == FIXED) || (index == nodes - 1 && upper == FIXED); }
    // The node that an index is the image of.
    int64_t node(int64_t index) const {
        if (0 <= index && index < nodes) return index;
        return index - round_down(index, nodes);
    }
    int64_t before(int64_t index) const { return wraps() || index > 0 ? index - 1 : 1; }
    int64_t behind(int64_t index) const { return wraps() || index < nodes - 1 ? index + 1 : nodes - 2; }
    // Whether the indices [start, stop) and their neighbours are neither fixed nor on a mirror face.
    bool inner(Span span) const { return wraps() || (span.start > 0 && span.stop < nodes); }
    // A range with the `margin` nodes on each side, as far as there are any.
    Span around(Span inner, int64_t margin) const {
        if (wraps()) return {inner.start - margin, inner.stop + margin};
        return {std::max<int64_t>(inner.start - margin, 0), std::min(inner.stop + margin, nodes)};
    }
    // The links to the nodes on both sides; each has the number of its lower node.
    int64_t link_before(int64_t index) const { return wraps() ? node(index - 1) : index > 0 ? index - 1 : 0; }
    int64_t link_behind(int64_t index) const { return wraps() ? node(index) : std::min(index, nodes - 2); }
    // Where an index beyond a mirror face is seen.
    int64_t seen(int64_t index) const {
        if (wraps()) return index;
        return index < 0 ? -index : index < nodes ? index : 2 * (nodes - 1) - index;
    }
};

// The whole lines of columns that a level computes: `width` columns from `start` on. Those in [own, end) are the tile's
// own. `low` and `high` are the fixed columns, NOWHERE if there are none; `nodes` is where the row ends. If it is
// `closed` at its ends, `left` and `right` are the columns that the first and the last node have for neighbours.
struct Stretch {
    static constexpr int64_t NOWHERE = int64_t{1} << 40;
    int64_t start, width, own, end, low, high, nodes, left, right;

    bool begins() const { return start == 0; }
    bool ends() const { return start + width >= nodes; }
};

// G rows of a level along the slowest axis, all counted from column `start`: centre[g] and centre[g + 2] are the
// neighbours of centre[g + 1] there, lower[g] and upper[g] those along the middle axis.
template <int64_t G, class T>
struct Bundle {
    const T *centre[G + 2], *lower[G], *upper[G], *f[G];
    T *kept[G], *out[G];
};

// The coefficients of a bundle, counted as its rows: of the links along x that begin at its nodes, of those to the rows
// on both sides along the middle axis, and of those along the slowest axis: row g lies between slow[g] and slow[g + 1].
// Behind them c, which is null where it is constant.
template <int64_t G, class T>
struct BundleLinks {
    const T *x[G], *lower[G], *upper[G], *slow[G + 1], *c[G];
};

// What a level does: the relaxed values or the residual; whether they stay in the ring, and go to memory; whether the
// norms are wanted.
template <bool RESIDUAL_, bool KEPT_, bool OUT_, bool NORM_>
struct Task {
    static constexpr bool RESIDUAL = RESIDUAL_, KEPT = KEPT_, OUT = OUT_, NORM = NORM_;
};

template <class T>
inline void put_line(T* to, Line<T> line, bool stream) {
    if (stream)
        store_streaming(to, line);
    else
        store(to, line);
}

// The larger of what is there and the size of a value, lane by lane.
template <class T>
inline Line<T> larger_size(Line<T> largest, Line<T> value) {
#ifdef __AVX512F__
    if constexpr (sizeof(T) == 4)
        return Line<T>(_mm512_maskz_max_ps(0xffff, _mm512_abs_ps(__m512(value)), __m512(largest)));
    else
        return Line<T>(_mm512_maskz_max_pd(0xff, _mm512_abs_pd(__m512d(value)), __m512d(largest)));
#else
    const Line<T> size = value < T(0) ? -value : value;
    return size > largest ? size : largest;
#endif
}

// Sum of squares in float64, maximum in the type of the values.
template <class T>
struct LineNorms {
    Pack<double> sum = {};
    Line<T> largest = {};

    void add(Line<T> r) {
        Pack<T> part[WIDE<T> / LANES];
        static_assert(sizeof part == sizeof r);
        std::memcpy(part, &r, sizeof r);
        for (const Pack<T>& pack : part) {
            const Pack<double> x = __builtin_convertvector(pack, Pack<double>);
            sum += x * x;
        }
        largest = larger_size<T>(largest, r);
    }
    void join(double& total, double& maximum) const {
        for (int64_t lane = 0; lane < LANES; ++lane) total += sum[lane];
        for (int64_t lane = 0; lane < WIDE<T>; ++lane) maximum = largest[lane] > maximum ? largest[lane] : maximum;
    }
};

// The relaxed value where the coefficients vary: with A u = D u - N, N being what the neighbours add, it is
// (1 - omega) u + omega (f + N) / D.
template <int DIMENSION, Varies VARIES, class P>
inline P relaxed_varying(P centre, P f, const P (&neighbour)[6], const P (&link)[6], const P (&weight)[3], P c, P stay,
                         P omega) {
    P sum = f, diagonal = c;
    for (int axis = 0; axis < DIMENSION; ++axis) {
        const P lower = neighbour[2 * axis], upper = neighbour[2 * axis + 1];
        if constexpr (VARIES == LINKS) {
            sum += weight[axis] * (link[2 * axis] * lower + link[2 * axis + 1] * upper);
            diagonal += weight[axis] * (link[2 * axis] + link[2 * axis + 1]);
        } else {
            sum += weight[axis] * (lower + upper);
            diagonal += weight[axis] + weight[axis];
        }
    }
    return stay * centre + omega * sum / diagonal;
}

// The first sweep from zero of one row, counted from its column 0: omega f / diag(A).
template <int DIMENSION, Varies VARIES, class T>
inline void scale_row(const Local<T>& a, [[maybe_unused]] const BundleLinks<1, T>& links, T scale, const Stretch& at,
                      const T* f, T* row) {
    constexpr int64_t W = WIDE<T>;
    const Line<T> factor = spread<W>(scale);
    if constexpr (VARIES == NOTHING) {
        for (int64_t i = at.start; i < at.start + at.width; i += W) store(row + i, factor * load<W>(f + i));
        return;
    }
    const T slow_weight = DIMENSION == 3 ? a.weight_z : a.weight_y;
    const Line<T> weight_x = spread<W>(a.weight_x), weight_y = spread<W>(a.weight_y), slowest = spread<W>(slow_weight),
                  c = spread<W>(a.c),
                  uniform = spread<W>(2 * (a.weight_x + slow_weight + (DIMENSION == 3 ? a.weight_y : T(0))));
    for (int64_t i = at.start; i < at.start + at.width; i += W) {
        Line<T> diagonal = links.c[0] ? load<W>(links.c[0] + i) : c;
        if constexpr (VARIES == LINKS) {
            Line<T> upper = load<W>(links.x[0] + i), lower = load<W>(links.x[0] + i - 1);
            if (i == 0) lower[0] = links.x[0][link_below(0, a.nx, a.rule(0))];
            if (i + W >= a.nx && a.rule(1) != WRAP) {
                const Line<T> last = spread<W>(T(a.nx - 1 - i));
                upper = lane_numbers<T, W>() == last ? lower : upper;
            }
            diagonal += weight_x * (lower + upper);
            diagonal += slowest * (load<W>(links.slow[0] + i) + load<W>(links.slow[1] + i));
            if constexpr (DIMENSION == 3)
                diagonal += weight_y * (load<W>(links.lower[0] + i) + load<W>(links.upper[0] + i));
        } else {
            diagonal += uniform;
        }
        store(row + i, factor * load<W>(f + i) / diagonal);
    }
    // Behind the last node there may be no coefficients to divide by.
    if (at.ends()) std::fill(row + a.nx, row + at.start + at.width, T(0));
}

// The rows of memory that will be read soon: of f, u and the coefficients.
template <int DIMENSION, Varies VARIES>
constexpr int AHEAD = VARIES == NOTHING    ? 2
                      : VARIES == REACTION ? 3
                                           : 3 + DIMENSION;

// One level of a bundle; `ahead` are the AHEAD rows of memory that will be read soon. A line before the rows and one
// behind them are read too. On its own the function gets a loop without spills. The scale is omega / diag(A), or omega
// alone where the diagonal varies.
template <int DIMENSION, Varies VARIES, class K, int64_t G, class T>
__attribute__((noinline)) void visit_bundle(const Local<T>& a, const Bundle<G, T>& rows,
                                            [[maybe_unused]] const BundleLinks<G, T>& links, T scale,
                                            const Stretch& columns, bool stream, const T* const* ahead,
                                            LineNorms<T>& norms) {
    constexpr int64_t W = WIDE<T>;
    const Line<T> weight_x = spread<W>(a.weight_x), weight_y = spread<W>(a.weight_y), c = spread<W>(a.c),
                  factor = spread<W>(scale);
    [[maybe_unused]] const Line<T> weight_z = spread<W>(a.weight_z);
    // A sweep weighs the node and the sums of its neighbours: half of the additions that the residual takes, whose
    // differences keep its rounding error relative to what changes from node to node.
    const T diagonal = 2 * (a.weight_x + a.weight_y + (DIMENSION == 3 ? a.weight_z : T(0))) + a.c;
    const Line<T> stay = spread<W>(T(1) - (VARIES == NOTHING ? scale * diagonal : scale)), share_x = factor * weight_x,
                  share_y = factor * weight_y;
    [[maybe_unused]] const Line<T> share_z = factor * weight_z;
    constexpr int SOON = AHEAD<DIMENSION, VARIES>;
    const T* soon[SOON];
    std::copy(ahead, ahead + SOON, soon);
    const bool begins = columns.begins(), ends = columns.ends();
    const int64_t own = columns.own - columns.start, end = columns.end - columns.start;
    Line<T> before[G], here[G];
    [[maybe_unused]] Line<T> link_before[G];
    const Line<T> lane = lane_numbers<T, W>();
    LineNorms<T> sums = norms;
    for (int64_t g = 0; g < G; ++g) {
        const T* row = rows.centre[g + 1];
        before[g] = begins ? spread<W>(row[columns.left]) : load<W>(row - W);
        here[g] = load<W>(row);
        if constexpr (VARIES == LINKS)
            link_before[g] = begins ? spread<W>(links.x[g][link_below(0, a.nx, a.rule(0))]) : load<W>(links.x[g] - W);
    }
    const auto step = [&](int64_t i, auto at_an_end) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int n = 0; n < SOON; ++n) __builtin_prefetch(soon[n] + i);
        const Line<T> first = load<W>(rows.centre[0] + i), last = load<W>(rows.centre[G + 1] + i);
        Line<T> below = first;
#pragma GCC unroll 4
        for (int64_t g = 0; g < G; ++g) {
            const T* row = rows.centre[g + 1];
            const Line<T> centre = here[g], above = g + 1 < G ? here[g + 1] : last, behind = load<W>(row + i + W);
            Line<T> left, right = right_of(row + i, centre, behind);
            if constexpr (at_an_end) {
                left = load<W>(row + i - 1);
                if (begins && i == 0) left = lane == T(0) ? before[g] : left;
                const T last_lane = T(columns.nodes - 1 - columns.start - i);
                if (ends) right = lane == last_lane ? spread<W>(row[columns.right - columns.start]) : right;
            } else {
                left = left_of(row + i, before[g], centre);
            }
            const Line<T> f = load<W>(rows.f[g] + i);
            Line<T> value, lower = below, upper = above;
            if constexpr (DIMENSION == 3) lower = load<W>(rows.lower[g] + i), upper = load<W>(rows.upper[g] + i);
            if constexpr (VARIES != NOTHING) {
                const Line<T> weight[3] = {weight_x, weight_y, weight_z};
                const Line<T> c_here = links.c[g] ? load<W>(links.c[g] + i) : c;
                Line<T> link[6] = {}, neighbour[6] = {left, right, lower, upper};
                if constexpr (DIMENSION == 3) neighbour[4] = below, neighbour[5] = above;
                if constexpr (VARIES == LINKS) {
                    [[maybe_unused]] const Line<T> from = link_before[g];
                    link[1] = load<W>(links.x[g] + i);
                    link[0] = left_of(links.x[g] + i, from, link[1]);
                    link_before[g] = link[1];
                    if constexpr (at_an_end) {
                        if (begins && i == 0) link[0] = lane == T(0) ? from : link[0];
                        const T last_lane = T(columns.nodes - 1 - columns.start - i);
                        if (ends && a.rule(1) != WRAP) link[1] = lane == last_lane ? link[0] : link[1];
                    }
                    constexpr int SLOWEST = 2 * (DIMENSION - 1);
                    link[SLOWEST] = load<W>(links.slow[g] + i);
                    link[SLOWEST + 1] = load<W>(links.slow[g + 1] + i);
                    if constexpr (DIMENSION == 3)
                        link[2] = load<W>(links.lower[g] + i), link[3] = load<W>(links.upper[g] + i);
                }
                if constexpr (K::RESIDUAL)
                    value = f - apply_varying<DIMENSION, VARIES>(centre, neighbour, link, weight, c_here).au;
                else
                    value =
                        relaxed_varying<DIMENSION, VARIES>(centre, f, neighbour, link, weight, c_here, stay, factor);
            } else if constexpr (!K::RESIDUAL) {
                value = factor * f + stay * centre + share_x * (left + right) + share_y * (lower + upper);
                if constexpr (DIMENSION == 3) value += share_z * (below + above);
            } else if constexpr (DIMENSION == 2) {
                value = f - apply_operator(centre, left, right, lower, upper, weight_x, weight_y, c);
            } else {
                value = f - apply_operator(centre, left, right, lower, upper, below, above, weight_x, weight_y,
                                           weight_z, c);
            }
            if constexpr (at_an_end) {
                const int64_t place = columns.start + i;
                const auto free = (lane > T(columns.low - place)) & (lane < T(columns.high - place));
                const auto inside = lane < T(columns.nodes - place);
                value = free ? value : K::RESIDUAL ? Line<T>{} : centre;
                value = inside ? value : Line<T>{};
            }
            if (K::KEPT) store(rows.kept[g] + i, value);
            if (K::OUT && own <= i && i < end) put_line(rows.out[g] + i, value, stream);
            if (K::NORM && own <= i && i < end) sums.add(value);
            below = centre;
            before[g] = centre;
            here[g] = behind;
        }
    };
    step(0, std::true_type());
    for (int64_t i = W; i < columns.width - W; i += W) step(i, std::false_type());
    if (columns.width > W) step(columns.width - W, std::true_type());
    norms = sums;
}

#endif
