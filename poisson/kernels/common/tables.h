// SPDX-License-Identifier: MIT
// The formulas along tabulated axes, once for every backend: the GPU kernels and the OpenMP library include this text
// behind formulas.h.
//
// A table has {lower, upper, extra} of a node for x, y and z: what the differences to its neighbours and its own value
// are multiplied by (poisson/mesh/axis.py), times a/h², or times 1/h² where a varies. So the links and c that come out
// need no weights. In 2D what belongs to z has no meaning.

// c with what the axes add to it, x last: the others are the same along a row.
template <int D, class T>
POISSON_FORMULA T tabulated_c(const T (&table)[9], T c) {
    if constexpr (D == 3) c += table[8];
    return (c + table[5]) + table[2];
}

// The same where a varies; what an axis adds has the mean of the two links of the node.
template <int D, class T>
POISSON_FORMULA T tabulated_c(const T (&table)[9], const T (&link)[6], T c) {
    T twice = table[2] * (link[0] + link[1]) + table[5] * (link[2] + link[3]);
    if constexpr (D == 3) twice += table[8] * (link[4] + link[5]);
    return c + twice / 2;
}

// The links of a node with the factors of the axes: those of a, or one where it is constant.
template <int D, class T>
POISSON_FORMULA void tabulate(const T (&table)[9], T (&link)[6]) {
    for (int axis = 0; axis < D; ++axis) {
        link[2 * axis] *= table[3 * axis];
        link[2 * axis + 1] *= table[3 * axis + 1];
    }
}
template <int D, class T>
POISSON_FORMULA void links_of_table(const T (&table)[9], T (&link)[6]) {
    for (int axis = 0; axis < D; ++axis) {
        link[2 * axis] = table[3 * axis];
        link[2 * axis + 1] = table[3 * axis + 1];
    }
}

// (A u) at a node, of such links and c.
template <int D, class T>
POISSON_FORMULA T apply_tabulated(T centre, const T (&neighbour)[6], const T (&link)[6], T c) {
    T au = (link[0] * (centre - neighbour[0]) + link[1] * (centre - neighbour[1])) +
           (link[2] * (centre - neighbour[2]) + link[3] * (centre - neighbour[3]));
    if constexpr (D == 3) au += link[4] * (centre - neighbour[4]) + link[5] * (centre - neighbour[5]);
    return au + c * centre;
}

// diag(A) at a node, of the same.
template <int D, class T>
POISSON_FORMULA T tabulated_diagonal(const T (&link)[6], T c) {
    T sum = (link[0] + link[1]) + (link[2] + link[3]);
    if constexpr (D == 3) sum += link[4] + link[5];
    return sum + c;
}
