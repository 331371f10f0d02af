# SPDX-License-Identifier: MIT
"""Problems with open faces: every method, against larger boxes, and against potentials that are known.

Covers poisson.run.open_space, poisson.run.beyond, poisson.parallel.open_faces and poisson.backends.openmp.face_layers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ranks import on_ranks

import poisson
from poisson.backends.openmp.face_layers import FaceLayers
from poisson.case import from_mapping
from poisson.errors import CaseError, GridError
from poisson.mesh.boundary import FACE_NAMES
from poisson.run.verify import verify
from poisson.solvers import registry

WIDTH = 0.11


def _charge(*at: float) -> Any:
    """A Gaussian ball of charge 1 and the width `WIDTH`, in as many dimensions as the point has."""

    def f(*x: Any) -> Any:
        r2 = sum((x - at) ** 2 for x, at in zip(x, at, strict=True))
        return np.exp(-r2 / (2.0 * WIDTH**2)) / (2.0 * np.pi * WIDTH**2) ** (len(at) / 2.0)

    return f


def _problem(nodes: int, **boundary: Any) -> poisson.Problem:
    return poisson.Problem.on_box((nodes, nodes), f=_charge(0.45, 0.5), boundary={**boundary, "all": "open"})


@pytest.mark.parametrize("method", registry.methods())
def test_every_method_solves(method: Any) -> None:
    """Two solutions in the box, the second one with the values on the faces; from a guess too."""
    alone = poisson.solve(_problem(17), backend="numpy")
    solution = poisson.solve(_problem(17), method, backend="numpy", rtol=1e-11)
    assert solution.status is poisson.Status.CONVERGED
    if method == "fft":
        assert solution.iterations == 2
    np.testing.assert_allclose(solution.u, alone.u, rtol=0, atol=1e-11)
    if method != "fft":
        guessed = poisson.solve(_problem(17).having(initial="1 + x"), method, backend="numpy", rtol=1e-11)
        np.testing.assert_allclose(guessed.u, alone.u, rtol=0, atol=1e-10)


def test_a_larger_box_tends_to_it() -> None:
    """By the inverse of its size, as the field of a charge in a grounded sphere differs from that in open space."""
    n, h = 9, 1.0 / 8.0

    def f(x: Any, y: Any, z: Any) -> Any:
        return 1.0 * (abs(x - 0.5) < 0.2) * (abs(y - 0.5) < 0.2) * (abs(z - 0.375) < 0.2)

    there = poisson.solve(poisson.Problem.on_box((n, n, n), f=f, boundary={"all": "open"}), backend="numpy").u
    gaps = []
    for more in (12, 24, 48):
        ends = (-more * h,) * 3, (1.0 + more * h,) * 3
        box = poisson.Problem.on_box((n + 2 * more,) * 3, f=f, lower=ends[0], upper=ends[1])
        u = poisson.solve(box, "fft", backend="openmp", rtol=1e-12).u
        gaps.append(there - u[(slice(more, more + n),) * 3])
    # 1/R and 1/R³ are left of the box: Richardson's extrapolation removes the first.
    lengths = [2 * more * h + 1.0 for more in (12, 24, 48)]
    ratios = [gaps[k + 1].mean() * lengths[k + 1] / (gaps[k].mean() * lengths[k]) for k in (0, 1)]
    assert ratios == pytest.approx([1.0, 1.0], abs=2e-3)
    better = (lengths[2] * gaps[2] - lengths[1] * gaps[1]) / (lengths[2] - lengths[1])
    assert abs(better).max() < 3e-4 * there.max()


WALLS: dict[str, Any] = {"x_upper": 0.0, "y_lower": {"neumann": 0.0}}


@pytest.mark.parametrize(("method", "backend"), [("fft", "numpy"), ("multigrid", "openmp"), ("cg", "openmp")])
@pytest.mark.parametrize("centring", ["node", "cell", {"y": "cell"}], ids=str)
@pytest.mark.parametrize(
    ("boundary", "more"), [({}, (3, 2, 4, 4, 1, 1)), (WALLS, (5, 0, 0, 3, 1, 1))], ids=["open", "walls"]
)
def test_the_box_may_be_any(method: Any, backend: Any, centring: Any, boundary: Any, more: Any) -> None:
    """With the same charges in a larger box u is the same: of nodes and of cells, and beside walls."""
    shape, h = (7, 8, 4), 0.25
    f = np.random.default_rng(5).standard_normal(shape[::-1])
    inside = tuple(slice(more[2 * axis], more[2 * axis] + shape[axis]) for axis in (2, 1, 0))
    cells = [centring == "cell" or (centring != "node" and axis == 1) for axis in range(3)]
    found = []
    for scale in (0, 1):
        counts = [count + scale * (more[2 * axis] + more[2 * axis + 1]) for axis, count in enumerate(shape)]
        source = np.zeros(counts[::-1])
        source[inside if scale else ...] = f
        for axis in range(3) if scale else ():
            for face in (2 * axis, 2 * axis + 1):
                if more[face] and not cells[axis]:
                    place = more[face] if face % 2 == 0 else more[face - 1] + shape[axis] - 1
                    np.moveaxis(source, 2 - axis, 0)[place] *= 0.5
        lower = [-h * scale * more[2 * axis] for axis in range(3)]
        upper = [low + h * (count - (not cell)) for low, count, cell in zip(lower, counts, cells, strict=True)]
        problem = poisson.Problem.on_box(
            counts, centring=centring, f=source, boundary={**boundary, "all": "open"}, lower=lower, upper=upper
        )
        found.append(poisson.solve(problem, method, backend, rtol=1e-12).u)
    np.testing.assert_allclose(found[0], found[1][inside], rtol=0, atol=1e-10 * abs(found[0]).max())


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_field_of_a_gaussian_charge_is_of_second_order(dimension: int) -> None:
    from scipy.special import erf, exp1

    errors = []
    for nodes in (16, 32, 64) if dimension == 2 else (16, 32):
        at = (0.45, 0.5, 0.55)[:dimension]
        problem = poisson.Problem.on_box((nodes + 1,) * dimension, f=_charge(*at), boundary={"all": "open"})
        # A ball that ends before the box does, by 2e-5 of its height: a quarter of that of the coarsest error.
        solution = poisson.solve(problem, backend="openmp")
        assert solution.status is poisson.Status.CONVERGED
        grid = problem.lattice
        r = np.sqrt(sum((grid.along(k, grid.coordinates(k)) - x) ** 2 for k, x in enumerate(at)))
        r = np.maximum(r, 1e-9)
        if dimension == 3:
            exact = erf(r / (np.sqrt(2.0) * WIDTH)) / (4.0 * np.pi * r)
        else:
            exact = -(np.log(r) + exp1(r * r / (2.0 * WIDTH**2)) / 2.0) / (2.0 * np.pi)
        errors.append(abs(solution.u - exact).max() / abs(exact).max())
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert orders == pytest.approx(np.full(len(orders), 2.0), abs=0.12)


def test_charges_count_up_to_the_faces() -> None:
    """A uniformly charged cube that fills the box: at its centre the integral of 1/4πr; of second order."""
    of_cells = poisson.solve(poisson.Problem.on_box((4,) * 3, centring="cell", f=1.0, boundary="open"), backend="numpy")
    assert of_cells.face_flux("y_lower") == pytest.approx(1.0 / 6.0, rel=1e-12)
    exact = (3.0 * np.log((np.sqrt(3.0) + 1.0) / (np.sqrt(3.0) - 1.0)) - np.pi / 2.0) / (4.0 * np.pi)
    errors = []
    for nodes in (9, 17, 33):
        problem = poisson.Problem.on_box((nodes,) * 3, f=1.0, boundary={"all": "open"})
        solution = poisson.solve(problem, backend="openmp")
        errors.append(solution.u[(nodes // 2,) * 3] - exact)
        # As much leaves as there is.
        assert sum(solution.face_flux(face) for face in ("x_lower", "x_upper")) == pytest.approx(1.0 / 3.0, rel=1e-9)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(2.0, abs=0.1)


def test_float32_and_several_sources() -> None:
    problem = _problem(33, y="periodic")
    solver = poisson.Solver(problem, backend="openmp", precision="float32", rtol=1e-4)
    wide = poisson.Solver(problem, backend="numpy")
    sources = np.random.default_rng(3).standard_normal((2, 33, 33))
    for f, solution in zip(sources, solver.solve_many(sources), strict=True):
        assert solution.u.dtype == np.float32
        expected = wide.solve(f).u
        np.testing.assert_allclose(solution.u, expected, rtol=0, atol=2e-6 * abs(expected).max())
    # Other constants are set up again.
    assert (wide.solve(c=3.0).u == poisson.solve(problem.having(c=3.0), backend="numpy").u).all()


GOOD = {
    "equation": {"f": 1.0},
    "domain": {"lower": [0, 0], "upper": [1, 1], "shape": [5, 6]},
    "boundary": {"x": "open", "y_lower": "open", "y_upper": {"neumann": 1.0}},
}


def test_what_does_not_go_with_open_faces() -> None:
    problem = from_mapping(GOOD, name="good", folder=Path()).problem
    assert problem.open_faces == (True, True, True, False)
    assert problem == poisson.Problem.on_box(
        (5, 6), f=1.0, boundary={"x": "open", "y_lower": "open", "y_upper": {"neumann": 1.0}}, title="good"
    )
    refused = {
        "equation.a: from 1 to 1.25 at open faces; allowed: one value on open faces, and next to them": {"a": "1 + x"},
        "equation.c: from 0 to 0.25 at open faces; allowed: one value on open faces": {"c": "x*(1-x)"},
    }
    opposite = 'boundary.y_upper: "robin"; allowed: another condition, because the opposite face is open'
    two = "boundary.x_lower.alpha: from 0 to 1 at open faces; allowed: one value on open faces"
    for given, line in (
        ({"y_lower": "open", "y_upper": {"robin": 0.0, "alpha": 1.0}}, opposite),
        ({"y": "open", "x_lower": {"robin": 0.0, "alpha": "y"}}, two),
    ):
        boundary: Any = {**given, "all": {"neumann": 0.0}}
        with pytest.raises(CaseError) as caught:
            poisson.solve(poisson.Problem.on_box((5, 6), boundary=boundary))
        assert caught.value.mistakes == (line,)
    for line, other in refused.items():
        with pytest.raises(CaseError) as caught:
            poisson.Solver(problem.having(**other))  # type: ignore[arg-type]
        assert caught.value.mistakes == (line,)
    for centring in ("node", "cell"):
        with pytest.raises(CaseError) as caught:
            poisson.solve(poisson.Problem.on_box(x=[0, 1, 2, 4, 5], y=range(6), centring=centring, boundary="open"))
        reason = "equally spaced nodes or cells along x, because a face is open"
        assert caught.value.mistakes[0] == f'boundary.x_lower: "open"; allowed: {reason}'


def test_what_varies_inside_does_not_see_how_large_the_box_is() -> None:
    """A dielectric ball beside a charge, screened in its upper half: the values on the faces come from a few rounds."""

    def a(x: Any, y: Any, z: Any) -> Any:
        return np.where((x - 0.5) ** 2 + (y - 0.5) ** 2 + (z - 0.5) ** 2 < 0.3**2, 4.0, 1.0)

    def c(x: Any, y: Any, z: Any) -> Any:
        return 9.0 * ((a(x, y, z) > 1.0) & (z > 0.5))

    h, more, found = 1.0 / 12.0, 5, []
    for beyond in (0, more):
        corners = (-beyond * h,) * 3, (1.0 + beyond * h,) * 3
        boundary = {"z_lower": {"neumann": 0.0}, "all": "open"}
        problem = poisson.Problem.on_box(
            (13 + 2 * beyond, 13 + 2 * beyond, 13 + beyond),
            f=lambda x, y, z: 1.0 * (abs(x - 0.25) + abs(y - 0.5) + abs(z - 0.5) < h / 2.0),
            a=a,
            c=c,
            boundary=boundary,
            lower=(*corners[0][:2], 0.0),
            upper=corners[1],
        )
        found.append(poisson.solve(problem, "cg", backend="openmp", rtol=1e-12))
        assert found[-1].status is poisson.Status.CONVERGED
    there = found[1].u[:13, more:-more, more:-more]
    np.testing.assert_allclose(found[0].u, there, rtol=0, atol=1e-9 * abs(there).max())
    # On the faces in float32, to the tolerance of the solves in the box.
    single = poisson.solve(found[0].problem, "multigrid", backend="numpy", precision="float32", rtol=1e-5)
    np.testing.assert_allclose(single.u, there, rtol=0, atol=1e-3 * abs(there).max())


def test_a_wall_may_leak_more_in_its_middle() -> None:
    h, found = 1.0 / 12.0, []
    for more in (0, 5):
        alpha = "where(abs(x - 0.5) < 0.3, 9, 1)"
        problem = poisson.Problem.on_box(
            (13 + 2 * more, 9),
            f=lambda x, y: 1.0 * (abs(x - 0.25) + abs(y - 0.5) < h / 2.0),
            boundary={"y_lower": {"robin": 0.0, "alpha": alpha}, "y_upper": {"neumann": 0.0}, "x": "open"},
            lower=(-more * h, 0.0),
            upper=(1.0 + more * h, 1.0),
        )
        found.append(poisson.solve(problem, "cg", backend="openmp", rtol=1e-12).u[:, more : more + 13])
    np.testing.assert_allclose(*found, rtol=0, atol=1e-9 * abs(found[0]).max())


def test_the_capacitances_of_a_sphere_and_a_cube() -> None:
    """That of the unit cube is 0.6606782 · 4π (C.-O. Hwang and M. Mascagni, Journal of Applied Physics 95, 2004)."""
    bodies = {
        "sphere": "(x-.5)**2 + (y-.5)**2 + (z-.5)**2 < .25**2",
        "cube": "max(abs(x-.5), abs(y-.5), abs(z-.5)) < .25",
    }
    known = {"sphere": (4.0 * np.pi * 0.25, 2.0, 1e-3), "cube": (4.0 * np.pi * 0.5 * 0.6606782, 4.0 / 3.0, 5e-4)}
    for name, inside in bodies.items():
        found = []
        for nodes in (13, 25):
            body = poisson.Body(inside=inside, dirichlet=1.0)
            problem = poisson.Problem.on_box((nodes,) * 3, bodies=[body], boundary="open")
            solution = poisson.solve(problem, backend="openmp")
            assert solution.status is poisson.Status.CONVERGED
            # By symmetry as much leaves through each face.
            found.append(6.0 * solution.face_flux("z_upper"))
        exact, order, close = known[name]
        better = found[1] + (found[1] - found[0]) / (2.0**order - 1.0)
        assert better == pytest.approx(exact, rel=close), name
        assert abs(found[1] / exact - 1.0) < 0.015


@pytest.mark.parametrize(("dimension", "centring"), [(2, "cell"), (2, "node"), (3, "node")])
def test_points_beyond_the_box(dimension: int, centring: Any) -> None:
    """As on a larger box to the error of cubics, at nodes to rounding, and far away the field of a point charge."""
    h, more, at = 1.0 / 12.0, 4, (0.45, 0.5, 0.55)[:dimension]
    half = h / 2.0 * (centring == "cell")

    def box(f: Any, more: int) -> poisson.Problem:
        ends = (-more * h - half,) * dimension, (1.0 + more * h + half,) * dimension
        count = (13 + 2 * more,) * dimension
        return poisson.Problem.on_box(count, centring=centring, f=f, boundary="open", lower=ends[0], upper=ends[1])

    solution, larger = poisson.solve(box(_charge(*at), 0), backend="numpy"), box(0.0, more)
    inside = (slice(more, more + 13),) * dimension
    f = np.zeros(larger.lattice.array_shape)
    f[inside] = _charge(*at)(*np.meshgrid(*[np.linspace(0.0, 1.0, 13)] * dimension, indexing="ij")[::-1])
    for axis in range(dimension):
        for end in (0, -1):
            np.moveaxis(f[inside], axis, 0)[end] *= 1.0 if half else 0.5
    beyond = poisson.solve(larger.having(f=f), backend="numpy")
    nodes = np.array([-2.0, 0.0, 3.0, 14.0]) * h
    others = (5.0 * h,) * (dimension - 1)
    np.testing.assert_allclose(solution.at(nodes, *others), beyond.at(nodes, *others), rtol=1e-11)
    between = (1.0 + 1.4 * h, 0.55, 0.6)[:dimension]
    assert solution.at(*between) == pytest.approx(beyond.at(*between), rel=1e-3)
    far = solution.at(*(40.0,) * dimension, field="E")
    r = np.array([40.0 - x for x in at])
    size = np.sqrt(r @ r)
    charge = sum(solution.face_flux(face) for face in FACE_NAMES[: 2 * dimension])
    point = charge * r / (2.0 * np.pi * size**2 if dimension == 2 else 4.0 * np.pi * size**3)
    np.testing.assert_allclose(far, point, rtol=1e-3)
    with pytest.raises(GridError, match="unless all faces are open"):
        poisson.solve(_problem(9, y="periodic"), backend="numpy").at(2.0, 0.5)


@pytest.mark.parametrize(
    "condition",
    [{"neumann": 0.0}, {"robin": 0.0, "alpha": 1.0}, {"a": 5.0}, {"floating": True, "charge": 1.0}],
    ids=["neumann", "robin", "dielectric", "floating"],
)
def test_bodies_of_every_kind_do_not_see_how_large_the_box_is(condition: dict[str, Any]) -> None:
    h, more, found = 1.0 / 12.0, 4, []
    for beyond in (0, more):
        ends = (-beyond * h,) * 2, (1.0 + beyond * h,) * 2
        body = poisson.Body(inside="(x-.55)**2 + (y-.5)**2 < .2**2", **condition)
        problem = poisson.Problem.on_box(
            (13 + 2 * beyond,) * 2,
            f=lambda x, y: 1.0 * (abs(x - 2.0 * h) + abs(y - 0.5) < h / 2.0),
            bodies=[body],
            boundary="open",
            lower=ends[0],
            upper=ends[1],
        )
        found.append(poisson.solve(problem, backend="openmp", rtol=1e-11))
        assert found[-1].status.success
    there = found[1].u[more:-more, more:-more]
    np.testing.assert_allclose(found[0].u, there, rtol=0, atol=1e-8 * abs(there).max())


@pytest.mark.parametrize("a", [2.0, "where(x > 0.4, where(x < 0.6, 3.0, 1.0), 1.0)"])
@pytest.mark.parametrize("centring", ["node", "cell"])
def test_verify_has_the_values_on_open_faces(a: Any, centring: Any) -> None:
    boundary = {"x": "open", "y_lower": {"dirichlet": "x"}, "y_upper": {"neumann": 0.5}}
    domain = {**GOOD["domain"], "shape": [13, 9], "centring": centring}
    equation = {"f": 1.0, "a": a}
    case = from_mapping({"equation": equation, "domain": domain, "boundary": boundary}, name="good", folder=Path())
    report = verify(case)
    assert report.passed, report
    assert max(row["max_difference"] for row in report.rows) < 1e-7


@pytest.mark.usefixtures("backends_by_name")
@pytest.mark.parametrize("backend", ["numpy", "openmp", "gpu"])
@pytest.mark.parametrize("centring", ["node", "cell"])
def test_two_direct_solutions_are_enough(backend: str, centring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second has values on faces that the problem has none for."""
    solve, on_way = FaceLayers.solve, []
    monkeypatch.setattr(FaceLayers, "solve", lambda *arguments: on_way.append(solve(*arguments)))
    boundary: Any = {"node": "open", "cell": {"y_upper": 0.0, "all": "open"}}[centring]
    f = "exp(-9*((x - 0.4)**2 + y**2))"
    problem = poisson.Problem.on_box((13, 9, 7), centring=centring, f=f, boundary=boundary)
    found, expected = (poisson.solve(problem, "fft", name) for name in (backend, "numpy"))
    assert found.iterations == expected.iterations == 2
    # One of them is certified, and on a CPU there is but one where the layers next to the faces come before u.
    assert len(found.history) == len(expected.history) == 1
    assert len(on_way) == (backend == "openmp" and centring == "node")
    np.testing.assert_allclose(found.u, expected.u, rtol=0, atol=1e-12 * abs(expected.u).max())


