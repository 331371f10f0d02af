// SPDX-License-Identifier: MIT
// Operators of 9 and 27 points as kernels see them; poisson/discrete/full_stencil.py has the formula.
//
// The coefficients are arrays behind one another: the excess of each node, and its links to each of the neighbours
// behind it in memory that has some. A slot counts all neighbours behind a node, whether there are links to them or
// not. An array has fewer than 2^31 values: an int holds the steps within one.
//
// Options: COEFFICIENT (the type of the coefficients), OFFSETS (a bit for each slot with links), and TABULATED as in
// operator/operator.h.

#ifndef COEFFICIENT
#define COEFFICIENT real
#endif
#ifndef OFFSETS
#define OFFSETS 0
#endif
#define SLOTS (DIMENSION == 2 ? 4 : 13)

// The step of a slot along an axis.
POISSON_FORMULA constexpr int step_of(int slot, int axis) {
    const int place = slot + (DIMENSION == 2 ? 5 : 14);
    return axis == 0 ? place % 3 - 1 : axis == 1 ? place / 3 % 3 - 1 : DIMENSION == 2 ? 0 : place / 9 - 1;
}

// The nodes of a lattice, and their control widths along tabulated axes.
struct Nodes {
    int nx, ny, nz;
#if TABULATED & 1
    const double* width_x;
#endif
#if TABULATED & 2
    const double* width_y;
#endif
#if TABULATED & 4
    const double* width_z;
#endif
};

__device__ __forceinline__ bool is_fixed_node(const Nodes& nodes, int i, int j, int k) {
    return is_fixed(i, nodes.nx, RULE_XL, RULE_XU) || is_fixed(j, nodes.ny, RULE_YL, RULE_YU) ||
           (DIMENSION == 3 && is_fixed(k, nodes.nz, RULE_ZL, RULE_ZU));
}

// The node some steps from another, which counts around an axis that wraps; whether there is one.
__device__ __forceinline__ bool moved(int& i, int step, int n, int lower) {
    i += step;
    if (lower == WRAP) {
        i = i < 0 ? i + n : i >= n ? i - n : i;
        return true;
    }
    return i >= 0 && i < n;
}

__device__ __forceinline__ bool moved(const Nodes& nodes, int& i, int& j, int& k, int x, int y, int z) {
    const bool there_x = moved(i, x, nodes.nx, RULE_XL), there_y = moved(j, y, nodes.ny, RULE_YL);
    const bool there_z = DIMENSION == 2 || moved(k, z, nodes.nz, RULE_ZL);
    return there_x && there_y && there_z;
}

__device__ __forceinline__ double uniform_width(int i, int n, int lower, int upper) {
    return (lower == MIRROR && i == 0 ? 0.5 : 1.0) * (upper == MIRROR && i == n - 1 ? 0.5 : 1.0);
}

// The control volume of a node; UNIFORM has a bit for each axis that is uniform whatever TABULATED says.
template <int UNIFORM = 0>
__device__ __forceinline__ double volume_of(const Nodes& nodes, int i, int j, int k) {
    double x = uniform_width(i, nodes.nx, RULE_XL, RULE_XU), y = uniform_width(j, nodes.ny, RULE_YL, RULE_YU);
    double z = DIMENSION == 3 ? uniform_width(k, nodes.nz, RULE_ZL, RULE_ZU) : 1.0;
#if TABULATED & 1
    if (!(UNIFORM & 1)) x = nodes.width_x[i];
#endif
#if TABULATED & 2
    if (!(UNIFORM & 2)) y = nodes.width_y[j];
#endif
#if TABULATED & 4
    if (!(UNIFORM & 4)) z = nodes.width_z[k];
#endif
    return z * (y * x);
}

#define STENCIL_PARAMETERS                                                               \
    int nx, int ny, int nz, index_t pitch, const COEFFICIENT *__restrict__ coefficients, \
        index_t coefficients_pitch WIDTH_PARAMETERS
#define STENCIL \
    Stencil { Nodes{nx, ny, nz EACH_WIDTH}, pitch, coefficients, coefficients_pitch }

struct Stencil {
    Nodes nodes;
    index_t pitch;
    const COEFFICIENT* coefficients;
    index_t coefficients_pitch;
};

// The nodes around one along an axis, and which of them there are; the index of one that is not lies in the array.
struct Beside {
    int at[3];
    bool there[3];
};

__device__ __forceinline__ Beside beside(int i, int n, int lower, int upper) {
    return Beside{{below(i, n, lower), i, above(i, n, upper)},
                  {i > 0 || lower == WRAP, true, i < n - 1 || upper == WRAP}};
}

// The nodes around one.
struct Around {
    Beside x, y, z;

    __device__ __forceinline__ index_t row(const Stencil& a, int to_y, int to_z) const {
        return y.at[to_y + 1] + (DIMENSION == 3 ? (index_t)a.nodes.ny * z.at[to_z + 1] : 0);
    }
    __device__ __forceinline__ bool has(int to_x, int to_y, int to_z) const {
        return x.there[to_x + 1] && y.there[to_y + 1] && (DIMENSION == 2 || z.there[to_z + 1]);
    }
};

