// SPDX-License-Identifier: MIT
// The steps of passes where a or c varies.
#ifndef POISSON_OFFLOAD
#include "multigrid/steps.h"

template <class T>
Steps<T> steps_of_smoothing_varying(const Local<T>& a, bool links) {
    if (a.dimension == 2) return links ? smoothing_steps<2, LINKS, T>() : smoothing_steps<2, REACTION, T>();
    return links ? smoothing_steps<3, LINKS, T>() : smoothing_steps<3, REACTION, T>();
}

template Steps<float> steps_of_smoothing_varying(const Local<float>&, bool);
template Steps<double> steps_of_smoothing_varying(const Local<double>&, bool);
#endif
