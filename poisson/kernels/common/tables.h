// SPDX-License-Identifier: MIT
// The formulas along tabulated axes, once for every backend: the GPU kernels and the OpenMP library include this text
// behind formulas.h.
//
// A table has {lower, upper, extra} of a node for x, y and z: what the differences to its neighbours and its own value
// are multiplied by (poisson/mesh/axis.py), times a/h², or times 1/h² where a varies. In 2D what belongs to z has no
// meaning.

// What the differences of a node to its neighbours, and its own value, are multiplied by in all; and diag(A).
template <class T>
struct Tabulated {
    T link[6], c, diagonal;
};

// From the table, c and, where a varies, the coefficients of the links. What is the same along x comes first.
template <int D, bool LINKED, class T>
POISSON_FORMULA Tabulated<T> tabulate(const T (&table)[9], const T (&link)[6], T c) {
    Tabulated<T> at = {};
    at.c = at.diagonal = c;
    for (int axis = D - 1; axis >= 0; --axis) {
        const T *own = table + 3 * axis, *both = link + 2 * axis;
        at.link[2 * axis] = LINKED ? own[0] * both[0] : own[0];
        at.link[2 * axis + 1] = LINKED ? own[1] * both[1] : own[1];
        const T extra = LINKED ? own[2] * (both[0] + both[1]) / 2 : own[2];
        at.c += extra;
        at.diagonal += at.link[2 * axis] + at.link[2 * axis + 1] + extra;
    }
    return at;
}

// (A u) at a node.
template <int D, class T>
POISSON_FORMULA T apply_tabulated(T centre, const T (&neighbour)[6], const Tabulated<T>& at) {
    T au = at.c * centre;
    for (int n = 0; n < 2 * D; ++n) au += at.link[n] * (centre - neighbour[n]);
    return au;
}

// f + what the neighbours add.
template <int D, class T>
POISSON_FORMULA T add_neighbours(T f, const T (&neighbour)[6], const Tabulated<T>& at) {
    for (int n = 0; n < 2 * D; ++n) f += at.link[n] * neighbour[n];
    return f;
}
