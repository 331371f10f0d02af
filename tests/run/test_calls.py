# SPDX-License-Identifier: MIT
"""Calls of one solver from arrays to arrays: what is read and written in place, new data of faces and new coefficients.

Covers poisson.run.loader.
"""

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.ranks import on_ranks

import poisson
from poisson.errors import CaseError, IncompatibleSource, PoissonError
from poisson.problem.problem import Problem
from poisson.run.solver import Solver
from poisson.solvers.status import Status

BACKENDS = ["numpy", "openmp", "gpu"]
SLOW = ("jacobi", "gpu")

pytestmark = pytest.mark.usefixtures("backends_by_name")
MIXED = {"x": "periodic", "y_lower": {"dirichlet": "1 + sin(2*pi*x)"}, "y_upper": {"neumann": "x"}}
ROBIN = {"x_lower": {"robin": 1.0, "alpha": 2.0}, "x_upper": {"neumann": "y"}, "all": {"dirichlet": "x + y"}}


def source(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(
    ("method", "backend"),
    [
        (method, name)
        for method in ("fft", "multigrid", "jacobi", "cg", "sor", "chebyshev")
        for name in BACKENDS
        if (method, name) != SLOW
    ],
)
def test_a_solution_of_any_method_keeps_its_values(method: str, backend: str) -> None:
    """Also when the solver has gone, and whatever it solved meanwhile."""
    problem = Problem.on_box((16, 9), c=50.0, boundary={"x": "periodic", "all": 1.0})
    solver = Solver(problem, method, backend)
    sources = [source((9, 16), seed) for seed in range(4)]
    solutions = [solver.solve(f).u for f in sources]
    kept = [u.copy() for u in solutions]
    solver.solve(sources[0] * 3.0)
    view = solutions[1][2:, ::2]
    del solutions[1]
    solver.solve(sources[3])
    np.testing.assert_array_equal(view, kept[1][2:, ::2])
    del solver
    gc.collect()
    for u, values in zip(solutions, (kept[0], *kept[2:]), strict=True):
        np.testing.assert_array_equal(u, values)
    np.testing.assert_array_equal(Solver(problem, method, backend).solve(sources[2]).u, kept[2])


def test_an_array_that_was_let_go_is_used_again() -> None:
    solver = Solver(Problem.on_box((65, 33)), "fft", "openmp")
    first = solver.solve(source((33, 65))).u
    place = first.ctypes.data
    second = solver.solve(source((33, 65))).u
    assert second.ctypes.data != place
    part = first[3:]
    del first
    third = solver.solve(source((33, 65))).u
    assert third.ctypes.data != place
    del part
    assert solver.solve(source((33, 65))).u.ctypes.data == place
    assert second.flags.writeable


@pytest.mark.parametrize("boundary", [0.0, "x - y", MIXED, ROBIN, {"all": {"neumann": 0.0}}], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_come_to_what_texts_do(boundary: Any, backend: str) -> None:
    """However they lie in memory."""
    problem = Problem.on_box((16, 13), f="cos(2*pi*x) * cos(pi*y)", boundary=boundary)
    solver = Solver(problem, backend=backend)
    expected = solver.solve()
    x, y = np.meshgrid(problem.lattice.coordinates(0), problem.lattice.coordinates(1))
    f = np.asarray(problem.f(np, x, y))  # type: ignore[operator]
    wide = np.zeros((26, 32))
    wide[::2, ::2] = f
    rows = np.zeros((13, 20))
    rows[:, :16] = f
    for given in (f, rows[:, :16], wide[::2, ::2], np.asfortranarray(f), f.astype(">f8")):
        found = solver.solve(given)
        np.testing.assert_allclose(found.u, expected.u, rtol=0, atol=1e-12 * np.abs(expected.u).max())
        assert found.status == expected.status
        assert found.target == pytest.approx(expected.target, rel=1e-9)
    close = solver.solve(f.astype(np.float32)).u
    np.testing.assert_allclose(close, expected.u, rtol=0, atol=1e-6 * np.abs(expected.u).max())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["fft", "multigrid"])
def test_arrays_where_c_is_next_to_nothing(method: str, backend: str) -> None:
    """The constant part of u is found apart, by passes over f that want it as an array of the backend."""
    problem = Problem.on_box((20, 39), c=1e-4, boundary={"x": "periodic", "all": {"neumann": 0.0}})
    f = source((39, 20))
    solver = Solver(problem, method, backend)
    found, expected = solver.solve(f), Solver(problem, method, "numpy").solve(lambda x, y: f)
    assert found.status.success and expected.status.success
    assert found.target == pytest.approx(expected.target, rel=1e-12)
    np.testing.assert_allclose(found.u, expected.u, rtol=1e-9)


@pytest.mark.parametrize("method", ["fft", "multigrid"])
def test_the_residual_is_that_of_the_final_u(method: str) -> None:
    problem = Problem.on_box((33, 17), boundary={"x_lower": 2.0, "all": 0.0})
    f = source((17, 33))
    solution = Solver(problem, method, "openmp", fields=("residual",)).solve(f)
    u, (hx, hy) = solution.u, problem.lattice.spacing
    applied = (2 * u[1:-1, 1:-1] - u[1:-1, :-2] - u[1:-1, 2:]) / hx**2
    applied += (2 * u[1:-1, 1:-1] - u[:-2, 1:-1] - u[2:, 1:-1]) / hy**2
    r = f[1:-1, 1:-1] - applied
    scale = np.abs(u).max() / hy**2
    np.testing.assert_allclose(solution.fields["residual"][1:-1, 1:-1], r, rtol=0, atol=1e-14 * scale)
    assert solution.residual == pytest.approx(np.sqrt((r**2).mean()), rel=1e-2, abs=1e-15 * scale)
    assert Solver(problem, method, "openmp").solve(f).residual == pytest.approx(solution.residual, rel=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["fft", "multigrid"])
@pytest.mark.parametrize("place", [(3, 4), (0, 4), (8, 16)])
def test_a_source_that_is_not_finite_is_refused(place: tuple[int, int], method: str, backend: str) -> None:
    solver = Solver(Problem.on_box((17, 9)), method, backend)
    f = source((9, 17))
    good = solver.solve(f).u.copy()
    bad, out = f.copy(), np.zeros_like(f)
    bad[place] = np.nan
    x, y = place[1] / 16, place[0] / 8
    for given in (bad, bad.astype(np.float32)):
        with pytest.raises(
            CaseError, match=rf"equation.f: nan at x = {x:.6g}, y = {y:.6g}; every value must be finite"
        ):
            solver.solve(given, out=out)
    assert not out.any()
    np.testing.assert_array_equal(solver.solve(f).u, good)
    # Squares that are not finite say nothing of the values.
    assert solver.solve(f * 1e200).status.success


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("boundary", [1.0, {"all": {"neumann": 0.0}}], ids=str)
def test_a_guess_that_is_an_array(boundary: Any, backend: str) -> None:
    problem = Problem.on_box((33, 17), f="cos(pi*x)", boundary=boundary)
    solver = Solver(problem, "multigrid", backend)
    first = solver.solve()
    again = solver.solve(initial=first.u)
    assert first.iterations > 2
    assert again.iterations <= 1
    np.testing.assert_allclose(again.u, first.u, rtol=0, atol=1e-8)
    wrong = first.u.copy()
    wrong[2, 3] = np.inf
    with pytest.raises(CaseError, match=r"run.initial: inf at x = "):
        solver.solve(initial=wrong)


# ---- where the caller wants u
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(17,), (17, 9), (17, 9, 6)], ids=str)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_u_is_written_where_it_is_wanted(shape: tuple[int, ...], precision: str, backend: str) -> None:
    solver = Solver(Problem.on_box(shape, boundary=2.0), "fft", backend, precision)
    f = source(shape[::-1])
    expected = solver.solve(f).u
    out = np.full(shape[::-1], np.nan, dtype=precision)
    wide = np.full((*shape[:0:-1], 2 * shape[0]), np.nan, dtype=precision)
    for place in (out, wide[..., ::2], f if precision == "float64" else out):
        solution = solver.solve(f.copy(), out=place)
        assert solution.u is place
        np.testing.assert_array_equal(place, expected)
    assert np.isnan(wide[..., 1::2]).all()
    again = solver.solve(f * 0.0).u
    np.testing.assert_array_equal(out, expected)
    assert not np.array_equal(again, out)


