// SPDX-License-Identifier: MIT
// From the modes of f to those of u: by division where all axes are transformed, by a tridiagonal system along the
// slowest axis for each mode of the others where it is not.
//
// A system is -x[j-1] + (2 + s) x[j] - x[j+1] = g[j], halved where row j lies on a mirror face: its pivots are 1 + d[j]
// with d[j] = s + d[j-1] / (1 + d[j-1]). No term is subtracted, so that d keeps all its digits where s is small and
// there are many rows (the elimination of W. K. Grassmann, M. I. Taksar and D. P. Heyman, "Regenerative analysis and
// steady state distributions for Markov chains", Operations Research 33, 1985). It is done in double precision whatever
// the type of the arrays. Away from the first rows the pivots no longer change, and are not computed again.
//
// Where the slowest axis is divided (poisson/parallel/fast.py), the rows are those of one rank: x is given for the row
// below them, and for the last of them, the separators. Before these are known, `condense` finds what the other rows
// would add to the equations of the separators. That of a row falls by 1 + d from one row to the next, so that
// far ones are not looked at.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/formulas.h"
#include "core/kept.h"
#include "core/lanes.h"
#include "core/team.h"

namespace {

typedef Pack<double> Lanes;

// Neighbouring columns that are solved together: two packs, so that one does not wait for the other.
constexpr int64_t PACKS = 2, COLUMNS = PACKS * LANES;

// Rows between two looks at whether the pivots still change.
constexpr int64_t ROWS_PER_LOOK = 8;

template <class T>
inline Lanes widened(const T* from) {
    return converted<double>(load(from));
}

inline bool any(Pack<int64_t> mask) {
    int64_t joined = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) joined |= mask[lane];
    return joined != 0;
}

// What falls by e as often leaves nothing of a value, and of its square after the second.
constexpr double DECAY = 40.0, SETTLED = 20.0;

// The systems of the columns of one block. Where there are separators, `rows` are those that are none.
struct Systems {
    int64_t rows, stride;
    bool mirror_below, mirror_above;
    double scale;  // of the right-hand side
    Lanes s[PACKS];
    int64_t first, last;     // the columns of the block that are written
    Lanes *steps, *inverse;  // memory for PACKS packs a row each

    // x has the values in the row below; those in the row above are read where there are such. The right-hand side of a
    // pack of a row is load_at(row, pack), and the values of a row are put_at(row, packs), from the last row on.
    template <class Load, class Put>
    void solve(Load load_at, Put put_at, Lanes (&x)[PACKS], const Lanes* above) const {
        Lanes d[PACKS] = {}, pivot[PACKS] = {};
        int64_t settled = rows;
        for (int64_t j = 0; j < rows; ++j) {
            const bool halved = is_halved(j);
            if (j < settled || halved) {
                const bool changes = eliminate(j, d, pivot);
                for (int64_t n = 0; n < PACKS; ++n) inverse[PACKS * j + n] = pivot[n];
                if (!changes && !halved) settled = j;
            }
            for (int64_t n = 0; n < PACKS; ++n) {
                const Lanes g = (halved ? 0.5 * scale : scale) * load_at(j, n);
                x[n] = pivot[n] * g + pivot[n] * x[n];
                steps[PACKS * j + n] = x[n];
            }
        }
        if (above) {
            for (int64_t n = 0; n < PACKS; ++n) x[n] = above[n];
            put_at(rows, x);
        }
        for (int64_t j = rows - 1; j >= 0; --j) {
            for (int64_t n = 0; n < PACKS; ++n) {
                if (j < rows - 1 || above) {
                    x[n] = steps[PACKS * j + n] + inverse[PACKS * (j < settled ? j : settled) + n] * x[n];
                }
            }
            put_at(j, x);
        }
    }

    // What load_at and put_at do with the rows of arrays.
    template <class T>
    Lanes take(const T* f, int64_t j, int64_t n) const {
        prefetch(f + stride * j + LANES * n, COLUMNS);
        return widened(f + stride * j + LANES * n);
    }
    template <class T>
    void put(T* row, const Lanes (&x)[PACKS]) const {
        for (int64_t n = 0; n < PACKS; ++n) put(row, n, x[n]);
    }

