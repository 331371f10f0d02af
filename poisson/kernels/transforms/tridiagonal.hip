// SPDX-License-Identifier: MIT
// Direct solution by fast transforms: a tridiagonal system along the last axis for each mode of the others, in the
// place of transforms there and back (poisson/backends/gpu/tridiagonal.py). The array is read and written once.
//
// A system is -x[k-1] + (2 + s) x[k] - x[k+1] = g[k] for k = 1 ... N, with x[0] and x[N+1] zero or given, as they are
// where they are separators of a divided axis (slab.hip): given values join g[1] and g[N]. With 2 cosh(angle) = 2 + s
// and r = e^-angle its matrix is that of
//
//     M = 1/r (1 - r L) (1 - r U),   L and U the shifts by a row,
//
// but for the first row, where it has r more on the diagonal if x[0] is known, and sinh(angle) less than M if that row
// is halved because it lies on a mirror. M is solved by y[k] = g[k] + r y[k-1] and x[k] = r (y[k] + x[k+1]). The column
// of its inverse for the first row is known, so that the first row of the solution takes one division (J. Sherman and
// W. J. Morrison, "Adjustment of an inverse matrix corresponding to a change in one element of a given matrix", Ann.
// Math. Stat. 21, 1950); the others follow from y[k] - difference x[1] r^(k-1) in the place of y[k].
//
// A thread holds ROWS rows of a mode. It follows both recurrences from zero, and what they bring from other rows is
// added from the sums of the threads before and behind it, which a block has in shared memory. All numbers but those in
// memory are doubles.
//
// Options, beside those of the prelude: ROWS, and ENDS, 1 where values at the ends may be given. A block has BLOCK_X
// modes that are neighbours in x, and BLOCK_Y threads for each: at least N / ROWS.

// What has fallen to this no longer counts, and so has e^-FAR.
#define TINY 1e-25
#define FAR 60.0

#ifndef ENDS
#define ENDS 0
#endif

// What `flags` say: the first row is halved, as it lies on a mirror; x[N+1] has a row as the others have, and is
// stored.
#define MIRROR 1
#define STORED 2

// There are nx modes along x, and rows of modes are `pitch` apart; those that are not fixed have numbers in [start,
// stop). The first row of the system of mode 0 is at `begin`, and rows of a system are `stride` apart. `lower`,
// `upper`: x[0] and x[N+1] of each mode, without `pitch`; null where they are zero. `line`: the whole solution of mode
// 0, in the order of memory, if there is one. `spectrum`: the eigenvalues of the other axes. `coupling`: a/h^2 along
// this one. `gain`: the factor of the right-hand side.
KERNEL poisson_tridiagonal(const real* from, real* to, const real* lower, const real* upper, const real* line, int nx,
                           index_t pitch, index_t begin, index_t stride, int start_x, int stop_x, int start_y,
                           int stop_y, int rows, int flags, const double* spectrum_x, const double* spectrum_y,
                           double coupling, double gain) {
    __shared__ double ends[BLOCK_X * BLOCK_Y];
    const int blocks = (nx + BLOCK_X - 1) / BLOCK_X;
    const int i = (int)(blockIdx.x % blocks) * BLOCK_X + threadIdx.x, j = (int)(blockIdx.x / blocks);
    const bool live = i >= start_x && i < stop_x && j >= start_y && j < stop_y;
    const int first = ROWS * threadIdx.y, count = rows - first < ROWS ? rows - first : ROWS;
    const index_t origin = begin + i + pitch * j + stride * first, number = i + (index_t)nx * j;
    const bool mirror = flags & MIRROR;
    const double scale = gain / coupling;
    double values[ROWS];
#pragma unroll
    for (int n = 0; n < ROWS; ++n) values[n] = live && n < count ? (double)from[origin + stride * n] : 0.0;

    // The angle is not zero, so that quotients of what vanishes with it are right where s does.
    const double s = live ? (spectrum_x[i] + spectrum_y[j]) / coupling : 1.0;
    const double angle = larger(2.0 * asinh(0.5 * sqrt(s)), 1e-150);
    const double r = exp(-angle), through = exp(-angle * ROWS);
    double* const own = ends + threadIdx.x + BLOCK_X * threadIdx.y;

    if (mirror && first == 0) values[0] *= 0.5;
    // The thread whose rows end the system, which may have none.
    const bool last = ENDS && live && (first < rows || first == 0) && rows <= first + ROWS;
    const double above = last && upper ? (double)upper[number] : 0.0;
    if (ENDS) {
        if (live && lower && first == 0) values[0] += (double)lower[number] / scale;
        const double flow = above / scale;
#pragma unroll
        for (int n = 0; n < ROWS; ++n) values[n] += last && n == count - 1 ? flow : 0.0;
    }
    double carried = 0;
#pragma unroll
    for (int n = 0; n < ROWS; ++n) {
        carried = values[n] + r * carried;
        values[n] = carried;
    }
    *own = carried;
    __syncthreads();
    carried = 0;
    double weight = 1;
    for (int before = 1; before <= (int)threadIdx.y && weight > TINY; ++before) {
        carried += weight * own[-BLOCK_X * before];
        weight *= through;
    }
    __syncthreads();

    // y, and x of the thread's first row without what comes from behind.
    double power = r, x = 0;
#pragma unroll
    for (int n = 0; n < ROWS; ++n) {
        values[n] = n < count ? values[n] + power * carried : 0.0;
        x += power * values[n];
        power *= r;
    }
    *own = x;
    __syncthreads();
    x = 0;
    weight = 1;
    for (int behind = 1; behind < BLOCK_Y - (int)threadIdx.y && weight > TINY; ++behind) {
        x += weight * own[BLOCK_X * behind];
        weight *= through;
    }

    if (angle * first < FAR) {
        double change = 0;
        weight = 1;
        for (int thread = 0; thread < BLOCK_Y && weight > TINY; ++thread) {
            change += weight * ends[threadIdx.x + BLOCK_X * thread];
            weight *= through;
        }
        const double twice = expm1(-2.0 * angle);
        if (mirror) {
            change *= twice / (r * (1.0 + exp(-2.0 * angle * rows)));
        } else {
            change *= r * twice / expm1(-2.0 * angle * (rows + 1));
        }
        // What the change of the rows behind does to the next row.
        const int next = first + ROWS + 1;
        if (next <= rows) x -= change * exp(-angle * next) * expm1(-2.0 * angle * (rows - next + 1)) / twice;
        change *= exp(-angle * first);
#pragma unroll
        for (int n = 0; n < ROWS; ++n) {
            if (n < count) values[n] -= change;
            change *= r;
        }
    }

#pragma unroll
    for (int n = ROWS - 1; n >= 0; --n) {
        x = r * (values[n] + x);
        if (live && n < count) to[origin + stride * n] = (real)(scale * x);
    }
    if (last && flags & STORED) to[origin + stride * count] = (real)above;
    if (ENDS && live && line && number == 0) {
        const int own = count + (last && flags & STORED ? 1 : 0);
        for (int n = 0; n < own; ++n) to[origin + stride * n] = line[stride < 0 ? rows - 1 - first - n : first + n];
    }
}
