// SPDX-License-Identifier: MIT
// What the device computes at most: independent chains of multiply-adds in registers, several a thread, so that none
// waits for the one before.

#define CHAINS 8

// A thread makes CHAINS * rounds multiply-adds x = x a + b, and stores the sum of its chains.
KERNEL poisson_multiply_adds(real* out, real a, real b, int rounds) {
    const int thread = blockIdx.x * BLOCK_X + threadIdx.x;
    real x[CHAINS];
#pragma unroll
    for (int n = 0; n < CHAINS; ++n) x[n] = (real)n;
#pragma unroll UNROLL
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int n = 0; n < CHAINS; ++n) x[n] = x[n] * a + b;
    }
    real sum = 0;
#pragma unroll
    for (int n = 0; n < CHAINS; ++n) sum += x[n];
    out[thread] = sum;
}
