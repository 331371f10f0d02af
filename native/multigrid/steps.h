// SPDX-License-Identifier: MIT
// One step of a pass at a few rows of nodes: a Jacobi sweep or the residual, and what goes with it.
#ifndef POISSON_STEPS_H
#define POISSON_STEPS_H

#include <type_traits>

#include "multigrid/row_tables.h"
#include "multigrid/shuffles.h"

// The whole lines of columns that a stage computes: `width` columns from `start` on. Those in [own, end) are the tile's
// own. `low` and `high` are the fixed columns, NOWHERE if there are none; from `nodes` on there are none to compute. If
// a row `begins` or `ends` in them, `left` and `right` are the columns that its first and its last node have for
// neighbours.
struct Stretch {
    static constexpr int64_t NOWHERE = int64_t{1} << 40;
    int64_t start, width, own, end, low, high, nodes, left, right;
    bool begins, ends;
};

// The most rows of a stage that are computed together.
constexpr int64_t MOST_ROWS = 4;

// Some rows of a stage along the slowest axis, all counted from column `start`: centre[g] and centre[g + 2] are the
// neighbours of centre[g + 1] there, lower[g] and upper[g] those along the middle axis. `to` is where the values go,
// `also` a second place for the tile's own columns. `soon` are rows of memory that will be read soon.
//
// Where coefficients vary: those of the links along x that begin at the nodes, of those to the rows on both sides along
// the middle axis, and of those along the slowest axis, where row g lies between slow[g] and slow[g + 1]. `c` is null
// where it is constant.
template <class T>
struct Bundle {
    static constexpr int MOST_SOON = 6;
    const T *centre[MOST_ROWS + 2], *lower[MOST_ROWS], *upper[MOST_ROWS], *f[MOST_ROWS];
    T *to[MOST_ROWS], *also[MOST_ROWS];
    const T *x_link[MOST_ROWS], *lower_link[MOST_ROWS], *upper_link[MOST_ROWS], *slow_link[MOST_ROWS + 1],
        *c[MOST_ROWS] = {};
    const T* soon[MOST_SOON];
    // The tables of x from the column on, and the values of those of the middle axis and of the slowest one at each
    // row, with the sums over both axes of what they add to c and to diag(A) where a is constant.
    const T* along_x[3];
    T middle[3], slow[MOST_ROWS][3], extra[MOST_ROWS], beside[MOST_ROWS];
    // Whether there is such a row, and whether tables are even (`TablesOf`): then the sum of c and what they add to it,
    // and omega / diag(A), in all lines but the first and the last.
    bool found, even;
    T alike_c[MOST_ROWS], alike_scale[MOST_ROWS];
    int64_t count;
    // Whether there is a second place, whether each is in memory and written around the cache, and whether the norms of
    // the tile's own residuals are wanted.
    bool both, stream, stream_also, norm;
    // Whether nodes with a negative c are fixed.
    bool masked;
    // What f is multiplied by: 1 but in the last sweep of a `Passage` with `source_weight`.
    T source_weight;

    // What rows of these planes have in tables, and which of them are row j of the middle axis; `scale` is omega.
    void find_planes(const TablesOf<T>& tables, int64_t column, const int64_t (&p)[MOST_ROWS]) {
        for (int n = 0; n < 3; ++n) along_x[n] = tables.x[n] + column;
        for (int64_t g = 0; g < count; ++g)
            for (int n = 0; n < 3; ++n) slow[g][n] = tables.slow[n][p[g]];
        even = tables.even;
        found = false;
    }
    void find_row(const TablesOf<T>& tables, int64_t j, T c_everywhere, T scale) {
        const T now[3] = {tables.middle[0][j], tables.middle[1][j], tables.middle[2][j]};
        if (found && now[0] == middle[0] && now[1] == middle[1] && now[2] == middle[2]) return;
        found = true;
        std::copy(now, now + 3, middle);
        for (int64_t g = 0; g < count; ++g) {
            extra[g] = slow[g][2] + middle[2];
            beside[g] = slow[g][0] + slow[g][1] + (middle[0] + middle[1]) + extra[g];
            if (!even) continue;
            const T x[3] = {tables.x[0][tables.within], tables.x[1][tables.within], tables.x[2][tables.within]};
            alike_c[g] = (x[2] + c_everywhere) + extra[g];
            alike_scale[g] = scale / ((x[0] + x[1]) + x[2] + c_everywhere + beside[g]);
        }
    }
};

