// SPDX-License-Identifier: MIT
// Direct solutions: from a source to its modes and back to u, through memory as seldom as it goes. In 3D a plane stays
// in the cache of a thread between what is done to it.
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "core/kept.h"
#include "operator/certify_row.h"
#include "transforms/line_work.h"

namespace {

// So many planes for each thread at least, and each works on planes of its own.
constexpr int64_t PLANES_OF_THREAD = 4;

// The norms of a source, and a sum that is not finite where one of its values is not.
template <class T>
class SourceNorms {
public:
    void add(const Wide<T>& values) {
        if constexpr (WIDE<T> == LANES) {
            norms.add<double>(values);
        } else {
            for (int64_t lane = 0; lane < WIDE<T>; lane += LANES) {
                Pack<T> part;
                std::memcpy(&part, reinterpret_cast<const char*>(&values) + lane * sizeof(T), sizeof part);
                norms.add<T>(part);
            }
        }
    }
    // Of a row whose nodes are fixed.
    void look_at(const T* row, int64_t count) {
        double zeros = 0;
        for (int64_t i = 0; i < count; ++i) zeros += 0.0 * row[i];
        norms.sum[0] += zeros;
    }
    void keep(double* pair) const {
        pair[0] = pair[1] = 0;
        norms.join(pair[0], pair[1]);
    }

private:
    PackNorms norms;
};

// The work on an array: groups of rows of the same plane along x, in 3D strips of columns of it along y, slice by slice
// (a plane, in 2D a row) for the residual.
template <class T>
struct Direct {
    static constexpr int64_t WIDTH = WIDE<T>, TOGETHER = 2 * WIDTH;

    const poisson_operator* a;
    const poisson_direct* direct;
    Source<T> f;
    T* u;
    Local<T> local_;
    Coefficients<T> arrays;
    Range x, y, z;
    int64_t plane, groups, strips;

    Direct(const poisson_operator* operator_, const poisson_direct* direct_, const Source<T>& source, T* u_)
        : a(operator_),
          direct(direct_),
          f(source),
          u(u_),
          local_(local<T>(operator_)),
          arrays{nullptr, nullptr,          nullptr, nullptr, static_cast<const T*>(operator_->tables),
                 nullptr, operator_->widths},
          x(*operator_, 0),
          y(*operator_, 1),
          z(*operator_, 2) {
        if (a->dimension == 2) z.start = 0, z.stop = 1;
        plane = a->pitch * a->shape[1];
        groups = (y.count() + TOGETHER - 1) / TOGETHER;
        strips = columns() ? (x.stop + TOGETHER - 1) / TOGETHER : 0;
    }

    const poisson_line* rows() const { return direct->lines[0]; }
    const poisson_line* columns() const { return a->dimension == 3 ? direct->lines[1] : nullptr; }
    bool by_planes() const { return a->dimension == 3 && z.count() >= PLANES_OF_THREAD * team_size; }
    int64_t work() const { return x.count() * y.count() * z.count(); }
    int64_t row(int64_t j, int64_t k) const { return a->pitch * j + plane * k; }

    // ---- what a thread works in

    int64_t bytes() const {
        const int64_t of_rows = rows() ? LineWork<T>::bytes_of(rows()) : 0, beside = certify_bytes(local_);
        const int64_t of_columns = columns() ? LineWork<T>::bytes_of(columns()) : 0;
        return std::max({of_rows, of_columns, beside});
    }

    // ---- to the modes

    // A group of rows of the source, with what fixed nodes of u add to the equations of their neighbours, along x.
    void rows_to_modes(int64_t k, int64_t group, void* memory, double* pair) const {
        T* lines[TOGETHER];
        const int64_t count = rows_of(k, group, lines);
        SourceNorms<T> norms;
        if (pair) look_at_fixed_rows(k, group, norms);
        for (int64_t n = 0; n < count; ++n) take_row(y.start + group * TOGETHER + n, k, norms);
        if (pair) norms.keep(pair);
        if (rows()) LineWork<T>(rows(), memory).transform_rows(lines, count, x, true, T(1));
    }

    int64_t rows_of(int64_t k, int64_t group, T** lines) const {
        const int64_t first = y.start + group * TOGETHER, left = y.stop - first;
        const int64_t count = left < TOGETHER ? left : TOGETHER;
        for (int64_t n = 0; n < count; ++n) lines[n] = u + row(first + n, k);
        return count;
    }

