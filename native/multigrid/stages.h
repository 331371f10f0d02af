// SPDX-License-Identifier: MIT
// What a stage of a pass covers, and where its rows are (wavefront.cpp).
#ifndef POISSON_STAGES_H
#define POISSON_STAGES_H

#include "multigrid/steps.h"

// Where rows are: in memory; in the rings, those that the next group needs too, of this group and of the one before
// it, and those that only this group needs; and the residual's. `offset` of a row of the middle axis is added to
// the place of its plane.
enum Where { MEMORY, NOW, BEFORE, PASSING, RESIDUALS, PLACES };
struct Offsets {
    int64_t of[PLACES];
};
template <class V>
struct Plane {
    V* at;
    Where where;

    V* row(const Offsets& offsets) const { return at + offsets.of[where]; }
};

template <class T>
struct Stage {
    // What it covers: its planes, its rows of the middle axis and its columns.
    Span planes, rows;
    Stretch columns;
    Visits<T> visits;
    T scale, source_weight;
    // Whether its values are the result, and whether they stay in the cache.
    bool result, kept;
    // Whether it needs to know where its planes are in memory.
    bool in_memory;
    // Of the group that the pass is at, the first plane, the planes [begin, end) of it that there are, and whether
    // they are computed together.
    int64_t first, begin, end;
    bool together;
    // What it is computed from, from the plane before the group to the one behind; where it goes, and where these
    // planes begin in memory, and the links behind them. All but the last two are counted from the first column.
    Plane<const T> from[MOST_ROWS + 2];
    Plane<T> to[MOST_ROWS];
    int64_t offset[MOST_ROWS + 2], link_offset[MOST_ROWS];
    // How many places before it in the ring of f, and in which row of that place, the group has its planes of f.
    int64_t source_back[MOST_ROWS], source_row[MOST_ROWS];
    // Of which arrays it asks memory for rows, of which of the planes to come, and where these are.
    const T* soon[Bundle<T>::MOST_SOON];
    int64_t soon_plane[Bundle<T>::MOST_SOON], soon_offset[Bundle<T>::MOST_SOON];
};

#endif
