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

// The first lane of the run that a lane belongs to: with `led` it belongs to that of the lane below. Every lane must
// call it.
__device__ __forceinline__ int begin_of_run(bool led) {
    const int lane = threadIdx.x % 32;
    int begin = led ? 0 : lane;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int other = lane_below(begin, step);
        if (lane >= step && other > begin) begin = other;
    }
    return begin;
}

// The first of the nodes of a warp along x that are joined one with the next; `joined`: whether this one is. Every lane
// must call it.
__device__ __forceinline__ int first_of_run(int here, bool joined) {
    return here - (int)(threadIdx.x % 32) + begin_of_run(lane_below((int)joined, 1));
}

// Join two nodes if `joins`, but where the lane below joins the same two labels. Every lane must call it.
__device__ __forceinline__ void join_once(int* labels, bool joins, int node, int with) {
    const int one = joins ? look(labels + node) : -1, other = joins ? look(labels + with) : -1;
    const int one_below = lane_below(one, 1), other_below = lane_below(other, 1);
    const bool same = threadIdx.x % 32 > 0 && one == one_below && other == other_below;
    if (one != other && !same) join(labels, one, other);
}

// Give a node its final label, when all are joined; joined: whether there are others with the same.
__device__ __forceinline__ void settle(int* labels, int* joined, int node) {
    const int label = end_of<false>(labels, node);
    if (label == node) return;
    put(labels + node, label);
    put(joined + node, 1);
    if (joined[label] == 0) put(joined + label, 1);  // most threads find it there, and need not wait for one another
}