def test_a_place_that_does_not_fit_is_refused() -> None:
    solver = Solver(Problem.on_box((9, 5)), "fft", "numpy")
    allowed = r"; allowed: a NumPy array of the shape \(5, 9\) and the type float64"
    locked = np.zeros((5, 9))
    locked.flags.writeable = False
    for out, what in {
        "an array of the shape \\(9, 5\\) and the type float64": np.zeros((9, 5)),
        "an array of the shape \\(5, 9\\) and the type float32": np.zeros((5, 9), np.float32),
        "an array that is read-only": locked,
        "a list": [0.0],
    }.items():
        with pytest.raises(CaseError, match=f"^out: {out}{allowed}$"):
            solver.solve(1.0, out=what)


# ---- other data of faces, and another c
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["auto", "fft", "multigrid"])
def test_faces_take_other_data(method: str, backend: str) -> None:
    def made(**data: Any) -> Problem:
        lower, upper = data.get("lower", 0.0), data.get("upper", "x")
        boundary = {"x": "periodic", "y_lower": {"dirichlet": lower}, "y_upper": {"neumann": upper}}
        return Problem.on_box((16, 13), f="1 + y", boundary=boundary)

    solver = Solver(made(), method, backend, rtol=1e-10)
    values = np.cos(2 * np.pi * np.arange(16) / 16)
    own = solver.solve().u.copy()
    for data in (
        {"lower": 3.0},
        {"lower": "sin(2*pi*x)", "upper": 2.0},
        {"upper": values, "lower": lambda x, y: 5.0 + 0.0 * x},
        {"lower": values},
        {"lower": "1e6*sin(2*pi*x)"},  # the target is relative to the boundary values
    ):
        boundary = {}
        if "lower" in data:
            boundary["y_lower"] = data["lower"]
        if "upper" in data:
            boundary["y_upper"] = {"neumann": data["upper"]}
        found, expected = solver.solve(boundary=boundary), Solver(made(**data), method, backend, rtol=1e-10).solve()
        np.testing.assert_allclose(found.u, expected.u, rtol=0, atol=1e-13 * np.abs(expected.u).max())
        assert found.target == expected.target
        assert found.status == expected.status
    np.testing.assert_array_equal(solver.solve().u, own)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["fft", "auto"])
