// SPDX-License-Identifier: MIT
// The full stencil of an operator of links (poisson/discrete/full_stencil.py: star).
//
// Of each axis `tables` has three rows: the flows to the next nodes, the control widths, and the flows to walls.
// `numbers` has two for each axis with a bit in `tabulated`: the links whose mean leads to a wall.

// Where along an axis a node is, and the tables of the axis.
struct Along {
    int at, nodes, lower;
    const double* tables;
    const int* numbers;

    __device__ __forceinline__ double width() const { return tables[nodes + at]; }
};

KERNEL poisson_star(COEFFICIENT* __restrict__ out, index_t out_pitch, const real* __restrict__ links_x,
                    const real* __restrict__ links_y, const real* __restrict__ links_z, const real* __restrict__ c,
                    double constant, int masked, const double* __restrict__ tables, const int* __restrict__ numbers,
                    int tabulated, int nx, int ny, int nz, index_t pitch) {
    const Nodes nodes{nx, ny, nz};
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    if (i >= nx || j >= ny) return;
    const auto offset = [&](int p, int q, int s) { return p + pitch * (q + (index_t)ny * s); };
    const auto is_held = [&](int p, int q, int s) { return masked && c[offset(p, q, s)] < 0; };
    const Along along[3] = {{i, nx, RULE_XL, tables, numbers},
                            {j, ny, RULE_YL, tables + 3 * nx, numbers + (tabulated & 1 ? 2 * nx : 0)},
                            {k, nz, RULE_ZL, tables + 3 * (nx + ny),
                             numbers + (tabulated & 1 ? 2 * nx : 0) + (tabulated & 2 ? 2 * ny : 0)}};
    const index_t stride = out_pitch * ny * nz, to = i + out_pitch * (j + (index_t)ny * k);
    const bool held = is_held(i, j, k);
    double others = along[0].width(), own = constant;
    if (DIMENSION == 3) others *= along[1].width();
    if (c) own = c[offset(i, j, k)] > 0 ? (double)c[offset(i, j, k)] : 0.0;
    double excess = along[DIMENSION - 1].width() * others * own;
    int array = 0;
#pragma unroll
    for (int axis = 0; axis < DIMENSION; ++axis) {
        const Along& here = along[axis];
        const real* const links = axis == 0 ? links_x : axis == 1 ? links_y : links_z;
        double beside = 1;
        for (int other = 0; other < DIMENSION; ++other)
            if (other != axis) beside *= along[other].width();
        const auto link = [&](int number) {
            return links ? (double)links[offset(axis == 0 ? number : i, axis == 1 ? number : j, axis == 2 ? number : k)]
                         : 1.0;
        };
        const auto is_held_at = [&](int number) {
            return is_held(axis == 0 ? number : i, axis == 1 ? number : j, axis == 2 ? number : k);
        };
        int above = here.at, below = here.at;
        const bool has_above = moved(above, 1, here.nodes, here.lower);
        const bool has_below = moved(below, -1, here.nodes, here.lower);
        const double flow = here.tables[here.at] * beside * link(here.at);
        const bool to_held = has_above && is_held_at(above);
        if (here.nodes > 1) out[stride * ++array + to] = (COEFFICIENT)(held || to_held ? 0.0 : flow);
        double rest = 0;
        if (tabulated >> axis & 1) {
            const double mean = (link(here.numbers[here.at]) + link(here.numbers[here.nodes + here.at])) / 2.0;
            rest = here.tables[2 * here.nodes + here.at] * beside * mean;
        }
        if (to_held) rest += flow;
        if (has_below && is_held_at(below)) rest += here.tables[below] * beside * link(below);
        excess += rest;
    }
    out[to] = (COEFFICIENT)(held ? 0.0 : excess);
}
