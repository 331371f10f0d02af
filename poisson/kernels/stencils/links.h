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

// How many slots have links.
__device__ __forceinline__ int slots_of(int offsets) {
    int slots = 0;
    for (; offsets; offsets &= offsets - 1) ++slots;
    return slots;
}

// A neighbour of a node, the steps that lead there, and whether the link to it is kept at the node itself.
struct Step {
    int i, j, k, x, y, z;
    bool behind;
    int slot;
};

// Calls emit(step, link) for each neighbour of a node.
template <class Emit>
__device__ __forceinline__ void for_each_link(const StencilLinks& a, int i, int j, int k, Emit emit) {
    int array = 0;
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
        if (!a.has(slot)) continue;
        ++array;
#pragma unroll
        for (int sign = 1; sign >= -1; sign -= 2) {
            Step to{i, j, k, sign * step_of(slot, 0), sign * step_of(slot, 1), sign * step_of(slot, 2), sign > 0, slot};
            if (moved(a.nodes, to.i, to.j, to.k, to.x, to.y, to.z))
                emit(to, sign > 0 ? a.at(array, i, j, k) : a.at(array, to.i, to.j, to.k));
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
