// SPDX-License-Identifier: MIT
// A row of one grid from the weighted sum of rows of the other, on the host. Where the row is whole, and x has twice as
// many nodes on the fine grid, the sum and the transfer along x are one loop: a row of sums in between would be read at
// once where it was just written, from other addresses, for which the processor waits.
#ifndef POISSON_WHOLE_ROWS_H
#define POISSON_WHOLE_ROWS_H

#include "multigrid/grids.h"
#include "multigrid/shuffles.h"

#ifdef __AVX512VL__

// The weighted sum of N rows.
template <int N, class T>
struct SumOfRows {
    const T* row[N];
    T weight[N];

    explicit SumOfRows(const Mix<T>& mix) {
        for (int n = 0; n < N; ++n) row[n] = mix.row[n], weight[n] = mix.weight[n];
    }
    POISSON_INLINE Line<T> line(int64_t i) const {
        constexpr int64_t W = WIDE<T>;
        Line<T> sum = spread<W>(weight[0]) * load<W>(row[0] + i);
        for (int n = 1; n < N; ++n) sum += spread<W>(weight[n]) * load<W>(row[n] + i);
        return sum;
    }
    T value(int64_t i) const {
        T sum = weight[0] * row[0][i];
        for (int n = 1; n < N; ++n) sum += weight[n] * row[n][i];
        return sum;
    }
};

// A line with another value in one lane.
template <class T>
inline Line<T> with_lane(Line<T> line, int64_t lane, T value) {
    constexpr int64_t W = WIDE<T>;
    return lane_numbers<T, W>() == T(lane) ? spread<W>(value) : line;
}
// The first `count` nodes of a line, and zeros.
template <class T>
inline Line<T> first_lanes(Line<T> line, int64_t count) {
    return lane_numbers<T, WIDE<T>>() < T(count) ? line : Line<T>{};
}

// What is behind the reference may be changed by a store, for all that the compiler knows: so the functions below make
// the sum for themselves.

// out = u + P coarse in a row, or without u, where intervals halve or, by tables, where nodes are paired.
template <bool PAIRED, int N, class T>
__attribute__((noinline)) void prolong_whole(const AlongX& x, const Mix<T>& mix, const T* u, T* out) {
    constexpr int64_t W = WIDE<T>;
    const SumOfRows<N, T> sum(mix);
    const int64_t fine = x.pairing.fine, coarse = x.pairing.coarse, count = (fine + 1) / 2;
    [[maybe_unused]] const T* weight[4] = {};
    if constexpr (PAIRED)
        for (int n = 0; n < 4; ++n) weight[n] = paired_row<T>(x, count, n);
    const T behind = x.pairing.wraps ? sum.value(0) : T(0);
    [[maybe_unused]] Line<T> before = spread<W>(PAIRED && x.pairing.wraps ? sum.value(coarse - 1) : T(0));
    Line<T> here = sum.line(0);
    for (int64_t i = 0; i < count; i += W) {
        const bool ends = i + W >= coarse;
        const Line<T> next = ends ? spread<W>(behind) : sum.line(i + W);
        Line<T> right = right_of(out, here, next), even, odd, values[2];
        if (ends) right = with_lane(right, coarse - 1 - i, behind);
        if constexpr (PAIRED) {
            even = load<W>(weight[0] + i) * left_of(out, before, here) + load<W>(weight[1] + i) * here;
            odd = load<W>(weight[2] + i) * here + load<W>(weight[3] + i) * right;
        } else {
            even = here;
            odd = T(0.5) * (here + right);
        }
        put_together(even, odd, values[0], values[1]);
        for (int n = 0; n < 2 && 2 * i + n * W < fine; ++n) {
            const int64_t at = 2 * i + n * W;
            if (u) values[n] = load<W>(u + at) + values[n];
            if (at + W > fine) values[n] = first_lanes<T>(values[n], fine - at);
            store(out + at, values[n]);
        }
        before = here;
        here = next;
    }
}

