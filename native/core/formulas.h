// The formulas that the library and the GPU kernels share, and the rules of faces.
#ifndef POISSON_FORMULAS_H
#define POISSON_FORMULAS_H

#define POISSON_FORMULA static inline

#include "common/formulas.h"

#endif