// Sum of squares in float64, maximum in the type of the values.
template <class T>
struct LineNorms {
    Pack<double> sum = {};
    Line<T> largest = {};

    // The lines of some rows: of what waits for the lines before there is one addition and one maximum.
    template <int64_t G>
    POISSON_INLINE void add(const Line<T> (&r)[G]) {
        Pack<double> squares = {};
        Line<T> most = {};
#pragma GCC unroll 4
        for (int64_t g = 0; g < G; ++g) {
            Pack<T> part[WIDE<T> / LANES];
            static_assert(sizeof part == sizeof r[g]);
            std::memcpy(part, &r[g], sizeof r[g]);
            for (const Pack<T>& pack : part) {
                const Pack<double> x = converted<double>(pack);
                squares += x * x;
            }
            most = larger_size(most, r[g]);
        }
        sum += squares;
        largest = larger_size(largest, most);
    }
    void join(double& total, double& maximum) const {
        for (int64_t lane = 0; lane < LANES; ++lane) total += sum[lane];
        for (int64_t lane = 0; lane < WIDE<T>; ++lane) maximum = largest[lane] > maximum ? largest[lane] : maximum;
    }
};

template <class T>
inline void put_line(T* to, Line<T> line, bool stream) {
    if (stream)
        store_streaming(to, line);
    else
        store(to, line);
}

// A step: a sweep by the residual, to the bit the one that `sweep` makes on uniform axes, without and with the norms of
// that residual; a sweep with fewer additions, for multigrid; the residual; or the first sweep from zero, a scaled
// source.
enum Step { SWEEP, NORMED_SWEEP, SMOOTHING, RESIDUAL_STEP, FROM_ZERO };

// Takes a step of some rows. The scale is omega / diag(A), or omega alone where the diagonal varies.
template <class T>
using Visit = void (*)(const Local<T>& a, const Bundle<T>& rows, const Stretch& columns, T scale, LineNorms<T>& norms);

// A step for `Steps::together` rows that are neighbours, and for one.
template <class T>
struct Visits {
    Visit<T> together, alone;
};

// What a pass is made of. `soon` is how many rows a step asks memory for; `by_rows` whether the steps take turns row by
// row of the middle axis.
template <class T>
struct Steps {
    int64_t together, soon;
    bool by_rows;
    Visits<T> sweep, last_sweep, residual;
    // The first sweep from zero; null if there is none.
    Visit<T> from_zero;
};

// Rows that a step takes together. In 3D the registers are too few for more, where coefficients vary.
template <int DIMENSION, Step STEP>
constexpr int64_t ROWS_TOGETHER = DIMENSION == 2 || STEP == SWEEP || STEP == NORMED_SWEEP ? MOST_ROWS : 2;

// ---- the steps

// The relaxed value where the coefficients vary.
template <int DIMENSION, Varies VARIES, class P>
POISSON_INLINE P relaxed_varying(P centre, P f, const P (&neighbour)[6], const P (&link)[6], const P (&weight)[3], P c,
                                 P stay, P omega) {
    if constexpr (VARIES == LINKS)
        return stay * centre +
               omega * add_neighbours<DIMENSION>(f, neighbour, link, weight) / diagonal<DIMENSION>(link, weight, c);
    else
        return stay * centre + omega * add_neighbours<DIMENSION>(f, neighbour, weight) / diagonal<DIMENSION>(weight, c);
}

// What a row of `rows` has along tabulated axes, at a line whose values along x these are: where a is constant, its
// sums are those of the row and of the line.
template <int DIMENSION, bool LINKED, class T>
POISSON_INLINE Tabulated<Line<T>> tabulated_at(const Bundle<T>& rows, int64_t g, const Line<T> (&along_x)[3],
                                               const Line<T> (&link)[6], Line<T> c) {
    constexpr int64_t W = WIDE<T>;
    const T(&slow)[3] = rows.slow[g];
    const T(&next)[3] = DIMENSION == 3 ? rows.middle : slow;
    if constexpr (!LINKED)
        return {
            {along_x[0], along_x[1], spread<W>(next[0]), spread<W>(next[1]), spread<W>(slow[0]), spread<W>(slow[1])},
            (along_x[2] + c) + rows.extra[g],
            ((along_x[0] + along_x[1]) + along_x[2] + c) + rows.beside[g]};
    const Line<T> table[9] = {along_x[0],         along_x[1],         along_x[2],
                              spread<W>(next[0]), spread<W>(next[1]), spread<W>(next[2]),
                              spread<W>(slow[0]), spread<W>(slow[1]), spread<W>(slow[2])};
    return tabulate<DIMENSION, LINKED>(table, link, c);
}