    // What the rows add to the equation of a separator below them, and to that of one above them together with its own
    // right-hand side; from zero.
    template <class T>
    void condense(const T* f, bool below, bool above, Lanes (&down)[PACKS], Lanes (&up)[PACKS]) const {
        const double decay = slowest_decay();
        if (decay * rows > DECAY + SETTLED) {
            const int64_t reach = int64_t(DECAY / decay) + 1;
            Lanes factor[PACKS], weight[PACKS];
            for (int64_t n = 0; n < PACKS; ++n) weight[n] = scale * (factor[n] = far_pivot(s[n]));
            for (int64_t k = 1; k <= reach; ++k) {
                const T *lower = f + stride * (reach - k), *upper = f + stride * (rows - reach + k - 1);
                for (int64_t n = 0; n < PACKS; ++n) {
                    if (below) down[n] = weight[n] * widened(lower + LANES * n) + factor[n] * down[n];
                    if (above) up[n] = weight[n] * widened(upper + LANES * n) + factor[n] * up[n];
                }
            }
        } else {
            Lanes d[PACKS] = {}, pivot[PACKS] = {}, share[PACKS];
            for (int64_t n = 0; n < PACKS; ++n) share[n] = spread(1.0);
            for (int64_t j = 0; j < rows; ++j) {
                eliminate(j, d, pivot);
                for (int64_t n = 0; n < PACKS; ++n) {
                    const Lanes g = (is_halved(j) ? 0.5 * scale : scale) * widened(f + stride * j + LANES * n);
                    up[n] = pivot[n] * (g + up[n]);
                    down[n] += share[n] * up[n];
                    share[n] *= pivot[n];
                }
            }
        }
        if (!above) return;
        // A separator that is the only row may lie on a mirror itself.
        const double own = rows == 0 && mirror_below ? 0.5 * scale : scale;
        for (int64_t n = 0; n < PACKS; ++n) up[n] += own * widened(f + stride * rows + LANES * n);
    }

private:
    bool is_halved(int64_t j) const { return (j == 0 && mirror_below) || (j == rows - 1 && mirror_above); }

    // From the pivot of a row to that of row j; whether it may change further on.
    bool eliminate(int64_t j, Lanes (&d)[PACKS], Lanes (&pivot)[PACKS]) const {
        const bool halved = is_halved(j);
        bool changes = j % ROWS_PER_LOOK != 0;
        for (int64_t n = 0; n < PACKS; ++n) {
            const Lanes before = d[n];
            d[n] = halved ? 0.5 * s[n] : s[n];
            d[n] += j > 0 ? before * pivot[n] : spread(mirror_below ? 0.0 : 1.0);
            pivot[n] = 1.0 / (j == rows - 1 && mirror_above ? d[n] : 1.0 + d[n]);
            const Lanes change = d[n] - before;
            changes = changes || any((change < 0.0 ? -change : change) > 4e-16 * d[n]);
        }
        return changes;
    }

    // 1 / (1 + d) of pivots that no longer change.
    static Lanes far_pivot(Lanes s) {
        Lanes pivot;
        for (int64_t lane = 0; lane < LANES; ++lane) {
            pivot[lane] = 1.0 / (1.0 + 0.5 * (s[lane] + std::sqrt(s[lane] * (s[lane] + 4.0))));
        }
        return pivot;
    }

    double slowest_decay() const {
        double least = s[0][0];
        for (int64_t n = 0; n < COLUMNS; ++n) least = std::min(least, s[n / LANES][n % LANES]);
        return std::log1p(0.5 * (least + std::sqrt(least * (least + 4.0))));
    }

