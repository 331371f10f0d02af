# SPDX-License-Identifier: MIT
"""The case files of the repository."""

import math
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from support.places import ROOT

from poisson.case import OutputSettings, SolverSettings, from_mapping, load
from poisson.discrete.discretisation import Discretisation
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.lattice import Lattice
from poisson.problem.expressions import Expression
from poisson.solvers.loops import LOOPS

CASES = sorted((ROOT / "cases").glob("*.toml"))
WITHOUT_EXACT = {
    *(
        "ball_in_tube",
        "capacitor",
        "disc_in_space",
        "eccentric_wire",
        "electrode",
        "electrodes",
        "electrolyte",
        "grounded_box",
        "heated_plate",
        "obstacles",
        "free_charge",
        "pressure_projection",
        "source_from_file",
        "voxels",
    )
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the case files and the source that one of them reads."""
    folder = tmp_path_factory.mktemp("cases")
    for path in CASES:
        (folder / path.name).write_bytes(path.read_bytes())
    script = ROOT / "scripts" / "make_source.py"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script, folder], check=True, capture_output=True, text=True, env=env)
    assert done.stdout == f"{folder / 'source.h5'}\n"
    return folder


def test_there_are_cases_of_every_kind(cases: Path) -> None:
    loaded = {path.stem: load(cases / path.name) for path in CASES}
    assert len(loaded) >= 10
    assert {case.problem.lattice.dimension for case in loaded.values()} == {1, 2, 3}
    kinds = {face.kind for case in loaded.values() for face in case.problem.faces}
    assert {(kind.rule, kind.takes_alpha) for kind in kinds} == {(kind.rule, kind.takes_alpha) for kind in Kind}
    assert {case.solver.value("loop") for case in loaded.values()} == set(LOOPS)
    assert {case.run.precision for case in loaded.values()} == {"float32", "float64"}
    singular = {name for name, case in loaded.items() if Discretisation(case.problem).singular}
    assert singular == {"periodic_2d", "pressure_projection", "singular_neumann", "voxels"}
    assert {name for name, case in loaded.items() if case.problem.exact is None} == WITHOUT_EXACT
    assert {case.problem.varies for case in loaded.values()} == {True, False}
    assert all(case.problem.title for case in loaded.values())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_case_files(cases: Path, path: Path) -> None:
    case = load(cases / path.name)
    again = from_mapping(tomllib.loads(case.text), name="another", folder=cases)
    assert again == case
    assert case.output.file == Path(f"{path.stem}.h5")


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_the_exact_solutions_solve_their_cases(cases: Path, path: Path) -> None:
    """−∇·(a∇u) + c u = f inside, and the data on every face, from differences of the exact solution in each point."""
    problem = load(cases / path.name).problem
    if problem.exact is None:
        assert path.stem in WITHOUT_EXACT
        return
    u, f = problem.exact, problem.f
    assert isinstance(f, Expression)

    def a(point: list[float]) -> float:
        return float(problem.a(np, *point)) if isinstance(problem.a, Expression) else float(problem.a)

    grid = problem.lattice
    rng = np.random.default_rng(1)
    h = 1e-4
    for _ in range(20):
        point = [rng.uniform(low, high) for low, high in zip(grid.lower, grid.upper, strict=True)]
        if path.stem == "charged_disc" and abs(math.hypot(*point) - 0.5) < 0.01:
            continue
        centre = float(u(np, *point))
        divergence = 0.0
        for axis in range(grid.dimension):
            lower, upper, below, above = (list(point) for _ in range(4))
            lower[axis] -= h
            upper[axis] += h
            below[axis] -= h / 2
            above[axis] += h / 2
            divergence += a(above) * (float(u(np, *upper)) - centre) / h**2
            divergence -= a(below) * (centre - float(u(np, *lower))) / h**2
        assert isinstance(problem.c, float)
        assert -divergence + problem.c * centre == pytest.approx(float(f(np, *point)), abs=1e-5)
        for index, face in enumerate(problem.faces):
            axis, upper_face = divmod(index, 2)
            at = list(point)
            at[axis] = grid.upper[axis] if upper_face else grid.lower[axis]
            low, high = list(at), list(at)
            low[axis], high[axis] = at[axis] - h, at[axis] + h
            slope = (float(u(np, *high)) - float(u(np, *low))) / (2.0 * h) * (1.0 if upper_face else -1.0)
            if face.kind is Kind.PERIODIC:
                opposite = list(at)
                opposite[axis] = grid.lower[axis] if upper_face else grid.upper[axis]
                assert float(u(np, *at)) == pytest.approx(float(u(np, *opposite)), abs=1e-12)
            else:
                assert face.value is not None
                expected = float(u(np, *at)) if face.kind is Kind.DIRICHLET else a(at) * slope
                if face.kind is Kind.ROBIN:
                    assert face.alpha is not None
                    expected += float(face.alpha(np, *at)) * float(u(np, *at))
                assert float(face.value(np, *at)) == pytest.approx(expected, abs=1e-6)


def test_the_example_of_the_documentation() -> None:
    case = load(ROOT / "cases" / "unit_square.toml")
    assert case.problem.lattice == Lattice.box((0.0, 0.0), (1.0, 1.0), (129, 129), (Rule.FIXED,) * 4)
    assert case.solver == SolverSettings()
    assert case.output == OutputSettings(Path("unit_square.h5"), ("u", "f", "residual", "error"), 2)
