// SPDX-License-Identifier: MIT
// The steps of passes where a and c are constant.
#ifndef POISSON_OFFLOAD
#include "multigrid/steps.h"

namespace {

template <int DIMENSION, class T>
constexpr Steps<T> jacobi_steps(bool norm) {
    const Visits<T> sweep = visits<DIMENSION, NOTHING, SWEEP, T>();
    const Visits<T> last = norm ? visits<DIMENSION, NOTHING, NORMED_SWEEP, T>() : sweep;
    return {ROWS_TOGETHER<DIMENSION, SWEEP>, SOON<DIMENSION, NOTHING, SWEEP>, DIMENSION == 3, sweep, last, {}, nullptr};
}

}  // namespace

template <class T>
Steps<T> steps_of_sweeps(const Local<T>& a, bool norm) {
    return a.dimension == 2 ? jacobi_steps<2, T>(norm) : jacobi_steps<3, T>(norm);
}
template <class T>
Steps<T> steps_of_smoothing(const Local<T>& a) {
    return a.dimension == 2 ? smoothing_steps<2, NOTHING, T>() : smoothing_steps<3, NOTHING, T>();
}

template Steps<float> steps_of_sweeps(const Local<float>&, bool);
template Steps<double> steps_of_sweeps(const Local<double>&, bool);
template Steps<float> steps_of_smoothing(const Local<float>&);
template Steps<double> steps_of_smoothing(const Local<double>&);
#endif
