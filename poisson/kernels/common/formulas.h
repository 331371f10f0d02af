// SPDX-License-Identifier: MIT
// The per-point formulas, once for every backend: the GPU kernels and the OpenMP library include this text.
//
// Before it, POISSON_FORMULA is defined as what makes an inline function in the language at hand.
//
// Along an axis of n nodes the links are counted by the node at their lower end. What a node has along the axes comes
// in arrays: {lower, upper} for x, y and z; in 2D what belongs to z has no meaning.

// ---- the indices along an axis, and the rules of its faces: the nodes on a face are fixed, or the grid goes on beyond
// it as its mirror image, from its other end, or in another process. What comes out at the outermost node of a HALO has
// no meaning, and nobody uses it.

enum Rule : int { FIXED = 0, MIRROR = 1, WRAP = 2, HALO = 3 };

// The neighbour of node 0 across a lower face, and of node n - 1 across an upper one. At a FIXED face and at a HALO the
// value is not used; the index only has to lie in the array.
template <class I, class N>
POISSON_FORMULA N below(I i, N n, int rule) {
    return i > 0 ? i - 1 : rule == WRAP ? n - 1 : 1;
}
template <class I, class N>
POISSON_FORMULA N above(I i, N n, int rule) {
    return i < n - 1 ? i + 1 : rule == WRAP ? 0 : n - 2;
}

// The links to those neighbours: across a MIRROR face it is the inner one.
template <class I, class N>
POISSON_FORMULA N link_below(I i, N n, int rule) {
    return i > 0 ? i - 1 : rule == WRAP ? n - 1 : 0;
}
template <class I, class N>
POISSON_FORMULA N link_above(I i, N n, int rule) {
    return i < n - 1 || rule == WRAP ? i : n - 2;
}

template <class I, class N>
POISSON_FORMULA bool is_fixed(I i, N n, int lower, int upper) {
    return (i == 0 && lower == FIXED) || (i == n - 1 && upper == FIXED);
}

// The node inside that a node beyond the faces of an axis is an image of. Beyond a FIXED face or a HALO any will do.
template <class I>
POISSON_FORMULA I image(I i, I n, int lower, int upper) {
    if (lower == WRAP) {
        i %= n;
        return i < 0 ? i + n : i;
    }
    if (lower == MIRROR && upper == MIRROR) i %= 2 * (n - 1);
    if (i < 0) i = lower == MIRROR ? -i : 0;
    if (i >= n) i = upper == MIRROR ? 2 * (n - 1) - i : n - 1;
    return i < 0 ? 0 : i;
}

// ---- staggered grids: 1 / width of a cell, or of a gap between centres, comes as a weight

template <class T>
POISSON_FORMULA T flow_out(T lower, T upper, T per_width) {
    return per_width * (upper - lower);
}
template <class T>
POISSON_FORMULA T pressure_slope(T lower, T upper, T per_gap) {
    return per_gap * (upper - lower);
}

// ---- the operator

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

// (A u) at a node of a grid in D dimensions.
template <int D, class T>
POISSON_FORMULA T apply_operator(T centre, const T (&neighbour)[6], const T (&weight)[3], T c) {
    if constexpr (D == 3)
        return apply_operator(centre, neighbour[0], neighbour[1], neighbour[2], neighbour[3], neighbour[4],
                              neighbour[5], weight[0], weight[1], weight[2], c);
    else
        return apply_operator(centre, neighbour[0], neighbour[1], neighbour[2], neighbour[3], weight[0], weight[1], c);
}

// (A u) at a node where a varies.
template <int D, class T>
POISSON_FORMULA T apply_operator(T centre, const T (&neighbour)[6], const T (&link)[6], const T (&weight)[3], T c) {
    T au = second_difference(centre, neighbour[0], neighbour[1], weight[0], link[0], link[1]) +
           second_difference(centre, neighbour[2], neighbour[3], weight[1], link[2], link[3]);
    if constexpr (D == 3) au += second_difference(centre, neighbour[4], neighbour[5], weight[2], link[4], link[5]);
    return au + c * centre;
}

// diag(A) at a node.
template <int D, class T>
POISSON_FORMULA T diagonal(const T (&weight)[3], T c) {
    if constexpr (D == 3)
        return 2 * (weight[0] + weight[1] + weight[2]) + c;
    else
        return 2 * (weight[0] + weight[1]) + c;
}

// diag(A) at a node where a varies.
template <int D, class T>
POISSON_FORMULA T diagonal(const T (&link)[6], const T (&weight)[3], T c) {
    T sum = weight[0] * (link[0] + link[1]) + weight[1] * (link[2] + link[3]);
    if constexpr (D == 3) sum += weight[2] * (link[4] + link[5]);
    return sum + c;
}

template <class T>
POISSON_FORMULA T residual_of(T f, T au) {
    return f - au;
}

// One step of weighted Jacobi, with scale = omega / diag(A).
template <class T>
POISSON_FORMULA T relax(T centre, T residual, T scale) {
    return centre + scale * residual;
}

// The same by what the neighbours add, with half of the additions: A u = D u - N, and u goes to (1 - omega) u +
// omega (f + N) / D. Where nothing varies `share` is omega weight / D.
template <int D, class T>
POISSON_FORMULA T relax_by_sum(T centre, T f, const T (&neighbour)[6], const T (&share)[3], T stay, T scale) {
    T value =
        scale * f + stay * centre + share[0] * (neighbour[0] + neighbour[1]) + share[1] * (neighbour[2] + neighbour[3]);
    if constexpr (D == 3) value += share[2] * (neighbour[4] + neighbour[5]);
    return value;
}

// f + N, where c alone varies and where a does.
template <int D, class T>
POISSON_FORMULA T add_neighbours(T f, const T (&neighbour)[6], const T (&weight)[3]) {
    for (int axis = 0; axis < D; ++axis) f += weight[axis] * (neighbour[2 * axis] + neighbour[2 * axis + 1]);
    return f;
}
template <int D, class T>
POISSON_FORMULA T add_neighbours(T f, const T (&neighbour)[6], const T (&link)[6], const T (&weight)[3]) {
    for (int axis = 0; axis < D; ++axis)
        f += weight[axis] * (link[2 * axis] * neighbour[2 * axis] + link[2 * axis + 1] * neighbour[2 * axis + 1]);
    return f;
}

// ---- first derivatives

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