    template <class T>
    void put(T* row, int64_t n, Lanes value) const {
        if (first <= LANES * n && LANES * (n + 1) <= last) {
            store(row + LANES * n, converted<T>(value));
            return;
        }
        for (int64_t lane = 0; lane < LANES; ++lane) {
            const int64_t column = LANES * n + lane;
            if (first <= column && column < last) row[column] = T(value[lane]);
        }
    }
};

// The blocks of columns of an operator, and their systems.
struct Blocks {
    int64_t nx, mid, start, rows, begin, end, low, high, in_row;
    const poisson_operator* a;
    const double *spectrum_x, *spectrum_y;
    bool separator_below, separator_above;

    Blocks(const poisson_operator* operator_, const double* x, const double* y, bool below, bool above)
        : a(operator_), spectrum_x(x), spectrum_y(y), separator_below(below), separator_above(above) {
        const int slowest = a->dimension - 1;
        nx = a->shape[0];
        mid = slowest == 2 ? a->shape[1] : 1;
        start = a->rule[2 * slowest] == FIXED;
        rows = a->shape[slowest] - start - (a->rule[2 * slowest + 1] == FIXED) - above;
        begin = a->rule[0] == FIXED, end = nx - (a->rule[1] == FIXED);
        low = slowest == 2 && a->rule[2] == FIXED, high = mid - (slowest == 2 && a->rule[3] == FIXED);
        in_row = (nx + COLUMNS - 1) / COLUMNS;
    }

    // The nodes that are visited.
    int64_t work() const { return nx * rows * (high - low); }

    // The values of the block `column` of row j, from the first row with unknowns on.
    int64_t origin(int64_t column, int64_t j) const { return column + a->pitch * (j + mid * start); }

    Systems systems(int64_t column, int64_t j) const {
        const int slowest = a->dimension - 1;
        Systems systems = {};
        systems.rows = rows;
        systems.stride = a->pitch * mid;
        systems.mirror_below = a->rule[2 * slowest] == MIRROR && !separator_below;
        systems.mirror_above = a->rule[2 * slowest + 1] == MIRROR && !separator_above;
        systems.scale = 1.0 / a->weight[slowest];
        systems.first = begin > column ? begin - column : 0;
        systems.last = end - column;
        for (int64_t n = 0; n < COLUMNS; ++n) {
            // What is not written needs a regular system too.
            const int64_t i = column + n;
            systems.s[n / LANES][n % LANES] =
                begin <= i && i < end ? (spectrum_x[i] + (slowest == 2 ? spectrum_y[j] : 0.0)) / a->weight[slowest]
                                      : 1.0;
        }
        return systems;
    }

    // A block of the values of a plane, which are not padded; those that are no modes are zero.
    template <class T>
    void read(const T* plane, int64_t column, int64_t j, Lanes (&values)[PACKS]) const {
        for (int64_t n = 0; n < COLUMNS; ++n) {
            const int64_t i = column + n;
            values[n / LANES][n % LANES] = plane && begin <= i && i < end ? double(plane[i + nx * j]) : 0.0;
        }
    }

    template <class T>
    void write(T* plane, int64_t column, int64_t j, const Lanes (&values)[PACKS]) const {
        for (int64_t i = column; plane && i < std::min(column + COLUMNS, nx); ++i) {
            const bool live = begin <= i && i < end && low <= j && j < high;
            plane[i + nx * j] = live ? T(values[(i - column) / LANES][(i - column) % LANES]) : T(0);
        }
    }
};

