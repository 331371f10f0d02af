// SPDX-License-Identifier: MIT
// Typical links along axes: their geometric means, and their medians.
//
// The medians are found from their highest digits to their lowest: each launch counts, of the values
// that begin with the digits so far, which digit comes next, and the last block of an axis says which one its median
// has.
//
// A median is the mean of two values, the middle one from below and that from above. Where there is no value both are
// 0.

#define DIGIT 11
#define DIGITS (1 << DIGIT)
#define AHEAD 4

// What a launch leaves of an axis for the next one, of both values; all is zero before the first. `counts` and `blocks`
// are zero between launches. While both begin alike the first counts are those of both.
struct Selection {
    unsigned long long begin[2];  // the digits so far
    unsigned rank[2];             // of the value among those that begin so
    unsigned blocks, unused;      // that are done
    unsigned counts[2 * DIGITS];
};

// Counts digits. Where a is the same at many nodes, threads would wait for one another at one counter: each counts
// equal digits that follow one another by itself.
struct Counter {
    unsigned* counts;
    int before;
    unsigned run;

    __device__ __forceinline__ void flush() {
        if (run > 0) atomicAdd(counts + before, run);
        run = 0;
    }
    __device__ __forceinline__ void add(int digit) {
        if (digit != before) flush();
        before = digit;
        ++run;
    }
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

// The sum of the logarithms of positive values, and how many there are.
KERNEL poisson_links_logarithms(STENCIL_LINKS_PARAMETERS, int arrays, double* partial, double* result) {
    const StencilLinks a = STENCIL_LINKS;
    double sum = 0, count = 0;
    for (int row = blockIdx.x * BLOCK_Y + threadIdx.y; row < ny * nz; row += gridDim.x * BLOCK_Y) {
        for (int i = threadIdx.x; i < nx; i += BLOCK_X) {
            const double link = sum_of_links(a, arrays, i, row % ny, row / ny);
            if (!(link > 0)) continue;
            sum += log(link);
            ++count;
        }
    }
    reduce_grid(sum, count, partial, result);
}

// The next digit of positive values, which begins at bit `shift` and has `bits` bits; the first one begins at FIRST,
// and the last one at `lowest`, below which all bits are zero.
#define FIRST 52
KERNEL poisson_links_median(STENCIL_LINKS_PARAMETERS, int arrays_0, int arrays_1, int arrays_2, int shift, int bits,
                            int lowest, unsigned long long* selections, double* result_0, double* result_1,
                            double* result_2) {
    const StencilLinks a = STENCIL_LINKS;
    const int axis = blockIdx.y, arrays = axis == 0 ? arrays_0 : axis == 1 ? arrays_1 : arrays_2;
    Selection& selection = *(reinterpret_cast<Selection*>(selections) + axis);
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y, each = DIGITS / THREADS;
    __shared__ unsigned counts[2 * DIGITS], sums[THREADS];
    __shared__ bool last;
    for (int digit = thread; digit < 2 * DIGITS; digit += THREADS) counts[digit] = 0;
    __syncthreads();
    const unsigned long long begin = selection.begin[0], other = selection.begin[1];
    Counter lower{counts, 0, 0}, upper{counts + DIGITS, 0, 0};
    for (int row = blockIdx.x * BLOCK_Y + threadIdx.y; row < ny * nz; row += gridDim.x * BLOCK_Y) {
        for (int i = threadIdx.x; i < nx; i += AHEAD * BLOCK_X) {
            double links[AHEAD];
#pragma unroll
            for (int n = 0; n < AHEAD; ++n)
                links[n] = i + n * BLOCK_X < nx ? sum_of_links(a, arrays, i + n * BLOCK_X, row % ny, row / ny) : 0.0;
#pragma unroll
            for (int n = 0; n < AHEAD; ++n) {
                const unsigned long long from = bits_of(links[n]) >> shift;
                const int digit = (int)from & ((1 << bits) - 1);
                if (!(links[n] > 0)) continue;
                if (from >> bits == begin)
                    lower.add(digit);
                else if (from >> bits == other)
                    upper.add(digit);
            }
        }
    }
    lower.flush();
    upper.flush();
    __syncthreads();
    for (int digit = thread; digit < 2 * DIGITS; digit += THREADS)
        if (counts[digit] > 0) atomicAdd(selection.counts + digit, counts[digit]);
    __threadfence();
    __syncthreads();
    if (thread == 0) last = atomicAdd(&selection.blocks, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int digit = thread; digit < 2 * DIGITS; digit += THREADS) {
        counts[digit] = atomicAdd(selection.counts + digit, 0u);
        selection.counts[digit] = 0;
    }
    double* const result = axis == 0 ? result_0 : axis == 1 ? result_1 : result_2;
#pragma unroll 1
    for (int value = 0; value < 2; ++value) {
        const unsigned* const own = counts + (value == 1 && begin != other ? DIGITS : 0);
        unsigned sum = 0;
        __syncthreads();
        for (int digit = each * thread; digit < each * (thread + 1); ++digit) sum += own[digit];
        sums[thread] = sum;
        for (int step = 1; step < THREADS; step *= 2) {
            __syncthreads();
            const unsigned before = thread < step ? 0 : sums[thread - step];
            __syncthreads();
            sums[thread] += before;
        }
        __syncthreads();
        const unsigned all = sums[THREADS - 1], from = sums[thread] - sum;
        unsigned rank = shift == FIRST ? (all + value - (all > 0)) / 2 : selection.rank[value];
        if (all > 0 ? rank < from || rank >= from + sum : thread > 0) continue;
        rank -= from;
        int digit = each * thread;
        while (all > 0 && rank >= own[digit]) rank -= own[digit++];
        const unsigned long long found = (value == 0 ? begin : other) << bits | digit;
        selection.begin[value] = found;
        selection.rank[value] = rank;
        selection.blocks = 0;
        if (shift == lowest) result[value] = of_bits(found << lowest);
    }
}
