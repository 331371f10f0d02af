// SPDX-License-Identifier: MIT
// The links of operators of 9 and 27 points, read one by one by what sets coarse grids and clusters up. Which slots
// have some is an argument: these kernels run once a set-up, and would be compiled for each mask.

struct StencilLinks {
    Nodes nodes;
    int offsets;
    const COEFFICIENT* coefficients;
    index_t pitch;

    __device__ __forceinline__ double at(int array, int i, int j, int k) const {
        const int row = (int)pitch, plane = row * nodes.ny;
        return (double)coefficients[(index_t)plane * nodes.nz * array + (i + row * j + plane * k)];
    }
    __device__ __forceinline__ bool has(int slot) const { return offsets >> slot & 1; }
};

#define STENCIL_LINKS_PARAMETERS \
    int nx, int ny, int nz, int offsets, const COEFFICIENT *__restrict__ coefficients, index_t coefficients_pitch
#define STENCIL_LINKS \
    StencilLinks { Nodes{nx, ny, nz}, offsets, coefficients, coefficients_pitch }

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

// Calls emit(i, j, k, link, behind) for each neighbour of a node: where it is, the link to it, and whether the link is
// kept at the node itself.
template <class Emit>
__device__ __forceinline__ void for_each_link(const StencilLinks& a, int i, int j, int k, Emit emit) {
    int array = 0;
#pragma unroll 1
    for (int slot = 0; slot < SLOTS; ++slot) {
        if (!a.has(slot)) continue;
        ++array;
        for (int sign = 1; sign >= -1; sign -= 2) {
            int p = i, q = j, s = k;
            if (!moved(a.nodes, p, q, s, sign * step_of(slot, 0), sign * step_of(slot, 1), sign * step_of(slot, 2)))
                continue;
            emit(p, q, s, sign > 0 ? a.at(array, i, j, k) : a.at(array, p, q, s), sign > 0);
        }
    }
}

// The bits of a number: as unsigned integers those of positive numbers have the same order.
__device__ __forceinline__ unsigned long long bits_of(double value) {
    union {
        double value;
        unsigned long long bits;
    } both;
    both.value = value;
    return both.bits;
}
