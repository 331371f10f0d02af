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

// The weights of a row of coarse nodes at the fine ones in the directions with the same steps along y and z.
struct WeightRow {
    const WEIGHT* values;  // of the direction that has no step along x
    index_t below, above;  // to those of the other two
    bool coarse, fixed;    // whether the fine nodes without such a step are coarse, and the row is fixed
    int nx;

    __device__ __forceinline__ double at(int i, int x) const {
        if (x == 0 && coarse) return fixed || is_fixed(i, nx, RULE_XL, RULE_XU) ? 0.0 : 1.0;
        return (double)values[i + (x < 0 ? -below : x > 0 ? above : 0)];
    }
};

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
        return (double)values[offset(i, j, k, x, y, z)];
    }
    __device__ __forceinline__ WeightRow row(int j, int k, int y, int z) const {
        const bool own = y == 0 && z == 0,
                   fixed = is_fixed(j, ny, RULE_YL, RULE_YU) || (DIMENSION == 3 && is_fixed(k, nz, RULE_ZL, RULE_ZU));
        const index_t stride = (index_t)((int)pitch * ny) * nz;
        return WeightRow{values + offset(0, j, k, 0, y, z), own ? 0 : stride, stride, own, fixed, nx};
    }
    __device__ __forceinline__ index_t offset(int i, int j, int k, int x, int y, int z) const {
        const int along_x = halves(0) ? 3 : 1, along_y = halves(1) ? 3 : 1, along_z = halves(2) ? 3 : 1;
        const int centre = (along_x * along_y * along_z - 1) / 2;
        const int place = centre + x + along_x * (y + along_y * z);  // the steps count from -1 on
        const int array = place < centre ? place : place - 1;
        // An array has fewer than 2^31 values, as those of a stencil have.
        const int row = (int)pitch, plane = row * ny;
        return (index_t)plane * nz * array + (i + row * j + plane * k);
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
