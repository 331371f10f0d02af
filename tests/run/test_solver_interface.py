# SPDX-License-Identifier: MIT
"""`Problem.on_box`, `Solver` and `Solution`: what goes in, what is kept between solves, what comes out.

Covers poisson.run.outcome, poisson.run.setup and poisson.run.setup_view.
"""

import inspect
import math
import sys
import weakref
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import emulated
from support.problems import SINE, WALLS, make_case

import poisson
from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation
from poisson.errors import CaseError, IncompatibleSource, PackageMissing, ResourceError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.lattice import Lattice
from poisson.problem.expressions import Expression, parse
from poisson.problem.fields import ArrayField, FunctionField
from poisson.problem.problem import Problem
from poisson.run.method import set_up
from poisson.run.solver import Solver
from poisson.solvers import registry
from poisson.solvers.status import Status

METHODS = tuple(registry.methods())


def bumps(x: Any, y: Any) -> Any:
    return np.exp(x) * np.sin(3 * y)


def direct(problem: Problem) -> Any:
    discretisation = balanced(Discretisation(problem), np)
    return reference.solve(discretisation).reshape(problem.lattice.array_shape)


# ---- problems
def test_a_problem_from_numbers_texts_functions_and_arrays() -> None:
    c = np.ones((4, 5))
    problem = Problem.on_box(
        (5, 4),
        f="x*y",
        a=bumps,
        c=c,
        boundary={"x": "periodic", "y_lower": {"neumann": lambda x, y: x}, "all": {"robin": 1.0, "alpha": "2"}},
        upper=(2.0, 1.0),
        initial=3,
        mean="arithmetic",
        title="A box",
    )
    lattice = problem.lattice
    assert (lattice.shape, lattice.upper, lattice.periodic) == ((5, 4), (2.0, 1.0), (True, False))
    assert [face.kind for face in problem.faces] == [Kind.PERIODIC, Kind.PERIODIC, Kind.NEUMANN, Kind.ROBIN]
    assert problem.f == parse("x*y", 2)
    assert problem.a == FunctionField(bumps)
    assert isinstance(problem.c, ArrayField) and problem.c.values is c
    assert problem.faces[3].alpha == Expression.constant(2.0)
    assert (problem.initial, problem.mean, problem.title) == (Expression.constant(3.0), "arithmetic", "A box")


def test_numbers_stay_numbers_and_the_faces_default_to_zero() -> None:
    problem = Problem.on_box((3, 4, 5), a=2, c="1 + 2")
    assert (problem.a, problem.c, problem.varies) == (2.0, 3.0, False)
    assert all(face.kind is Kind.DIRICHLET and face.value == Expression.constant(0.0) for face in problem.faces)
    assert Problem.on_box((3, 4), boundary="x").faces[0].value == parse("x", 2)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"f": np.ones((5, 4))}, "f: an array of the shape (5, 4); the grid needs (4, 5), because arrays are (ny, nx)"),
        ({"f": np.ones((4, 5), complex)}, "f: an array without real numbers; allowed: float, integer or unsigned"),
        ({"f": "x +"}, "f: 'x +'; "),
        ({"c": []}, "c: an array of the shape (0,); the grid needs (4, 5), because arrays are (ny, nx)"),
        ({"c": {}}, "c: a dict; allowed: a number, an expression, a function of x(, y, z) or an array"),
        ({"a": -1.0}, "a = -1.0; it must be > 0"),
        ({"boundary": {"left": 0.0}}, "boundary.left: unknown key; allowed: all, x, y, x_lower, x_upper, y_lower, "),
        ({"boundary": {"x": "periodic"}}, "boundary.y_lower: missing; "),
        ({"boundary": {"x": "opn", "all": 0.0}}, 'boundary.x: \'opn\'; allowed: "periodic" or "open"'),
        ({"boundary": {"all": {"robin": 1.0}}}, "boundary.all.alpha: missing; allowed: a number >= 0, an expression"),
        ({"exact": bumps}, "exact: a function; allowed: a number or an expression, because derivatives"),
        ({"upper": (0.0, 1.0)}, "x: the interval [0.0, 0.0] is empty or not finite"),
        ({"upper": (1e160, 1.0)}, "x: 5 nodes on [0.0, 1e+160]; allowed: a spacing of the nodes of more than 1e-150"),
        ({"mean": "geometric"}, "mean = 'geometric'; "),
        ({"upper": 2.0}, "upper: 2.0; allowed: 1, 2 or 3 finite numbers, in the order x(, y(, z))"),
        ({"lower": np.ones(3)}, "lower, upper, shape and the pairs of rules differ in length"),
        (
            {"boundary": {"x": "periodic", "x_lower": 1.0, "all": 0.0}},
            'boundary.x_lower: 1.0; allowed: nothing, because x = "periodic" sets both faces',
        ),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(CaseError) as caught:
        Problem.on_box((5, 4), **arguments)
    assert caught.value.mistakes[0].startswith(line)


