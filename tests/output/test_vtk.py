# SPDX-License-Identifier: MIT
"""VTK reads results as image data: the grid, the fields, and the file of several ranks.

The reader is that of the package ``vtk``, too large for the extras: without it these tests are skipped, but the first.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.ranks import on_ranks
from support.results import make_solution, part_of

from poisson.output import description, hdf5
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