@pytest.mark.parametrize("boundary", ["open", {"x_lower": 2.0, "x_upper": "open"}], ids=["both", "one"])
def test_an_axis_alone_does_not_see_how_long_it_is(boundary: Any) -> None:
    """With a that varies inside, c, and a dielectric body."""
    found = []
    for more in (0, 8):
        body = poisson.Body(inside="abs(x - 0.7) < 0.15", a=5.0)
        options = {"a": "where(abs(x - 0.3) < 0.1, 4, 1)", "c": 3.0, "bodies": [body]}
        problem = poisson.Problem.on_box(
            (25 + more,), upper=(1.0 + more / 24.0,), f="where(x < 1, x, 0)", boundary=boundary, **options
        )
        found.append(poisson.solve(problem, backend="numpy", rtol=1e-12).u[:25])
    np.testing.assert_allclose(*found, rtol=0, atol=1e-9 * abs(found[0]).max())


@pytest.mark.parametrize(
    ("method", "ranks", "boundary", "centring"),
    [
        ("fft", (1, 1, 3), {"z_lower": {"neumann": 1.0}, "x": "periodic"}, "node"),
        ("cg", (1, 2, 2), {"x_lower": {"robin": 0.0, "alpha": 1.0}, "x_upper": {"dirichlet": "y + z"}}, "node"),
        ("multigrid", (1, 2, 2), {"z_lower": 1.0}, "cell"),
    ],
)
def test_ranks_have_the_solution_of_one_process(method: Any, ranks: Any, boundary: Any, centring: Any) -> None:
    f = np.random.default_rng(4).standard_normal((11, 8, 7))
    boundary = {**boundary, "all": "open"}
    problem = poisson.Problem.on_box((7, 8, 11), centring=centring, f=f, c=0.5, boundary=boundary)
    problem = problem.having(initial="x") if method == "cg" else problem
    alone = poisson.solve(problem, method, backend="numpy", rtol=1e-12)

    def run(comm: Any) -> Any:
        found = poisson.solve(problem, method, backend="numpy", rtol=1e-12, comm=comm, ranks=ranks)
        assert found.u.shape != alone.u.shape
        assert found.iterations == alone.iterations
        return found.gather(all=True)

    for u in on_ranks(int(np.prod(ranks)), run, delay=0.0):
        np.testing.assert_allclose(u, alone.u, rtol=0, atol=1e-11 * abs(alone.u).max())


