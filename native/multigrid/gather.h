// SPDX-License-Identifier: MIT
// The value at a node of one grid as a weighted sum over nodes of another, by tables for each axis.
#ifndef POISSON_GATHER_H
#define POISSON_GATHER_H

#include "core/regions.h"

// The weighted sum over `from` at the node (i, j, k) of another grid, with ENTRIES entries along each axis or, where
// that is 0, `entries`. In 2D the z axis has one entry of weight one.
template <int DIMENSION, int64_t ENTRIES, class T>
inline T gather(const Local<T>& from, const int64_t (&entries)[3], const int32_t* index_x, const double* weight_x,
                const int32_t* index_y, const double* weight_y, const int32_t* index_z, const double* weight_z,
                const T* values, int64_t i, int64_t j, int64_t k) {
    // Of four weights one or more are zero; of two, seldom any: then a branch costs more than what it saves.
    constexpr bool SOLID = DIMENSION == 3, SKIP = ENTRIES != 2;
    const int64_t e_x = ENTRIES ? ENTRIES : entries[0], e_y = ENTRIES ? ENTRIES : entries[1],
                  e_z = ENTRIES ? ENTRIES : entries[2];
    T sum = 0;
    for (int64_t n_z = 0; n_z < (SOLID ? e_z : 1); ++n_z) {
        const T w_z = SOLID ? T(weight_z[e_z * k + n_z]) : T(1);
        if (SKIP && w_z == 0) continue;
        const int64_t plane = SOLID ? from.ny * index_z[e_z * k + n_z] : 0;
        for (int64_t n_y = 0; n_y < e_y; ++n_y) {
            const T w_y = T(weight_y[e_y * j + n_y]);
            if (SKIP && w_y == 0) continue;
            const T* row = values + from.pitch * (plane + index_y[e_y * j + n_y]);
            T part = 0;
            for (int64_t n_x = 0; n_x < e_x; ++n_x) {
                const T w_x = T(weight_x[e_x * i + n_x]);
                if (!SKIP || w_x != 0) part += w_x * row[index_x[e_x * i + n_x]];
            }
            sum += w_z * w_y * part;
        }
    }
    return sum;
}

#endif
