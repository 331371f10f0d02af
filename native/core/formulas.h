// SPDX-License-Identifier: MIT
// The formulas that the library and the GPU kernels share, and the rules of faces.
#ifndef POISSON_FORMULAS_H
#define POISSON_FORMULAS_H

// What a loop over nodes calls must become part of it: packs in arrays would go through memory.
#define POISSON_INLINE inline __attribute__((always_inline))
#define POISSON_FORMULA static POISSON_INLINE

#include "common/formulas.h"
#include "common/tables.h"

#endif
