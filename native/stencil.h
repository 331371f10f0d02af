// What the host's rows and a GPU's columns of nodes share: neighbours, and what an operation writes.
#ifndef POISSON_STENCIL_H
#define POISSON_STENCIL_H

#include "regions.h"

// One row of u with the rows beside it.
template <class T>
struct Rows {
    const T *centre, *y_lower, *y_upper, *z_lower, *z_upper;
    bool fixed;
};

template <int DIMENSION, class T>
inline Rows<T> rows_at(const Local<T>& a, const T* u, int64_t j, int64_t k) {
    Rows<T> rows;
    rows.centre = u + a.row(j, k);
    rows.y_lower = u + a.row(below(j, a.ny, a.rule(2)), k);
    rows.y_upper = u + a.row(above(j, a.ny, a.rule(3)), k);
    rows.fixed = a.fixed(j, a.ny, 1);
    rows.z_lower = rows.z_upper = rows.centre;
    if (DIMENSION == 3) {
        rows.z_lower = u + a.row(j, below(k, a.nz, a.rule(4)));
        rows.z_upper = u + a.row(j, above(k, a.nz, a.rule(5)));
        rows.fixed = rows.fixed || a.fixed(k, a.nz, 2);
    }
    return rows;
}

template <int DIMENSION, class T>
inline T apply_at(const Local<T>& a, const Rows<T>& rows, int64_t i, int64_t left, int64_t right) {
    const T centre = rows.centre[i], x_lower = rows.centre[left], x_upper = rows.centre[right];
    if (DIMENSION == 2)
        return apply_operator(centre, x_lower, x_upper, rows.y_lower[i], rows.y_upper[i], a.weight_x, a.weight_y, a.c);
    return apply_operator(centre, x_lower, x_upper, rows.y_lower[i], rows.y_upper[i], rows.z_lower[i], rows.z_upper[i],
                          a.weight_x, a.weight_y, a.weight_z, a.c);
}

// What goes to `out` at a node: A u, the residual r = f - A u, or the relaxed value u + scale r.
enum Kind { APPLY, RESIDUAL, RELAX };

// How nodes are written: NORM with the norms of the residual; STREAM around the cache.
template <Kind KIND_, bool NORM_, bool STREAM_>
struct Mode {
    static constexpr Kind KIND = KIND_;
    static constexpr bool NORM = NORM_, STREAM = STREAM_;
};

#endif