// V A u and the diagonal of V A at a node, of which u(x, y, z) gives the values around it; the links to nodes that are
// not there are 0.
struct Applied {
    real value, diagonal;
};

template <class Field>
__device__ __forceinline__ Applied apply_at(const Stencil& a, const Around& around, const Field& u) {
    const int pitch = (int)a.coefficients_pitch, plane = pitch * a.nodes.ny;
    const index_t stride = (index_t)plane * a.nodes.nz;
    const COEFFICIENT* links = a.coefficients + (around.x.at[1] + pitch * (int)around.row(a, 0, 0));
    const real centre = u(0, 0, 0), excess = (real)*links;
    Applied applied{excess * centre, excess};
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
        if (!(OFFSETS >> slot & 1)) continue;
        links += stride;
        const int x = step_of(slot, 0), y = step_of(slot, 1), z = step_of(slot, 2);
        // Steps from the node itself are sums of few terms, which many links share.
        int step = pitch * (around.y.at[1 - y] - around.y.at[1]);
        if (DIMENSION == 3) step += plane * (around.z.at[1 - z] - around.z.at[1]);
        const real behind = (real)links[0];
        real before = (real)links[step + (around.x.at[1 - x] - around.x.at[1])];
        if (!around.has(-x, -y, -z)) before = 0;
        applied.value += behind * (centre - u(x, y, z));
        applied.value += before * (centre - u(-x, -y, -z));
        applied.diagonal += behind;
        applied.diagonal += before;
    }
    return applied;
}

// Calls emit(at, centre, applied, solves) for each node: its place, u there, V A u and the diagonal of V A, and whether
// it has an equation. A thread has a node along x and marches along the slowest axis, with u around it in registers. A
// field gives the value at a node, and may ask whether that is fixed.
template <class Field, class Emit>
__device__ __forceinline__ void march_through(const Field& u, const Stencil& a, Emit emit) {
    const Nodes& nodes = a.nodes;
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
#if DIMENSION == 2
    const int lines = 1, slowest = nodes.ny, first = (blockIdx.y * BLOCK_Y + threadIdx.y) * MARCH, j = first;
    const int lower_rule = RULE_YL, upper_rule = RULE_YU;
#else
    const int lines = 3, slowest = nodes.nz, first = band_along_z(slowest) * MARCH;
    const int j = block_along_y(slowest) * BLOCK_Y + threadIdx.y;
    const int lower_rule = RULE_ZL, upper_rule = RULE_ZU;
#endif
    if (i >= nodes.nx || j >= nodes.ny || first >= slowest) return;
    const int last = first + MARCH < slowest ? first + MARCH : slowest;
    Around around;
    around.x = beside(i, nodes.nx, RULE_XL, RULE_XU);
    around.y = beside(j, nodes.ny, RULE_YL, RULE_YU);
    real window[3][lines][3];
    const int pitch = (int)a.pitch, between = DIMENSION == 2 ? pitch : pitch * nodes.ny;
    const auto load_plane = [&](real(&plane)[lines][3], int s) {
#pragma unroll
        for (int line = 0; line < lines; ++line) {
            const int y = DIMENSION == 2 ? s : around.y.at[line], z = DIMENSION == 2 ? 0 : s;
            const int row = between * s + (DIMENSION == 2 ? 0 : pitch * y);
#pragma unroll
            for (int n = 0; n < 3; ++n) {
                const int x = around.x.at[n];
                plane[line][n] = u.one(row + x, nodes, x, y, z);
            }
        }
    };
    load_plane(window[1], below(first, slowest, lower_rule));
    load_plane(window[2], first);
#pragma unroll UNROLL
    for (int s = first; s < last; ++s) {
#pragma unroll
        for (int line = 0; line < lines; ++line) {
#pragma unroll
            for (int n = 0; n < 3; ++n) {
                window[0][line][n] = window[1][line][n];
                window[1][line][n] = window[2][line][n];
            }
        }
        load_plane(window[2], above(s, slowest, upper_rule));
        (DIMENSION == 2 ? around.y : around.z) = beside(s, slowest, lower_rule, upper_rule);
        const auto shown = [&](int x, int y, int z) {
            return DIMENSION == 2 ? window[y + 1][0][x + 1] : window[z + 1][lines == 1 ? 0 : y + 1][x + 1];
        };
        const Applied applied = apply_at(a, around, shown);
        const Place at{i + a.pitch * around.row(a, 0, 0), i, around.y.at[1], DIMENSION == 2 ? 0 : s};
        const bool solves = !is_fixed_node(nodes, at.i, at.j, at.k) && applied.diagonal > 0;
        emit(at, shown(0, 0, 0), applied, solves);
    }
}

// The field of an array.
struct StencilValues {
    const real* __restrict__ u;

    __device__ __forceinline__ real one(index_t offset, const Nodes&, int, int, int) const { return u[offset]; }
};
