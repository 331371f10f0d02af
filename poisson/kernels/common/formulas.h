// The per-point formulas, once for every backend: the GPU kernels and the OpenMP library include this text.
//
// Before it, POISSON_FORMULA is defined as what makes an inline function in the language at hand.

// -d²u/dx² at a node, with weight = 1/h². Differences of neighbours come first: they are small and often exact, so that
// the rounding error is relative to them and not to u/h².
template <class T>
POISSON_FORMULA T second_difference(T centre, T lower, T upper, T weight) {
    return weight * ((centre - lower) + (centre - upper));
}

// -d/dx(a du/dx) at a node, with weight = 1/h² and the coefficients of the links to its two neighbours.
template <class T>
POISSON_FORMULA T second_difference(T centre, T lower, T upper, T weight, T lower_link, T upper_link) {
    return weight * (lower_link * (centre - lower) + upper_link * (centre - upper));
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

// h du/dx at a node with HALF nodes on each side: the sum of weight[m - 1] (u_m - u_-m), at(m) being the value m nodes
// up the axis.
template <int HALF, class T, class At>
POISSON_FORMULA auto central_difference(const T* weight, At at) {
    auto sum = weight[0] * (at(1) - at(-1));
    if constexpr (HALF > 1) sum += weight[1] * (at(2) - at(-2));
    if constexpr (HALF > 2) sum += weight[2] * (at(3) - at(-3));
    if constexpr (HALF > 3) sum += weight[3] * (at(4) - at(-4));
    return sum;
}

// h du/dx at a node near a face: the sum of weight[j] (u_j - u) over POINTS nodes from the face inwards, at(j) being
// the value at the node j of them. At an upper face the sign is the other one.
template <int POINTS, class T, class Weight, class Value, class At>
POISSON_FORMULA Value one_sided_difference(const Weight* weight, Value centre, At at) {
    Value sum = T(weight[0]) * (at(0) - centre);
    for (int j = 1; j < POINTS; ++j) sum += T(weight[j]) * (at(j) - centre);
    return sum;
}

// One step of weighted Jacobi, with scale = omega / diag(A).
template <class T>
POISSON_FORMULA T relax(T centre, T residual, T scale) {
    return centre + scale * residual;
}