@pytest.mark.parametrize("shape", [9, (9.5, 9), "ab", None])
def test_a_shape_that_is_none_is_named(shape: Any) -> None:
    with pytest.raises(CaseError, match=r"^shape: .*; allowed: 1, 2 or 3 integers, in the order x\(, y\(, z\)\)$"):
        Problem.on_box(shape)


def test_corners_may_be_arrays() -> None:
    assert Problem.on_box((9, 9), upper=np.array([1.0, 2.0])).lattice.upper == (1.0, 2.0)
    expected = Lattice.box((0.0, -1.0), (1.0, 1.0), (9, 8), (Rule.FIXED,) * 4)
    assert Problem.on_box(np.array([9, 8]), lower=[0, -1]).lattice == expected


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (
            lambda x, y: np.ones((3, 4)),
            "the function returns an array of the shape (3, 4) for points of the shape {}; allowed: a number, or an "
            "array that broadcasts to that shape",
        ),
        (lambda x, y: 1j * x, "the function returns values of type complex128; allowed: real numbers"),
        (lambda x, y: None, "the function returns values of type object; allowed: real numbers"),
    ],
)
def test_a_function_that_returns_something_else_is_named(function: Any, line: str) -> None:
    for arguments, key, points in (
        ({"f": function}, "equation.f", (9, 8)),
        ({"a": function}, "equation.a", (9, 8)),
        ({"boundary": {"all": {"robin": 0.0, "alpha": function}}}, "boundary.x_lower.alpha", (9, 1)),
        ({"boundary": {"all": 0.0, "x_upper": function}}, "boundary.x_upper", (9, 1)),
    ):
        with pytest.raises(CaseError) as caught:
            poisson.solve(Problem.on_box((8, 9), **arguments), backend="numpy")
        assert str(caught.value) == f"{key}: {line.format(points)}"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"fields": "residual"}, "fields: 'residual'; allowed: a list of u, f, a, c, residual, error, gradient, flux"),
        ({"fields": ("residul",)}, "fields: 'residul'; allowed: a list of u, f, "),
        ({"fields": ("error",)}, "fields: 'error'; allowed: only if the exact solution is given"),
        ({"order": 3}, "order: 3; allowed: 2, 4, 6, 8"),
        ({"max_iterations": np.float64(2.5)}, "solver.max_iterations: 2.5; allowed: an integer >= 1"),
        ({"rtoll": 1e-3}, "solver.rtoll: unknown key; .* did you mean 'rtol'"),
        ({"method": "multgrid"}, 'solver.method: "multgrid"; .* did you mean .multigrid.'),
        ({"method": "jacobi", "omega": 1.5}, "solver.omega: 1.5; allowed: a number > 0 and <= 1 with method"),
    ],
)
def test_a_wrong_option_is_named_as_in_a_case_file(options: dict[str, Any], line: str) -> None:
    with pytest.raises(CaseError, match=f"^{line}"):
        Solver(Problem.on_box((5, 4)), **{"backend": "numpy", **options})


def test_numbers_of_numpy_are_numbers_and_u_may_be_asked_for() -> None:
    solver = Solver(Problem.on_box((5, 4), f=1.0), "jacobi", "numpy", fields=["u", "f"], max_iterations=np.int64(3))
    assert (solver.solve().iterations, list(solver.solve().fields)) == (3, ["f"])


def test_what_is_no_problem_is_named() -> None:
    for call in (poisson.solve, Solver, poisson.LinearOperator):
        with pytest.raises(CaseError, match=r"^(case|problem): a str; allowed: a "):
            call("cases/unit_square.toml")