@pytest.mark.parametrize(("method", "ranks", "centring"), [("cg", (1, 1, 3), "node"), ("multigrid", (1, 2, 2), "cell")])
def test_ranks_settle_with_one_process(method: Any, ranks: Any, centring: Any) -> None:
    """With a that varies as an array that one rank has, α as a function, c, and bodies of two kinds."""
    generator = np.random.default_rng(4)
    a = np.ones((11, 9, 8))
    a[3:-3, 3:-3, 3:-3] += 3.0 * (generator.random((5, 3, 2)) > 0.5)
    bodies = [
        {"inside": "hypot(x - 0.5, hypot(y - 0.5, z - 0.4)) < 0.22", "dirichlet": 1.0},
        {"inside": "hypot(x - 0.6, hypot(y - 0.5, z - 0.7)) < 0.1", "a": 5.0},
    ]
    alpha = "where(max(abs(y - 0.5), abs(z - 0.5)) < 0.3, 2, 1)"
    problem = poisson.Problem.on_box(
        (8, 9, 11),
        centring=centring,
        f=generator.standard_normal(a.shape),
        c=0.5,
        boundary={"x_lower": {"robin": 0.0, "alpha": alpha}, "x_upper": {"neumann": 0.0}, "all": "open"},
        bodies=bodies if method == "cg" else [],
    )
    problem = problem if method == "cg" else problem.having(a=a)
    alone = poisson.solve(problem, method, backend="numpy", rtol=1e-11)

    def run(comm: Any) -> Any:
        given = problem if comm.rank == 0 else None
        return poisson.solve(given, method, backend="numpy", rtol=1e-11, comm=comm, ranks=ranks).gather(all=True)  # type: ignore[arg-type]

    for u in on_ranks(int(np.prod(ranks)), run, delay=0.0):
        np.testing.assert_allclose(u, alone.u, rtol=0, atol=1e-9 * abs(alone.u).max())


