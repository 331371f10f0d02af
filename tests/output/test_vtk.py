# SPDX-License-Identifier: MIT
"""VTK reads results as image data, rectilinear and structured grids: nodes, fields, and the file of several ranks.

The reader is that of the package ``vtk``, too large for the extras: without it these tests are skipped, but the first.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.ranks import on_ranks
from support.results import make_solution, part_of

import poisson
from poisson.mesh.system import SYSTEMS
from poisson.output import description, hdf5
from poisson.problem.problem import Problem
from poisson.run.solution import Solution


def with_gradient(dimension: int) -> Solution:
    solution = make_solution(dimension, "float32")
    shape = (*solution.problem.lattice.array_shape, dimension)
    return replace(solution, fields={"gradient": np.arange(np.prod(shape), dtype="float32").reshape(shape)})


def read(path: Path) -> Any:
    vtk = pytest.importorskip("vtk")
    reader = vtk.vtkHDFReader()
    assert reader.CanReadFile(str(path))
    reader.SetFileName(str(path))
    reader.Update()
    return reader.GetOutput()


def require_same(image: Any, solution: Solution) -> None:
    from vtk.util.numpy_support import vtk_to_numpy

    points = image.GetPointData()
    assert points.GetNumberOfArrays() == 1 + len(solution.fields)
    for name, values in {"u": solution.u, **solution.fields}.items():
        found = vtk_to_numpy(points.GetArray(name))
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found.reshape(values.shape), values)


def test_the_group_for_vtk_has_links_and_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    hdf5.write(path, with_gradient(2))
    with h5py.File(path) as file:
        group = file["VTKHDF"]
        assert group.attrs["Type"] == b"ImageData" and group.attrs["Version"].tolist() == [2, 0]
        assert group.attrs["WholeExtent"].tolist() == [0, 4, 0, 3, 0, 0]
        assert group.attrs["Origin"].tolist() == [0.0, -1.0, 0.0]
        assert group.attrs["Spacing"].tolist() == [0.25, 0.5, 1.0]
        assert {name: group["PointData"].get(name, getlink=True).path for name in group["PointData"]} == {
            "u": "/u",
            "gradient": "/gradient",
        }
    assert "VTKHDF" not in description.describe(path)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_vtk_reads_a_result(tmp_path: Path, dimension: int) -> None:
    solution, path = with_gradient(dimension), tmp_path / "a.h5"
    hdf5.write(path, solution)
    image, beside = read(path), 3 - dimension
    assert image.GetDimensions() == (5, 4, 3)[:dimension] + (1,) * beside
    assert image.GetOrigin() == (0.0, -1.0, 2.0)[:dimension] + (0.0,) * beside
    assert image.GetSpacing() == (0.25, 0.5, 1.5)[:dimension] + (1.0,) * beside
    require_same(image, solution)


TURN = {"uniform": (0.0, 2.0 * np.pi, 8)}
PLACES = {"nodes": np.linspace(0.0, 1.0, 6) ** 2}
GRIDS: dict[str, tuple[Any, ...]] = {
    "disc": (({"cells": np.linspace(0.0, 2.0, 6)}, TURN), "polar"),
    "r, phi, z": (({"cells": np.linspace(0.0, 2.0, 6)}, TURN, PLACES), "cylinder"),
    "r, z": ((PLACES, TURN), "cylinder"),
    "stretched": ((PLACES, TURN, PLACES), "cartesian"),
}


@pytest.mark.parametrize("name", GRIDS)
def test_vtk_reads_nodes_where_they_are(tmp_path: Path, name: str) -> None:
    axes, system = GRIDS[name]
    conditions: Any = {"all": 0.0} | ({"phi": "periodic"} if "phi" in SYSTEMS[system][len(axes)].axes else {})
    problem = Problem.on_lattice(axes, f="r" if system != "cartesian" else "x", boundary=conditions, system=system)
    solution, path = poisson.solve(problem, backend="numpy", fields=("E",)), tmp_path / "a.h5"
    hdf5.write(path, solution)
    lattice = problem.lattice
    places = np.broadcast_arrays(*(lattice.along(axis, lattice.coordinates(axis)) for axis in range(len(axes))))
    if lattice.angle is not None:
        r, phi, *z = places
        places = [r * np.cos(phi), r * np.sin(phi), *z]
    points = np.stack([*places, np.zeros_like(places[0])][:3], axis=-1).reshape(-1, 3)
    with h5py.File(path) as file:
        group = file["VTKHDF"]
        dimensions = group.attrs["Dimensions"]
        assert dimensions.dtype == np.int32 and dimensions.tolist() == [*lattice.shape, 1][:3]
        assert group.attrs["Version"].tolist() == [2, 7]
        assert group.attrs["Type"] == (b"RectilinearGrid" if lattice.angle is None else b"StructuredGrid")
        if lattice.angle is None:
            lines = [group[f"{letter}Coordinates"][...] for letter in "ZYX"]
            found = np.stack(np.meshgrid(*lines, indexing="ij")[::-1], axis=-1)
        else:
            found = group["Points"][...]
        assert found.shape == (*dimensions[::-1], 3)
        np.testing.assert_allclose(found.reshape(-1, 3), points, rtol=0, atol=1e-15)
        assert set(group["PointData"]) == ({"u", "E"} if lattice.angle is None else {"u"})
        assert (group["PointData/u"][...] == solution.u).all()
    grid = read(path)
    assert (grid.GetPointData().GetArray("u").GetNumberOfTuples(), grid.GetNumberOfPoints()) == (solution.u.size,) * 2
    for number in range(0, len(points), 7):
        np.testing.assert_allclose(grid.GetPoint(number), points[number], rtol=0, atol=1e-15)


def test_vtk_reads_the_file_of_several_ranks(tmp_path: Path) -> None:
    solution, path = with_gradient(3), tmp_path / "a.h5"
    on_ranks(2, lambda communicator: hdf5.write(path, part_of(solution, communicator, (1, 2, 1))))
    require_same(read(path), solution)


def test_a_file_of_the_first_format_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    hdf5.write(path, make_solution(2))
    with h5py.File(path, "r+") as file:
        del file["VTKHDF"]
        file.attrs["format"] = "poisson result 1"
        file.attrs["text_checksum"] = hdf5.text_checksum(file)
    assert "warning" not in description.describe(path)
    assert hdf5.is_result(path)
