// SPDX-License-Identifier: MIT
// The passes of full stencils over the nodes: residual, sweep, color_sweep, diagonal_solve and direction.
#include "stencils/neighbours.h"

namespace {

enum Pass { RESIDUAL_OF, SWEEP, ONE_COLOR, SOLVE, MULTIPLY };

// Blocks of rows of so many bytes of coefficients stay in a core's cache from plane to plane.
constexpr int64_t CACHED = 786432;

Tiling tiles_of(const Nodes& nodes, bool solid, int64_t bytes_of_node) {
    Tiling tiling(
        Local<double>{solid ? 3 : 2, nodes.x.nodes, nodes.y.nodes, nodes.z.nodes, nodes.pitch, 0, 0, 0, 0, 0, 0});
    const auto between = [](int64_t least, int64_t value, int64_t most) {
        return value < least ? least : value > most ? most : value;
    };
    tiling.block = between(1, CACHED / (2 * nodes.pitch * bytes_of_node), tiling.mid);
    tiling.march = between(1, tiling.slowest / 8, solid ? PLANES : 1);
    tiling.blocks = (tiling.mid + tiling.block - 1) / tiling.block;
    tiling.bands = (tiling.slowest + tiling.march - 1) / tiling.march;
    return tiling;
}

template <class T>
struct Given {
    const T* f;
    T* out;
    T omega;
    int32_t color;
};

// What is left at nodes with these values, and what they count in the sums: r, or the product of two values.
template <Pass PASS, class V>
POISSON_INLINE V left(Sum<V> sum, V u, V f, V volume, V inverse, V omega, V& r) {
    const auto has = sum.diagonal > 0;
    if constexpr (PASS == SOLVE) return has ? omega * volume / sum.diagonal * f : V{};
    if constexpr (PASS == MULTIPLY) return has ? sum.applied * inverse : V{};
    r = has ? f - sum.applied * inverse : V{};
    if constexpr (PASS == RESIDUAL_OF) return r;
    return has ? u + omega * volume / sum.diagonal * r : u;
}

struct Totals {
    Pack<double> sums = {}, maxima = {};
    double sum = 0, maximum = 0;

