// SPDX-License-Identifier: MIT
// Rows of nodes on the host, written in packs.
#ifndef POISSON_ROWS_H
#define POISSON_ROWS_H

#include "operator/stencil.h"

// Rows find out by themselves whether a varies or c alone.
constexpr bool REACTION_APART = false;

// The norms of the residual, or the dot product of u and A u in `sum`.
struct Sums {
    double sum, maximum;
};

// What goes to one node of a row, `old` being what is there; without f the source is zero.
template <int DIMENSION, class M, class T, class O, class L>
inline O node_value(const Local<T>& a, const Rows<T>& rows, const L& links, const T* f, O old,
                    const Factors<T>& factors, int64_t i, Sums& sums) {
    const bool on_x_face = i == 0 || i == a.nx - 1;
    const T centre = rows.centre[i];
    if (rows.fixed || (on_x_face && a.fixed(i, a.nx, 0)) || masked<M::VARIES>(links, i))
        return O(M::KEEPS ? centre : T(0));
    if (M::KIND == COLOR && (i & 1) != factors.color) return old;
    const Applied<T> applied = linked(M::VARIES) && !links.x
                                   ? apply_at<DIMENSION, without_links(M::VARIES)>(a, rows, links, i)
                                   : apply_at<DIMENSION, M::VARIES>(a, rows, links, i);
    const T r = M::TAKES_SOURCE ? residual_of(f ? f[i] : T(0), applied.au) : T(0);
    if (M::NORM) {
        const double x = r, size = x < 0 ? -x : x;
        sums.sum += x * x;
        sums.maximum = size > sums.maximum ? size : sums.maximum;
    }
    if constexpr (M::KIND == PRODUCT) {
        double width;
        if constexpr (tabulated(M::VARIES))
            width = links.widths[i];
        else
            width = trapezoidal(a, 0, i, a.nx);
        sums.sum += width * double(centre) * double(applied.au);
    }
    return O(written<M>(centre, applied, r, factors.scale));
}

// The numbers of an operator in packs, made once for a row: out of memory the compiler would fetch them for every pack,
// because the stores between might change them.
template <class T>
struct Weights {
    Pack<T> x, y, z, c, scale;

    Weights(const Local<T>& a, T scale_)
        : x(spread(a.weight_x)), y(spread(a.weight_y)), z(spread(a.weight_z)), c(spread(a.c)), scale(spread(scale_)) {}
};

// A at LANES nodes, none of which is on an x face.
template <int DIMENSION, Varies VARIES, class T, class L>
POISSON_INLINE Applied<Pack<T>> apply_pack(const Weights<T>& w, const Rows<T>& rows, const L& links, Pack<T> centre,
                                           int64_t i) {
    const Pack<T> left = load(rows.centre + i - 1), right = load(rows.centre + i + 1);
    const Pack<T> y_lower = load(rows.y_lower + i), y_upper = load(rows.y_upper + i);
    Pack<T> z_lower = {}, z_upper = {};
    if constexpr (DIMENSION == 3) {
        z_lower = load(rows.z_lower + i);
        z_upper = load(rows.z_upper + i);
    }
    const Pack<T> neighbour[6] = {left, right, y_lower, y_upper, z_lower, z_upper}, weight[3] = {w.x, w.y, w.z};
    if constexpr (VARIES == NOTHING) {
        return {apply_operator<DIMENSION>(centre, neighbour, weight, w.c), Pack<T>{}};
    } else {
        Pack<T> link[6] = {}, table[9] = {}, c = w.c;
        if (VARIES == REACTION || links.c) {
            prefetch(links.c + i, FAR_AHEAD);
            c = load(links.c + i);
        }
        if constexpr (linked(VARIES)) {
            prefetch(links.x + i, FAR_AHEAD);
            prefetch(links.y_upper + i, FAR_AHEAD);
            link[0] = load(links.x + i - 1);
            link[1] = load(links.x + i);
            link[2] = load(links.y_lower + i);
            link[3] = load(links.y_upper + i);
            if constexpr (DIMENSION == 3) {
                prefetch(links.z_upper + i, FAR_AHEAD);
                link[4] = load(links.z_lower + i);
                link[5] = load(links.z_upper + i);
            }
        }
        tables_of<DIMENSION, VARIES>(links, i, table, [](const T* at) { return load(at); });
        return apply_varying<DIMENSION, VARIES>(centre, neighbour, link, table, weight, c);
    }
}

