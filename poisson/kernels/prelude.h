// What differs between CUDA, HIP and the tests' emulation on a CPU, and the types that every kernel uses.
//
// Options: REAL (float or double), DIMENSION (2 or 3), RULE_XL … RULE_ZU (the rules of the faces),
// BLOCK_X, BLOCK_Y (threads of a block), MARCH (nodes a thread visits along the slowest axis), UNROLL (how many of them
// the compiler takes together), RESIDENT (blocks that a multiprocessor must be able to hold: a bound on registers).

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

#define FIXED 0
#define MIRROR 1
#define WRAP 2

// Neighbouring nodes that a thread loads and stores as one access of 16 bytes. Rows start on 16-byte boundaries.
#define WIDTH (16 / (int)sizeof(real))
struct alignas(16) Pack {
    real node[WIDTH];
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

// The value of the lane `offset` above, among groups of 32 lanes: half a wavefront on AMD, a warp on NVIDIA.
template <class T>
__device__ __forceinline__ T lane_above(T value, int offset) {
#if (defined(__HIP__) || defined(__HIPCC__)) && !defined(POISSON_EMULATION)
    return __shfl_down(value, offset, 32);
#else
    return __shfl_down_sync(0xffffffffu, value, offset);
#endif
}

__device__ __forceinline__ double larger(double a, double b) { return a > b ? a : b; }

// The sum and the maximum over the threads of a block, always in the same order, into slot[0] and slot[1].
// Every thread of the block must call it.
__device__ __forceinline__ void reduce_block(double sum, double maximum, double* slot) {
    const int groups = THREADS / 32;
    __shared__ double sums[groups];
    __shared__ double maxima[groups];
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y;
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += lane_above(sum, offset);
        maximum = larger(maximum, lane_above(maximum, offset));
    }
    if (thread % 32 == 0) {
        sums[thread / 32] = sum;
        maxima[thread / 32] = maximum;
    }
    __syncthreads();
    if (thread == 0) {
        for (int group = 1; group < groups; ++group) {
            sum += sums[group];
            maximum = larger(maximum, maxima[group]);
        }
        slot[0] = sum;
        slot[1] = maximum;
    }
}

// The slot of this block among the partial results of a reduction.
__device__ __forceinline__ double* block_slot(double* partial) {
    return partial + 2 * (blockIdx.x + (index_t)gridDim.x * (blockIdx.y + (index_t)gridDim.y * blockIdx.z));
}
