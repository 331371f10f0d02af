# SPDX-License-Identifier: MIT
"""Verification: it passes where all is well, and says so where something is off."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import real
from support.problems import SINE, WALLS, make_case
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson import backends
from poisson.backends.base import Array
from poisson.backends.numpy import NumpyOperations
from poisson.case import Case, from_mapping
from poisson.cli import main
from poisson.discrete import reference
from poisson.errors import CaseError, ResourceError
from poisson.run import verify as verification
from poisson.run.verify import Verification, refinement_shapes, verify

EXACT_FACES = {"all": {"dirichlet": "exact"}}
ROBIN = {"robin": "exact", "alpha": "1 + x"}
AUTO = ("solver.method=auto",)
CASES: dict[str, Case] = {
    "dirichlet": make_case(SINE, WALLS, (17, 13)),
    "reaction": make_case({"f": 1.0, "c": 40.0}, WALLS, (12, 9)),
    "no source": make_case({"f": 0.0, "exact": "x**2 - y**2"}, EXACT_FACES, (9, 9)),
    "neumann": make_case({"f": "exact", "exact": "cos(3*x)*exp(y)"}, {"all": {"neumann": "exact"}}, (12, 11)),
    "periodic": make_case({"f": "sin(2*pi*x)"}, {"x": "periodic", "y": "periodic"}, (8, 9)),
    "3d": make_case(
        {"f": "exact", "exact": "sin(2*pi*x)*exp(y)*cos(z)"},
        EXACT_FACES | {"x": "periodic", "z_upper": {"neumann": "exact"}},
        (6, 7, 8),
        overrides=("solver.norm=max",),
    ),
    "float32": make_case(SINE, WALLS, (17, 17), overrides=("run.precision=float32", "solver.rtol=1e-3")),
    "varying": make_case(
        {"f": "exact", "exact": "exp(x)*sin(2*y)", "a": "1 + x*y", "c": "y", "mean": "arithmetic"},
        {"all": ROBIN, "x_upper": {"dirichlet": "exact"}, "y_lower": {"neumann": "exact"}},
        (10, 9),
    ),
    "robin": make_case({"f": "exact", "exact": "exp(x)*cos(y)"}, {"all": ROBIN}, (9, 8)),
    "varying and singular": make_case(
        {"f": "exact", "exact": "cos(3*x)*exp(y)", "a": "2 + x"}, {"all": {"neumann": "exact"}}, (9, 10)
    ),
    "jump": make_case({"f": 1.0, "a": "where(x < 0.5, 1, 30)"}, WALLS, (10, 9)),
    "1d": make_case({"f": "exact", "exact": "exp(x)", "a": "1 + x"}, EXACT_FACES | {"x_upper": ROBIN}, (17,)),
}
LOOPS = ("blocked", "fused", "staged")
HEADERS = (
    *("backend", "method", "iterations", "max diff", "rms diff", "allowed"),
    *("rms error", "max error", "verdict"),
)


def compared(report: Verification) -> list[tuple[str, ...]]:
    """The rows of backends, without that of the direct solution."""
    return [row for row in report.cells() if row[0] != "scipy.sparse"]


SQUARE = {"lower": [0.0, 0.0], "upper": [1.0, 1.0]}
WALL = {"all": {"dirichlet": 0.0}}


@pytest.mark.parametrize("name", CASES)
def test_every_backend_and_loop_agrees(name: str) -> None:
    case = CASES[name]
    report = verify(case)
    assert report.passed
    assert (report.title, report.headers) == ("case: comparison with scipy.sparse", HEADERS)
    available = [info.name for info in backends.describe() if info.available]
    assert [row[:2] for row in compared(report)] == [(name, f"jacobi {loop}") for name in available for loop in LOOPS]
    for row in compared(report):
        assert row[-1] == "ok"
        assert float(row[4]) <= float(row[5]) * 1.001
        # An allowance as large as the solution would pass anything.
        assert float(row[5]) < (3e-2 if name == "float32" else 1e-5)
    if case.problem.exact is not None:
        direct = report.cells()[0]
        assert direct[:6] == ("scipy.sparse", "direct", "", "", "", "")
        for row in compared(report):
            assert float(row[6]) == pytest.approx(float(direct[6]), rel=2e-2, abs=1e-3 if name == "float32" else 1e-6)


def test_both_forms_at_surfaces_have_direct_solutions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solutions of the two forms differ by more than is allowed."""
    only(monkeypatch, "numpy")
    disc = {"inside": "hypot(x - 0.5, y - 0.45) < 0.2", "dirichlet": "1 + x"}
    for form in ("shortley_weller", "symmetric"):
        tables = {"equation": {"f": 1.0, "surface": form}, "domain": {**SQUARE, "shape": [21, 18]}, "boundary": WALL}
        report = verify(from_mapping({**tables, "body": [disc]}, name="disc", folder="."))
        assert report.passed and max(row["max_difference"] for row in report.rows) < 1e-6


