# SPDX-License-Identifier: MIT
"""Settings that are right by themselves and make no sense together, or for the problem."""

import dataclasses
from collections.abc import Callable

import pytest
from support.case_texts import GOOD_3D, case_of, mistakes_of

import poisson
from poisson.errors import CaseError
from poisson.problem.problem import Problem
from poisson.run.solver import Solver

VARYING = ("equation.a=1 + x",)
ROBIN = ("boundary.x_lower={ robin = 1, alpha = 1 }",)
PERIODIC = ('boundary.x="periodic"',)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ("solver.loop=fused",),
            '--set solver.loop: "fused"; allowed: only its default with method "auto"; the key belongs to jacobi',
        ),
        (
            ("solver.method=fft", "solver.omega=0.5"),
            '--set solver.omega: 0.5; allowed: only its default with method "fft"; the key belongs to jacobi, sor',
        ),
        (
            ("solver.method=cg", "solver.stop=discretisation"),
            '--set solver.stop: "discretisation"; allowed: only its default with method "cg"; the key belongs to auto, '
            "multigrid",
        ),
        (
            ("solver.method=jacobi", "solver.omega=1.2"),
            '--set solver.omega: 1.2; allowed: a number > 0 and <= 1 with method "jacobi"; "sor" takes less than 2',
        ),
        (
            ("solver.method=cg", "solver.preconditioner=jacobi", "solver.pre=3"),
            '--set solver.pre: 3; allowed: only its default with preconditioner "jacobi"',
        ),
        (
            ("solver.method=multigrid", "solver.pre=0", "solver.post=0"),
            "--set solver.post: 0; allowed: at least 1 where solver.pre is 0: a cycle needs a smoothing sweep",
        ),
        (
            ("solver.method=sor", "run.precision=mixed"),
            '--set run.precision: "mixed"; allowed: "float64" or "float32" with method "sor"; "mixed" goes with auto, '
            "multigrid, cg",
        ),
        (
            ("solver.method=cg", "solver.preconditioner=none", "run.precision=mixed"),
            '--set run.precision: "mixed"; allowed: "float64" or "float32" with preconditioner "none"',
        ),
        (
            ("solver.method=cg", "solver.preconditioner=jacobi", "run.precision=mixed"),
            '--set run.precision: "mixed"; allowed: "float64" or "float32" with preconditioner "jacobi"',
        ),
        (
            ("solver.method=multigrid", "solver.stop=discretisation", "run.precision=mixed"),
            '--set run.precision: "mixed"; allowed: "float64" or "float32" with solver.stop "discretisation"',
        ),
        (
            ("solver.method=multigrid", "solver.stop=discretisation", "solver.full=false"),
            '--set solver.full: false; allowed: true with solver.stop "discretisation", which compares the levels of '
            "full multigrid",
        ),
        (
            ("solver.method=fft", *VARYING),
            '--set solver.method: "fft"; allowed: only with constant equation.a and equation.c; use "auto", or "cg" '
            'with preconditioner "fft"',
        ),
        (
            ("solver.method=fft", *ROBIN),
            '--set solver.method: "fft"; allowed: only without robin faces; use "auto", or "cg" with preconditioner '
            '"fft"',
        ),
        (
            ("solver.method=sor", *PERIODIC),
            '--set solver.method: "sor"; allowed: another one, because red-black order needs an even number of nodes '
            "along a periodic axis, and domain.shape has 3 along x",
        ),
        (
            ("solver.method=multigrid", "solver.smoother=red-black", *PERIODIC),
            '--set solver.smoother: "red-black"; allowed: another one, because red-black order needs an even number of '
            "nodes along a periodic axis, and domain.shape has 3 along x",
        ),
        (
            ("solver.stop=discretisation", "run.initial=x"),
            '--set solver.stop: "discretisation"; allowed: "residual" with an initial guess (run.initial), which '
            "full multigrid would not use",
        ),
        (
            ("solver.method=fft", "run.initial=x"),
            '--set solver.method: "fft"; allowed: only without an initial guess (run.initial), which transforms do '
            'not use; "auto" accepts an initial guess',
        ),
        (
            ("run.backend=numpy", "run.threads=2"),
            '--set run.threads: 2; allowed: only its default with backend "numpy", which has no number of threads',
        ),
        (
            ("run.backend=gpu", "run.threads=1"),
            '--set run.threads: 1; allowed: only its default with backend "gpu", which has no number of threads',
        ),
        (("run.ranks=[1, 4]",), "--set run.ranks: [1, 4]; allowed: one number of blocks for each of x, y, z"),
        (
            ("run.ranks=[1, 1, 8]", "domain.shape=[9, 8, 7]"),
            "--set run.ranks: [1, 1, 8]; allowed: at most as many blocks as nodes along x, y, z: 9, 8, 7",
        ),
        (
            ("equation.mean=arithmetic", "equation.a=1 + 1"),
            '--set equation.mean: "arithmetic"; allowed: only its default if a is constant, because every mean '
            "of equal values is the same",
        ),
        (
            ("output.order=4", 'output.fields=["f"]'),
            "--set output.order: 4; allowed: only its default without gradient, flux or E in output.fields, whose "
            "order of accuracy it is",
        ),
        (
            ("boundary.x=periodic", "boundary.y=periodic", "boundary.z_lower.neumann=0", "boundary.z_upper.neumann=0"),
            'boundary.all: { dirichlet = "z" }; allowed: nothing, because every face has its own condition',
        ),
        (
            ("boundary.x=periodic", "boundary.y=periodic", "boundary.z=periodic", "boundary.all.dirichlet=1"),
            "--set boundary.all: { dirichlet = 1.0 }; allowed: nothing, because every face has its own condition; "
            "override those conditions",
        ),
        (
            ("boundary.all.neumann=2",),
            '--set boundary.all: { dirichlet = "z", neumann = 2.0 }; allowed: exactly one of dirichlet, neumann and '
            "robin, and alpha with robin; to replace the condition: --set boundary.all={ neumann = 2.0 }",
        ),
    ],
)
def test_a_clash_is_one_line_with_the_fix(overrides: tuple[str, ...], line: str) -> None:
    assert mistakes_of(GOOD_3D, overrides=overrides) == (line,)