// The rows that a step asks memory for: of f, u and the coefficients. The many steps of a pass of sweeps share them.
template <int DIMENSION, Varies VARIES, Step STEP>
constexpr int SOON = STEP == SWEEP || STEP == NORMED_SWEEP    ? 1
                     : VARIES == NOTHING                      ? 2
                     : VARIES == REACTION || VARIES == TABLES ? 3
                                                              : 3 + DIMENSION;

// Lines of a row: those between its ends, or there where tables are even; one at an end; and the first one, the first
// node of which is fixed.
enum Part { INNER, EVEN, ENDS, FIXED_FIRST };

// A step of G rows. A line before the rows and one behind them are read too. On its own the function gets a loop
// without spills.
template <int DIMENSION, Varies VARIES, Step STEP, int64_t G, class T>
__attribute__((noinline)) void visit_rows(const Local<T>& a, const Bundle<T>& rows, const Stretch& columns, T scale,
                                          LineNorms<T>& norms) {
    constexpr int64_t W = WIDE<T>;
    const T weights[3] = {a.weight_x, a.weight_y, a.weight_z};
    const Line<T> weight[3] = {spread<W>(a.weight_x), spread<W>(a.weight_y), spread<W>(a.weight_z)}, c = spread<W>(a.c),
                  factor = spread<W>(scale);
    [[maybe_unused]] const Line<T> source_weight = spread<W>(rows.source_weight),
                                   source_factor = spread<W>(scale * rows.source_weight);
    // The sums of a node's neighbours take half of the additions of the residual, whose differences keep its rounding
    // error relative to what changes from node to node.
    [[maybe_unused]] const Line<T> stay =
        spread<W>(T(1) - (VARIES == NOTHING ? scale * diagonal<DIMENSION>(weights, a.c) : scale));
    [[maybe_unused]] const Line<T> share[3] = {factor * weight[0], factor * weight[1], factor * weight[2]};
    constexpr int COUNT = SOON<DIMENSION, VARIES, STEP>;
    const T* soon[COUNT];
    std::copy(rows.soon, rows.soon + COUNT, soon);
    const bool begins = columns.begins, ends = columns.ends, stream = rows.stream;
    [[maybe_unused]] const bool stream_also = rows.stream_also;
    // Where the tile's own values go to a second place, or count.
    const bool wanted = STEP == RESIDUAL_STEP ? rows.norm : rows.both;
    const int64_t own = columns.own - columns.start;
    [[maybe_unused]] const uint64_t own_width = wanted ? uint64_t(columns.end - columns.own) : 0;
    Line<T> before[G], here[G];
    [[maybe_unused]] Line<T> link_before[G];
    const Line<T> lane = lane_numbers<T, W>();
    LineNorms<T> sums = norms;
    for (int64_t g = 0; g < G; ++g) {
        const T* row = rows.centre[g + 1];
        before[g] = begins ? spread<W>(row[columns.left]) : load<W>(row - W);
        here[g] = load<W>(row);
        if constexpr (linked(VARIES))
            link_before[g] =
                begins ? spread<W>(rows.x_link[g][link_below(0, a.nx, a.rule(0))]) : load<W>(rows.x_link[g] - W);
    }
    // Where tables are even, a row has the same links and the same diagonal in all lines but the first and the last.
    const bool is_even = VARIES == TABLES && rows.even && columns.width > 2 * W;
    [[maybe_unused]] Tabulated<Line<T>> alike[G] = {};
    [[maybe_unused]] Line<T> scale_alike[G] = {};
    if (is_even) {
        for (int64_t g = 0; g < G; ++g) {
            const T *const slow = rows.slow[g], *const next = DIMENSION == 3 ? rows.middle : slow;
            const T links[6] = {rows.along_x[0][W], rows.along_x[1][W], next[0], next[1], slow[0], slow[1]};
            for (int n = 0; n < 6; ++n) alike[g].link[n] = spread<W>(links[n]);
            alike[g].c = spread<W>(rows.alike_c[g]);
            scale_alike[g] = spread<W>(rows.alike_scale[g]);
        }
    }
    // Values go to their place, and the tile's own also to the second one or, if they count, to the norms.
    const auto put_lines = [&](int64_t i, const Line<T>(&values)[G], bool count) __attribute__((always_inline)) {
        if (STEP != RESIDUAL_STEP && __builtin_expect(stream, false)) {
#pragma GCC unroll 4
            for (int64_t g = 0; g < G; ++g) store_streaming(rows.to[g] + i, values[g]);
        } else {
#pragma GCC unroll 4
            for (int64_t g = 0; g < G; ++g) store(rows.to[g] + i, values[g]);
        }
        if constexpr (STEP == RESIDUAL_STEP || STEP == SMOOTHING) {
            if (uint64_t(i - own) < own_width) {
                if constexpr (STEP == RESIDUAL_STEP) {
                    if (count) sums.add(values);
                } else if (stream_also) {
#pragma GCC unroll 4
                    for (int64_t g = 0; g < G; ++g) store_streaming(rows.also[g] + i, values[g]);
                } else {
#pragma GCC unroll 4
                    for (int64_t g = 0; g < G; ++g) store(rows.also[g] + i, values[g]);
                }
            }
        }
    };
    const auto step = [&](int64_t i, auto part) __attribute__((always_inline)) {
        constexpr bool at_an_end = part == ENDS, fixed_first = part == FIXED_FIRST, where_even = part == EVEN;
#pragma GCC unroll 8
        for (int n = 0; n < COUNT; ++n) __builtin_prefetch(soon[n] + i);
        const Line<T> first = load<W>(rows.centre[0] + i), last = load<W>(rows.centre[G + 1] + i);
        [[maybe_unused]] Line<T> along_x[3];
        if constexpr (tabulated(VARIES) && !where_even)
            for (int n = 0; n < 3; ++n) along_x[n] = load<W>(rows.along_x[n] + i);
        Line<T> below = first, values[G];
        [[maybe_unused]] Line<T> residuals[G];
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
            Line<T> f = load<W>(rows.f[g] + i);
            if constexpr (STEP == SMOOTHING && VARIES != NOTHING) f *= source_weight;
            Line<T> value, neighbour[6] = {left, right, below, above, below, above};
            if constexpr (DIMENSION == 3)
                neighbour[2] = load<W>(rows.lower[g] + i), neighbour[3] = load<W>(rows.upper[g] + i);
            [[maybe_unused]] Line<T> r;
            if constexpr (VARIES != NOTHING) {
                constexpr bool MAY_HAVE_C = STEP != SWEEP && STEP != NORMED_SWEEP;
                const Line<T> c_here = MAY_HAVE_C && !where_even && rows.c[g] ? load<W>(rows.c[g] + i) : c;
                [[maybe_unused]] Line<T> link[6] = {};
                if constexpr (linked(VARIES)) {
                    [[maybe_unused]] const Line<T> from = link_before[g];
                    link[1] = load<W>(rows.x_link[g] + i);
                    link[0] = left_of(rows.x_link[g] + i, from, link[1]);
                    link_before[g] = link[1];
                    if constexpr (at_an_end) {
                        if (begins && i == 0) link[0] = lane == T(0) ? from : link[0];
                        const T last_lane = T(columns.nodes - 1 - columns.start - i);
                        if (ends && a.rule(1) != WRAP) link[1] = lane == last_lane ? link[0] : link[1];
                    }
                    constexpr int SLOWEST = 2 * (DIMENSION - 1);
                    link[SLOWEST] = load<W>(rows.slow_link[g] + i);
                    link[SLOWEST + 1] = load<W>(rows.slow_link[g + 1] + i);
                    if constexpr (DIMENSION == 3)
                        link[2] = load<W>(rows.lower_link[g] + i), link[3] = load<W>(rows.upper_link[g] + i);
                }
                if constexpr (tabulated(VARIES)) {
                    Tabulated<Line<T>> at;
                    Line<T> scaled = {};
                    if constexpr (where_even) {
                        at = alike[g], scaled = scale_alike[g];
                    } else {
                        at = tabulated_at<DIMENSION, linked(VARIES)>(rows, g, along_x, link, c_here);
                        if (STEP != RESIDUAL_STEP) scaled = factor * inverse_of(at.diagonal);
                    }
                    if constexpr (STEP == SMOOTHING || STEP == SWEEP) {
                        value = stay * centre + scaled * add_neighbours<DIMENSION>(f, neighbour, at);
                    } else {
                        r = residual_of(f, apply_tabulated<DIMENSION>(centre, neighbour, at));
                        value = STEP == RESIDUAL_STEP ? r : relax(centre, r, scaled);
                    }
                    if (MAY_HAVE_C && !where_even && rows.masked)
                        value = c_here < T(0) ? STEP == RESIDUAL_STEP ? Line<T>{} : centre : value;
                } else if constexpr (STEP == RESIDUAL_STEP)
                    value = residual_of(
                        f, apply_varying<DIMENSION, VARIES>(centre, neighbour, link, {}, weight, c_here).au);
                else
                    value =
                        relaxed_varying<DIMENSION, VARIES>(centre, f, neighbour, link, weight, c_here, stay, factor);
            } else if constexpr (STEP == SMOOTHING) {
                value = relax_by_sum<DIMENSION>(centre, f, neighbour, share, stay, source_factor);
            } else {
                r = residual_of(f, apply_operator<DIMENSION>(centre, neighbour, weight, c));
                value = STEP == RESIDUAL_STEP ? r : relax(centre, r, factor);
            }
            if constexpr (at_an_end) {
                const int64_t place = columns.start + i;
                const auto free = (lane > T(columns.low - place)) & (lane < T(columns.high - place));
                const auto inside = lane < T(columns.nodes - place);
                value = free ? value : STEP == RESIDUAL_STEP ? Line<T>{} : centre;
                value = inside ? value : Line<T>{};
                if constexpr (STEP == NORMED_SWEEP) r = (free & inside) ? r : Line<T>{};
            } else if constexpr (fixed_first) {
                value = lane > T(0) ? value : STEP == RESIDUAL_STEP ? Line<T>{} : centre;
            }
            if constexpr (STEP == NORMED_SWEEP) residuals[g] = r;
            values[g] = value;
            below = centre;
            before[g] = centre;
            here[g] = behind;
        }
        if constexpr (STEP == NORMED_SWEEP) sums.add(residuals);
        put_lines(i, values, true);
    };
    const int64_t last_line = columns.width - W;
    // Not the sweeps that are to have the bits of `sweep`: with more code around the formula the compiler fuses other
    // products with sums.
    constexpr bool APART = VARIES == NOTHING && (STEP == SMOOTHING || STEP == RESIDUAL_STEP);
    using Inner = std::integral_constant<Part, INNER>;
    using Even = std::integral_constant<Part, VARIES == TABLES ? EVEN : INNER>;
    using Ends = std::integral_constant<Part, ENDS>;
    if (APART && begins && columns.low == 0 && last_line > 0)
        step(0, std::integral_constant<Part, FIXED_FIRST>());
    else
        step(0, Ends());
    if (is_even)
        for (int64_t i = W; i < last_line; i += W) step(i, Even());
    else
        for (int64_t i = W; i < last_line; i += W) step(i, Inner());
    if (last_line == 0) {
        // The only line is done.
    } else if (APART && columns.high - columns.start == last_line) {
        // Axes of 2^n + 1 nodes have a line for the last one alone, which is fixed.
        Line<T> values[G] = {};
        if (STEP != RESIDUAL_STEP)
            for (int64_t g = 0; g < G; ++g) values[g] = lane == T(0) ? here[g] : Line<T>{};
        put_lines(last_line, values, false);
    } else {
        step(last_line, Ends());
    }
    norms = sums;
}

