# SPDX-License-Identifier: MIT
"""What every case file gave when it was last looked at: method, iterations, status, residual and error.

A change of the numerics shows here. If it is meant, write the new values, and look at the difference before a commit:

    PYTHONPATH=tests python -m tests.run.test_regression
"""

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.places import ROOT

from poisson import backends
from poisson.backends.base import Backend
from poisson.case import Case, load
from poisson.run import run
from poisson.run.solution import Solution

CASES = sorted((ROOT / "cases").glob("*.toml"))
STORED = Path(__file__).with_name("regression.json")

Values = dict[str, Any]


def copy_cases(folder: Path) -> None:
    """Put the case files into a folder, with the source that one of them reads."""
    for path in CASES:
        (folder / path.name).write_bytes(path.read_bytes())
    spec = importlib.util.spec_from_file_location("make_source", ROOT / "scripts" / "make_source.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(folder)


def measure(case: Case) -> Values:
    """What is stored of a case."""
    solution = run.solve(case)
    values: Values = {
        "status": solution.status.value,
        "method": solution.provenance["method"],
        "iterations": solution.iterations,
        "u_rms": math.sqrt(float(np.mean(solution.u.astype(np.float64) ** 2))),
    }
    if solution.provenance["method"] != "fft" and solution.iterations > 1:
        # That of a direct solution is rounding alone, and so is that of a cycle on a grid that has no coarser one.
        values["residual"] = solution.residual
    if solution.error is not None:
        values |= {"error_rms": solution.error.rms, "error_max": solution.error.max}
    return values


def on_openmp(folder: Path, name: str) -> Case:
    return load(folder / f"{name}.toml", ("run.backend=openmp", "run.threads=2"))


def update() -> None:
    """Write the stored values anew."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        folder = Path(name)
        copy_cases(folder)
        stored = {path.stem: measure(on_openmp(folder, path.stem)) for path in CASES}
    STORED.write_text(json.dumps(stored, indent=2) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    copy_cases(folder)
    return folder


@pytest.fixture(scope="module")
def stored() -> dict[str, Values]:
    values: dict[str, Values] = json.loads(STORED.read_text())
    return values


def test_every_case_has_an_entry_and_every_entry_a_case(stored: dict[str, Values]) -> None:
    assert list(stored) == [path.stem for path in CASES]
    assert len(stored) >= 8


@pytest.mark.parametrize("name", [path.stem for path in CASES])
def test_the_values_are_those_stored(folder: Path, stored: dict[str, Values], name: str) -> None:
    from conftest import real

    real("openmp")(np.float64)
    case = on_openmp(folder, name)
    expected, got = stored[name], measure(case)
    assert list(got) == list(expected)
    for key, value in expected.items():
        if key in ("status", "method"):
            assert got[key] == value
        elif key == "iterations":
            # In float32 a compiler that joins products and sums may move the end to the next read of the norm.
            assert abs(got[key] - value) <= (0 if case.run.precision == "float64" else 0.01 * value)
        else:
            assert got[key] == pytest.approx(value, rel=1e-6 if case.run.precision == "float64" else 0.05), key


def history(case: Case, monkeypatch: pytest.MonkeyPatch, create: Any) -> Solution:
    with monkeypatch.context() as patch:
        patch.setattr(backends, "create", create)
        return run.solve(case)


@pytest.mark.parametrize("name", ["channel_3d", "neumann_mixed"])
def test_a_run_on_the_gpu_backend_gives_the_history_of_the_specification(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The whole way of a case through `run`, with the kernels on the emulated device."""
    from conftest import emulated

    from poisson.backends.numpy import NumpyBackend

    asked = []

    def create_emulated(backend: str, dtype: Any, threads: int = 0) -> Backend:
        asked.append(backend)
        return emulated(dtype)

    case = load(folder / f"{name}.toml", ("run.backend=gpu", "solver.max_iterations=12", "solver.check_every=3"))
    expected = history(case, monkeypatch, lambda backend, dtype, threads=0: NumpyBackend(dtype))
    got = history(case, monkeypatch, create_emulated)
    assert asked == ["gpu"]
    assert (got.status, got.iterations, got.provenance["backend"]) == (expected.status, 12, "gpu")
    assert [iteration for iteration, _ in got.history] == [0, 2, 5, 8, 11]
    np.testing.assert_allclose(np.array(got.history), np.array(expected.history), rtol=1e-12)
    scale = float(np.abs(expected.u).max())
    np.testing.assert_allclose(got.u, expected.u, rtol=0, atol=1e-13 * scale)
    assert got.residual == pytest.approx(expected.residual, rel=1e-12)
    assert list(got.fields) == [field for field in case.output.fields if field != "u"]
    for field, values in expected.fields.items():
        np.testing.assert_allclose(got.fields[field], values, rtol=0, atol=1e-12 * float(np.abs(values).max()))


if __name__ == "__main__":
    update()
