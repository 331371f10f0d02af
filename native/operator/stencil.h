// SPDX-License-Identifier: MIT
// What the host's rows and a GPU's columns of nodes share: neighbours, links, and what an operation writes.
#ifndef POISSON_STENCIL_H
#define POISSON_STENCIL_H

#include <type_traits>

#include "core/regions.h"

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

// What is an array of an operator: nothing, c alone, or a and perhaps c. With TABLES axes are tabulated too.
enum Varies { NOTHING, REACTION, LINKS, TABLES, LINKS_AND_TABLES };
constexpr bool linked(Varies varies) { return varies == LINKS || varies == LINKS_AND_TABLES; }
constexpr bool tabulated(Varies varies) { return varies == TABLES || varies == LINKS_AND_TABLES; }
// The same where a is constant.
constexpr Varies without_links(Varies varies) { return tabulated(varies) ? TABLES : REACTION; }

// visit(type of what varies); where `APART` is false, whether a does is left to the rows.
template <bool TABULATED, bool APART, class Visit>
inline poisson_status with_varies(const poisson_operator& a, Visit visit) {
    constexpr Varies LINKED = TABULATED ? LINKS_AND_TABLES : LINKS;
    if constexpr (APART) {
        if (!a.a[0]) return visit(std::integral_constant<Varies, without_links(LINKED)>());
    }
    return visit(std::integral_constant<Varies, LINKED>());
}

// The coefficients of one row: of the links along x, of those to the rows below and above along the other axes, and c,
// which is null where it is constant.
template <class T>
struct RowLinks {
    const T *x, *y_lower, *y_upper, *z_lower, *z_upper, *c;
};

// The same with the tables of x and the values of those of y and z: lower, upper and extra.
template <class T>
struct RowTables : RowLinks<T> {
    const T* along_x[3];
    T across[6];
    const double* widths;
    // c where nodes with a negative one are fixed, or null.
    const T* mask;
};

template <Varies VARIES, class T>
using LinksOf = std::conditional_t<tabulated(VARIES), RowTables<T>, RowLinks<T>>;

template <int DIMENSION, Varies VARIES, class T>
inline LinksOf<VARIES, T> links_at(const Local<T>& a, const Coefficients<T>& arrays, int64_t j, int64_t k) {
    LinksOf<VARIES, T> links = {};
    if (VARIES == NOTHING) return links;
    links.c = arrays.c ? arrays.c + a.row(j, k) : nullptr;
    if constexpr (tabulated(VARIES)) {
        const int64_t sizes[3] = {a.table_stride(a.nx), a.table_stride(a.ny), a.table_stride(a.nz)};
        for (int n = 0; n < 3; ++n) {
            links.along_x[n] = arrays.tables + a.table(0, 3) + sizes[0] * n;
            links.across[n] = arrays.tables[a.table(1, 3) + sizes[1] * n + j];
            if (DIMENSION == 3) links.across[3 + n] = arrays.tables[a.table(2, 3) + sizes[2] * n + k];
        }
        links.widths = arrays.widths + a.table(0, 1);
        links.mask = arrays.mask ? arrays.mask + a.row(j, k) : nullptr;
    }
    if (!linked(VARIES) || !arrays.x) return links;
    links.x = arrays.x + a.row(j, k);
    links.y_lower = arrays.y + a.row(link_below(j, a.ny, a.rule(2)), k);
    links.y_upper = arrays.y + a.row(link_above(j, a.ny, a.rule(3)), k);
    if (DIMENSION == 3) {
        links.z_lower = arrays.z + a.row(j, link_below(k, a.nz, a.rule(4)));
        links.z_upper = arrays.z + a.row(j, link_above(k, a.nz, a.rule(5)));
    }
    return links;
}

// A at one or more nodes: (A u) and the diagonal.
template <class P>
struct Applied {
    P au, diagonal;
};

// From u and the coefficients of the links at the nodes and their neighbours, which are used where a varies, and the
// tables of the nodes, which are where there are some.
template <int DIMENSION, Varies VARIES, class P>
POISSON_INLINE Applied<P> apply_varying(P centre, const P (&neighbour)[6], const P (&link)[6], const P (&table)[9],
                                        const P (&weight)[3], P c) {
    if constexpr (tabulated(VARIES)) {
        const Tabulated<P> at = tabulate<DIMENSION, linked(VARIES)>(table, link, c);
        return {apply_tabulated<DIMENSION>(centre, neighbour, at), at.diagonal};
    } else if constexpr (VARIES == LINKS) {
        return {apply_operator<DIMENSION>(centre, neighbour, link, weight, c), diagonal<DIMENSION>(link, weight, c)};
    } else {
        return {apply_operator<DIMENSION>(centre, neighbour, weight, c), diagonal<DIMENSION>(weight, c)};
    }
}

