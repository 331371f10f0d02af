// SPDX-License-Identifier: MIT
// Rows of a sparse matrix at a few nodes, which replace values there (poisson/discrete/sparse_rows.py).
#include "core/regions.h"

namespace {

template <class T>
poisson_status replace(const poisson_rows* rows, const T* x, const T* u, T* out) {
    if (!rows || !x || !u || !out) return POISSON_BAD_ARGUMENT;
    const int64_t count = rows->count;
    if (count == 0) return POISSON_SUCCESS;
    const int64_t *places = rows->places, *starts = rows->starts, *beside = rows->beside;
    const double *weights = rows->weights, *own = rows->own, *constant = rows->constant;
    double* found = rows->found;
    POISSON_THREADS(row, count, 8 * count, (count), (places, starts, beside, weights, own, constant, found, x, u)) {
        double sum = own[row] * double(x[places[row]]) + constant[row];
        for (int64_t entry = starts[row]; entry < starts[row + 1]; ++entry)
            sum += weights[entry] * double(u[beside[entry]]);
        found[row] = sum;
    }
    // Among what was read there may be what is written.
    POISSON_THREADS(row, count, 8 * count, (count), (places, found, out)) { out[places[row]] = T(found[row]); }
    return POISSON_SUCCESS;
}

}  // namespace

POISSON_EXPORT(replace_rows, (const poisson_rows* rows, const real* x, const real* u, real* out),
               rows ? rows->threads : 1, replace(rows, x, u, out))
