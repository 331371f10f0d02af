// SPDX-License-Identifier: MIT
// Labels of nodes that lead to the smallest number of those that are joined with them: the smaller label is put above
// the larger one, by all threads at once.

#define NODE_OF_THREAD(nodes)                                         \
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;                 \
    const int j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z; \
    if (i >= nodes.nx || j >= nodes.ny) return;                       \
    const int here = number_of(nodes, i, j, k)

__device__ __forceinline__ int number_of(const Nodes& nodes, int i, int j, int k) {
    return i + nodes.nx * (j + nodes.ny * k);
}

// Labels that other threads change meanwhile: any value that one had will do, as it leads to the same end.
template <class T>
__device__ __forceinline__ T look(const T* label) {
#if defined(POISSON_EMULATION)
    return __atomic_load_n(label, __ATOMIC_RELAXED);
#else
    return *(const volatile T*)label;
#endif
}
__device__ __forceinline__ void put(int* label, int value) {
#if defined(POISSON_EMULATION)
    __atomic_store_n(label, value, __ATOMIC_RELAXED);
#else
    *(volatile int*)label = value;
#endif
}

// The end that the labels of a node lead to. Those on the way are shortened, but where labels are to be final: a label
// that is written late would take the place of one.
template <bool SHORTENS>
__device__ __forceinline__ int end_of(int* labels, int node) {
    int before = node, current = look(labels + node);
    for (int next; current > (next = look(labels + current)); current = next) {
        if (SHORTENS) put(labels + before, next);
        before = current;
    }
    return current;
}

// Join two nodes and all that are joined with either.
__device__ __forceinline__ void join(int* labels, int node, int with) {
    int one = end_of<true>(labels, node), other = end_of<true>(labels, with);
    while (one != other) {
        const int larger = one > other ? one : other, smaller = one > other ? other : one;
        const int found = atomicCAS(labels + larger, larger, smaller);
        if (found == larger) break;
        one = found;
        other = smaller;
    }
}

// Give a node its final label, when all are joined; joined: whether there are others with the same.
__device__ __forceinline__ void settle(int* labels, int* joined, int node) {
    const int label = end_of<false>(labels, node);
    if (label == node) return;
    put(labels + node, label);
    put(joined + node, 1);
    put(joined + label, 1);
}
