# SPDX-License-Identifier: MIT
"""Overrides that change a case: what becomes of its exact solution and of its parameters."""

import logging
import tomllib
from pathlib import Path

import numpy as np
import pytest
from support.case_texts import case_of, mistakes_of
from support.places import ROOT

import poisson
from poisson.case import load
from poisson.case.exact import holds
from poisson.cli import main

CASES = [path for path in sorted((ROOT / "cases").glob("*.toml")) if "\nexact =" in path.read_text("utf-8")]

TEXTS = """
[equation]
f = "k*pi**2*sin(pi*x)*sin(pi*y)"
exact = "k*sin(pi*x)*sin(pi*y)/2"

[parameters]
k = 2.0
unused = 1.0

[domain]
lower = [0, 0]
upper = [1, 0.5]
shape = [9, 9]

[boundary]
all = { dirichlet = 0.0 }
y_upper = { robin = "3*k*sin(pi*x)/2", alpha = 3.0 }

[output]
fields = ["f", "error"]
"""
DERIVED = TEXTS.replace('"k*pi**2*sin(pi*x)*sin(pi*y)"', '"exact"').replace('"3*k*sin(pi*x)/2"', '"exact"')


def left_out(text: str, *overrides: str, folder: Path = Path()) -> bool:
    """Whether a case loses its exact solution; if so, all of it, and what stays is the same case when read again."""
    case = case_of(text, folder, overrides)
    again = case_of(case.text, folder)
    assert (again.problem, again.output.fields, again.text) == (case.problem, case.output.fields, case.text)
    lost = case.problem.exact is None
    assert ("exact" not in tomllib.loads(case.text)["equation"]) == lost == ("error" not in case.output.fields)
    return lost


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_exact_solutions_of_the_examples_hold(path: Path) -> None:
    assert holds(load(path).problem)


@pytest.mark.parametrize(
    "override",
    [
        "equation.f=1",
        "equation.f=1.00001*k*pi**2*sin(pi*x)*sin(pi*y)",
        "equation.a=2",
        "equation.a=1 + x",
        "equation.c=1",
        "domain.upper=[1.5, 1]",
        "domain.lower=[0, 0.25]",
        "boundary.x_lower.dirichlet=1",
        "boundary.x_lower={ neumann = 0 }",
        "boundary.y_upper.alpha=x",
        "boundary.all={ dirichlet = 'x' }",
        "boundary.x=periodic",
    ],
)
def test_an_exact_solution_that_is_none_any_more_is_left_out(override: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="poisson"):
        assert left_out(TEXTS, override)
    [record] = caplog.records
    key = override.partition("=")[0].removesuffix(".dirichlet").removesuffix(".alpha")
    assert record.getMessage() == (
        f"equation.exact is ignored, because it does not solve the case with {key}; override equation.exact, "
        "too, to have errors"
    )


@pytest.mark.parametrize(
    "override",
    [
        "domain.shape=[17, 33]",
        "solver.rtol=1e-4",
        "equation.f=pi**2*k*sin(pi*x)*sin(pi*y)",
        "equation.c=0",
        "domain.upper=[2, 0.5]",
        "boundary.x_upper={ neumann = '-k*pi*sin(pi*y)/2' }",
        "parameters.k=5",
        "title=Other",
    ],
)
def test_an_exact_solution_that_still_is_one_stays(override: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not left_out(TEXTS, override)
    assert caplog.records == []


@pytest.mark.parametrize(
    "override", ["equation.c=x", "equation.a=1 + x*y", "parameters.k=3", "boundary.y_upper.alpha=y"]
)
def test_what_is_derived_from_it_goes_with_it(override: str) -> None:
    assert not left_out(DERIVED, override)


def test_what_was_derived_from_it_stays_as_it_is() -> None:
    before = case_of(DERIVED).problem
    case = case_of(DERIVED, overrides=("boundary.x_lower.dirichlet=1",))
    assert left_out(DERIVED, "boundary.x_lower.dirichlet=1")
    assert (case.problem.f, case.problem.faces[1:]) == (before.f, before.faces[1:])
    np.testing.assert_array_equal(poisson.solve(case).u, poisson.solve(case_of(case.text)).u)


def test_a_formula_too_long_to_write_is_one_mistake() -> None:
    exact = "*".join(["sin(pi*x)*exp(x*y)*cos(x + y)*sqrt(2 + x)"] * 8)
    text = DERIVED.replace("k*sin(pi*x)*sin(pi*y)/2", exact).replace("k = 2.0\n", "")
    [line] = mistakes_of(text, overrides=("boundary.x_lower.dirichlet=1",))
    assert line.startswith(
        'equation.f: "exact"; allowed: an expression, because equation.exact does not solve the case'
    )


@pytest.mark.parametrize("exact", ["equation.exact=x", "equation={ f = 1.0, exact = 'x' }"])
def test_an_exact_solution_that_is_given_along_stays(exact: str) -> None:
    assert not left_out(TEXTS, "equation.f=1", exact)
    assert not left_out(TEXTS, "boundary.x_lower.dirichlet=1", "equation.exact=k*sin(pi*x)*sin(pi*y)/2")


def test_a_case_with_a_file_loses_it(tmp_path: Path) -> None:
    """The data in a file cannot be compared with formulas, and belong to the case as it was."""
    np.save(tmp_path / "f.npy", np.ones((9, 9)))
    text = TEXTS.replace('f = "k*pi**2*sin(pi*x)*sin(pi*y)"', 'f = { file = "f.npy" }')
    assert not left_out(text, "solver.rtol=1e-4", folder=tmp_path)
    assert left_out(text, "equation.c=1", folder=tmp_path)


def test_the_error_cannot_be_asked_for_along_with_it() -> None:
    overrides = ("equation.f=1", 'output.fields=["error"]')
    assert mistakes_of(TEXTS, overrides=overrides) == (
        '--set output.fields: "error"; allowed: only if equation.exact solves the case; override equation.exact '
        "together with "
        "equation.f",
    )


def test_the_command_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "case.toml").write_text(TEXTS)
    line = (
        "equation.exact is ignored, because it does not solve the case with equation.f; override "
        "equation.exact, too, to have errors"
    )
    assert main(["solve", "case.toml", "--set", "equation.f=1", "--backend", "numpy"]) == 0
    shown = capsys.readouterr()
    assert line in shown.err
    assert "\nerror " not in shown.out
    assert main(["verify", "case.toml", "--refine=2", "--set", "equation.f=1"]) == 2
    assert "verify --refine needs equation.exact" in capsys.readouterr().err


# ---- parameters
def test_an_override_of_a_parameter_that_no_text_uses() -> None:
    wanted = "a parameter used by an expression of the case: k"
    assert mistakes_of(TEXTS, overrides=("parameters.unused=2",)) == (
        f"--set parameters.unused: 2.0; allowed: {wanted}",
    )
    assert mistakes_of(TEXTS, overrides=("parameters.kk=2",)) == (
        f"--set parameters.kk: 2.0; allowed: {wanted}; did you mean 'k'?",
    )
    case_of(TEXTS, overrides=("parameters.unused=2", "equation.c=unused"))
    case_of(TEXTS, overrides=("parameters={ k = 2.0, unused = 3.0 }",))
