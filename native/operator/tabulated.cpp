// SPDX-License-Identifier: MIT
// The stencils of operators on tabulated axes.
#include "operator/varying.h"

POISSON_INSTANCES(true, float)
POISSON_INSTANCES(true, double)