// The coarse row from the sum of fine rows, likewise.
template <bool PAIRED, int N, class T>
__attribute__((noinline)) void restrict_whole(const AlongX& x, const Mix<T>& mix, T* out) {
    constexpr int64_t W = WIDE<T>;
    const SumOfRows<N, T> sum(mix);
    const int64_t fine = x.pairing.fine, coarse = x.pairing.coarse;
    const bool wraps = x.pairing.wraps;
    [[maybe_unused]] const T* weight[4] = {};
    if constexpr (PAIRED)
        for (int n = 0; n < 4; ++n) weight[n] = paired_row<T>(x, coarse, n);
    Line<T> even, odd;
    const auto pair_at = [&](int64_t i, Line<T>& evens, Line<T>& odds) __attribute__((always_inline)) {
        const Line<T> a = 2 * i < fine ? sum.line(2 * i) : Line<T>{},
                      b = 2 * i + W < fine ? sum.line(2 * i + W) : Line<T>{};
        take_apart(a, b, evens, odds);
    };
    pair_at(0, even, odd);
    // Beside the row are its images: where it does not wrap, those of its second node and of its last but one. For
    // tables there are zeros.
    const T lower = wraps ? sum.value(fine - 1) : PAIRED ? T(0) : odd[0], upper = PAIRED && wraps ? sum.value(0) : T(0);
    Line<T> before = spread<W>(lower);
    for (int64_t i = 0; i < coarse; i += W) {
        const bool ends = i + W >= coarse;
        if (PAIRED && ends && fine % 2) odd = with_lane(odd, coarse - 1 - i, upper);
        const Line<T> left = left_of(out, before, odd);
        if (!PAIRED && ends && fine % 2) odd = lane_numbers<T, W>() == T(coarse - 1 - i) ? left : odd;
        before = odd;
        Line<T> value;
        if constexpr (PAIRED) {
            Line<T> evens, odds;
            pair_at(i + W, evens, odds);
            Line<T> right = right_of(out, even, evens);
            if (ends) right = with_lane(right, coarse - 1 - i, upper);
            value = (load<W>(weight[0] + i) * left + load<W>(weight[1] + i) * even) +
                    (load<W>(weight[2] + i) * odd + load<W>(weight[3] + i) * right);
            even = evens, odd = odds;
        } else {
            value = T(0.5) * even + T(0.25) * (left + odd);
            if (!ends) pair_at(i + W, even, odd);
        }
        store(out + i, ends ? first_lanes<T>(value, coarse - i) : value);
    }
}

// Calls visit with the number of rows as a constant; whether it is one of the usual numbers.
template <class Visit>
inline bool with_count(int count, Visit visit) {
    switch (count) {
        case 1:
            return visit(std::integral_constant<int, 1>()), true;
        case 2:
            return visit(std::integral_constant<int, 2>()), true;
        case 3:
            return visit(std::integral_constant<int, 3>()), true;
        case 4:
            return visit(std::integral_constant<int, 4>()), true;
        case 9:
            return visit(std::integral_constant<int, 9>()), true;
        case 16:
            return visit(std::integral_constant<int, 16>()), true;
        default:
            return false;
    }
}

// Whether each coarse node of a row has two fine ones.
inline bool in_pairs(const AlongX& x) {
    return (x.pairing.halves() || x.paired) && x.pairing.coarse == (x.pairing.fine + 1) / 2;
}

// out = u + P coarse in a whole row, u being zero if it is null, from the sum of coarse rows; false if it is to be done
// another way.
template <class T>
inline bool prolong_whole_row(const AlongX& x, const Mix<T>& mix, const T* u, T* out) {
    return in_pairs(x) && with_count(mix.count, [&](auto count) {
               x.pairing.halves() ? prolong_whole<false, count>(x, mix, u, out)
                                  : prolong_whole<true, count>(x, mix, u, out);
           });
}

// The whole coarse row from the sum of fine rows, likewise.
template <class T>
inline bool restrict_whole_row(const AlongX& x, const Mix<T>& mix, T* out) {
    return in_pairs(x) && with_count(mix.count, [&](auto count) {
               x.pairing.halves() ? restrict_whole<false, count>(x, mix, out)
                                  : restrict_whole<true, count>(x, mix, out);
           });
}

#else

// Where no one instruction shuffles a line, a row of sums costs less.
template <class T>
inline bool prolong_whole_row(const AlongX&, const Mix<T>&, const T*, T*) {
    return false;
}
template <class T>
inline bool restrict_whole_row(const AlongX&, const Mix<T>&, T*) {
    return false;
}

#endif

// out = u + P coarse at the fine nodes [start, stop) of a row, u being zero if it is null, from the sum of coarse rows;
// `sums` has room for a row of sums.
template <class T>
inline void prolong_sum(const Grids<T>& grids, const Mix<T>& mix, const T* u, T* out, int64_t start, int64_t stop,
                        T* sums) {
    const Pairing& along = grids.x.pairing;
    if (start == 0 && stop == along.fine && prolong_whole_row(grids.x, mix, u, out)) return;
    const Span sources = along.sources(start, stop);
    const int64_t first = round_down(sources.start, WIDE<T>);
    add_up(mix, first, round_up(sources.stop - first, WIDE<T>), sums);
    T* const coarse = sums - first;
    grids.end_coarse_row(coarse, first == 0, sources.stop == along.coarse);
    prolong_along_x(grids.x, coarse, u, out, start, stop);
}

// The coarse nodes of a row from the sum of fine rows, whose whole lines are `width` columns from `first` on and have
// the first and the last node of the row if it `begins` and `ends` there; zeros at fixed nodes.
template <class T>
inline void restrict_sum(const Grids<T>& grids, const Mix<T>& mix, int64_t first, int64_t width, bool begins, bool ends,
                         T* values, int64_t at, Span coarse, T* sums) {
    if (begins && ends && restrict_whole_row(grids.x, mix, values + at)) {
        grids.hold_fixed(values, at, coarse.start, coarse.stop);
        return;
    }
    T* const row = sums - first;
    add_up(mix, first, width, sums);
    grids.end_fine_row(row, begins, ends);
    restrict_along_x(grids.x, row, values + at, coarse.start, coarse.stop);
    grids.hold_fixed(values, at, coarse.start, coarse.stop);
}

#endif
