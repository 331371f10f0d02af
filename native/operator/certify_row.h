// SPDX-License-Identifier: MIT
// The residual against a source in the memory of the caller, row by row: for norms alone, it is not kept.
#ifndef POISSON_CERTIFY_ROW_H
#define POISSON_CERTIFY_ROW_H

#include "operator/rows.h"

// A source less a number, whose rows are `pitch` values apart and need no alignment.
template <class T>
struct Source {
    const T* values;
    int64_t pitch;
    double shift;
};

// The memory that a row needs.
template <class T>
inline int64_t certify_bytes(const Local<T>& a) {
    return 2 * ((a.nx + LANES - 1) / LANES + 1) * LANES * int64_t(sizeof(T));
}

// Adds the norms of a row of f - A u, of constant coefficients: those that `residual` leaves. `work` has
// certify_bytes(), so that they stay in the nearest cache. With TABLES `arrays` has those of the axes.
template <int DIMENSION, Varies VARIES = NOTHING, class T>
inline void certify_row(const Local<T>& a, const Rows<T>& rows, const Source<T>& f, int64_t j, int64_t k, T* work,
                        Sums& sums, const Coefficients<T>& arrays = {}) {
    if (rows.fixed || !a.counts(j, k)) return;
    const int64_t packs = (a.nx + LANES - 1) / LANES * LANES, row = j + a.ny * k;
    const T* source = f.values + f.pitch * row;
    // The packs at its end may reach beyond the last row.
    if (f.shift != 0 || (a.ny * a.nz - 1 - row) * f.pitch + a.nx < packs) {
        T* const copied = work + packs + LANES;
        for (int64_t i = 0; i < packs; ++i) copied[i] = i < a.nx ? T(source[i] - f.shift) : T(0);
        source = copied;
    }
    visit_row<DIMENSION, Mode<RESIDUAL, true, VARIES>>(a, rows, links_at<DIMENSION, VARIES>(a, arrays, j, k), source,
                                                       work, Factors<T>{T(1), 0}, std::false_type{}, sums);
}

#endif
