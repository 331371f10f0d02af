# SPDX-License-Identifier: MIT
"""Backends by name: which one runs, and what a user is told where one does not, or where memory is short.

Covers poisson.backends.gpu.cupy.
"""

import contextlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import real
from support.problems import SINE, WALLS, make_case

import poisson
from poisson import backends
from poisson.backends import control_groups, host, processors
from poisson.backends.numpy import NumpyBackend
from poisson.backends.openmp import library as openmp_library
from poisson.backends.registry import BACKENDS, BackendEntry, backend_names, threaded
from poisson.cli import main
from poisson.errors import BackendUnavailable, ResourceError
from poisson.run import memory
from poisson.run.memory import Free, Room, require_memory, result_bytes
from poisson.words import quantity

NO_CUPY = "CuPy is not installed: in the checkout, pip install '.[cuda13]' or '.[cuda12]' (NVIDIA) or '.[rocm]' (AMD)"
NOT_BUILT = "the OpenMP library was not built: install a C++ compiler (e.g. g++) and run pip install again"


@pytest.fixture
def reload() -> Iterator[None]:
    """The library is looked for anew, in the test and after it."""
    openmp_library.load_library.cache_clear()
    yield
    openmp_library.load_library.cache_clear()


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch, reload: None) -> None:
    monkeypatch.setattr(openmp_library, "library_path", lambda: None)


@pytest.fixture(autouse=True)
def the_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here `auto` has the backends of the package to choose from, whichever others there are."""
    three = {name: BACKENDS[name] for name in ("gpu", "openmp", "numpy")}
    monkeypatch.setattr("poisson.backends.registry.BACKENDS", three)


def refusal(name: str) -> str:
    with pytest.raises(BackendUnavailable) as caught:
        backends.create(name, np.float64)
    return str(caught.value)


def test_a_name_that_is_not_one() -> None:
    with pytest.raises(BackendUnavailable, match="unknown backend 'cuda'; the backends are auto, gpu, openmp, numpy"):
        backends.create("cuda", np.float64)


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.complex128])
def test_a_type_that_is_not_one(dtype: Any) -> None:
    with pytest.raises(ValueError, match=f"{np.dtype(dtype)} is not float32 or float64"):
        backends.create("numpy", dtype)


# ---- the registry
def test_every_entry_makes_the_backend_of_its_name() -> None:
    assert [name for name in backends.NAMES if name in ("gpu", "openmp", "numpy")] == ["gpu", "openmp", "numpy"]
    assert (backends.NAMES, backend_names()) == (tuple(BACKENDS), ("auto", "gpu", "openmp", "numpy"))
    assert [entry.name for entry in BACKENDS.values()] == list(BACKENDS)
    for name, entry in BACKENDS.items():
        module, _, maker = entry.place.partition(":")
        assert callable(getattr(import_module(module), maker))
        with contextlib.suppress(BackendUnavailable):
            assert entry.create(np.float64, 1).name == name


def test_a_backend_needs_only_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is chosen, described and created as the others are; without an entry there is none."""
    made: list[Any] = []

    class Other(NumpyBackend):
        name = "other"

        def __init__(self, *given: Any) -> None:
            made.append(given)
            super().__init__(given[0])

    module = ModuleType("other_backend")
    module.Other = Other  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "other_backend", module)
    for threads in (True, False):
        entry = BackendEntry("other", "other_backend:Other", threaded=threads)
        monkeypatch.setattr("poisson.backends.registry.BACKENDS", {"other": entry})
        assert backends.create("other", np.float32, 3).name == backends.create("auto", np.float64, 3).name == "other"
        assert made == ([(np.float32, 3), (np.float64, 3)] if threads else [(np.float32,), (np.float64,)])
        assert [info.name for info in backends.describe()] == ["other"]
        assert (threaded("other"), threaded("auto")) == (threads, True)
        made.clear()
    with pytest.raises(BackendUnavailable, match="unknown backend 'numpy'; the backends are auto, other"):
        threaded("numpy")


# ---- the gpu backend
@pytest.mark.usefixtures("no_cupy")
def test_without_cupy() -> None:
    assert refusal("gpu") == NO_CUPY


