# SPDX-License-Identifier: MIT
"""Data of faces in files: the same as arrays, checked as the other field files of a case are."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from support.case_texts import case_of, mistakes_of

import poisson
from poisson.case import regrid
from poisson.errors import CaseError
from poisson.problem.fields import FieldFile
from poisson.problem.problem import Problem
from poisson.run import certificate

BOX = "equation = { f = 'x' }\ndomain = { lower = [0, 0, 0], upper = [1, 1, 1], shape = [5, 6, 7] }\n"
TEXT = f"""
{BOX}
[boundary]
x_lower = {{ dirichlet = {{ file = "x.npy" }} }}
y_upper = {{ robin = {{ file = "faces.h5", dataset = "g" }}, alpha = {{ file = "faces.h5", dataset = "alpha" }} }}
z_lower = {{ neumann = {{ file = "z.npy" }} }}
all = {{ dirichlet = 1.0 }}
"""
RNG = np.random.default_rng(8)
X, Y, ALPHA, Z = RNG.random((7, 6)), RNG.random((7, 5)), RNG.random((7, 5)), RNG.random((6, 5))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "z.npy", Z)
    with h5py.File(tmp_path / "faces.h5", "w") as file:
        file["g"], file["alpha"] = Y, ALPHA
    return tmp_path


def test_files_on_faces_are_arrays_on_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boundary = {"x_lower": X, "y_upper": {"robin": Y, "alpha": ALPHA}, "z_lower": {"neumann": Z}, "all": 1.0}
    arrays = Problem.on_box((5, 6, 7), f="x", boundary=boundary)
    case = case_of(TEXT, folder, ("solver.method=multigrid", "run.backend=numpy"))
    expected = poisson.solve(arrays, "multigrid", "numpy").u
    np.testing.assert_array_equal(poisson.solve(case).u, expected)
    assert case_of(case.text, folder) == case
    files = {"x_lower": FieldFile(folder / "x.npy"), "z_lower": {"neumann": FieldFile(folder / "z.npy")}}
    given = Problem.on_box((5, 6, 7), f="x", boundary=boundary | files)
    np.testing.assert_array_equal(poisson.solve(given, "multigrid", "numpy").u, expected)
    # In slabs of one plane, and in float32 with the residual recomputed in slabs.
    single = [poisson.solve(problem, "multigrid", "numpy", "float32").residual for problem in (arrays, case.problem)]
    monkeypatch.setattr("poisson.mesh.grid.slabs.__defaults__", (1,))
    monkeypatch.setattr(certificate, "RESIDUAL_SLAB", 1)
    np.testing.assert_array_equal(poisson.solve(case).u, expected)
    sliced = poisson.solve(case.problem, "multigrid", "numpy", "float32").residual
    assert single == [pytest.approx(sliced, rel=1e-9)] * 2


def test_what_is_wrong_with_a_file_on_a_face(folder: Path) -> None:
    np.save(folder / "f.npy", np.ones((7, 6, 5)))
    x, f = (str(folder / name) for name in ("x.npy", "f.npy"))
    for overrides, line in (
        (
            ("boundary.y_lower.neumann={ file = 'x.npy' }",),
            f"--set boundary.y_lower.neumann: {x!r} has the shape (7, 6); the face y_lower needs (7, 5), "
            "because arrays are (nz, nx)",
        ),
        (
            ("boundary.y_lower={ robin = 1, alpha = { file = 'f.npy' } }",),
            f"--set boundary.y_lower.alpha: {f!r} has the shape (7, 6, 5); the face y_lower needs (7, 5), "
            "because arrays are (nz, nx)",
        ),
        (
            ("boundary.all.dirichlet={ file = 'x.npy' }",),
            f"--set boundary.all.dirichlet: {x!r} has the shape (7, 6); the face y_lower needs (7, 5), because "
            "arrays are (nz, nx)",
        ),
        (
            ("boundary.y_lower.neumann={ file = 'none.npy' }",),
            f"--set boundary.y_lower.neumann: no such file: {str(folder / 'none.npy')!r}",
        ),
        (
            ("boundary.y_lower.neumann={ dataset = 'g' }",),
            "--set boundary.y_lower.neumann.file: missing; allowed: the path of a .npy, .h5 or .hdf5 file",
        ),
        (
            ("boundary.y_upper.robin=exact", "equation.exact=x", "equation.f=exact"),
            '--set boundary.y_upper.robin: "exact"; allowed: only if alpha is a number or an expression',
        ),
        (
            (f"output.file={folder / 'faces.h5'}",),
            f'--set output.file: "{folder / "faces.h5"}"; allowed: a file other than those that the case reads',
        ),
    ):
        [mistake] = mistakes_of(TEXT, folder, overrides)
        # A long value is cut.
        assert mistake == line or (mistake.startswith("--set output.file: ") and mistake.endswith(line.split("; ")[1]))


def test_values_on_a_face_that_are_none(folder: Path) -> None:
    np.save(folder / "z.npy", np.where(Z.max() == Z, np.nan, Z))
    with pytest.raises(CaseError, match=r"^boundary.z_lower: nan at x = .*, z = 0; every value must be finite$"):
        poisson.solve(case_of(TEXT, folder, ("run.backend=numpy",)))
    with h5py.File(folder / "faces.h5", "r+") as file:
        file["alpha"][3, 2] = -1.0
    with pytest.raises(
        CaseError, match=r"^boundary.y_upper.alpha: -1.0 at x = 0.5, y = 1, z = 0.5; every value must be"
    ):
        poisson.solve(case_of(TEXT, folder, ("run.backend=numpy",)))


def test_a_face_of_one_node_takes_no_file(folder: Path) -> None:
    text = "equation = { f = 1 }\ndomain = { lower = [0], upper = [1], shape = [6] }\n"
    line = "boundary.all.dirichlet: a file; allowed: a number, because the face is one node"
    assert mistakes_of(f"{text}boundary.all.dirichlet = {{ file = 'x.npy' }}", folder) == (line,)


def test_a_file_on_a_face_is_for_one_grid(folder: Path) -> None:
    with pytest.raises(
        CaseError, match=r"^boundary.x_lower.dirichlet: '.*x.npy'; allowed on another grid: a number or"
    ):
        regrid(case_of(TEXT, folder), (9, 11, 13))
