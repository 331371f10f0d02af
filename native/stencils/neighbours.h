// SPDX-License-Identifier: MIT
// The neighbours of the nodes of a row, whose links are stored at either end.
#ifndef POISSON_NEIGHBOURS_H
#define POISSON_NEIGHBOURS_H

#include "stencils/full.h"

// A neighbour of the nodes of a row: of node i the link is link[i], and its value u[i]. `across` is where it lies along
// x; a link that is stored at the neighbour lies there too.
template <class T, class C>
struct Neighbour {
    const C* link;
    const T* u;
    int64_t across;
    bool stored_there;
};

constexpr int MOST = 26;

template <class T, class C>
struct Row {
    const C* excess;
    const T* u;
    Neighbour<T, C> neighbours[MOST];
    int64_t rows[MOST];
    int count;
    double width;
    const double* widths;
};

template <class V>
struct Sum {
    V applied, diagonal;
};

template <class T, class C>
Row<T, C> row_at(const poisson_stencil& s, const Nodes& nodes, const T* u, int64_t j, int64_t k) {
    const C* const coefficients = static_cast<const C*>(s.coefficients);
    const int64_t here = nodes.row(j, k), values = nodes.values();
    Row<T, C> row;
    row.excess = coefficients + here;
    row.u = u + here;
    row.count = 0;
    row.width = nodes.width_of_row(j, k);
    row.widths = nodes.widths_along_x();
    int64_t around[3][3];
    for (int dz = -1; dz <= 1; ++dz)
        for (int dy = -1; dy <= 1; ++dy) around[dz + 1][dy + 1] = nodes.number(j + dy, k + dz);
    for (int n = 0; n < s.offsets; ++n) {
        const int32_t* const offset = s.offset[n];
        const C* const link = coefficients + (n + 1) * values;
        const auto add = [&](int64_t number, bool stored_there, int64_t across) {
            if (number < 0) return;
            const int64_t there = nodes.pitch * number + across;
            row.rows[row.count] = number;
            row.neighbours[row.count++] = {link + (stored_there ? there : here), u + there, across, stored_there};
        };
        add(around[1 + offset[2]][1 + offset[1]], false, offset[0]);
        add(around[1 - offset[2]][1 - offset[1]], true, -offset[0]);
    }
    return row;
}

// At LANES nodes from i on, none of which is on an x face.
template <bool DIFFERENCES, class T, class C>
POISSON_INLINE Sum<Pack<T>> at_pack(const Row<T, C>& row, int64_t i) {
    const Pack<T> excess = load_as<T>(row.excess + i);
    Sum<Pack<T>> sum = {{}, excess};
    Pack<T> u = {};
    if (DIFFERENCES) {
        u = load(row.u + i);
        sum.applied = excess * u;
    }
    // Two sums at a time: an addition waits for the one before it.
    Sum<Pack<T>> other = {{}, {}};
    int n = 0;
    for (; n + 2 <= row.count; n += 2) {
        const Pack<T> one = load_as<T>(row.neighbours[n].link + i), two = load_as<T>(row.neighbours[n + 1].link + i);
        if (DIFFERENCES) {
            sum.applied += one * (u - load(row.neighbours[n].u + i));
            other.applied += two * (u - load(row.neighbours[n + 1].u + i));
        }
        sum.diagonal += one;
        other.diagonal += two;
    }
    if (n < row.count) {
        const Pack<T> link = load_as<T>(row.neighbours[n].link + i);
        if (DIFFERENCES) sum.applied += link * (u - load(row.neighbours[n].u + i));
        sum.diagonal += link;
    }
    return {sum.applied + other.applied, sum.diagonal + other.diagonal};
}

// At one node of any place.
template <bool DIFFERENCES, class T, class C>
Sum<T> at_node(const Row<T, C>& row, const Line& x, int64_t i) {
    Sum<T> sum = {T(0), T(row.excess[i])};
    if (DIFFERENCES) sum.applied = sum.diagonal * row.u[i];
    for (int n = 0; n < row.count; ++n) {
        const Neighbour<T, C>& to = row.neighbours[n];
        const int64_t there = x.node(i + to.across);
        if (there < 0) continue;
        const int64_t image = there - to.across;
        const T link = T(to.link[to.stored_there ? image : i]);
        if (DIFFERENCES) sum.applied += link * (row.u[i] - to.u[image]);
        sum.diagonal += link;
    }
    return sum;
}

#endif