template <class T>
poisson_status tridiagonal(const poisson_operator* a, const double* spectrum_x, const double* spectrum_y, const double*,
                           const T* f, T* u, const T* below, const T* above) {
    if (!a || !spectrum_x || !spectrum_y || !f || !u) return POISSON_BAD_ARGUMENT;
    const Blocks blocks(a, spectrum_x, spectrum_y, below, above);
    const int64_t solved = (blocks.end + COLUMNS - 1) / COLUMNS;
    bool failed = false;
#pragma omp parallel num_threads(team_size) if (blocks.work() >= SMALL_WORK)
    {
        const int64_t bytes = 2 * PACKS * std::max<int64_t>(blocks.rows, 1) * sizeof(Lanes);
        Lanes* const memory = static_cast<Lanes*>(std::aligned_alloc(sizeof(Lanes), bytes));
        if (!memory) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(static)
        for (int64_t number = 0; number < solved * (blocks.high - blocks.low); ++number) {
            if (!memory) continue;
            const int64_t j = blocks.low + number / solved, column = number % solved * COLUMNS;
            Systems systems = blocks.systems(column, j);
            systems.steps = memory;
            systems.inverse = memory + PACKS * blocks.rows;
            Lanes x[PACKS], end[PACKS];
            blocks.read(below, column, j, x);
            blocks.read(above, column, j, end);
            const int64_t origin = blocks.origin(column, j);
            systems.solve(
                [&](int64_t row, int64_t n) { return systems.take(f + origin, row, n); },
                [&](int64_t row, const Lanes(&at)[PACKS]) { systems.put(u + origin + systems.stride * row, at); }, x,
                above ? end : nullptr);
        }
        std::free(memory);
    }
    return failed ? POISSON_OUT_OF_MEMORY : POISSON_SUCCESS;
}

template <class T>
poisson_status condense(const poisson_operator* a, const double* spectrum_x, const double* spectrum_y, const T* f,
                        T* first, T* last) {
    if (!a || !spectrum_x || !spectrum_y || !f) return POISSON_BAD_ARGUMENT;
    const Blocks blocks(a, spectrum_x, spectrum_y, first, last);
#pragma omp parallel for schedule(static) num_threads(team_size) if (blocks.work() >= SMALL_WORK)
    for (int64_t number = 0; number < blocks.in_row * blocks.mid; ++number) {
        const int64_t j = number / blocks.in_row, column = number % blocks.in_row * COLUMNS;
        Lanes down[PACKS] = {}, up[PACKS] = {};
        if (blocks.low <= j && j < blocks.high) {
            blocks.systems(column, j).condense(f + blocks.origin(column, j), first, last, down, up);
        }
        blocks.write(first, column, j, down);
        blocks.write(last, column, j, up);
    }
    return POISSON_SUCCESS;
}

// The weights of the modes of a block in the layers at the ends of x and y, those of the lower end first; zeros where
// no layer is wanted.
struct AtEnds {
    Lanes x[2][PACKS];
    double y[2];

    AtEnds(const poisson_faces& faces, int64_t column, int64_t j) {
        for (int end = 0; end < 2; ++end) {
            for (int64_t n = 0; n < PACKS; ++n) x[end][n] = load(faces.weights[end] + column + LANES * n);
            y[end] = faces.weights[2 + end][j];
        }
    }
};

inline double sum_of(Lanes values) {
    double sum = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) sum += values[lane];
    return sum;
}

// A right-hand side for each mode of f, and of the planes that are added to those at the ends of x and y.
template <class T>
poisson_status add_faces(const poisson_operator* a, const double* spectrum_x, const double* spectrum_y,
                         const poisson_faces* faces, T* u) {
    if (!a || !spectrum_x || !spectrum_y || !faces || !u) return POISSON_BAD_ARGUMENT;
    const Blocks blocks(a, spectrum_x, spectrum_y, false, false);
    const int64_t solved = (blocks.end + COLUMNS - 1) / COLUMNS, rows = blocks.rows;
    const WorkingRows memory(team_size, 2 * PACKS * rows * int64_t(sizeof(Lanes)));
    if (!memory) return POISSON_OUT_OF_MEMORY;
#pragma omp parallel for schedule(static) num_threads(team_size) if (blocks.work() >= SMALL_WORK)
    for (int64_t number = 0; number < solved * (blocks.high - blocks.low); ++number) {
        const int64_t j = blocks.low + number / solved, column = number % solved * COLUMNS;
        Systems systems = blocks.systems(column, j);
        systems.steps = memory.row<Lanes>(number);
        systems.inverse = systems.steps + PACKS * rows;
        const AtEnds ends(*faces, column, j);
        const double *const along_x = faces->layers[0] + faces->pitch * j, *const along_y = faces->layers[1] + column;
        T* const values = u + blocks.origin(column, j);
        Lanes below[PACKS] = {};
        systems.solve(
            [&](int64_t row, int64_t n) {
                const double *const at_x = along_x + 2 * row, *const at_y = along_y + 2 * a->pitch * row + LANES * n;
                const Lanes g = systems.take(values, row, n) + at_x[0] * ends.x[0][n] + at_x[1] * ends.x[1][n];
                return a->dimension == 2 ? g : g + ends.y[0] * load(at_y) + ends.y[1] * load(at_y + a->pitch);
            },
            [&](int64_t row, const Lanes(&x)[PACKS]) { systems.put(values + systems.stride * row, x); }, below,
            nullptr);
    }
    return POISSON_SUCCESS;
}

