# SPDX-License-Identifier: MIT
"""The emulation of the GPU runs kernels as a GPU would, and finds the faults that it is for."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.emulation import ArgumentError, EmulatedKernel, EmulatedRuntime, GuardError, LaunchError, Order

REALS = pytest.mark.parametrize("real", ["float", "double"])
ORDERS = [(Order.FORWARD, 0), (Order.REVERSED, 0), (Order.SHUFFLED, 1), (Order.SHUFFLED, 2)]
DTYPES = {"float": np.float32, "double": np.float64}


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> EmulatedRuntime:
    return EmulatedRuntime(cache=tmp_path_factory.mktemp("kernels"))


@pytest.fixture(autouse=True)
def forward(runtime: EmulatedRuntime) -> Iterator[None]:
    """Each test starts in the forward order."""
    yield
    runtime.order, runtime.seed = Order.FORWARD, 0


@pytest.fixture(params=ORDERS, ids=lambda item: f"{item[0].name.lower()}-{item[1]}")
def any_order(request: pytest.FixtureRequest, runtime: EmulatedRuntime) -> None:
    runtime.order, runtime.seed = request.param


def device(runtime: EmulatedRuntime, values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    host = np.asarray(values, dtype=dtype)
    array = runtime.allocate(host.size, dtype).reshape(host.shape)
    runtime.upload(host, array)
    return array


def kernel(runtime: EmulatedRuntime, source: str, *options: str, name: str = "k") -> EmulatedKernel:
    return runtime.compile(source, options).get_function(name)


# ---- execution ------------------------------------------------------------------------------------------------------

AXPY = """
static __device__ __forceinline__ REAL scaled(REAL a, REAL x) { return a * x; }
extern "C" __global__ void __launch_bounds__(THREADS, 2)
k(const int n, const REAL a, const REAL* __restrict__ x, REAL* __restrict__ y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += scaled(a, x[i]);
}
"""


@REALS
@pytest.mark.usefixtures("any_order")
def test_elementwise_kernel_equals_numpy_bit_for_bit(runtime: EmulatedRuntime, real: str) -> None:
    dtype = DTYPES[real]
    host = np.random.default_rng(1).standard_normal((2, 1000)).astype(dtype)
    x, y = device(runtime, host[0], dtype), device(runtime, host[1], dtype)
    axpy = kernel(runtime, AXPY, f"-DREAL={real}", "-DTHREADS=128", "-std=c++11", "--use_fast_math")
    axpy((8,), (128,), (np.int32(1000), dtype(0.1), x, y))
    assert np.array_equal(runtime.download(y), host[1] + dtype(0.1) * host[0])
    runtime.check_guards()


REDUCTION = """
extern "C" __global__ void k(const unsigned n, const REAL* x, REAL* total, unsigned* arrived) {
    __shared__ REAL part[32];
    __shared__ bool last;
    const unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    REAL v = i < n ? x[i] : REAL(0);
    for (unsigned offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
    if (t % 32 == 0) part[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < blockDim.x / 32 ? part[t] : REAL(0);
        for (int mask = 16; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
        if (t == 0) {
            total[1 + blockIdx.x] = v;
            __threadfence();
            last = atomicAdd(arrived, 1u) == gridDim.x - 1;
        }
    }
    __syncthreads();
    if (last && t == 0) {
        v = 0;
        for (unsigned b = 1; b <= gridDim.x; ++b) v += total[b];
        total[0] = v;
    }
}
"""


@REALS
@pytest.mark.usefixtures("any_order")
def test_reduction_with_shuffles_shared_memory_and_atomics(runtime: EmulatedRuntime, real: str) -> None:
    dtype = DTYPES[real]
    x = device(runtime, np.arange(1, 901) ** 2 % 64, dtype)  # small integers: the sum is exact in any order
    total, arrived = runtime.allocate(5, dtype), device(runtime, [0], np.uint32)
    kernel(runtime, REDUCTION, f"-DREAL={real}")((4,), (256,), (np.uint32(900), x, total, arrived))
    assert runtime.download(total)[0] == np.sum(np.arange(1, 901) ** 2 % 64)
    assert runtime.download(arrived)[0] == 4


SHUFFLES = """
extern "C" __global__ void k(int* out) {
    const int t = threadIdx.x;
    out[t] = __shfl_down_sync(0xffffffffu, t, 3);
    out[32 + t] = __shfl_down_sync(0xffffffffu, t, 3, 8);
    out[64 + t] = __shfl_xor_sync(0xffffffffu, t, 5);
    out[96 + t] = __shfl_xor_sync(0xffffffffu, t, 12, 8);
}
"""


@pytest.mark.usefixtures("any_order")
def test_shuffles_keep_the_own_value_where_cuda_does(runtime: EmulatedRuntime) -> None:
    out = runtime.allocate(128, np.int32)
    kernel(runtime, SHUFFLES)((1,), (32,), (out,))
    lanes = np.arange(32)
    down, down_8, xor, xor_8 = runtime.download(out).reshape(4, 32)
    assert np.array_equal(down, np.where(lanes + 3 < 32, lanes + 3, lanes))
    assert np.array_equal(down_8, np.where(lanes % 8 + 3 < 8, lanes + 3, lanes))
    assert np.array_equal(xor, lanes ^ 5)
    assert np.array_equal(xor_8, np.where((lanes ^ 12) // 8 > lanes // 8, lanes, lanes ^ 12))


def test_a_shuffle_that_reads_a_lane_that_is_not_there_gives_nan(runtime: EmulatedRuntime) -> None:
    source = 'extern "C" __global__ void k(double* out) { out[threadIdx.x] = __shfl_down_sync(~0u, 1.0, 4); }'
    out = runtime.allocate(20, np.float64)
    kernel(runtime, source)((1,), (20,), (out,))
    assert np.array_equal(np.isnan(runtime.download(out)), np.arange(20) >= 16)


INDICES = """
extern "C" __global__ void k(long long* out) {
    const long long x = blockIdx.x * blockDim.x + threadIdx.x;
    const long long y = blockIdx.y * blockDim.y + threadIdx.y;
    const long long z = blockIdx.z * blockDim.z + threadIdx.z;
    out[(z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x] = x + 100 * y + 10000 * z;
}
"""


@pytest.mark.usefixtures("any_order")
@pytest.mark.parametrize("grid, block", [((3,), (7,)), ((3, 2), (8, 4)), ((2, 3, 4), (4, 2, 3)), ((2, 1, 5), (1, 9))])
def test_grids_and_blocks_of_any_dimension(
    runtime: EmulatedRuntime, grid: tuple[int, ...], block: tuple[int, ...]
) -> None:
    grids, blocks = np.ones(3, int), np.ones(3, int)
    grids[: len(grid)], blocks[: len(block)] = grid, block
    nx, ny, nz = grids * blocks
    out = runtime.allocate(nx * ny * nz, np.int64)
    kernel(runtime, INDICES)(grid, block, (out,))
    z, y, x = np.meshgrid(np.arange(nz), np.arange(ny), np.arange(nx), indexing="ij")
    assert np.array_equal(runtime.download(out), (x + 100 * y + 10000 * z).ravel())


def test_threads_that_returned_do_not_hold_up_a_barrier(runtime: EmulatedRuntime) -> None:
    source = """
    extern "C" __global__ void k(int* out) {
        __shared__ int copy[64];
        if (threadIdx.x >= 40) return;
        copy[threadIdx.x] = threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = copy[39 - threadIdx.x];
    }
    """
    out = runtime.allocate(40, np.int32)
    kernel(runtime, source)((1,), (64,), (out,))
    assert np.array_equal(runtime.download(out), np.arange(39, -1, -1))


def test_blocks_run_in_the_order_chosen(runtime: EmulatedRuntime) -> None:
    source = """
    extern "C" __global__ void k(unsigned* next, int* order) {
        order[atomicAdd(next, 1u)] = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    """
    record = kernel(runtime, source)
    seen = {}
    for order, seed in ORDERS:
        runtime.order, runtime.seed = order, seed
        places = runtime.allocate(24, np.int32)
        record((2, 3, 4), (1,), (device(runtime, [0], np.uint32), places))
        seen[order, seed] = tuple(runtime.download(places).tolist())
    assert seen[Order.FORWARD, 0] == tuple(range(24))
    assert seen[Order.REVERSED, 0] == tuple(range(23, -1, -1))
    assert all(sorted(places) == list(range(24)) for places in seen.values())
    assert len(set(seen.values())) == 4


def test_shared_memory_is_nan_at_the_start_of_each_block(runtime: EmulatedRuntime) -> None:
    source = """
    __device__ __forceinline__ double previous(double value) {
        __shared__ double last;
        const double before = last;
        last = value;
        return before;
    }
    extern "C" __global__ void k(double* out) {
        __shared__ double x[4];
        out[2 * blockIdx.x] = x[3];
        out[2 * blockIdx.x + 1] = previous(1.0);
        x[3] = 1.0;
    }
    """
    out = device(runtime, np.zeros(6), np.float64)
    kernel(runtime, source)((3,), (1,), (out,))
    assert np.isnan(runtime.download(out)).all()


# ---- arguments ------------------------------------------------------------------------------------------------------

SCALARS = [
    ("bool", np.bool_(True)),
    ("int", np.int32(-7)),
    ("unsigned", np.uint32(2**32 - 1)),
    ("long long", np.int64(-(2**40))),
    ("size_t", np.uint64(2**63 + 2048)),
    ("float", np.float32(1.5)),
    ("double", np.float64(-1e300)),
]


@pytest.mark.parametrize("ctype, value", SCALARS, ids=[ctype for ctype, _ in SCALARS])
def test_scalars_of_each_type(runtime: EmulatedRuntime, ctype: str, value: Any) -> None:
    copy = kernel(
        runtime, 'extern "C" __global__ void k(double* y, T v, const int two) { *y = v; y[1] = two; }', f"-DT={ctype}"
    )
    y = runtime.allocate(2, np.float64)
    copy((1,), (1,), (y, value, np.int32(2)))
    assert runtime.download(y).tolist() == [float(value), 2.0]
    for other in ("1", 1, 1.0, None, np.complex128(1), np.int16(1), y):
        with pytest.raises(ArgumentError, match=r"k: argument 1 is .*; the kernel takes"):
            copy((1,), (1,), (y, other, np.int32(2)))


@pytest.mark.parametrize(
    "dtype, ctype",
    [("f4", "float"), ("f8", "double"), ("i4", "int"), ("u4", "unsigned"), ("i8", "long long"), ("u8", "size_t")],
)
def test_arrays_of_each_type(runtime: EmulatedRuntime, dtype: str, ctype: str) -> None:
    double = kernel(
        runtime,
        f'extern "C" __global__ void k(const {ctype}* x, {ctype}* y) {{ y[threadIdx.x] = 2 * x[threadIdx.x]; }}',
    )
    x, y = device(runtime, [1, 2, 3], dtype), runtime.allocate(3, dtype)
    double((1,), (3,), (x, y))
    assert runtime.download(y).tolist() == [2, 4, 6]
    for other in {"f4", "f8", "i4", "u4", "i8", "u8"} - {dtype}:
        with pytest.raises(ArgumentError, match=r"k: argument 1 is an array of .*; the kernel takes"):
            double((1,), (3,), (x, runtime.allocate(3, other)))


def test_a_view_passes_the_address_of_its_first_element(runtime: EmulatedRuntime) -> None:
    rows = device(runtime, np.zeros((4, 16)), np.float64)
    window = rows[1:3, 2:9]
    kernel(runtime, 'extern "C" __global__ void k(double* x) { x[16 * blockIdx.x + threadIdx.x] = 1; }')(
        (2,), (7,), (window,)
    )
    assert (window == 1).all()
    assert rows.sum() == 14


AXPY_ARGUMENTS = (np.int32(4), np.float64(1), "x", "y")


@pytest.mark.parametrize(
    "grid, block, changed, message",
    [
        ((1,), (4,), {1: np.float32(1)}, "k: argument 1 is a scalar of float32; the kernel takes float64"),
        ((1,), (4,), {1: 1.0}, "k: argument 1 is a Python float; the kernel takes float64"),
        ((1,), (4,), {2: np.float64(1)}, r"k: argument 2 is a scalar of float64; the kernel takes const float64\*"),
        ((1,), (4,), {3: np.zeros(4)}, "k: argument 3 is host memory"),
        ((1,), (4,), {3: None}, r"k: argument 3 is a Python NoneType; the kernel takes float64\*"),
        ((0,), (4,), {}, r"k: a grid of \(0,\)"),
        ((1, 65536), (4,), {}, r"k: a grid of \(1, 65536\)"),
        ((1,), (), {}, r"k: a block of \(\)"),
        ((1,), (1, 1, 65), {}, r"k: a block of \(1, 1, 65\)"),
        ((1,), (129,), {}, "k: a block of 129 threads; at most 128 are allowed"),
    ],
)
def test_launches_that_do_not_fit_are_refused(
    runtime: EmulatedRuntime, grid: tuple[int, ...], block: tuple[int, ...], changed: dict[int, Any], message: str
) -> None:
    arrays = {"x": device(runtime, np.ones(4), np.float64), "y": device(runtime, np.ones(4), np.float64)}
    arguments = [arrays[item] if isinstance(item, str) else item for item in AXPY_ARGUMENTS]
    for position, value in changed.items():
        arguments[position] = value
    axpy = kernel(runtime, AXPY, "-DREAL=double", "-DTHREADS=(8 * (16))")
    with pytest.raises(ArgumentError, match=message):
        axpy(grid, block, arguments)
    assert runtime.download(arrays["y"]).tolist() == [1, 1, 1, 1]
    with pytest.raises(ArgumentError, match="k: 3 arguments for 4 parameters"):
        axpy((1,), (4,), arguments[:3])


# ---- faults ---------------------------------------------------------------------------------------------------------

NEIGHBOUR = """
extern "C" __global__ void k(double* out) {
    __shared__ double x[64];
    x[threadIdx.x] = threadIdx.x;
    BARRIER
    out[threadIdx.x] = x[(threadIdx.x + 1) % 64];
}
"""


def test_a_missing_barrier_changes_the_result_with_the_order(runtime: EmulatedRuntime) -> None:
    results: dict[tuple[str, Order, int], list[np.ndarray[Any, Any]]] = {}
    for barrier in ("__syncthreads();", ""):
        neighbour = kernel(runtime, NEIGHBOUR.replace("BARRIER", barrier))
        for order, seed in (*ORDERS, *ORDERS):
            runtime.order, runtime.seed = order, seed
            out = runtime.allocate(64, np.float64)
            neighbour((1,), (64,), (out,))
            results.setdefault((barrier, order, seed), []).append(runtime.download(out))
    exact = np.roll(np.arange(64.0), -1)
    for (barrier, order, _), (first, second) in results.items():
        assert np.array_equal(first, second, equal_nan=True)
        if barrier:
            assert np.array_equal(first, exact)
        elif order is not Order.SHUFFLED:
            unwritten = slice(0, 63) if order is Order.FORWARD else slice(63, 64)
            assert np.isnan(first[unwritten]).all()
            assert np.isnan(first).sum() == (63 if order is Order.FORWARD else 1)
        else:
            assert 1 < np.isnan(first).sum() < 63


@pytest.mark.parametrize("offset, index", [(-1, -1), (1, 64), (40, 64), (-60, -60)])
def test_a_write_outside_an_array_is_found(runtime: EmulatedRuntime, offset: int, index: int) -> None:
    shift = kernel(runtime, 'extern "C" __global__ void k(const int by, float* x) { x[(int)threadIdx.x + by] = 0; }')
    x = runtime.allocate(64, np.float32)
    message = f"kernel k wrote outside an array of 64 items of float32: {abs(offset)} items, the first at index {index}"
    with pytest.raises(GuardError, match=message):
        shift((1,), (64,), (np.int32(offset), x))
    with pytest.raises(GuardError, match=f"the first at index {index}"):
        runtime.check_guards()


@REALS
def test_arithmetic_in_place_on_a_guard_is_found(runtime: EmulatedRuntime, real: str) -> None:
    x = runtime.allocate(8, DTYPES[real])
    with pytest.raises(GuardError, match="1 items, the first at index 8"):
        kernel(runtime, f'extern "C" __global__ void k({real}* x) {{ x[8] *= 2; }}')((1,), (1,), (x,))


def test_fresh_arrays_and_reads_outside_them_are_nan(runtime: EmulatedRuntime) -> None:
    x, y = runtime.allocate(2, np.float64), device(runtime, [0, 0, 0], np.float64)
    kernel(
        runtime,
        'extern "C" __global__ void k(const double* x, double* y) { y[threadIdx.x] = x[(int)threadIdx.x - 1]; }',
    )((1,), (3,), (x, y))
    assert np.isnan(x).all()
    assert np.isnan(runtime.download(y)).all()


@pytest.mark.parametrize(
    "body, message",
    [
        (
            "if (threadIdx.x < 3) {\n__syncthreads();\n} else {\n__syncthreads();\n}",
            r"kernel k, block \(0, 0, 0\): thread \(0, 0, 0\) waits at __syncthreads in line 2, "
            r"thread \(3, 0, 0\) at __syncthreads in line 4",
        ),
        (
            "double v = 1;\nif (threadIdx.x < 16)\nv = __shfl_down_sync(~0u, v, 8);\n__syncthreads();",
            r"thread \(0, 0, 0\) waits at __shfl_down_sync in line 3, thread \(16, 0, 0\) at __syncthreads in line 4",
        ),
        ("__shfl_xor_sync(threadIdx.x ? ~0u : 3u, 1, 1);", "different masks at __shfl_xor_sync in line 1"),
        ("__shfl_xor_sync(1u, 1, 1);", r"thread \(1, 0, 0\): the mask 0x1 .* leaves out its own lane"),
        ("__shfl_down_sync(~0u, 1, 1, 5);", "the width 5 at __shfl_down_sync in line 1 is not a power of two"),
        (
            "__shared__ double tile[2][9];\ntile[0][threadIdx.x] = 1;",
            r"kernel k, block \(0, 0, 0\), thread \(9, 0, 0\): index 9 is outside the array in line 2",
        ),
        (
            "x[-(1ll << 36)] = 1;",
            r"kernel k, block \(0, 0, 0\), thread \(0, 0, 0\): an access outside all arrays, at address 0x",
        ),
        ("x[0] = 64 / (int)threadIdx.y;", "an integer division by zero"),
        (
            "struct alignas(16) Pair { double a, b; };\nx[2] = ((Pair*)(x + 1))->b;",
            r"an access to the address 0x\w+8 in line 2, which is not aligned for its type",
        ),
    ],
    ids=["barriers", "barrier-shuffle", "masks", "mask-without-self", "width", "bounds", "address", "division", "pair"],
)
def test_faults_of_a_kernel_end_its_launch(runtime: EmulatedRuntime, body: str, message: str) -> None:
    good = 'extern "C" __global__ void good(double* x) { __syncthreads(); x[threadIdx.x] = 2; }'
    module = runtime.compile(f'extern "C" __global__ void k(double* x) {{ {body} }}\n{good}')
    x = runtime.allocate(64, np.float64)
    for _ in range(2):
        with pytest.raises(LaunchError, match=message):
            module.get_function("k")((2,), (64,), (x,))
        module.get_function("good")((1,), (64,), (x,))  # the fault leaves nothing behind
        assert (runtime.download(x) == 2).all()
