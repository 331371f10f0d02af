// SPDX-License-Identifier: MIT
// Lines of neighbouring nodes, taken apart and put together.
#ifndef POISSON_SHUFFLES_H
#define POISSON_SHUFFLES_H

#include "multigrid/tiles.h"

#ifdef __AVX512VL__
// The even and the odd nodes of two lines.
inline void take_apart(Line<double> a, Line<double> b, Line<double>& even, Line<double>& odd) {
    even = POISSON_LANES_OF(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    odd = POISSON_LANES_OF(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}
inline void take_apart(Line<float> a, Line<float> b, Line<float>& even, Line<float>& odd) {
    even = POISSON_LANES_OF(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    odd = POISSON_LANES_OF(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
// Two lines of which these are the even and the odd nodes.
inline void put_together(Line<double> even, Line<double> odd, Line<double>& a, Line<double>& b) {
    a = POISSON_LANES_OF(even, odd, 0, 8, 1, 9, 2, 10, 3, 11);
    b = POISSON_LANES_OF(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
}
inline void put_together(Line<float> even, Line<float> odd, Line<float>& a, Line<float>& b) {
    a = POISSON_LANES_OF(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    b = POISSON_LANES_OF(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#endif

#endif