def fake_cupy(count: int | Exception) -> ModuleType:
    class CUDARuntimeError(RuntimeError):
        pass

    def get_device_count() -> int:
        if isinstance(count, Exception):
            raise CUDARuntimeError(*count.args)
        return count

    cupy = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        runtime=SimpleNamespace(getDeviceCount=get_device_count, CUDARuntimeError=CUDARuntimeError)
    )
    return cupy


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, "CuPy finds no GPU: install or repair the driver"),
        (Exception("no driver"), "CuPy finds no GPU (no driver): install or repair the driver"),
    ],
)
def test_without_a_device(count: int | Exception, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(count))
    assert refusal("gpu") == message


# ---- the library of the openmp backend
@pytest.mark.usefixtures("no_library")
def test_a_library_that_was_not_built() -> None:
    assert refusal("openmp") == NOT_BUILT


@pytest.mark.usefixtures("reload")
def test_a_library_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "libmissing.so"
    monkeypatch.setenv(openmp_library.LIBRARY_VARIABLE, str(path))
    assert openmp_library.library_path() == path
    line = refusal("openmp")
    assert line.startswith("the OpenMP library cannot be loaded: ")
    assert str(path) in line
    assert "\n" not in line
    (tmp_path / "libmissing.so").write_text("not a library")
    line = refusal("openmp")
    assert line.startswith("the OpenMP library cannot be loaded: ")
    assert str(path) in line


def compiled(source: str, path: Path) -> Path:
    """A library of C."""
    compiler = shutil.which("cc") or shutil.which("g++")
    assert compiler, "a C compiler is needed, as for the emulated kernels"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    return path


@pytest.mark.usefixtures("reload")
@pytest.mark.parametrize(
    ("source", "version"), [("int poisson_abi_version(void) { return 99; }", "99"), ("int other;", "None")]
)
def test_a_library_of_another_version(
    source: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = compiled(source, tmp_path / "libother.so")
    monkeypatch.setenv(openmp_library.LIBRARY_VARIABLE, str(path))
    needed = openmp_library.ABI_VERSION
    assert refusal("openmp") == (
        f"{path} has interface version {version}, this package needs {needed}: run pip install again"
    )


@pytest.mark.usefixtures("reload", "no_cupy")
def test_a_library_that_lacks_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    needed = openmp_library.ABI_VERSION
    path = compiled(f"int poisson_abi_version(void) {{ return {needed}; }}", tmp_path / "libpart.so")
    monkeypatch.setenv(openmp_library.LIBRARY_VARIABLE, str(path))
    line = f"{path} lacks the function poisson_build of interface version {needed}: run pip install again"
    assert refusal("openmp") == line
    assert backends.create("auto", np.float64).name == "numpy"
    assert [record.getMessage() for record in caplog.records] == [f"falling back to numpy; openmp: {line}"]


@pytest.mark.usefixtures("reload")
@pytest.mark.parametrize("name", ["./libother.so", "libother.so", "folder/libother.so"])
def test_a_library_is_named_from_the_current_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    compiled("int poisson_abi_version(void) { return 99; }", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(openmp_library.LIBRARY_VARIABLE, name)
    assert refusal("openmp").startswith(f"{tmp_path / name} has interface version 99, ")


def test_status_codes_become_errors() -> None:
    function = SimpleNamespace(__name__="poisson_allocate")
    assert openmp_library.check(0, function, ()) == 0
    with pytest.raises(ResourceError, match=r"too little memory \(poisson_allocate\): reduce domain.shape$"):
        openmp_library.check(1, function, ())
    with pytest.raises(BackendUnavailable, match="was built for a GPU and finds no GPU"):
        openmp_library.check(2, function, ())
    with pytest.raises(RuntimeError, match=r"^poisson_allocate failed with status 7$"):
        openmp_library.check(7, function, ())


def test_an_array_that_no_machine_holds() -> None:
    backend = real("openmp")(np.float64)
    with pytest.raises(ResourceError, match=r"^the openmp backend's device has too little memory"):
        backend.empty((1 << 50, 16))


def test_threads_are_those_asked_for() -> None:
    real("openmp")(np.float64)
    for threads in (1, 3):
        backend = backends.create("openmp", np.float64, threads)
        assert backend.device.startswith((f"CPU, {quantity(threads, 'thread')}, OpenMP ", "OpenMP offload"))


def test_more_threads_than_a_run_time_can_make_are_cut_down() -> None:
    real("openmp")(np.float64)
    assert backends.create("openmp", np.float64, threads=65536).threads == 4096
    assert backends.create("openmp", np.float64, threads=2).threads == 2


# ---- auto
@pytest.mark.usefixtures("no_cupy")
def test_auto_takes_openmp_without_a_gpu_and_says_no_more(caplog: pytest.LogCaptureFixture) -> None:
    expected = real("openmp")(np.float64)
    caplog.set_level("INFO", logger="poisson")
    backend = backends.create("auto", np.float64, threads=2)
    assert (backend.name, backend.dtype) == ("openmp", np.float64)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"backend openmp: {expected.device}")
    ]


