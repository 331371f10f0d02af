// SPDX-License-Identifier: MIT
// The parts of a grid that links of more than 0 join, and the mask of the nodes without one. A node on a fixed face
// belongs to the parts that its links lead to.

// What is found: nodes without a link that are on no fixed face; parts without a node on a fixed face, and with one;
// and the least link, by its bits.
struct Found {
    unsigned long long alone, loose, held, least;
};

KERNEL poisson_parts_begin(int* __restrict__ labels, int* __restrict__ joined, int nx, int ny, int nz) {
    const Nodes nodes{nx, ny, nz};
    NODE_OF_THREAD(nodes);
    labels[here] = here;
    joined[here] = 0;
}

// Join the ends of links along the axes that have a bit.
KERNEL poisson_parts_join(int* labels, unsigned long long* found, const real* __restrict__ links_x,
                          const real* __restrict__ links_y, const real* __restrict__ links_z, int axes, int nx, int ny,
                          int nz, index_t pitch) {
    const Nodes nodes{nx, ny, nz};
    NODE_OF_THREAD(nodes);
    unsigned long long* least = &reinterpret_cast<Found*>(found)->least;
#pragma unroll 1
    for (int axis = 0; axis < DIMENSION; ++axis) {
        const real* links = axis == 0 ? links_x : axis == 1 ? links_y : links_z;
        const double link = (double)links[i + pitch * (j + (index_t)ny * k)];
        if (!(link > 0)) continue;
        if (bits_of(link) < look(least)) atomicMin(least, bits_of(link));
        int p = i, q = j, s = k;
        if ((axes >> axis & 1) && moved(nodes, p, q, s, axis == 0, axis == 1, axis == 2))
            join(labels, here, number_of(nodes, p, q, s));
    }
}

KERNEL poisson_parts_settle(int* labels, int* joined, int nx, int ny, int nz) {
    const Nodes nodes{nx, ny, nz};
    NODE_OF_THREAD(nodes);
    settle(labels, joined, here);
}

// Mark the first nodes of the parts that reach a fixed face.
KERNEL poisson_parts_hold(const int* __restrict__ labels, int* joined, int nx, int ny, int nz) {
    const Nodes nodes{nx, ny, nz};
    NODE_OF_THREAD(nodes);
    if (is_fixed_node(nodes, i, j, k) && look(joined + here) != 0) put(joined + labels[here], 2);
}

// Write `fixed` at the nodes of fixed faces and at those without a link and 0 at the others, and count.
KERNEL poisson_parts_mask(const int* __restrict__ labels, const int* __restrict__ joined, real* __restrict__ c,
                          real fixed, unsigned long long* found, int nx, int ny, int nz, index_t pitch) {
    const Nodes nodes{nx, ny, nz};
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y;
    __shared__ unsigned counts[3];
    if (thread < 3) counts[thread] = 0;
    __syncthreads();
    if (i < nx && j < ny) {
        const int here = number_of(nodes, i, j, k), mark = joined[here];
        const bool on_face = is_fixed_node(nodes, i, j, k);
        c[i + pitch * (j + (index_t)ny * k)] = on_face || mark == 0 ? fixed : (real)0;
        if (mark == 0 && !on_face) atomicAdd(counts, 1u);
        if (mark != 0 && labels[here] == here) atomicAdd(counts + mark, 1u);
    }
    __syncthreads();
    if (thread < 3 && counts[thread] > 0) atomicAdd(found + thread, (unsigned long long)counts[thread]);
}
