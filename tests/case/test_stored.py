# SPDX-License-Identifier: MIT
"""Problems as texts in results, and back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import poisson
from poisson.case import from_mapping, toml
from poisson.case.stored import NOWHERE, problem_of, text_of
from poisson.errors import CaseError
from poisson.problem.fields import FieldFile

HERE = Path("/data")


def again(problem: poisson.Problem, **instead: FieldFile) -> poisson.Problem:
    return problem_of(text_of(problem), problem.title, HERE, instead)


MIXED = {"x_lower": {"robin": "y", "alpha": "1 + z"}, "z": "periodic", "all": {"neumann": 2}}


@pytest.mark.parametrize(
    "problem",
    [
        poisson.Problem.on_box((5,), f="exp(-x)", exact="x*x", lower=[-1.5], title="a \u0000 \n line"),
        poisson.Problem.on_box((5, 6), f=0.1, a="1 + x*y", mean="arithmetic", boundary={"y": "periodic", "all": "y"}),
        poisson.Problem.on_box(
            (5, 6),
            bodies=[
                poisson.Body("x < 0.3 and not y > 0.2", robin="x", alpha=2.0, name="corner"),
                poisson.Body({"shape": "sphere", "center": (0.5, 0.5), "radius": 0.1}, a="1 + y"),
            ],
        ),
        poisson.Problem.on_box((3, 4, 5), c="z", initial="x", boundary=MIXED),
    ],
)
def test_a_problem_of_texts_and_numbers_is_read_back_equal(problem: poisson.Problem) -> None:
    found = again(problem)
    levels = [[each.inside.level for each in one.bodies] for one in (found, problem)]
    assert levels[0] == levels[1] or not problem.bodies
    bodies = tuple(replace(body, inside=other.inside) for body, other in zip(found.bodies, problem.bodies, strict=True))
    assert replace(found, bodies=bodies) == problem


def test_what_has_no_text_is_looked_for_when_it_is_needed(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.ones((6, 5)))
    problem = poisson.Problem.on_box(
        (5, 6),
        f=lambda x, y: x,
        a=np.ones((6, 5)),
        c=FieldFile(tmp_path / "c.npy"),
        bodies=[poisson.Body(np.ones((6, 5)), a=lambda x, y: x)],
        boundary={"x_lower": np.ones(6), "y_lower": {"robin": 0.0, "alpha": lambda x, y: x}, "all": 0.0},
    )
    stored = FieldFile(Path("a.h5"), "a")
    found = again(problem, a=stored)
    assert found.f == FieldFile(HERE / NOWHERE, "f")
    assert found.a == stored
    assert found.c == problem.c
    assert found.faces[0].value == FieldFile(HERE / NOWHERE, "x_lower.dirichlet")
    assert found.faces[1] == problem.faces[1]
    assert found.bodies[0].inside.level == FieldFile(HERE / NOWHERE, "body.1.inside")
    assert found.bodies[0].a == FieldFile(HERE / NOWHERE, "body.1.a")
    assert found.faces[2].alpha == FieldFile(HERE / NOWHERE, "y_lower.alpha")
    with pytest.raises(poisson.PoissonError, match=rf"no such file: '{HERE / NOWHERE}'"):
        poisson.solve(replace(found, a=1.0, faces=problem.faces, bodies=()))


def test_a_case_whose_files_are_gone_is_read_back(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.ones(6))
    tables = {
        "equation": {"f": "exact", "exact": "sin(x)*y", "a": "1 + y"},
        "domain": {"lower": [0.0, 0.0], "upper": [1.0, 2.0], "shape": [5, 6]},
        "boundary": {"x_lower": {"dirichlet": {"file": "g.npy"}}, "all": {"dirichlet": "exact"}},
        "solver": {"method": "jacobi"},
    }
    case = from_mapping(tables, name="b", folder=tmp_path)
    (tmp_path / "g.npy").unlink()
    assert problem_of(case.text, "b", tmp_path, {}) == case.problem
    del tables["boundary"]["x_lower"]
    tables["boundary"]["all"] = {"neumann": {"file": "g.npy"}}  # type: ignore[dict-item]
    text = "\n".join(f"{name} = {toml.written(table)}" for name, table in tables.items())
    assert {face.value for face in problem_of(text, "b", HERE, {}).faces} == {FieldFile(HERE / "g.npy")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("title = ", "the case is not TOML: "),
        ("a = " + "[" * 50, "nested more than 8 deep"),
        ("#" * 2**19, "the case is longer than 262144 characters"),
        ("[equation]\nf = 1\n", "domain.lower: missing"),
    ],
)
def test_a_text_that_is_no_case_is_refused(text: str, reason: str) -> None:
    with pytest.raises(CaseError, match=reason):
        problem_of(text, "", HERE, {})
