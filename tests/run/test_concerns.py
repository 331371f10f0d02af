# SPDX-License-Identifier: MIT
"""What may go wrong with a case: which case gets which warnings, and none of ours gets a wrong one."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from support.places import ROOT

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.case import Case, from_mapping, load
from poisson.discrete.discretisation import Discretisation
from poisson.run.check import check
from poisson.run.concerns import Concern, Subject
from poisson.run.concerns import concerns_of as concerns_about
from poisson.run.sample import Sample
from poisson.solvers.spectrum import weighted_mean

CASES = [path for path in sorted((ROOT / "cases").glob("*.toml")) if "source.h5" not in path.read_text()]
"""But for those whose file has to be made first."""


def case_of(name: str, *overrides: str) -> Case:
    return load(ROOT / "cases" / f"{name}.toml", overrides)


def concerns_of(case: Case, sample: Sample | None = None) -> tuple[Concern, ...]:
    return concerns_about(Subject(sample or Sample(case.problem), case.solver, case.run))


def keys(case: Case) -> list[str]:
    return [concern.key for concern in concerns_of(case)]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_no_case_of_ours_has_a_warning(path: Path) -> None:
    case = load(path)
    sample = Sample(case.problem)
    assert sample.mistakes == ()
    assert concerns_of(case, sample) == ()


PENALTY = "where(hypot(x - 0.5, y - 0.5) < 0.2, {}, 0)"
BELL = "equation.f=exp(-((x - 0.6)**2 + (y - 0.4)**2)/{}**2)"
INSIDES = ("body.1.inside", "body.2.inside")
WARNED = [
    ("unit_square", ["boundary.x_lower={dirichlet=1.0}"], ["boundary.y_lower"]),
    ("cube", ["boundary.z_upper={dirichlet=1.0}"], ["boundary.z_upper"]),
    ("unit_square", ['boundary.x_lower={dirichlet="sin(pi*y)"}'], []),
    ("unit_square", ["boundary.x_lower={neumann=1.0}"], []),
    ("periodic_2d", ["domain.upper=[0.9, 1.0]"], ["equation.f"]),
    ("periodic_x_dirichlet_y", ['boundary.y_upper={dirichlet="x"}'], ["boundary.y_upper"]),
    ("periodic_2d", ["equation.c=1 + x"], ["equation.c"]),
    ("unit_square", [BELL.format(0.004)], ["equation.f"]),
    ("unit_square", [BELL.format(0.0004)], ["equation.f"]),
    ("unit_square", [BELL.format(0.02)], []),
    ("unit_square", ["equation.f=where(hypot(x - 0.6, y - 0.4) < 0.0001, 1, 0)"], ["equation.f"]),
    ("unit_square", ["equation.f=1/hypot(x - 0.50001, y - 0.5)"], ["equation.f"]),
    ("unit_square", ["equation.f=sin(2*pi*128/4.9*(x + 0.1))"], ["equation.f"]),
    ("unit_square", ["equation.f=sin(2*pi*128/5.5*(x + 0.1))"], []),
    ("unit_square", ["equation.a=1 + 0.9*sin(100*pi*x)"], ["equation.a"]),
    ("unit_square", ["equation.c=1 + sin(100*pi*x)"], ["equation.c"]),
    ("unit_square", ["solver.rtol=1e-15"], ["solver.rtol"]),
    ("unit_square", ["solver.rtol=1e-13"], []),
    ("unit_square", ["solver.rtol=1e-15", "solver.atol=1e-8"], []),
    ("unit_square", ["solver.rtol=0.0"], []),
    ("unit_square", ["run.precision=float32"], ["solver.rtol"]),
    ("unit_square", ["run.precision=float32", "solver.rtol=1e-3"], []),
    ("unit_square", ["run.precision=mixed"], []),
    ("unit_square", ["domain.shape=[400001, 400001]"], ["solver.rtol"]),
    ("heated_square", ["solver.method=multigrid", "domain.shape=[400001, 400001]"], ["solver.rtol"]),
    ("unit_square", [f"equation.c={PENALTY.format('1e12')}", f"equation.f={PENALTY.format('1e12')}"], ["equation.c"]),
    ("unit_square", [f"equation.c={PENALTY.format('1e4')}", f"equation.f={PENALTY.format('1e4')}"], []),
    ("heated_plate", ["parameters.cooling=1e12"], ["boundary.x_upper.alpha"]),
    ("heated_plate", ["parameters.cooling=100"], []),
    ("capacitor", ["parameters.permittivity=1e4"], []),
    ("capacitor", ["parameters.permittivity=1e13", "solver.rtol=1e-7"], ["equation.a"]),
    ("capacitor", ["parameters.permittivity=1e9", "run.precision=mixed"], ["run.precision"]),
    ("capacitor", ["parameters.permittivity=1e4", "run.precision=mixed"], []),
    ("heated_square", ["domain.shape=[1025, 1025]"], ["solver.method"]),
    ("heated_square", ["domain.shape=[1025, 1025]", "solver.max_iterations=1000"], []),
    ("heated_square", ["domain.shape=[1025, 1025]", "solver.method=chebyshev"], []),
    ("unit_square", ["run.threads=4096", "run.backend=openmp"], ["run.threads"]),
    ("unit_square", ["body=[{inside='x > 2', a=3.0}, {inside='y > 2', dirichlet=0.0}]"], [*INSIDES]),
    ("unit_square", ["body=[{inside='x > 0.3', neumann=0.0}, {inside='y > 0.5', dirichlet=0.0}]"], []),
    ("unit_square", ["body=[{inside='x > 0.3', neumann=0.0}, {inside='x < 0.5', dirichlet=0.0}]"], ["body"]),
    ("unit_square", ["body=[{inside='x > 0.3', neumann=0.0}, {inside='x < 0.5', a=2.0}]"], []),
    ("electrode", ["boundary.y_upper=[{where='x > 5', dirichlet=1.0}, {neumann=0.0}]"], ["boundary.y_upper.1.where"]),
]


@pytest.mark.parametrize(("name", "overrides", "expected"), WARNED)
def test_which_case_gets_which_warnings(name: str, overrides: list[str], expected: list[str]) -> None:
    found = concerns_of(case_of(name, *overrides))
    assert [concern.key for concern in found] == expected
    for concern in found:
        assert concern.line == f"{concern.key}: {concern.text}; {concern.fix}"
        assert concern.text and concern.fix and "\n" not in concern.line


def test_a_jump_at_an_edge_says_how_large_and_where() -> None:
    [concern] = concerns_of(case_of("cube", "boundary.z_upper={dirichlet=2.5}"))
    assert concern.text.startswith(
        "the values of z_upper and x_lower differ by 2.5 at an edge; the same holds for 3 other pairs of faces: "
    )


@pytest.mark.parametrize("method", ["multigrid", "fft"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_tolerance_that_is_called_too_small_is_not_reached(method: str, precision: str) -> None:
    """And the one that is proposed is."""
    case = case_of("unit_square", f"solver.method={method}", f"run.precision={precision}", "solver.rtol=1e-17")
    [concern] = concerns_of(case)
    found = poisson.solve(case)
    assert found.status == poisson.solvers.status.Status.AT_ROUNDING  # type: ignore[attr-defined]
    proposed = concern.fix.split()[1]
    again = case_of("unit_square", f"solver.method={method}", f"run.precision={precision}", f"solver.rtol={proposed}")
    assert concerns_of(again) == ()
    assert poisson.solve(again).status.value == "converged"


def test_a_penalty_that_is_called_too_large_spoils_the_solution() -> None:
    """Held at 1 by a large c within a circle: at the tolerance u is far from that, and with 1e4 it is not."""
    errors = []
    for size in ("1e12", "1e4"):
        text = PENALTY.format(size)
        solved = poisson.solve(case_of("unit_square", *_overrides(text)))
        sharp = poisson.solve(case_of("unit_square", *_overrides(text), "solver.rtol=1e-17"))
        errors.append(float(np.max(np.abs(solved.u - sharp.u))))
    assert errors[0] > 1e-4 > 1e-6 > errors[1]


@pytest.mark.parametrize("nodes", [33, 65])
def test_the_coefficient_that_is_proposed_for_a_dirichlet_value_holds_u_and_a_hundredth_of_it_does_not(
    nodes: int,
) -> None:
    """The capacitance of a square line in a square box, beside that where the nodes of the line are fixed."""
    body = "where(abs(x - 0.5) < 0.2501 and abs(y - 0.5) < 0.2501, {}, 0)"
    shape = f"domain.shape=[{nodes}, {nodes}]"

    def line(c: str, *overrides: str) -> Case:
        held = [f"equation.c={body.format(c)}", f"equation.f={body.format(c)}"]
        return case_of("unit_square", shape, *held, *overrides)

    [concern] = concerns_of(line("1e12"))
    enough = float(re.findall(r"in the place of a Dirichlet value (\S+) is enough", concern.fix)[0])
    assert concerns_of(line(str(enough))) == ()
    charges = [
        sum(poisson.solve(line(str(c), "solver.rtol=1e-10")).fluxes().values()) for c in (enough, enough / 100.0)
    ]
    middle, outer = np.arange(nodes) - nodes // 2, nodes // 2
    apart = np.maximum(abs(middle[:, None]), abs(middle))
    fixed = ((apart == outer) | (apart <= outer // 2)).ravel()
    links = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(nodes, nodes))  # type: ignore[call-overload]
    matrix = scipy.sparse.csr_matrix(scipy.sparse.kronsum(links, links))
    u = (apart <= outer // 2).ravel().astype(float)
    u[~fixed] = scipy.sparse.linalg.spsolve(matrix[~fixed][:, ~fixed].tocsc(), -(matrix @ u)[~fixed])
    exact = u @ (matrix @ u)
    assert abs(charges[0] / exact - 1.0) < 3e-4 < 3e-3 < abs(charges[1] / exact - 1.0)


def test_a_robin_face_with_the_alpha_that_is_proposed_is_a_dirichlet_face() -> None:
    wall = "boundary.x_upper={{robin='{0}*cos(pi*y)', alpha={0}}}"
    other = "boundary.x_upper={dirichlet='cos(pi*y)'}"
    [concern] = concerns_of(case_of("heated_square", wall.format(1e12)))
    enough = float(re.findall(r"in the place of a Dirichlet value (\S+) is enough", concern.fix)[0])
    settings = ["solver.method=multigrid", "solver.rtol=1e-10"]
    exact = poisson.solve(case_of("heated_square", other, *settings))
    errors = [
        np.max(np.abs(poisson.solve(case_of("heated_square", wall.format(alpha), *settings)).u - exact.u))
        for alpha in (enough, enough / 100.0)
    ]
    assert errors[0] < 3e-4 < 3e-3 < errors[1]


def _overrides(text: str) -> list[str]:
    return [f"equation.c={text}", f"equation.f={text}", "domain.shape=[33, 33]", "solver.method=cg"]


def test_mistakes_are_all_told_and_nothing_else_is_a_concern() -> None:
    case = case_of(
        "unit_square",
        "equation.f=1/(x - 0.5)",
        "equation.a=x",
        "equation.c=-y",
        "run.initial=log(x)",
        "run.threads=4096",
        "solver.method=multigrid",
        "run.backend=openmp",
        'boundary.x_lower={robin="1/y", alpha="y - 1/2"}',
    )
    sample = Sample(case.problem)
    assert [line.partition(":")[0] for line in sample.mistakes] == [
        "equation.f",
        "equation.a",
        "equation.c",
        "boundary.x_lower",
        "boundary.x_lower.alpha",
        "run.initial",
    ]
    assert concerns_of(case, sample) == ()


COOLED = "boundary.x_lower={robin=0.0, alpha='3 + y'}"


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        *(("heated_plate", [COOLED]), ("heated_plate", []), ("electrolyte", []), ("rod", []), ("capacitor", [])),
        *(("screened", []), ("periodic_2d", []), ("cube", [])),
    ],
)
def test_the_sample_are_those_of_the_operator(name: str, overrides: list[str]) -> None:
    """Ranges, spectrum, singularity and the mean of c as the solver's own operator has them."""
    problem = case_of(name, *overrides).problem
    backend = NumpyBackend(np.float64)
    exact, sample = Discretisation(problem).operator_on(backend), Sample(problem)
    found = sample.operator
    assert (found.a, found.c, found.varies, found.singular) == (exact.a, exact.c, exact.varies, exact.singular)
    assert (found.links is None, found.reaction is None) == (exact.links is None, exact.reaction is None)
    assert found.eigenvalues()[0] == exact.eigenvalues()[0]
    if exact.coefficients and found.coefficients:
        assert found.coefficients.a_range == exact.coefficients.a_range
        assert found.coefficients.alpha == exact.coefficients.alpha
        # At corners the terms of two faces add up.
        assert found.coefficients.c_range[0] == exact.coefficients.c_range[0]
        largest = found.coefficients.c_range[1]
        assert exact.coefficients.c_range[1] / 2.0 <= largest <= exact.coefficients.c_range[1]
    if exact.reaction is not None and not exact.lattice.holds:
        ones = backend.empty(exact.array_shape)
        backend.fill(ones, 1.0)
        mean = weighted_mean(backend.bind(exact), exact.reaction, ones, backend.reduction())
        assert math.isclose(sample.mean_reaction, mean, rel_tol=0.05)