// The first sweep from zero: omega f / diag(A).
template <int DIMENSION, Varies VARIES, class T>
void scale_rows(const Local<T>& a, const Bundle<T>& rows, const Stretch& columns, T scale, LineNorms<T>&) {
    constexpr int64_t W = WIDE<T>;
    const Line<T> factor = spread<W>(scale * rows.source_weight);
    [[maybe_unused]] const Line<T> weight[3] = {spread<W>(a.weight_x), spread<W>(a.weight_y), spread<W>(a.weight_z)},
                                   c = spread<W>(a.c);
    for (int64_t g = 0; g < rows.count; ++g) {
        const T* const f = rows.f[g];
        T* const to = rows.to[g];
        for (int64_t i = 0; i < columns.width; i += W) {
            if constexpr (VARIES == NOTHING) {
                store(to + i, factor * load<W>(f + i));
                continue;
            }
            const Line<T> c_here = rows.c[g] ? load<W>(rows.c[g] + i) : c;
            Line<T> divisor, link[6] = {};
            if constexpr (linked(VARIES)) {
                const T* const links = rows.x_link[g];
                link[0] = load<W>(links + i - 1), link[1] = load<W>(links + i);
                if (columns.begins && i == 0) link[0][0] = links[link_below(0, a.nx, a.rule(0))];
                if (columns.ends && i + W >= columns.width && a.rule(1) != WRAP) {
                    const Line<T> last = spread<W>(T(a.nx - 1 - columns.start - i));
                    link[1] = lane_numbers<T, W>() == last ? link[0] : link[1];
                }
                constexpr int SLOWEST = 2 * (DIMENSION - 1);
                link[SLOWEST] = load<W>(rows.slow_link[g] + i);
                link[SLOWEST + 1] = load<W>(rows.slow_link[g + 1] + i);
                if constexpr (DIMENSION == 3)
                    link[2] = load<W>(rows.lower_link[g] + i), link[3] = load<W>(rows.upper_link[g] + i);
            }
            if constexpr (tabulated(VARIES)) {
                Line<T> along_x[3];
                for (int n = 0; n < 3; ++n) along_x[n] = load<W>(rows.along_x[n] + i);
                divisor = tabulated_at<DIMENSION, linked(VARIES)>(rows, g, along_x, link, c_here).diagonal;
            } else if constexpr (VARIES == LINKS) {
                divisor = diagonal<DIMENSION>(link, weight, c_here);
            } else {
                divisor = diagonal<DIMENSION>(weight, c_here);
            }
            if constexpr (tabulated(VARIES)) {
                const Line<T> value = factor * load<W>(f + i) * inverse_of(divisor);
                store(to + i, rows.masked && rows.c[g] ? c_here < T(0) ? Line<T>{} : value : value);
            } else
                store(to + i, factor * load<W>(f + i) / divisor);
        }
        // Behind the last node there may be no coefficients to divide by.
        if (columns.ends) std::fill(to + a.nx - columns.start, to + columns.width, T(0));
    }
}