def test_a_function_an_array_and_a_text_give_the_same_solution() -> None:
    text = Problem.on_box((17, 13), f="exp(x)*sin(3*y)", boundary={"all": "x*y"})
    x, y = (text.lattice.coordinates(axis) for axis in (0, 1))
    function = Problem.on_box((17, 13), f=bumps, boundary={"all": lambda x, y: x * y})
    array = Problem.on_box((17, 13), f=bumps(x, y[:, None]), boundary={"all": "x*y"})
    solutions = [Solver(problem, backend="numpy").solve().u for problem in (text, function, array)]
    np.testing.assert_allclose(solutions[1], solutions[0], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(solutions[2], solutions[1])


# ---- arrays of other libraries


@pytest.mark.gpu
def test_arrays_on_the_device_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = pytest.importorskip("cupy")
    backend = backends.create("gpu", np.float64)
    values = cupy.random.default_rng(1).random((33, 65))
    problem = Problem.on_box((65, 33), f=values)
    solver = Solver(problem, "multigrid", "gpu")
    solver.solve()  # once, a sample of the problem is looked at on the host: `CheckWarning`
    monkeypatch.setattr(type(backend), "to_host", lambda *_: pytest.fail("copied to the host"))
    get = cupy.ndarray.get

    def only_numbers(array: Any, *arguments: Any, **named: Any) -> Any:
        return get(array, *arguments, **named) if array.size == 1 else pytest.fail("copied to the host")

    monkeypatch.setattr(cupy.ndarray, "get", only_numbers)
    first, second = solver.solve(), solver.solve(f=2.0 * values)
    assert isinstance(first.u, cupy.ndarray)
    monkeypatch.undo()
    expected = Solver(Problem.on_box((65, 33), f=values.get()), "multigrid", "gpu").solve().u
    np.testing.assert_allclose(cupy.from_dlpack(first.u).get(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(second.host_u, 2.0 * expected, rtol=1e-9, atol=1e-12)


# ---- solving
class Counting(NumpyBackend):
    """Counts what only a set-up asks for."""

    counts: ClassVar[Counter[str]] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name in ("empty", "from_host", "capture", "bind", "companion", "reduction"):
            Counting.counts[name] += 1
        return super().__getattribute__(name)


@pytest.mark.parametrize("method", METHODS)
def test_the_second_solve_sets_nothing_up(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "create", lambda name, dtype, threads=0: Counting(dtype))
    problem = Problem.on_box((17, 13), f="1 + x", c=2.0)
    Counting.counts.clear()
    solver = Solver(problem, method)
    assert Counting.counts["empty"] > 0
    first = solver.solve()
    Counting.counts.clear()
    second = solver.solve(f=lambda x, y: 3.0 * (1.0 + x))
    # A float64 run asks for itself as the companion of float64. The first solution has kept its array, and sweeps are
    # recorded for the new one: Jacobi's for each of the two places of its norms in turn.
    assert Counting.counts["empty"] == 1
    sweeps = method in ("jacobi", "chebyshev", "sor")
    assert set(Counting.counts) <= {"companion", "empty"} | ({"capture", "reduction"} if sweeps else set())
    np.testing.assert_allclose(second.u, 3.0 * first.u, rtol=0, atol=1e-6 * np.abs(first.u).max())


def test_the_second_solve_compiles_and_allocates_nothing_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(backends, "create", lambda name, dtype, threads=0: made.append(emulated(dtype)) or made[-1])
    solver = Solver(Problem.on_box((17, 13), f="1 + x"), "multigrid", "gpu")
    first = solver.solve()
    for name in ("compile", "allocate"):
        monkeypatch.setattr(made[0].runtime, name, lambda *_: pytest.fail("compiled or allocated"))
    second = solver.solve(f="2 + 2*x")
    assert len(made) == 1
    np.testing.assert_allclose(second.u, 2.0 * first.u, rtol=1e-6)


@pytest.mark.parametrize(("method", "options"), [*((method, {}) for method in METHODS), ("jacobi", {"loop": "staged"})])
def test_a_solver_that_is_gone_leaves_no_arrays(
    method: str, options: dict[str, Any], numpy_arrays: list[weakref.ref[Any]]
) -> None:
    """Not even until garbage is collected: the next problem may need their memory."""
    solver = Solver(Problem.on_box((65, 65), f="1 + x", c=1e4), method, "numpy", **options)
    solver.solve()
    del solver
    assert numpy_arrays
    assert [array for array in numpy_arrays if array() is not None] == []


def test_the_time_of_the_set_up_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by 1000 in the set-up and by 1 whenever it is read."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    def slow(*given: Any) -> Any:
        nonlocal now
        now += 1000.0
        return set_up(*given)

    monkeypatch.setattr("poisson.run.solver.time", SimpleNamespace(perf_counter=clock))
    monkeypatch.setattr("poisson.run.solver.set_up", slow)
    solver = Solver(Problem.on_box((9, 9), f=1.0), "multigrid", "numpy")
    assert solver.solve().times == {"setup": 1002.0, "solve": 1.0, "finish": 1.0}
    assert solver.solve().times == {"setup": 1.0, "solve": 1.0, "finish": 1.0}
    seconds = iter([5.0, 5.25])  # as the gpu backend has them
    monkeypatch.setattr(Backend, "kernel_seconds", property(lambda backend: next(seconds)))
    assert solver.solve().times == {"setup": 1.0, "kernels": 0.25, "solve": 0.75, "finish": 1.0}


@pytest.mark.parametrize("shape", [(9,), (9, 7), (9, 7, 5)])
def test_one_solve_makes_one_lattice_an_axis_each_and_one_discretisation(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[str] = Counter()
    for kind in (Axis, Lattice, Discretisation):

        def counted(self: Any, *given: Any, _kind: Any = kind, _made: Any = kind.__init__, **named: Any) -> None:
            made[_kind.__name__] += 1
            _made(self, *given, **named)

        monkeypatch.setattr(kind, "__init__", counted)
    poisson.solve(Problem.on_box(shape, f=np.ones(shape[::-1])), "fft", "numpy")
    # Arrays of a line have a second axis of one node, and so a lattice of their own.
    assert made == {"Lattice": 1 + (len(shape) == 1), "Axis": max(2, len(shape)), "Discretisation": 1}


def test_the_exact_solution_belongs_to_its_source() -> None:
    problem = Problem.on_box((9, 9), f="2*pi**2*sin(pi*x)*sin(pi*y)", exact="sin(pi*x)*sin(pi*y)")
    solver = Solver(problem, "fft", "numpy", fields=("error",))
    own = solver.solve()
    assert own.error is not None
    other = solver.solve(f=1.0)
    assert (other.problem.exact, other.error, other.fields) == (None, None, {})
    # A guess changes neither the source nor what solves it.
    guessed = Solver(problem, "multigrid", "numpy", rtol=1e-12).solve(initial=0.5)
    assert guessed.problem.exact == problem.exact
    assert guessed.error is not None
    assert math.isclose(guessed.error.max, own.error.max, rel_tol=1e-6)


def test_what_auto_has_chosen_must_fit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only what takes least of all methods, which is known before there is a choice."""
    problem = Problem.on_box((129, 129), f=1.0, a="10**(3*x)")
    monkeypatch.setattr("poisson.run.memory.LITTLE", 0)
    monkeypatch.setattr(NumpyBackend, "memory", lambda _: (2_300_000, 1 << 40))
    with pytest.raises(ResourceError) as caught:
        Solver(problem, backend="numpy")
    assert str(caught.value) == (
        "domain.shape = [129, 129] needs 12.4 arrays and room for its result, 0.00264 GiB in float64, and this process "
        "has 0.00214 GiB free: reduce domain.shape, or use run.precision = 'float32'"
    )
    monkeypatch.setattr(NumpyBackend, "memory", lambda _: (2_900_000, 1 << 40))
    assert Solver(problem, backend="numpy").method.startswith("cg with preconditioner multigrid")


@pytest.mark.parametrize("method", METHODS)
def test_each_source_gets_its_own_solution(method: str) -> None:
    problem = Problem.on_box((17, 13), f=0.0, boundary={"x_lower": {"neumann": "y"}, "all": "x - y"}, c=0.5)
    solver = Solver(problem, method, "numpy", rtol=1e-11)
    sources = (0.0, 1.0, "sin(3*x)*y", bumps, np.random.default_rng(2).random((13, 17)))
    # Judged when all are there: solutions do not share their arrays.
    for solution in [solver.solve(f=f) for f in sources]:
        assert solution.status is Status.CONVERGED
        expected = direct(solution.problem)
        np.testing.assert_allclose(solution.u, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_array_equal(solver.solve().u, solver.solve(f=0.0).u)


@pytest.mark.parametrize("method", ["multigrid", "cg", "jacobi"])
def test_a_good_guess_saves_iterations(method: str) -> None:
    problem = Problem.on_box((33, 33), f=bumps)
    solver = Solver(problem, method, "numpy", rtol=1e-6)
    first = solver.solve()
    second = solver.solve(initial=first.u)
    assert first.iterations > 0
    assert (second.status, second.iterations) == (Status.CONVERGED, 0)
    # Multigrid smooths before it reads the first norm.
    np.testing.assert_allclose(second.u, first.u, rtol=0, atol=1e-8)


def test_a_guess_does_not_go_with_the_discretisation_error() -> None:
    solver = Solver(Problem.on_box((33, 33), f=bumps), "multigrid", "numpy", stop="discretisation")
    solution = solver.solve()
    assert solution.error_bar is not None and solution.advice != solution.status.advice
    with pytest.raises(CaseError, match=r'solver.stop: .discretisation.; allowed: "residual" with an initial guess'):
        solver.solve(initial="x")


def test_a_singular_problem_is_balanced_for_each_source() -> None:
    solver = Solver(Problem.on_box((17, 17), f=0.0, boundary={"all": {"neumann": 0.0}}), backend="numpy")
    solution = solver.solve(f="cos(pi*x)")
    assert solution.status is Status.CONVERGED
    assert abs(float(np.mean(solution.u))) < 1e-3
    with pytest.raises(IncompatibleSource):
        solver.solve(f=1.0)


def test_solve_takes_a_case_or_a_problem() -> None:
    case = make_case(SINE, WALLS, (9, 9))
    from_case = poisson.solve(case)
    from_problem = poisson.solve(case.problem, method="jacobi", backend="numpy")
    np.testing.assert_array_equal(from_case.u, from_problem.u)
    assert from_case.case_text == case.text
    with pytest.raises(CaseError, match="rtol: not allowed with a case, which has its own settings"):
        poisson.solve(case, rtol=1e-3)
    with pytest.raises(
        CaseError, match=r"^method, backend: not allowed with a case, which has its own settings; change"
    ):
        poisson.solve(case, "fft", "numpy")
    with pytest.raises(CaseError, match="resume: allowed only with a case, not with a problem"):
        poisson.solve(case.problem, resume=True)


def test_solve_takes_its_arguments_in_the_order_of_a_solver() -> None:
    problem = Problem.on_box((9, 9), f=1.0)
    solution = poisson.solve(problem, "fft", "numpy", "float32", rtol=1e-3)
    given = (solution.provenance["method"], solution.provenance["backend"], solution.provenance["precision"])
    assert given == (Solver(problem, "fft", "numpy", "float32", rtol=1e-3).method, "numpy", "float32")
    order = [list(inspect.signature(call).parameters)[:4] for call in (poisson.solve, Solver)]
    assert order[0][1:] == order[1][1:] == ["method", "backend", "precision"]
    with pytest.raises(CaseError, match=r"^solver\.method: <"):
        poisson.solve(problem, object())  # type: ignore[arg-type]  # an observer, where the method stands


def test_a_solver_in_one_dimension() -> None:
    problem = Problem.on_box((33,), f=-2.0, exact="x**2", boundary={"x_upper": {"neumann": 2.0}, "all": 0.0})
    solution = Solver(problem, backend="numpy", fields=("residual", "error")).solve()
    assert solution.u.shape == solution.fields["error"].shape == (33,)
    assert solution.error is not None and solution.error.max == np.abs(solution.fields["error"]).max() < 1e-13
    assert float(np.abs(solution.fields["residual"]).max()) < 1e-10


# ---- what comes out
@pytest.fixture(scope="module")
def solved() -> poisson.Solution:
    problem = Problem.on_box((9, 8, 7), f="x*y*z", boundary={"y": "periodic", "all": 0.0}, title="Three axes")
    return Solver(problem, backend="numpy", fields=("f", "gradient")).solve()


def test_a_solution_as_a_file_and_in_xarray(solved: poisson.Solution, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    path = solved.save(tmp_path / "three.h5")
    assert path.with_suffix(".xmf").exists()
    data = solved.to_xarray()
    with xarray.open_dataset(path, engine="h5netcdf") as stored:
        assert set(stored.variables) == set(data.variables)
        for name in data.variables:
            np.testing.assert_array_equal(data[name].values, stored[name].values)
            assert data[name].dims == stored[name].dims
    assert data.attrs["status"] == "converged"
    assert data.u.attrs["units"] == "U"
    assert data.gradient.sel(component="z").dims == ("z", "y", "x")
    assert data.u.values is solved.u


@pytest.mark.parametrize(("call", "package"), [("to_xarray", "xarray"), ("plot", "matplotlib")])
def test_a_package_that_is_missing_is_named(
    solved: poisson.Solution, call: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == package or name.startswith("poisson.output.pictures."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PackageMissing, match=f"^{call} needs {package}: pip install {package}$"):
        getattr(solved, call)()
