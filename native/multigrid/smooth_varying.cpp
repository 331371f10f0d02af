// Half a level of multigrid on the host where the coefficients vary from node to node.
#ifndef POISSON_OFFLOAD
#include "multigrid/smooth.h"

template <class T>
poisson_status smooth_varying(const Local<T>& a, const Smoothing<T>& task, double* result) {
    return task.arrays.x ? smooth_as<LINKS>(a, task, result) : smooth_as<REACTION>(a, task, result);
}

template poisson_status smooth_varying<float>(const Local<float>&, const Smoothing<float>&, double*);
template poisson_status smooth_varying<double>(const Local<double>&, const Smoothing<double>&, double*);
#endif
