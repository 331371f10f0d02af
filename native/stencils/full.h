// SPDX-License-Identifier: MIT
// Full stencils on the host: V A u = excess u + Σ link (u - u of the neighbour), each link stored once.
#ifndef POISSON_FULL_H
#define POISSON_FULL_H

#include "operator/stencil.h"

inline const poisson_operator* lattice_of(const poisson_stencil* s) { return s ? &s->lattice : nullptr; }
inline const poisson_operator* lattice_of(const poisson_weighted* w) { return w ? &w->fine.lattice : nullptr; }
inline const poisson_operator* lattice_of(const poisson_clusters* c) { return c ? &c->lattice : nullptr; }

// An axis of a lattice.
struct Line {
    int64_t nodes;
    bool wraps, fixed_below, fixed_above;

    Line(const poisson_operator& a, int axis)
        : nodes(a.shape[axis]),
          wraps(axis >= a.dimension || a.rule[2 * axis] == WRAP),
          fixed_below(axis < a.dimension && a.rule[2 * axis] == FIXED),
          fixed_above(axis < a.dimension && a.rule[2 * axis + 1] == FIXED) {}
    // The node with this number, which may be an image, or -1 where there is none.
    int64_t node(int64_t index) const {
        if (index >= 0 && index < nodes) return index;
        if (!wraps) return -1;
        index %= nodes;
        return index < 0 ? index + nodes : index;
    }
    bool free(int64_t index) const { return !(index == 0 && fixed_below) && !(index == nodes - 1 && fixed_above); }
};

// The nodes of a lattice, and their control volumes.
struct Nodes {
    Line x, y, z;
    int64_t pitch;

    explicit Nodes(const poisson_operator& a)
        : x(a, 0), y(a, 1), z(a, 2), pitch(a.pitch), all(local<double>(&a)), widths(a.widths) {}
    int64_t rows() const { return y.nodes * z.nodes; }
    // The values of one array, and its nodes.
    int64_t values() const { return pitch * rows(); }
    int64_t count() const { return x.nodes * rows(); }
    // The number of a row, and where it begins in an array; -1 where there is none.
    int64_t number(int64_t j, int64_t k) const {
        j = y.node(j);
        k = z.node(k);
        return j < 0 || k < 0 ? -1 : j + y.nodes * k;
    }
    int64_t row(int64_t j, int64_t k) const {
        const int64_t own = number(j, k);
        return own < 0 ? -1 : pitch * own;
    }
    bool free(int64_t j, int64_t k) const { return y.free(j) && z.free(k); }
    double width(int64_t i) const { return widths ? widths_along_x()[i] : trapezoidal(all, 0, i, x.nodes); }
    // Null where all are 1 but at the ends of a row.
    const double* widths_along_x() const { return widths ? widths + all.table(0, 1) : nullptr; }
    double width_of_row(int64_t j, int64_t k) const { return ::width_of_row(all, widths, j, k); }

private:
    Local<double> all;
    const double* widths;
};

template <class T, class C>
inline Pack<T> load_as(const C* from) {
#ifdef __AVX512F__
    // The compiler would convert both halves apart.
    if constexpr (sizeof(T) == 8 && sizeof(C) == 4) return Pack<T>(_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(from)));
#endif
    return converted<T>(load(from));
}

#endif