def test_what_a_solve_leaves_is_no_guess_of_the_next(method: str, backend: str) -> None:
    """A direct method is given an iterate that is zero at fixed nodes alone; only a source of zero asks for more."""
    problem, f = Problem.on_box((16, 9), boundary={"x": "periodic", "all": 0.0}), source((9, 16))
    solver = Solver(problem, method, backend)
    calls: list[tuple[Any, Any]] = [(f, None), (0.0, None), (-f, None), (f, 2.0), (0.0, 2.0), (0.0, None), (f, None)]
    for given, value in calls:
        boundary = None if value is None else {"y_lower": value}
        found = solver.solve(given, boundary=boundary)
        alone = Solver(problem.having(f=given, boundary=boundary), method, backend).solve()
        np.testing.assert_array_equal(found.u, alone.u)
        assert (found.iterations, found.history) == (alone.iterations, alone.history)
        assert found.iterations == (value is not None or isinstance(given, np.ndarray))


def test_an_array_of_a_face_is_read_at_every_solve() -> None:
    values = np.zeros(9)
    solver = Solver(Problem.on_box((9, 9), boundary={"x_lower": values, "all": 0.0}), "fft", "openmp")
    assert not solver.solve(0.0).u.any()
    values[4] = 1.0
    assert solver.solve(0.0).u[4, 0] == 1.0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["fft", "cg", "multigrid"])
def test_boundary_values_that_change_in_their_array_are_those_of_a_new_solver(method: str, backend: str) -> None:
    """In `solve` and in `solve_many`: u, the target, and the range that it follows from."""
    values, f = np.zeros(9), source((9, 9))
    problem = Problem.on_box((9, 9), c=3.0, boundary={"x_lower": values, "all": 0.0})
    solver = Solver(problem, method, backend)
    solver.solve(f)
    for scale in (1e6, 1e3, 0.0):
        values[:] = scale * np.sin(np.arange(9.0))
        alone = Solver(problem, method, backend).solve(f)
        for found in (solver.solve(f), *solver.solve_many([f, f])):
            assert (found.target, found.iterations, found.history) == (alone.target, alone.iterations, alone.history)
            np.testing.assert_array_equal(found.u, alone.u)
            assert solver._setup.stopping.boundary == abs(values).max()


