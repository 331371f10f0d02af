# SPDX-License-Identifier: MIT
"""Arrays of any library as data of a problem: what is taken, what is refused with which line, and data of faces."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from support.refusals import mistake_of

import poisson
from poisson.errors import CaseError
from poisson.mesh.boundary import FACE_NAMES, Kind
from poisson.problem import sampling
from poisson.problem.arrays import brought
from poisson.problem.faces import Face
from poisson.problem.fields import ArrayField
from poisson.problem.problem import Problem
from poisson.run import certificate
from poisson.run.solver import Solver

VALUES = np.random.default_rng(4).random((4, 5)) + 1.0
MASKED = np.ma.masked_array(VALUES, VALUES > 1.5)
PROTOCOLS = [
    ("__array__",),
    ("__array_interface__",),
    ("__array_struct__",),
    ("__dlpack__",),
    ("__dlpack__", "__dlpack_device__"),
]
FACES = {
    "x_lower": {"dirichlet": lambda *x: 1.0 + sum(np.sin(n + 2.0 * each) for n, each in enumerate(x))},
    "x_upper": {"neumann": lambda *x: 2.0 - x[0] * x[-1]},
    "y_lower": {"robin": lambda *x: x[0] + x[-1] ** 2, "alpha": lambda *x: 1.0 + x[0] * x[-1]},
    "z_upper": {"dirichlet": lambda *x: np.cos(3.0 * x[0] + x[1])},
    "all": {"neumann": 0.0},
}


def only(values: Any, names: tuple[str, ...]) -> Any:
    """An array that has these protocols, and nothing else."""

    def method(name: str) -> Callable[..., Any]:
        return lambda self, *given, **named: getattr(values, name)(*given, **named)

    attributes = ("__array_interface__", "__array_struct__")
    parts = {name: getattr(values, name) if name in attributes else method(name) for name in names}
    return type("Only", (), {**parts, "keep": values})()


def refused(**arguments: Any) -> str:
    return mistake_of(lambda: poisson.solve(Problem.on_box((5, 4), **arguments), backend="numpy"))


# ---- protocols
@pytest.mark.parametrize("names", PROTOCOLS)
@pytest.mark.parametrize("key", ["f", "a", "c", "initial"])
def test_an_array_of_one_protocol_is_one_of_numpy(key: str, names: tuple[str, ...]) -> None:
    settings: dict[str, Any] = {"f": 1.0, "boundary": {"x_lower": 1.0, "all": {"neumann": "x"}}}
    solve = {"method": "jacobi", "backend": "numpy", "max_iterations": 3}
    expected, found = (
        poisson.solve(Problem.on_box((5, 4), **(settings | {key: given})), **solve).u
        for given in (VALUES, only(VALUES, names))
    )
    np.testing.assert_array_equal(found, expected)
    plain = poisson.solve(Problem.on_box((5, 4), **settings), **solve).u
    assert np.abs(found - plain).max() > 1e-3
    assert refused(**{key: only(VALUES.T, names)}).startswith(f"{key}: an array of the shape (5, 4); the grid needs (4")


@pytest.mark.parametrize("names", PROTOCOLS)
def test_sources_of_a_solver_and_data_of_a_face(names: tuple[str, ...]) -> None:
    solver = Solver(Problem.on_box((5, 4), f=1.0), "multigrid", "numpy")
    for key in ("f", "initial"):
        found, expected = (solver.solve(**{key: each}).u for each in (only(VALUES, names), VALUES))
        np.testing.assert_array_equal(found, expected)
    wall = only(np.arange(4.0), names)
    solution = poisson.solve(Problem.on_box((5, 4), boundary={"x_lower": wall, "all": 0.0}), backend="numpy")
    np.testing.assert_array_equal(solution.u[1:-1, 0], [1.0, 2.0])


@pytest.mark.parametrize("names", PROTOCOLS)
def test_what_a_function_returns(names: tuple[str, ...]) -> None:
    expected, found = (
        poisson.solve(Problem.on_box((5, 4), f=lambda x, y, given=given: given), backend="numpy").u
        for given in (VALUES, only(VALUES, names))
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "convert", [np.asmatrix, memoryview, lambda values: np.ma.masked_array(values), lambda values: values.astype("f2")]
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_other_arrays_of_the_host(convert: Any) -> None:
    values = np.arange(20.0).reshape(4, 5)
    expected, found = (
        poisson.solve(Problem.on_box((5, 4), f=given), backend="numpy").u for given in (values, convert(values))
    )
    np.testing.assert_array_equal(found, expected)


def test_arrays_of_pandas_and_xarray() -> None:
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    expected = poisson.solve(Problem.on_box((5, 4), f=VALUES), backend="numpy").u
    for given in (pandas.DataFrame(VALUES), xarray.DataArray(VALUES)):
        np.testing.assert_array_equal(poisson.solve(Problem.on_box((5, 4), f=given), backend="numpy").u, expected)
    missing = pandas.DataFrame(VALUES).astype("Float64").mask(VALUES > 1.5)
    assert refused(f=missing) == "f: an array without real numbers; allowed: float, integer or unsigned values"


@pytest.mark.parametrize("number", [np.float32(3.0), np.array(3), only(np.array(3.0), ("__dlpack__",))])
def test_an_array_without_axes_is_a_number(number: Any) -> None:
    problem = Problem.on_box((5, 4), a=number, boundary=number)
    assert (problem.a, problem.varies) == (3.0, False)
    assert problem.faces[0] == Problem.on_box((5, 4), boundary=3.0).faces[0]


# ---- what is refused


NO_NUMBERS = "an array without real numbers; allowed: float, integer or unsigned values"
WITH_MASK = "an array with masked values; fill them, for example with numpy.ma.filled"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (MASKED, WITH_MASK),
        (np.ma.masked, WITH_MASK),
        (VALUES + 0j, NO_NUMBERS),
        (VALUES.astype(object), NO_NUMBERS),
        (np.complex128(1 + 2j), "a complex128; allowed: a number, an expression, a function of x(, y, z) or an array"),
        (1j, "a complex; allowed: a number, an expression, a function of x(, y, z) or an array"),
        ({1.0}, "a set; allowed: a number, an expression, a function of x(, y, z) or an array"),
        ([[1.0]], "an array of the shape (1, 1); the grid needs (4, 5), because arrays are (ny, nx)"),
    ],
)
@pytest.mark.parametrize("key", ["f", "a", "c", "initial"])
def test_data_that_are_no_real_numbers(key: str, given: Any, line: str) -> None:
    assert refused(**{key: given}) == f"{key}: {line}"
    if key in ("f", "initial"):
        with pytest.raises(CaseError) as caught:
            Solver(Problem.on_box((5, 4)), backend="numpy").solve(**{key: given})
        assert str(caught.value) == f"{key}: {line}"


@pytest.mark.parametrize("key", ["f", "a", "c", "initial"])
def test_a_function_that_returns_masked_values(key: str) -> None:
    name = "run.initial" if key == "initial" else f"equation.{key}"
    masked = lambda x, y: np.ma.masked_greater(x + y + 1.0, 2.0)  # noqa: E731
    settings = {"boundary": {"all": {"neumann": 0.0}}, "c": 1.0}
    assert refused(**(settings | {key: masked})) == f"{name}: the function returns {WITH_MASK}"
    line = refused(boundary={"x_upper": {"neumann": masked}, "all": 0.0})
    assert line == f"boundary.x_upper: the function returns {WITH_MASK}"


@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
def test_an_interface_that_has_a_mask(name: str) -> None:
    interface = dict(VALUES.__array_interface__) | {"mask": VALUES > 1.5}
    masked = type("Masked", (), {name: interface, "shape": (4, 5)})()
    assert refused(f=masked) == f"f: {WITH_MASK}"


def test_an_array_that_cannot_be_read() -> None:
    def fail(self: Any, *given: Any, **named: Any) -> Any:
        raise RuntimeError("it waits\nfor its derivatives")

    for names in (("__array__",), ("__dlpack__",)):
        closed = type("Closed", (), dict.fromkeys(names, fail))()
        reason = "that NumPy cannot read (it waits for its derivatives); give a copy in NumPy"
        assert refused(f=closed) == f"f: a Closed {reason}"
    away = {"__dlpack__": fail, "__dlpack_device__": lambda self: (2, 0)}
    assert refused(f=type("Away", (), away)()) == f"f: an Away on a device {reason}"


class Tensor:
    """A tensor of PyTorch that requires a gradient, on a device or on the host, as 2.13 has it."""

    shape = (4, 5)

    def __init__(self, requires_grad: bool, place: int) -> None:
        self.requires_grad, self._place = requires_grad, place

    def detach(self) -> "Tensor":
        return Tensor(False, self._place)

    def __array__(self, *given: Any, **named: Any) -> Any:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self._place == 2:
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
        return VALUES

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._place, 0

    def __dlpack__(self, **named: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return VALUES.__dlpack__()

    @property
    def __cuda_array_interface__(self) -> Any:
        if self._place != 2:
            raise AttributeError("Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.FloatTensor")
        if self.requires_grad:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")
        raise AttributeError


@pytest.mark.parametrize("place", [1, 2], ids=["host", "device"])
def test_a_tensor_that_requires_a_gradient_is_one_line_that_says_how_to_pass_it(place: int) -> None:
    line = "a Tensor that requires a gradient; a solve has none to give: pass its values by .detach()"
    given = Tensor(True, place)
    for key in ("f", "a", "c", "initial"):
        assert refused(**{key: given}) == f"{key}: {line}"
    assert refused(f=lambda x, y: given) == f"equation.f: the function returns {line}"
    # A module of a device imports by DLPack what has no other protocol.
    with pytest.raises(CaseError, match=f"^{re.escape(line)}$"):
        brought(given, SimpleNamespace(from_dlpack=np.from_dlpack, ndarray=None))  # type: ignore[arg-type]
    expected = poisson.solve(Problem.on_box((5, 4), f=VALUES), backend="numpy").u
    if place == 1:
        assert np.array_equal(poisson.solve(Problem.on_box((5, 4), f=given.detach()), backend="numpy").u, expected)


def test_an_array_that_a_device_cannot_import_is_one_line() -> None:
    def refuse(self: Any, **named: Any) -> Any:
        raise BufferError("bfloat16 is\nnot supported")

    given = type("Given", (), {"__dlpack__": refuse, "__dlpack_device__": lambda self: (2, 0)})()
    line = r"^a Given on a device that CuPy cannot read \(bfloat16 is not supported\); give a copy in CuPy$"
    with pytest.raises(CaseError, match=line):
        brought(given, SimpleNamespace(from_dlpack=lambda it: it.__dlpack__(), ndarray=None))  # type: ignore[arg-type]


def test_the_exact_solution_is_a_text() -> None:
    wanted = "allowed: a number or an expression, because derivatives of the exact solution are needed"
    assert refused(exact=VALUES) == f"exact: an array; {wanted}"
    assert refused(exact=lambda x, y: x) == f"exact: a function; {wanted}"
    assert refused(exact=MASKED) == f"exact: {WITH_MASK}"


# ---- arrays of a device, as far as that can be tried without one
class Away:
    """An array that only its device can read, with an interface and no shape of its own, as CuPy's are for NumPy."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self.__cuda_array_interface__ = {"shape": values.shape, "typestr": values.dtype.str, "version": 3}

    def __array__(self, *given: Any, **named: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def get(self) -> Any:
        return self._values.copy()


class ByDlpack:
    """An array on a device of DLPack alone, that gives a copy on the host when asked for one."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __dlpack__(self, *, dl_device: Any = None, copy: Any = None, **named: Any) -> Any:
        assert dl_device == (1, 0)
        return self._values.__dlpack__(**named)

    def __dlpack_device__(self) -> Any:
        return (2, 0)


@pytest.mark.parametrize("wrap", [Away, ByDlpack])
def test_an_array_on_a_device_without_a_shape(wrap: Any) -> None:
    values = np.random.default_rng(5).random((9, 8))
    walls = {"x_lower": {"neumann": values[:, 0]}, "all": values[0, 0]}
    away = {"x_lower": {"neumann": wrap(values[:, 0].copy())}, "all": values[0, 0]}
    expected = poisson.solve(Problem.on_box((8, 9), f=values, boundary=walls), "fft", "numpy").u
    np.testing.assert_array_equal(
        poisson.solve(Problem.on_box((8, 9), f=wrap(values), boundary=away), "fft", "numpy").u, expected
    )
    assert refused(f=wrap(values)) == (
        "f: an array of the shape (9, 8); the grid needs (4, 5), because arrays are (ny, nx)"
    )
    assert refused(f=wrap(VALUES + 0j)).startswith(("f: an array without real", "equation.f: an array without real"))


# ---- data of faces
def with_arrays(shape: tuple[int, ...], given: dict[str, Any]) -> dict[str, Any]:
    """The functions on the faces as arrays of their values."""
    problem = Problem.on_box(shape, boundary=given)
    tables: dict[str, Any] = {}
    for face, name in enumerate(FACE_NAMES[: 2 * len(shape)]):
        table = given.get(name, given["all"])
        axes = [axis for axis in reversed(range(len(shape))) if axis != face // 2]
        grids = np.meshgrid(*(problem.lattice.coordinates(axis) for axis in axes), indexing="ij")
        places = dict(zip(axes, grids, strict=True))
        places[face // 2] = np.full_like(grids[0], float(face % 2))
        x = [places[axis] for axis in range(len(shape))]
        tables[name] = {
            key: value(*x) if callable(value) else np.full_like(x[0], value) for key, value in table.items()
        }
    return tables


def faces_in(dimension: int) -> dict[str, Any]:
    return {name: table for name, table in FACES.items() if dimension == 3 or not name.startswith("z")}


@pytest.mark.parametrize("name", ["openmp", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("shape", [(8, 9), (7, 8, 9)])
def test_arrays_on_faces_are_the_functions(shape: tuple[int, ...], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = BACKENDS[name](np.float64)
    monkeypatch.setattr(poisson.backends, "create", lambda name, dtype, threads=0: backend)
    given = faces_in(len(shape))
    arrays = with_arrays(shape, given)
    solutions = [
        poisson.solve(Problem.on_box(shape, f="x - y", boundary=each), "multigrid", rtol=1e-11)
        for each in (given, arrays)
    ]
    assert solutions[1].status is poisson.Status.CONVERGED
    np.testing.assert_allclose(solutions[1].u, solutions[0].u, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(solutions[1].u[..., 1:, 0], arrays["x_lower"]["dirichlet"][..., 1:])


@pytest.mark.parametrize("shape", [(8, 9), (7, 8, 9)])
def test_arrays_on_faces_in_slabs(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluated whole or in slabs of one row, and the residual of a float32 run in slabs of a few."""
    given = faces_in(len(shape))
    arrays = with_arrays(shape, given)
    calls: list[int] = []
    face_value = sampling.face_value

    def noted(*arguments: Any) -> Any:
        start, stop = arguments[-1][0]
        calls.append(stop - start)
        return face_value(*arguments)

    monkeypatch.setattr(sampling, "face_value", noted)
    monkeypatch.setattr(certificate, "RESIDUAL_SLAB", 1)
    monkeypatch.setattr("poisson.mesh.grid.slabs.__defaults__", (1,))
    functions, found = (
        poisson.solve(
            Problem.on_box(shape, f="x - y", boundary=each), "multigrid", "numpy", "float32", fields=["residual"]
        )
        for each in (given, arrays)
    )
    assert set(calls) == {1, shape[-1]}
    np.testing.assert_allclose(found.u, functions.u, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.fields["residual"], functions.fields["residual"], rtol=0, atol=1e-12)
    assert found.residual == pytest.approx(functions.residual, rel=1e-9)


@pytest.mark.parametrize(
    ("shape", "boundary", "line"),
    [
        (
            (5, 4),
            {"x_lower": np.ones(5), "all": 0.0},
            "boundary.x_lower.dirichlet: an array of the shape (5,); the face x_lower needs (4,), because "
            "arrays are (ny,)",
        ),
        (
            (5, 4),
            np.ones(4),
            "boundary.all.dirichlet: an array of the shape (4,); the face y_lower needs (5,), because arrays are (nx,)",
        ),
        (
            (5, 4, 3),
            {"y_upper": {"robin": 1.0, "alpha": np.ones((5, 3))}, "all": 0.0},
            "boundary.y_upper.alpha: an array of the shape (5, 3); the face y_upper needs (3, 5), because "
            "arrays are (nz, nx)",
        ),
        (
            (5,),
            {"x_lower": np.ones(1), "all": 0.0},
            "boundary.x_lower.dirichlet: an array of the shape (1,); allowed: a number, because the face is one node",
        ),
        (
            (5, 4),
            {"x_lower": Face(Kind.DIRICHLET, ArrayField(np.ones(3))), "all": 0.0},
            "boundary.x_lower.value: an array of the shape (3,); the face x_lower needs (4,), because arrays are (ny,)",
        ),
        ((5, 4), {"x_lower": {"neumann": MASKED[:, 0]}, "all": 0.0}, f"boundary.x_lower.neumann: {WITH_MASK}"),
        ((5, 4), {"x_lower": VALUES[:, 0] + 0j, "all": 0.0}, f"boundary.x_lower.dirichlet: {NO_NUMBERS}"),
        (
            (5, 4),
            {"x_lower": {"dirichlet": 0.0, "values": VALUES}, "all": 0.0},
            "boundary.x_lower: {'dirichlet': 0.0, 'values': array([[",
        ),
        (
            (5, 4),
            {"all": "periodic", "x_lower": 0.0},
            "boundary.x_upper: 'periodic'; allowed: a condition, because x_lower has one; x = 'periodic' makes both "
            "faces periodic",
        ),
        (
            (5, 4),
            {"all": 0.0, "y_lower": "periodic"},
            "boundary.y_lower: 'periodic'; allowed: a condition; for both y faces at once y = \"periodic\"",
        ),
        ((5, 4), {"all": VALUES, "x": "periodic", "y": "periodic"}, "boundary.all: array([["),
        (
            (5, 4),
            {"all": 1.0, "x": "periodic", "y_lower": 0.0, "y_upper": 0.0},
            "boundary.all: 1.0; allowed: nothing, because every face has its own condition",
        ),
    ],
)
def test_wrong_faces_are_named(shape: tuple[int, ...], boundary: Any, line: str) -> None:
    mistake = mistake_of(Problem.on_box, shape, boundary=boundary)
    assert mistake == line or (line.endswith("[[") and mistake.startswith(line))


def test_values_on_a_face_that_no_solution_has() -> None:
    wall = np.array([0.0, 1.0, np.nan, 0.0])
    for table, key in (({"dirichlet": wall}, "x_upper"), ({"robin": 1.0, "alpha": wall}, "x_upper.alpha")):
        problem = Problem.on_box((5, 4), boundary={"x_upper": table, "all": 0.0})
        with pytest.raises(
            CaseError, match=rf"^boundary.{key}: nan at x = 1, y = 0.666667; every value must be finite"
        ):
            poisson.solve(problem, backend="numpy")


def test_a_face_in_one_dimension_takes_a_number() -> None:
    problem = Problem.on_box((5,), boundary={"x_lower": np.float64(1.0), "x_upper": {"neumann": np.array(2.0)}})
    np.testing.assert_allclose(poisson.solve(problem, backend="numpy").u, 1.0 + 2.0 * problem.lattice.coordinates(0))


# ---- every face at once
@pytest.mark.parametrize("boundary", ["periodic", {"all": "periodic"}, {"x": "periodic", "all": "periodic"}])
def test_every_axis_is_periodic(boundary: Any) -> None:
    problem = Problem.on_box((8, 6), f="sin(2*pi*x)", boundary=boundary)
    assert problem.lattice.periodic == (True, True)
    assert problem == Problem.on_box((8, 6), f="sin(2*pi*x)", boundary={"x": "periodic", "y": "periodic"})


def test_the_axes_that_no_face_names_are_periodic() -> None:
    problem = Problem.on_box((8, 6), boundary={"x_lower": 0.0, "x_upper": 1.0, "all": "periodic"})
    assert problem.lattice.periodic == (False, True)


def test_all_wrong_faces_are_named_at_once() -> None:
    boundary: Any = {"x_lower": {"neumann": 1.0, "alpha": 2.0}, "x_upper": "x +", "y_lower": np.ones(4)}
    with pytest.raises(CaseError) as caught:
        Problem.on_box((5, 4), boundary=boundary)
    assert [line.partition(";")[0] for line in caught.value.mistakes] == [
        "boundary.x_lower: {'neumann': 1.0, 'alpha': 2.0}",
        "boundary.x_upper.dirichlet: 'x +'",
        "boundary.y_upper: missing",
    ]
