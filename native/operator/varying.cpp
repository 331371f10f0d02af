// SPDX-License-Identifier: MIT
// The stencils of operators where a or c varies.
#include "operator/varying.h"

POISSON_INSTANCES(false, float)
POISSON_INSTANCES(false, double)