// Sums over x and y are made in parts, one after the other, whose number is not that of the threads.
constexpr int64_t PARTS = 16;

// The layers at the ends of each axis of what solves the systems.
template <class T>
poisson_status to_faces(const poisson_operator* a, const double* spectrum_x, const double* spectrum_y,
                        const poisson_faces* faces, const T* f) {
    if (!a || !spectrum_x || !spectrum_y || !faces || !f) return POISSON_BAD_ARGUMENT;
    const Blocks blocks(a, spectrum_x, spectrum_y, false, false);
    const int64_t solved = (blocks.end + COLUMNS - 1) / COLUMNS, rows = blocks.rows, live = blocks.high - blocks.low;
    // A part has some rows j and some blocks of columns; of the latter 2D alone has several parts.
    const int64_t across = a->dimension == 2 ? std::min(PARTS, solved) : 1, down = std::min(PARTS, live);
    const int64_t of_x = faces->pitch * blocks.mid, of_y = a->dimension == 2 ? 0 : 2 * rows * a->pitch,
                  in_work = 2 * PACKS * rows;
    const WorkingRows memory(team_size, 2 * in_work * int64_t(sizeof(Lanes)));
    static thread_local KeptMemory kept;
    if (!memory || !kept.reserve(1, (across * of_x + down * of_y) * int64_t(sizeof(double))))
        return POISSON_OUT_OF_MEMORY;
    double *const parts_x = static_cast<double*>(kept.get()), *const parts_y = parts_x + across * of_x;
#pragma omp parallel num_threads(team_size) if (blocks.work() >= SMALL_WORK)
    {
#pragma omp for schedule(static)
        for (int64_t part = 0; part < across * down; ++part) {
            const int64_t first = solved * (part / down) / across, last = solved * (part / down + 1) / across;
            const int64_t from = blocks.low + live * (part % down) / down;
            const int64_t to = blocks.low + live * (part % down + 1) / down;
            double *const part_x = parts_x + of_x * (part / down), *const part_y = parts_y + of_y * (part % down);
            std::fill(part_x + faces->pitch * from, part_x + faces->pitch * to, 0.0);
            Lanes *const work = memory.row<Lanes>(part), *const sums = work + in_work;
            for (int64_t block = first; block < last; ++block) {
                const int64_t column = block * COLUMNS;
                if (of_y) std::fill(sums, sums + in_work, Lanes{});
                for (int64_t j = from; j < to; ++j) {
                    Systems systems = blocks.systems(column, j);
                    systems.steps = work;
                    systems.inverse = work + PACKS * rows;
                    const AtEnds ends(*faces, column, j);
                    const T* const values = f + blocks.origin(column, j);
                    double *const along_x = part_x + faces->pitch * j, *const plane =
                                                                           faces->layers[2] + column + a->pitch * j;
                    // What stands beside the modes need not be finite.
                    const Lanes numbers = lane_numbers<double>() + double(column);
                    const auto among = [&](const Lanes& at) {
                        return (at >= double(blocks.begin)) & (at < double(blocks.end));
                    };
                    const Pack<int64_t> modes[PACKS] = {among(numbers), among(numbers + double(LANES))};
                    Lanes below[PACKS] = {};
                    systems.solve(
                        [&](int64_t row, int64_t n) { return modes[n] ? systems.take(values, row, n) : Lanes{}; },
                        [&](int64_t row, const Lanes(&x)[PACKS]) {
                            Lanes* const sum = sums + 2 * PACKS * row;
                            for (int end = 0; end < 2; ++end) {
                                along_x[2 * row + end] += sum_of(ends.x[end][0] * x[0] + ends.x[end][1] * x[1]);
                                for (int64_t n = 0; of_y && n < PACKS; ++n) sum[PACKS * end + n] += ends.y[end] * x[n];
                            }
                            if (row == 0) systems.put(plane, x);
                            if (row == rows - 1) systems.put(plane + a->pitch * blocks.mid, x);
                        },
                        below, nullptr);
                }
                for (int64_t row = 0; of_y && row < rows; ++row)
                    for (int end = 0; end < 2; ++end)
                        std::memcpy(part_y + a->pitch * (2 * row + end) + column, sums + PACKS * (2 * row + end),
                                    sizeof(Lanes) * PACKS);
            }
        }
        const auto join = [&](const double* parts, int64_t count, int64_t size, double* to) {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < size; ++i) {
                double sum = 0;
                for (int64_t part = 0; part < count; ++part) sum += parts[i + size * part];
                to[i] = sum;
            }
        };
        join(parts_x, across, of_x, faces->layers[0]);
        join(parts_y, down, of_y, faces->layers[1]);
    }
    return POISSON_SUCCESS;
}

