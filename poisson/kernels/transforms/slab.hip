// SPDX-License-Identifier: MIT
// Direct solution by fast transforms where the slowest axis is divided (poisson/backends/gpu/slabs.py): for each mode
// of the other axes the chain of equations along the planes of a rank (poisson/mesh/chain.py). A thread has one mode
// and marches from plane to plane; neighbours in x lie in neighbouring threads. All numbers but those in memory are
// doubles.
//
// With the eigenvalue s of the other axes, 2 cosh(angle) = 2 + s: away from the ends of a run, what a row does to its
// neighbours falls by e^-angle from one to the next.

// The planes: nodes along x and, in 3D, y; values from a row to the next and from a plane to the next; the nodes that
// are not fixed; the planes with unknowns. FLAGS tell what is at the ends.
struct Slab {
    int nx, ny;
    index_t pitch, stride;
    int start_x, stop_x, start_y, stop_y, rows, flags;
    const double* spectrum_x;
    const double* spectrum_y;
    double coupling, gain;
};

// A separator lies below the run; its last row is one; its first row, its last row lies on a mirror face.
#define BELOW 1
#define ABOVE 2
#define MIRROR_BELOW 4
#define MIRROR_ABOVE 8

// What is left of a value after so many times the inverse of the angle, of 1 and of the square of that: nothing.
#define DECAY 40.0
#define SETTLED 20.0

// Planes whose values a thread reads before it needs the first.
#define BATCH 8

// One mode: its number among the values of a plane, and where the values of the first row lie.
struct Mode {
    index_t number, origin;
    bool exists, live;
    double s, angle;
};

__device__ __forceinline__ Mode mode_here(const Slab& a) {
    const int blocks = (a.nx + THREADS - 1) / THREADS;
    const int i = (int)(blockIdx.x % blocks) * THREADS + threadIdx.x, j = (int)(blockIdx.x / blocks);
    Mode mode = {i + (index_t)a.nx * j, i + a.pitch * j, i < a.nx, false, 0, 0};
    mode.live = i >= a.start_x && i < a.stop_x && j >= a.start_y && j < a.stop_y;
    if (mode.live) {
        mode.s = (a.spectrum_x[i] + a.spectrum_y[j]) / a.coupling;
        // The angle is not zero, so that quotients of what vanishes with it are right where s does.
        mode.angle = larger(2.0 * asinh(0.5 * sqrt(mode.s)), 1e-150);
    }
    return mode;
}

// The elimination from the first row on, which is halved at a mirror: pivots are what the row loses, `lost` and the
// link to the next one, and nothing is subtracted.
struct Elimination {
    double lost, inverse;

    __device__ __forceinline__ Elimination(const Slab& a) : lost(a.flags & MIRROR_BELOW ? 0.0 : 1.0), inverse(0) {}
    __device__ __forceinline__ void next(double s, double weight, double link) {
        const double loss = weight * s + lost;
        inverse = 1.0 / (loss + link);
        lost = loss * inverse;
    }
};

__device__ __forceinline__ double weight_of(const Slab& a, int row, int inner) {
    return (row == 0 && a.flags & MIRROR_BELOW) || (row == inner - 1 && a.flags & MIRROR_ABOVE) ? 0.5 : 1.0;
}

// Calls step(row, value) for the rows [0, count) in turn.
template <class Value, class Step>
__device__ __forceinline__ void march(int count, Value value, Step step) {
    int row = 0;
    for (; row + BATCH <= count; row += BATCH) {
        real values[BATCH];
#pragma unroll
        for (int n = 0; n < BATCH; ++n) values[n] = value(row + n);
#pragma unroll
        for (int n = 0; n < BATCH; ++n) step(row + n, (double)values[n]);
    }
    for (; row < count; ++row) step(row, (double)value(row));
}

#define SLAB_ARGUMENTS                                                                                         \
    int nx, int ny, index_t pitch, index_t stride, int start_x, int stop_x, int start_y, int stop_y, int rows, \
        int flags, const double *spectrum_x, const double *spectrum_y, double coupling, double gain
#define SLAB \
    {nx, ny, pitch, stride, start_x, stop_x, start_y, stop_y, rows, flags, spectrum_x, spectrum_y, coupling, gain}

