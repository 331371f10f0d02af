# SPDX-License-Identifier: MIT
"""The modules and the memory of the emulated GPU: what is compiled and kept, and what arrays are like.

Covers poisson.backends.gpu.runtime.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.emulation import ArgumentError, CompilationError, EmulatedRuntime, build
from test_emulation import device, kernel


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> EmulatedRuntime:
    return EmulatedRuntime(cache=tmp_path_factory.mktemp("kernels"))


def test_modules_with_the_same_names_live_side_by_side(runtime: EmulatedRuntime) -> None:
    source = """
    __constant__ int table[2] = {VALUE, VALUE + 1};
    __device__ int value() { return table[threadIdx.x]; }
    extern "C" __global__ void update(int* x) { x[threadIdx.x] = value(); }
    """
    modules = [runtime.compile(source, (f"-DVALUE={value}",)) for value in (10, 20, 30)]
    x = runtime.allocate(2, np.int32)
    for _ in range(2):
        for module, value in zip(modules, (10, 20, 30), strict=True):
            module.get_function("update")((1,), (2,), (x,))
            assert runtime.download(x).tolist() == [value, value + 1]


def test_kernels_are_found_by_name_and_linkage(runtime: EmulatedRuntime) -> None:
    module = runtime.compile(
        "#if defined(POISSON_EMULATION) && !defined(LEFT_OUT)\n"
        'extern "C" __global__ void declared(int* x);\n'
        'extern "C" __global__ void declared(int* x) { *x = 1; }\n'
        "__global__ void mangled(int* x) { *x = 1; }\n#else\n"
        'extern "C" __global__ void left_out(int* x) { *x = 1; }\n#endif\n'
    )
    assert [str(parameter) for parameter in module.get_function("declared").parameters] == ["int32*"]
    with pytest.raises(ArgumentError, match='mangled is not declared extern "C"'):
        module.get_function("mangled")
    with pytest.raises(ArgumentError, match="no kernel left_out"):
        module.get_function("left_out")


@pytest.mark.parametrize(
    "source, message",
    [
        ('extern "C" __global__ void k(int* x) {\n*x = nothing;\n}', "kernels:2.*nothing"),
        ('extern "C" __global__ void k(int* x) { threadIdx.x = 1; }', "kernels:1.*read-only"),
        ('struct S { int v; };\nextern "C" __global__ void k(S s) {}', "pointers to numbers, and numbers"),
        ('extern "C" __global__ void k(double* x) { volatile double a[4096]; a[0] = *x; *x = a[0]; }', "frame size"),
    ],
    ids=["name", "assignment", "structure", "frame"],
)
def test_sources_that_do_not_compile(runtime: EmulatedRuntime, source: str, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        kernel(runtime, source)


def test_a_library_is_built_once_for_what_options_make_of_a_source(tmp_path: Path) -> None:
    runtime = EmulatedRuntime(cache=tmp_path)
    source = 'extern "C" __global__ void k(int* x) { *x = N; }'
    for options in (("-DN=1",), ("-DN=1", "-O3"), ("-DN=2",), ("-DN=1", "-DUNUSED=3"), ("-DN=1",)):
        kernel(runtime, source, *options)
    assert len({path.resolve() for path in tmp_path.glob("*/*.so")}) == 2


def test_what_is_built_serves_a_checkout_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, made = EmulatedRuntime(cache=tmp_path / "kept"), []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(build, "HEADER", Path(shutil.copy(build.HEADER, tmp_path / name)))
        kernel(runtime, 'extern "C" __global__ void k(int* x) { *x = 1; }')
        made.append(sorted((tmp_path / "kept").rglob("*")))
    assert made[0] == made[1] != []


def test_the_first_kernel_of_a_module_is_compiled_alone_and_the_others_together(tmp_path: Path) -> None:
    runtime = EmulatedRuntime(cache=tmp_path)
    names = ("k1", "k1_norm", "k2", "k3")
    source = "".join(f'extern "C" __global__ void {name}(int* x) {{ *x += {name[1]}; }}' for name in names)
    x = device(runtime, [0], np.int32)
    for name, total, made in (("k1", 1, names[:2]), ("k3", 4, names), ("k1_norm", 5, names), ("k2", 7, names)):
        kernel(runtime, source, name=name)((1,), (1,), (x,))
        assert {path.name for path in tmp_path.glob("*/*.so")} == {f"kernel_{name}.so" for name in made}
        assert runtime.download(x).tolist() == [total]


def test_memory_is_aligned_guarded_and_released(runtime: EmulatedRuntime) -> None:
    for dtype in (np.float32, np.float64, np.int32, np.uint32, np.int64):
        array = runtime.allocate(1001, dtype)
        assert array.shape == (1001,)
        assert array.dtype == dtype
        assert array.ctypes.data % 256 == 0
        assert (array.view(np.uint8) == 0xFF).all()
    for count, refused in ((0, "f8"), (4, "c16"), (4, "i1"), (4, "f2")):
        with pytest.raises(ArgumentError):
            runtime.allocate(count, refused)
    array = runtime.allocate(4, np.float64)
    alive = array[1:3]
    del array
    runtime.upload(np.array([1.0, 2.0]), alive)
    assert runtime.download(alive).tolist() == [1.0, 2.0]
    free, total = runtime.memory()
    assert 0 < free <= total


@pytest.mark.parametrize("host", [np.zeros(3), np.zeros(1), np.zeros((1, 4))])
def test_transfers_that_do_not_fit_are_refused(runtime: EmulatedRuntime, host: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ArgumentError, match="upload of"):
        runtime.upload(host, runtime.allocate(4, np.float64))
    with pytest.raises(ArgumentError, match="host memory"):
        runtime.upload(host, np.zeros_like(host))
    with pytest.raises(ArgumentError, match="host memory"):
        runtime.download(host)


def test_a_captured_function_runs_at_each_call(runtime: EmulatedRuntime) -> None:
    x = device(runtime, [0], np.uint32)
    increment = kernel(runtime, 'extern "C" __global__ void k(unsigned* x) { atomicAdd(x, 1u); }')
    graph = runtime.capture(lambda: increment((2,), (3,), (x,)))
    assert runtime.download(x).tolist() == [0]
    graph()
    graph()
    runtime.synchronize()
    assert runtime.download(x).tolist() == [12]
