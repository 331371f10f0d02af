// SPDX-License-Identifier: MIT
// Lists that blocks append to in any order, and that are sorted afterwards.

typedef unsigned long long count_t;

#define NUMBER_OF_THREAD ((index_t)blockIdx.x * THREADS + threadIdx.x + BLOCK_X * threadIdx.y)

// A key that stands for nothing; sorted, it comes last.
#define NO_KEY 0x7fffffffffffffffLL

// Append the values of the threads that have one to a list of `length` values. Every thread of the block must call it.
template <class T>
__device__ __forceinline__ void append(bool adds, T value, T* list, count_t* length) {
    __shared__ unsigned added;
    __shared__ count_t begin;
    const bool first = threadIdx.x + threadIdx.y == 0;
    if (first) added = 0;
    __syncthreads();
    const unsigned place = adds ? atomicAdd(&added, 1u) : 0;
    __syncthreads();
    if (first && added > 0) begin = atomicAdd(length, (count_t)added);
    __syncthreads();
    if (adds) list[begin + place] = value;
}
