// SPDX-License-Identifier: MIT
// What differs between CUDA, HIP and the tests' emulation on a CPU, and the types that every kernel uses.
//
// Options: REAL (float or double), DIMENSION (2 or 3), RULE_XL … RULE_ZU (the rules of the faces),
// SOURCE (0: f is zero and is not read; otherwise it need not be given), BLOCK_X, BLOCK_Y (threads of a block), MARCH
// (nodes a thread visits along the slowest axis), UNROLL (how many of them the compiler takes together), RESIDENT
// (blocks that a multiprocessor must be able to hold: a bound on registers).

#ifndef SOURCE
#define SOURCE 1
#endif

typedef REAL real;
typedef long long index_t;  // a grid may have more than 2^31 nodes

#define POISSON_FORMULA __device__ __forceinline__
#define THREADS (BLOCK_X * BLOCK_Y)
#if defined(__HIP__) || defined(__HIPCC__)
// The second bound has another meaning in HIP: wavefronts of a SIMD unit.
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)
#else
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
#endif

// Neighbouring nodes that a thread loads and stores as one access of 16 bytes. Rows start on 16-byte boundaries.
#define WIDTH (16 / (int)sizeof(real))
struct alignas(16) Pack {
    real node[WIDTH];
};

// The same nodes of an array of float32, whatever the type of the others.
struct alignas(4 * WIDTH) FloatPack {
    float node[WIDTH];
};

__device__ __forceinline__ Pack load(const real* from) { return *reinterpret_cast<const Pack*>(from); }

__device__ __forceinline__ void store(real* to, const Pack& pack) { *reinterpret_cast<Pack*>(to) = pack; }

// A store of values that this kernel does not read again, so that they do not displace those that it does.
__device__ __forceinline__ void store_streaming(real* to, const Pack& pack) {
#if defined(POISSON_EMULATION)
    store(to, pack);
#elif defined(__HIP__) || defined(__HIPCC__)
    typedef real vector __attribute__((ext_vector_type(WIDTH)));
    __builtin_nontemporal_store(*reinterpret_cast<const vector*>(&pack), reinterpret_cast<vector*>(to));
#else
    __stcs(reinterpret_cast<float4*>(to), *reinterpret_cast<const float4*>(&pack));
#endif
}

// 1 / x to a unit or two of rounding, where x is an ordinary number: a division takes five times as many operations.
__device__ __forceinline__ real inverse_of(real x) {
#if defined(POISSON_EMULATION)
    return 1 / x;
#else
    // With e = 1 - x y of a y of at least 20 bits the inverse is y (1 + e + e²).
#if defined(__HIP__) || defined(__HIPCC__)
    const real y = sizeof(real) == 8 ? (real)__builtin_amdgcn_rcp((double)x) : (real)__builtin_amdgcn_rcpf((float)x);
#else
    real y;
    if (sizeof(real) == 8) {
        double found;
        asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(found) : "d"((double)x));
        y = (real)found;
    } else {
        float found;
        asm("rcp.approx.f32 %0, %1;" : "=f"(found) : "f"((float)x));
        y = (real)found;
    }
#endif
    const real e = 1 - x * y;
    return y + y * (e + e * e);
#endif
}

// Which one a block is of those of a whole grid along y and z, and how many these are; and whether it has work.
struct Block {
    unsigned y, z, along_y, along_z;
    bool works;
};

// A launch has all blocks of the grid.
__device__ __forceinline__ Block this_block() { return Block{blockIdx.y, blockIdx.z, gridDim.y, gridDim.z, true}; }

// In 3D z counts the bands of MARCH planes within a strip of blocks along y, and then the strips: what two bands both
// read is still in the cache when the second comes.
__device__ __forceinline__ int bands_of(int nz) { return (nz + MARCH - 1) / MARCH; }
__device__ __forceinline__ int band_along_z(int nz, const Block& block = this_block()) {
    return block.z % bands_of(nz);
}
__device__ __forceinline__ int block_along_y(int nz, const Block& block = this_block()) {
    return block.z / bands_of(nz) * block.along_y + block.y;
}

// Copies from global to shared memory of the same thread that need no registers: several can be under way while the
// thread works on others. copies_committed() closes a batch; copies_arrived<N>() waits until all batches but the last N
// have come. Where the hardware has no such copies they are done at once.
template <class T>
__device__ __forceinline__ void copy_ahead(T* shared, const T* global) {
#if defined(POISSON_EMULATION) || defined(__HIP__) || defined(__HIPCC__)
    *shared = *global;
#else
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(sizeof(T)) : "memory");
#endif
}

