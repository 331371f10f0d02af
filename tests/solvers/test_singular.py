# SPDX-License-Identifier: MIT
"""Problems whose solution is determined up to a constant: no Dirichlet face anywhere, and c = 0.

Covers poisson.solvers.balanced.
"""

import itertools
import logging
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.problems import discretise, make_case

import poisson
from poisson.cli import main
from poisson.discrete import discretisation as module
from poisson.discrete import reference
from poisson.discrete.balance import Balance, balance_of, balanced
from poisson.discrete.discretisation import Discretisation
from poisson.errors import IncompatibleSource
from poisson.mesh.grid import slabs
from poisson.run import run
from poisson.solvers.loops import LOOPS
from poisson.solvers.status import Status

NEUMANN = {"all": {"neumann": "exact"}}
PERIODIC = {"x": "periodic", "y": "periodic"}
BOX = (1.0, 2.0, 4.0)


def trapezoidal_mean(discretisation: Discretisation, values: Any) -> float:
    volumes = discretisation.volumes(np, 0, values.shape[0])
    return float((volumes * values).sum() / volumes.sum())


# ---- what is singular
def test_singular_is_a_property_of_the_whole_problem() -> None:
    kinds = {"dirichlet": {"dirichlet": 0.0}, "neumann": {"neumann": 0.0}}
    for x_lower, x_upper, y in itertools.product(kinds, kinds, ["periodic", "neumann", "dirichlet"]):
        for c in (0.0, 1e-300, 2.0):
            boundary: dict[str, Any] = {"x_lower": kinds[x_lower], "x_upper": kinds[x_upper]}
            boundary |= {"y": y} if y == "periodic" else {"y_lower": kinds[y], "y_upper": kinds["neumann"]}
            problem = make_case({"f": 0.0, "c": c}, boundary, (4, 5)).problem
            expected = c == 0.0 and "dirichlet" not in (x_lower, x_upper, y)
            assert Discretisation(problem).singular == expected
            assert Discretisation(problem).operator.singular == expected


# ---- the balance

FLUXES = {
    "x_lower": {"neumann": 2.0},
    "x_upper": {"neumann": -1.0},
    "y_lower": {"neumann": "x"},
    "y_upper": {"neumann": -0.25},
}


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_balance_in_2d(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "slabs", partial(slabs, limit=limit))
    problem = make_case({"f": "x - 2*y"}, FLUXES, (5, 9), BOX).problem
    balance = balance_of(Discretisation(problem), np)
    # Over [0, 1] x [0, 2]; the trapezoidal rule is exact for these.
    assert balance.source == pytest.approx(0.5 * 2 - 2 * 2, rel=1e-14)
    assert balance.flux == pytest.approx(2 * 2 - 1 * 2 + 0.5 - 0.25, rel=1e-14)
    assert balance.defect == pytest.approx(-3 + 2.25, rel=1e-13)
    # |x - 2y| is not linear; the rule gives this on 5 x 9 nodes.
    x, y = np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 2, 9))
    volumes = np.outer([0.5, *[1.0] * 7, 0.5], [0.5, *[1.0] * 3, 0.5]) / 16
    assert balance.scale == pytest.approx(np.sum(volumes * np.abs(x - 2 * y)) + 4 + 2 + 0.5 + 0.25, rel=1e-14)
    # The coarser axis has 4 intervals: ten times its square is above the cap.
    assert balance.tolerance == 0.1


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_balance_in_3d_with_a_periodic_axis(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "slabs", partial(slabs, limit=limit))
    boundary = {"y": "periodic", "x_lower": {"neumann": "z"}, "x_upper": {"neumann": 1.0}}
    boundary |= {"z_lower": {"neumann": "x"}, "z_upper": {"neumann": "x - 1"}}
    problem = make_case({"f": "1 + sin(pi*y)"}, boundary, (20, 16, 33), BOX).problem
    balance = balance_of(Discretisation(problem), np)
    assert balance.source == pytest.approx(8.0, rel=1e-13)
    assert balance.flux == pytest.approx(2 * 8 + 8 + 2 * 0.5 - 2 * 0.5, rel=1e-13)
    assert balance.scale == pytest.approx(8 + 16 + 8 + 1 + 1, rel=1e-13)
    assert balance.tolerance == pytest.approx(10 / 16**2, rel=1e-14)