// ---- the steps of a pass

template <int DIMENSION, Varies VARIES, Step STEP, class T>
constexpr Visits<T> visits() {
    return {visit_rows<DIMENSION, VARIES, STEP, ROWS_TOGETHER<DIMENSION, STEP>, T>,
            visit_rows<DIMENSION, VARIES, STEP, 1, T>};
}

template <int DIMENSION, Varies VARIES, class T>
constexpr Steps<T> jacobi_steps(bool norm) {
    const Visits<T> sweep = visits<DIMENSION, VARIES, SWEEP, T>();
    const Visits<T> last = norm ? visits<DIMENSION, VARIES, NORMED_SWEEP, T>() : sweep;
    return {ROWS_TOGETHER<DIMENSION, SWEEP>, SOON<DIMENSION, VARIES, SWEEP>, DIMENSION == 3, sweep, last, {}, nullptr};
}

template <int DIMENSION, Varies VARIES, class T>
constexpr Steps<T> smoothing_steps() {
    const Visits<T> sweep = visits<DIMENSION, VARIES, SMOOTHING, T>();
    return {ROWS_TOGETHER<DIMENSION, SMOOTHING>,           SOON<DIMENSION, VARIES, SMOOTHING>, false, sweep, sweep,
            visits<DIMENSION, VARIES, RESIDUAL_STEP, T>(), scale_rows<DIMENSION, VARIES, T>};
}

// The steps of a pass of sweeps, where a and c are constant, whose last one leaves the norms of its residual if they
// are wanted; and those of smoothing.
template <bool TABULATED, class T>
Steps<T> steps_of_sweeps(const Local<T>& a, bool norm);
template <Varies VARIES, class T>
Steps<T> steps_of_smoothing(const Local<T>& a);

#define POISSON_INSTANCE_OF_SWEEPS(TABULATED, real)                                                          \
    template <>                                                                                              \
    Steps<real> steps_of_sweeps<TABULATED, real>(const Local<real>& a, bool norm) {                          \
        constexpr Varies VARIES = TABULATED ? TABLES : NOTHING;                                              \
        return a.dimension == 2 ? jacobi_steps<2, VARIES, real>(norm) : jacobi_steps<3, VARIES, real>(norm); \
    }
#define POISSON_INSTANCE_OF_SMOOTHING(VARIES, real)                                                        \
    template <>                                                                                            \
    Steps<real> steps_of_smoothing<VARIES, real>(const Local<real>& a) {                                   \
        return a.dimension == 2 ? smoothing_steps<2, VARIES, real>() : smoothing_steps<3, VARIES, real>(); \
    }

#endif