def test_ranks_follow_values_that_one_of_them_sees() -> None:
    """The array is that of one face, which lies on the last rank."""
    values = np.zeros(9)
    problem = Problem.on_box((9, 12), c=3.0, boundary={"y_upper": values, "all": 0.0})
    alone = Solver(problem.having(boundary={"y_upper": 7.0, "all": 0.0}), "cg", "numpy").solve(1.0)
    ready = threading.Barrier(2)

    def on_a_rank(comm: Any) -> Any:
        solver = Solver(problem, "cg", "numpy", comm=comm, ranks=(1, 2))
        before = solver.solve(1.0).target
        ready.wait()
        values[:] = 7.0
        ready.wait()
        return before, solver.solve(1.0).target

    for before, after in on_ranks(2, on_a_rank):
        assert before < after == pytest.approx(alone.target, rel=1e-12)


def test_the_first_of_two_faces_has_their_corner() -> None:
    sides = {"x_lower": 1.0, "x_upper": 2.0, "y_lower": 3.0, "y_upper": 4.0}
    u = poisson.solve(Problem.on_box((5, 6), boundary=sides), "fft").u
    assert u[[0, 0, -1, -1], [0, -1, 0, -1]].tolist() == [1.0, 2.0, 1.0, 2.0]
    assert (u[0, 1:-1] == 3.0).all() and (u[-1, 1:-1] == 4.0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_source_where_nothing_flows_is_no_measure_of_the_residual(backend: str) -> None:
    """Nodes all of whose links have a = 0 have no equation, and f there counts as 0."""
    a, f = np.ones((17, 17)), np.ones((17, 17))
    a[5:10, 5:10], f[6:9, 6:9] = 0.0, 1e6
    solution = poisson.solve(Problem.on_box((17, 17), f=f, a=a), "cg", backend=backend)
    assert solution.target == pytest.approx(1e-8, rel=1e-14)


def test_kinds_of_faces_stay() -> None:
    solver = Solver(Problem.on_box((9, 9), boundary={"x": "periodic", "all": {"neumann": 0.0}}, c=1.0), backend="numpy")
    for boundary, line in {
        "boundary.y_lower: dirichlet; allowed: neumann, because the kind of a face cannot change": 1.0,
        'boundary.x: "neumann"; allowed: "periodic" or "open"': {"x": "neumann"},
        "boundary.q: unknown key; allowed: all, x, y, x_lower, x_upper, y_lower, y_upper": {"q": 0.0},
        "boundary.y_upper.neumann: a set; allowed: a number, an expression, a function of x(, y, z) or an array": {
            "y_upper": {"neumann": {0.0}}
        },
    }.items():
        with pytest.raises(CaseError) as refused:
            solver.solve(1.0, boundary=line)
        assert str(refused.value).replace("'", '"') == boundary
    assert solver.solve(1.0).status.success


# On the emulation the many sweeps take their time.
@pytest.mark.parametrize(
    ("method", "backend"),
    [
        (method, name)
        for method in ("auto", "fft", "multigrid", "jacobi")
        for name in BACKENDS
        if (method, name) != SLOW
    ],
)
def test_c_may_be_another_one(method: str, backend: str) -> None:
    problem = Problem.on_box((17, 9), f="1 + x", c=1.0, boundary=1.0)
    solver = Solver(problem, method, backend, rtol=1e-10)
    own = solver.solve().u.copy()
    several: list[Any] = [10.0, 0.0, "100.0", 1.0]
    if method != "fft":
        several += ["1 + y", np.full((9, 17), 3.0), lambda x, y: 2.0 + x * y]
    for c in several:
        found = solver.solve(c=c)
        expected = Solver(problem.having(c=c), method, backend, rtol=1e-10).solve()
        np.testing.assert_allclose(found.u, expected.u, rtol=0, atol=1e-13)
        assert found.problem.c == problem.having(c=c).c or not isinstance(c, float)
    np.testing.assert_array_equal(solver.solve().u, own)
    for c, line in {
        -1.0: "c = -1.0; it must be >= 0",
        "x - 2": r"equation.c: -2.0 at x = 0, y = 0; every value must be",
    }.items():
        with pytest.raises(PoissonError, match=line if method != "fft" or c == -1.0 else "only with constant"):
            solver.solve(c=c)
    np.testing.assert_array_equal(solver.solve().u, own)


def test_only_another_operator_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    renewed: Callable[..., Any] = poisson.run.solver.renewed  # type: ignore[attr-defined]
    monkeypatch.setattr("poisson.run.solver.renewed", lambda *given: made.append(given) or renewed(*given))
    boundary = {"x_lower": {"robin": 0.0, "alpha": 1.0}, "all": 0.0}
    solver = Solver(Problem.on_box((9, 9), f=1.0, boundary=boundary), "multigrid", "numpy")
    solver.solve(c=0.0)
    solver.solve(f=np.ones((9, 9)), boundary={"y_lower": 2.0})
    assert made == []
    solver.solve(c=2.0)
    solver.solve(f=3.0, c=2.0)
    assert len(made) == 1
    values = np.ones((9, 9))
    solver.solve(c=values)
    first = solver.solve(c=values).u.copy()
    assert len(made) == 3
    values[:] = 1000.0
    assert np.abs(solver.solve(c=values).u).max() < 0.1 * np.abs(first).max()
    solver.solve()
    weaker = solver.solve(boundary={"x_lower": {"robin": 0.0, "alpha": 0.0}}).u
    assert len(made) == 6
    assert weaker.max() > solver.solve().u.max()


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((33, 17), {"boundary": "x*y", "c": 2.0}),
        ((33, 17), {"boundary": {"x": "periodic", "all": {"neumann": 0.0}}}),
        ((9, 16, 5), {"boundary": {"y": "periodic", "all": 1.0}}),
    ],
    ids=str,
)
@pytest.mark.parametrize("rtol", [1e-3, 1e-12])
def test_a_solve_in_single_precision_is_certified_in_one_pass(
    shape: tuple[int, ...], given: dict[str, Any], rtol: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the source as it was given, in float64; a target out of reach is told from a solve that failed."""
    problem, f = Problem.on_box(shape, **given), source(shape[::-1])
    f -= f.mean() if problem.faces[-1].kind.value == "neumann" else 0.0
    solver, keeping = (Solver(problem, "fft", "openmp", "float32", rtol=rtol, fields=n) for n in ((), ("residual",)))
    expected = keeping.solve(f)
    monkeypatch.setattr("poisson.run.certificate._residuals", lambda *_: pytest.fail("slab by slab"))
    found = solver.solve(f)
    assert (found.status, found.iterations) == (expected.status, expected.iterations)
    assert found.status is (Status.CONVERGED if rtol == 1e-3 else Status.AT_ROUNDING)
    assert found.residual == pytest.approx(expected.residual, rel=1e-12)


@pytest.mark.parametrize("method", ["fft", "multigrid", "cg"])
@pytest.mark.parametrize("boundary", [0.0, "periodic"])
def test_u_may_take_the_place_of_its_source(method: str, boundary: Any) -> None:
    f = np.random.default_rng(3).standard_normal((12, 17))
    f -= f.mean() if boundary == "periodic" else 0.0
    solver = poisson.Solver(poisson.Problem.on_box((17, 12), boundary=boundary), method, rtol=1e-9)
    alone = solver.solve(f=f)
    place = f.copy()
    solution = solver.solve(f=place, out=place)
    assert (solution.status, solution.residual) == (alone.status, alone.residual)
    assert solution.u is place and (place == alone.u).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "boundary", ["periodic", {"all": {"neumann": 0.1}}, {"x": "periodic", "all": {"neumann": 0.1}}]
)
def test_what_a_source_has_too_much_is_taken_from_it(boundary: Any, backend: str) -> None:
    """Of arrays as of the same values by a function, which are integrated elsewhere."""
    problem = Problem.on_box((16, 12), boundary=boundary)
    outflow = {"periodic": 0.0}.get(str(boundary), -0.4 if len(boundary) == 1 else -0.2)
    f = source((12, 16))
    weights = np.ones_like(f)
    if boundary != "periodic":
        weights[[0, -1]] /= 2
        weights[:, [0, -1]] /= 1 if "x" in boundary else 2
    f += outflow + 1e-3 - (weights * f).sum() / weights.sum()
    solver = Solver(problem, "fft", backend)
    expected, found = solver.solve(lambda x, y: f), solver.solve(f)
    np.testing.assert_allclose(found.u, expected.u, rtol=0, atol=1e-13 * np.abs(expected.u).max())
    assert found.target == pytest.approx(expected.target, rel=1e-12)
    with pytest.raises(IncompatibleSource, match=r"∫f = .*, ∫f \+ ∮g = 1 \("):
        solver.solve(f + 1.0)
    f[3, 4] = np.nan
    with pytest.raises(CaseError, match=r"equation\.f: nan at x = "):
        solver.solve(f)