// What goes to LANES nodes if none of them is on an x face, and their residual (PRODUCT: u times A u).
template <int DIMENSION, class M, Varies VARIES, class T, class L>
POISSON_INLINE Pack<T> pack_value(const Weights<T> w, const Rows<T>& rows, const L& links, const T* f, int64_t i,
                                  Pack<T>& r) {
    // The rows that come from memory. The hardware's own prefetching stops at the end of a page, which is a row or two
    // away.
    prefetch(DIMENSION == 2 ? rows.y_upper + i : rows.z_upper + i, FAR_AHEAD);
    if (M::TAKES_SOURCE && f) prefetch(f + i, FAR_AHEAD);
    const Pack<T> centre = load(rows.centre + i);
    const Applied<Pack<T>> applied = apply_pack<DIMENSION, VARIES>(w, rows, links, centre, i);
    if (M::TAKES_SOURCE) r = f ? residual_of(load(f + i), applied.au) : -applied.au;
    if (M::KIND == PRODUCT) r = centre;
    Pack<T> value = written<M>(centre, applied, r, w.scale);
    if constexpr (tabulated(VARIES)) {
        if (links.mask) {
            const auto fixed = load(links.mask + i) < T(0);
            value = fixed ? M::KEEPS ? centre : Pack<T>{} : value;
            r = fixed ? Pack<T>{} : r;
        }
    }
    return value;
}

template <class O, class P>
inline void put(O* to, P pack, bool stream) {
    if (stream)
        store_streaming(to, converted<O>(pack));
    else
        store(to, converted<O>(pack));
}

// Adds what the packs of a row give to the sums: the norms of r, or the dot product of r and the value.
template <class M, class T>
struct RowSums {
    PackNorms norms;

    template <class L>
    void add(Pack<T> r, Pack<T> value, [[maybe_unused]] const L& links, [[maybe_unused]] int64_t i) {
        if (M::NORM) norms.add<T>(r);
        if constexpr (M::KIND == PRODUCT) {
            Pack<double> product = converted<double>(r);
            if constexpr (tabulated(M::VARIES)) product *= load(links.widths + i);
            norms.sum += product * converted<double>(value);
        }
    }
};

// Functions that are not inlined make copies of what they are given: of these the compiler knows that no store changes
// them.

// The nodes of one color of a row, in place; the first and the last of the row have their values already. A pack is
// stored when the next one has read its neighbours: a load of what was just stored in part would wait for the store.
template <int DIMENSION, class M, Varies VARIES, class T, class L>
__attribute__((noinline)) void visit_color(const Local<T>& a, const Rows<T>& rows, const L& links, const T* f, T* out,
                                           int64_t last, const Factors<T>& factors, T at_first, T at_last) {
    const Rows<T> own_rows = rows;
    const L own_links = links;
    const Weights<T> w(a, factors.scale);
    Pack<T> of_color = {};
    for (int64_t lane = 0; lane < LANES; ++lane) of_color[lane] = T((lane & 1) == factors.color);
    const auto chosen = of_color > T(0);
    Pack<T> before = {};
    for (int64_t i = 0; i <= last; i += LANES) {
        Pack<T> r;
        Pack<T> value = pack_value<DIMENSION, M, VARIES>(w, own_rows, own_links, f, i, r);
        value = chosen ? value : load(own_rows.centre + i);
        if (i > 0) store(out + i - LANES, before);
        before = value;
        if (i == 0) before[0] = at_first;
    }
    const int64_t start = last / LANES * LANES;
    for (int64_t lane = 0; lane < LANES; ++lane)
        before[lane] = start + lane > last ? T(0) : start + lane == last ? at_last : before[lane];
    store(out + start, before);
}

// The packs of a row between those at its ends. What is changed or read in the loop is its own: what others have a
// reference to would go through memory for every pack.
template <int DIMENSION, class M, Varies VARIES, bool STREAM, class T, class O, class L>
POISSON_INLINE void visit_packs(const Weights<T> w, const Rows<T> rows, const L links, const T* f, O* out, int64_t stop,
                                RowSums<M, T>& sums) {
    RowSums<M, T> own = sums;
    for (int64_t i = LANES; i < stop; i += LANES) {
        Pack<T> r;
        const Pack<T> value = pack_value<DIMENSION, M, VARIES>(w, rows, links, f, i, r);
        put(out + i, value, STREAM);
        own.add(r, value, links, i);
    }
    sums = own;
}

