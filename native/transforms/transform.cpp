// SPDX-License-Identifier: MIT
// Transforms of the lines of an array along one axis, in place.
#include <cstdlib>

#include "core/team.h"
#include "transforms/line_work.h"

namespace {

template <class T>
poisson_status transform(const poisson_operator* a, const poisson_line* line, int32_t to_modes, double scale,
                         T* array) {
    if (!a || !line || !array) return POISSON_BAD_ARGUMENT;
    constexpr int64_t WIDTH = WIDE<T>, TOGETHER = 2 * WIDTH;
    const Range x(*a, 0), y(*a, 1), z = a->dimension == 3 ? Range(*a, 2) : y;
    const Range along(*a, line->axis);
    const int64_t plane = a->pitch * a->shape[1], planes = a->dimension == 3 ? z.count() : 1;
    const int64_t first_plane = a->dimension == 3 ? z.start : 0;
    // Along x the groups are of rows; along y of columns of each plane, along z of columns of each row.
    const int64_t across = line->axis == 1 ? planes : y.count();
    const int64_t strips = (a->shape[0] + TOGETHER - 1) / TOGETHER;
    const int64_t rows = y.count() * planes;
    const int64_t groups = line->axis == 0 ? (rows + TOGETHER - 1) / TOGETHER : strips * across;
    bool failed = false;
#pragma omp parallel num_threads(team_size) if (rows * x.count() >= SMALL_WORK)
    {
        LineWork<T> work(line, std::aligned_alloc(64, LineWork<T>::bytes_of(line)));
        if (!work.values) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(static)
        for (int64_t group = 0; group < groups; ++group) {
            if (!work.values) continue;
            if (line->axis == 0) {
                T* lines[TOGETHER];
                const int64_t first = group * TOGETHER, left = rows - first;
                const int64_t count = left < TOGETHER ? left : TOGETHER;
                for (int64_t n = 0; n < count; ++n) {
                    const int64_t j = y.start + (first + n) % y.count(), k = first_plane + (first + n) / y.count();
                    lines[n] = array + a->pitch * j + plane * k;
                }
                work.transform_rows(lines, count, along, to_modes, T(scale));
            } else {
                const int64_t column = group % strips * TOGETHER, number = group / strips;
                T* const origin =
                    array + column + (line->axis == 1 ? plane * (first_plane + number) : a->pitch * (y.start + number));
                work.transform_columns(origin, x.start - column, x.stop - column, line->axis == 1 ? a->pitch : plane,
                                       along, to_modes, T(scale));
            }
        }
        std::free(work.values);
    }
    return failed ? POISSON_OUT_OF_MEMORY : POISSON_SUCCESS;
}

}  // namespace

POISSON_EXPORT(transform,
               (const poisson_operator* a, const poisson_line* line, int32_t to_modes, double scale, real* values), a,
               transform<real>(a, line, to_modes, scale, values))
