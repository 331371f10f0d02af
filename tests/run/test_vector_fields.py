# SPDX-License-Identifier: MIT
"""The gradient and the flux of a solution: their values, their order, and how they are written.

Covers poisson.run.result_fields.
"""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from support.places import ROOT
from support.results import make_solution

import poisson
from poisson.case import from_mapping, regrid
from poisson.discrete.flux import link_flux
from poisson.discrete.operator import Operator
from poisson.errors import BackendUnavailable, GridError
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import slabs
from poisson.output import description, hdf5, xdmf
from poisson.run.memory import result_bytes
from poisson.run.solution import Solution
from poisson.run.verify import verify

CASE = """
[equation]
f = "exact"
exact = "exp(x)*cos(3*y)"

[domain]
lower = [0.0, -0.5]
upper = [1.0, 0.7]
shape = [13, 17]

[boundary]
all = { dirichlet = "exact" }

[solver]
method = "jacobi"
max_iterations = 1
"""


def solved(fields: list[str], **settings: Any) -> Solution:
    """A case whose initial guess is the exact solution, which one sweep hardly changes: the grid is fine enough."""
    tables = tomllib.loads(CASE)
    tables["output"] = {"fields": fields, "order": settings.get("order", 2)}
    tables["run"] = {"initial": "exp(x)*cos(3*y)", "backend": settings.get("backend", "numpy")}
    tables["run"]["precision"] = settings.get("precision", "float64")
    tables["domain"]["shape"] = settings.get("shape", [13, 17])
    tables["solver"]["omega"] = 1e-12
    return poisson.solve(from_mapping(tables, name="case", folder=Path()))


def exact_gradient(solution: Solution) -> NDArray[np.float64]:
    x, y = (solution.problem.lattice.coordinates(axis) for axis in (0, 1))
    return np.stack([np.exp(x) * np.cos(3 * y[:, None]), -3 * np.exp(x) * np.sin(3 * y[:, None])], axis=-1)


@pytest.mark.parametrize("order", [2, 4, 6, 8])
def test_the_gradient_converges_with_its_order(order: int) -> None:
    n = {2: 65, 4: 33, 6: 25, 8: 21}[order]
    errors = []
    for shape in ([n, n], [2 * n - 1, 2 * n - 1]):
        solution = solved(["gradient"], order=order, shape=shape)
        errors.append(float(np.abs(solution.fields["gradient"] - exact_gradient(solution)).max()))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_field_strength_of_a_solve_is_of_second_order_up_to_the_faces(dimension: int) -> None:
    exact = " + ".join(f"sin(2*{axis} + 0.3)" for axis in "xyz"[:dimension])
    errors = []
    for n in (17, 33):
        problem = poisson.Problem.on_box((n,) * dimension, f=f"4*({exact})", boundary=exact)
        solution = poisson.solve(problem, "fft", "numpy", fields=("E",))
        for axis in range(dimension):
            along = solution.problem.lattice.coordinates(axis).reshape(-1, *(1,) * axis)
            assert solution.fields["E"].shape == (*(n,) * dimension, dimension)
            errors.append(float(np.abs(solution.fields["E"][..., axis] + 2.0 * np.cos(2.0 * along + 0.3)).max()))
    coarse, fine = np.array(errors[:dimension]), np.array(errors[dimension:])
    np.testing.assert_allclose(np.log2(coarse / fine), 2.0, atol=0.15)


