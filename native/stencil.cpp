// The operator A u = -div(grad u) + c u on nodes: laplacian, boundary_conditions, residual and sweep.
#include "regions.h"

namespace {

// Neighbours across a face by its rule. At a fixed face the value is not used; the index only has to lie in the array.
inline int64_t below(int64_t i, int64_t n, int32_t rule) { return i > 0 ? i - 1 : rule == WRAP ? n - 1 : 1; }
inline int64_t above(int64_t i, int64_t n, int32_t rule) { return i < n - 1 ? i + 1 : rule == WRAP ? 0 : n - 2; }

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

// How the nodes of a row are written; NORM with the norms of the residual; STREAM around the cache.
template <Kind KIND_, bool NORM_, bool STREAM_>
struct Mode {
    static constexpr Kind KIND = KIND_;
    static constexpr bool NORM = NORM_, STREAM = STREAM_;
};

// What goes to one node, `old` being what is there; the norms go to sum and maximum.
template <int DIMENSION, class M, class T>
inline T node_value(const Local<T>& a, const Rows<T>& rows, const T* f, T old, T scale, int64_t i, double& sum,
                    double& maximum) {
    const bool on_x_face = i == 0 || i == a.nx - 1;
    if (M::KIND == APPLY && on_x_face) return old;
    const bool fixed = rows.fixed || (on_x_face && a.fixed(i, a.nx, 0));
    if (fixed) return M::KIND == RELAX ? rows.centre[i] : T(0);
    const T au = apply_at<DIMENSION>(a, rows, i, below(i, a.nx, a.rule(0)), above(i, a.nx, a.rule(1)));
    if (M::KIND == APPLY) return au;
    const T r = f[i] - au;
    if (M::NORM) {
        const double x = r, size = x < 0 ? -x : x;
        sum += x * x;
        maximum = size > maximum ? size : maximum;
    }
    return M::KIND == RELAX ? relax(rows.centre[i], r, scale) : r;
}

#ifdef POISSON_OFFLOAD

// The nodes of one row from `first` to `last`.
template <int DIMENSION, class M, class T>
inline void visit_row(const Local<T>& a, const Rows<T>& rows, const T* f, T* out, T scale, int64_t first, int64_t last,
                      double& sum, double& maximum) {
    for (int64_t i = first; i < last; ++i)
        out[i] = node_value<DIMENSION, M>(a, rows, f, M::KIND == APPLY ? out[i] : T(0), scale, i, sum, maximum);
}

#else

// What goes to LANES nodes if none of them is on an x face, and their residual.
template <int DIMENSION, class M, class T>
inline Pack<T> pack_value(const Local<T>& a, const Rows<T>& rows, const T* f, T scale, int64_t i, Pack<T>& r) {
    // The rows that come from memory and, in 3D, those that come from the next cache. The hardware's own prefetching
    // stops at the end of a page, which is a row or two away.
    prefetch(DIMENSION == 2 ? rows.y_upper + i : rows.z_upper + i, FAR_AHEAD);
    if (M::KIND != APPLY) prefetch(f + i, FAR_AHEAD);
    const Pack<T> centre = load(rows.centre + i);
    const Pack<T> left = load(rows.centre + i - 1), right = load(rows.centre + i + 1);
    const Pack<T> y_lower = load(rows.y_lower + i), y_upper = load(rows.y_upper + i);
    Pack<T> au;
    if constexpr (DIMENSION == 2) {
        au = apply_operator(centre, left, right, y_lower, y_upper, spread(a.weight_x), spread(a.weight_y), spread(a.c));
    } else {
        prefetch(rows.y_upper + i, NEAR_AHEAD);
        prefetch(rows.z_lower + i, NEAR_AHEAD);
        const Pack<T> z_lower = load(rows.z_lower + i), z_upper = load(rows.z_upper + i);
        au = apply_operator(centre, left, right, y_lower, y_upper, z_lower, z_upper, spread(a.weight_x),
                            spread(a.weight_y), spread(a.weight_z), spread(a.c));
    }
    if (M::KIND == APPLY) return au;
    r = load(f + i) - au;
    return M::KIND == RELAX ? relax(centre, r, spread(scale)) : r;
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
inline void visit_row(const Local<T>& a, const Rows<T>& rows, const T* f, T* out, T scale, int64_t, int64_t,
                      double& sum, double& maximum) {
    if (rows.fixed) {
        for (int64_t i = 0; i < a.nx; ++i) out[i] = M::KIND == RELAX ? rows.centre[i] : T(0);
        return;
    }
    const int64_t last = a.nx - 1, last_pack = last / LANES * LANES;
    const T at_first = node_value<DIMENSION, M>(a, rows, f, out[0], scale, 0, sum, maximum);
    const T at_last = node_value<DIMENSION, M>(a, rows, f, out[last], scale, last, sum, maximum);
    PackNorms norms;
    const auto end_pack = [&](int64_t i) {
        Pack<T> r = {};
        Pack<T> value = pack_value<DIMENSION, M>(a, rows, f, scale, i, r);
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
        put<M>(out + i, pack_value<DIMENSION, M>(a, rows, f, scale, i, r));
        if (M::NORM) norms.add<T>(r);
    }
    if (last_pack > 0) end_pack(last_pack);
    if (M::NORM) norms.join(sum, maximum);
}

#endif

template <int DIMENSION, class M, class T>
poisson_status visit(const poisson_operator* operator_, const T* u, const T* f, T* out, double omega, double* result) {
    POISSON_OPERATOR(T, operator_, a);
    const T scale = T(omega / operator_->diagonal);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t tiles = all.count();
    double* partial = M::NORM ? partial_results(tiles) : nullptr;
    if (M::NORM && !partial) return POISSON_OUT_OF_MEMORY;
    POISSON_REGION(all.nodes(), (POISSON_PARTS(a), scale), (u, f, out, partial))
    for (int64_t number = 0; number < tiles; ++number) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Tile tile = Tiling(local).tile(number);
        double sum = 0, maximum = 0;
        for_each_row(local, tile, [&](int64_t j, int64_t k) {
            const int64_t row = local.row(j, k);
            visit_row<DIMENSION, M>(local, rows_at<DIMENSION>(local, u, j, k), f + row, out + row, scale, tile.first,
                                    tile.last, sum, maximum);
        });
        if (M::NORM) {
            partial[2 * number] = sum;
            partial[2 * number + 1] = maximum;
        }
#ifndef POISSON_OFFLOAD
        if (M::STREAM) store_fence();
#endif
    }
    if (M::NORM) join_partials(partial, tiles, result);
    return POISSON_SUCCESS;
}

template <int DIMENSION, Kind KIND, class T>
poisson_status visit_with(const poisson_operator* a, const T* u, const T* f, T* out, double omega, double* result) {
    const bool stream = goes_around_cache(a->pitch * a->shape[1] * a->shape[2] * int64_t(sizeof(T)));
    if (result)
        return stream ? visit<DIMENSION, Mode<KIND, true, true>>(a, u, f, out, omega, result)
                      : visit<DIMENSION, Mode<KIND, true, false>>(a, u, f, out, omega, result);
    return stream ? visit<DIMENSION, Mode<KIND, false, true>>(a, u, f, out, omega, result)
                  : visit<DIMENSION, Mode<KIND, false, false>>(a, u, f, out, omega, result);
}

template <Kind KIND, class T>
poisson_status residual_or_sweep(const poisson_operator* a, const T* u, const T* f, T* out, double omega,
                                 double* result) {
    if (!a || !u || !f || !out) return POISSON_BAD_ARGUMENT;
    return a->dimension == 2 ? visit_with<2, KIND>(a, u, f, out, omega, result)
                             : visit_with<3, KIND>(a, u, f, out, omega, result);
}

template <int DIMENSION, class M, class T>
poisson_status laplacian_on(const poisson_operator* operator_, const T* u, T* out) {
    POISSON_OPERATOR(T, operator_, a);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t tiles = all.count();
    POISSON_REGION(all.nodes(), (POISSON_PARTS(a)), (u, out))
    for (int64_t number = 0; number < tiles; ++number) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Tile tile = Tiling(local).tile(number);
        double unused = 0;
        for_each_row(local, tile, [&](int64_t j, int64_t k) {
            if (j == 0 || j == local.ny - 1 || (DIMENSION == 3 && (k == 0 || k == local.nz - 1))) return;
            Rows<T> rows = rows_at<DIMENSION>(local, u, j, k);
            visit_row<DIMENSION, M>(local, rows, u, out + local.row(j, k), T(0), tile.first, tile.last, unused, unused);
        });
#ifndef POISSON_OFFLOAD
        if (M::STREAM) store_fence();
#endif
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status laplacian(const poisson_operator* a, const T* u, T* out) {
    if (!a || !u || !out) return POISSON_BAD_ARGUMENT;
    using Stream = Mode<APPLY, false, true>;
    using Keep = Mode<APPLY, false, false>;
    if (goes_around_cache(a->pitch * a->shape[1] * a->shape[2] * int64_t(sizeof(T))))
        return a->dimension == 2 ? laplacian_on<2, Stream>(a, u, out) : laplacian_on<3, Stream>(a, u, out);
    return a->dimension == 2 ? laplacian_on<2, Keep>(a, u, out) : laplacian_on<3, Keep>(a, u, out);
}

// The nodes on the faces, numbered: the faces of the slowest axis come first, whole, then those of the next axis
// without the nodes counted already.
struct Shell {
    int64_t nx, ny, nz, plane, band, sides;

    template <class T>
    explicit Shell(const Local<T>& a)
        : nx(a.nx),
          ny(a.ny),
          nz(a.nz),
          plane(a.dimension == 3 ? nx * ny : 0),
          band(a.dimension == 3 ? nx * (nz - 2) : nx),
          sides(a.dimension == 3 ? (ny - 2) * (nz - 2) : ny - 2) {}
    int64_t count() const { return 2 * (plane + band + sides); }
    void node(int64_t n, int64_t& i, int64_t& j, int64_t& k) const {
        const int64_t first_inner = plane ? 1 : 0;
        if (n < 2 * plane) {
            k = n < plane ? 0 : nz - 1;
            n %= plane;
            i = n % nx;
            j = n / nx;
            return;
        }
        n -= 2 * plane;
        if (n < 2 * band) {
            j = n < band ? 0 : ny - 1;
            n %= band;
            i = n % nx;
            k = first_inner + n / nx;
            return;
        }
        n -= 2 * band;
        i = n % 2 == 0 ? 0 : nx - 1;
        n /= 2;
        j = 1 + n % (ny - 2);
        k = first_inner + n / (ny - 2);
    }
};

template <int DIMENSION, class T>
poisson_status boundary_conditions_on(const poisson_operator* operator_, const T* u, T* out) {
    POISSON_OPERATOR(T, operator_, a);
    const int64_t nodes = Shell(POISSON_LOCAL(T, a)).count();
    POISSON_REGION(nodes, (POISSON_PARTS(a)), (u, out))
    for (int64_t n = 0; n < nodes; ++n) {
        const Local<T> local = POISSON_LOCAL(T, a);
        int64_t i, j, k;
        Shell(local).node(n, i, j, k);
        const Rows<T> rows = rows_at<DIMENSION>(local, u, j, k);
        const bool fixed = rows.fixed || local.fixed(i, local.nx, 0);
        const int64_t left = below(i, local.nx, local.rule(0)), right = above(i, local.nx, local.rule(1));
        out[local.row(j, k) + i] = fixed ? T(0) : apply_at<DIMENSION>(local, rows, i, left, right);
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status boundary_conditions(const poisson_operator* a, const T* u, T* out) {
    if (!a || !u || !out) return POISSON_BAD_ARGUMENT;
    return a->dimension == 2 ? boundary_conditions_on<2>(a, u, out) : boundary_conditions_on<3>(a, u, out);
}

}  // namespace

#define POISSON_DEFINE(real, suffix)                                                                             \
    extern "C" poisson_status poisson_laplacian_##suffix(const poisson_operator* a, const real* u, real* out) {  \
        return laplacian(a, u, out);                                                                             \
    }                                                                                                            \
    extern "C" poisson_status poisson_boundary_conditions_##suffix(const poisson_operator* a, const real* u,     \
                                                                   real* out) {                                  \
        return boundary_conditions(a, u, out);                                                                   \
    }                                                                                                            \
    extern "C" poisson_status poisson_sweep_##suffix(const poisson_operator* a, const real* u, const real* f,    \
                                                     real* out, double omega, double* result) {                  \
        return residual_or_sweep<RELAX>(a, u, f, out, omega, result);                                            \
    }                                                                                                            \
    extern "C" poisson_status poisson_residual_##suffix(const poisson_operator* a, const real* u, const real* f, \
                                                        real* r, double* result) {                               \
        return residual_or_sweep<RESIDUAL>(a, u, f, r, 0.0, result);                                             \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
