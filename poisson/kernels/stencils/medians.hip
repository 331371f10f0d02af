// SPDX-License-Identifier: MIT
// The median of the links along an axis, from its highest digit to its lowest: each launch counts, of the values that
// begin with the digits so far, which digit comes next, and its last block says which one the median has.
//
// A launch has blocks for two values, the middle one from below (blockIdx.y = 0) and that from above. Where there is no
// value both are 0.

#define DIGIT 11
#define DIGITS (1 << DIGIT)

// What a launch leaves for the next one; all is zero before the first. `counts` and `blocks` are zero between launches.
struct Selection {
    unsigned long long begin;  // the digits so far
    unsigned rank;             // of the value among those that begin so
    unsigned blocks;           // that are done
    unsigned counts[DIGITS];
};

__device__ __forceinline__ double of_bits(unsigned long long bits) {
    union {
        unsigned long long bits;
        double value;
    } both;
    both.bits = bits;
    return both.value;
}

// The sum of the links of a node in the arrays that have a bit.
__device__ __forceinline__ double sum_of_links(const StencilLinks& a, int arrays, int i, int j, int k) {
    double total = 0;
#pragma unroll 1
    for (int array = 1; arrays >> array; ++array)
        if (arrays >> array & 1) total += a.at(array, i, j, k);
    return total;
}

// The next digit of a positive value, which begins at bit `shift` and has `digits` values; the first one begins at
// FIRST.
#define FIRST 52
KERNEL poisson_links_median(STENCIL_LINKS_PARAMETERS, int arrays, int shift, int bits, unsigned long long* selections,
                            double* result) {
    const StencilLinks a = STENCIL_LINKS;
    Selection& selection = reinterpret_cast<Selection*>(selections)[blockIdx.y];
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y, each = DIGITS / THREADS;
    __shared__ unsigned counts[DIGITS], sums[THREADS];
    __shared__ bool last;
    for (int digit = thread; digit < DIGITS; digit += THREADS) counts[digit] = 0;
    __syncthreads();
    const unsigned long long begin = selection.begin;
    // Where a is the same at many nodes, threads would wait for one another at one counter: each counts equal digits
    // that follow one another by itself.
    int before = 0;
    unsigned run = 0;
    for (int row = blockIdx.x * BLOCK_Y + threadIdx.y; row < ny * nz; row += gridDim.x * BLOCK_Y) {
        for (int i = threadIdx.x; i < nx; i += BLOCK_X) {
            const double link = sum_of_links(a, arrays, i, row % ny, row / ny);
            const unsigned long long from = bits_of(link) >> shift;
            if (!(link > 0) || from >> bits != begin) continue;
            const int digit = (int)from & ((1 << bits) - 1);
            if (digit != before && run > 0) {
                atomicAdd(counts + before, run);
                run = 0;
            }
            before = digit;
            ++run;
        }
    }
    if (run > 0) atomicAdd(counts + before, run);
    __syncthreads();
    for (int digit = thread; digit < DIGITS; digit += THREADS)
        if (counts[digit] > 0) atomicAdd(selection.counts + digit, counts[digit]);
    __threadfence();
    __syncthreads();
    if (thread == 0) last = atomicAdd(&selection.blocks, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    sums[thread] = 0;
    for (int digit = each * thread; digit < each * (thread + 1); ++digit) {
        counts[digit] = atomicAdd(selection.counts + digit, 0u);
        sums[thread] += counts[digit];
        selection.counts[digit] = 0;
    }
    __syncthreads();
    if (thread > 0) return;
    selection.blocks = 0;
    unsigned all = 0, rank = selection.rank;
    for (int other = 0; other < THREADS; ++other) all += sums[other];
    if (shift == FIRST) rank = (all + blockIdx.y - (all > 0)) / 2;
    int part = 0;
    while (all > 0 && rank >= sums[part]) rank -= sums[part++];
    int digit = each * part;
    while (all > 0 && rank >= counts[digit]) rank -= counts[digit++];
    const unsigned long long found = begin << bits | digit;
    selection.begin = found;
    selection.rank = rank;
    if (shift == 0) result[blockIdx.y] = of_bits(found);
}
