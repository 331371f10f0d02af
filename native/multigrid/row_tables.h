// SPDX-License-Identifier: MIT
// What the rows of a grid have in the tables of its operator.
#ifndef POISSON_ROW_TABLES_H
#define POISSON_ROW_TABLES_H

#include "multigrid/tiles.h"
#include "operator/stencil.h"

// Where the tables of an operator begin, those of the middle axis in 2D having zeros alone, and whether those of x are
// the same in every line of columns but the first and the last of a row, as they are at the node `within`, and c is a
// constant.
template <class T>
struct TablesOf {
    const T *x[3], *middle[3], *slow[3];
    int64_t within;
    bool even;

    TablesOf(const Local<T>& a, const Coefficients<T>& arrays)
        : within(a.rule(0) == WRAP ? 0 : WIDE<T>), even(arrays.tables && !arrays.c) {
        const T* const tables = arrays.tables;
        static constexpr T NONE = 0;
        const bool solid = a.dimension == 3;
        const int64_t stride[3] = {a.table_stride(a.nx), a.table_stride(a.ny), a.table_stride(a.nz)};
        // Where a row that wraps is cut, its ends lie among other lines.
        const int64_t stop = within ? round_down(a.nx - 1, WIDE<T>) : a.nx;
        even = even && within < stop;
        for (int n = 0; tables && n < 3; ++n) {
            x[n] = tables + a.table(0, 3) + stride[0] * n;
            middle[n] = solid ? tables + a.table(1, 3) + stride[1] * n : &NONE;
            slow[n] = tables + a.table(1 + solid, 3) + stride[1 + solid] * n;
            for (int64_t i = within; i < stop; ++i) even = even && x[n][i] == x[n][within];
        }
    }
};

#endif