SIDES = {"y_lower": 0.0, "y_upper": 0.0}


@pytest.mark.parametrize(
    "condition", [{"dirichlet": 1.0}, {"a": 5.0}, {"neumann": 0.0}], ids=lambda each: next(iter(each))
)
def test_a_body_that_reaches_an_open_face_is_refused(condition: dict[str, float]) -> None:
    """Its links there would go on beyond the face. A dielectric that begins two layers off the face is allowed."""
    for inside in ("x < 0.3", "x > 0.95"):
        body = poisson.Body(inside=inside, **condition)
        problem = poisson.Problem.on_box((9, 9), bodies=[body], boundary={"x": "open"} | SIDES)
        with pytest.raises(CaseError, match=r"boundary.x_(lower|upper): open; allowed: a face that no body"):
            poisson.solve(problem, backend="numpy")
    inner = poisson.Body(inside="abs(x - 0.5) < 0.2", **condition)
    problem = poisson.Problem.on_box((9, 9), bodies=[inner], boundary={"x": "open"} | SIDES)
    assert poisson.solve(problem, backend="numpy").status.success


PLATE = poisson.Body("abs(x - 0.05) < 0.2", neumann=0.0)
CHARGE = "where(abs(x - 0.6) < 0.2, 2, 0)"


@pytest.mark.parametrize(
    ("shape", "boundary", "bodies", "face"),
    [
        ((41,), {"all": "open"}, [PLATE], "x_lower"),
        ((41,), {"x_lower": 0.0, "x_upper": "open"}, [PLATE], "x_upper"),
        ((41,), {"all": "open"}, [PLATE, poisson.Body("abs(x - 0.9) < 0.04", dirichlet=1.0)], "x_lower"),
        ((41, 9), {"x": "open", "all": {"neumann": 0.0}}, [PLATE], "x_lower"),
        ((41, 8), {"x": "open", "y": "periodic"}, [PLATE], "x_lower"),
    ],
)
def test_obstacles_that_leave_a_constant_free_are_refused_in_one_line(
    shape: tuple[int, ...], boundary: dict[str, Any], bodies: list[poisson.Body], face: str
) -> None:
    """Before, u was of the size of 10¹² and depended on the box."""
    boundary = {**{f"x_{end}": boundary["x"] for end in ("lower", "upper") if "x" in boundary}, **boundary}
    boundary.pop("x", None)
    box = {"lower": (-1.0, 0.0)[: len(shape)], "upper": (1.0, 0.4)[: len(shape)]}
    problem = poisson.Problem.on_box(shape, f=CHARGE, boundary=boundary, bodies=bodies, **box)  # type: ignore[arg-type]
    with pytest.raises(CaseError) as caught:
        poisson.solve(problem)
    wanted = (
        "a face that obstacles do not part from what holds u and from the other end, as nothing says what u is there"
    )
    assert str(caught.value) == f"boundary.{face}: open; allowed: {wanted}"


