// SPDX-License-Identifier: MIT
// The parts of a grid that links of more than 0 join, and the mask of the nodes without one. A node that is fixed, on a
// face or by a negative c, belongs to the parts that its links lead to.

// What is found: the nodes without a link, fixed ones not counted; parts that nothing holds, and the others; and by
// their bits the least link, and the least and the largest c of nodes that are not fixed.
struct Found {
    unsigned long long alone, loose, held, link, least, most;
};

// Every node has the number of the first one of its run of links along x.
KERNEL poisson_parts_begin(int* __restrict__ labels, int* __restrict__ joined, const real* __restrict__ links_x, int nx,
                           int ny, int nz, index_t pitch) {
    const Nodes nodes{nx, ny, nz};
    NODE_OF_THREAD(nodes);
    labels[here] = first_of_run(here, i + 1 < nx && links_x[i + pitch * (j + (index_t)ny * k)] > 0);
    joined[here] = 0;
}

// Join the ends of links.
KERNEL poisson_parts_join(int* labels, unsigned long long* found, const real* __restrict__ links_x,
                          const real* __restrict__ links_y, const real* __restrict__ links_z, int nx, int ny, int nz,
                          index_t pitch) {
    const Nodes nodes{nx, ny, nz};
    NODE_OF_THREAD(nodes);
    unsigned long long* least = &reinterpret_cast<Found*>(found)->link;
#pragma unroll 1
    for (int axis = 0; axis < DIMENSION; ++axis) {
        const real* links = axis == 0 ? links_x : axis == 1 ? links_y : links_z;
        const double link = (double)links[i + pitch * (j + (index_t)ny * k)];
        if (link > 0 && bits_of(link) < look(least)) atomicMin(least, bits_of(link));
        int p = i, q = j, s = k;
        const bool there = moved(nodes, p, q, s, axis == 0, axis == 1, axis == 2);
        join_once(labels, there && link > 0, here, there ? number_of(nodes, p, q, s) : here);
    }
}

KERNEL poisson_parts_settle(int* labels, int* joined, int nx, int ny, int nz) {
    const Nodes nodes{nx, ny, nz};
    NODE_OF_THREAD(nodes);
    settle(labels, joined, here);
}

// Mark the first nodes of the parts that a fixed node or c holds.
KERNEL poisson_parts_hold(const int* __restrict__ labels, int* joined, const real* __restrict__ c, int nx, int ny,
                          int nz, index_t pitch) {
    const Nodes nodes{nx, ny, nz};
    NODE_OF_THREAD(nodes);
    const bool holds = is_fixed_node(nodes, i, j, k) || c[i + pitch * (j + (index_t)ny * k)] != 0;
    if (holds && look(joined + here) != 0) put(joined + labels[here], 2);
}

// Write `fixed` at the nodes of fixed faces and at those without a link where c is 0, and count.
KERNEL poisson_parts_mask(const int* __restrict__ labels, const int* __restrict__ joined, real* c, real fixed,
                          unsigned long long* found, int nx, int ny, int nz, index_t pitch) {
    const Nodes nodes{nx, ny, nz};
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y;
    Found& all = *reinterpret_cast<Found*>(found);
    __shared__ unsigned counts[3];
    if (thread < 3) counts[thread] = 0;
    __syncthreads();
    if (i < nx && j < ny) {
        const int here = number_of(nodes, i, j, k), mark = joined[here];
        real& value = c[i + pitch * (j + (index_t)ny * k)];
        if (is_fixed_node(nodes, i, j, k)) {
            value = fixed;
        } else if (mark == 0 && value == 0) {
            value = fixed;
            atomicAdd(counts, 1u);
        } else if (mark == 0 && value > 0) {
            atomicAdd(counts + 2, 1u);  // a part of one node
        }
        if (mark != 0 && labels[here] == here) atomicAdd(counts + mark, 1u);
        if (value >= 0) {
            const unsigned long long bits = bits_of((double)value);
            if (bits < look(&all.least)) atomicMin(&all.least, bits);
            if (bits > look(&all.most)) atomicMax(&all.most, bits);
        }
    }
    __syncthreads();
    if (thread < 3 && counts[thread] > 0) atomicAdd(found + thread, (unsigned long long)counts[thread]);
}