// u = f / eigenvalue
template <class T>
poisson_status divide(const poisson_operator* a, const double* spectrum_x, const double* spectrum_y,
                      const double* spectrum_z, const T* f, T* u) {
    if (!a || !spectrum_x || !spectrum_y || !spectrum_z || !f || !u) return POISSON_BAD_ARGUMENT;
    int64_t start[3], count[3];
    for (int axis = 0; axis < 3; ++axis) {
        const bool exists = axis < a->dimension;
        start[axis] = exists && a->rule[2 * axis] == FIXED;
        count[axis] = a->shape[axis] - start[axis] - (exists && a->rule[2 * axis + 1] == FIXED);
    }
#pragma omp parallel for schedule(static) num_threads(team_size) if (count[0] * count[1] * count[2] >= SMALL_WORK)
    for (int64_t row = 0; row < count[1] * count[2]; ++row) {
        const int64_t j = start[1] + row % count[1], k = start[2] + row / count[1];
        const int64_t origin = start[0] + a->pitch * (j + a->shape[1] * k);
        const double beside = spectrum_y[j] + spectrum_z[k];
        const double* along = spectrum_x + start[0];
        for (int64_t i = 0; i < count[0]; ++i) {
            const double eigenvalue = along[i] + beside;
            u[origin + i] = T(eigenvalue > 0 ? f[origin + i] / eigenvalue : 0.0);
        }
    }
    return POISSON_SUCCESS;
}

}  // namespace

POISSON_EXPORT(divide,
               (const poisson_operator* a, const double* x, const double* y, const double* z, const real* f, real* u),
               a, divide<real>(a, x, y, z, f, u))
POISSON_EXPORT(add_faces,
               (const poisson_operator* a, const double* x, const double* y, const poisson_faces* faces, real* u), a,
               add_faces<real>(a, x, y, faces, u))
POISSON_EXPORT(to_faces,
               (const poisson_operator* a, const double* x, const double* y, const poisson_faces* faces, const real* f),
               a, to_faces<real>(a, x, y, faces, f))
POISSON_EXPORT(condense,
               (const poisson_operator* a, const double* x, const double* y, const real* f, real* first, real* last), a,
               condense<real>(a, x, y, f, first, last))
POISSON_EXPORT(tridiagonal,
               (const poisson_operator* a, const double* x, const double* y, const double* z, const real* f, real* u,
                const real* below, const real* above),
               a, tridiagonal<real>(a, x, y, z, f, u, below, above))
