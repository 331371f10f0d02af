// SPDX-License-Identifier: MIT
// From the modes of all axes but one to those of u: for each mode the equations along that axis, wherever its nodes are
// (poisson/mesh/chain.py), in double precision and without a subtraction. Along a radius the eigenvalues of an angle
// count with 1/r^2.
#include <algorithm>

#include "core/formulas.h"
#include "core/kept.h"
#include "core/lanes.h"
#include "core/team.h"

namespace {

typedef Pack<double> Lanes;

// Lines that are solved together: two packs, so that one does not wait for the other.
constexpr int64_t PACKS = 2, LINES = PACKS * LANES;

// The nodes that are not fixed: link to the one above, control width, loss; before them the link below the first.
// Beside an angle, the control widths over r^2.
struct Chain {
    int64_t rows;
    const double* values;
    const double* turned;
    const double* at(int64_t row) const { return values + 1 + 3 * row; }
};

// The eigenvalues of the lines of a block: those of an angle, if there is one, and those of the other axes.
struct Shifts {
    Lanes others[PACKS] = {}, angle[PACKS] = {};
};

// The lines of a block, whose right-hand sides load(row, pack) gives; `memory` has 2 PACKS packs a row.
template <bool turns, class Load, class Put>
inline void solve(const Chain& chain, const Shifts& shifts, Lanes* steps, Load load_at, Put put_at) {
    Lanes* const shares = steps + PACKS * chain.rows;
    Lanes lost[PACKS], x[PACKS] = {};
    for (Lanes& each : lost) each = spread(1.0);
    double below = chain.values[0];
    for (int64_t row = 0; row < chain.rows; ++row) {
        const double link = chain.at(row)[0], width = chain.at(row)[1], loss = chain.at(row)[2];
        for (int64_t n = 0; n < PACKS; ++n) {
            Lanes own = loss + width * shifts.others[n];
            if constexpr (turns) own += chain.turned[row] * shifts.angle[n];
            const Lanes d = own + below * lost[n], inverse = 1.0 / (link + d);
            x[n] = inverse * (width * load_at(row, n) + below * x[n]);
            lost[n] = inverse * d;
            steps[PACKS * row + n] = x[n];
            shares[PACKS * row + n] = link * inverse;
        }
        below = link;
    }
    for (Lanes& each : x) each = Lanes{};
    for (int64_t row = chain.rows - 1; row >= 0; --row) {
        for (int64_t n = 0; n < PACKS; ++n) {
            x[n] = steps[PACKS * row + n] + shares[PACKS * row + n] * x[n];
            put_at(row, n, x[n]);
        }
    }
}

template <class T, bool turns>
poisson_status chains(const poisson_operator* a, int32_t axis, const double* const (&spectra)[3], const double* values,
                      const double* turned, const T* f, T* u) {
    int64_t start[3], count[3] = {1, 1, 1};
    const int64_t stride[3] = {1, a->pitch, a->pitch * a->shape[1]};
    for (int n = 0; n < 3; ++n) {
        const bool exists = n < a->dimension;
        start[n] = exists && a->rule[2 * n] == FIXED;
        if (exists) count[n] = a->shape[n] - start[n] - (a->rule[2 * n + 1] == FIXED);
    }
    const Chain chain = {count[axis], values, turned};
    // Lanes are neighbours along x, or where that is solved along, rows; the blocks of them stand behind each other
    // along the third axis.
    const int across = axis == 0 ? 1 : 0, third = 3 - axis - across;
    const int64_t first = axis == 0 ? start[1] : 0, last = start[across] + count[across];
    const int64_t blocks = (last - first + LINES - 1) / LINES, work = count[0] * count[1] * count[2];
    const WorkingRows memory(team_size, 2 * PACKS * std::max<int64_t>(chain.rows, 1) * int64_t(sizeof(Lanes)));
    if (!memory) return POISSON_OUT_OF_MEMORY;
#pragma omp parallel for schedule(static) num_threads(team_size) if (work >= SMALL_WORK)
    for (int64_t number = 0; number < blocks * count[third]; ++number) {
        const int64_t k = start[third] + number / blocks, low = first + number % blocks * LINES;
        Shifts shifts;
        for (int64_t n = 0; n < LINES; ++n) {
            const int64_t i = low + n;
            const bool live = start[across] <= i && i < last;
            const double here = live ? spectra[across][i] : 1.0, beyond = live ? spectra[third][k] : 0.0;
            shifts.others[n / LANES][n % LANES] = turns ? beyond : here + beyond;
            shifts.angle[n / LANES][n % LANES] = here;
        }
        const int64_t origin = stride[axis] * start[axis] + stride[across] * low + stride[third] * k;
        Lanes* const steps = memory.row<Lanes>(number);
        const T* const from = f + origin;
        T* const to = u + origin;
        if (axis == 0) {
            solve<turns>(
                chain, shifts, steps,
                [&](int64_t row, int64_t n) {
                    Lanes found = {};
                    for (int64_t lane = 0; lane < LANES && low + LANES * n + lane < last; ++lane)
                        found[lane] = double(from[row + a->pitch * (LANES * n + lane)]);
                    return found;
                },
                [&](int64_t row, int64_t n, const Lanes& x) {
                    for (int64_t lane = 0; lane < LANES && low + LANES * n + lane < last; ++lane)
                        to[row + a->pitch * (LANES * n + lane)] = T(x[lane]);
                });
            continue;
        }
        const bool whole = low >= start[0] && low + LINES <= last;
        solve<turns>(
            chain, shifts, steps,
            [&](int64_t row, int64_t n) { return converted<double>(load(from + stride[axis] * row + LANES * n)); },
            [&](int64_t row, int64_t n, const Lanes& x) {
                T* const here = to + stride[axis] * row + LANES * n;
                if (whole) return store(here, converted<T>(x));
                for (int64_t lane = 0; lane < LANES; ++lane) {
                    const int64_t i = low + LANES * n + lane;
                    if (start[0] <= i && i < last) here[lane] = T(x[lane]);
                }
            });
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status along(const poisson_operator* a, int32_t axis, const double* const (&spectra)[3], const double* values,
                     const double* turned, const T* f, T* u) {
    if (!a || axis < 0 || axis >= a->dimension || (turned && axis) || !values || !f || !u) return POISSON_BAD_ARGUMENT;
    if (turned) return chains<T, true>(a, axis, spectra, values, turned, f, u);
    return chains<T, false>(a, axis, spectra, values, turned, f, u);
}

}  // namespace

POISSON_EXPORT(chains,
               (const poisson_operator* a, int32_t axis, const double* x, const double* y, const double* z,
                const double* chain, const double* turned, const real* f, real* u),
               a, along<real>(a, axis, {x, y, z}, chain, turned, f, u))
