// SPDX-License-Identifier: MIT
// Several steps of relaxation in one call: sweeps and smooth. On the host they are one pass over memory
// (wavefront.cpp); on a GPU they are put together from the operations, whose launches change between two arrays.
#include <memory>
#include <new>

#include "core/kept.h"
#include "core/regions.h"
#ifndef POISSON_OFFLOAD
#include "multigrid/wavefront.h"
#endif

namespace {

poisson_status sweep(const poisson_operator* a, const float* u, const float* f, float* out, double omega,
                     double* result = nullptr) {
    return poisson_sweep_f32(a, u, f, out, omega, result);
}
poisson_status sweep(const poisson_operator* a, const double* u, const double* f, double* out, double omega,
                     double* result = nullptr) {
    return poisson_sweep_f64(a, u, f, out, omega, result);
}

// A transfer to or from a coarse array; without it `coarse` is null.
template <class T>
struct Partner {
    const poisson_operator* operator_;
    const poisson_transfer* tables;
    T* coarse;

    bool complete() const { return !coarse || (operator_ && tables); }
    // Whether an axis has one node on the coarse grid only: tiles would need all of it.
    bool collapses(const poisson_operator& fine) const {
        if (!coarse) return false;
        for (int axis = 0; axis < 3; ++axis)
            if (operator_->shape[axis] == 1 && fine.shape[axis] > 1) return true;
        return false;
    }
};

#ifdef POISSON_OFFLOAD

#define POISSON_NAMES(real, suffix)                                                                             \
    poisson_status fill(real* x, const poisson_operator* a, double value) {                                     \
        return poisson_fill_##suffix(x, a->shape[1] * a->shape[2], a->pitch, value, a->threads);                \
    }                                                                                                           \
    poisson_status copy(const poisson_operator* a, const real* x, real* y) {                                    \
        return poisson_axpby_##suffix(1.0, x, 0.0, y, a->shape[1] * a->shape[2], a->pitch, a->threads);         \
    }                                                                                                           \
    poisson_status add(const poisson_operator* a, const Partner<const real>& from, real* fine) {                \
        return poisson_prolong_add_##suffix(a, from.operator_, from.tables, from.coarse, fine);                 \
    }                                                                                                           \
    poisson_status add_source(const poisson_operator* a, const real* f, real* work, real* u, double omega) {    \
        return poisson_update_##suffix(a, nullptr, f, work, u, -omega);                                         \
    }                                                                                                           \
    poisson_status residual(const poisson_operator* a, const real* u, const real* f, real* r, double* result) { \
        return poisson_residual_##suffix(a, u, f, r, result);                                                   \
    }                                                                                                           \
    poisson_status restrict_to(const poisson_operator* a, const real* fine, const Partner<real>& to) {          \
        return poisson_restrict_##suffix(a, to.operator_, to.tables, fine, to.coarse);                          \
    }
POISSON_NAMES(float, f32)
POISSON_NAMES(double, f64)
#undef POISSON_NAMES

// Sweeps between two reads of a norm, which costs more than a launch.
constexpr int32_t DEPTH = 8;

template <class T>
int32_t depth(const poisson_operator*) {
    return DEPTH;
}

template <class T>
poisson_status repeat(const poisson_operator* a, const T* u, const T* f, T* out, const double* omegas, int32_t count,
                      double* result) {
    const int64_t values = a->pitch * a->shape[1] * a->shape[2];
    const WorkingRows memory(count > 1, values * int64_t(sizeof(T)));
    if (!memory) return POISSON_OUT_OF_MEMORY;
    T* const between = count > 1 ? memory.row<T>(0) : out;
    const T* from = u;
    for (int32_t left = count; left > 0; --left) {
        T* to = left % 2 ? out : between;
        const poisson_status status = sweep(a, from, f, to, omegas[count - left], left > 1 ? nullptr : result);
        if (status) return status;
        from = to;
    }
    return POISSON_SUCCESS;
}

template <class T>
poisson_status run(const poisson_operator* a, T* u, const T* f, T* out, T* work, const double* omegas, int32_t count,
                   const Partner<const T>& correction, const Partner<T>& restriction, double* result,
                   double short_waves) {
    poisson_status status = POISSON_SUCCESS;
    // Each sweep changes between two arrays, so that the last one ends in `out`.
    T* start = u ? u : count % 2 ? work : out;
    T* other = count % 2 ? out : work;
    if (!u) status = fill(start, a, 0.0);
    if (!status && correction.coarse) status = add(a, correction, start);
    for (int32_t n = 0; !status && n < count; ++n) {
        T* const to = n == count - 1 ? out : other;
        status = sweep(a, start, f, to, omegas[n]);
        other = start;
        start = to;
    }
    if (!status && start != out) status = copy(a, start, out);
    if (!status && short_waves != 0) status = add_source(a, f, work, out, short_waves);
    if (!status && (restriction.coarse || result)) status = residual(a, out, f, work, result);
    if (!status && restriction.coarse) status = restrict_to(a, work, restriction);
    return status;
}

#else

template <class T>
int32_t depth(const poisson_operator* a) {
    if (a->a[0] || a->c_values || a->shape[1] == 1) return 1;
    return a->dimension == 2 ? Limits<2, T>::DEPTH : Limits<3, T>::DEPTH;
}

// Omega / diag(A) of each sweep, or omega where the diagonal varies; null where there is too little memory.
template <class T>
std::unique_ptr<T[]> scales_of(const poisson_operator& a, const double* omegas, int32_t count) {
    const double diagonal = varies(a) ? 1 : a.diagonal;
    std::unique_ptr<T[]> scales(new (std::nothrow) T[count]);
    for (int32_t sweep = 0; scales && sweep < count; ++sweep) scales[sweep] = T(omegas[sweep] / diagonal);
    return scales;
}

template <class T>
bool streams(const Local<T>& a) {
    return goes_around_cache(a.pitch * a.ny * a.nz * int64_t(sizeof(T)));
}

template <class T>
poisson_status repeat(const poisson_operator* operator_, const T* u, const T* f, T* out, const double* omegas,
                      int32_t count, double* result) {
    if (depth<T>(operator_) == 1) return sweep(operator_, u, f, out, omegas[0], result);
    const Local<T> a = local<T>(operator_);
    const std::unique_ptr<T[]> scales = scales_of<T>(*operator_, omegas, count);
    if (!scales) return POISSON_OUT_OF_MEMORY;
    POISSON_COEFFICIENTS(T, operator_, arrays);
    Passage<T> task = {};
    task.arrays = POISSON_VARYING(T, arrays);
    task.u = u;
    task.f = f;
    task.out = out;
    task.scales = scales.get();
    task.count = count;
    task.norm = result;
    task.stream = streams(a);
    const Steps<T> steps =
        task.arrays.tables ? steps_of_sweeps<true>(a, task.norm) : steps_of_sweeps<false>(a, task.norm);
    const Tiles tiles = a.dimension == 2 ? Tiles(Blocks<2, T>(a)) : Tiles(Blocks<3, T>(a));
    return take_passage(a, task, steps, tiles, count * a.nx * a.ny * a.nz, result);
}

template <class T>
poisson_status run(const poisson_operator* operator_, T* u, const T* f, T* out, T*, const double* omegas, int32_t count,
                   const Partner<const T>& correction, const Partner<T>& restriction, double* result,
                   double short_waves) {
    const Local<T> a = local<T>(operator_);
    const std::unique_ptr<T[]> scales = scales_of<T>(*operator_, omegas, count);
    if (!scales) return POISSON_OUT_OF_MEMORY;
    const auto between = [&](const poisson_operator* coarse, const poisson_transfer* tables, int64_t direction) {
        return Grids<T>(*operator_, coarse ? *coarse : *operator_, tables ? *tables : poisson_transfer{}, direction);
    };
    const Grids<T> from = between(correction.operator_, correction.tables, PROLONG_ENTRIES),
                   to = between(restriction.operator_, restriction.tables, RESTRICT_ENTRIES);
    POISSON_COEFFICIENTS(T, operator_, arrays);
    Passage<T> task = {};
    task.arrays = POISSON_VARYING(T, arrays);
    task.u = u;
    task.f = f;
    task.out = out;
    task.scales = scales.get();
    task.count = count;
    // omega (f - A u) + short_waves f is omega (weight f - A u).
    if (short_waves != 0) task.source_weight = T(1 + short_waves / omegas[count - 1]);
    task.correction = correction.coarse ? &from : nullptr;
    task.coarse_correction = correction.coarse;
    task.restriction = restriction.coarse ? &to : nullptr;
    task.coarse_residual = restriction.coarse;
    task.norm = result;
    task.residual = task.norm || task.restriction;
    task.stream = streams(a);
    const Coefficients<T>& given = task.arrays;
    const Steps<T> steps = given.tables && given.x ? steps_of_smoothing<LINKS_AND_TABLES>(a)
                           : given.tables          ? steps_of_smoothing<TABLES>(a)
                           : given.x               ? steps_of_smoothing<LINKS>(a)
                           : given.c               ? steps_of_smoothing<REACTION>(a)
                                                   : steps_of_smoothing<NOTHING>(a);
    const Tiles tiles = a.dimension == 2 ? Tiles(SmoothingTiles<2, T>(a)) : Tiles(SmoothingTiles<3, T>(a));
    return take_passage(a, task, steps, tiles, a.nx * a.ny * a.nz, result);
}

#endif

template <class T>
poisson_status sweeps(const poisson_operator* a, const T* u, const T* f, T* out, const double* omegas, int32_t count,
                      double* result) {
    if (!a || !u || !out || !omegas || count < 1 || count > depth<T>(a)) return POISSON_BAD_ARGUMENT;
    return repeat(a, u, f, out, omegas, count, result);
}

template <class T>
poisson_status smooth(const poisson_operator* a, T* u, const T* f, T* out, T* work, const double* omegas, int32_t count,
                      const Partner<const T>& correction, const Partner<T>& restriction, double* result,
                      double short_waves) {
    if (!a || !f || !out || !work || count < 0 || (count > 0 && !omegas)) return POISSON_BAD_ARGUMENT;
    if (!correction.complete() || !restriction.complete() || u == out) return POISSON_BAD_ARGUMENT;
    if (correction.collapses(*a) || restriction.collapses(*a)) return POISSON_BAD_ARGUMENT;
    if (short_waves != 0 && (count == 0 || omegas[count - 1] == 0)) return POISSON_BAD_ARGUMENT;
    return run(a, u, f, out, work, omegas, count, correction, restriction, result, short_waves);
}

}  // namespace

extern "C" int32_t poisson_depth_f32(const poisson_operator* a) { return a ? depth<float>(a) : 0; }
extern "C" int32_t poisson_depth_f64(const poisson_operator* a) { return a ? depth<double>(a) : 0; }
POISSON_EXPORT(sweeps,
               (const poisson_operator* a, const real* u, const real* f, real* out, const double* omegas, int32_t count,
                double* result),
               a, sweeps(a, u, f, out, omegas, count, result))
POISSON_EXPORT(smooth,
               (const poisson_operator* a, real* u, const real* f, real* out, real* work, const double* omegas,
                int32_t count, const poisson_operator* correction_operator, const poisson_transfer* correction_tables,
                real* correction, const poisson_operator* restriction_operator,
                const poisson_transfer* restriction_tables, real* restriction, double* result, double short_waves),
               a,
               smooth<real>(a, u, f, out, work, omegas, count, {correction_operator, correction_tables, correction},
                            {restriction_operator, restriction_tables, restriction}, result, short_waves))
