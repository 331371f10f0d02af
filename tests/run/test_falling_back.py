# SPDX-License-Identifier: MIT
"""Where the backend that `auto` has taken fails, the next one solves, and that is said."""

import logging
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.problems import SINE, WALLS, make_case
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.backends.registry import BackendEntry
from poisson.errors import BackendFailed, BackendUnavailable, PoissonError, ResourceError
from poisson.run.checkpoints import Checkpoints
from poisson.solvers.status import Status


class Lost(RuntimeError):
    """As CuPy's."""


Lost.__module__ = "cupy_backends.cuda.api.runtime"
Lost.__name__ = "CUDARuntimeError"

GONE = Lost("cudaErrorUnknown: unknown error")
SAID = (
    "the GPU has failed (CUDARuntimeError: cudaErrorUnknown: unknown error): see the log of the driver, or use "
    "run.backend"
)


class Device(NumpyBackend):
    """A device that fails after so many arrays, or so many reads of a norm."""

    name = "gpu"
    on_host = False
    arrays = reads = 10**9
    error: Exception = GONE

    def empty(self, array_shape: tuple[int, ...]) -> Any:
        type(self).arrays -= 1
        if self.arrays < 0:
            raise self.error
        return super().empty(array_shape)

    def read(self, result: Any) -> tuple[float, float]:
        type(self).reads -= 1
        if self.reads < 0:
            raise self.error
        return super().read(result)


class Refusing(NumpyBackend):
    """A library of another version."""

    def __init__(self, dtype: Any) -> None:
        raise BackendUnavailable("the library has interface version 1, this package needs 2: run pip install again")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> type[Device]:
    """The backends of this process, the device before the host."""
    import_module("poisson.case.schema")  # which takes the names of the real ones when it is loaded

    class Own(Device):
        pass

    module = ModuleType("own_device")
    module.Own, module.Host, module.Refusing = Own, NumpyBackend, Refusing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_device", module)
    names = {"gpu": "Own", "numpy": "Host"}
    entries = {name: BackendEntry(name, f"own_device:{kind}") for name, kind in names.items()}
    monkeypatch.setattr("poisson.backends.registry.BACKENDS", entries)
    return Own


def problem() -> poisson.Problem:
    return poisson.Problem.on_box((17, 13), f="sin(pi*x)*sin(pi*y)", boundary=WALLS)


@pytest.mark.parametrize(
    ("error", "said"),
    [(GONE, SAID), (ResourceError("too little there"), "too little there"), (MemoryError(), "too little memory")],
)
@pytest.mark.parametrize("stage", ["arrays", "reads"])
def test_the_next_backend_is_tried_and_said(
    stage: str, error: Exception, said: str, device: type[Device], caplog: pytest.LogCaptureFixture
) -> None:
    """During the set-up, and in the loop."""
    expected = poisson.solve(problem(), "jacobi", "numpy", rtol=1e-3)
    device.error = error
    setattr(device, stage, 1 if stage == "arrays" else 12)
    solver = poisson.Solver(problem(), "jacobi", rtol=1e-3)
    solution = solver.solve()
    assert solution.status is Status.CONVERGED
    assert solution.u.tobytes() == expected.u.tobytes()
    assert solution.provenance["backend"] == "numpy"
    assert str(solution.provenance["instead_of"]).startswith(f"gpu: {said}")
    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith(f"falling back to numpy; gpu: {said}")
    assert solver.solve(f=1.0).provenance["backend"] == "numpy"


def test_a_backend_that_was_asked_for_ends_with_one_line(device: type[Device]) -> None:
    device.arrays = 1
    with pytest.raises(BackendFailed, match="the GPU has failed"):
        poisson.Solver(problem(), "jacobi", "gpu")
    device.arrays, device.reads = 10**9, 12
    with pytest.raises(BackendFailed, match="the GPU has failed"):
        poisson.solve(problem(), "jacobi", "gpu")


def test_the_last_one_ends_with_its_own_line(device: type[Device], monkeypatch: pytest.MonkeyPatch) -> None:
    device.arrays = 1

    def refuse(self: Any, array_shape: tuple[int, ...]) -> Any:
        raise ResourceError("too little here")

    monkeypatch.setattr(NumpyBackend, "empty", refuse)
    with pytest.raises(ResourceError, match=r"^too little here$"):
        poisson.Solver(problem(), "jacobi")


def test_on_the_host_no_other_backend_has_more_memory(device: type[Device]) -> None:
    device.on_host, device.arrays, device.error = True, 0, ResourceError("too little here")
    with pytest.raises(ResourceError, match=r"^too little here$"):
        poisson.solve(problem(), "jacobi")


def test_a_mistake_of_the_data_is_not_the_backends(device: type[Device], caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PoissonError, match="must be finite"):
        poisson.solve(poisson.Problem.on_box((5, 5), f="1/x", boundary=WALLS))
    assert not [record for record in caplog.records if "falling back" in record.getMessage()]


def test_a_library_of_another_version_is_in_the_provenance(
    device: type[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"gpu": BackendEntry("gpu", "own_device:Refusing"), "numpy": BackendEntry("numpy", "own_device:Host")}
    monkeypatch.setattr("poisson.backends.registry.BACKENDS", entries)
    solution = poisson.solve(problem())
    assert solution.provenance["instead_of"] == (
        "gpu: the library has interface version 1, this package needs 2: run pip install again"
    )


def test_several_ranks_end_together(device: type[Device]) -> None:
    """Not all of them may have failed, and they must have one backend."""
    device.arrays = 1

    def solve(comm: ThreadCommunicator) -> None:
        poisson.Solver(problem(), "jacobi", comm=comm)

    with pytest.raises(BackendFailed, match="the GPU has failed"):
        on_ranks(2, solve)


def test_a_lost_device_leaves_its_checkpoint_to_the_next(device: type[Device], tmp_path: Path) -> None:
    settings = ("solver.rtol=1e-5", f"output.file='{tmp_path / 'a.h5'}'", "output.checkpoint_every=30")
    whole = poisson.solve(make_case(SINE, WALLS, (11, 9), overrides=("solver.rtol=1e-5",)))
    case = make_case(SINE, WALLS, (11, 9), overrides=(*settings, "run.backend='auto'"))
    device.reads = 50
    began: list[int] = []

    class Heard:
        def start(self, target: float, reference: str, max_iterations: int) -> None:
            began.append(0)

        def __call__(self, iteration: int, norm: float) -> None:
            began[-1] = began[-1] or iteration

    solution = poisson.solve(case, observer=Heard())
    assert solution.u.tobytes() == whole.u.tobytes()
    assert solution.history == whole.history
    assert len(began) == 2 and began[1] >= 30
    assert list(tmp_path.iterdir()) == []
    assert Checkpoints(case).begun is None
    assert np.isfinite(solution.u).all()