@pytest.mark.parametrize(("defect", "compatible"), [(0.0, True), (-0.0499, True), (0.0501, False), (math.nan, False)])
def test_the_tolerance_is_relative(defect: float, compatible: bool) -> None:
    assert Balance(1.0, defect - 1.0, 2.0, 0.025).compatible == compatible


def test_a_problem_without_data_is_compatible() -> None:
    assert Balance(0.0, 0.0, 0.0, 0.025).compatible
    solution = run.solve(make_case({"f": 0.0, "exact": 3.0}, {"all": {"neumann": 0.0}}, (5, 6)))
    assert (solution.status, solution.iterations) == (Status.CONVERGED, 0)
    assert solution.error is not None
    assert (solution.error.rms, solution.error.max) == (0.0, 0.0)


# ---- what is done about it
def test_a_small_defect_is_removed_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="poisson")
    case = make_case({"f": "exact", "exact": "exp(x)*y**2"}, NEUMANN, (17, 33), BOX)
    before = Discretisation(case.problem)
    balance = balance_of(before, np)
    assert 1e-5 < abs(balance.defect) / balance.scale < balance.tolerance
    after = balanced(before, np)
    assert after.shift == balance.defect / 2.0
    numbers = (
        f"∫f = {balance.source:.6g}, ∮g = {balance.flux:.6g}, ∫f + ∮g = {balance.defect:.3g} "
        f"({abs(balance.defect) / balance.scale:.2g} of ∫|f| + ∮|g|)"
    )
    assert [record.getMessage() for record in caplog.records] == [
        f"singular problem (no dirichlet face, c = 0): {numbers}; subtracted from f, and the mean of u is set to zero"
    ]
    # The data of this case: ∫f = -∫(exp(x) y² + 2 exp(x)) and ∮g, in closed form.
    assert balance.source == pytest.approx(-(math.e - 1) * (8 / 3 + 4), rel=2e-3)
    assert balance.flux == pytest.approx((math.e - 1) * (8 / 3 + 4), rel=2e-3)
    source = after.source(np, 0, 33)
    assert abs(trapezoidal_mean(after, source)) < 1e-14 * np.abs(source).max()
    np.testing.assert_array_equal(after.f(np, 0, 33), before.f(np, 0, 33) - after.shift)


def test_other_problems_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="poisson")
    for equation, boundary in (
        ({"f": 1.0}, {"all": {"neumann": 0.0}, "x_lower": {"dirichlet": 0.0}}),
        ({"f": 1.0, "c": 0.5}, {"all": {"neumann": 0.0}}),
    ):
        discretisation = Discretisation(make_case(equation, boundary, (5, 5)).problem)
        assert balanced(discretisation, np) is discretisation
    assert not caplog.records


LINE = (
    "no face is dirichlet and c = 0, so ∫f + ∮g must be zero, but ∫f = 6, ∮g = -2, ∫f + ∮g = 4 (0.5 of ∫|f| + ∮|g|), "
    "and the grid explains at most 0.039: subtract 2 from equation.f, or correct the boundary"
)
INCOMPATIBLE = """
equation = { f = 3.0 }
domain = { lower = [0, 0], upper = [1, 2], shape = [17, 17] }
boundary = { all = { neumann = 0.0 }, x_upper = { neumann = -1.0 } }
run = { backend = "numpy" }
"""


