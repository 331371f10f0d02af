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
    for (int n = 0; n < s.offsets; ++n) {
        const int32_t* const offset = s.offset[n];
        const C* const link = coefficients + (n + 1) * values;
        const int64_t ahead = nodes.row(j + offset[1], k + offset[2]), behind = nodes.row(j - offset[1], k - offset[2]);
        if (ahead >= 0) {
            row.rows[row.count] = ahead / nodes.pitch;
            row.neighbours[row.count++] = {link + here, u + ahead + offset[0], offset[0], false};
        }
        if (behind >= 0) {
            row.rows[row.count] = behind / nodes.pitch;
            row.neighbours[row.count++] = {link + behind - offset[0], u + behind - offset[0], -offset[0], true};
        }
    }
    return row;
}

// At N nodes from i on, none of which is on an x face.
template <bool DIFFERENCES, class T, class C>
inline Sum<Pack<T>> at_pack(const Row<T, C>& row, int64_t i) {
    const Pack<T> excess = load_as<T>(row.excess + i);
    Sum<Pack<T>> sum = {{}, excess};
    Pack<T> u = {};
    if (DIFFERENCES) {
        u = load(row.u + i);
        sum.applied = excess * u;
    }
    for (int n = 0; n < row.count; ++n) {
        const Pack<T> link = load_as<T>(row.neighbours[n].link + i);
        if (DIFFERENCES) sum.applied += link * (u - load(row.neighbours[n].u + i));
        sum.diagonal += link;
    }
    return sum;
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