    void take_row(int64_t j, int64_t k, SourceNorms<T>& norms) const {
        const int64_t nx = a->shape[0];
        const T* const from = f.values + f.pitch * (j + a->shape[1] * k);
        T* const to = u + row(j, k);
        const T lower = to[0], upper = to[nx - 1];
        const Wide<T> shift = spread<WIDTH>(T(f.shift));
        SourceNorms<T> own = norms;
        for (int64_t i = 0; i < nx; i += WIDTH) {
            Wide<T> values = {};
            if (i + WIDTH <= nx) {
                values = load<WIDTH>(from + i);
            } else {
                for (int64_t lane = 0; lane < nx - i; ++lane) values[lane] = from[i + lane];
            }
            prefetch(from + i, TOGETHER * f.pitch);
            values -= shift;
            // A product with zero tells of a value that is not finite.
            if (i == 0 || i + WIDTH >= nx)
                values = LineWork<T>::within(x.start - i, x.stop - i) ? values : T(0) * values;
            own.add(values);
            store(to + i, values);
        }
        norms = own;
        const double* const links = direct->links;
        const auto add = [&](const T* beside, T link) {
            for (int64_t i = 0; i < nx; ++i) to[i] += link * beside[i];
        };
        if (links[2] != 0 && j == y.start) add(u + row(j - 1, k), T(links[2]));
        if (links[3] != 0 && j == y.stop - 1) add(u + row(j + 1, k), T(links[3]));
        if (links[4] != 0 && k == z.start) add(u + row(j, k - 1), T(links[4]));
        if (links[5] != 0 && k == z.stop - 1) add(u + row(j, k + 1), T(links[5]));
        if (x.start > 0) {
            to[0] = lower;
            to[x.start] += T(links[0]) * lower;
        }
        if (x.stop < nx) {
            to[nx - 1] = upper;
            to[x.stop - 1] += T(links[1]) * upper;
        }
    }

    // The fixed rows beside a group, and with the first or the last plane those of the plane beside it.
    void look_at_fixed_rows(int64_t k, int64_t group, SourceNorms<T>& norms) const {
        const int64_t nx = a->shape[0], ny = a->shape[1], nz = a->shape[2];
        const auto look = [&](int64_t j, int64_t plane) { norms.look_at(f.values + f.pitch * (j + ny * plane), nx); };
        if (group == 0 && y.start > 0) look(0, k);
        if (group == groups - 1 && y.stop < ny) look(ny - 1, k);
        if (group > 0) return;
        for (int64_t j = 0; k == z.start && z.start > 0 && j < ny; ++j) look(j, 0);
        for (int64_t j = 0; k == z.stop - 1 && z.stop < nz && j < ny; ++j) look(j, nz - 1);
    }

    // ---- along y, and back

    void along_columns(int64_t k, int64_t strip, bool to_modes, void* memory) const {
        const int64_t column = strip * TOGETHER;
        LineWork<T> work(columns(), memory);
        work.transform_columns(u + plane * k + column, x.start - column, x.stop - column, a->pitch, y, to_modes,
                               T(to_modes ? 1.0 : direct->scales[1]));
    }

    void rows_from_modes(int64_t k, int64_t group, void* memory) const {
        if (!rows()) return;
        T* lines[TOGETHER];
        const int64_t count = rows_of(k, group, lines);
        LineWork<T>(rows(), memory).transform_rows(lines, count, x, false, T(direct->scales[0]));
    }

    // ---- the residual, a pair of norms for each row

    void certify(int64_t j, int64_t k, void* memory, double* pairs) const {
        Sums sums = {0, 0};
        T* const work = static_cast<T*>(memory);
        if (a->tables)
            a->dimension == 2 ? certify<2, TABLES>(j, k, work, sums) : certify<3, TABLES>(j, k, work, sums);
        else
            a->dimension == 2 ? certify<2, NOTHING>(j, k, work, sums) : certify<3, NOTHING>(j, k, work, sums);
        double* const pair = pairs + 2 * (j - y.start + y.count() * (k - z.start));
        pair[0] = sums.sum;
        pair[1] = sums.maximum;
    }

    template <int DIMENSION, Varies VARIES>
    void certify(int64_t j, int64_t k, T* work, Sums& sums) const {
        certify_row<DIMENSION, VARIES>(local_, rows_at<DIMENSION>(local_, u, j, k), f, j, k, work, sums, arrays);
    }