def test_auto_warns_where_a_gpu_should_be_but_does_not_work(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = real("openmp")(np.float64)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(Exception("no driver")))
    caplog.set_level("INFO", logger="poisson")
    assert backends.create("auto", np.float64, threads=2).name == "openmp"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"backend openmp: {expected.device}"),
        ("WARNING", "falling back to openmp; gpu: CuPy finds no GPU (no driver): install or repair the driver"),
    ]


@pytest.mark.usefixtures("no_cupy", "no_library")
def test_auto_falls_back_to_numpy_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="poisson")
    backend = backends.create("auto", np.float32)
    assert (backend.name, backend.dtype) == ("numpy", np.float32)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"backend numpy: {backend.device}"),
        ("WARNING", f"falling back to numpy; openmp: {NOT_BUILT}"),
    ]


@pytest.mark.usefixtures("no_cupy", "no_library")
def test_a_case_runs_where_nothing_is_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "case.toml"
    path.write_text(
        "equation = { f = 1.0 }\ndomain = { lower = [0, 0], upper = [1, 1], shape = [9, 9] }\n"
        "boundary = { all = { dirichlet = 0.0 } }\n"
    )
    result = tmp_path / "case.h5"
    assert main(["solve", str(path), "--output", str(result), "--quiet"]) == 0
    assert capsys.readouterr() == ("", f"poisson: warning: falling back to numpy; openmp: {NOT_BUILT}\n")
    assert main(["solve", str(path), "--output", str(result), "--backend=openmp"]) == 2
    assert capsys.readouterr() == ("", f"poisson: error: {NOT_BUILT}\n")
    assert main(["solve", str(path), "--output", str(result), "--backend=gpu"]) == 2
    assert capsys.readouterr() == ("", f"poisson: error: {NO_CUPY}\n")


@pytest.mark.usefixtures("no_cupy", "no_library")
def test_auto_without_any_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    without = {name: BACKENDS[name] for name in ("gpu", "openmp")}
    monkeypatch.setattr("poisson.backends.registry.BACKENDS", without)
    assert refusal("auto") == f"gpu: {NO_CUPY}; openmp: {NOT_BUILT}"


@pytest.mark.usefixtures("no_cupy", "no_library")
def test_describe_says_what_to_install() -> None:
    device = NumpyBackend(np.float64).device
    assert backends.describe() == [
        backends.BackendInfo("gpu", False, "", NO_CUPY),
        backends.BackendInfo("openmp", False, "", NOT_BUILT),
        backends.BackendInfo("numpy", True, device, ""),
    ]


def test_describe_names_the_devices() -> None:
    expected = real("openmp")(np.float64)
    rows = {info.name: info for info in backends.describe()}
    assert list(rows) == ["gpu", "openmp", "numpy"]
    build = expected.device.partition("OpenMP ")[2]
    assert (rows["openmp"].available, rows["openmp"].reason) == (True, "")
    assert rows["openmp"].device.endswith(f"OpenMP {build}")


# ---- memory
class Small(NumpyBackend):
    """A device with so many bytes free."""

    on_host = False

    def __init__(self, dtype: Any, free: int) -> None:
        super().__init__(dtype)
        self._free = free

    def memory(self) -> tuple[int, int]:
        return self._free, self._free


class Unknown(NumpyBackend):
    def memory(self) -> None:  # type: ignore[override]
        return None


def require(backend: Any, asked: Room) -> None:
    require_memory(backend, asked, Free(backend))


@pytest.mark.parametrize(
    ("precision", "loop", "arrays"),
    [("float64", "fused", 3), ("float64", "staged", 4), ("float32", "fused", 3), ("float32", "staged", 4)],
)
def test_a_case_that_does_not_fit_is_refused(precision: str, loop: str, arrays: int) -> None:
    settings = (f"run.precision={precision}", f"solver.loop={loop}", "domain.shape=[1024, 512]")
    case = make_case(SINE, WALLS, (5, 5), overrides=settings)
    needed = arrays * 1024 * 512 * np.dtype(precision).itemsize
    asked = Room(case.problem.lattice, case.solver, precision, case.output.fields)
    require(Small(precision, needed), asked)
    require(Unknown(precision), asked)
    with pytest.raises(ResourceError) as caught:
        require(Small(precision, needed - 1), asked)
    gib = f"{needed / 2**30:.3g} GiB"
    advice = (
        "reduce domain.shape, or use run.precision = 'float32'" if precision == "float64" else "reduce domain.shape"
    )
    assert str(caught.value) == (
        f"domain.shape = [1024, 512] needs {arrays} arrays, {gib} in {precision}, and the numpy backend has {gib} "
        f"free: {advice}"
    )


