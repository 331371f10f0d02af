// The nodes of a tile on the host: whole rows, written in packs.
#ifndef POISSON_ROWS_H
#define POISSON_ROWS_H

#include "stencil.h"

// What goes to one node of a row, `old` being what is there; the norms go to sum and maximum. Without f
// the source is zero.
template <int DIMENSION, class M, class T>
inline T node_value(const Local<T>& a, const Rows<T>& rows, const T* f, T old, T scale, int64_t i, double& sum,
                    double& maximum) {
    const bool on_x_face = i == 0 || i == a.nx - 1;
    if (M::KIND == APPLY && on_x_face) return old;
    const bool fixed = rows.fixed || (on_x_face && a.fixed(i, a.nx, 0));
    if (fixed) return M::KIND == RELAX ? rows.centre[i] : T(0);
    const T au = apply_at<DIMENSION>(a, rows, i, below(i, a.nx, a.rule(0)), above(i, a.nx, a.rule(1)));
    if (M::KIND == APPLY) return au;
    const T r = (f ? f[i] : T(0)) - au;
    if (M::NORM) {
        const double x = r, size = x < 0 ? -x : x;
        sum += x * x;
        maximum = size > maximum ? size : maximum;
    }
    return M::KIND == RELAX ? relax(rows.centre[i], r, scale) : r;
}

// The numbers of an operator in packs, made once for a row: out of memory the compiler would fetch them for every pack,
// because the stores between might change them.
template <class T>
struct Weights {
    Pack<T> x, y, z, c, scale;

    Weights(const Local<T>& a, T scale_)
        : x(spread(a.weight_x)), y(spread(a.weight_y)), z(spread(a.weight_z)), c(spread(a.c)), scale(spread(scale_)) {}
};

// What goes to LANES nodes if none of them is on an x face, and their residual.
template <int DIMENSION, class M, class T>
inline Pack<T> pack_value(const Weights<T> w, const Rows<T>& rows, const T* f, int64_t i, Pack<T>& r) {
    // The rows that come from memory and, in 3D, those that come from the next cache. The hardware's own prefetching
    // stops at the end of a page, which is a row or two away.
    prefetch(DIMENSION == 2 ? rows.y_upper + i : rows.z_upper + i, FAR_AHEAD);
    if (M::KIND != APPLY && f) prefetch(f + i, FAR_AHEAD);
    const Pack<T> centre = load(rows.centre + i);
    const Pack<T> left = load(rows.centre + i - 1), right = load(rows.centre + i + 1);
    const Pack<T> y_lower = load(rows.y_lower + i), y_upper = load(rows.y_upper + i);
    Pack<T> au;
    if constexpr (DIMENSION == 2) {
        au = apply_operator(centre, left, right, y_lower, y_upper, w.x, w.y, w.c);
    } else {
        prefetch(rows.y_upper + i, NEAR_AHEAD);
        prefetch(rows.z_lower + i, NEAR_AHEAD);
        const Pack<T> z_lower = load(rows.z_lower + i), z_upper = load(rows.z_upper + i);
        au = apply_operator(centre, left, right, y_lower, y_upper, z_lower, z_upper, w.x, w.y, w.z, w.c);
    }
    if (M::KIND == APPLY) return au;
    r = f ? load(f + i) - au : -au;
    return M::KIND == RELAX ? relax(centre, r, w.scale) : r;
}

template <class M, class T>
inline void put(T* to, Pack<T> pack) {
    if (M::STREAM)
        store_streaming(to, pack);
    else
        store(to, pack);
}

// One whole row. It is written in aligned packs from end to end: the packs at the ends take the values on the x faces
// in their lanes, and zeros in the lanes past the row. They read one value outside their row, which the allocation has.
template <int DIMENSION, class M, class T>
inline void visit_row(const Local<T>& a, const Rows<T>& rows, const T* f, T* out, T scale, double& sum,
                      double& maximum) {
    if (rows.fixed) {
        for (int64_t i = 0; i < a.nx; ++i) out[i] = M::KIND == RELAX ? rows.centre[i] : T(0);
        return;
    }
    const int64_t last = a.nx - 1, last_pack = last / LANES * LANES;
    const T at_first = node_value<DIMENSION, M>(a, rows, f, out[0], scale, 0, sum, maximum);
    const T at_last = node_value<DIMENSION, M>(a, rows, f, out[last], scale, last, sum, maximum);
    const Weights<T> w(a, scale);
    PackNorms norms;
    const auto end_pack = [&](int64_t i) {
        Pack<T> r = {};
        Pack<T> value = pack_value<DIMENSION, M>(w, rows, f, i, r);
        const Pack<T> lane = lane_numbers<T>();
        const auto inside = (lane > T(-i)) & (lane < T(last - i < LANES ? last - i : LANES));
        value = inside ? value : lane == T(last - i) ? spread(at_last) : lane == T(-i) ? spread(at_first) : Pack<T>{};
        r = inside ? r : Pack<T>{};
        put<M>(out + i, value);
        if (M::NORM) norms.add<T>(r);
    };
    end_pack(0);
    for (int64_t i = LANES; i < last_pack; i += LANES) {
        Pack<T> r;
        put<M>(out + i, pack_value<DIMENSION, M>(w, rows, f, i, r));
        if (M::NORM) norms.add<T>(r);
    }
    if (last_pack > 0) end_pack(last_pack);
    if (M::NORM) norms.join(sum, maximum);
}

// The nodes of a tile. With APPLY those on the faces keep their values.
template <int DIMENSION, class M, class T>
inline void visit_tile(const Local<T>& a, const Tile& tile, const T* u, const T* f, T* out, T scale, double& sum,
                       double& maximum) {
    for_each_row(a, tile, [&](int64_t j, int64_t k) {
        const bool on_face = j == 0 || j == a.ny - 1 || (DIMENSION == 3 && (k == 0 || k == a.nz - 1));
        if (M::KIND == APPLY && on_face) return;
        const int64_t row = a.row(j, k);
        visit_row<DIMENSION, M>(a, rows_at<DIMENSION>(a, u, j, k), f ? f + row : nullptr, out + row, scale, sum,
                                maximum);
    });
    if (M::STREAM) store_fence();
}

#endif