// Whether a mask fixes the node of a row.
template <Varies VARIES, class L>
POISSON_INLINE bool masked([[maybe_unused]] const L& links, [[maybe_unused]] int64_t i) {
    if constexpr (tabulated(VARIES))
        return links.mask && links.mask[i] < 0;
    else
        return false;
}

// The tables at the nodes from one on along a row; load(p) is what is there.
template <int DIMENSION, Varies VARIES, class P, class L, class Load>
POISSON_INLINE void tables_of(const L& links, int64_t i, P (&table)[9], Load load) {
    if constexpr (tabulated(VARIES)) {
        for (int n = 0; n < 3; ++n) table[n] = load(links.along_x[n] + i);
        for (int n = 0; n < 3 * (DIMENSION - 1); ++n) table[3 + n] = links.across[n] - P{};
    }
}

// The same at a node of a row. Without variation the diagonal is left out.
template <int DIMENSION, Varies VARIES, class T, class L>
inline Applied<T> apply_at(const Local<T>& a, const Rows<T>& rows, const L& links, int64_t i) {
    const int64_t left = below(i, a.nx, a.rule(0)), right = above(i, a.nx, a.rule(1));
    const T centre = rows.centre[i], x_lower = rows.centre[left], x_upper = rows.centre[right];
    const T neighbour[6] = {x_lower, x_upper, rows.y_lower[i], rows.y_upper[i], rows.z_lower[i], rows.z_upper[i]};
    const T weight[3] = {a.weight_x, a.weight_y, a.weight_z};
    if (VARIES == NOTHING) return {apply_operator<DIMENSION>(centre, neighbour, weight, a.c), T(0)};
    T link[6] = {}, table[9] = {};
    if (linked(VARIES)) {
        link[0] = links.x[link_below(i, a.nx, a.rule(0))];
        link[1] = links.x[link_above(i, a.nx, a.rule(1))];
        link[2] = links.y_lower[i];
        link[3] = links.y_upper[i];
        if (DIMENSION == 3) {
            link[4] = links.z_lower[i];
            link[5] = links.z_upper[i];
        }
    }
    tables_of<DIMENSION, VARIES>(links, i, table, [](const T* at) { return *at; });
    return apply_varying<DIMENSION, VARIES>(centre, neighbour, link, table, weight, links.c ? links.c[i] : a.c);
}

// One half for each mirror face that a node with this index along an axis of n nodes lies on: the control widths of a
// uniform axis.
template <class T>
inline double trapezoidal(const Local<T>& a, int axis, int64_t index, int64_t n) {
    const bool lower = index == 0 && a.rule(2 * axis) == MIRROR;
    const bool upper = index == n - 1 && a.rule(2 * axis + 1) == MIRROR;
    return lower || upper ? 0.5 : 1.0;
}
// The product of the control widths of y and z; `widths` are those of tabulated axes, or null.
template <class T>
inline double width_of_row(const Local<T>& a, const double* widths, int64_t j, int64_t k) {
    const bool solid = a.dimension == 3;
    if (widths) return widths[a.table(1, 1) + j] * (solid ? widths[a.table(2, 1) + k] : 1.0);
    return trapezoidal(a, 1, j, a.ny) * (solid ? trapezoidal(a, 2, k, a.nz) : 1.0);
}

// What goes to `out` at a node: A u (APPLY leaves the nodes on the faces alone, PRODUCT has all, and the dot product
// with u), the residual r = f - A u (DEFECT: times a factor, as float), or the relaxed value u + omega r / diag(A)
// (COLOR: in place, at the nodes of one color).
enum Kind { APPLY, PRODUCT, RESIDUAL, DEFECT, RELAX, COLOR };

// How nodes are written: NORM with the norms of the residual.
template <Kind KIND_, bool NORM_, Varies VARIES_ = NOTHING>
struct Mode {
    static constexpr Kind KIND = KIND_;
    static constexpr bool NORM = NORM_;
    static constexpr Varies VARIES = VARIES_;
    // Fixed nodes keep their values; the others are zero there.
    static constexpr bool KEEPS = KIND == RELAX || KIND == COLOR, TAKES_SOURCE = KIND != APPLY && KIND != PRODUCT;
};

template <Kind KIND, class T>
using Output = std::conditional_t<KIND == DEFECT, float, T>;

// What r is multiplied by: omega / diag(A), omega alone where the diagonal varies, or the factor of DEFECT; and the
// color.
template <class T>
struct Factors {
    T scale;
    int32_t color;
};

// What goes to the nodes.
template <class M, class P>
POISSON_INLINE P written(P centre, const Applied<P>& applied, P r, P scale) {
    if (M::KIND == APPLY || M::KIND == PRODUCT) return applied.au;
    if (M::KIND == RESIDUAL) return r;
    if (M::KIND == DEFECT) return scale * r;
    if constexpr (tabulated(M::VARIES)) return relax(centre, r, scale * inverse_of(applied.diagonal));
    return relax(centre, r, M::VARIES == NOTHING ? scale : scale / applied.diagonal);
}

#endif
