# SPDX-License-Identifier: MIT
"""Fixtures: the backends that the tests of operations run on."""

import os

# The processes of a test run share the cores: threads that wait for work by turning would take them from the others,
# and BLAS takes fifty times as long for a small matrix if its threads wait for a core. Libraries read it as they load.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gc

gc.disable()  # until all tests are there: nothing of them is garbage, and to look takes a third of the collection

import signal
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.emulation import EmulatedRuntime, Order
from support.forked import Forks, forks

from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.shapes import KINDS, UNTUNED, Shape
from poisson.backends.gpu.tuned import FOLDER_VARIABLE, Measured, Setting
from poisson.backends.numpy import NumpyBackend
from poisson.errors import BackendUnavailable, CheckWarning, NotConverged
from poisson.perf import timing

MakeBackend = Callable[[Any], Backend]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a GPU and CuPy")
    # Many tests make a solve end early, or solve noise, which no grid resolves, and assert the status. The tests of
    # these two warnings use pytest.warns, which hears them all the same. Not in pyproject.toml: the names would be
    # imported there before the path is set, from an installed package.
    for category in (CheckWarning, NotConverged):
        config.addinivalue_line("filterwarnings", f"ignore::{category.__module__}.{category.__qualname__}")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests were skipped for which reason: a line for each test would hide what matters."""
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    terminalreporter.section("tests skipped, by reason")
    for reason, times in reasons.most_common():
        terminalreporter.write_line(f"{times:6d}  {reason}")


def pytest_collection_finish() -> None:
    """The collector need not look at what pytest keeps of each test: that alone takes it half a second a time."""
    gc.collect()
    gc.freeze()
    gc.enable()


class AllAlike(dict[Setting, Measured]):
    """A table that gives the kernels of all operations one shape, so that most of them come with one compilation."""

    def get(self, key: Setting, default: Any = None) -> Any:
        kinds = (*(kind for kind in KINDS if kind != "sweeps"), *UNTUNED)
        return Measured("2026-01-01", dict.fromkeys(kinds, Shape(32, 2, 8)))


def emulated(dtype: Any, order: Order = Order.FORWARD) -> Backend:
    """The gpu backend on an emulated device."""
    return GpuBackend(dtype, EmulatedRuntime(order), AllAlike())


def real(name: str, threads: int = 2) -> MakeBackend:
    """A backend of this machine; the test is skipped where it does not run, with the reason."""

    def make(dtype: Any) -> Backend:
        try:
            return backends.create(name, dtype, threads=threads)
        except BackendUnavailable as error:
            pytest.skip(str(error))

    return make


BACKENDS: dict[str, MakeBackend] = {
    "emulated": emulated,
    **{name: real(name) for name in backends.NAMES if name != NumpyBackend.name},
}
"""The backends that are compared with the specification."""

MAKES = [
    emulated,
    pytest.param(BACKENDS["openmp"], id="openmp"),
    pytest.param(BACKENDS["gpu"], id="gpu", marks=pytest.mark.gpu),
]
"""Functions that make the backends which have kernels, or functions of the library, of their own."""


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.gpu) if name == "gpu" else name for name in BACKENDS])
def backend(request: pytest.FixtureRequest, dtype: Any) -> Backend:
    """A backend that is not the specification, in either precision."""
    return BACKENDS[request.param](dtype)


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that are not there yet. `mktemp` for each would list all that there are: a minute for all tests."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def no_measured_shapes(monkeypatch: pytest.MonkeyPatch, caches: Iterator[Path]) -> None:
    """No test reads or writes what `tune` has found on this machine."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(next(caches)))


@pytest.fixture
def backends_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`backends.create` with the gpu backend emulated; a test that asks for one that does not run here is skipped."""
    create = backends.create

    def make(name: str, dtype: Any, threads: int = 0) -> Backend:
        try:
            return emulated(dtype) if name == "gpu" else create(name, dtype, threads)
        except BackendUnavailable as error:
            pytest.skip(str(error))

    monkeypatch.setattr(backends, "create", make)


@pytest.fixture
def numpy_arrays(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Any]]]:
    """The arrays that numpy backends make in a test, in which no garbage is collected."""
    empty, arrays = NumpyBackend.empty, list[weakref.ref[Any]]()

    def noted(backend: NumpyBackend, array_shape: tuple[int, ...]) -> Any:
        array = empty(backend, array_shape)
        arrays.append(weakref.ref(array))
        return array

    monkeypatch.setattr(NumpyBackend, "empty", noted)
    gc.disable()
    yield arrays
    gc.enable()


@pytest.fixture(scope="session")
def forked() -> Iterator[Forks]:
    """Runs scripts in processes of their own."""
    with forks() as found:
        yield found


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal, here and in the processes that a test starts.

    Where the tests run in the background of a script, or under nohup there, SIGINT has been ignored from the start.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements that are quick rather than exact, with a bandwidth that takes no gigabytes."""
    monkeypatch.setattr(timing, "STREAM_VALUES", 1 << 12)
    monkeypatch.setattr(timing, "LEAST_SECONDS", 1e-4)
    monkeypatch.setattr(timing, "SHORT_SECONDS", 1e-5)