def test_arrays_and_result_share_the_memory_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(SINE, WALLS, (5, 5), overrides=("domain.shape=[1024, 512]", "solver.loop=staged"))
    asked = Room(case.problem.lattice, case.solver, "float64", case.output.fields)
    needed = 4 * 8 * 1024 * 512 + result_bytes(case.problem.lattice, np.float64, case.output.fields)
    monkeypatch.setattr(memory, "host_memory", lambda: (needed, 1 << 50))
    require(Unknown("float64"), asked)
    monkeypatch.setattr(memory, "host_memory", lambda: (needed - 1, 1 << 50))
    with pytest.raises(ResourceError) as caught:
        require(Unknown("float64"), asked)
    gib = f"{needed / 2**30:.3g} GiB"
    assert str(caught.value) == (
        f"domain.shape = [1024, 512] needs 4 arrays and room for its result, {gib} in float64, and this process has "
        f"{gib} free: reduce domain.shape, or use run.precision = 'float32'"
    )


def test_control_groups_are_read_for_large_arrays_and_once_for_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    groups = control_groups.groups
    monkeypatch.setattr(control_groups, "groups", lambda name, *of: looked.append(name) or groups(name, *of))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    processors.own_quota.cache_clear()
    for nodes, memory_read in ((65, False), (129, False), (513, True)):
        looked.clear()
        poisson.solve(poisson.Problem.on_box((nodes, nodes), f=1.0), "fft", "numpy")
        assert ("memory" in looked, "cpu" in looked) == (memory_read, nodes == 65)


def test_nothing_is_allocated_for_a_case_that_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Empty(Small):
        def __init__(self, dtype: Any) -> None:
            super().__init__(dtype, 1 << 20)

        def empty(self, array_shape: tuple[int, ...]) -> Any:
            raise AssertionError("an array was made")

        from_host = empty  # type: ignore[assignment]

    monkeypatch.setattr(backends, "create", lambda name, dtype, threads=0: Empty(dtype))
    path = tmp_path / "case.toml"
    path.write_text(
        "equation = { f = 1.0 }\ndomain = { lower = [0, 0, 0], upper = [1, 1, 1], shape = [1000, 1000, 1000] }\n"
        "boundary = { all = { neumann = 0.0 } }\n"
    )
    # The source of this case is incompatible too, but to find that takes a pass over a thousand million nodes.
    monkeypatch.setattr("poisson.output.result.check", lambda path, size, overwrite: None)
    assert main(["solve", str(path), "--output", str(tmp_path / "case.h5")]) == 2
    assert capsys.readouterr() == (
        "",
        "poisson: error: domain.shape = [1000, 1000, 1000] needs 3 arrays, 22.4 GiB in float64, and the numpy backend "
        "has 0.000977 GiB free: reduce domain.shape\n",
    )


def test_the_size_of_a_result() -> None:
    fields = ('output.fields=["f", "residual", "u"]', "run.precision=float32")
    case = make_case(SINE, WALLS, (100, 50), overrides=fields)
    assert result_bytes(case.problem.lattice, case.run.dtype, case.output.fields) == 5000 * (4 + 8 + 8) + (1 << 20)


def test_the_memory_of_the_host() -> None:
    free, total = host.host_memory()
    assert 0 < free <= total
    assert NumpyBackend(np.float64).memory()[1] == total


def test_the_memory_of_a_host_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    free, total = host.host_memory()
    assert free == total > 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep freed blocks in other ways")
def test_temporary_arrays_get_the_pages_of_those_before() -> None:
    """In a new process: 4 MB of them, twenty times."""
    script = """if True:
        import resource
        import numpy as np
        from poisson.backends.host import keep_freed_blocks

        def faults():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(20):
                [np.ones(1 << 17) for _ in range(4)]
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        keep_freed_blocks()
        faults()
        print(faults())
    """
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 20