def test_bodies_that_float_have_a_direct_solution_by_superposition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solution with another charge differs from the direct one."""
    only(monkeypatch, "numpy")
    bodies: list[dict[str, Any]] = [
        {"inside": "hypot(x - 0.3, y - 0.45) < 0.15", "floating": True, "charge": 0.5},
        {"inside": "hypot(x - 0.7, y - 0.6) < 0.12", "floating": True},
        {"inside": "hypot(x - 0.7, y - 0.2) < 0.1", "dirichlet": 1.0},
    ]
    tables = {"equation": {"f": 1.0}, "domain": {**SQUARE, "shape": [21, 18]}, "boundary": WALL}
    case = from_mapping({**tables, "body": bodies}, name="discs", folder=".")
    assert verify(case).passed
    direct = verification._Direct(case.problem, 1e-8)
    assert direct.bodies["body1"]["charge"] == pytest.approx(0.5, abs=1e-13)
    assert direct.bodies["body2"]["charge"] == pytest.approx(0.0, abs=1e-13)
    bodies[0]["charge"] = 0.51
    other = poisson.solve(from_mapping({**tables, "body": bodies}, name="discs", folder="."))
    assert direct.beside(other, other.u)["verdict"] == "OFF"


@pytest.mark.parametrize(
    ("equation", "others"),
    [
        ({"a": "where(x > 0.31, 1e6, 1)"}, []),
        ({}, [{"inside": "abs(x - 0.7) < 0.13", "a": 500.0}]),
        ({}, [{"inside": "abs(x - 0.7) < 0.13", "neumann": 0.0}]),
    ],
)
def test_superposed_solutions_keep_the_charge_to_rounding(
    equation: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    """Where the residual for a unit potential is far larger than that of the difference between both forms."""
    tables = {
        "equation": {"f": 1.0, **equation},
        "domain": {"lower": [0.0], "upper": [1.0], "shape": [23]},
        "boundary": {"all": {"dirichlet": 0.0}},
        "body": [{"inside": "abs(x - 0.3) < 0.11", "floating": True, "charge": 2.5}, *others],
    }
    direct = verification._Direct(from_mapping(tables, name="line", folder=".").problem, 1e-8)
    assert direct.bodies["body1"]["charge"] == pytest.approx(2.5, rel=1e-11)


@pytest.mark.parametrize("form", ["shortley_weller", "symmetric"])
@pytest.mark.parametrize("open_faces", [{"all": "open"}, {"all": "open", "x_lower": {"dirichlet": 0.5}}])
def test_bodies_beside_open_faces_have_a_direct_solution(
    monkeypatch: pytest.MonkeyPatch, open_faces: dict[str, Any], form: str
) -> None:
    only(monkeypatch, "numpy")
    bodies: list[dict[str, Any]] = [
        {"inside": "hypot(x - 0.35, y - 0.45) < 0.12", "floating": True, "charge": 0.5},
        {"inside": "hypot(x - 0.7, y - 0.6) < 0.1", "dirichlet": 1.0},
    ]
    tables = {
        "equation": {"f": 0.0, "surface": form},
        "domain": {**SQUARE, "shape": [21, 18]},
        "boundary": open_faces,
        "solver": {"rtol": 1e-10},
    }
    case = from_mapping({**tables, "body": bodies}, name="discs", folder=".")
    report = verify(case)
    assert report.passed and max(row["max_difference"] for row in report.rows) < 1e-8
    direct = verification._Direct(case.problem, 1e-10)
    solution = poisson.solve(case)
    for name, given in direct.bodies.items():
        assert given["charge"] == pytest.approx(solution.bodies[name]["charge"], abs=1e-8)
    bodies[1]["dirichlet"] = 1.001
    other = poisson.solve(from_mapping({**tables, "body": bodies}, name="discs", folder="."))
    assert direct.beside(other, other.u)["verdict"] == "OFF"


def test_bodies_that_no_node_is_beside_have_no_direct_charges() -> None:
    tables = {
        "equation": {"f": 1.0},
        "domain": {**SQUARE, "shape": [9, 9]},
        "boundary": WALL,
        "body": [{"inside": "hypot(x - 0.56, y - 0.56) < 0.01", "dirichlet": 1.0}],
    }
    direct = verification._Direct(from_mapping(tables, name="speck", folder=".").problem, 1e-8)
    assert direct.bodies == {}


def test_what_is_missing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [backends.BackendInfo("gpu", False, "", "no driver"), backends.BackendInfo("numpy", True, "CPU", "")]
    monkeypatch.setattr(backends, "describe", lambda: rows)
    report = verify(CASES["reaction"])
    assert report.passed
    assert [row[:2] for row in report.cells()] == [("numpy", f"jacobi {loop}") for loop in LOOPS]
    assert report.notes[1:] == ("gpu not compared: no driver",)
    assert [row[6:8] for row in report.cells()] == [("", "")] * 3


@pytest.mark.parametrize(
    ("equation", "boundary", "overrides", "methods"),
    [
        (SINE, WALLS, AUTO, ["multigrid", "cg", "fft"]),
        (SINE, WALLS, (*AUTO, "run.precision=mixed"), ["multigrid", "cg"]),
        (SINE, WALLS, ("solver.method=multigrid", "solver.stop=discretisation"), ["multigrid"]),
        (SINE, WALLS, ("solver.method=sor",), ["sor"]),
        ({"f": 1.0, "a": "1 + x"}, WALLS, AUTO, ["multigrid", "cg"]),
        ({"f": 1.0}, {"all": {"robin": 1.0, "alpha": 2.0}}, AUTO, ["multigrid", "cg"]),
    ],
)
def test_the_methods_that_are_compared(
    equation: dict[str, Any],
    boundary: dict[str, Any],
    overrides: tuple[str, ...],
    methods: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only(monkeypatch, "numpy")
    report = verify(make_case(equation, boundary, (17, 13), overrides=overrides))
    assert report.passed
    assert [row[:2] for row in compared(report)] == [("numpy", method) for method in methods]


# ---- something is off
def wrong(operations: NumpyOperations) -> NumpyOperations:
    """Those of the same operator with the weights of x one per mille off."""
    lattice = operations.operator.lattice
    off = replace(operations.operator, lattice=lattice.replaced(0, lattice.axes[0].scaled(1.0005)))
    return NumpyOperations(operations.backend, off)


@pytest.fixture
def numpy_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = NumpyOperations._apply
    monkeypatch.setattr(NumpyOperations, "_apply", lambda self, u: apply(wrong(self), u))


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    rows = [backends.BackendInfo(name, True, name, "") for name in names]
    monkeypatch.setattr(backends, "describe", lambda: rows)


EXPECTED = (("openmp", "ok"), ("numpy", "OFF"))


@pytest.mark.usefixtures("numpy_is_off")
@pytest.mark.parametrize("name", CASES)
def test_a_wrong_weight_is_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "float32":
        case = make_case(SINE, WALLS, (17, 17), overrides=("run.precision=float32", "solver.rtol=1e-4"))
    else:
        case = CASES[name]
    real("openmp")(np.float64)
    only(monkeypatch, "openmp", "numpy")
    report = verify(case)
    assert not report.passed
    verdicts = [(*row[:2], row[-1]) for row in compared(report)]
    right, off = ([(name, f"jacobi {loop}", verdict) for loop in LOOPS] for name, verdict in EXPECTED)
    assert verdicts == right + off


def test_a_loop_that_is_off_does_not_pass_for_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = NumpyOperations.sweep

    def off(self: NumpyOperations, u: Array, f: Array, out: Array, omega: float, result: Any = None) -> None:
        sweep(wrong(self), u, f, out, omega, result)

    monkeypatch.setattr(NumpyOperations, "sweep", off)
    only(monkeypatch, "numpy")
    case = make_case(SINE, WALLS, (9, 9), overrides=("solver.max_iterations=2000",))
    report = verify(case)
    assert not report.passed
    verdicts = [row[-1] for row in compared(report)]
    assert verdicts == ["max_iterations", "max_iterations", "ok"]  # numpy makes several sweeps one by one


TEXT = """
title = "A case"
equation = { f = "2*pi**2*sin(pi*x)*sin(pi*y)", exact = "%s" }
domain = { lower = [0, 0], upper = [1, 1], shape = %s }
boundary = { all = { dirichlet = 0.0 } }
run = { backend = "numpy" }
solver = { method = "jacobi" }
"""
SIN = "sin(pi*x)*sin(pi*y)"


@pytest.fixture
def case_file(tmp_path: Path) -> Any:
    def write(exact: str = SIN, shape: str = "[17, 17]") -> str:
        path = tmp_path / "case.toml"
        path.write_text(TEXT % (exact, shape))
        return str(path)

    return write


def test_the_command_says_whether_all_agree(
    case_file: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, "numpy")
    assert main(["verify", case_file()]) == 0
    out, _ = capsys.readouterr()
    lines = out.splitlines()
    assert lines[:2] == ["A case: comparison with scipy.sparse", ""]
    assert lines[2].split() == " ".join(HEADERS).split()
    assert [line.split()[0] for line in lines[4:8]] == ["scipy.sparse", "numpy", "numpy", "numpy"]
    apply = NumpyOperations._apply
    monkeypatch.setattr(NumpyOperations, "_apply", lambda self, u: apply(wrong(self), u))
    assert main(["verify", case_file(), "--quiet"]) == 1
    assert capsys.readouterr().out.count("OFF\n") == 3


@pytest.mark.parametrize(
    ("shape", "unknowns", "limit"),
    [((1101, 1101), "1,207,801", "1,100,000 in 2D"), ((40, 40, 40), "54,872", "50,000 in 3D")],
)
def test_a_grid_that_is_too_large_is_refused_at_once(shape: tuple[int, ...], unknowns: str, limit: str) -> None:
    with pytest.raises(ResourceError) as caught:
        verify(make_case({"f": 1.0}, WALLS, shape))
    assert str(caught.value) == (
        f"the grid has {unknowns} unknowns, and the sparse direct reference stops at {limit}: verify on a smaller "
        "domain.shape"
    )


def test_a_large_singular_grid_is_refused_before_its_integrals_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "MAX_UNKNOWNS_2D", 10)
    # The source is incompatible, which only the integrals show.
    with pytest.raises(ResourceError):
        verify(make_case({"f": 1.0}, {"all": {"neumann": 0.0}}, (5, 5)))


def test_the_command_on_a_large_grid(case_file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", case_file(shape="[1200, 1200]")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("poisson: error: the grid has 1,435,204 unknowns, ")


# ---- the order of accuracy
def test_refine(case_file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", case_file(), "--refine=3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A case: order of accuracy"
    rows = [line.split() for line in lines[4:7]]
    assert [row[:3] for row in rows] == [["5", "x", "5"], ["9", "x", "9"], ["17", "x", "17"]]
    assert [row[5] for row in rows] == ["converged"] * 3
    orders = [float(row[-1]) for row in rows[1:]]
    assert orders == pytest.approx([2.0, 2.0], abs=0.1)
    assert lines[-1] == f"observed order on the finest grids: {orders[-1]:.3f}; expected 2 within 0.1"


@pytest.mark.parametrize(
    ("equation", "boundary", "shape"),
    [
        ({"f": "exact", "exact": "exp(x)*sin(2*y)", "c": 3.0}, EXACT_FACES, (25, 17)),
        ({"f": "exact", "exact": "cos(3*x)*exp(y)"}, {"all": {"neumann": "exact"}}, (33, 25)),
        ({"f": "exact", "exact": "sin(2*pi*x)*cos(2*pi*y)"}, {"x": "periodic", "y": "periodic"}, (32, 48)),
        ({"f": "exact", "exact": "sin(pi*x)*sin(pi*y)*sin(pi*z)"}, WALLS, (17, 17, 17)),
        ({"f": "exact", "exact": "exp(x)*cos(2*y)*z**3"}, {**EXACT_FACES, "z": "periodic"}, (9, 9, 8)),
        ({"f": "exact", "exact": "exp(x)*cos(2*y)", "a": "1 + x*y", "c": "x"}, {"all": ROBIN}, (25, 33)),
        ({"f": "exact", "exact": "exp(2*x)"}, {"all": ROBIN}, (65,)),
    ],
    ids=["reaction", "neumann", "periodic", "3d", "a jump across a period", "varying", "1d"],
)
def test_the_order_is_that_of_the_scheme(
    equation: dict[str, Any], boundary: dict[str, Any], shape: tuple[int, ...]
) -> None:
    report = verify(make_case(equation, boundary, shape, overrides=("run.backend=auto",)), 2)
    assert report.passed == ("z**3" not in equation["exact"])
    assert (abs(float(report.cells()[-1][-1]) - 2.0) <= 0.1) == report.passed


def test_a_wrong_exact_solution_shows_in_the_order(case_file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", case_file(exact=f"{SIN} + x/10"), "--refine=2", "--quiet"]) == 1
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("observed order on the finest grids: ")
    assert abs(float(line.split()[6].rstrip(";"))) < 0.2


def test_no_verdict_where_a_solve_has_not_converged() -> None:
    report = verify(make_case(SINE, WALLS, (9, 9), overrides=("solver.max_iterations=100",)), 2)
    assert (report.passed, report.notes) == (False, ("no verdict: a solve has not converged",))
    assert [row[-4] for row in report.cells()] == ["converged", "max_iterations"]


def test_no_verdict_where_the_error_is_infinite() -> None:
    overflow = ("run.precision=float32", "solver.max_iterations=5", "run.initial=1e39")
    report = verify(make_case(SINE, WALLS, (9, 9), overrides=overflow), 2)
    assert (report.passed, report.notes) == (False, ("no verdict: a solve has not converged",))
    assert [row[-1] for row in report.cells()] == ["", ""]


def test_an_order_that_is_too_high_does_not_pass() -> None:
    """The fourth derivatives of the real part of exp(x + wy) with w**4 = -1 cancel, and so do the errors of h**2."""
    exact = "exp(x + sqrt(0.5)*y)*cos(sqrt(0.5)*y)"
    overrides = ("solver.method=fft", "solver.rtol=1e-13")
    report = verify(make_case({"f": "exact", "exact": exact}, EXACT_FACES, (17, 17), overrides=overrides), 2)
    assert not report.passed
    assert float(report.cells()[-1][-1]) == pytest.approx(4.0, abs=0.2)
    assert report.notes == (f"observed order on the finest grids: {report.cells()[-1][-1]}; expected 2 within 0.1",)


@pytest.mark.parametrize("exact", ["x*y", "0*x", "1 + x - y**2"])
def test_no_verdict_where_the_scheme_is_exact(exact: str) -> None:
    report = verify(make_case({"f": "exact", "exact": exact}, EXACT_FACES, (9, 9)), 2)
    assert not report.passed
    [note] = report.notes
    assert note.startswith("no verdict: the error is not above ")
    assert note.endswith(
        ", which the residual may leave; take a smaller solver.rtol, or another equation.exact if the discretisation "
        "is exact for this one"
    )


def test_a_wrong_number_of_processes_is_refused_before_the_direct_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(SINE, WALLS, (5, 5))
    monkeypatch.setattr(reference, "Direct", lambda *_: pytest.fail("solved"))
    with pytest.raises(CaseError, match=r"^run\.ranks: 2; allowed: the number of processes, "):
        verify(replace(case, run=replace(case.run, ranks=2)))


@pytest.mark.parametrize("refine", [None, 2])
def test_one_rank_of_several_has_the_direct_solution(monkeypatch: pytest.MonkeyPatch, refine: int | None) -> None:
    only(monkeypatch, "numpy")
    case = make_case(
        {"f": "exact", "exact": "exp(x)*sin(2*y)", "a": "1 + x*y"},
        EXACT_FACES,
        (33, 37),
        overrides=("solver.rtol=1e-10",),
    )
    case = replace(case, solver=case.solver.having(method="multigrid"))
    alone = verify(case, refine)
    made: list[int] = []
    direct = reference.Direct

    def noted(discretisation: Any) -> reference.Direct:
        made.append(1)
        return direct(discretisation)

    monkeypatch.setattr(reference, "Direct", noted)
    reports = on_ranks(2, lambda communicator: verify(case, refine, comm=communicator), delay=0.0)
    assert reports[0] == reports[1]
    assert (len(made), reports[0].passed, alone.passed) == (1, True, True)
    for ours, others in zip(alone.rows, reports[0].rows, strict=True):
        assert ours.keys() == others.keys()
        for name, value in ours.items():
            # What is left of a residual is not the same: sums are in another order.
            if isinstance(value, float) and "difference" not in name:
                assert others[name] == pytest.approx(value, rel=1e-5)
            elif not isinstance(value, float):
                assert others[name] == value


def test_a_direct_solution_that_fails_ends_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ResourceError("no room")

    monkeypatch.setattr(reference, "Direct", fail)

    def run(communicator: ThreadCommunicator) -> str:
        with pytest.raises(ResourceError) as failed:
            verify(CASES["dirichlet"], comm=communicator)
        return str(failed.value)

    assert on_ranks(2, run, delay=0.0) == ["no room"] * 2


def test_refine_needs_an_exact_solution() -> None:
    with pytest.raises(
        CaseError,
        match=r"^verify --refine needs equation\.exact, the exact solution as an "
        r"expression$",
    ):
        verify(CASES["reaction"], 3)


def test_the_grids_of_a_refinement() -> None:
    assert refinement_shapes(make_case({"f": 1.0}, WALLS, (33, 17)), 3) == [(9, 5), (17, 9), (33, 17)]
    boundary = WALLS | {"x": "periodic"}
    assert refinement_shapes(make_case({"f": 1.0}, boundary, (32, 17, 12)), 2) == [(16, 9, 6 + 1), (32, 17, 12)]
    case = make_case({"f": 1.0}, WALLS, (33, 9))
    assert refinement_shapes(case, 3)[0] == (9, 3)
    for grids in (4, 60, 10**15):
        with pytest.raises(CaseError) as caught:
            refinement_shapes(case, grids)
        nodes = 2 if grids == 4 else 1
        assert str(caught.value) == (
            f"verify --refine={grids}: the coarsest grid would have {nodes} nodes along an axis; use fewer grids"
        )
    for grids in (1, 0, -3):
        with pytest.raises(CaseError, match=f"^verify --refine={grids}: at least 2 grids are needed$"):
            refinement_shapes(case, grids)
    assert math.prod(refinement_shapes(make_case({"f": 1.0}, WALLS, (1025, 1025)), 9)[0]) == 25
