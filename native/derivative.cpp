// First derivatives on nodes by the differences of poisson/differences.py: derivative and gradient.
#include "regions.h"

namespace {

// The index of a node up to n nodes before the first or behind the last of a periodic line.
inline int64_t wrapped(int64_t i, int64_t n) { return i < 0 ? i + n : i < n ? i : i - n; }

// A line of n nodes along an axis.
template <class T>
struct Line {
    int64_t n;
    bool wraps;
    T scale;

    bool near_face(int64_t s, int64_t half) const { return !wraps && (s < half || s >= n - half); }
};

template <class T>
inline Line<T> line_along(const Local<T>& a, int axis) {
    return {axis == 0   ? a.nx
            : axis == 1 ? a.ny
                        : a.nz,
            a.rule(2 * axis) == WRAP,
            axis == 0   ? a.weight_x
            : axis == 1 ? a.weight_y
                        : a.weight_z};
}

// The derivative at the node s of a line, or of several neighbouring lines; at(s) is the value there.
template <int HALF, class T, class At>
inline auto derivative_at(const Line<T>& line, int64_t s, const T* central, const double* closure, At at) {
    constexpr int POINTS = 2 * HALF + 1;
    if (line.near_face(s, HALF)) {
        const bool upper = s >= HALF;
        const int64_t last = line.n - 1, from_face = upper ? last - s : s;
        const auto sum = one_sided_difference<POINTS, T>(closure + POINTS * from_face, at(s),
                                                         [&](int j) { return at(upper ? last - j : j); });
        return (upper ? -line.scale : line.scale) * sum;
    }
    return line.scale * central_difference<HALF>(central, [&](int m) { return at(wrapped(s + m, line.n)); });
}

#ifdef POISSON_OFFLOAD

// The derivatives along an axis at the nodes from `first` to `last` of a row.
template <int HALF, bool STREAM, class T>
inline void derive_row(const Local<T>& a, int axis, int64_t j, int64_t k, int64_t first, int64_t last, const T* central,
                       const double* closure, const T* u, T* out) {
    const Line<T> line = line_along(a, axis);
    const int64_t stride = axis == 0 ? 1 : axis == 1 ? a.pitch : a.pitch * a.ny, place = axis == 1 ? j : k;
    for (int64_t i = first; i < last; ++i) {
        const int64_t s = axis == 0 ? i : place;
        const T* nodes = u + a.row(j, k) + i - stride * s;
        out[a.row(j, k) + i] =
            derivative_at<HALF>(line, s, central, closure, [=](int64_t index) { return nodes[stride * index]; });
    }
}

#else

template <bool STREAM, class T>
inline void put(T* to, Pack<T> pack) {
    if (STREAM)
        store_streaming(to, pack);
    else
        store(to, pack);
}

// The derivatives along an axis at the nodes of a whole row, with zeros in the lanes past it.
template <int HALF, bool STREAM, class T>
inline void derive_row(const Local<T>& a, int axis, int64_t j, int64_t k, int64_t, int64_t, const T* central,
                       const double* closure, const T* u, T* out) {
    const Line<T> line = line_along(a, axis);
    const T* row = u + a.row(j, k);
    T* to = out + a.row(j, k);
    const auto clip = [&](int64_t i, Pack<T> pack) {
        return i + LANES <= a.nx ? pack : lane_numbers<T>() < T(a.nx - i) ? pack : Pack<T>{};
    };
    if (axis == 0) {
        for (int64_t i = 0; i < a.nx; i += LANES) {
            Pack<T> pack = {};
            if (i >= HALF && i + LANES <= a.nx - HALF) {
                prefetch(row + i, FAR_AHEAD);
                pack = line.scale * central_difference<HALF>(central, [&](int m) { return load(row + i + m); });
            } else {
                for (int64_t s = i; s < a.nx && s < i + LANES; ++s)
                    pack[s - i] = derivative_at<HALF>(line, s, central, closure, [&](int64_t n) { return row[n]; });
            }
            put<STREAM>(to + i, pack);
        }
        return;
    }
    const int64_t stride = axis == 1 ? a.pitch : a.pitch * a.ny, s = axis == 1 ? j : k;
    const int64_t ahead = s + HALF < line.n ? stride * HALF : 0;
    for (int64_t i = 0; i < a.nx; i += LANES) {
        const T* nodes = row + i - stride * s;
        prefetch(row + i + ahead, FAR_AHEAD);
        const Pack<T> pack =
            derivative_at<HALF>(line, s, central, closure, [&](int64_t index) { return load(nodes + stride * index); });
        put<STREAM>(to + i, clip(i, pack));
    }
}

#endif

// The derivatives along the axes whose array is given.
template <int HALF, bool STREAM, class T>
poisson_status derive(const poisson_differences* differences, const T* u, T* out_x, T* out_y, T* out_z) {
    poisson_operator grid = {};
    grid.dimension = differences->dimension;
    grid.pitch = differences->pitch;
    for (int axis = 0; axis < 3; ++axis) {
        grid.rule[2 * axis] = grid.rule[2 * axis + 1] = differences->wraps[axis] ? WRAP : FIXED;
        grid.shape[axis] = differences->shape[axis];
        grid.weight[axis] = differences->scale[axis];
    }
    POISSON_OPERATOR(T, &grid, a);
    const Tiling all = tiling_by_node(POISSON_LOCAL(T, a));
    const int64_t tiles = all.count();
    const double* weights = differences->weights;
    POISSON_THREADS(number, tiles, all.nodes(), (POISSON_PARTS(a)), (weights, u, out_x, out_y, out_z)) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Tile tile = tiling_by_node(local).tile(number);
        T central[HALF];
        for (int m = 0; m < HALF; ++m) central[m] = T(weights[m]);
        for_each_row(local, tile, [&](int64_t j, int64_t k) {
            for (int axis = 0; axis < local.dimension; ++axis) {
                T* out = axis == 0 ? out_x : axis == 1 ? out_y : out_z;
                if (out)
                    derive_row<HALF, STREAM>(local, axis, j, k, tile.first, tile.last, central, weights + HALF, u, out);
            }
        });
#ifndef POISSON_OFFLOAD
        if (STREAM) store_fence();
#endif
    }
    return POISSON_SUCCESS;
}