def test_a_large_defect_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    boundary = {"all": {"neumann": 0.0}, "x_upper": {"neumann": -1.0}}
    case = make_case({"f": 3.0}, boundary, (17, 17), BOX)
    with pytest.raises(IncompatibleSource) as caught:
        run.solve(case)
    assert str(caught.value) == LINE
    path = tmp_path / "case.toml"
    path.write_text(INCOMPATIBLE)
    for command in ("solve", "verify"):
        assert main([command, str(path)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.splitlines()[-1]) == ("", f"poisson: error: {LINE}")
    assert list(tmp_path.iterdir()) == [path]
    # So is what is too much of the other sign.
    with pytest.raises(IncompatibleSource, match=r"∫f \+ ∮g = -2 .*subtract -2 from equation\.f"):
        run.solve(make_case({"f": -1.0}, boundary | {"x_upper": {"neumann": -1.0}}, (17, 17), (1.0, 1.0)))
    # What the line recommends is right.
    assert run.solve(make_case({"f": 1.0}, boundary, (17, 17), BOX)).status is Status.CONVERGED


# ---- the solution
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("backend", ["numpy", "openmp"])
@pytest.mark.parametrize(
    ("boundary", "exact"),
    [(NEUMANN, "cos(3*x)*exp(y)"), (PERIODIC, "sin(2*pi*x)*cos(pi*y)"), ({"x": "periodic", **NEUMANN}, "y**3")],
    ids=["neumann", "periodic", "both"],
)
def test_the_mean_is_zero(boundary: dict[str, Any], exact: str, backend: str, loop: str, precision: str) -> None:
    settings = (f"run.backend={backend}", f"solver.loop={loop}", f"run.precision={precision}", "run.initial=5.0")
    tolerance = "solver.rtol=1e-3" if precision == "float32" else "solver.rtol=1e-8"
    case = make_case({"f": "exact", "exact": exact}, boundary, (12, 14), BOX, (*settings, tolerance))
    solution = run.solve(case)
    assert solution.status is Status.CONVERGED
    mean = trapezoidal_mean(discretise(case), solution.u.astype(np.float64))
    assert abs(mean) <= 4 * float(np.finfo(precision).eps) * np.abs(solution.u).max()


def test_the_error_is_against_the_exact_solution_with_zero_mean() -> None:
    plain, lifted = (
        run.solve(make_case({"f": "exact", "exact": text}, NEUMANN, (17, 21), BOX, ('output.fields=["u", "error"]',)))
        for text in ("cos(3*x)*exp(y)", "cos(3*x)*exp(y) + 700")
    )
    assert plain.error is not None
    assert lifted.error is not None
    assert 1e-4 < plain.error.rms < plain.error.max < 0.1
    assert lifted.error.rms == pytest.approx(plain.error.rms, rel=1e-8)
    assert lifted.error.max == pytest.approx(plain.error.max, rel=1e-8)
    error = plain.fields["error"]
    assert np.abs(error).max() == plain.error.max
    discretisation = discretise(make_case({"f": "exact", "exact": "cos(3*x)*exp(y)"}, NEUMANN, (17, 21), BOX))
    exact = discretisation.exact(np, 0, 21)
    np.testing.assert_allclose(
        error, plain.u - exact + trapezoidal_mean(discretisation, exact), rtol=0, atol=1e-14 * np.abs(exact).max()
    )
    assert trapezoidal_mean(discretisation, error**2) == pytest.approx(plain.error.rms**2, rel=1e-12)


def test_the_direct_solution_has_zero_mean() -> None:
    case = make_case({"f": "exact", "exact": "cos(3*x)*exp(y) + 2"}, NEUMANN, (9, 12), BOX)
    discretisation = discretise(case)
    direct = reference.solve(discretisation)
    assert abs(trapezoidal_mean(discretisation, direct)) < 1e-13
    np.testing.assert_allclose(direct, run.solve(case).u, rtol=0, atol=1e-6)


def test_a_rough_initial_guess_leaves_no_mean_whose_rounding_counts() -> None:
    """A sweep keeps another mean than that of u where a varies: 10⁵ is left here, and 10⁻² of it in float32."""
    random = np.random.default_rng(0)
    f = random.standard_normal((5, 4))
    problem = poisson.Problem.on_box(
        (4, 5), a=1.0 + random.random((5, 4)), f=f - f.mean(), boundary="periodic", mean="arithmetic"
    )
    guess = 1e6 * random.standard_normal((5, 4))
    found = poisson.Solver(problem, "jacobi", "numpy", "float32", rtol=1e-4).solve(initial=guess)
    assert found.status is Status.CONVERGED
