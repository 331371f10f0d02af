// Half a level of multigrid: smooth. On a GPU it is put together from the operations.
#include <memory>
#include <new>

#ifdef POISSON_OFFLOAD
#include "core/regions.h"
#else
#include "multigrid/smooth.h"
#endif

namespace {

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
    poisson_status sweep(const poisson_operator* a, const real* u, const real* f, real* out, double omega) {    \
        return poisson_sweep_##suffix(a, u, f, out, omega, nullptr);                                            \
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

template <class T>
poisson_status run(const poisson_operator* a, T* u, const T* f, T* out, T* work, const double* weights, int32_t count,
                   const Partner<const T>& correction, const Partner<T>& restriction, double* result) {
    poisson_status status = POISSON_SUCCESS;
    // Each sweep changes between two arrays, so that the last one ends in `out`.
    T* start = u ? u : count % 2 ? work : out;
    T* other = count % 2 ? out : work;
    if (!u) status = fill(start, a, 0.0);
    if (!status && correction.coarse) status = add(a, correction, start);
    for (int32_t n = 0; !status && n < count; ++n) {
        T* const to = n == count - 1 ? out : other;
        status = sweep(a, start, f, to, weights[n]);
        other = start;
        start = to;
    }
    if (!status && start != out) status = copy(a, start, out);
    if (!status && (restriction.coarse || result)) status = residual(a, out, f, work, result);
    if (!status && restriction.coarse) status = restrict_to(a, work, restriction);
    return status;
}

#else

template <class T>
poisson_status run(const poisson_operator* operator_, T* u, const T* f, T* out, T*, const double* weights,
                   int32_t count, const Partner<const T>& correction, const Partner<T>& restriction, double* result) {
    const Local<T> a = local<T>(operator_);
    const double diagonal = varies(*operator_) ? 1 : operator_->diagonal;
    const std::unique_ptr<T[]> scales(new (std::nothrow) T[count]);
    if (!scales) return POISSON_OUT_OF_MEMORY;
    for (int32_t sweep = 0; sweep < count; ++sweep) scales[sweep] = T(weights[sweep] / diagonal);
    const auto between = [&](const poisson_operator* coarse, const poisson_transfer* tables) {
        return Grids<T>(a, local<T>(coarse ? coarse : operator_), tables ? *tables : poisson_transfer{});
    };
    const Grids<T> from = between(correction.operator_, correction.tables),
                   to = between(restriction.operator_, restriction.tables);
    POISSON_COEFFICIENTS(T, operator_, arrays);
    const bool stream = goes_around_cache(a.pitch * a.ny * a.nz * int64_t(sizeof(T)));
    const Smoothing<T> task = {POISSON_VARYING(T, arrays),
                               u,
                               f,
                               out,
                               scales.get(),
                               count,
                               correction.coarse ? &from : nullptr,
                               correction.coarse,
                               restriction.coarse ? &to : nullptr,
                               restriction.coarse,
                               result != nullptr,
                               stream};
    return varies(*operator_) ? smooth_varying(a, task, result) : smooth_as<NOTHING>(a, task, result);
}

#endif

template <class T>
poisson_status smooth(const poisson_operator* a, T* u, const T* f, T* out, T* work, const double* weights,
                      int32_t count, const Partner<const T>& correction, const Partner<T>& restriction,
                      double* result) {
    if (!a || !f || !out || !work || count < 0 || (count > 0 && !weights)) return POISSON_BAD_ARGUMENT;
    if (!correction.complete() || !restriction.complete() || u == out) return POISSON_BAD_ARGUMENT;
    if (correction.collapses(*a) || restriction.collapses(*a)) return POISSON_BAD_ARGUMENT;
    return run(a, u, f, out, work, weights, count, correction, restriction, result);
}

}  // namespace

#define POISSON_DEFINE(real, suffix)                                                                                  \
    extern "C" poisson_status poisson_smooth_##suffix(                                                                \
        const poisson_operator* a, real* u, const real* f, real* out, real* work, const double* weights,              \
        int32_t count, const poisson_operator* correction_operator, const poisson_transfer* correction_tables,        \
        const real* correction, const poisson_operator* restriction_operator,                                         \
        const poisson_transfer* restriction_tables, real* restriction, double* result) {                              \
        use_threads(a);                                                                                               \
        return smooth<real>(a, u, f, out, work, weights, count, {correction_operator, correction_tables, correction}, \
                            {restriction_operator, restriction_tables, restriction}, result);                         \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
