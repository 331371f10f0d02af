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

// A pass, of which only whether it takes differences is known as it is compiled: what else it does at a node is little
// beside reading the links.
template <class T>
struct Given {
    const T* f;
    T* out;
    T omega;
    int32_t color;
    Pass pass;
    bool sums;

    // Whether sums are of products with the control volumes, and not of squares.
    bool of_products() const { return pass == SOLVE || pass == MULTIPLY; }
};

// What is left at nodes with these values, and r; f is zero for a product.
template <bool DIFFERENCES, class V>
POISSON_INLINE V left(Pass pass, Sum<V> sum, V u, V f, V volume, V inverse, V omega, V& r) {
    const auto has = sum.diagonal > 0;
    if (!DIFFERENCES) return has ? omega * volume / sum.diagonal * f : V{};
    r = has ? f - sum.applied * inverse : V{};
    if (pass == MULTIPLY) return -r;
    if (pass == RESIDUAL_OF) return r;
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

// The nodes of a row that is fixed.
template <class T>
void keep_row(Pass pass, const T* u, T* out, int64_t nodes) {
    if (pass == ONE_COLOR) return;
    for (int64_t i = 0; i < nodes; ++i) out[i] = pass == SWEEP ? u[i] : T(0);
}

template <bool DIFFERENCES, class T, class C>
__attribute__((noinline)) void visit_row(const poisson_stencil& s, const Nodes& nodes, const T* values, int64_t j,
                                         int64_t k, const Given<T> given, Totals& totals_) {
    const Row<T, C> row = row_at<T, C>(s, nodes, values, j, k);
    const Line& x = nodes.x;
    const double end_widths[2] = {nodes.width(0), nodes.width(x.nodes - 1)};
    const Pass pass = DIFFERENCES ? given.pass : SOLVE;
    const int64_t nx = x.nodes;
    Totals totals = totals_;
    const int64_t stop = nx - 1;
    const bool in_packs = stop - 1 >= LANES;
    // At the nodes on the x faces, and at all others of a row that is too short for a pack.
    for (int64_t i = 0; i < nx; i = in_packs && i == 0 ? stop : i + 1) {
        T* const out = given.out + i;
        if (pass == ONE_COLOR && (i & 1) != (given.color & 1)) continue;
        if (!x.free(i)) {
            if (pass != ONE_COLOR) *out = pass == SWEEP ? row.u[i] : T(0);
            continue;
        }
        const bool last = i == stop && i > 0;
        const double width = row.width * (i == 0 || last ? end_widths[last] : row.widths ? row.widths[i] : 1);
        const T f = given.f ? given.f[i] : T(0), u = DIFFERENCES ? row.u[i] : T(0), volume = T(width);
        T r = T(0);
        const Sum<T> sum = at_node<DIFFERENCES>(row, x, i);
        *out = left<DIFFERENCES>(pass, sum, u, f, volume, 1 / volume, given.omega, r);
        if (given.of_products())
            totals.add(double(*out) * (DIFFERENCES ? double(u) : double(f)), width);
        else if (given.sums)
            totals.add(double(r), double(r));
    }
    const auto odd =
        (lane_numbers<T>() * T(0.5)) !=
        __builtin_convertvector(__builtin_convertvector(lane_numbers<T>() * T(0.5), Pack<int32_t>), Pack<T>);
    const Pack<double> lane = lane_numbers<double>();
    // The lanes [first, last) of a pack; from the second one on they are aligned in the row.
    int64_t first = 0, last = LANES - 1;
    for (int64_t i = 1, done = 1; in_packs && done < stop;) {
        Pack<double> width = spread(row.width);
        if (row.widths) width *= load(row.widths + i);
        const Pack<T> volume = converted<T>(width);
        const Pack<T> inverse = row.widths ? 1 / volume : spread(T(1 / row.width));
        const Pack<T> f = given.f ? load(given.f + i) : Pack<T>{}, u = DIFFERENCES ? load(row.u + i) : Pack<T>{};
        const Sum<Pack<T>> sum = at_pack<DIFFERENCES>(row, i);
        Pack<T> r = {}, value = left<DIFFERENCES>(pass, sum, u, f, volume, inverse, spread(given.omega), r);
        if (pass == ONE_COLOR) value = (i ^ given.color) & 1 ? (odd ? value : u) : (odd ? u : value);
        if (given.sums) {
            Pack<double> one = converted<double>(given.of_products() ? value : r);
            if (last - first < LANES) one = (lane >= double(first)) & (lane < double(last)) ? one : Pack<double>{};
            if (given.of_products())
                totals.add(one * converted<double>(DIFFERENCES ? u : f), width);
            else
                totals.add(one, one);
        }
        if (pass != ONE_COLOR || last - first == LANES) {
            store(given.out + i, value);  // what a pack beside it writes too is the same there
        } else {
            for (int64_t n = first; n < last; ++n) given.out[i + n] = value[n];
        }
        i = done = i + last;
        first = 0;
        last = LANES;
        if (i + LANES > stop) {
            i = stop - LANES;
            first = done - i;
        }
    }
    totals_ = totals;
}

template <bool DIFFERENCES, class T, class C>
poisson_status visit_rows(const poisson_stencil* s, const T* u, const Given<T> given, double* result) {
    const Nodes nodes(s->lattice);
    const Tiling tiling = tiles_of(nodes, s->lattice.dimension == 3, int64_t(sizeof(C)) * (1 + s->offsets));
    const int64_t tiles = tiling.count();
    double* partial = given.sums ? partial_results(tiles) : nullptr;
    if (given.sums && !partial) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, tiles, nodes.count() * (1 + s->offsets), (), ()) {
        Totals totals;
        const Tile tile = tiling.tile(number);
        const auto visit = [&](int64_t j, int64_t k) {
            if (given.pass == ONE_COLOR && ((j & 1) != (given.color >> 1 & 1) || (k & 1) != (given.color >> 2 & 1)))
                return;
            const int64_t here = nodes.row(j, k);
            Given<T> of_row = given;
            of_row.out += here;
            if (!nodes.free(j, k)) return keep_row(given.pass, u + here, of_row.out, nodes.x.nodes);
            if (given.f) of_row.f += here;
            visit_row<DIFFERENCES, T, C>(*s, nodes, u, j, k, of_row, totals);
        };
        for (int64_t slow = tile.start; slow < tile.stop; ++slow)
            for (int64_t mid = tile.low; mid < tile.high; ++mid)
                s->lattice.dimension == 3 ? visit(mid, slow) : visit(slow, 0);
        if (given.sums) {
            double sum, maximum;
            totals.join(sum, maximum);
            keep_pair(partial, number, tiles, sum, given.of_products() ? 0 : maximum, result);
        }
    }
    if (given.sums) join_partials(partial, tiles, result);
    return POISSON_SUCCESS;
}

