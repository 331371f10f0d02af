// The operator A u = -div(grad u) + c u on nodes: laplacian, boundary_conditions, residual and sweep.
#include "regions.h"

namespace {

// Neighbours across a face by its rule. At a fixed face the value is not used; the index only has to lie in the array.
inline int64_t below(int64_t i, int64_t n, int32_t rule) { return i > 0 ? i - 1 : rule == WRAP ? n - 1 : 1; }
inline int64_t above(int64_t i, int64_t n, int32_t rule) { return i < n - 1 ? i + 1 : rule == WRAP ? 0 : n - 2; }

inline bool is_fixed(int64_t i, int64_t n, const int32_t* rule) {
    return (rule[0] == FIXED && i == 0) || (rule[1] == FIXED && i == n - 1);
}

// The operator in the type of the arrays.
template <class T>
struct Coefficients {
    T x, y, z, c;
    explicit Coefficients(const poisson_operator& a) : x(a.weight[0]), y(a.weight[1]), z(a.weight[2]), c(a.c) {}
};

// One row of u with the rows beside it.
template <class T>
struct Rows {
    const T *centre, *y_lower, *y_upper, *z_lower, *z_upper;
    bool fixed;
};

template <class T, int DIMENSION>
inline Rows<T> rows_at(const poisson_operator& a, const T* u, int64_t j, int64_t k) {
    const int64_t ny = a.shape[1], nz = a.shape[2];
    Rows<T> rows;
    rows.centre = u + a.pitch * (j + ny * k);
    rows.y_lower = u + a.pitch * (below(j, ny, a.rule[2]) + ny * k);
    rows.y_upper = u + a.pitch * (above(j, ny, a.rule[3]) + ny * k);
    rows.fixed = is_fixed(j, ny, a.rule + 2);
    rows.z_lower = rows.z_upper = rows.centre;
    if (DIMENSION == 3) {
        rows.z_lower = u + a.pitch * (j + ny * below(k, nz, a.rule[4]));
        rows.z_upper = u + a.pitch * (j + ny * above(k, nz, a.rule[5]));
        rows.fixed = rows.fixed || is_fixed(k, nz, a.rule + 4);
    }
    return rows;
}

template <class T, int DIMENSION>
inline T apply_at(const Rows<T>& rows, const Coefficients<T>& w, int64_t i, int64_t left, int64_t right) {
    const T centre = rows.centre[i], x_lower = rows.centre[left], x_upper = rows.centre[right];
    if (DIMENSION == 2)
        return apply_operator(centre, x_lower, x_upper, rows.y_lower[i], rows.y_upper[i], w.x, w.y, w.c);
    return apply_operator(centre, x_lower, x_upper, rows.y_lower[i], rows.y_upper[i], rows.z_lower[i], rows.z_upper[i],
                          w.x, w.y, w.z, w.c);
}

// How the nodes of a row are written: RELAX a sweep, otherwise the residual; NORM with the norms of the residual;
// STREAM around the cache.
template <bool RELAX_, bool NORM_, bool STREAM_>
struct Mode {
    static constexpr bool RELAX = RELAX_, NORM = NORM_, STREAM = STREAM_;
};

// r = f - A u, or out = u + scale (f - A u), at one node; the norms go to sum and maximum.
template <class T, int DIMENSION, class M>
inline void visit_node(const Rows<T>& rows, const Coefficients<T>& w, const T* f, T* out, T scale, int64_t i,
                       int64_t left, int64_t right, bool fixed, double& sum, double& maximum) {
    const T r = fixed ? T(0) : f[i] - apply_at<T, DIMENSION>(rows, w, i, left, right);
    out[i] = M::RELAX ? relax(rows.centre[i], r, scale) : r;
    if (M::NORM) {
        const double x = r, size = x < 0 ? -x : x;
        sum += x * x;
        maximum = size > maximum ? size : maximum;
    }
}

#ifndef POISSON_OFFLOAD
// The same at LANES nodes, none of them on an x face.
template <class T, int DIMENSION, class M>
inline void visit_pack(const Rows<T>& rows, const Coefficients<T>& w, const T* f, T* out, T scale, int64_t i,
                       PackNorms& norms) {
    const Pack<T> centre = load(rows.centre + i);
    const Pack<T> left = load(rows.centre + i - 1), right = load(rows.centre + i + 1);
    const Pack<T> y_lower = load(rows.y_lower + i), y_upper = load(rows.y_upper + i);
    Pack<T> au;
    if constexpr (DIMENSION == 2) {
        au = apply_operator(centre, left, right, y_lower, y_upper, spread(w.x), spread(w.y), spread(w.c));
    } else {
        const Pack<T> z_lower = load(rows.z_lower + i), z_upper = load(rows.z_upper + i);
        au = apply_operator(centre, left, right, y_lower, y_upper, z_lower, z_upper, spread(w.x), spread(w.y),
                            spread(w.z), spread(w.c));
    }
    const Pack<T> r = load(f + i) - au;
    const Pack<T> result = M::RELAX ? relax(centre, r, spread(scale)) : r;
    if (M::STREAM)
        store_streaming(out + i, result);
    else
        store(out + i, result);
    if (M::NORM) norms.add<T>(r);
}
#endif

// The nodes of one row from `first` to `last`.
template <class T, int DIMENSION, class M>
inline void visit_row(const poisson_operator& a, const Coefficients<T>& w, const Rows<T>& rows, const T* f, T* out,
                      T scale, int64_t first, int64_t last, double& sum, double& maximum) {
    const int64_t nx = a.shape[0];
    if (rows.fixed) {
        for (int64_t i = first; i < last; ++i) out[i] = M::RELAX ? rows.centre[i] : T(0);
        return;
    }
    int64_t i = first;
    if (i == 0) {
        visit_node<T, DIMENSION, M>(rows, w, f, out, scale, 0, below(0, nx, a.rule[0]), 1, a.rule[0] == FIXED, sum,
                                    maximum);
        i = 1;
    }
    const int64_t end = last < nx - 1 ? last : nx - 1;
#ifndef POISSON_OFFLOAD
    // Rows are aligned, so packs that begin at multiples of LANES are too.
    for (; i < end && i % LANES; ++i)
        visit_node<T, DIMENSION, M>(rows, w, f, out, scale, i, i - 1, i + 1, false, sum, maximum);
    PackNorms norms;
    for (; i + LANES <= end; i += LANES) visit_pack<T, DIMENSION, M>(rows, w, f, out, scale, i, norms);
    if (M::NORM) {
        for (int64_t lane = 0; lane < LANES; ++lane) {
            sum += norms.sum[lane];
            maximum = norms.maximum[lane] > maximum ? norms.maximum[lane] : maximum;
        }
    }
#endif
    for (; i < end; ++i)
        visit_node<T, DIMENSION, M>(rows, w, f, out, scale, i, i - 1, i + 1, false, sum, maximum);
    if (i < last)
        visit_node<T, DIMENSION, M>(rows, w, f, out, scale, i, i - 1, above(i, nx, a.rule[1]), a.rule[1] == FIXED, sum,
                                    maximum);
}

template <class T, int DIMENSION, class M>
poisson_status visit(const poisson_operator* operator_, const T* u, const T* f, T* out, double omega, double* result) {
    const poisson_operator a = *operator_;
    const Tiling tiling(a, sizeof(T));
    const Coefficients<T> w(a);
    const T scale = T(omega / a.diagonal);
    const int64_t tiles = tiling.count();
    double* partial = M::NORM ? partial_results(tiles) : nullptr;
    if (M::NORM && !partial) return POISSON_OUT_OF_MEMORY;
    POISSON_REGION(tiling.nodes(), (a, tiling, w, scale), (u, f, out, partial))
    for (int64_t number = 0; number < tiles; ++number) {
        const Tile tile = tiling.tile(number);
        double sum = 0, maximum = 0;
        for (int64_t s = tile.start; s < tile.stop; ++s) {
            for (int64_t m = tile.low; m < tile.high; ++m) {
                const int64_t j = DIMENSION == 2 ? s : m, k = DIMENSION == 2 ? 0 : s;
                const int64_t row = a.pitch * (j + a.shape[1] * k);
                visit_row<T, DIMENSION, M>(a, w, rows_at<T, DIMENSION>(a, u, j, k), f + row, out + row, scale,
                                           tile.first, tile.last, sum, maximum);
            }
        }
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

template <class T, int DIMENSION, bool RELAX>
poisson_status visit_with(const poisson_operator* a, const T* u, const T* f, T* out, double omega, double* result) {
    const bool stream = goes_around_cache(a->pitch * a->shape[1] * a->shape[2] * int64_t(sizeof(T)));
    if (result)
        return stream ? visit<T, DIMENSION, Mode<RELAX, true, true>>(a, u, f, out, omega, result)
                      : visit<T, DIMENSION, Mode<RELAX, true, false>>(a, u, f, out, omega, result);
    return stream ? visit<T, DIMENSION, Mode<RELAX, false, true>>(a, u, f, out, omega, result)
                  : visit<T, DIMENSION, Mode<RELAX, false, false>>(a, u, f, out, omega, result);
}

template <class T, bool RELAX>
poisson_status residual_or_sweep(const poisson_operator* a, const T* u, const T* f, T* out, double omega,
                                 double* result) {
    if (!a || !u || !f || !out) return POISSON_BAD_ARGUMENT;
    return a->dimension == 2 ? visit_with<T, 2, RELAX>(a, u, f, out, omega, result)
                             : visit_with<T, 3, RELAX>(a, u, f, out, omega, result);
}

template <class T, int DIMENSION>
poisson_status laplacian_on(const poisson_operator* operator_, const T* u, T* out) {
    const poisson_operator a = *operator_;
    const Tiling tiling(a, sizeof(T));
    const Coefficients<T> w(a);
    const int64_t tiles = tiling.count(), nx = a.shape[0];
    POISSON_REGION(tiling.nodes(), (a, tiling, w), (u, out))
    for (int64_t number = 0; number < tiles; ++number) {
        const Tile tile = tiling.tile(number);
        const int64_t begin = tile.first > 1 ? tile.first : 1, end = tile.last < nx - 1 ? tile.last : nx - 1;
        for (int64_t s = tile.start; s < tile.stop; ++s) {
            for (int64_t m = tile.low; m < tile.high; ++m) {
                const int64_t j = DIMENSION == 2 ? s : m, k = DIMENSION == 2 ? 0 : s;
                if (j == 0 || j == a.shape[1] - 1 || (DIMENSION == 3 && (k == 0 || k == a.shape[2] - 1))) continue;
                const Rows<T> rows = rows_at<T, DIMENSION>(a, u, j, k);
                T* to = out + a.pitch * (j + a.shape[1] * k);
                POISSON_SIMD
                for (int64_t i = begin; i < end; ++i) to[i] = apply_at<T, DIMENSION>(rows, w, i, i - 1, i + 1);
            }
        }
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status laplacian(const poisson_operator* a, const T* u, T* out) {
    if (!a || !u || !out) return POISSON_BAD_ARGUMENT;
    return a->dimension == 2 ? laplacian_on<T, 2>(a, u, out) : laplacian_on<T, 3>(a, u, out);
}

// The nodes on the faces, numbered: the faces of the slowest axis come first, whole, then those of the next axis
// without the nodes counted already.
struct Shell {
    int64_t nx, ny, nz, plane, band, sides;

    explicit Shell(const poisson_operator& a)
        : nx(a.shape[0]),
          ny(a.shape[1]),
          nz(a.shape[2]),
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

template <class T, int DIMENSION>
poisson_status boundary_conditions_on(const poisson_operator* operator_, const T* u, T* out) {
    const poisson_operator a = *operator_;
    const Shell shell(a);
    const Coefficients<T> w(a);
    const int64_t nodes = shell.count();
    POISSON_REGION(nodes, (a, shell, w), (u, out))
    for (int64_t n = 0; n < nodes; ++n) {
        int64_t i, j, k;
        shell.node(n, i, j, k);
        const Rows<T> rows = rows_at<T, DIMENSION>(a, u, j, k);
        const bool fixed = rows.fixed || is_fixed(i, a.shape[0], a.rule);
        const int64_t left = below(i, a.shape[0], a.rule[0]), right = above(i, a.shape[0], a.rule[1]);
        out[a.pitch * (j + a.shape[1] * k) + i] = fixed ? T(0) : apply_at<T, DIMENSION>(rows, w, i, left, right);
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status boundary_conditions(const poisson_operator* a, const T* u, T* out) {
    if (!a || !u || !out) return POISSON_BAD_ARGUMENT;
    return a->dimension == 2 ? boundary_conditions_on<T, 2>(a, u, out) : boundary_conditions_on<T, 3>(a, u, out);
}

}  // namespace

#define POISSON_DEFINE(real, suffix)                                                                                 \
    extern "C" poisson_status poisson_laplacian_##suffix(const poisson_operator* a, const real* u, real* out) {      \
        return laplacian<real>(a, u, out);                                                                           \
    }                                                                                                                \
    extern "C" poisson_status poisson_boundary_conditions_##suffix(const poisson_operator* a, const real* u,         \
                                                                   real* out) {                                      \
        return boundary_conditions<real>(a, u, out);                                                                 \
    }                                                                                                                \
    extern "C" poisson_status poisson_sweep_##suffix(const poisson_operator* a, const real* u, const real* f,        \
                                                     real* out, double omega, double* result) {                      \
        return residual_or_sweep<real, true>(a, u, f, out, omega, result);                                           \
    }                                                                                                                \
    extern "C" poisson_status poisson_residual_##suffix(const poisson_operator* a, const real* u, const real* f,     \
                                                        real* r, double* result) {                                   \
        return residual_or_sweep<real, false>(a, u, f, r, 0.0, result);                                              \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