template <bool STREAM, class T>
poisson_status derive_by_order(const poisson_differences* d, const T* u, T* out_x, T* out_y, T* out_z) {
    switch (d->half) {
        case 1:
            return derive<1, STREAM>(d, u, out_x, out_y, out_z);
        case 2:
            return derive<2, STREAM>(d, u, out_x, out_y, out_z);
        case 3:
            return derive<3, STREAM>(d, u, out_x, out_y, out_z);
        case 4:
            return derive<4, STREAM>(d, u, out_x, out_y, out_z);
        default:
            return POISSON_BAD_ARGUMENT;
    }
}

template <class T>
poisson_status derive_all(const poisson_differences* d, const T* u, T* out_x, T* out_y, T* out_z) {
    return goes_around_cache(d->pitch * d->shape[1] * d->shape[2] * int64_t(sizeof(T)))
               ? derive_by_order<true>(d, u, out_x, out_y, out_z)
               : derive_by_order<false>(d, u, out_x, out_y, out_z);
}

template <class T>
poisson_status derivative(const poisson_differences* d, int32_t axis, const T* u, T* out) {
    if (!d || !u || !out || axis < 0 || axis >= d->dimension) return POISSON_BAD_ARGUMENT;
    T* const none = nullptr;
    return derive_all(d, u, axis == 0 ? out : none, axis == 1 ? out : none, axis == 2 ? out : none);
}

template <class T>
poisson_status gradient(const poisson_differences* d, const T* u, T* const* outs) {
    if (!d || !u || !outs || !outs[0] || !outs[1] || (d->dimension == 3 && !outs[2])) return POISSON_BAD_ARGUMENT;
    return derive_all(d, u, outs[0], outs[1], d->dimension == 3 ? outs[2] : nullptr);
}

}  // namespace

#define POISSON_DEFINE(real, suffix)                                                                            \
    extern "C" poisson_status poisson_derivative_##suffix(const poisson_differences* differences, int32_t axis, \
                                                          const real* u, real* out) {                           \
        return derivative(differences, axis, u, out);                                                           \
    }                                                                                                           \
    extern "C" poisson_status poisson_gradient_##suffix(const poisson_differences* differences, const real* u,  \
                                                        real* const* outs) {                                    \
        return gradient(differences, u, outs);                                                                  \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