template <class T>
poisson_status pass(Pass pass, const poisson_stencil* s, const T* u, const T* f, T* out, double omega, double* result,
                    int32_t color = 0) {
    if (!s || !s->coefficients || !u || !out || s->offsets > MOST / 2) return POISSON_BAD_ARGUMENT;
    const Given<T> given = {f, out, T(omega), color, pass, result != nullptr};
    if (pass == SOLVE)
        return s->single ? visit_rows<false, T, float>(s, u, given, result)
                         : visit_rows<false, T, double>(s, u, given, result);
    return s->single ? visit_rows<true, T, float>(s, u, given, result)
                     : visit_rows<true, T, double>(s, u, given, result);
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
            keep_row(MULTIPLY, z + here, out + here, nodes.x.nodes);
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
    return pass<T>(MULTIPLY, s, out, nullptr, q, 0.0, result);
}

}  // namespace

POISSON_EXPORT(stencil_residual, (const poisson_stencil* s, const real* u, const real* f, real* r, double* result),
               lattice_of(s), pass(RESIDUAL_OF, s, u, f, r, 0.0, result))
POISSON_EXPORT(stencil_sweep,
               (const poisson_stencil* s, const real* u, const real* f, real* out, double omega, double* result),
               lattice_of(s), pass(SWEEP, s, u, f, out, omega, result))
POISSON_EXPORT(stencil_color_sweep, (const poisson_stencil* s, real* u, const real* f, int32_t color, double omega),
               lattice_of(s), pass<real>(ONE_COLOR, s, u, f, u, omega, nullptr, color))
POISSON_EXPORT(stencil_diagonal_solve, (const poisson_stencil* s, const real* r, real* z, double omega, double* result),
               lattice_of(s), r ? pass(SOLVE, s, r, r, z, omega, result) : POISSON_BAD_ARGUMENT)
POISSON_EXPORT(stencil_direction,
               (const poisson_stencil* s, const real* z, double beta, const real* p, real* out, real* q,
                double* result),
               lattice_of(s), direction(s, z, beta, p, out, q, result))