    void add(double x, double factor) {
        const double size = x < 0 ? -x : x;
        sum += x * factor;
        maximum = size > maximum ? size : maximum;
    }
    void add(Pack<double> x, Pack<double> factor) {
        const Pack<double> size = x < 0.0 ? -x : x;
        sums += x * factor;
        maxima = size > maxima ? size : maxima;
    }
    void join(double& total, double& largest) const {
        total = sum;
        largest = maximum;
        for (int64_t lane = 0; lane < LANES; ++lane) {
            total += sums[lane];
            largest = maxima[lane] > largest ? maxima[lane] : largest;
        }
    }
};

// Whether sums are of products with the control volumes, and not of squares.
constexpr bool of_products(Pass pass) { return pass == SOLVE || pass == MULTIPLY; }

template <Pass PASS, bool SUMS, class T, class C>
__attribute__((noinline)) void visit_row(const Row<T, C> row, const Line& x, const Given<T> given, double end_widths[2],
                                         Totals& totals_) {
    constexpr bool DIFFERENCES = PASS != SOLVE;
    const int64_t nx = x.nodes;
    Totals totals = totals_;
    const auto at_end = [&](int64_t i) {
        T* const out = given.out + i;
        if (PASS == ONE_COLOR && (i & 1) != (given.color & 1)) return;
        if (!x.free(i)) {
            if (PASS != ONE_COLOR) *out = PASS == SWEEP ? row.u[i] : T(0);
            return;
        }
        const bool last = i == nx - 1 && i > 0;
        const double width = row.width * (i == 0 || last ? end_widths[last] : row.widths ? row.widths[i] : 1);
        const T f = given.f ? given.f[i] : T(0), u = DIFFERENCES ? row.u[i] : T(0);
        T r = T(0);
        const T volume = T(width);
        const T value = left<PASS>(at_node<DIFFERENCES>(row, x, i), u, f, volume, 1 / volume, given.omega, r);
        *out = value;
        if (SUMS) {
            if (of_products(PASS))
                totals.add(double(value) * (PASS == SOLVE ? double(f) : double(u)), width);
            else
                totals.add(double(r), double(r));
        }
    };
    // The lanes [first, last) of the pack at i.
    const auto at_lanes = [&](int64_t i, int64_t first, int64_t last) __attribute__((always_inline)) {
        Pack<double> width = spread(row.width);
        if (row.widths) width *= load(row.widths + i);
        const Pack<T> volume = __builtin_convertvector(width, Pack<T>);
        const Pack<T> inverse = row.widths ? 1 / volume : spread(T(1 / row.width));
        const Pack<T> f = given.f ? load(given.f + i) : Pack<T>{}, u = DIFFERENCES ? load(row.u + i) : Pack<T>{};
        Pack<T> r = {}, value = left<PASS>(at_pack<DIFFERENCES>(row, i), u, f, volume, inverse, spread(given.omega), r);
        if (PASS == ONE_COLOR) {
            const auto odd =
                (lane_numbers<T>() * T(0.5)) !=
                __builtin_convertvector(__builtin_convertvector(lane_numbers<T>() * T(0.5), Pack<int32_t>), Pack<T>);
            value = (i ^ given.color) & 1 ? (odd ? value : u) : (odd ? u : value);
        }
        const bool whole = first == 0 && last == LANES;
        if (SUMS) {
            Pack<double> one = __builtin_convertvector(of_products(PASS) ? value : r, Pack<double>);
            for (int64_t lane = 0; !whole && lane < LANES; ++lane)
                one[lane] = lane >= first && lane < last ? one[lane] : 0.0;
            if (of_products(PASS))
                totals.add(one * __builtin_convertvector(PASS == SOLVE ? f : u, Pack<double>), width);
            else
                totals.add(one, one);
        }
        if (whole) {
            store(given.out + i, value);
        } else {
            for (int64_t lane = first; lane < last; ++lane) given.out[i + lane] = value[lane];
        }
    };
    at_end(0);
    int64_t i = 1;
    const int64_t stop = nx - 1;
    if (stop - i >= LANES) {
        // From the second pack on they are aligned in the row.
        at_lanes(1, 0, LANES - 1);
        for (i = LANES; i + LANES <= stop; i += LANES) at_lanes(i, 0, LANES);
        if (i < stop) at_lanes(stop - LANES, LANES - (stop - i), LANES);
    } else {
        for (; i < stop; ++i) at_end(i);
    }
    if (nx > 1) at_end(nx - 1);
    totals_ = totals;
}

// The nodes of a row that is fixed.
template <Pass PASS, class T>
void keep_row(const T* u, T* out, int64_t nodes) {
    if (PASS == ONE_COLOR) return;
    for (int64_t i = 0; i < nodes; ++i) out[i] = PASS == SWEEP ? u[i] : T(0);
}

template <Pass PASS, bool SUMS, class T, class C>
poisson_status visit_rows(const poisson_stencil* s, const T* u, const T* f, T* out, double omega, int32_t color,
                          double* result) {
    const Nodes nodes(s->lattice);
    const Tiling tiling = tiles_of(nodes, s->lattice.dimension == 3, int64_t(sizeof(C)) * (1 + s->offsets));
    const int64_t tiles = tiling.count();
    double* partial = SUMS ? partial_results(tiles) : nullptr;
    if (SUMS && !partial) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, tiles, nodes.count() * (1 + s->offsets), (), ()) {
        Totals totals;
        const Tile tile = tiling.tile(number);
        const auto visit = [&](int64_t j, int64_t k) {
            if (PASS == ONE_COLOR && ((j & 1) != (color >> 1 & 1) || (k & 1) != (color >> 2 & 1))) return;
            const int64_t here = nodes.row(j, k);
            if (!nodes.free(j, k)) return keep_row<PASS>(u + here, out + here, nodes.x.nodes);
            double ends[2] = {nodes.width(0), nodes.width(nodes.x.nodes - 1)};
            visit_row<PASS, SUMS>(row_at<T, C>(*s, nodes, u, j, k), nodes.x,
                                  Given<T>{f ? f + here : nullptr, out + here, T(omega), color}, ends, totals);
        };
        for (int64_t slow = tile.start; slow < tile.stop; ++slow)
            for (int64_t mid = tile.low; mid < tile.high; ++mid)
                s->lattice.dimension == 3 ? visit(mid, slow) : visit(slow, 0);
        if (SUMS) {
            double sum, maximum;
            totals.join(sum, maximum);
            keep_pair(partial, number, tiles, sum, of_products(PASS) ? 0 : maximum, result);
        }
    }
    if (SUMS) join_partials(partial, tiles, result);
    return POISSON_SUCCESS;
}

