// SPDX-License-Identifier: MIT
// The steps of passes where a and c are constant.
#include "multigrid/steps.h"

POISSON_INSTANCE_OF_SWEEPS(false, float)
POISSON_INSTANCE_OF_SWEEPS(false, double)
POISSON_INSTANCE_OF_SMOOTHING(NOTHING, float)
POISSON_INSTANCE_OF_SMOOTHING(NOTHING, double)