@pytest.mark.parametrize("backend", ["numpy", "openmp"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_flux_is_the_gradient_with_the_other_sign(backend: str, precision: str) -> None:
    try:
        solution = solved(["flux", "f", "gradient"], order=8, backend=backend, precision=precision)
    except BackendUnavailable as error:
        pytest.skip(str(error))
    assert list(solution.fields) == ["flux", "f", "gradient"]
    gradient, flux = solution.fields["gradient"], solution.fields["flux"]
    assert gradient.shape == (17, 13, 2) and gradient.dtype == flux.dtype == np.dtype(precision)
    np.testing.assert_array_equal(flux, -gradient)
    tolerance = 1e-5 if precision == "float64" else 2e-4
    np.testing.assert_allclose(gradient, exact_gradient(solution), rtol=0, atol=tolerance)


def test_the_derivatives_are_those_of_the_u_that_was_found() -> None:
    """In 3D, of order 2: written out for the inner nodes and the two z faces."""
    case = poisson.load_case(
        ROOT / "cases" / "cube.toml",
        ['run.backend="numpy"', "domain.shape=[9, 9, 9]", 'output.fields=["gradient"]', "solver.rtol=1e-12"],
    )
    solution = poisson.solve(case)
    u, (x, y, z) = solution.u, solution.problem.lattice.spacing
    gradient = solution.fields["gradient"]
    assert gradient.shape == (9, 9, 9, 3)
    inner = slice(1, -1)
    np.testing.assert_allclose(gradient[:, :, inner, 0], (u[:, :, 2:] - u[:, :, :-2]) / (2 * x), atol=1e-14)
    np.testing.assert_allclose(gradient[:, inner, :, 1], (u[:, 2:] - u[:, :-2]) / (2 * y), atol=1e-14)
    np.testing.assert_allclose(gradient[inner, :, :, 2], (u[2:] - u[:-2]) / (2 * z), atol=1e-14)
    np.testing.assert_allclose(gradient[0, :, :, 2], (-1.5 * u[0] + 2 * u[1] - 0.5 * u[2]) / z, atol=1e-14)
    np.testing.assert_allclose(gradient[-1, :, :, 2], (1.5 * u[-1] - 2 * u[-2] + 0.5 * u[-3]) / z, atol=1e-14)


def test_a_grid_made_too_coarse_for_the_order_is_refused_before_the_solve() -> None:
    tables = {"output.fields": '["gradient"]', "output.order": "8", "run.backend": '"numpy"'}
    path = ROOT / "cases" / "unit_square.toml"
    case = poisson.load_case(path, [f"{key}={value}" for key, value in tables.items()])
    with pytest.raises(GridError, match=r"^x: 5 nodes; a difference of order 8 needs at least 9"):
        poisson.solve(regrid(case, (5, 5)))


def test_refinement_needs_no_derivatives() -> None:
    path = ROOT / "cases" / "neumann_mixed.toml"
    overrides = ['output.fields=["gradient"]', "output.order=8", 'run.backend="numpy"', "domain.shape=[21, 17]"]
    assert verify(poisson.load_case(path, overrides), 3).passed


def test_the_size_of_a_result_counts_every_component() -> None:
    path = ROOT / "cases" / "cube.toml"
    problem = poisson.load_case(path).problem
    sizes = [
        result_bytes(problem.lattice, "float32", fields)
        for fields in (("u",), ("u", "f"), ("u", "E"), ("u", "gradient", "flux"))
    ]
    nodes = 33**3
    assert [size - sizes[0] for size in sizes] == [0, 8 * nodes, 3 * 4 * nodes, 2 * 3 * 4 * nodes]


# ---- files
@pytest.fixture(params=[2, 3])
def vectors(request: pytest.FixtureRequest) -> Solution:
    """A result with vectors whose components are the multiples 1, 2(, 3) of u."""
    solution = make_solution(request.param, "float32")
    gradient = solution.u[..., None] * np.arange(1, request.param + 1, dtype="float32")
    return replace(solution, fields={"gradient": gradient, "flux": -gradient, "E": -gradient, **solution.fields})


def test_a_vector_is_written_with_its_components_last(tmp_path: Path, vectors: Solution) -> None:
    dimension = vectors.problem.lattice.dimension
    hdf5.write(tmp_path / "a.h5", vectors)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["gradient"].shape == (*vectors.u.shape, dimension) and file["gradient"].dtype == np.float32
        for name in ("flux", "E"):
            np.testing.assert_array_equal(file[name], -vectors.fields["gradient"])
            np.testing.assert_array_equal(file[f"VTKHDF/PointData/{name}"], -vectors.fields["gradient"])
            assert file["gradient"].attrs["units"] == file[name].attrs["units"] == "U/L"
        assert file["gradient"].attrs["long_name"] == "gradient of u"
        assert file["flux"].attrs["long_name"] == "flux -a grad u"
        assert file["E"].attrs["long_name"] == "field strength -grad u"
        assert [name.decode() for name in file["component"]] == list("xyz"[:dimension])
        assert [axis[0].name for axis in file["flux"].dims] == [*(f"/{c}" for c in "zyx"[-dimension:]), "/component"]


def test_a_vector_opens_in_xarray(tmp_path: Path, vectors: Solution) -> None:
    xarray = pytest.importorskip("xarray")
    hdf5.write(tmp_path / "a.h5", vectors)
    with xarray.open_dataset(tmp_path / "a.h5", engine="h5netcdf") as data:
        assert data["gradient"].dims == (*("z", "y", "x")[-vectors.problem.lattice.dimension :], "component")
        np.testing.assert_array_equal(data["gradient"].sel(component="y"), 2 * vectors.u)
        np.testing.assert_array_equal(data["E"].sel(component="x"), -vectors.u)


def test_a_vector_is_described(tmp_path: Path, vectors: Solution) -> None:
    hdf5.write(tmp_path / "a.h5", vectors)
    lines = [" ".join(line.split()) for line in description.describe(tmp_path / "a.h5").splitlines()]
    largest = f"{float(vectors.u.max()) * vectors.problem.lattice.dimension:.6g}"
    assert f"gradient gradient of u: 0 to {largest} (float32)" in lines
    assert not any(line.startswith("component") for line in lines)


def test_xdmf_calls_it_a_vector(tmp_path: Path, vectors: Solution) -> None:
    dimension = vectors.problem.lattice.dimension
    hdf5.write(tmp_path / "a.h5", vectors)
    root = ElementTree.fromstring(xdmf.content(tmp_path / "a.h5", vectors))
    kinds = {item.get("Name"): (item.get("AttributeType"), item.find("DataItem")) for item in root.iter("Attribute")}
    assert {name: kind for name, (kind, _) in kinds.items()} == {
        **{"u": "Scalar", "gradient": "Vector", "flux": "Vector", "E": "Vector"},
        **{"f": "Scalar", "error": "Scalar"},
    }
    item = kinds["flux"][1]
    assert item is not None and item.text == "a.h5:/flux"
    shape = (*vectors.u.shape, dimension) if dimension == 3 else (1, *vectors.u.shape, dimension)
    assert item.get("Dimensions") == " ".join(map(str, shape))
    assert item.get("Precision") == "4"


def test_xdmf_calls_the_one_component_of_a_line_a_scalar(tmp_path: Path) -> None:
    """Readers know no vectors of one component."""
    solution = poisson.Solver(poisson.Problem.on_box((9,), f=1.0), backend="numpy", fields=("gradient",)).solve()
    root = ElementTree.fromstring(xdmf.content(tmp_path / "a.h5", solution))
    kinds = {item.get("Name"): (item.get("AttributeType"), item.find("DataItem")) for item in root.iter("Attribute")}
    kind, item = kinds["gradient"]
    assert item is not None
    assert (kind, item.get("Dimensions")) == ("Scalar", "1 1 9")


def test_the_flux_of_higher_order_is_that_of_the_gradient_where_a_varies_too() -> None:
    """The links give one of second order."""
    problem = poisson.Problem.on_box((13, 11), f=1.0, a="1 + x*y")
    x, y = (problem.lattice.coordinates(axis) for axis in (0, 1))
    a = 1.0 + x * y[:, np.newaxis]
    for order, same in ((2, False), (4, True), (8, True)):
        fields = poisson.Solver(problem, backend="numpy", fields=("gradient", "flux"), order=order).solve().fields
        equal = np.allclose(fields["flux"], -a[..., np.newaxis] * fields["gradient"], rtol=0, atol=1e-14)
        assert equal == same


@pytest.mark.parametrize("limit", [1, 1 << 18])
@pytest.mark.parametrize("shape", [(9, 1), (9, 7), (5, 9, 7)])
def test_the_flux_through_links_is_exact_for_a_parabola_up_to_the_faces(
    shape: tuple[int, ...], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flux is linear: there is no error at the faces that the inside has not."""
    monkeypatch.setattr("poisson.discrete.flux.slabs", lambda shape: slabs(shape, limit))
    rules = (Rule.FIXED, Rule.MIRROR, *(Rule.MIRROR,) * (2 * len(shape) - 2))
    operator = Operator.uniform(shape, (0.1, 0.2, 0.3)[: len(shape)], 0.0, rules)
    for axis, nodes in enumerate(shape):
        if nodes == 1:
            continue
        along = (-1, *(1,) * axis)
        x = operator.spacing[axis] * np.arange(nodes)
        for a in (1.0, 3.0):
            links = np.full(operator.array_shape, a)
            u, out = np.broadcast_to((x**2 - x).reshape(along), operator.array_shape), np.empty(operator.array_shape)
            link_flux(operator, axis, links, u, out)
            expected = np.broadcast_to((a * (1.0 - 2.0 * x)).reshape(along), out.shape)
            np.testing.assert_allclose(out, expected, rtol=0, atol=1e-13)
