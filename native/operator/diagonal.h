// SPDX-License-Identifier: MIT
// The update of the iterate where the diagonal of A varies: diagonal.cpp.
#ifndef POISSON_DIAGONAL_H
#define POISSON_DIAGONAL_H

#include "core/regions.h"

// r = f - au; u = u + omega r / diag(A)
template <class T>
poisson_status update_varying(const poisson_operator* operator_, const T* f, const T* au, T* r, T* u, double omega);

#endif
