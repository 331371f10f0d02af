// From the modes of f to those of u: by division where all axes are transformed, by a tridiagonal system along the
// slowest axis for each mode of the others where it is not.
//
// A system is -x[j-1] + (2 + s) x[j] - x[j+1] = g[j], halved where row j lies on a mirror face: its pivots are 1 + d[j]
// with d[j] = s + d[j-1] / (1 + d[j-1]). No term is subtracted, so that d keeps all its digits where s is small and
// there are many rows (the elimination of W. K. Grassmann, M. I. Taksar and D. P. Heyman, "Regenerative analysis and
// steady state distributions for Markov chains", Operations Research 33, 1985). It is done in double precision whatever
// the type of the arrays. Away from the first rows the pivots no longer change, and are not computed again.
#include <cstdlib>

#include "core/formulas.h"
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
    return __builtin_convertvector(load(from), Lanes);
}

inline bool any(Pack<int64_t> mask) {
    int64_t joined = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) joined |= mask[lane];
    return joined != 0;
}

// The systems of the columns of one block.
struct Systems {
    int64_t rows, stride;
    bool mirror_below, mirror_above;
    double scale;  // of the right-hand side
    Lanes s[PACKS];
    int64_t first, last;     // the columns of the block that are written
    Lanes *steps, *inverse;  // memory for PACKS packs a row each

    template <class T>
    void solve(const T* f, T* u) const {
        Lanes d[PACKS] = {}, pivot[PACKS] = {}, x[PACKS] = {};
        int64_t settled = rows;
        for (int64_t j = 0; j < rows; ++j) {
            const bool halved = (j == 0 && mirror_below) || (j == rows - 1 && mirror_above);
            if (j < settled || halved) {
                bool changes = j % ROWS_PER_LOOK != 0;
                for (int64_t n = 0; n < PACKS; ++n) {
                    const Lanes before = d[n];
                    d[n] = halved ? 0.5 * s[n] : s[n];
                    d[n] += j > 0 ? before * pivot[n] : spread(halved ? 0.0 : 1.0);
                    pivot[n] = 1.0 / (j > 0 && halved ? d[n] : 1.0 + d[n]);
                    inverse[PACKS * j + n] = pivot[n];
                    const Lanes change = d[n] - before;
                    changes = changes || any((change < 0.0 ? -change : change) > 4e-16 * d[n]);
                }
                if (!changes && !halved) settled = j;
            }
            for (int64_t n = 0; n < PACKS; ++n) {
                const Lanes g = (halved ? 0.5 * scale : scale) * widened(f + stride * j + LANES * n);
                x[n] = pivot[n] * (g + x[n]);
                steps[PACKS * j + n] = x[n];
            }
        }
        for (int64_t j = rows - 1; j >= 0; --j) {
            for (int64_t n = 0; n < PACKS; ++n) {
                if (j < rows - 1) x[n] = steps[PACKS * j + n] + inverse[PACKS * (j < settled ? j : settled) + n] * x[n];
                put(u + stride * j, n, x[n]);
            }
        }
    }

    template <class T>
    void put(T* row, int64_t n, Lanes value) const {
        if (first <= LANES * n && LANES * (n + 1) <= last) {
            store(row + LANES * n, __builtin_convertvector(value, Pack<T>));
            return;
        }
        for (int64_t lane = 0; lane < LANES; ++lane) {
            const int64_t column = LANES * n + lane;
            if (first <= column && column < last) row[column] = T(value[lane]);
        }
    }
};

template <class T>
poisson_status tridiagonal(const poisson_operator* a, const double* spectrum_x, const double* spectrum_y, const double*,
                           const T* f, T* u) {
    if (!a || !spectrum_x || !spectrum_y || !f || !u) return POISSON_BAD_ARGUMENT;
    const int slowest = a->dimension - 1;
    const int32_t below = a->rule[2 * slowest], above = a->rule[2 * slowest + 1];
    const int64_t nx = a->shape[0], mid = slowest == 2 ? a->shape[1] : 1;
    const int64_t start = below == FIXED, rows = a->shape[slowest] - start - (above == FIXED);
    const int64_t begin = a->rule[0] == FIXED, end = nx - (a->rule[1] == FIXED);
    const int64_t low = slowest == 2 && a->rule[2] == FIXED, high = mid - (slowest == 2 && a->rule[3] == FIXED);
    const int64_t blocks = (nx + COLUMNS - 1) / COLUMNS;
    const double weight = a->weight[slowest];
    bool failed = false;
#pragma omp parallel num_threads(team_size)
    {
        Lanes* const memory = static_cast<Lanes*>(std::aligned_alloc(sizeof(Lanes), 2 * PACKS * rows * sizeof(Lanes)));
        if (!memory) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(static)
        for (int64_t number = 0; number < blocks * (high - low); ++number) {
            if (!memory) continue;
            const int64_t j = low + number / blocks, column = number % blocks * COLUMNS;
            Systems systems = {};
            systems.rows = rows;
            systems.stride = a->pitch * mid;
            systems.mirror_below = below == MIRROR;
            systems.mirror_above = above == MIRROR;
            systems.scale = 1.0 / weight;
            systems.first = begin > column ? begin - column : 0;
            systems.last = end - column;
            systems.steps = memory;
            systems.inverse = memory + PACKS * rows;
            for (int64_t n = 0; n < COLUMNS; ++n) {
                // What is not written needs a regular system too.
                const int64_t i = column + n;
                systems.s[n / LANES][n % LANES] =
                    i < nx ? (spectrum_x[i] + (slowest == 2 ? spectrum_y[j] : 0.0)) / weight : 1.0;
            }
            const int64_t origin = column + a->pitch * (j + mid * start);
            systems.solve(f + origin, u + origin);
        }
        std::free(memory);
    }
    return failed ? POISSON_OUT_OF_MEMORY : POISSON_SUCCESS;
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
#pragma omp parallel for schedule(static) num_threads(team_size)
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

#define POISSON_DEFINE(real, suffix)                                                                                   \
    extern "C" poisson_status poisson_divide_##suffix(const poisson_operator* a, const double* x, const double* y,     \
                                                      const double* z, const real* f, real* u) {                       \
        use_threads(a);                                                                                                \
        return divide<real>(a, x, y, z, f, u);                                                                         \
    }                                                                                                                  \
    extern "C" poisson_status poisson_tridiagonal_##suffix(const poisson_operator* a, const double* x,                 \
                                                           const double* y, const double* z, const real* f, real* u) { \
        use_threads(a);                                                                                                \
        return tridiagonal<real>(a, x, y, z, f, u);                                                                    \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
