// SPDX-License-Identifier: MIT
// Direct solution on axes with tables (poisson/backends/gpu/eigenvectors.py): the tridiagonal systems along one axis,
// of each mode of the others, to which an angle adds a multiple of 1/r². A thread has one mode. All numbers are
// doubles.
//
// Options, beside those of the prelude: ACROSS (1: the rows of a mode are neighbours in memory, and the modes are not;
// a block then reads and writes CHUNK rows of all its modes through shared memory).

// Of each row: the links to the rows below and above, what a wall takes, 1/r², and its part of the mean.
#define NUMBERS 5

// Rows that are on their way from memory at a time.
#if ACROSS
#define CHUNK 32
#define UNROLL 4
#else
#define CHUNK 8
#define UNROLL CHUNK
#endif

// CHUNK rows of the mode of each thread: in registers, or those of the block in shared memory.
struct Chunk {
#if ACROSS
    double* tile;
    const index_t* origins;
    index_t live;  // modes of the block

    __device__ __forceinline__ double& operator[](int n) const { return tile[(CHUNK + 1) * threadIdx.x + n]; }
    template <class Visit>
    __device__ __forceinline__ void for_each(int count, int first, Visit visit) const {
        for (int n = threadIdx.x; n < THREADS * CHUNK; n += THREADS) {
            const int mode = n / CHUNK, row = first + n % CHUNK;
            if (mode < live && row < count) visit(tile[(CHUNK + 1) * mode + n % CHUNK], origins[mode] + row);
        }
        __syncthreads();
    }
#else
    double values[CHUNK];
    index_t origin, stride;
    bool live;

    __device__ __forceinline__ double& operator[](int n) { return values[n]; }
    template <class Visit>
    __device__ __forceinline__ void for_each(int count, int first, Visit visit) {
#pragma unroll
        for (int n = 0; n < CHUNK; ++n) {
            if (live && first + n < count) visit(values[n], origin + stride * (first + n));
        }
    }
#endif
};

// From f to u, times `scale`, in the place of f or beside it; the first row of mode 0 is at `begin` of both. `inner`
// neighbouring modes are `beside` apart, and each so many of them `behind` those before; rows are `stride` apart.
// shares: room for one number a row and mode. In `singular` systems the first mode has a solution up to a constant,
// where f has no mean; the one without a mean is taken.
KERNEL poisson_along_radius(const double* from, double* to, double* __restrict__ shares,
                            const double* __restrict__ rows, const double* __restrict__ others,
                            const double* __restrict__ of_angle, int count, index_t modes, index_t begin, int inner,
                            index_t beside, index_t behind, index_t stride, double scale, int singular) {
    const index_t first_mode = (index_t)blockIdx.x * THREADS, mode = first_mode + threadIdx.x;
    const index_t origin = begin + beside * (mode % inner) + behind * (mode / inner);
    const bool live = mode < modes, free = singular && mode == 0;
#if ACROSS
    __shared__ double tile[THREADS * (CHUNK + 1)];
    __shared__ index_t origins[THREADS];
    origins[threadIdx.x] = origin;
    __syncthreads();
    Chunk chunk = {tile, origins, modes - first_mode};
#else
    Chunk chunk;
    chunk.origin = origin;
    chunk.stride = stride;
    chunk.live = live;
#endif
    const double own = live ? others[mode] : 1, with_angle = live ? of_angle[mode] : 0;
    double x = 0, lost = 1, mean = 0;
    if (free) {
#pragma unroll 8
        for (int row = 0; row < count; ++row) mean += rows[NUMBERS * row + 4] * from[begin + stride * row];
    }
    for (int first = 0; first < count; first += CHUNK) {
        chunk.for_each(count, first, [&](double& value, index_t place) { value = from[place]; });
#pragma unroll UNROLL
        for (int n = 0; n < CHUNK; ++n) {
            const int row = first + n;
            if (!live || row >= count) continue;
            const double* const here = rows + NUMBERS * row;
            const double loss = own + with_angle * here[3] + here[2] + here[0] * lost;
            const double inverse = free && row == count - 1 ? 0 : 1 / (here[1] + loss);
            x = (scale * (chunk[n] - mean) + here[0] * x) * inverse;
            chunk[n] = x;
            shares[modes * row + mode] = here[1] * inverse;
            lost = loss * inverse;
        }
#if ACROSS
        __syncthreads();
#endif
        chunk.for_each(count, first, [&](double& value, index_t place) { to[place] = value; });
    }
    x = 0;
    for (int first = (count - 1) / CHUNK * CHUNK; first >= 0; first -= CHUNK) {
        chunk.for_each(count, first, [&](double& value, index_t place) { value = to[place]; });
#pragma unroll UNROLL
        for (int n = CHUNK - 1; n >= 0; --n) {
            const int row = first + n;
            if (!live || row >= count) continue;
            x = chunk[n] + (row + 1 < count ? shares[modes * row + mode] : 0) * x;
            chunk[n] = x;
        }
#if ACROSS
        __syncthreads();
#endif
        chunk.for_each(count, first, [&](double& value, index_t place) { to[place] = value; });
    }
    if (!free) return;
    mean = 0;
#pragma unroll 8
    for (int row = 0; row < count; ++row) mean += rows[NUMBERS * row + 4] * to[begin + stride * row];
    for (int row = 0; row < count; ++row) to[begin + stride * row] -= mean;
}
