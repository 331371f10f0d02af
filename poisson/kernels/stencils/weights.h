// SPDX-License-Identifier: MIT
// Interpolation by weights of each node, from every other node along some axes; StencilTransfer in
// poisson/discrete/full_stencil.py has what they are.
//
// A direction leads from a coarse node to a fine one that takes from it: -1, 0 or 1 along an axis that is halved.
//
// Options: WEIGHT (the type of the weights).

#ifndef WEIGHT
#define WEIGHT real
#endif

// The weights, and the coarse nodes that they are of. `halved` has a bit for each axis.
struct Weights {
    int halved;
    int nx, ny, nz;
    const WEIGHT* values;
    index_t pitch;

    __device__ __forceinline__ bool halves(int axis) const { return halved >> axis & 1; }

    // The weight of a coarse node at the fine one in a direction.
    __device__ __forceinline__ double at(int i, int j, int k, int x, int y, int z) const {
        if (x == 0 && y == 0 && z == 0) return is_fixed_node(Nodes{nx, ny, nz}, i, j, k) ? 0.0 : 1.0;
        const int along_x = halves(0) ? 3 : 1, along_y = halves(1) ? 3 : 1, along_z = halves(2) ? 3 : 1;
        const int centre = (along_x * along_y * along_z - 1) / 2;
        const int place = centre + x + along_x * (y + along_y * z);  // the steps count from -1 on
        const int array = place < centre ? place : place - 1;
        // An array has fewer than 2^31 values, as those of a stencil have.
        const int row = (int)pitch, plane = row * ny;
        return (double)values[(index_t)plane * nz * array + (i + row * j + plane * k)];
    }
};

// The fine node in a direction of a coarse one; where there is none the index lies in the array.
__device__ __forceinline__ int fine_of(bool halved, int coarse, int step, int n, int lower) {
    const int i = halved ? 2 * coarse + step : coarse;
    if (lower == WRAP) return i < 0 ? i + n : i >= n ? i - n : i;
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

// Whether the fine node in a direction lies between coarse ones: the first and the last of an odd number around an axis
// are neighbours.
__device__ __forceinline__ bool lies_between(bool halved, int coarse, int step, int n, int lower) {
    const int i = halved ? 2 * coarse + step : coarse;
    if (lower == WRAP && n % 2 == 0) return true;
    return i >= 0 && i < n;
}

// The coarse nodes that a fine one takes from along an axis, and its directions from there.
struct Parents {
    int count, at[2], step[2];
};

__device__ __forceinline__ Parents parents_of(bool halved, int i, int coarse, int lower) {
    if (!halved) return Parents{1, {i, i}, {0, 0}};
    if (i % 2 == 0) return Parents{1, {i / 2, i / 2}, {0, 0}};
    const int above = i / 2 + 1 < coarse ? i / 2 + 1 : 0;
    return Parents{i / 2 + 1 < coarse || lower == WRAP ? 2 : 1, {i / 2, above}, {1, -1}};
}