// The same, on its own: so it gets a loop without spills.
template <int DIMENSION, class M, Varies VARIES, bool STREAM, class T, class O, class L>
__attribute__((noinline)) void visit_packs_apart(const Local<T>& a, const Rows<T>& rows, const L& links, const T* f,
                                                 O* out, T scale, int64_t stop, RowSums<M, T>& sums) {
    visit_packs<DIMENSION, M, VARIES, STREAM>(Weights<T>(a, scale), rows, links, f, out, stop, sums);
}

// One whole row. It is written in aligned packs from end to end: the packs at the ends take the values on the x faces
// in their lanes, and zeros in the lanes past the row. They read one value outside their row, which the allocation has.
// The color in `factors` is that of the row's first node. Where the coefficients vary only the loops are compiled for
// each form and way to store; where they are constant the type of `stream` is its value.
template <int DIMENSION, class M, class T, class O, class Stream, class L>
inline void visit_row(const Local<T>& a, const Rows<T>& rows, const L& links, const T* f, O* out,
                      const Factors<T>& factors, Stream stream, Sums& sums) {
    if (rows.fixed) {
        for (int64_t i = 0; i < a.nx; ++i) out[i] = O(M::KEEPS ? rows.centre[i] : T(0));
        return;
    }
    constexpr Varies ALONE = without_links(M::VARIES);
    const bool no_links = linked(M::VARIES) && !links.x;
    const int64_t last = a.nx - 1, last_pack = last / LANES * LANES;
    // The values that stay at the ends of the next row come from memory: nothing else has asked for them.
    if (M::KIND == APPLY && stream) {
        prefetch(out, a.pitch);
        prefetch(out + last, a.pitch);
    }
    O at_end[2];
    if constexpr (M::KIND == APPLY) {
        at_end[0] = out[0];
        at_end[1] = out[last];
    } else {
        for (int64_t i = 0;; i = last) {
            at_end[i > 0] = node_value<DIMENSION, M>(a, rows, links, f, out[i], factors, i, sums);
            if (i == last) break;
        }
    }
    // A node that is the only one counts once.
    const O at_first = at_end[0], at_last = at_end[last > 0];
    if constexpr (M::KIND == COLOR) {
        (no_links
             ? visit_color<DIMENSION, M, ALONE, T, L>
             : visit_color<DIMENSION, M, M::VARIES, T, L>)(a, rows, links, f, out, last, factors, at_first, at_last);
    } else {
        const Weights<T> w(a, factors.scale);
        const Pack<T> lane = lane_numbers<T>();
        RowSums<M, T> row_sums;
        for (int64_t i = 0;; i = last_pack) {
            Pack<T> r = {};
            Pack<T> value = no_links ? pack_value<DIMENSION, M, ALONE>(w, rows, links, f, i, r)
                                     : pack_value<DIMENSION, M, M::VARIES>(w, rows, links, f, i, r);
            const auto inside = (lane > T(-i)) & (lane < T(last - i < LANES ? last - i : LANES));
            value = inside                ? value
                    : lane == T(last - i) ? spread(T(at_last))
                    : lane == T(-i)       ? spread(T(at_first))
                                          : Pack<T>{};
            r = inside ? r : Pack<T>{};
            put(out + i, value, stream);
            row_sums.add(r, value, links, i);
            if (i == last_pack) break;
            if constexpr (M::VARIES == NOTHING) {
                visit_packs<DIMENSION, M, NOTHING, Stream::value>(w, rows, links, f, out, last_pack, row_sums);
            } else {
                const auto packs = no_links ? stream ? visit_packs_apart<DIMENSION, M, ALONE, true, T, O, L>
                                                     : visit_packs_apart<DIMENSION, M, ALONE, false, T, O, L>
                                   : stream ? visit_packs_apart<DIMENSION, M, M::VARIES, true, T, O, L>
                                            : visit_packs_apart<DIMENSION, M, M::VARIES, false, T, O, L>;
                packs(a, rows, links, f, out, factors.scale, last_pack, row_sums);
            }
        }
        if (M::NORM || M::KIND == PRODUCT) row_sums.norms.join(sums.sum, sums.maximum);
    }
}

// visit(stream), where the coefficients are constant with a type for each value: there is so little to do at a node
// that what a choice or a call adds to a row shows.
template <bool TYPES, class Visit>
inline auto with_stream(bool stream, Visit visit) {
    if constexpr (TYPES)
        return stream ? visit(std::true_type{}) : visit(std::false_type{});
    else
        return visit(stream);
}

#endif