// What flows from the run into the separators beside it while these are zero: `first` into the one below, `last` into
// its own, whose equation adds its source. `line` gets the first mode along the run, if it is given; that mode has no
// flow here.
KERNEL poisson_slab_condense(const real* __restrict__ f, real* __restrict__ first, real* __restrict__ last,
                             real* __restrict__ line, SLAB_ARGUMENTS) {
    const Slab a = SLAB;
    const Mode mode = mode_here(a);
    if (!mode.exists) return;
    const real* const values = f + mode.origin;
    const double scale = a.gain / a.coupling;
    const int inner = a.rows - (a.flags & ABOVE ? 1 : 0);
    double down = 0, up = 0;
    const auto upwards = [&](int row) { return values[a.stride * row]; };
    if (line && mode.number == 0) {
        march(a.rows, upwards, [&](int row, double value) { line[row] = (real)(a.gain * value); });
    } else if (mode.live && mode.angle * inner > DECAY + SETTLED) {
        const double factor = exp(-mode.angle);
        const int reach = (int)(DECAY / mode.angle) + 1;
        if (first) {
            march(
                reach, [&](int row) { return values[a.stride * (reach - 1 - row)]; },
                [&](int, double value) { down = factor * (scale * value + down); });
        }
        if (last) {
            march(
                reach, [&](int row) { return values[a.stride * (inner - reach + row)]; },
                [&](int, double value) { up = factor * (scale * value + up); });
        }
    } else if (mode.live) {
        Elimination row_by_row(a);
        double share = 1;
        march(inner, upwards, [&](int row, double value) {
            const double weight = weight_of(a, row, inner);
            row_by_row.next(mode.s, weight, a.flags & MIRROR_ABOVE && row == inner - 1 ? 0.0 : 1.0);
            up = row_by_row.inverse * (weight * scale * value + up);
            down += share * up;
            share *= row_by_row.inverse;
        });
    }
    if (mode.live && last && !(line && mode.number == 0)) {
        // A separator that is the only row may lie on a mirror itself.
        up += (inner == 0 && a.flags & MIRROR_BELOW ? 0.5 : 1.0) * scale * (double)values[a.stride * inner];
    }
    if (first) first[mode.number] = (real)down;
    if (last) last[mode.number] = (real)up;
}

// The modes of u along the run, from those of f and the values at the separator below and at the run's own.
KERNEL poisson_slab_expand(const real* __restrict__ f, real* __restrict__ u, const real* __restrict__ below,
                           const real* __restrict__ above, const real* __restrict__ line, SLAB_ARGUMENTS) {
    const Slab a = SLAB;
    const Mode mode = mode_here(a);
    if (!mode.live) return;
    const real* const from = f + mode.origin;
    real* const to = u + mode.origin;
    if (line && mode.number == 0) {
        for (int row = 0; row < a.rows; ++row) to[a.stride * row] = line[row];
        return;
    }
    const double scale = a.gain / a.coupling;
    const int inner = a.rows - (a.flags & ABOVE ? 1 : 0);
    // From this row on pivots are those of a run without an end.
    const int settled = mode.angle * inner > SETTLED ? (int)(SETTLED / mode.angle) + 1 : inner;
    const double factor = exp(-mode.angle);
    const bool mirror_below = a.flags & MIRROR_BELOW;

    Elimination elimination(a);
    double x = below ? (double)below[mode.number] : 0.0;
    march(
        inner, [&](int row) { return from[a.stride * row]; },
        [&](int row, double value) {
            const double weight = weight_of(a, row, inner);
            if (row < settled) {
                elimination.next(mode.s, weight, a.flags & MIRROR_ABOVE && row == inner - 1 ? 0.0 : 1.0);
            } else if (weight == 1.0) {
                elimination.inverse = factor;
            } else {
                elimination.next(mode.s, weight, 0.0);
            }
            x = elimination.inverse * (weight * scale * value + x);
            to[a.stride * row] = (real)x;
        });

    x = 0;
    if (above) {
        x = (double)above[mode.number];
        to[a.stride * inner] = (real)x;
    }
    // Back, with the pivots in closed form: quotients of sinh((row + 1) angle), or of cosh(row angle) behind a mirror.
    const auto part = [&](int row) {
        return mirror_below ? 1.0 + exp(-2.0 * row * mode.angle) : -expm1(-2.0 * (row + 1) * mode.angle);
    };
    double next = 1;
    march(
        inner, [&](int row) { return to[a.stride * (inner - 1 - row)]; },
        [&](int back, double value) {
            const int row = inner - 1 - back;
            double inverse = factor;
            if (row < settled) {
                const double here = part(row);
                inverse *= here / (row + 1 < settled ? next : part(row + 1));
                next = here;
            }
            x = value + inverse * x;
            to[a.stride * row] = (real)x;
        });
}
