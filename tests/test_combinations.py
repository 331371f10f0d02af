"""Settings that are right by themselves and make no sense together, or for the problem."""

from __future__ import annotations

from dataclasses import fields

import pytest
from case_texts import GOOD_3D, case_of, mistakes_of

from poisson.case.combinations import COMMON_KEYS, KEYS_OF_METHOD
from poisson.case.settings import METHODS, SolverSettings

VARYING = ("equation.a=1 + x",)
ROBIN = ("boundary.x_lower={ robin = 1, alpha = 1 }",)
PERIODIC = ('boundary.x="periodic"',)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ("solver.loop=fused",),
            '--set solver.loop: "fused"; allowed: only its default with method "auto"; it is a key of jacobi',
        ),
        (
            ("solver.method=fft", "solver.omega=0.5"),
            '--set solver.omega: 0.5; allowed: only its default with method "fft"; it is a key of jacobi, sor',
        ),
        (
            ("solver.method=cg", "solver.stop=discretisation"),
            '--set solver.stop: "discretisation"; allowed: only its default with method "cg"; it is a key of auto, '
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
            ("solver.method=multigrid", "solver.stop=discretisation", "run.precision=mixed"),
            '--set run.precision: "mixed"; allowed: "float64" or "float32" with solver.stop "discretisation", which a '
            "cycle or two reach",
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
            '--set solver.method: "sor"; allowed: another one, as red and black nodes alternate along a periodic axis '
            "only where its nodes are even in number, and domain.shape has 3 along x",
        ),
        (
            ("solver.method=multigrid", "solver.smoother=red-black", *PERIODIC),
            '--set solver.smoother: "red-black"; allowed: another one, as red and black nodes alternate along a '
            "periodic axis only where its nodes are even in number, and domain.shape has 3 along x",
        ),
        (
            ("solver.stop=discretisation", "run.initial=x"),
            '--set solver.stop: "discretisation"; allowed: "residual" with an initial guess (run.initial), which a '
            "start on the coarsest grid would not use",
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
        ("solver.method=fft", "equation.c=3", "equation.a=2"),
    ],
)
def test_what_goes_together(overrides: tuple[str, ...]) -> None:
    case = case_of(GOOD_3D, overrides=overrides)
    assert case_of(case.text) == case


def test_a_key_that_is_wrong_by_itself_is_one_mistake() -> None:
    overrides = ("solver.loop=fusd", "solver.omega=-1", "solver.method=cg")
    assert len(mistakes_of(GOOD_3D, overrides=overrides)) == 2
    assert len(mistakes_of(GOOD_3D, overrides=("solver.method=cgg", "solver.loop=fused"))) == 1


def test_every_key_belongs_to_a_method() -> None:
    assert set(KEYS_OF_METHOD) == {"auto", *METHODS}
    named = set().union(*KEYS_OF_METHOD.values())
    assert {field.name for field in fields(SolverSettings)} == COMMON_KEYS | named
