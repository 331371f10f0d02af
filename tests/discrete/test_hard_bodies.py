# SPDX-License-Identifier: MIT
"""Bodies in places that break other programs: each with u, E or charges that are known."""

from typing import Any

import numpy as np
import pytest

import poisson
from poisson.errors import CaseError
from poisson.problem.given import Form

SURFACES: tuple[Form, ...] = ("shortley_weller", "symmetric")
OPEN: dict[str, Any] = {"neumann": 0.0}


def line(nodes: int, *bodies: poisson.Body, **given: Any) -> poisson.Solution:
    """A solution that depends on x alone, in a box of three rows with no flow through the sides."""
    boundary = {"y_lower": OPEN, "y_upper": OPEN, "x_lower": 0.0, "x_upper": 0.0} | given.pop("boundary", {})
    problem = poisson.Problem.on_box((nodes, 3), bodies=bodies, boundary=boundary, **given)
    return poisson.solve(problem, rtol=1e-13, backend="numpy", method="cg")


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("place", [0.3, 0.3 + 1e-15, 0.3 - 1e-15, 0.30001, 0.3 - 1e-7])
def test_a_surface_on_a_plane_of_nodes_or_next_to_one(place: float, surface: Form) -> None:
    """u = x / place before the plate: E is −1 / place up to the surface, whatever rounding says of its node."""
    solution = line(11, poisson.Body(f"abs(x - {place} - 0.1) <= 0.1", dirichlet=1.0), surface=surface)
    x = solution.problem.lattice.coordinates(0)
    before = x < 0.3 + 1e-9
    assert np.abs(solution.u[1][before] - np.minimum(x[before] / place, 1.0)).max() < 1e-4
    assert np.abs(solution.E[1, :4, 0] + 1.0 / place).max() < 2e-3
    assert solution.bodies["body1"]["charge"] == pytest.approx(1.0 / place + 1.0 / (0.8 - place), rel=1e-3)


@pytest.mark.parametrize("surface", SURFACES)
def test_thin_plates_between_nodes_part_the_box(surface: Form) -> None:
    """Two potentials on one link, at 0.412 and at 0.468 between the nodes 0.4 and 0.5."""
    plates = [poisson.Body(f"abs(x - {x}) < 1e-9", dirichlet=value) for x, value in ((0.412, 1.0), (0.468, -2.0))]
    solution = line(11, *plates, surface=surface)
    x = solution.problem.lattice.coordinates(0)
    exact = np.where(x < 0.44, x / 0.412, -2.0 * (1.0 - x) / 0.532)
    assert np.abs(solution.u - exact).max() < 1e-7
    charges = [found["charge"] for found in solution.bodies.values()]
    assert charges == pytest.approx([1.0 / 0.412, -2.0 / 0.532], rel=1e-6)


@pytest.mark.parametrize("surface", SURFACES)
def test_islands_of_one_node_and_a_grid_wholly_inside(surface: Form) -> None:
    island = poisson.solve(
        poisson.Problem.on_box(
            (9, 9),
            f=1.0,
            bodies=[poisson.Body("max(abs(x - 0.5), abs(y - 0.5)) > 0.1", dirichlet=2.0)],
            surface=surface,
        )
    )
    # Both ends of each link are at 0.8 of it: with all links cut, the row is an equation of its own.
    h = 0.1 if surface == "shortley_weller" else np.sqrt(0.1 * 0.125)
    assert island.u[4, 4] == pytest.approx(2.0 + h * h / 4.0, rel=1e-12)
    assert np.array_equal(np.delete(island.u[4], 4)[1:-1], np.full(6, 2.0))
    whole = poisson.solve(
        poisson.Problem.on_box((9, 9), f=1.0, boundary=3.0, bodies=[poisson.Body("x > -1", dirichlet=2.0)])
    )
    assert whole.status.success and np.array_equal(whole.u[1:-1, 1:-1], np.full((7, 7), 2.0))
    assert np.array_equal(whole.u[0], np.full(9, 3.0))


def test_bodies_touch_faces_periodic_faces_and_one_another() -> None:
    """A slab on a periodic face is one with its image, and of two bodies that meet each keeps its side."""
    slab = {"shape": "box", "center": (0.0, 0.5), "size": (0.24, 2.0)}
    problem = poisson.Problem.on_box(
        (20, 5), f=1.0, boundary={"x": "periodic", "all": OPEN}, bodies=[poisson.Body(slab, dirichlet=0.0)]
    )
    x, u = problem.lattice.coordinates(0), poisson.solve(problem, rtol=1e-13).u
    exact = np.where((x > 0.12) & (x < 0.88), (x - 0.12) * (0.88 - x) / 2.0, 0.0)
    assert np.abs(u - exact).max() < 1e-12
    meeting = [
        poisson.Body("abs(x - 0.45) <= 0.1", dirichlet=1.0),
        poisson.Body("abs(x - 0.65) <= 0.1", dirichlet=-1.0),
    ]
    solution = line(21, *meeting)
    x = solution.problem.lattice.coordinates(0)
    assert np.array_equal(solution.u[1, 7:12], np.ones(5)) and np.array_equal(solution.u[1, 12:16], -np.ones(4))
    assert np.abs(solution.u[1, :7] - x[:7] / 0.35).max() < 1e-12
    flush = line(11, poisson.Body("x < 0.25", dirichlet=1.0), boundary={"x_lower": OPEN})
    assert np.abs(flush.u[1, 3:] - (1.0 - flush.problem.lattice.coordinates(0)[3:]) / 0.75).max() < 1e-12
    assert np.array_equal(flush.u[1, :3], np.ones(3))


