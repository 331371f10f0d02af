// SPDX-License-Identifier: MIT
// Staggered grids (poisson/mac.py) in the memory of the caller: the divergence at the centres of the cells, and the
// gradient of a pressure taken from a velocity, each in one pass over the rows of cells.
#include <omp.h>

#include <algorithm>

#include "core/formulas.h"
#include "core/kept.h"
#include "core/lanes.h"
#include "core/regions.h"

namespace {

// Values at the cells: rows and planes lie so far apart.
template <class T>
struct Cells {
    const T* values;
    int64_t pitch, plane;
    const T* row(int64_t j, int64_t k) const { return values + plane * k + pitch * j; }
};

template <class T>
const T* table(const void* values) {
    return static_cast<const T*>(values);
}

// What the faces between the rows of two cells lose; where there is no cell its pressure is 0.
template <class T, class Link>
void subtract_across(T* faces, const T* lower, const T* upper, T weight, int64_t nx, Link link) {
    if (weight == T(0)) return;
    if (lower && upper) {
        for (int64_t i = 0; i < nx; ++i) faces[i] -= pressure_slope(lower[i], upper[i], weight) * link(i);
    } else {
        for (int64_t i = 0; i < nx; ++i)
            faces[i] -= pressure_slope(lower ? lower[i] : T(0), upper ? upper[i] : T(0), weight) * link(i);
    }
}

// Writes zeros on the faces of the box beside a row of cells that are walls.
template <class T>
void close_walls(const poisson_staggered& grid, int32_t walls, int64_t j, int64_t k, T* west, T* south, T* north,
                 T* down, T* up) {
    const int64_t nx = grid.shape[0];
    if (walls & 1) west[0] = 0;
    if (walls & 2) west[nx] = 0;
    if (walls & 4 && j == 0) std::fill_n(south, nx, T(0));
    if (walls & 8 && j == grid.shape[1] - 1) std::fill_n(north, nx, T(0));
    if (walls & 16 && k == 0) std::fill_n(down, nx, T(0));
    if (walls & 32 && k == grid.shape[2] - 1) std::fill_n(up, nx, T(0));
}

// The divergence of a row of cells times a factor, after zeros on the faces beside it that are walls.
template <class T>
void divergence_row(const poisson_staggered& grid, T scale, int32_t walls, T* u, T* v, T* w, int64_t j, int64_t k,
                    T* to) {
    const int64_t nx = grid.shape[0], ny = grid.shape[1], nz = grid.shape[2];
    const bool flat = grid.dimension < 3;
    const T *x = table<T>(grid.widths[0]), y = table<T>(grid.widths[1])[j];
    T* const west = u + (nx + !grid.wraps[0]) * (j + ny * k);
    T* const planes = v + nx * (ny + !grid.wraps[1]) * k;
    T *const south = planes + nx * j, *const north = planes + nx * (grid.wraps[1] && j == ny - 1 ? 0 : j + 1);
    const int64_t above = grid.wraps[2] && k == nz - 1 ? 0 : k + 1;
    T *const down = w + (flat ? 0 : nx * (ny * k + j)), *const up = w + (flat ? 0 : nx * (ny * above + j));
    close_walls(grid, walls, j, k, west, south, north, down, up);
    const int64_t end = nx - (grid.wraps[0] ? 1 : 0);
    if (flat) {
        const auto at = [=](int64_t i, T east) {
            to[i] = scale * (flow_out(west[i], east, x[i]) + flow_out(south[i], north[i], y));
        };
        for (int64_t i = 0; i < end; ++i) at(i, west[i + 1]);
        if (end < nx) at(end, west[0]);
        return;
    }
    const T z = table<T>(grid.widths[2])[k];
    const auto at = [=](int64_t i, T east) {
        to[i] = scale * (flow_out(west[i], east, x[i]) + flow_out(south[i], north[i], y) + flow_out(down[i], up[i], z));
    };
    for (int64_t i = 0; i < end; ++i) at(i, west[i + 1]);
    if (end < nx) at(end, west[0]);
}

// Takes factor times the gradient of p from the faces above a row of cells, and from the first ones of the box.
template <class T, bool VARIES>
void subtract_row(const poisson_staggered& grid, T factor, const Cells<T>& p, T* u, T* v, T* w,
                  const Cells<T> (&links)[3], int64_t j, int64_t k) {
    const int64_t nx = grid.shape[0], ny = grid.shape[1], nz = grid.shape[2];
    const auto link_of = [](const T* row) { return [=](int64_t i) { return VARIES ? row[i] : T(1); }; };
    const T *x = table<T>(grid.slopes[0]), *y = table<T>(grid.slopes[1]);
    const T* const here = p.row(j, k);
    const bool wraps_x = grid.wraps[0], wraps_y = grid.wraps[1], wraps_z = grid.wraps[2];
    T* const west = u + (nx + !wraps_x) * (j + ny * k);
    const auto link_x = link_of(VARIES ? links[0].row(j, k) : nullptr);
    west[0] -= factor * pressure_slope(wraps_x ? here[nx - 1] : T(0), here[0], x[0]) * link_x(wraps_x ? nx - 1 : 0);
    for (int64_t i = 1; i < nx; ++i) west[i] -= factor * pressure_slope(here[i - 1], here[i], x[i]) * link_x(i - 1);
    if (!wraps_x) west[nx] -= factor * pressure_slope(here[nx - 1], T(0), x[nx]) * link_x(nx - 2);
    const auto across_y = [&](int64_t face, const T* lower, const T* upper) {
        const int64_t link = face > 0 ? face < ny ? face - 1 : ny - 2 : wraps_y ? ny - 1 : 0;
        subtract_across(v + nx * ((ny + !wraps_y) * k + face), lower, upper, factor * y[face], nx,
                        link_of(VARIES ? links[1].row(link, k) : nullptr));
    };
    if (j == 0) across_y(0, wraps_y ? p.row(ny - 1, k) : nullptr, here);
    if (j + 1 < ny || !wraps_y) across_y(j + 1, here, j + 1 < ny ? p.row(j + 1, k) : nullptr);
    if (grid.dimension < 3) return;
    const auto across_z = [&](int64_t face, const T* lower, const T* upper) {
        const int64_t link = face > 0 ? face < nz ? face - 1 : nz - 2 : wraps_z ? nz - 1 : 0;
        subtract_across(w + nx * (ny * face + j), lower, upper, factor * table<T>(grid.slopes[2])[face], nx,
                        link_of(VARIES ? links[2].row(j, link) : nullptr));
    };
    if (k == 0) across_z(0, wraps_z ? p.row(j, nz - 1) : nullptr, here);
    if (k + 1 < nz || !wraps_z) across_z(k + 1, here, k + 1 < nz ? p.row(j, k + 1) : nullptr);
}

template <class T>
void norms_of(const T* row, int64_t nx, double* pair) {
    const int64_t whole = nx / LANES * LANES;
    PackNorms norms;
    for (int64_t i = 0; i < whole; i += LANES) norms.add<T>(load(row + i));
    Pack<T> rest = {};
    for (int64_t i = whole; i < nx; ++i) rest[i - whole] = row[i];
    norms.add<T>(rest);
    pair[0] = pair[1] = 0;
    norms.join(pair[0], pair[1]);
}

// `result`, if there is one, gets the norms of `out`.
template <class T>
poisson_status divergence(const poisson_staggered* grid, double factor, int32_t walls, T* u, T* v, T* w, T* out,
                          int64_t pitch, int64_t plane, double* result) {
    if (!grid || !u || !v || !w || !out) return POISSON_BAD_ARGUMENT;
    const int64_t nx = grid->shape[0], ny = grid->shape[1], rows = ny * grid->shape[2];
    double* const pairs = result ? partial_results(rows) : nullptr;
    if (result && !pairs) return POISSON_OUT_OF_MEMORY;
#pragma omp parallel for schedule(static) num_threads(team_size) if (nx * rows >= SMALL_WORK)
    for (int64_t row = 0; row < rows; ++row) {
        T* const to = out + plane * (row / ny) + pitch * (row % ny);
        divergence_row(*grid, T(factor), walls, u, v, w, row % ny, row / ny, to);
        if (pairs) norms_of(to, nx, pairs + 2 * row);
    }
    if (result) join_partials(pairs, rows, result);
    return POISSON_SUCCESS;
}

// `result`, if there is one, gets the norms of the divergence that is left over -factor.
template <class T>
poisson_status subtract_gradient(const poisson_staggered* grid, double factor, const T* p, int64_t pitch, int64_t plane,
                                 T* u, T* v, T* w, const T* const (&links)[3], int64_t link_pitch, int64_t link_plane,
                                 double* result) {
    if (!grid || !p || !u || !v || !w) return POISSON_BAD_ARGUMENT;
    const int64_t nx = grid->shape[0], ny = grid->shape[1], rows = ny * grid->shape[2];
    const WorkingRows memory(team_size, nx * int64_t(sizeof(T)));
    double* const pairs = result ? partial_results(rows) : nullptr;
    if (!memory || (result && !pairs)) return POISSON_OUT_OF_MEMORY;
    const Cells<T> cells = {p, pitch, plane};
    Cells<T> between[3];
    for (int axis = 0; axis < 3; ++axis) between[axis] = {links[axis], link_pitch, link_plane};
    const auto subtract = links[0] ? subtract_row<T, true> : subtract_row<T, false>;
    const int64_t slice = grid->dimension < 3 ? 1 : ny;
    const bool wraps = grid->wraps[grid->dimension - 1];
#pragma omp parallel num_threads(team_size) if (nx * rows >= SMALL_WORK)
    {
        T* const work = memory.row<T>(0);
        const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
        const int64_t begin = rows * thread / threads, end = rows * (thread + 1) / threads;
        const auto look = [&](int64_t row) {
            divergence_row(*grid, T(-1.0 / factor), 0, u, v, w, row % ny, row / ny, work);
            norms_of(work, nx, pairs + 2 * row);
        };
        // Whether other threads have faces beside a row.
        const auto waits = [=](int64_t row) {
            return begin > 0 && (row < begin + slice || (wraps && row >= rows - slice));
        };
        for (int64_t row = begin; row < end; ++row) {
            subtract(*grid, T(factor), cells, u, v, w, between, row % ny, row / ny);
            if (pairs && !waits(row)) look(row);
        }
#pragma omp barrier
        for (int64_t row = begin; pairs && row < end; ++row)
            if (waits(row)) look(row);
    }
    if (result) join_partials(pairs, rows, result);
    return POISSON_SUCCESS;
}

}  // namespace

POISSON_EXPORT(divergence,
               (const poisson_staggered* grid, double factor, int32_t walls, real* u, real* v, real* w, real* out,
                int64_t pitch, int64_t plane, double* result),
               grid ? grid->threads : 1, divergence<real>(grid, factor, walls, u, v, w, out, pitch, plane, result))
POISSON_EXPORT(subtract_gradient,
               (const poisson_staggered* grid, double factor, const real* p, int64_t pitch, int64_t plane, real* u,
                real* v, real* w, const real* link_x, const real* link_y, const real* link_z, int64_t link_pitch,
                int64_t link_plane, double* result),
               grid ? grid->threads : 1,
               subtract_gradient<real>(grid, factor, p, pitch, plane, u, v, w, {link_x, link_y, link_z}, link_pitch,
                                       link_plane, result))
