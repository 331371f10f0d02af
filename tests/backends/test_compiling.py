# SPDX-License-Identifier: MIT
"""How the kernels of the gpu backend are compiled: all that a solve needs at once, in threads, and each alone.

Covers poisson.backends.gpu.cupy.
"""

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from support.emulation import EmulatedRuntime
from support.problems import WALLS, make_case
from test_backends import fake_cupy

import poisson
from poisson import backends
from poisson.backends.gpu import shared
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.runtime import Kernel
from poisson.backends.gpu.shared import Kernels
from poisson.backends.numpy import NumpyBackend
from poisson.backends.recordings import MOST_READS
from poisson.errors import FORKED, BackendUnavailable
from poisson.problem.problem import Problem
from poisson.run.solver import Solver
from poisson.solvers.status import Status


@dataclass
class Noting(EmulatedRuntime):
    """Kernels that do nothing, but for norms that fall.

    Attributes
    ----------
    compiled : list of (str, bool)
        The names of kernels, and whether the thread of the test waited for them to be compiled.
    refused : str
        A kernel that does not compile.
    loaded : dict
        The kernels that are kept, by their keys.
    """

    compiled: list[tuple[str, bool]] = field(default_factory=list)
    refused: str = ""
    loaded: dict[Any, Any] = field(default_factory=dict)
    norm: float = 1.0
    fall: float = 0.05

    def __post_init__(self) -> None:
        super().__init__()

    def keep(self, key: Any, kernel: Any) -> None:
        self.loaded[key] = kernel

    def kept(self, key: Any) -> Any:
        return self.loaded.get(key)

    def compile(self, source: str, options: tuple[str, ...] = ()) -> Any:
        return SimpleNamespace(get_function=self._kernel)

    def _kernel(self, name: str, shared_bytes: int = 0) -> Callable[..., None]:
        self.compiled.append((name, threading.current_thread() is threading.main_thread()))
        if name == self.refused:
            raise SyntaxError(f"{name}: identifier is undefined")
        return self._launch

    def _launch(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        last = arguments[-1]
        if isinstance(last, np.ndarray) and last.dtype == np.float64 and last.shape == (2,):
            last[:] = self.norm
            self.norm *= self.fall


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Noting:
    """The device of every gpu backend."""
    found = Noting()
    create = backends.create

    def created(name: str, dtype: Any, threads: int = 0) -> Any:
        return GpuBackend(dtype, found) if name == "gpu" else create(name, dtype, threads)

    monkeypatch.setattr(backends, "create", created)
    return found


def box(*shape: int) -> Problem:
    return Problem.on_box(shape, f=1.0)


@pytest.mark.parametrize(
    ("problem", "options", "rounds"),
    [
        (box(65, 65, 65), {"method": "multigrid", "precision": "mixed"}, [4, 21]),
        (box(129, 129), {"method": "multigrid", "precision": "mixed"}, [4, 22]),
        (box(129, 129), {"method": "multigrid", "precision": "float64"}, [3, 14]),
        (box(129, 129), {"method": "cg"}, [3, 11]),
        (box(129, 129), {"method": "jacobi"}, [3, 4]),
        (box(129, 129), {"method": "sor"}, [3, 3]),
        (box(129, 129), {"method": "fft"}, [4, 3, 1]),
        (box(1025, 1025), {"method": "fft"}, [4, 3, 1]),
    ],
)
def test_all_kernels_of_a_solve_are_asked_for_at_once(
    problem: Problem, options: dict[str, str], rounds: list[int], runtime: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    ask = Kernels.ask

    def counted(self: Kernels, wanted: Any) -> None:
        before = len(self)
        ask(self, wanted)
        if len(self) > before:
            found.append(len(self) - before)

    monkeypatch.setattr(Kernels, "ask", counted)
    solver = poisson.Solver(problem, backend="gpu", **options)  # type: ignore[arg-type]
    assert found == rounds
    runtime.norm = 1.0
    if options["method"] == "fft":
        runtime.fall = 1e-24
    assert solver.solve().status is Status.CONVERGED
    assert found == rounds
    assert [name for name, here in runtime.compiled if here] == []
    assert len(runtime.compiled) == sum(rounds)


def test_the_text_of_a_compiler_reaches_the_caller(runtime: Noting) -> None:
    runtime.refused = "poisson_correct"
    solver = poisson.Solver(box(65, 65), "multigrid", backend="gpu", precision="mixed")
    with pytest.raises(SyntaxError, match=r"^poisson_correct: identifier is undefined$"):
        solver.solve()


def kernels_on_one_processor(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    monkeypatch.setattr(shared, "processors", lambda: 1)
    return Kernels(Noting())


@pytest.mark.parametrize("error", [SyntaxError, KeyboardInterrupt])
def test_others_are_not_compiled_after_a_failure(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longest comes first. At most one more begins while the failure is on its way to the caller."""
    kernels, told, made = kernels_on_one_processor(monkeypatch), threading.Event(), list[int]()

    def fails() -> Any:
        raise error("no")

    def make(number: int) -> Any:
        told.wait(60)
        made.append(number)
        return number

    kernels.ask({("vectors", number): lambda number=number: make(number) for number in range(9)} | {("smooth",): fails})
    with pytest.raises(error, match="no"):
        kernels.get(("smooth",), fails)
    told.set()
    assert len(kernels) == 0
    assert kernels.get(("vectors", 3), lambda: -3) == -3
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join()
    assert len(made) <= 1


def test_a_kernel_is_compiled_once() -> None:
    kernels, made = Kernels(Noting()), list[int]()
    for _ in range(2):
        kernels.ask({("vectors", number): lambda number=number: made.append(number) or number for number in range(5)})
    kernels.settle({("vectors", number): pytest.fail for number in range(3)})
    assert sorted(made) == list(range(5))
    assert [kernels.get(("vectors", number), pytest.fail) for number in range(5)] == list(range(5))
    assert sorted(made) == list(range(5))


def test_what_is_prepared_counts_for_every_backend_on_the_device() -> None:
    runtime = EmulatedRuntime()
    first, second = (GpuBackend(np.float64, runtime) for _ in range(2))
    assert not first.prepared("one") and second.prepared("one") and not second.prepared("other")
    assert not first.companion(np.float32).prepared("one")  # whose kernels are others
    assert not GpuBackend(np.float64, EmulatedRuntime()).prepared("one")
    assert NumpyBackend(np.float64).prepared("one")  # which needs nothing


def test_a_kernel_that_the_process_has_is_not_loaded_again() -> None:
    runtime, made = Noting(), cast(Kernel, object())
    assert Kernels(runtime).get(("vectors",), lambda: made) is made
    kernels = Kernels(runtime)
    kernels.ask({("vectors",): pytest.fail})
    assert kernels.get(("vectors",), pytest.fail) is made


def test_time_in_which_kernels_are_awaited_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by 1 whenever it is read."""
    now = iter(range(10))
    monkeypatch.setattr(shared, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    kernels = Kernels(Noting())
    with kernels.timed():
        kernels.get(("vectors",), lambda: 1)
    assert kernels.seconds == 3
    kernels.get(("sweep",), lambda: 1)
    kernels.get(("sweep",), pytest.fail)
    assert kernels.seconds == 4


def test_nothing_is_loaded_while_a_graph_is_recorded() -> None:
    """In another thread that could spoil it, also where the graph does not need it."""
    runtime, loaded, before = Noting(), list[str](), list[int]()
    backend = GpuBackend(np.float64, runtime)
    u, slow = backend.empty((3, 4)), threading.Event()

    def kernel(name: str, shared_bytes: int = 0) -> Any:
        if name == "poisson_axpby":
            assert slow.wait(60)
        loaded.append(name)
        return runtime._launch

    def capture(function: Callable[[], None]) -> Callable[[], None]:
        before.append(len(loaded))
        return function

    runtime._kernel, runtime.capture = kernel, capture  # type: ignore[method-assign]
    backend.prepare(lambda: backend.axpby(1.0, u, 1.0, u), lambda: backend.fill(u, 0.0))
    threading.Timer(0.05, slow.set).start()
    backend.capture(lambda: backend.fill(u, 0.0))
    assert before == [2]


def test_a_forked_process_says_so_whatever_is_being_compiled(runtime: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, kernel = threading.Event(), runtime._kernel
    monkeypatch.setattr(runtime, "_kernel", lambda *arguments: goes_on.wait(60) and kernel(*arguments))
    solver = poisson.Solver(box(65, 65), "multigrid", backend="gpu")
    if (child := os.fork()) == 0:
        try:
            solver.solve()
        except BackendUnavailable as error:
            os._exit(0 if str(error) == FORKED else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    goes_on.set()
    assert solver.solve().status is Status.CONVERGED


def test_texts_need_no_function_of_the_device_on_few_nodes(runtime: Noting) -> None:
    """CuPy compiles each that it meets first."""
    runtime.xp = SimpleNamespace(asarray=np.asarray, float64=np.float64)  # type: ignore[assignment]
    few, more = (
        Problem.on_box((nodes,) * 3, f="sin(pi*x)*y*z", initial="x*y", boundary={"all": "x + y"})
        for nodes in (128, 129)
    )
    runtime.norm = 1.0
    assert poisson.Solver(few, "multigrid", backend="gpu").solve().status is Status.CONVERGED
    with pytest.raises(AttributeError, match="has no attribute"):
        poisson.Solver(more, "multigrid", backend="gpu").solve()


# ---- functions that are gone through
def test_norms_are_made_up_and_fall() -> None:
    backend, read = GpuBackend(np.float64, Noting()), list[tuple[float, float]]()
    result = backend.reduction()
    backend.prepare(lambda: [read.append(backend.read(result)) for _ in range(5)], reads=3)
    assert np.allclose(read, [(1.0, 1.0), (1e-2, 1e-1), (1e-4, 1e-2)])


def test_what_does_not_end_is_left() -> None:
    backend, reads = GpuBackend(np.float64, Noting()), list[float]()
    u, result = backend.empty((3, 4)), backend.reduction()

    def solve() -> None:
        while True:
            reads.append(backend.read(result)[1])

    def launch() -> None:
        while True:
            backend.fill(u, 0.0)

    backend.prepare(solve)
    backend.prepare(launch)
    assert len(reads) == MOST_READS
    assert backend.launching


def test_what_stumbles_over_the_norms_is_left_and_what_is_wrong_is_said() -> None:
    backend = GpuBackend(np.float64, Noting())
    result = backend.reduction()
    backend.prepare(lambda: 1.0 / (backend.read(result)[0] - 1.0))
    with pytest.raises(MemoryError):
        backend.prepare(lambda: backend.reduction(), lambda: (_ for _ in ()).throw(MemoryError))
    assert backend.launching


def test_what_is_recorded_there_runs_later() -> None:
    runtime, launches = Noting(), list[NDArray[Any]]()
    runtime._launch = lambda grid, block, arguments: launches.append(arguments[0])  # type: ignore[method-assign]
    backend, recordings = GpuBackend(np.float64, runtime), list[Callable[[], None]]()
    u = backend.empty((3, 4))

    def solve() -> None:
        recordings.append(backend.capture(lambda: backend.fill(u, 1.0)))
        recordings[0]()

    backend.prepare(solve)
    assert launches == []
    recordings[0]()
    recordings[0]()
    assert [array is u for array in launches] == [True, True]


def test_counts_are_those_of_the_solve(runtime: Noting) -> None:
    chosen = ("solver.method=multigrid", "run.backend=gpu")
    solver = Solver.of(make_case({"f": 1.0}, WALLS, (65, 65), overrides=chosen), count=True)
    ledger = solver.ledger
    assert ledger is not None
    assert set(ledger.counts.values()) == {0}
    runtime.norm = 1.0
    cycles = solver.solve().iterations
    of_the_finest = [count for call, count in ledger.counts.items() if call.name == "smooth" and call.grid == "65x65"]
    assert sum(of_the_finest) == cycles + 1


# ---- CuPy
@pytest.mark.parametrize(("declared", "dynamic", "asked"), [(0, 49152, None), (184, 49152, 49152), (184, 48968, None)])
def test_a_kernel_asks_for_more_shared_memory_than_there_is_unasked(
    declared: int, dynamic: int, asked: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = SimpleNamespace(num_regs=32, shared_size_bytes=declared, local_size_bytes=0, kernel=None)
    loaded_by(monkeypatch, function)._Module("", (), None).get_function("poisson_transform", dynamic)
    assert getattr(function, "max_dynamic_shared_size_bytes", None) == asked


def loaded_by(monkeypatch: pytest.MonkeyPatch, function: Any, version: tuple[int, int] | None = (13, 0)) -> Any:
    """The module of the runtime, with a CuPy whose kernels are all this function; without a version it is of ROCm."""
    cupy = fake_cupy(1)
    cupy.compiled = []  # type: ignore[attr-defined]
    cupy.cuda.runtime.is_hip = version is None
    cupy.cuda.nvrtc = SimpleNamespace(getVersion=lambda: version)

    def raw_module(code: str, options: tuple[str, ...]) -> SimpleNamespace:
        cupy.compiled.append((code, options))
        return SimpleNamespace(get_function=lambda name: function)

    cupy.RawModule = raw_module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "poisson.backends.gpu.cupy", ModuleType("the real one, for after the test"))
    del sys.modules["poisson.backends.gpu.cupy"]
    return import_module("poisson.backends.gpu.cupy")


@pytest.mark.parametrize(("version", "shorter"), [((13, 0), True), ((12, 4), True), ((12, 3), False), (None, False)])
def test_cupy_sees_one_set_of_options(
    version: tuple[int, int] | None, shorter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = SimpleNamespace(num_regs=32, shared_size_bytes=0, local_size_bytes=0, kernel=None)
    runtime = loaded_by(monkeypatch, function, version)
    text = "KERNEL one() {\n}\nKERNEL other() {\n}\n"
    for number in (1, 2):
        module = runtime._Module(text, ("-std=c++17", f"-DNUMBER={number}", "-DFLAG"), None)
        module.get_function("other")
    nothing, *compiled = runtime.cp.compiled
    assert nothing == (runtime.NOTHING, compiled[0][1])
    assert compiled == [
        (
            f"#define NUMBER {number}\n#define FLAG 1\n#line 1\n\n\nKERNEL other() {{\n}}\n",
            ("-std=c++17", "-minimal") if shorter else ("-std=c++17",),
        )
        for number in (1, 2)
    ]


def test_streams_that_no_runtime_has_any_more_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones first, each by one runtime; those of another device are others."""
    runtime = loaded_by(monkeypatch, None)
    monkeypatch.setattr(runtime, "_Streams", lambda: object())
    first, second = runtime._streams_of(0), runtime._streams_of(0)
    assert first is not second
    runtime._idle[0] += [first, second]
    assert runtime._streams_of(1) not in (first, second)
    assert [runtime._streams_of(0), runtime._streams_of(0)] == [second, first]
    assert runtime._streams_of(0) not in (first, second)