def test_a_closed_cavity_has_the_potential_of_its_shell() -> None:
    shell = poisson.Body("hypot(x, y) > 0.5 and hypot(x, y) < 0.7", dirichlet=3.0)
    problem = poisson.Problem.on_box((33, 33), lower=(-1.0, -1.0), upper=(1.0, 1.0), bodies=[shell])
    solution = poisson.solve(problem, rtol=1e-11)
    inside = np.hypot(*np.meshgrid(*(problem.lattice.coordinates(axis) for axis in (0, 1)))) < 0.7
    assert np.abs(solution.u[inside] - 3.0).max() < 1e-8


@pytest.mark.parametrize("shape", [(129, 129), (33, 33, 33)], ids=str)
def test_iterations_are_at_most_one_and_a_half_times_those_of_the_empty_box(shape: tuple[int, ...]) -> None:
    """With 0 on all faces and surfaces, and with values that take as many digits on the faces of the empty box."""
    rng = np.random.default_rng(3)
    spheres = [{"shape": "sphere", "center": tuple(rng.random(len(shape))), "radius": 0.07} for _ in range(12)]
    for values, held in (("0", "0"), ("sin(3*x)*exp(2*y)", "x + y")):
        bodies = [poisson.Body(sphere, dirichlet=held) for sphere in spheres]
        found = [poisson.Problem.on_box(shape, f=1.0, boundary=values)]
        found += [poisson.Problem.on_box(shape, f=1.0, boundary=values, bodies=bodies, surface=it) for it in SURFACES]
        empty, *full = (poisson.solve(problem, "cg", backend="openmp").iterations for problem in found)
        assert max(full) <= (1.34 if len(shape) == 3 else 1.17) * empty


def test_a_coarse_node_that_next_to_nothing_depends_on_spoils_no_cycle() -> None:
    """Beside these discs one on a third grid has a diagonal of 1e-8 where others have 1e3."""
    discs = (
        (0.59838, 0.27922, 0.1275),
        (0.25767, 0.2197, 0.14664),
        (0.33722, 0.05776, 0.10564),
        (0.51332, 0.21006, 0.08439),
    )
    bodies = [
        poisson.Body(f"hypot(x - {x}, y - {y}) < {r}", **({"neumann": 0.0} if number else {"dirichlet": 1.0}))
        for number, (x, y, r) in enumerate(discs)
    ]
    for surface in SURFACES:
        box = poisson.Problem.on_box((146, 146), f=1.0, boundary="sin(3*x)", bodies=bodies, surface=surface)
        assert poisson.solve(box, "cg", backend="openmp").iterations <= 10


@pytest.mark.parametrize("kind", ["dirichlet", "floating"])
@pytest.mark.parametrize("shape", [(29,), (28, 30), (9, 8, 10)], ids=str)
def test_insulators_over_other_bodies(shape: tuple[int, ...], kind: str) -> None:
    """Nodes at which every link is closed have nothing, and their surfaces no charge; Gauss's law holds."""
    square = " + ".join(f"({name} - {{}})**2" for name in "xyz"[: len(shape)])
    held: dict[str, Any] = {"dirichlet": 1.0} if kind == "dirichlet" else {"floating": True, "charge": 0.5}
    bodies = [
        poisson.Body(f"{square.format(*(0.35,) * len(shape))} < 0.04", name="held", **held),
        poisson.Body(f"{square.format(*(0.6,) * len(shape))} < 0.05", neumann=0.0, name="insulator"),
    ]
    problem = poisson.Problem.on_box(shape, boundary=0.0, bodies=bodies, f=1.0)
    found = poisson.solve(problem, backend="numpy", rtol=1e-11)
    assert found.status.success and np.isfinite(found.u).all()
    assert found.bodies["held"]["charge"] == pytest.approx(0.5, abs=1e-9) or kind == "dirichlet"
    plain = poisson.solve(problem, "cg", "numpy", preconditioner="jacobi", rtol=1e-11)
    np.testing.assert_allclose(found.u, plain.u, rtol=0, atol=1e-8 * np.abs(plain.u).max())


def test_nodes_of_a_mask_hold_nothing_whatever_the_method() -> None:
    """Also those outside of the body that no link reaches, to which coarse grids interpolate."""
    flow: dict[str, Any] = {"x_lower": 1.0, "x_upper": 0.0, "y": "periodic"}
    body = poisson.Body("(x - 0.05)**2 + (y + 0.349)**2 < 0.0121", neumann=0.0)
    problem = poisson.Problem.on_box(
        (37, 36), lower=(-1, -1), upper=(1, 1), f="exp(-5*x**2)", boundary=flow, bodies=[body]
    )
    expected = poisson.solve(problem, "cg", "numpy", preconditioner="jacobi").u
    for precision in ("float64", "mixed"):
        found = poisson.solve(problem, "multigrid", "numpy", precision, coarse="galerkin")
        np.testing.assert_allclose(found.u, expected, rtol=0, atol=1e-7)
        assert found.u[12, 20] == 0.0


def test_a_body_that_floats_and_has_no_node_beside_it_is_refused() -> None:
    tiny = poisson.Body("hypot(x - 0.512, y - 0.512) < 1e-3", floating=True, charge=1.0, name="dust")
    with pytest.raises(CaseError, match=r"^body dust: floating; allowed: bodies with a node beside their surface$"):
        poisson.solve(poisson.Problem.on_box((21, 21), bodies=[tiny]), backend="numpy")
