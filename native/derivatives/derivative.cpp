// SPDX-License-Identifier: MIT
// First derivatives on nodes by the differences of poisson/mesh/differences.py: derivative and gradient.
#ifdef POISSON_OFFLOAD
#include "derivatives/lines.h"
#else
#include "derivatives/differences.h"
#endif

namespace {

// The grid of the differences with the scales in the place of an operator's weights.
inline poisson_operator grid_of(const poisson_differences* differences) {
    poisson_operator grid = {};
    grid.dimension = differences->dimension;
    grid.pitch = differences->pitch;
    for (int axis = 0; axis < 3; ++axis) {
        grid.rule[2 * axis] = grid.rule[2 * axis + 1] = wraps_along(differences, axis) ? WRAP : FIXED;
        grid.shape[axis] = differences->shape[axis];
        grid.weight[axis] = differences->scale[axis];
    }
    return grid;
}

#ifdef POISSON_OFFLOAD

// The derivative along a tabulated axis, a thread for each node.
template <int HALF, class T>
poisson_status derive_tabulated(const poisson_differences* d, int32_t axis, const T* u, T* out) {
    const int64_t nx = d->shape[0], ny = d->shape[1], nodes = nx * ny * d->shape[2], row = d->pitch;
    const int64_t n = d->shape[axis], stride = axis == 0 ? 1 : axis == 1 ? row : row * ny, wraps = wraps_along(d, axis);
    const double* table = table_along(d, axis);
    POISSON_THREADS(number, nodes, nodes, (nx, ny, row, n, stride, wraps, axis), (table, u, out)) {
        const int64_t i = number % nx, j = number / nx % ny, k = number / (nx * ny),
                      s = axis == 0   ? i
                          : axis == 1 ? j
                                      : k;
        const Line<T> line = {n, wraps != 0, T(1), table};
        const int64_t place = i + row * (j + ny * k);
        const T* first = u + place - stride * s;
        out[place] = tabulated_derivative_at<HALF>(line, s, [=](int64_t index) { return first[stride * index]; });
    }
    return POISSON_SUCCESS;
}

// The derivative along one axis.
template <int HALF, class T>
poisson_status derive_along(const poisson_differences* d, int32_t axis, const T* u, T* out) {
    if (table_along(d, axis)) return derive_tabulated<HALF>(d, axis, u, out);
    return axis == 0 ? derive_along_x<HALF>(d, u, out) : derive_across<HALF>(d, axis, u, out);
}

// The derivatives along the axes whose array is given: one of them or all.
template <int HALF, class T>
poisson_status derive(const poisson_differences* d, const T* u, T* out_x, T* out_y, T* out_z) {
    if (out_x && out_y && d->dimension == 2 && !table_along(d, 0) && !table_along(d, 1)) {
        const poisson_operator grid = grid_of(d);
        return derive_plane<HALF>(d, &grid, u, out_x, out_y);
    }
    T* const outs[3] = {out_x, out_y, out_z};
    for (int32_t axis = 0; axis < 3; ++axis)
        if (outs[axis]) derive_along<HALF>(d, axis, u, outs[axis]);
    return POISSON_SUCCESS;
}

#else

template <class T>
inline Line<T> line_along(const Local<T>& a, int axis) {
    return {axis == 0   ? a.nx
            : axis == 1 ? a.ny
                        : a.nz,
            a.rule(2 * axis) == WRAP,
            axis == 0   ? a.weight_x
            : axis == 1 ? a.weight_y
                        : a.weight_z,
            nullptr};
}

template <bool STREAM, class T>
inline void put(T* to, Pack<T> pack) {
    if (STREAM)
        store_streaming(to, pack);
    else
        store(to, pack);
}

// The derivatives along a row at the nodes of a pack, some of which are near its ends, with zeros in the lanes past it.
// Nodes that have all their neighbours in the row are told apart, because those of the others are looked for one by
// one.
template <int HALF, class T>
inline Pack<T> derive_end(const Line<T>& line, int64_t i, const T* central, const double* closure, const T* row) {
    Pack<T> pack = {};
    for (int64_t s = i; s < line.n && s < i + LANES; ++s) {
        if (s >= HALF && s < line.n - HALF)
            pack[s - i] = line.scale * central_difference<HALF>(central, [&](int m) { return row[s + m]; });
        else
            pack[s - i] = derivative_at<HALF>(line, s, central, closure, [&](int64_t n) { return row[n]; });
    }
    return pack;
}

// Apart from the loop over the packs between the ends, which needs the registers.
template <int HALF, class T>
__attribute__((noinline)) Pack<T> derive_end_apart(const Line<T>& line, int64_t i, const T* central,
                                                   const double* closure, const T* row) {
    return derive_end<HALF>(line, i, central, closure, row);
}

template <class T>
inline Pack<T> inside_row(const Local<T>& a, int64_t i, Pack<T> pack) {
    return i + LANES <= a.nx ? pack : lane_numbers<T>() < T(a.nx - i) ? pack : Pack<T>{};
}

// The pack of a tabulated axis with the derivatives at nodes near an end of the row in their lanes, and zeros past it.
template <int HALF, class T>
__attribute__((noinline)) Pack<T> end_tabulated(const Line<T>& line, int64_t i, const T* row, Pack<T> pack) {
    for (int64_t lane = 0; lane < LANES; ++lane) {
        const int64_t s = i + lane;
        if (s >= line.n)
            pack[lane] = 0;
        else if (s < HALF || s >= line.n - HALF)
            pack[lane] = tabulated_derivative_at<HALF>(line, s, [&](int64_t n) { return row[n]; });
    }
    return pack;
}

// The derivatives along a tabulated axis at the nodes of a whole row, with zeros in the lanes past it.
template <int HALF, bool STREAM, class T>
void derive_tabulated_row(const Local<T>& a, int axis, int64_t j, int64_t k, const double* table, const T* u, T* out) {
    Line<T> line = line_along(a, axis);
    line.table = table;
    const T* row = u + a.row(j, k);
    T* to = out + a.row(j, k);
    if (axis == 0) {
        for (int64_t i = 0; i < a.nx; i += LANES) {
            prefetch(row + i, FAR_AHEAD);
            const Pack<T> centre = load(row + i);
            Pack<T> pack = {};
            // There is memory in front of a row and behind it.
            for (int m = 0; m <= 2 * HALF; ++m) {
                if (m != HALF)
                    pack += __builtin_convertvector(load(&line.weight(m, i)), Pack<T>) *
                            (load(row + i + m - HALF) - centre);
            }
            if (i < HALF || i + LANES > a.nx - HALF) pack = end_tabulated<HALF>(line, i, row, pack);
            put<STREAM>(to + i, pack);
        }
        return;
    }
    // What is the same along the row: the rows besides its own that its nodes take, and their weights.
    const int64_t s = axis == 1 ? j : k, stride = line.stride(axis == 1 ? a.pitch : a.pitch * a.ny);
    const int64_t first = first_of(line, s, HALF);
    T weight[2 * HALF];
    const T* taken[2 * HALF];
    for (int m = 0; m < 2 * HALF; ++m) {
        const int64_t n = first + m + (first + m >= s);
        weight[m] = T(line.weight(n - first, s));
        taken[m] = row + stride * (wrapped(n, line.n) - s);
    }
    for (int64_t i = 0; i < a.nx; i += LANES) {
        prefetch(taken[2 * HALF - 1] + i, FAR_AHEAD);
        const Pack<T> centre = load(row + i);
        Pack<T> pack = {};
        for (int m = 0; m < 2 * HALF; ++m) pack += weight[m] * (load(taken[m] + i) - centre);
        put<STREAM>(to + i, inside_row(a, i, pack));
    }
}

// The derivatives along an axis at the nodes of a whole row, with zeros in the lanes past it.
template <int HALF, bool STREAM, class T>
inline void derive_row(const Local<T>& a, int axis, int64_t j, int64_t k, const T* central, const double* closure,
                       const T* u, T* out) {
    const Line<T> line = line_along(a, axis);
    const T* row = u + a.row(j, k);
    T* to = out + a.row(j, k);
    if (axis == 0) {
        for (int64_t i = 0; i < a.nx; i += LANES) {
            Pack<T> pack = {};
            if (i >= HALF && i + LANES <= a.nx - HALF) {
                prefetch(row + i, FAR_AHEAD);
                pack = line.scale * central_difference<HALF>(central, [&](int m) { return load(row + i + m); });
            } else {
                // Of the shortest difference there is so little to do that a call shows.
                pack = HALF == 1 ? derive_end<HALF>(line, i, central, closure, row)
                                 : derive_end_apart<HALF>(line, i, central, closure, row);
            }
            put<STREAM>(to + i, pack);
        }
        return;
    }
    const int64_t s = axis == 1 ? j : k, stride = line.stride(axis == 1 ? a.pitch : a.pitch * a.ny);
    const int64_t ahead = s + HALF < line.n ? stride * HALF : 0;
    for (int64_t i = 0; i < a.nx; i += LANES) {
        const T* nodes = row + i - stride * s;
        prefetch(row + i + ahead, FAR_AHEAD);
        const Pack<T> pack =
            derivative_at<HALF>(line, s, central, closure, [&](int64_t index) { return load(nodes + stride * index); });
        put<STREAM>(to + i, inside_row(a, i, pack));
    }
}

template <int HALF, bool STREAM, class T>
poisson_status derive_rows(const poisson_differences* differences, const T* u, T* out_x, T* out_y, T* out_z) {
    const poisson_operator grid = grid_of(differences);
    POISSON_OPERATOR(T, &grid, a);
    const Tiling all(POISSON_LOCAL(T, a));
    const int64_t tiles = all.count();
    const double *weights = differences->weights, *table_x = table_along(differences, 0),
                 *table_y = table_along(differences, 1), *table_z = table_along(differences, 2);
    POISSON_THREADS(number, tiles, all.nodes(), (POISSON_PARTS(a)),
                    (weights, table_x, table_y, table_z, u, out_x, out_y, out_z)) {
        const Local<T> local = POISSON_LOCAL(T, a);
        const Tile tile = Tiling(local).tile(number);
        T central[HALF];
        for (int m = 0; m < HALF; ++m) central[m] = T(weights[m]);
        for_each_row(local, tile, [&](int64_t j, int64_t k) {
            for (int axis = 0; axis < local.dimension; ++axis) {
                T* out = axis == 0 ? out_x : axis == 1 ? out_y : out_z;
                const double* table = axis == 0 ? table_x : axis == 1 ? table_y : table_z;
                if (out && table)
                    derive_tabulated_row<HALF, STREAM>(local, axis, j, k, table, u, out);
                else if (out)
                    derive_row<HALF, STREAM>(local, axis, j, k, central, weights + HALF, u, out);
            }
        });
        if (STREAM) store_fence();
    }
    return POISSON_SUCCESS;
}

// The derivatives along the axes whose array is given.
template <int HALF, class T>
poisson_status derive(const poisson_differences* d, const T* u, T* out_x, T* out_y, T* out_z) {
    return goes_around_cache(d->pitch * d->shape[1] * d->shape[2] * int64_t(sizeof(T)))
               ? derive_rows<HALF, true>(d, u, out_x, out_y, out_z)
               : derive_rows<HALF, false>(d, u, out_x, out_y, out_z);
}

#endif

template <class T>
poisson_status derive_all(const poisson_differences* d, const T* u, T* out_x, T* out_y, T* out_z) {
    switch (d->half) {
        case 1:
            return derive<1>(d, u, out_x, out_y, out_z);
        case 2:
            return derive<2>(d, u, out_x, out_y, out_z);
        case 3:
            return derive<3>(d, u, out_x, out_y, out_z);
        case 4:
            return derive<4>(d, u, out_x, out_y, out_z);
        default:
            return POISSON_BAD_ARGUMENT;
    }
}

template <class T>
poisson_status derivative(const poisson_differences* d, int32_t axis, const T* u, T* out) {
    if (!d || !u || !out || axis < 0 || axis >= d->dimension) return POISSON_BAD_ARGUMENT;
    T* const none = nullptr;
    return derive_all(d, u, axis == 0 ? out : none, axis == 1 ? out : none, axis == 2 ? out : none);
}

template <class T>
poisson_status gradient(const poisson_differences* d, const T* u, T* const* outs) {
    if (!d || !u || !outs || !outs[0] || !outs[1] || (d->dimension == 3 && !outs[2])) return POISSON_BAD_ARGUMENT;
    return derive_all(d, u, outs[0], outs[1], d->dimension == 3 ? outs[2] : nullptr);
}

}  // namespace

POISSON_EXPORT(derivative, (const poisson_differences* differences, int32_t axis, const real* u, real* out),
               differences, derivative(differences, axis, u, out))
POISSON_EXPORT(gradient, (const poisson_differences* differences, const real* u, real* const* outs), differences,
               gradient(differences, u, outs))
