// SPDX-License-Identifier: MIT
// Nodes pack by pack, the same on the host and on a GPU, for what needs no neighbours.
#ifndef POISSON_PACKS_H
#define POISSON_PACKS_H

#include "operator/stencil.h"

#ifdef POISSON_OFFLOAD
template <class T>
constexpr int32_t PACK = WIDTH<T>;
#else
template <class T>
constexpr int64_t PACK = LANES;
template <class T>
inline Pack<T> load_constant(const T* from) {
    return load(from);
}
#endif

// Calls visit(i, j, k) for each pack of a tile, i being its first column. Packs are aligned in their rows; the last one
// may pass the end of the row, never that of the row's memory.
template <class T, class Visit>
inline void for_each_pack(const Local<T>& a, const Tile& tile, Visit visit) {
    for_each_row(a, tile, [&](int64_t j, int64_t k) {
        for (int64_t i = tile.first; i < tile.last; i += PACK<T>) visit(i, j, k);
    });
}

// Whether a pack holds the first or the last node of its row.
template <class T>
inline bool at_an_end(const Local<T>& a, int64_t i) {
    return i == 0 || i + PACK<T> >= a.nx;
}

template <class T>
inline bool fixed_row(const Local<T>& a, int64_t j, int64_t k) {
    return a.fixed(j, a.ny, 1) || (a.dimension == 3 && a.fixed(k, a.nz, 2));
}

// The pack with zeros at fixed nodes and past the row.
template <class T>
inline Pack<T> only_free(const Local<T>& a, bool fixed, int64_t i, Pack<T> pack) {
    if (fixed) return Pack<T>{};
    if (at_an_end(a, i)) {
        for (int64_t lane = 0; lane < PACK<T>; ++lane)
            pack[lane] = i + lane < a.nx && !a.fixed(i + lane, a.nx, 0) ? pack[lane] : T(0);
    }
    return pack;
}

// The pack with zeros from a column on.
template <class T, class P>
inline P only_before(int64_t stop, int64_t i, P pack) {
    if (i + PACK<T> > stop) {
        for (int64_t lane = 0; lane < PACK<T>; ++lane) pack[lane] = i + lane < stop ? pack[lane] : T(0);
    }
    return pack;
}

// The pack with zeros past the row.
template <class T>
inline Pack<T> only_inside(const Local<T>& a, int64_t i, Pack<T> pack) {
    return only_before<T>(a.nx, i, pack);
}

template <class T>
inline void store_pack(bool stream, T* to, Pack<T> pack) {
    if (stream)
        store_streaming(to, pack);
    else
        store(to, pack);
}

inline void end_of_streaming([[maybe_unused]] bool stream) {
#ifndef POISSON_OFFLOAD
    if (stream) store_fence();
#endif
}

// The values of a pack in double precision.
template <class T>
struct DoublesOf {
    typedef double type __attribute__((vector_size(PACK<T> * sizeof(double))));
};
template <class T>
using Doubles = typename DoublesOf<T>::type;

// A sum of products and a maximum, over the nodes of packs.
template <class T>
class PackTotals {
public:
    // The dot product with the control widths along a row, tabulated ones if they are given; pack `x` has zeros past
    // the row.
    void add_product(const Local<T>& a, const double* widths, int64_t i, double row_weight, Pack<T> x, Pack<T> y) {
        Doubles<T> product = wide(x) * wide(y) * row_weight;
        if (widths) {
            Doubles<T> width;
            __builtin_memcpy(&width, widths + i, sizeof width);
            sums += only_inside_row(a, i, product * width);
            return;
        }
        if (at_an_end(a, i)) {
            for (int64_t lane = 0; lane < PACK<T>; ++lane)
                product[lane] = i + lane < a.nx ? product[lane] * trapezoidal(a, 0, i + lane, a.nx) : 0.0;
        }
        sums += product;
    }
    // The norms of a pack that has zeros past the row.
    void add_norms(Pack<T> r) {
        const Doubles<T> x = wide(r);
        sums += x * x;
        for (int64_t lane = 0; lane < PACK<T>; ++lane) {
            const double size = x[lane] < 0 ? -x[lane] : x[lane];
            maxima[lane] = size > maxima[lane] ? size : maxima[lane];
        }
    }
    void join(double& sum, double& maximum) const {
        for (int64_t lane = 0; lane < PACK<T>; ++lane) {
            sum += sums[lane];
            maximum = maxima[lane] > maximum ? maxima[lane] : maximum;
        }
    }

private:
    static Doubles<T> only_inside_row(const Local<T>& a, int64_t i, Doubles<T> pack) {
        return only_before<T>(a.nx, i, pack);
    }
    static Doubles<T> wide(Pack<T> pack) { return __builtin_convertvector(pack, Doubles<T>); }
    Doubles<T> sums = {}, maxima = {};
};