@pytest.mark.parametrize(
    "overrides",
    [
        ("solver.method=sor", "solver.omega=1.7", "domain.shape=[4, 4, 5]", *PERIODIC),
        ("solver.method=cg", "solver.preconditioner=fft", "run.precision=mixed", *VARYING),
        (
            "solver.method=multigrid",
            "solver.smoother=red-black",
            "solver.cycle=W",
            "solver.post=0",
            "solver.full=false",
        ),
        ("solver.method=cg", "solver.smoother=red-black"),
        ("solver.method=jacobi", "solver.omega=0.5", "solver.loop=staged", "solver.check_every=5"),
        ("solver.stop=discretisation", *VARYING, *ROBIN),
        ("solver.method=fft", "equation.c=3", "equation.a=2", "equation.mean=harmonic", "run.initial=0"),
        ("run.threads=2",),
        ("run.backend=openmp", "run.threads=2", "run.initial=x"),
        ("run.backend=numpy", "run.threads=0", "output.order=2"),
        ("run.ranks=4",),
        ("run.ranks=[1, 2, 3]", "domain.shape=[4, 4, 4]"),
        ("equation.mean=arithmetic", *VARYING),
        ("boundary.x=periodic", "boundary.z_lower.neumann=0"),
    ],
)
def test_what_goes_together(overrides: tuple[str, ...]) -> None:
    case = case_of(GOOD_3D, overrides=overrides)
    assert case_of(case.text) == case


def test_python_refuses_what_a_case_file_refuses() -> None:
    box = {"f": 1.0, "boundary": {"all": 0.0}}
    problem = Problem.on_box((5, 5), **box)
    guess = Problem.on_box((5, 5), initial="x", **box)
    threads = "2; allowed: .* with backend .numpy., which has no number of threads$"
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: Solver(problem, backend="numpy", threads=2), f"^run.threads: {threads}"),
        (lambda: poisson.LinearOperator(problem, "numpy", threads=2), f"^threads: {threads}"),
        (
            lambda: Solver(problem, order=4),
            "^order: 4; allowed: only its default without gradient, flux or E in fields, ",
        ),
        (lambda: Solver(guess, "fft"), '^solver.method: "fft"; allowed: only without an initial guess '),
        (
            lambda: Solver(problem, "fft", "numpy").solve(initial="x"),
            "^solver.method: 'fft'; allowed: only without an ",
        ),
        (lambda: Problem.on_box((5, 5), mean="arithmetic"), "^mean: 'arithmetic'; allowed: only its default if a is"),
        (
            lambda: Solver(dataclasses.replace(problem, mean="arithmetic")),
            '^equation.mean: "arithmetic"; allowed: only its default if a is',
        ),
    ]
    for call, line in calls:
        with pytest.raises(CaseError, match=line):
            call()
    assert Solver(problem, backend="numpy").solve(initial="x").provenance["method"] == "fft"


def test_a_key_that_is_wrong_by_itself_is_one_mistake() -> None:
    overrides = ("solver.loop=fusd", "solver.omega=-1", "solver.method=cg")
    assert len(mistakes_of(GOOD_3D, overrides=overrides)) == 2
    assert len(mistakes_of(GOOD_3D, overrides=("solver.method=cgg", "solver.loop=fused"))) == 1


@pytest.mark.parametrize(
    "overrides",
    [
        ("solver.method=jacobi", "solver.omega=1.0"),
        ("solver.method=sor", "solver.omega=1.5"),
        ("solver.method=multigrid", "solver.pre=0"),
        ("solver.method=multigrid", "solver.post=0"),
        ("solver.method=cg", "solver.preconditioner=fft", "run.precision=mixed"),
    ],
)
def test_settings_at_the_limit_go_together(overrides: tuple[str, ...]) -> None:
    assert case_of(GOOD_3D, overrides=overrides).solver.method in overrides[0]
