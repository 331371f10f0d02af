# SPDX-License-Identifier: MIT
"""Large results of one process: from a device to the file, and how little of the file a look at it reads."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.results import WALL, make_solution

import poisson
from poisson.mesh.lattice import Lattice
from poisson.output import description, parts, result
from poisson.output.pictures.samples import sample
from poisson.problem.expressions import Expression
from poisson.problem.problem import Problem
from poisson.run.solution import Solution


def large(shape: tuple[int, ...]) -> Solution:
    """A result of different values."""
    grid = Lattice.box((0.0,) * len(shape), (1.0,) * len(shape), shape[::-1])
    problem = Problem(grid, (WALL,) * (2 * len(shape)), Expression.constant(1.0), title="A test")
    return make_solution(problem=problem, u=np.random.default_rng(5).random(shape), fields={})


class OnDevice:
    """An array that NumPy cannot read."""

    __cuda_array_interface__ = ()

    def __init__(self, values: Any, read: set[int]) -> None:
        self._values, self._read = values, read
        self.shape, self.ndim, self.dtype, self.nbytes = values.shape, values.ndim, values.dtype, values.nbytes

    def __getitem__(self, index: Any) -> "OnDevice":
        return OnDevice(self._values[index], self._read)

    def get(self) -> Any:
        self._read.add(threading.get_ident())
        return self._values.copy()


def test_what_is_on_a_device_is_read_in_pieces_by_the_threads_that_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LARGE_BYTES": 1, "PIECE_BYTES": 999, "processors": lambda: 3}.items():
        monkeypatch.setattr(parts, name, value)
    solution, read = large((20, 30, 40)), set[int]()
    there: Any = OnDevice(solution.u, read)
    written = result.save(tmp_path / "device.h5", replace(solution, u=there))
    assert written.span == (solution.u.min(), solution.u.max(), 0)
    assert len(read) > 1 and threading.main_thread().ident not in read
    with h5py.File(tmp_path / "device.h5") as file:
        np.testing.assert_array_equal(file["u"][...], solution.u)
    description.describe(tmp_path / "device.h5")  # compares the checksum


COUNTS = Path("/proc/self/io")


@pytest.mark.skipif(not COUNTS.exists(), reason="the system does not count the bytes that a process reads")
def test_a_look_at_a_large_result_reads_a_small_part_of_it(tmp_path: Path) -> None:
    """`info`, `load`, `plot` and `at` read the ends of the file, where its texts are, and slices of its fields."""

    def count() -> int:
        return int(COUNTS.read_text().split()[1])

    path = tmp_path / "u.h5"
    result.save(path, large((33, 129, 1025)))
    assert path.stat().st_size > 34e6
    loaded = poisson.load(path, lazy=True)
    # With the most megabytes; where four lines or two planes are joined, the ends of the file are read for each.
    looks: dict[str, tuple[Callable[[], Any], float]] = {
        "info": (lambda: description.facts(path, most=1 << 20), 2.3),
        "load": (lambda: poisson.load(path, lazy=True), 2.3),
        "at": (lambda: loaded.at(0.3, 0.4, 0.5), 2.3),
        "line along z": (lambda: sample(loaded, "u", {0: 0.3, 1: 0.4}, 400), 9.2),
        "plane of x": (lambda: sample(loaded, "u", {0: 0.5}, 40), 7.0),
        "plane of y": (lambda: sample(loaded, "u", {1: 0.5}, 40), 5.0),
        "plane of z": (lambda: sample(loaded, "u", {2: 0.5}, 40), 5.0),
        "every node of a plane": (lambda: loaded.u[16], 3.4),
    }
    found = {}
    for name, (look, _) in looks.items():
        before = count()
        look()
        found[name] = (count() - before) / 1e6
    assert all(found[name] < most for name, (_, most) in looks.items()), found
