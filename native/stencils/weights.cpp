// SPDX-License-Identifier: MIT
// Restriction and interpolation by the weights of each node: restrict and prolong_add.
#include "stencils/weights.h"

#include <algorithm>

#include "core/kept.h"

namespace {

// The weights of the coarse nodes of a row in the three directions along x; null where there are none, and in the
// middle of all directions, where they are 1.
template <class C>
struct RowWeights {
    const C *below, *at, *above;

    RowWeights(const poisson_weighted& w, const Pairs& pairs, int64_t values, int64_t row, int dy, int dz) {
        const C* const weights = static_cast<const C*>(w.weights) + row;
        const auto of = [&](int dx) -> const C* {
            const int number = pairs.number(dx, dy, dz);
            return number < 0 ? nullptr : weights + number * values;
        };
        at = of(0);
        below = pairs.x.halved ? of(-1) : nullptr;
        above = pairs.x.halved ? of(1) : nullptr;
    }
};

template <class T, class C>
poisson_status restrict_by(const poisson_weighted* w, const T* fine, T* coarse) {
    const Nodes from(w->fine.lattice), to(w->coarse.lattice);
    const Pairs pairs(*w);
    const int64_t nx = to.x.nodes, last = nx - 1;
    const double* const widths = from.widths_along_x();
    const double scale = 1.0 / ((1 + pairs.x.halved) * (1 + pairs.y.halved) * (1 + pairs.z.halved));
    POISSON_THREADS(number, to.rows(), from.count(), (), ()) {
        const int64_t j = number % to.y.nodes, k = number / to.y.nodes, row = to.pitch * number;
        T* __restrict const out = coarse + row;
        for (int64_t i = 0; i < nx; ++i) out[i] = T(0);
        if (!to.free(j, k)) continue;
        for (int dz = -Pairs::reach(pairs.z); dz <= Pairs::reach(pairs.z); ++dz) {
            for (int dy = -Pairs::reach(pairs.y); dy <= Pairs::reach(pairs.y); ++dy) {
                const int64_t fj = pairs.y.beside(j, dy), fk = pairs.z.beside(k, dz);
                if (fj < 0 || fk < 0) continue;
                const RowWeights<C> weights(*w, pairs, to.values(), row, dy, dz);
                const C* const below = weights.below;
                const C* const at = weights.at;
                const C* const above = weights.above;
                const T* const f = fine + from.row(fj, fk);
                const T factor = T(from.width_of_row(fj, fk));
                const auto add_at = [&](int64_t i, int dx, const C* weight) {
                    const int64_t there = pairs.x.beside(i, dx);
                    if (there >= 0) out[i] += factor * T(from.width(there)) * (weight ? T(weight[i]) : T(1)) * f[there];
                };
                if (!pairs.x.halved) {
                    for (int64_t i = 0; i < nx; ++i)
                        out[i] += factor * (at ? T(at[i]) : T(1)) * f[i] * (widths ? T(widths[i]) : T(1));
                    if (!widths && !from.x.wraps) {
                        for (int64_t i : {int64_t(0), last}) {
                            const T extra = factor * (at ? T(at[i]) : T(1)) * f[i];
                            out[i] -= extra * T(1 - from.width(i));
                        }
                    }
                    continue;
                }
                const int64_t start = widths ? nx : 1;
                for (int64_t i = 0; i < start && i < nx; ++i) {
                    add_at(i, -1, below);
                    add_at(i, 0, at);
                    add_at(i, 1, above);
                }
                if (at) {
#pragma omp simd
                    for (int64_t i = start; i < last; ++i)
                        out[i] +=
                            factor * (T(below[i]) * f[2 * i - 1] + T(at[i]) * f[2 * i] + T(above[i]) * f[2 * i + 1]);
                } else {
#pragma omp simd
                    for (int64_t i = start; i < last; ++i)
                        out[i] += factor * (T(below[i]) * f[2 * i - 1] + f[2 * i] + T(above[i]) * f[2 * i + 1]);
                }
                if (last >= start) {
                    add_at(last, -1, below);
                    add_at(last, 0, at);
                    add_at(last, 1, above);
                }
            }
        }
        const double volume = to.width_of_row(j, k);
        const double* const own = to.widths_along_x();
        for (int64_t i = 0; i < nx; ++i) out[i] *= T(scale / (own ? volume * own[i] : volume));
        for (int64_t i : {int64_t(0), last}) {
            if (!own) out[i] *= T(1 / to.width(i));
            if (!to.x.free(i)) out[i] = T(0);
            if (last == 0) break;
        }
    }
    return POISSON_SUCCESS;
}

template <class T, class C>
poisson_status prolong_by(const poisson_weighted* w, const T* coarse, T* fine) {
    const Nodes from(w->coarse.lattice), to(w->fine.lattice);
    const Pairs pairs(*w);
    const int64_t nx = from.x.nodes, last = nx - 1, even = pairs.x.halved ? (to.x.nodes + 1) / 2 : nx,
                  odd = pairs.x.halved ? to.x.nodes / 2 : 0;
    const WorkingRows rows(to.rows(), 2 * from.pitch * int64_t(sizeof(T)));
    if (!rows) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, to.rows(), to.count(), (), ()) {
        const int64_t j = number % to.y.nodes, k = number / to.y.nodes;
        if (!to.free(j, k)) continue;
        T* __restrict const at_even = rows.template row<T>(number);
        T* __restrict const at_odd = at_even + from.pitch;
        for (int64_t i = 0; i < from.pitch; ++i) at_even[i] = at_odd[i] = T(0);
        int64_t from_y[2], from_z[2];
        int dy[2], dz[2];
        const int along_y = pairs.y.sources(j, from_y, dy), along_z = pairs.z.sources(k, from_z, dz);
        for (int m = 0; m < along_z; ++m) {
            for (int n = 0; n < along_y; ++n) {
                const int64_t row = from.row(from_y[n], from_z[m]);
                if (row < 0 || !from.free(from.y.node(from_y[n]), from.z.node(from_z[m]))) continue;
                const RowWeights<C> weights(*w, pairs, from.values(), row, dy[n], dz[m]);
                const C* const below = weights.below;
                const C* const above = weights.above;
                const T* const u = coarse + row;
                if (weights.at) {
                    const C* const at = weights.at;
#pragma omp simd
                    for (int64_t i = 0; i < even; ++i) at_even[i] += T(at[i]) * u[i];
                } else {
                    const int64_t start = from.x.free(0) ? 0 : 1, stop = from.x.free(last) || even < nx ? even : last;
                    for (int64_t i = start; i < stop; ++i) at_even[i] += u[i];
                }
                if (!pairs.x.halved) continue;
                const int64_t inner = odd < last ? odd : last;
#pragma omp simd
                for (int64_t i = 0; i < inner; ++i) at_odd[i] += T(above[i]) * u[i] + T(below[i + 1]) * u[i + 1];
                if (inner < odd) at_odd[last] += T(above[last]) * u[last] + (from.x.wraps ? T(below[0]) * u[0] : T(0));
            }
        }
        T* __restrict const out = fine + to.row(j, k);
        if (!pairs.x.halved) {
            for (int64_t i = 0; i < nx; ++i) out[i] += at_even[i];
            continue;
        }
#pragma omp simd
        for (int64_t i = 0; i < odd; ++i) {
            out[2 * i] += at_even[i];
            out[2 * i + 1] += at_odd[i];
        }
        if (odd < even) out[2 * odd] += at_even[odd];
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status restrict_any(const poisson_weighted* w, const T* fine, T* coarse) {
    if (!w || !w->weights || !fine || !coarse) return POISSON_BAD_ARGUMENT;
    if (w->kind == 2) return restrict_by<T, Part>(w, fine, coarse);
    return w->kind ? restrict_by<T, float>(w, fine, coarse) : restrict_by<T, double>(w, fine, coarse);
}

template <class T>
poisson_status prolong_any(const poisson_weighted* w, const T* coarse, T* fine) {
    if (!w || !w->weights || !fine || !coarse) return POISSON_BAD_ARGUMENT;
    if (w->kind == 2) return prolong_by<T, Part>(w, coarse, fine);
    return w->kind ? prolong_by<T, float>(w, coarse, fine) : prolong_by<T, double>(w, coarse, fine);
}

// The nodes between a coarse node and the next ones along the axes of `odd`: the weights of all that they take from.
struct Corners {
    int count = 0;
    int64_t first[8];
    bool next_x[8];

    Corners(const Pairs& pairs, const Nodes& nodes, int64_t j, int64_t k, const bool (&odd)[3]) {
        for (int corner = 0; corner < 8; ++corner) {
            const bool next[3] = {(corner & 1) != 0, (corner & 2) != 0, (corner & 4) != 0};
            if ((next[0] && !odd[0]) || (next[1] && !odd[1]) || (next[2] && !odd[2])) continue;
            const int64_t row = nodes.row(j + next[1], k + next[2]);
            if (row < 0) continue;
            const auto along = [&](int axis) { return !odd[axis] ? 0 : next[axis] ? -1 : 1; };
            next_x[count] = next[0];
            first[count++] = pairs.number(along(0), along(1), along(2)) * nodes.values() + row;
        }
    }
};

// What rounding of each leaves of their sum, the largest one gets.
void round_corners(const Corners& corners, const Line& x, int64_t i, const double* weights, uint16_t* rounded) {
    double sum = 0, largest = -1;
    int32_t left = 0;
    int64_t at_largest = 0;
    for (int n = 0; n < corners.count; ++n) {
        const int64_t there = corners.next_x[n] ? x.node(i + 1) : i;
        if (there < 0) continue;
        const int64_t place = corners.first[n] + there;
        const double weight = weights[place] * Part::WHOLE;
        const int32_t parts = int32_t(weight + 0.5);
        rounded[place] = uint16_t(parts);
        sum += weight;
        left -= parts;
        if (weight > largest) {
            largest = weight;
            at_largest = place;
        }
    }
    if (largest < 0) return;
    left += int32_t(sum + 0.5);
    rounded[at_largest] = uint16_t(rounded[at_largest] + left);
}

poisson_status round_weights(const poisson_weighted* w, const double* weights, uint16_t* rounded) {
    const Nodes nodes(w->coarse.lattice);
    const Pairs pairs(*w);
    POISSON_THREADS(number, pairs.directions() * nodes.rows(), nodes.count() * pairs.directions(), (), ()) {
        std::fill_n(rounded + nodes.pitch * number, nodes.pitch, uint16_t(0));
    }
    POISSON_THREADS(number, nodes.rows(), nodes.count() * pairs.directions(), (), ()) {
        const int64_t j = number % nodes.y.nodes, k = number / nodes.y.nodes;
        for (int between = 1; between < 8; ++between) {
            const bool odd[3] = {(between & 1) != 0, (between & 2) != 0, (between & 4) != 0};
            if ((odd[0] && !pairs.x.halved) || (odd[1] && !pairs.y.halved) || (odd[2] && !pairs.z.halved)) continue;
            const Corners corners(pairs, nodes, j, k, odd);
            for (int64_t i = 0; i < nodes.x.nodes; ++i) round_corners(corners, nodes.x, i, weights, rounded);
        }
    }
    return POISSON_SUCCESS;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) poisson_status poisson_round_weights(const poisson_weighted* w,
                                                                                       const double* weights,
                                                                                       uint16_t* rounded) {
    if (!w || !weights || !rounded) return POISSON_BAD_ARGUMENT;
    use_threads(lattice_of(w));
    return round_weights(w, weights, rounded);
}

POISSON_EXPORT(stencil_restrict, (const poisson_weighted* w, const real* fine, real* coarse), lattice_of(w),
               restrict_any(w, fine, coarse))
POISSON_EXPORT(stencil_prolong_add, (const poisson_weighted* w, const real* coarse, real* fine), lattice_of(w),
               prolong_any(w, coarse, fine))