@pytest.mark.parametrize(
    ("name", "lowest"),
    [
        ("unit_square", 2.0 * math.pi**2),
        ("cube", 3.0 * math.pi**2),
        ("screened", 25.0 + (math.pi / 4.0) ** 2),
        ("periodic_2d", math.pi**2),
        ("capacitor", math.pi**2),
        ("rod", 6.85),
    ],
)
def test_the_softest_mode(name: str, lowest: float) -> None:
    assert math.isclose(Sample(case_of(name).problem).softest, lowest, rel_tol=1e-2)


EXTREME = ["0", "1e300", "-1e-300", "1e308*x", "1e-320", "exp(700*x)"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("f", EXTREME)
@pytest.mark.parametrize("value", ["0", "1e300", "x*1e308"])
def test_extreme_values_break_nothing(f: str, value: str) -> None:
    tables = {
        "equation": {"f": f, "c": "1e300*x", "a": "1e-300 + x"},
        "domain": {"lower": [0.0, 0.0], "upper": [1.0, 1e-3], "shape": [9, 9]},
        "boundary": {"all": {"robin": value, "alpha": "1e300*y"}, "y_lower": {"dirichlet": value}},
    }
    concerns_of(from_mapping(tables, name="a", folder="."))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "overrides",
    [
        ["equation.f=-1", "equation.a=1e-300", "solver.atol=1e-300", "domain.upper=[1e100, 1e-100]"],
        ["boundary.y_lower={neumann=1e16}", "domain.upper=[1e100, 1e-100]"],
        ["equation.a=1 + x", "boundary.x_upper={robin=1.0, alpha='x*1e308'}", "solver.rtol=1e-300"],
    ],
)
def test_extreme_cases_can_be_checked(overrides: list[str]) -> None:
    assert check(case_of("heated_plate", "run.backend=numpy", *overrides)).plan is not None
