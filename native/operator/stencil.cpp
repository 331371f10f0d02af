// SPDX-License-Identifier: MIT
// The operator A u = -div(a grad u) + c u on nodes: laplacian, boundary_conditions, residual, sweep, color_sweep,
// defect.
#include "operator/visit.h"

namespace {

// A division of 64 bits takes a GPU a hundred instructions.
inline int64_t quotient(int64_t n, int64_t by) { return (n | by) >> 32 ? n / by : uint32_t(n) / uint32_t(by); }

// The nodes on the faces, numbered: the faces of the slowest axis come first, whole, then those of the next axis
// without the nodes counted already. In 1D (one row) every node counts as one of a face of the y axis.
struct Shell {
    int64_t nx, ny, nz, plane, band, sides;

    template <class T>
    explicit Shell(const Local<T>& a)
        : nx(a.nx),
          ny(a.ny),
          nz(a.nz),
          plane(a.dimension == 3 ? nx * ny : 0),
          band(a.dimension == 3 ? nx * inner(nz) : nx),
          sides(a.dimension == 3 ? inner(ny) * inner(nz) : ny - 2) {}
    // Nodes of an axis between its ends, which on a coarse grid of multigrid may be the same one.
    static int64_t inner(int64_t n) { return n > 2 ? n - 2 : 0; }
    int64_t count() const { return ny == 1 && plane == 0 ? nx : 2 * (plane + band + sides); }
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

template <int DIMENSION, Varies VARIES, class T>
poisson_status boundary_conditions_on(const poisson_operator* operator_, const T* u, T* out) {
    POISSON_OPERATOR(T, operator_, a);
    POISSON_COEFFICIENTS(T, operator_, a);
    const int64_t nodes = Shell(POISSON_LOCAL(T, a)).count();
    POISSON_THREADS(n, nodes, nodes, (POISSON_PARTS(a)), (u, out, POISSON_ARRAYS(a))) {
        const Local<T> local = POISSON_LOCAL(T, a);
        int64_t i, j, k;
        Shell(local).node(n, i, j, k);
        const Rows<T> rows = rows_at<DIMENSION>(local, u, j, k);
        const auto links = links_at<DIMENSION, VARIES>(local, POISSON_VARYING(T, a), j, k);
        const bool fixed = rows.fixed || local.fixed(i, local.nx, 0) || masked<VARIES>(links, i);
        const Applied<T> applied = apply_at<DIMENSION, VARIES>(local, rows, links, i);
        out[local.row(j, k) + i] = fixed ? T(0) : applied.au;
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status boundary_conditions(const poisson_operator* a, const T* u, T* out) {
    if (!a || !u || !out) return POISSON_BAD_ARGUMENT;
    const auto visit = [&](auto varies) {
        constexpr Varies VARIES = decltype(varies)::value;
        return a->dimension == 2 ? boundary_conditions_on<2, VARIES>(a, u, out)
                                 : boundary_conditions_on<3, VARIES>(a, u, out);
    };
    if (a->tables) return with_varies<true, true>(*a, visit);
    return varies(*a) ? with_varies<false, true>(*a, visit) : visit(std::integral_constant<Varies, NOTHING>());
}

}  // namespace

POISSON_EXPORT(laplacian, (const poisson_operator* a, const real* u, real* out), a,
               visit_any<APPLY, real>(a, u, nullptr, out, 0.0, nullptr))
POISSON_EXPORT(boundary_conditions, (const poisson_operator* a, const real* u, real* out), a,
               boundary_conditions(a, u, out))
POISSON_EXPORT(sweep,
               (const poisson_operator* a, const real* u, const real* f, real* out, double omega, double* result), a,
               visit_any<RELAX, real>(a, u, f, out, omega, result))
POISSON_EXPORT(color_sweep, (const poisson_operator* a, real* u, const real* f, int32_t color, double omega), a,
               visit_any<COLOR, real>(a, u, f, u, omega, nullptr, color))
POISSON_EXPORT(residual, (const poisson_operator* a, const real* u, const real* f, real* r, double* result), a,
               visit_any<RESIDUAL, real>(a, u, f, r, 1.0, result))
POISSON_EXPORT(defect,
               (const poisson_operator* a, const real* u, const real* f, double factor, float* r, double* result), a,
               visit_any<DEFECT, real>(a, u, f, r, factor, result))
