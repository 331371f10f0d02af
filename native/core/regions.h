// SPDX-License-Identifier: MIT
// How a parallel region is written once for the host's threads and for a GPU.
//
// A region is a loop over tiles. On the host a tile is a row in 2D; in 3D it is a block of rows that stays in the cache
// while the thread goes from plane to plane. Its nodes are visited with SIMD instructions. On a GPU a tile is a
// thread's part of a pack of columns along the slowest axis (device.h).
#ifndef POISSON_REGIONS_H
#define POISSON_REGIONS_H

#include <cstdint>

#include "core/formulas.h"
#include "core/team.h"

#define POISSON_PRAGMA(text) _Pragma(#text)

// POISSON_REGION is a parallel loop over `work` nodes; `values` lists what it captures by value, `pointers` the device
// memory that it uses.
#ifdef POISSON_OFFLOAD
#define POISSON_REGION(work, values, pointers) \
    POISSON_PRAGMA(omp target teams distribute parallel for firstprivate values is_device_ptr pointers)
#else
#define POISSON_REGION(work, values, pointers) \
    POISSON_PRAGMA(omp parallel for schedule(static) num_threads(team_size) if ((work) >= SMALL_WORK))
#endif

// An operator in the type of the arrays.
template <class T>
struct Local {
    int64_t dimension, nx, ny, nz, pitch, rules, halo;
    T weight_x, weight_y, weight_z, c;

    // The rule of a face; faces run x lower, x upper, y lower, …
    int32_t rule(int face) const { return rules >> 2 * face & 3; }
    // Whether a node with this index along an axis of n nodes is fixed by the faces of that axis.
    bool fixed(int64_t index, int64_t n, int axis) const {
        // The rules are unpacked only where they count.
        return (index == 0 || index == n - 1) && is_fixed(index, n, rule(2 * axis), rule(2 * axis + 1));
    }
    int64_t row(int64_t j, int64_t k) const { return pitch * (j + ny * k); }
    // Where the values at the nodes of an axis begin among tables that have `rows` for each, and the next row of them.
    int64_t table(int axis, int64_t rows) const {
        return rows * ((axis > 0 ? table_stride(nx) : 0) + (axis > 1 ? table_stride(ny) : 0)) + POISSON_TABLE_PAD;
    }
    static int64_t table_stride(int64_t n) { return (n + 15) / 16 * 16 + 2 * POISSON_TABLE_PAD; }
    // Widths of the halo: y below, y above, z below, z above.
    int64_t halo_width(int side) const { return halo >> 16 * side & 0xffff; }
    // Whether the nodes of a row count in sums and norms: those in a halo do not.
    bool counts(int64_t j, int64_t k) const {
        return halo == 0 || (j >= halo_width(0) && j < ny - halo_width(1) &&
                             (dimension == 2 || (k >= halo_width(2) && k < nz - halo_width(3))));
    }
};

// Whether the diagonal differs from node to node: a or c is an array, or an axis tabulated.
inline bool varies(const poisson_operator& a) { return a.a[0] || a.c_values || a.tables; }

// The array whose negative values say which nodes are fixed beside those on faces, or null.
template <class T>
inline const T* mask_of(const poisson_operator* a) {
    return a->masked ? static_cast<const T*>(a->c_values) : nullptr;
}

// The arrays of the coefficients: of the links along each axis, and of the nodes. Null where they are constant. The
// tables of the axes and their control widths; null where all are uniform. The mask is c or null.
template <class T>
struct Coefficients {
    const T *x, *y, *z, *c, *tables, *mask;
    const double* widths;
};

// Entries of the tables of a restriction, or of links, for each node along an axis.
inline int64_t entries_of(const poisson_transfer* tables, int axis) {
    return tables->entries[axis] ? tables->entries[axis] : 4;
}

inline int64_t packed_rules(const poisson_operator& a) {
    int64_t rules = 0;
    for (int face = 0; face < 6; ++face) rules |= int64_t(a.rule[face]) << 2 * face;
    return rules;
}

