# SPDX-License-Identifier: MIT
"""Large data in files and arrays: a rank reads the rows of its part, and nothing is done to an array as a whole.

Covers poisson.discrete.share.
"""

import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.share import Share
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.problem.fields import ArrayField, CoarserField, FieldFile
from poisson.problem.problem import Problem

SHAPE = (14, 9, 21)
"""Nodes along x, y, z."""
ON_NODES = ("f", "a", "c", "initial")
ON_FACES = {"x_lower": (21, 9), "y_upper": (21, 14), "z_lower": (9, 14), "z_upper": (9, 14)}
HALO = 2

here = threading.local()
Reads = list[tuple[int, str, tuple[slice, ...]]]


class Noted(np.ndarray[Any, Any]):
    """An array that notes what is read of it, and does not let itself be read otherwise."""

    name: str
    reads: Reads

    def __getitem__(self, index: Any) -> Any:
        self.reads.append((here.rank, self.name, index if isinstance(index, tuple) else (index,)))
        return np.asarray(self)[index]

    def __array_ufunc__(self, *arguments: Any, **named: Any) -> Any:
        raise AssertionError(f"{self.name} is computed with as a whole")

    def __array_function__(self, function: Any, *arguments: Any, **named: Any) -> Any:
        raise AssertionError(f"{self.name} is given to {function} as a whole")


def noted(values: Any, name: str, reads: Reads) -> Noted:
    found: Noted = values.view(Noted)
    found.name, found.reads = name, reads
    return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """What is read of HDF5 data sets and .npy files, by rank and name."""
    found: Reads = []
    of_dataset, memmap = h5py.Dataset.__getitem__, np.lib.format.open_memmap

    def getitem(self: Any, index: Any, **named: Any) -> Any:
        found.append((here.rank, self.name.strip("/"), index))
        return of_dataset(self, index, **named)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", getitem)
    monkeypatch.setattr(
        np.lib.format, "open_memmap", lambda path, mode: noted(np.asarray(memmap(path, mode=mode)), path.stem, found)
    )
    return found


def stored(kind: str, values: dict[str, Any], folder: Path, reads: Reads) -> dict[str, Any]:
    """Fields of some values, in files or arrays."""
    found: dict[str, Any] = {}
    if kind == "hdf5":
        with h5py.File(folder / "data.h5", "w") as file:
            for name, each in values.items():
                file[name] = each
    for name, each in values.items():
        if kind == "hdf5":
            found[name] = FieldFile(folder / "data.h5", name)
        elif kind == "npy":
            np.save(folder / f"{name}.npy", each)
            found[name] = FieldFile(folder / f"{name}.npy")
        else:
            found[name] = ArrayField(each)
            object.__setattr__(found[name], "values", noted(each, name, reads))
    return found


def parts(whole: Lattice, blocks: tuple[int, int]) -> list[Lattice]:
    """Blocks along y and z."""
    found = [whole]
    for axis, count in enumerate(blocks, 1):
        cuts = np.linspace(0, whole.shape[axis], count + 1).astype(int).tolist()
        found = [each.part(axis, cuts[k], cuts[k + 1], HALO) for k in range(count) for each in found]
    return found


def within(index: tuple[slice, ...], numbers: tuple[Any, ...]) -> bool:
    return all(set(range(each.start, each.stop)) <= set(some) for each, some in zip(index, numbers, strict=True))


@pytest.mark.parametrize("kind", ["hdf5", "npy", "array"])
@pytest.mark.parametrize("blocks", [(1, 2), (1, 3), (2, 2)])
@pytest.mark.parametrize("periodic", [False, True])
def test_a_rank_reads_only_what_its_part_needs(
    tmp_path: Path, reads: Reads, kind: str, blocks: tuple[int, int], periodic: bool
) -> None:
    draw = np.random.default_rng(6)
    names = [name for name in ON_FACES if not (periodic and name.startswith("z"))]
    values = {name: draw.random(SHAPE[::-1]) + 1.0 for name in ON_NODES}
    values |= {name: draw.random(ON_FACES[name]) + 1.0 for name in names}
    fields = stored(kind, values, tmp_path, reads)
    conditions: dict[str, Any] = {name: {"robin": 0.0, "alpha": fields[name]} for name in names}
    conditions |= {"z": "periodic"} if periodic else {}
    settings = {name: fields[name] for name in ON_NODES} | {"boundary": conditions | {"all": {"neumann": 0.0}}}
    problem = Problem.on_box(SHAPE, **settings)
    whole = Discretisation(problem)
    expected = {"source": whole.source, "initial": whole.initial, "a": whole.a, "reaction": whole.reaction}
    here.rank = -1
    arrays = {name: function(np, 0, SHAPE[2]) for name, function in expected.items()}
    reads.clear()
    lattices = parts(whole.whole_lattice, blocks)

    def part(communicator: ThreadCommunicator) -> None:
        here.rank = communicator.rank
        own = balanced(Discretisation(problem, share=Share(lattices[here.rank], communicator)), np)
        numbers = tuple(axis.index for axis in reversed(lattices[here.rank].axes))
        rows = own.array_shape[0]
        for name, function in {"source": own.source, "initial": own.initial}.items():
            np.testing.assert_array_equal(function(np, 0, rows), arrays[name][np.ix_(*numbers)])
        operator = own.operator_on(NumpyBackend(np.float64))
        np.testing.assert_allclose(operator.reaction, arrays["reaction"][np.ix_(*numbers)], rtol=1e-15)
        own.boundary_values()

    on_ranks(len(lattices), part)
    assert {name for _, name, _ in reads} == set(values)
    for rank, lattice in enumerate(lattices):
        numbers = dict(zip("zyx", (axis.index for axis in reversed(lattice.axes)), strict=True))
        for name, each in values.items():
            axes = "zyx" if name in ON_NODES else "zyx".replace(name[0], "")
            mine = [index for reader, read, index in reads if (reader, read) == (rank, name)]
            assert all(within(index, tuple(numbers[axis] for axis in axes)) for index in mine), (rank, name, mine)
            axis, _, end = name.partition("_")
            if end:
                touched = (0 if end == "lower" else SHAPE["xyz".index(axis)] - 1) in numbers[axis]
                assert bool(mine) is touched
            # For its values, and for what must be known of them as a whole.
            count = sum(each[index].size for index in mine)
            assert count <= 3 * np.prod([len(numbers[axis]) for axis in axes]), (rank, name)