// The coefficients of the links along x at a pack of nodes, and of those below them; `links` is the row's.
template <class T>
struct LinkPacks {
    Pack<T> lower, upper;
};

template <class T>
inline LinkPacks<T> links_along_x(const Local<T>& a, const T* links, int64_t i) {
    LinkPacks<T> packs = {{}, load_constant(links + i)};
#ifdef POISSON_OFFLOAD
    const T before = load_constant_value(links + link_below(i, a.nx, a.rule(0)));
    for (int32_t lane = 0; lane < PACK<T>; ++lane)
        packs.lower[lane] = lane == 0 ? before : packs.upper[lane > 0 ? lane - 1 : 0];
#else
    packs.lower = load(links + i - 1);
    if (i == 0) packs.lower[0] = links[link_below(0, a.nx, a.rule(0))];
#endif
    if (i + PACK<T> >= a.nx && a.rule(1) != WRAP) {
        for (int64_t lane = 0; lane < PACK<T>; ++lane)
            packs.upper[lane] = i + lane == a.nx - 1 ? packs.lower[lane] : packs.upper[lane];
    }
    return packs;
}

// The diagonal of A at a pack of nodes, where a or c varies.
template <class T>
inline Pack<T> diagonal_at(const Local<T>& a, const Coefficients<T>& arrays, int64_t i, int64_t j, int64_t k) {
    const bool solid = a.dimension == 3;
    const int64_t row = a.row(j, k);
    const Pack<T> weight[3] = {spread(a.weight_x), spread(a.weight_y), spread(a.weight_z)};
    const Pack<T> c = arrays.c ? load_constant(arrays.c + row + i) : spread(a.c);
    if (!arrays.x) return solid ? diagonal<3>(weight, c) : diagonal<2>(weight, c);
    const LinkPacks<T> x = links_along_x(a, arrays.x + row, i);
    const T *y = arrays.y + i, *z = arrays.z + i;
    Pack<T> link[6] = {x.lower, x.upper, load_constant(y + a.row(link_below(j, a.ny, a.rule(2)), k)),
                       load_constant(y + a.row(link_above(j, a.ny, a.rule(3)), k))};
    if (!solid) return diagonal<2>(link, weight, c);
    link[4] = load_constant(z + a.row(j, link_below(k, a.nz, a.rule(4))));
    link[5] = load_constant(z + a.row(j, link_above(k, a.nz, a.rule(5))));
    return diagonal<3>(link, weight, c);
}

// The links and tables of a row on tabulated axes.
template <class T>
inline RowTables<T> tables_at(const Local<T>& a, const Coefficients<T>& arrays, int64_t j, int64_t k) {
    return a.dimension == 3 ? links_at<3, LINKS_AND_TABLES>(a, arrays, j, k)
                            : links_at<2, LINKS_AND_TABLES>(a, arrays, j, k);
}

// factor / diag(A) at a pack of nodes of such a row; zero at those of a mask, which may have no diagonal.
template <int DIMENSION, class T>
inline Pack<T> scale_on(const Local<T>& a, const RowTables<T>& row, T factor, int64_t i) {
    const Pack<T> c = row.c ? load_constant(row.c + i) : spread(a.c);
    Pack<T> link[6] = {}, table[9] = {}, diagonal;
    tables_of<DIMENSION, TABLES>(row, i, table, [](const T* at) { return load_constant(at); });
    if (row.x) {
        const LinkPacks<T> x = links_along_x(a, row.x, i);
        link[0] = x.lower, link[1] = x.upper;
        link[2] = load_constant(row.y_lower + i), link[3] = load_constant(row.y_upper + i);
        if constexpr (DIMENSION == 3) {
            link[4] = load_constant(row.z_lower + i);
            link[5] = load_constant(row.z_upper + i);
        }
        diagonal = tabulate<DIMENSION, true>(table, link, c).diagonal;
    } else {
        diagonal = tabulate<DIMENSION, false>(table, link, c).diagonal;
    }
    const Pack<T> scale = factor * inverse_of(diagonal);
    if (!row.mask) return scale;
    return c < T(0) ? Pack<T>{} : scale;
}
template <class T>
inline Pack<T> scale_at(const Local<T>& a, const RowTables<T>& row, T factor, int64_t i) {
    return a.dimension == 3 ? scale_on<3>(a, row, factor, i) : scale_on<2>(a, row, factor, i);
}

#endif