def test_obstacles_with_a_gap_a_wall_or_an_electrode_are_taken() -> None:
    """And what each says is not that of the box: u beside c > 0, behind a wall, and before an electrode."""
    electrodes = [PLATE, *(poisson.Body(f"abs(x - {x}) < 0.04", dirichlet=1.0) for x in (-0.7, 0.9))]
    cases: list[dict[str, Any]] = [
        {"boundary": "open", "c": 1.0, "bodies": [PLATE]},
        {"boundary": "open", "bodies": electrodes},
        {"boundary": {"x_lower": {"neumann": 0.0}, "x_upper": "open"}, "bodies": [PLATE]},
    ]
    for given in cases:
        found = []
        for nodes, upper in ((41, 1.0), (51, 1.5)):
            box: dict[str, Any] = {"lower": (-1.0,), "upper": (upper,), "f": "where(abs(x - 0.61) < 0.2, 2, 0)"}
            found.append(poisson.solve(poisson.Problem.on_box((nodes,), **given, **box), rtol=1e-12).u[:41])
        np.testing.assert_allclose(found[0], found[1], atol=1e-9)
    gap = poisson.Body("abs(x - 0.05) < 0.2 and y > 0.1", neumann=0.0)
    walls = {"x_lower": "open", "x_upper": "open", "all": {"neumann": 0.0}}
    channel = poisson.Problem.on_box(
        (41, 17), f=CHARGE, lower=(-1.0, 0.0), upper=(1.0, 0.4), boundary=walls, bodies=[gap]
    )
    fluxes = poisson.solve(channel, rtol=1e-10).fluxes()
    assert fluxes["x_lower"] == pytest.approx(fluxes["x_upper"], rel=1e-6)
