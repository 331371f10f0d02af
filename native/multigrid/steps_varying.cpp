// SPDX-License-Identifier: MIT
// The steps of passes where a or c varies.
#include "multigrid/steps.h"

POISSON_INSTANCE_OF_SMOOTHING(REACTION, float)
POISSON_INSTANCE_OF_SMOOTHING(REACTION, double)
POISSON_INSTANCE_OF_SMOOTHING(LINKS, float)
POISSON_INSTANCE_OF_SMOOTHING(LINKS, double)
