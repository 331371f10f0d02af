// SPDX-License-Identifier: MIT
// Several steps of relaxation in one pass over memory, on the host: what `sweeps` and `smooth` ask for.
#ifndef POISSON_WAVEFRONT_H
#define POISSON_WAVEFRONT_H

#include "multigrid/grids.h"
#include "multigrid/steps.h"

// An axis whose nodes beyond a wrap face are images of those inside; a mirror face needs none, because both neighbours
// of a node on it are the inner one.
struct Reach {
    int64_t nodes;
    int32_t lower, upper;

    bool wraps() const { return lower == WRAP; }
    bool fixed(int64_t index) const { return is_fixed(index, nodes, lower, upper); }
    // The node that an index is the image of.
    int64_t node(int64_t index) const {
        return 0 <= index && index < nodes ? index : image(index, nodes, lower, upper);
    }
    int64_t before(int64_t index) const { return wraps() ? index - 1 : below(index, nodes, lower); }
    int64_t behind(int64_t index) const { return wraps() ? index + 1 : above(index, nodes, upper); }
    // Whether the indices [start, stop) and their neighbours are neither fixed nor on a mirror face.
    bool inner(Span span) const { return wraps() || (span.start > 0 && span.stop < nodes); }
    // A range with the `margin` nodes on each side, as far as there are any.
    Span around(Span inner, int64_t margin) const {
        if (wraps()) return {inner.start - margin, inner.stop + margin};
        return {std::max<int64_t>(inner.start - margin, 0), std::min(inner.stop + margin, nodes)};
    }
    // The links to the nodes on both sides; each has the number of its lower node.
    int64_t link_before(int64_t index) const { return wraps() ? node(index - 1) : link_below(index, nodes, lower); }
    int64_t link_behind(int64_t index) const { return wraps() ? node(index) : link_above(index, nodes, upper); }
    // Where an index beyond a mirror face is seen.
    int64_t seen(int64_t index) const { return wraps() ? index : image(index, nodes, lower, upper); }
};

// The columns that a stage with so many nodes around a tile computes. Where rows that wrap are cut, they go on in
// images beyond their ends, except those of the last stage.
template <class T>
Stretch stretch_of(const Reach& x, const Tile& tile, int64_t around, bool whole_rows, bool last) {
    const bool open = x.wraps() && !whole_rows;
    const int64_t from = tile.first - around, to = tile.last + around;
    const int64_t start = round_down(open ? from : std::max<int64_t>(from, 0), WIDE<T>),
                  stop = round_up(open ? to : std::min(to, x.nodes), WIDE<T>);
    Stretch at;
    at.start = start;
    at.width = stop - start;
    at.own = tile.first;
    at.end = round_up(tile.last, WIDE<T>);
    at.low = x.lower == FIXED ? 0 : -Stretch::NOWHERE;
    at.high = x.upper == FIXED ? x.nodes - 1 : Stretch::NOWHERE;
    at.nodes = !open || last ? x.nodes : Stretch::NOWHERE;
    at.left = x.wraps() ? x.nodes - 1 : 1;
    at.right = x.wraps() ? 0 : x.nodes - 2;
    at.begins = !open && start == 0;
    at.ends = !open && stop >= x.nodes;
    return at;
}

// What a pass is asked for, in the type of the arrays: from u (zero if it is null), corrected from a coarse grid if
// `correction` is given, `count` sweeps with these scales; then, if it is wanted, the residual, restricted to a coarse
// grid if `restriction` is given. The scales are omega / diag(A), or omega alone where the diagonal varies. The last
// sweep multiplies f by `source_weight`.
template <class T>
struct Passage {
    Coefficients<T> arrays;
    const T *u, *f;
    T* out;
    const T* scales;
    int64_t count;
    T source_weight = 1;
    const Grids<T>* correction;
    const T* coarse_correction;
    const Grids<T>* restriction;
    T* coarse_residual;
    // Of the residual at the end, which must be wanted, or else of the one that the last sweep starts from.
    bool norm;
    bool residual, stream;

    bool from_zero() const { return !u && !correction && count > 0; }
    int64_t steps() const { return count + (residual ? 1 : 0); }
};

// Takes the steps of a pass tile by tile, on `work` nodes in all.
template <class T>
poisson_status take_passage(const Local<T>& a, const Passage<T>& task, const Steps<T>& steps, const Tiles& tiles,
                            int64_t work, double* result);

#endif