    int64_t slices() const { return a->dimension == 2 ? y.count() : z.count(); }
    void certify_slice(int64_t slice, void* memory, double* pairs) const {
        if (a->dimension == 2) return certify(y.start + slice, 0, memory, pairs);
        for (int64_t j = y.start; j < y.stop; ++j) certify(j, z.start + slice, memory, pairs);
    }
};

template <class T>
poisson_status to_modes(const poisson_operator* a, const poisson_direct* direct, const Source<T>& f, T* u,
                        double* result) {
    const Direct<T> on(a, direct, f, u);
    const int64_t units = on.groups * on.z.count();
    const WorkingRows memory(team_size, on.bytes());
    double* const pairs = result ? partial_results(units) : nullptr;
    if (!memory || (result && !pairs)) return POISSON_OUT_OF_MEMORY;
    const bool by_planes = on.by_planes();
#pragma omp parallel num_threads(team_size) if (on.work() >= SMALL_WORK)
    {
        void* const own = memory.row<char>(0);
        const auto rows = [&](int64_t unit) {
            on.rows_to_modes(on.z.start + unit / on.groups, unit % on.groups, own, pairs ? pairs + 2 * unit : nullptr);
        };
        if (by_planes) {
#pragma omp for schedule(static)
            for (int64_t k = 0; k < on.z.count(); ++k) {
                for (int64_t group = 0; group < on.groups; ++group) rows(on.groups * k + group);
                for (int64_t strip = 0; strip < on.strips; ++strip) on.along_columns(on.z.start + k, strip, true, own);
            }
        } else {
#pragma omp for schedule(static)
            for (int64_t unit = 0; unit < units; ++unit) rows(unit);
#pragma omp for schedule(static)
            for (int64_t n = 0; n < on.strips * on.z.count(); ++n)
                on.along_columns(on.z.start + n / on.strips, n % on.strips, true, own);
        }
    }
    if (result) join_partials(pairs, units, result);
    return POISSON_SUCCESS;
}

template <class T>
poisson_status from_modes(const poisson_operator* a, const poisson_direct* direct, const Source<T>& f, T* u,
                          double* result) {
    const Direct<T> on(a, direct, f, u);
    const int64_t rows = on.y.count() * on.z.count();
    const WorkingRows memory(team_size, on.bytes());
    double* const pairs = result ? partial_results(rows) : nullptr;
    if (!memory || (result && !pairs)) return POISSON_OUT_OF_MEMORY;
    const bool by_planes = on.by_planes(), flat = a->dimension == 3 && !by_planes;
    const int64_t units = by_planes ? on.z.count() : on.groups * on.z.count();
#pragma omp parallel num_threads(team_size) if (on.work() >= SMALL_WORK)
    {
        void* const own = memory.row<char>(0);
        if (flat) {
#pragma omp for schedule(static)
            for (int64_t n = 0; n < on.strips * on.z.count(); ++n)
                on.along_columns(on.z.start + n / on.strips, n % on.strips, false, own);
        }
        // Each thread has a part of the slices, and looks at those whose neighbours it has as well while they are in
        // its cache; at the first and the last when all have theirs.
        const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
        const int64_t begin = units * thread / threads, end = units * (thread + 1) / threads;
        const int64_t depth = by_planes ? 1 : Direct<T>::TOGETHER;
        const int64_t first = begin * depth, stop = end * depth < on.slices() ? end * depth : on.slices();
        int64_t next = first + 1;
        for (int64_t unit = begin; unit < end; ++unit) {
            if (by_planes) {
                const int64_t k = on.z.start + unit;
                for (int64_t strip = 0; strip < on.strips; ++strip) on.along_columns(k, strip, false, own);
                for (int64_t group = 0; group < on.groups; ++group) on.rows_from_modes(k, group, own);
            } else {
                on.rows_from_modes(on.z.start + unit / on.groups, unit % on.groups, own);
            }
            for (; pairs && !flat && next < stop && next + 1 < (unit + 1) * depth; ++next)
                on.certify_slice(next, own, pairs);
        }
#pragma omp barrier
        if (pairs && flat) {
#pragma omp for schedule(static)
            for (int64_t n = 0; n < rows; ++n)
                on.certify(on.y.start + n % on.y.count(), on.z.start + n / on.y.count(), own, pairs);
        } else if (pairs && begin < end) {
            on.certify_slice(first, own, pairs);
            for (; next < stop; ++next) on.certify_slice(next, own, pairs);
        }
    }
    if (result) join_partials(pairs, rows, result);
    return POISSON_SUCCESS;
}

// The line that goes from plane to plane, or in 2D from row to row, where that axis is transformed.
const poisson_line* across(const poisson_operator* a, const poisson_direct* direct) {
    return direct->transforms == a->dimension ? direct->lines[a->dimension - 1] : nullptr;
}

// u = start at fixed nodes.
void hold(const poisson_operator& a, const double* start, double* u) {
    const Local<double> at = local<double>(&a);
    for (int64_t k = 0; k < at.nz; ++k) {
        for (int64_t j = 0; j < at.ny; ++j) {
            const double* const from = start + at.row(j, k);
            double* const to = u + at.row(j, k);
            if (at.fixed(j, at.ny, 1) || (at.dimension == 3 && at.fixed(k, at.nz, 2)))
                std::memcpy(to, from, at.nx * sizeof(double));
            if (at.fixed(0, at.nx, 0)) to[0] = from[0];
            if (at.fixed(at.nx - 1, at.nx, 0)) to[at.nx - 1] = from[at.nx - 1];
        }
    }
}

poisson_status transform(const poisson_operator* a, const poisson_line* line, int32_t to, double scale, float* u) {
    return poisson_transform_f32(a, line, to, scale, u);
}
poisson_status transform(const poisson_operator* a, const poisson_line* line, int32_t to, double scale, double* u) {
    return poisson_transform_f64(a, line, to, scale, u);
}

template <class T>
poisson_status all_to_modes(const poisson_operator* a, const poisson_direct* direct, const Source<T>& f, T* u,
                            double* result) {
    if (!a || !direct || !f.values || !u || a->a[0] || a->c_values) return POISSON_BAD_ARGUMENT;
    const poisson_status status = to_modes(a, direct, f, u, result);
    const poisson_line* const line = across(a, direct);
    return status || !line ? status : transform(a, line, 1, 1.0, u);
}

template <class T>
poisson_status all_from_modes(const poisson_operator* a, const poisson_direct* direct, const Source<T>& f, T* u,
                              double* result) {
    if (!a || !direct || !u || (!f.values && result) || a->a[0] || a->c_values) return POISSON_BAD_ARGUMENT;
    const poisson_line* const line = across(a, direct);
    const poisson_status status = line ? transform(a, line, 0, direct->scales[a->dimension - 1], u) : POISSON_SUCCESS;
    return status ? status : from_modes(a, direct, f, u, result);
}

}  // namespace

