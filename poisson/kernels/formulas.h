// The per-point formulas, once for every backend: the GPU kernels and the OpenMP library include this text.
//
// Before it, POISSON_FORMULA is defined as what makes an inline function in the language at hand.

// -d²u/dx² at a node, with weight = 1/h². Differences of neighbours come first: they are small and often exact, so that
// the rounding error is relative to them and not to u/h².
template <class T>
POISSON_FORMULA T second_difference(T centre, T lower, T upper, T weight) {
    return weight * ((centre - lower) + (centre - upper));
}

// (A u) at a node of a 2D grid.
template <class T>
POISSON_FORMULA T apply_operator(T centre, T x_lower, T x_upper, T y_lower, T y_upper, T weight_x, T weight_y, T c) {
    return second_difference(centre, x_lower, x_upper, weight_x) +
           second_difference(centre, y_lower, y_upper, weight_y) + c * centre;
}

// (A u) at a node of a 3D grid.
template <class T>
POISSON_FORMULA T apply_operator(T centre, T x_lower, T x_upper, T y_lower, T y_upper, T z_lower, T z_upper, T weight_x,
                                 T weight_y, T weight_z, T c) {
    return second_difference(centre, x_lower, x_upper, weight_x) +
           second_difference(centre, y_lower, y_upper, weight_y) +
           second_difference(centre, z_lower, z_upper, weight_z) + c * centre;
}

// One step of weighted Jacobi, with scale = omega / diag(A).
template <class T>
POISSON_FORMULA T relax(T centre, T residual, T scale) {
    return centre + scale * residual;
}