def test_a_solve_reads_no_rows_far_from_a_part(reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the setup to the fields of the result; the first rank reads a sample besides, for `CheckWarning`."""
    monkeypatch.setattr("poisson.run.run.warn_of_concerns", lambda *_, **__: None)
    draw = np.random.default_rng(8)
    shape, near = (9, 8, 101), 20
    values = {name: draw.random(shape[::-1]) + 1.0 for name in ON_NODES} | {"y_lower": draw.random((101, 9))}
    fields = stored("array", values, tmp_path, reads)
    boundary = {"y_lower": {"robin": 0.0, "alpha": fields["y_lower"]}, "z": "periodic", "all": 0.0}
    problem = Problem.on_box(shape, boundary=boundary, **{name: fields[name] for name in ON_NODES})

    def solve(communicator: ThreadCommunicator) -> tuple[int, int]:
        here.rank = communicator.rank
        asked = ["f", "a", "c", "residual", "flux"]
        solution = poisson.solve(problem, "multigrid", "numpy", comm=communicator, fields=asked)
        assert solution.status is poisson.Status.CONVERGED and solution.share is not None
        return solution.share.ranges[0]

    for rank, (first, end) in enumerate(on_ranks(2, solve)):
        rows = {row for reader, _, index in reads if reader == rank for row in range(index[0].start, index[0].stop)}
        assert rows >= set(range(first, end))
        assert rows <= {row % 101 for row in range(first - near, end + near)}


@pytest.mark.parametrize("kind", ["memmap", "npy"])
def test_an_array_larger_than_any_memory(tmp_path: Path, kind: str) -> None:
    """A sparse file of 8 TiB: nothing looks at it as a whole, or copies it."""
    path, nodes = tmp_path / "large.npy", (2**20, 2**20)
    large = np.lib.format.open_memmap(path, mode="w+", dtype="f8", shape=nodes[::-1])
    large[2**19, 5] = 7.0
    problem = Problem.on_box(nodes, f=large if kind == "memmap" else FieldFile(path))
    whole = Discretisation(problem).whole_lattice
    share = Share(whole.part(1, 2**19, 2**19 + 2, 1), on_ranks(1, lambda communicator: communicator)[0])
    rows = Discretisation(problem, share=share).source(np, 0, 4)
    assert rows.shape == (4, 2**20)
    assert (rows[1, 5], rows.sum()) == (7.0, 7.0)


@pytest.mark.parametrize(("nodes", "periodic"), [(101, True), (100, True), (101, False), (100, False)])
def test_a_coarser_grid_reads_only_rows_near_its_own(nodes: int, periodic: bool, reads: Reads) -> None:
    values = np.random.default_rng(7).random((nodes, 6))
    field = ArrayField(values)
    coarse = (nodes + 1) // 2 if periodic else nodes // 2 + 1
    rules = (Rule.WRAP, Rule.WRAP) if periodic else (Rule.MIRROR, Rule.MIRROR)
    fine, other, across = (
        Axis.between(0.0, 1.0, count, pair)
        for count, pair in ((nodes, rules), (coarse, rules), (6, (Rule.WRAP, Rule.WRAP)))
    )
    coarser = CoarserField(field, (fine, across), (other, across))
    whole = coarser.read(np, 0, coarse)
    object.__setattr__(field, "values", noted(values, "f", reads))
    here.rank = 0
    for start, stop in ((0, 3), (coarse // 2, coarse // 2 + 1), (coarse - 3, coarse)):
        reads.clear()
        np.testing.assert_array_equal(coarser.read(np, start, stop), whole[start:stop])
        assert sum(index[0].stop - index[0].start for _, _, index in reads) <= 2 * (stop - start) + 5
