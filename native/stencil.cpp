// The operator A u = -div(grad u) + c u on nodes: laplacian, boundary_conditions, residual and sweep.
#ifdef POISSON_OFFLOAD
#include "march.h"
#else
#include "rows.h"
#endif

namespace {

template <int DIMENSION, class M, class T>
poisson_status visit(const poisson_operator* operator_, const T* u, const T* f, T* out, double omega, double* result) {
    POISSON_OPERATOR(T, operator_, a);
    const T scale = T(omega / operator_->diagonal);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t threads = M::NORM ? reduction_threads(all.count()) : all.count();
    double* partial = M::NORM ? partial_results(threads) : nullptr;
    if (M::NORM && !partial) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, threads, all.nodes(), (POISSON_PARTS(a), scale, threads), (u, f, out, partial, result)) {
        const Local<T> local = POISSON_LOCAL(T, a);
        double sum = 0, maximum = 0;
        for_each_tile(Tiling(local), number, threads,
                      [&](const Tile& tile) { visit_tile<DIMENSION, M>(local, tile, u, f, out, scale, sum, maximum); });
        if (M::NORM) keep_pair(partial, number, threads, sum, maximum, result);
    }
    if (M::NORM) join_partials(partial, threads, result);
    return POISSON_SUCCESS;
}

template <int DIMENSION, Kind KIND, class T>
poisson_status visit_with(const poisson_operator* a, const T* u, const T* f, T* out, double omega, double* result) {
    const bool stream = goes_around_cache(a->pitch * a->shape[1] * a->shape[2] * int64_t(sizeof(T)));
    if constexpr (KIND != APPLY) {
        if (result)
            return stream ? visit<DIMENSION, Mode<KIND, true, true>>(a, u, f, out, omega, result)
                          : visit<DIMENSION, Mode<KIND, true, false>>(a, u, f, out, omega, result);
    }
    return stream ? visit<DIMENSION, Mode<KIND, false, true>>(a, u, f, out, omega, result)
                  : visit<DIMENSION, Mode<KIND, false, false>>(a, u, f, out, omega, result);
}

template <Kind KIND, class T>
poisson_status visit_all(const poisson_operator* a, const T* u, const T* f, T* out, double omega, double* result) {
    if (!a || !u || !out) return POISSON_BAD_ARGUMENT;
    return a->dimension == 2 ? visit_with<2, KIND>(a, u, f, out, omega, result)
                             : visit_with<3, KIND>(a, u, f, out, omega, result);
}

// A division of 64 bits takes a GPU a hundred instructions.
inline int64_t quotient(int64_t n, int64_t by) { return (n | by) >> 32 ? n / by : uint32_t(n) / uint32_t(by); }

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
            if (n >= plane) n -= plane;
            j = quotient(n, nx);
            i = n - j * nx;
            return;
        }
        n -= 2 * plane;
        if (n < 2 * band) {
            j = n < band ? 0 : ny - 1;
            if (n >= band) n -= band;
            const int64_t row = quotient(n, nx);
            i = n - row * nx;
            k = first_inner + row;
            return;
        }
        n -= 2 * band;
        i = n % 2 == 0 ? 0 : nx - 1;
        n /= 2;
        const int64_t layer = quotient(n, ny - 2);
        j = 1 + n - layer * (ny - 2);
        k = first_inner + layer;
    }
};

template <int DIMENSION, class T>
poisson_status boundary_conditions_on(const poisson_operator* operator_, const T* u, T* out) {
    POISSON_OPERATOR(T, operator_, a);
    const int64_t nodes = Shell(POISSON_LOCAL(T, a)).count();
    POISSON_THREADS(n, nodes, nodes, (POISSON_PARTS(a)), (u, out)) {
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
        return visit_all<APPLY, real>(a, u, nullptr, out, 0.0, nullptr);                                         \
    }                                                                                                            \
    extern "C" poisson_status poisson_boundary_conditions_##suffix(const poisson_operator* a, const real* u,     \
                                                                   real* out) {                                  \
        return boundary_conditions(a, u, out);                                                                   \
    }                                                                                                            \
    extern "C" poisson_status poisson_sweep_##suffix(const poisson_operator* a, const real* u, const real* f,    \
                                                     real* out, double omega, double* result) {                  \
        return visit_all<RELAX>(a, u, f, out, omega, result);                                                    \
    }                                                                                                            \
    extern "C" poisson_status poisson_residual_##suffix(const poisson_operator* a, const real* u, const real* f, \
                                                        real* r, double* result) {                               \
        return visit_all<RESIDUAL>(a, u, f, r, 0.0, result);                                                     \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
