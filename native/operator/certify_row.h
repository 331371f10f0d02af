// SPDX-License-Identifier: MIT
// The residual against a source in the memory of the caller, row by row: for norms alone, it is not kept.
#ifndef POISSON_CERTIFY_ROW_H
#define POISSON_CERTIFY_ROW_H

#include "operator/together.h"

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

// Whether packs may be loaded from a row of the source to its end: those of the last row may reach beyond the memory.
template <class T>
inline bool has_packs(const Local<T>& a, const Source<T>& f, int64_t row) {
    return (a.ny * a.nz - 1 - row) * f.pitch + a.nx >= (a.nx + LANES - 1) / LANES * LANES;
}

// Adds the norms of a row of f - A u, of constant coefficients: those that `residual` leaves. `work` has
// certify_bytes(), so that they stay in the nearest cache. With TABLES `arrays` has those of the axes.
template <int DIMENSION, Varies VARIES = NOTHING, class T>
inline void certify_row(const Local<T>& a, const Rows<T>& rows, const Source<T>& f, int64_t j, int64_t k, T* work,
                        Sums& sums, const Coefficients<T>& arrays = {}) {
    if (rows.fixed || !a.counts(j, k)) return;
    const int64_t packs = (a.nx + LANES - 1) / LANES * LANES, row = j + a.ny * k;
    const T* source = f.values + f.pitch * row;
    if (f.shift != 0 || !has_packs(a, f, row)) {
        T* const copied = work + packs + LANES;
        for (int64_t i = 0; i < packs; ++i) copied[i] = i < a.nx ? T(source[i] - f.shift) : T(0);
        source = copied;
    }
    visit_row<DIMENSION, Mode<RESIDUAL, true, VARIES>>(a, rows, links_at<DIMENSION, VARIES>(a, arrays, j, k), source,
                                                       work, Factors<T>{T(1), 0}, std::false_type{}, sums);
}

// Adds those of the rows from start to stop along the slowest axis at a place m of the middle one, together where
// they can be.
template <int DIMENSION, class T>
inline void certify_group(const Local<T>& a, const T* u, const Source<T>& f, int64_t m, int64_t start, int64_t stop,
                          T* work, Sums& sums) {
    const auto j = [m](int64_t at) { return DIMENSION == 2 ? at : m; };
    const auto k = [](int64_t at) { return DIMENSION == 2 ? 0 : at; };
    const int64_t first = j(start) + a.ny * k(start), last = j(stop - 1) + a.ny * k(stop - 1);
    const Rows<T> rows = rows_at<DIMENSION>(a, u, j(start), k(start));
    if (stop - start == TOGETHER && !rows.fixed && a.counts(j(start), k(start)) && a.counts(j(stop - 1), k(stop - 1)) &&
        f.shift == 0 && has_packs(a, f, last)) {
        visit_together<DIMENSION, Mode<RESIDUAL, true>, NONE>(a, rows, f.values + f.pitch * first,
                                                              f.pitch * (DIMENSION == 2 ? 1 : a.ny),
                                                              static_cast<T*>(nullptr), Factors<T>{T(1), 0}, sums);
        return;
    }
    for (int64_t at = start; at < stop; ++at)
        certify_row<DIMENSION>(a, rows_at<DIMENSION>(a, u, j(at), k(at)), f, j(at), k(at), work, sums);
}

#endif