inline int64_t packed_halo(const poisson_operator& a) {
    uint64_t halo = 0;
    for (int side = 0; side < 4; ++side) halo |= uint64_t(a.halo[side]) << 16 * side;
    return int64_t(halo);
}

// A target region takes scalars with its launch, and a structure by a transfer of its own: so an operator is taken
// apart before a region and put together in it. POISSON_OPERATOR(T, a, name) declares the parts of *a,
// POISSON_PARTS(name) lists them as captures, and POISSON_LOCAL(T, name) is the whole.
#define POISSON_OPERATOR(T, a, name)                                                                       \
    const int64_t name##_dimension = (a)->dimension, name##_nx = (a)->shape[0], name##_ny = (a)->shape[1], \
                  name##_nz = (a)->shape[2], name##_pitch = (a)->pitch, name##_rules = packed_rules(*(a)), \
                  name##_halo = packed_halo(*(a));                                                         \
    const T name##_x = T((a)->weight[0]), name##_y = T((a)->weight[1]), name##_z = T((a)->weight[2]),      \
            name##_c = T((a)->c)
#define POISSON_PARTS(name)                                                                                         \
    name##_dimension, name##_nx, name##_ny, name##_nz, name##_pitch, name##_rules, name##_halo, name##_x, name##_y, \
        name##_z, name##_c
#define POISSON_LOCAL(T, name) (Local<T>{POISSON_PARTS(name)})

// The same for the arrays of its coefficients.
#define POISSON_COEFFICIENTS(T, from, name)                                                          \
    const T *name##_links_x = static_cast<const T*>((from)->a[0]),                                   \
            *name##_links_y = static_cast<const T*>((from)->a[1]),                                   \
            *name##_links_z = static_cast<const T*>((from)->a[2]),                                   \
            *name##_nodes_c = static_cast<const T*>((from)->c_values),                               \
            *name##_tables = static_cast<const T*>((from)->tables), *name##_mask = mask_of<T>(from); \
    const double* name##_widths = (from)->widths
#define POISSON_ARRAYS(name) \
    name##_links_x, name##_links_y, name##_links_z, name##_nodes_c, name##_tables, name##_mask, name##_widths
#define POISSON_VARYING(T, name) (Coefficients<T>{POISSON_ARRAYS(name)})

// The nodes [first, last) along x, the rows [low, high) of the middle axis (0 to 1 in 2D) and the rows or planes
// [start, stop) of the slowest axis.
struct Tile {
    int64_t first, last, low, high, start, stop;
};

#ifdef POISSON_OFFLOAD
#include "core/device.h"
#else
#include "core/host.h"
#endif

// Values as the units of flat regions.
template <class T>
inline const Unit<T>* units_of(const T* values) {
    return reinterpret_cast<const Unit<T>*>(values);
}
template <class T>
inline Unit<T>* units_of(T* values) {
    return reinterpret_cast<Unit<T>*>(values);
}

#ifdef POISSON_BARE

// Device memory for the pairs of the teams of a reduction behind a counter for each group of them, for the calling
// thread; null where there is not enough.
double* partial_results(int64_t threads);
inline void join_partials(const double*, int64_t, double*) {}

#else

// The tiles that the iteration `number` of a region of `threads` iterations visits.
template <class Visit>
inline void for_each_tile(const Tiling& tiling, int64_t number, int64_t threads, Visit visit) {
    for (int64_t n = number; n < tiling.count(); n += threads) visit(tiling.tile(n));
}

// Reductions leave pairs {sum, maximum}, which are joined in a fixed order into the GROUPS pairs of a result.

// Device memory for `count` pairs, kept from call to call of a thread; null where there is not enough.
double* partial_results(int64_t count);

inline void keep_pair(double* partial, int64_t number, int64_t, double sum, double maximum, double*) {
    partial[2 * number] = sum;
    partial[2 * number + 1] = maximum;
}

// The pairs of `count` iterations, joined into a result.
void join_partials(const double* partial, int64_t count, double* result);

#endif

#endif