POISSON_EXPORT(to_modes,
               (const poisson_operator* a, const poisson_direct* direct, const real* f, int64_t pitch, double shift,
                real* u, double* result),
               a, all_to_modes(a, direct, Source<real>{f, pitch, shift}, u, result))
POISSON_EXPORT(from_modes,
               (const poisson_operator* a, const poisson_direct* direct, real* u, const real* f, int64_t pitch,
                double shift, double* result),
               a, all_from_modes(a, direct, Source<real>{f, pitch, shift}, u, result))

namespace {

// The first error of one call after another.
poisson_status solve_one(const poisson_operator* a, const poisson_direct* direct, const double* f, int64_t pitch,
                         const double* start, double* u, double* norms) {
    double result[2 * GROUPS];
    const double* const* s = direct->spectra;
    hold(*a, start, u);
    poisson_status status = poisson_to_modes_f64(a, direct, f, pitch, 0.0, u, result);
    if (!status) status = poisson_read(result, norms);
    if (!status)
        status = direct->tridiagonal ? poisson_tridiagonal_f64(a, s[0], s[1], s[2], u, u, nullptr, nullptr)
                                     : poisson_divide_f64(a, s[0], s[1], s[2], u, u);
    if (!status) status = poisson_from_modes_f64(a, direct, u, f, pitch, 0.0, result);
    if (!status) status = poisson_read(result, norms + 2);
    return status;
}

}  // namespace

extern "C" poisson_status poisson_solve_many(const poisson_operator* a, const poisson_direct* direct, int64_t count,
                                             const double* const* f, const int64_t* pitches, const double* start,
                                             double* const* u, double* norms) {
    if (!a || !direct || !f || !pitches || !start || !u || !norms || varies(*a)) return POISSON_BAD_ARGUMENT;
    use_threads(a);
    poisson_operator alone = *a;
    alone.threads = 1;
    int32_t worst = POISSON_SUCCESS;
#pragma omp parallel for schedule(dynamic) num_threads(team_size) reduction(max : worst)
    for (int64_t n = 0; n < count; ++n) {
        const int32_t status = solve_one(&alone, direct, f[n], pitches[n], start, u[n], norms + 4 * n);
        worst = status > worst ? status : worst;
    }
    return poisson_status(worst);
}