template <Pass PASS, class T>
poisson_status pass(const poisson_stencil* s, const T* u, const T* f, T* out, double omega, double* result,
                    int32_t color = 0) {
    if (!s || !s->coefficients || !u || !out || s->offsets > MOST / 2) return POISSON_BAD_ARGUMENT;
    const auto of = [&](auto coefficient) {
        using C = decltype(coefficient);
        if constexpr (PASS != ONE_COLOR) {
            if (result) return visit_rows<PASS, true, T, C>(s, u, f, out, omega, color, result);
        }
        return visit_rows<PASS, false, T, C>(s, u, f, out, omega, color, result);
    };
    return s->single ? of(float()) : of(double());
}

// out = z + beta p, zero at fixed nodes; q = A out.
template <class T>
poisson_status direction(const poisson_stencil* s, const T* z, double beta, const T* p, T* out, T* q, double* result) {
    if (!s || !z || !p || !out || !q || !result) return POISSON_BAD_ARGUMENT;
    const Nodes nodes(s->lattice);
    const T factor = T(beta);
    POISSON_THREADS(number, nodes.rows(), nodes.count(), (), ()) {
        const int64_t j = number % nodes.y.nodes, k = number / nodes.y.nodes, here = nodes.pitch * number;
        if (!nodes.free(j, k)) {
            keep_row<MULTIPLY>(z + here, out + here, nodes.x.nodes);
            continue;
        }
        if (beta == 0.0) {
            for (int64_t i = 0; i < nodes.x.nodes; ++i) out[here + i] = z[here + i];
        } else {
            for (int64_t i = 0; i < nodes.x.nodes; ++i) out[here + i] = z[here + i] + factor * p[here + i];
        }
        if (!nodes.x.free(0)) out[here] = T(0);
        if (!nodes.x.free(nodes.x.nodes - 1)) out[here + nodes.x.nodes - 1] = T(0);
    }
    return pass<MULTIPLY, T>(s, out, nullptr, q, 0.0, result);
}

}  // namespace

POISSON_EXPORT(stencil_residual, (const poisson_stencil* s, const real* u, const real* f, real* r, double* result),
               lattice_of(s), pass<RESIDUAL_OF>(s, u, f, r, 0.0, result))
POISSON_EXPORT(stencil_sweep,
               (const poisson_stencil* s, const real* u, const real* f, real* out, double omega, double* result),
               lattice_of(s), pass<SWEEP>(s, u, f, out, omega, result))
POISSON_EXPORT(stencil_color_sweep, (const poisson_stencil* s, real* u, const real* f, int32_t color, double omega),
               lattice_of(s), pass<ONE_COLOR, real>(s, u, f, u, omega, nullptr, color))
POISSON_EXPORT(stencil_diagonal_solve, (const poisson_stencil* s, const real* r, real* z, double omega, double* result),
               lattice_of(s), r ? pass<SOLVE>(s, r, r, z, omega, result) : POISSON_BAD_ARGUMENT)
POISSON_EXPORT(stencil_direction,
               (const poisson_stencil* s, const real* z, double beta, const real* p, real* out, real* q,
                double* result),
               lattice_of(s), direction(s, z, beta, p, out, q, result))