__device__ __forceinline__ void copies_committed() {
#if !defined(POISSON_EMULATION) && !defined(__HIP__) && !defined(__HIPCC__)
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int PENDING>
__device__ __forceinline__ void copies_arrived() {
#if !defined(POISSON_EMULATION) && !defined(__HIP__) && !defined(__HIPCC__)
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// The value of the lane `offset` above, among groups of 32 lanes: half a wavefront on AMD, a warp on NVIDIA.
template <class T>
__device__ __forceinline__ T lane_above(T value, int offset) {
#if (defined(__HIP__) || defined(__HIPCC__)) && !defined(POISSON_EMULATION)
    return __shfl_down(value, offset, 32);
#else
    return __shfl_down_sync(0xffffffffu, value, offset);
#endif
}

// The value of the lane `offset` below, likewise.
template <class T>
__device__ __forceinline__ T lane_below(T value, int offset) {
#if (defined(__HIP__) || defined(__HIPCC__)) && !defined(POISSON_EMULATION)
    return __shfl_up(value, offset, 32);
#else
    return __shfl_up_sync(0xffffffffu, value, offset);
#endif
}

// The value of the lane whose number differs in the bits of a mask, likewise.
template <class T>
__device__ __forceinline__ T lane_across(T value, int mask) {
#if (defined(__HIP__) || defined(__HIPCC__)) && !defined(POISSON_EMULATION)
    return __shfl_xor(value, mask, 32);
#else
    return __shfl_xor_sync(0xffffffffu, value, mask);
#endif
}

template <class T>
__device__ __forceinline__ T larger(T a, T b) {
    return a > b ? a : b;
}

// Adds up the norms of values: squares in float64, the maximum in their own type, which is exact and cheaper.
struct Norms {
    double sum = 0;
    real maximum = 0;

    __device__ __forceinline__ void add(real value) {
        sum += (double)value * (double)value;
        maximum = fmax(maximum, fabs(value));  // one instruction in float32
    }
};

// The second number of a reduction: a maximum, or where a module is asked for that, another sum.
#ifndef SECOND_SUM
#define SECOND_SUM 0
#endif

template <class T>
__device__ __forceinline__ T joined(T a, T b) {
    return SECOND_SUM ? a + b : larger(a, b);
}

// The sum and the maximum over the threads of a block, always in the same order, into slot[0] and slot[1].
// Every thread of the block must call it.
__device__ __forceinline__ void reduce_block(double sum, double maximum, double* slot) {
    const int groups = THREADS / 32;
    __shared__ double sums[groups];
    __shared__ double maxima[groups];
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y;
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += lane_above(sum, offset);
        maximum = joined(maximum, lane_above(maximum, offset));
    }
    if (thread % 32 == 0) {
        sums[thread / 32] = sum;
        maxima[thread / 32] = maximum;
    }
    __syncthreads();
    if (thread == 0) {
        for (int group = 1; group < groups; ++group) {
            sum += sums[group];
            maximum = joined(maximum, maxima[group]);
        }
        slot[0] = sum;
        slot[1] = maximum;
    }
}

// What a block adds to a reduction.
struct alignas(16) Partial {
    double sum, maximum;
};

// A partial result that another block has stored, past any cache that blocks do not share.
__device__ __forceinline__ Partial load_partial(const Partial* from) {
#if defined(POISSON_EMULATION)
    return *from;
#elif defined(__HIP__) || defined(__HIPCC__)
    Partial partial;
    partial.sum = __hip_atomic_load(&from->sum, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    partial.maximum = __hip_atomic_load(&from->maximum, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return partial;
#else
    const double2 pair = __ldcg(reinterpret_cast<const double2*>(from));
    return Partial{pair.x, pair.y};
#endif
}

// The sum and the maximum over all threads of the grid, into result[0] and result[1]; every thread must call it that
// has work.
//
// Each block leaves its part in `partial`, behind a counter of the blocks that have done so, and the last one joins the
// parts in the order of the blocks: the result has the same bits at every run. The counter is zero before and after.
__device__ __forceinline__ void reduce_grid(double sum, double maximum, double* partial, double* result,
                                            const Block& here = this_block()) {
    __shared__ bool last;
    unsigned* const counter = reinterpret_cast<unsigned*>(partial);
    Partial* const parts = reinterpret_cast<Partial*>(partial) + 1;
    const index_t block = blockIdx.x + (index_t)gridDim.x * (here.y + (index_t)here.along_y * here.z);
    const unsigned blocks = gridDim.x * here.along_y * here.along_z;
    const unsigned thread = threadIdx.x + BLOCK_X * threadIdx.y;
    reduce_block(sum, maximum, &parts[block].sum);
    if (thread == 0) {
        __threadfence();
        last = atomicAdd(counter, 1u) == blocks - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    sum = maximum = 0;
    // One block has the whole latency of memory to itself: many loads must be under way before the first is used.
#pragma unroll 8
    for (unsigned part = thread; part < blocks; part += THREADS) {
        const Partial other = load_partial(parts + part);
        sum += other.sum;
        maximum = joined(maximum, other.maximum);
    }
    reduce_block(sum, maximum, result);
    if (thread == 0) *counter = 0;
}
