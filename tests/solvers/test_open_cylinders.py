# SPDX-License-Identifier: MIT
"""Problems in r, and in r and z, with open faces: against larger boxes, and against potentials that are known.

Covers poisson.discrete.radial_fields and poisson.discrete.radial_beyond.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ranks import on_ranks

import poisson
from poisson.case import from_mapping
from poisson.errors import CaseError, GridError, ResourceError
from poisson.run import memory
from poisson.run.verify import verify

SHAPE, SPACING = (7, 8), (0.25, 0.3)
"""Nodes along r and z."""

ALL, FLAT = {"all": "open"}, {"neumann": 0.0}
MIXES: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "all": (ALL, (4, 3, 2)),
    "z": ({"r_upper": 0.0, "z": "open"}, (0, 3, 2)),
    "z beside a flux": ({"r_upper": FLAT, "z": "open"}, (0, 3, 2)),
    "z_upper": ({"r_upper": 0.0, "z_lower": FLAT, "z_upper": "open"}, (0, 0, 4)),
    "r, z_upper": ({**ALL, "z_lower": 0.0}, (4, 0, 3)),
    "r, z_lower": ({**ALL, "z_upper": FLAT}, (4, 3, 0)),
    "r, periodic": ({**ALL, "z": "periodic"}, (4, 0, 0)),
    "r, closed": ({**ALL, "z_lower": 0.0, "z_upper": FLAT}, (4, 0, 0)),
    "r, grounded": ({**ALL, "z_lower": 0.0, "z_upper": 0.0}, (4, 0, 0)),
    "r, closed above": ({**ALL, "z_lower": FLAT, "z_upper": 0.0}, (4, 0, 0)),
    "r, insulated": ({**ALL, "z_lower": FLAT, "z_upper": FLAT}, (4, 0, 0)),
}
"""Conditions, and how many nodes a larger box has more beyond r_upper, z_lower and z_upper."""


def _part_inside(power: int, r: float, h: float) -> float:
    """The part of the control volume of a node on the upper face that lies inside of r."""
    edges = np.array([r - h / 2.0, r, r + h / 2.0]) ** (power + 1)
    return float((edges[1] - edges[0]) / (edges[2] - edges[0]))


def _box(
    f: Any, boundary: Any, more: tuple[int, int, int], centring: Any, start: float = 0.0, **given: Any
) -> poisson.Problem:
    """A box that has so many nodes more beyond r_upper, z_lower and z_upper, with the charges of `SHAPE` in it."""
    cells = [centring == "cell" or (centring != "node" and name in centring) for name in "rz"]
    counts = [SHAPE[0] + more[0], SHAPE[1] + more[1] + more[2]]
    source = np.zeros(counts[::-1])
    source[more[1] : more[1] + SHAPE[1], : SHAPE[0]] = f
    if more[0] and not cells[0]:
        source[:, SHAPE[0] - 1] *= _part_inside(1, start + SPACING[0] * (SHAPE[0] - 1), SPACING[0])
    for end, node in ((1, more[1]), (2, more[1] + SHAPE[1] - 1)):
        if more[end] and not cells[1]:
            source[node] *= 0.5
    whole = cells[1] or boundary.get("z") == "periodic"
    lower = start, -SPACING[1] * more[1]
    upper = start + SPACING[0] * (counts[0] - (not cells[0])), lower[1] + SPACING[1] * (counts[1] - (not whole))
    return poisson.Problem.on_box(
        counts, system="cylinder", centring=centring, f=source, boundary=boundary, lower=lower, upper=upper, **given
    )


@pytest.mark.parametrize(("method", "backend"), [("fft", "numpy"), ("multigrid", "openmp"), ("cg", "openmp")])
@pytest.mark.parametrize("centring", ["node", "cell", {"z": "cell"}, {"r": "cell"}], ids=str)
@pytest.mark.parametrize("mix", MIXES)
def test_the_box_around_an_axis_may_be_any(method: Any, backend: Any, centring: Any, mix: str) -> None:
    """With the same charges in a larger box u is the same, whether anything makes it decay or not."""
    boundary, more = MIXES[mix]
    f = np.random.default_rng(5).standard_normal(SHAPE[::-1])
    for start, beside, c in ((0.0, {}, 0.0), (0.4, {"r_lower": 0.0}, 0.0), (0.4, {"r_lower": FLAT}, 2.0)):
        problems = [_box(f, {**boundary, **beside}, each, centring, start, c=c) for each in ((0, 0, 0), more)]
        small, large = (poisson.solve(problem, method, backend, rtol=1e-12).u for problem in problems)
        there = large[more[1] : more[1] + SHAPE[1], : SHAPE[0]]
        np.testing.assert_allclose(small, there, rtol=0, atol=(1e-12 if method == "fft" else 1e-9) * abs(there).max())


@pytest.mark.usefixtures("backends_by_name")
@pytest.mark.parametrize("backend", ["numpy", "openmp", "gpu"])
@pytest.mark.parametrize("mix", MIXES)
def test_it_is_the_limit_of_closed_boxes(backend: str, mix: str) -> None:
    """Where u decays to rounding before the faces of a box whose conditions are Dirichlet."""
    boundary, more = MIXES[mix]
    f = np.random.default_rng(6).standard_normal(SHAPE[::-1])
    solution = poisson.solve(_box(f, boundary, (0, 0, 0), "node", c=200.0, a=1.5), "fft", backend)
    assert solution.status.success
    closed = {
        face: "periodic" if given == "periodic" else 0.0 if given == "open" else given
        for face, given in boundary.items()
    }
    if closed.get("z") == 0.0:
        closed |= {"z_lower": closed.pop("z"), "z_upper": 0.0}
    far = tuple(14 if each else 0 for each in more)
    large = poisson.solve(_box(f, closed, far, "node", c=200.0, a=1.5), "fft", "numpy").u
    there = large[far[1] : far[1] + SHAPE[1], : SHAPE[0]]
    np.testing.assert_allclose(solution.u, there, rtol=0, atol=1e-12 * abs(there).max())


def test_larger_closed_boxes_tend_to_it() -> None:
    """A ring of charge, by the inverse of the size of the box, as in a grounded sphere."""
    f = np.zeros(SHAPE[::-1])
    f[3, 2] = 1.0
    there, gaps, lengths = poisson.solve(_box(f, ALL, (0, 0, 0), "cell"), backend="numpy").u, [], []
    for size in (4, 8, 16):
        # About the ring the box is alike in shape: as far along z, both ways, as along r.
        more = size * SHAPE[0] - SHAPE[0], size * SHAPE[0] - 4, size * SHAPE[0] - 4
        u = poisson.solve(_box(f, {"all": 0.0}, more, "cell"), "fft", "openmp").u
        gaps.append(there - u[more[1] : more[1] + SHAPE[1], : SHAPE[0]])
        lengths.append(size)
    ratios = [gaps[k].mean() * lengths[k] / (gaps[k + 1].mean() * lengths[k + 1]) for k in (0, 1)]
    assert ratios == pytest.approx([1.0, 1.0], abs=0.02)
    better = (lengths[2] * gaps[2] - lengths[1] * gaps[1]) / (lengths[2] - lengths[1])
    assert abs(better).max() < 3e-4 * there.max()


@pytest.mark.parametrize("centring", ["node", "cell"])
def test_charges_in_a_cylinder_count_up_to_its_faces(centring: Any) -> None:
    """A uniformly charged cylinder that fills the box: at its centre the integral of 1/4πr; of second order."""
    radius, half = 1.0, 0.75
    exact = (half * np.hypot(radius, half) + radius**2 * np.arcsinh(half / radius) - half**2) / 2.0
    errors = []
    for n in (16, 32, 64):
        problem = poisson.Problem.on_box(
            (n + (centring == "node"), 3 * n // 2 + 1),
            system="cylinder",
            centring={"r": centring},
            f=1.0,
            boundary=ALL,
            lower=(0.0, -half),
            upper=(radius, half),
        )
        solution = poisson.solve(problem, backend="openmp")
        errors.append(solution.at(0.0, 0.0) - exact)
        through = sum(solution.face_flux(face) for face in ("r_upper", "z_lower", "z_upper"))
        assert through == pytest.approx(np.pi * radius**2 * 2.0 * half, rel=1e-9)
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx([2.0, 2.0], abs=0.15)


def test_the_field_of_a_ball_is_of_second_order() -> None:
    """Uniformly charged: Q / 4πr outside, and inside less by what is left of it."""
    radius, fine, errors = 0.6, 64, []
    for n in (16, 128):
        # The part of each cell, by volume, that lies in the ball.
        edges, z = np.linspace(0.0, 1.0, n + 1), (np.arange(n * fine) + 0.5) / (n * fine)
        within = np.clip(radius**2 - z[:, np.newaxis] ** 2, edges[:-1] ** 2, edges[1:] ** 2) - edges[:-1] ** 2
        parts = within.reshape(n, fine, n).mean(axis=1) / np.diff(edges**2)
        f = np.concatenate([parts[::-1], parts])
        problem = poisson.Problem.on_box(
            (n, 2 * n), system="cylinder", centring="cell", f=f, boundary=ALL, lower=(0.0, -1.0), upper=(1.0, 1.0)
        )
        solution = poisson.solve(problem, "fft", backend="openmp")
        r = np.hypot(problem.lattice.coordinates(0), problem.lattice.coordinates(1)[:, np.newaxis])
        exact = np.where(r < radius, radius**2 / 2.0 - r**2 / 6.0, radius**3 / (3.0 * r))
        errors.append(np.sqrt(np.mean((solution.u - exact) ** 2)))
    # From grid to grid it scatters, as the cells do that the surface cuts.
    assert np.log2(errors[0] / errors[1]) / 3.0 == pytest.approx(2.0, abs=0.1)


def _conductor(n: int, size: float, body: Any) -> poisson.Problem:
    return poisson.Problem.on_box(
        (n + 1, 2 * n + 1),
        system="cylinder",
        boundary=ALL,
        lower=(0.0, -size),
        upper=(size, size),
        bodies=[poisson.Body(name="it", **body)],
    )


def test_the_capacitances_of_a_sphere_and_a_disc() -> None:
    """4πa of second order, and 8a (J. D. Jackson, "Classical electrodynamics", section 3.13) of first, as its edge has
    it: without the part that halves with the spacing the rest is of another order.
    """
    ball = {"inside": {"shape": "sphere", "center": [0.0, 0.0], "radius": 1.0}, "dirichlet": 1.0}
    disc = {"inside": "r <= 1 and abs(z) < 1e-9", "dirichlet": 1.0}
    charges = {}
    for name, body, sizes in (("ball", ball, (16, 32, 64)), ("disc", disc, (24, 48, 96))):
        for n in sizes:
            solution = poisson.solve(_conductor(n, 1.5, body), backend="openmp", rtol=1e-10)
            assert solution.status.success
            charges[name, n] = solution.bodies["it"]["charge"]
    errors = [charges["ball", n] / (4.0 * np.pi) - 1.0 for n in (16, 64)]
    assert np.log2(errors[0] / errors[1]) / 2.0 == pytest.approx(2.0, abs=0.3)
    errors = [charges["disc", n] / 8.0 - 1.0 for n in (24, 48, 96)]
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx([1.0, 1.0], abs=0.02)
    assert 2.0 * charges["disc", 96] - charges["disc", 48] == pytest.approx(8.0, rel=1e-4)


@pytest.mark.parametrize(
    "condition",
    [{"dirichlet": 1.0}, {"robin": 0.0, "alpha": 1.0}, {"a": 5.0}, {"floating": True, "charge": 1.0}],
    ids=["dirichlet", "robin", "dielectric", "floating"],
)
@pytest.mark.parametrize("mix", ["all", "r, z_upper", "r, periodic", "z"])
def test_what_is_inside_does_not_see_how_large_the_box_is(condition: dict[str, Any], mix: str) -> None:
    """A body beside a ring of charge, within a shell where a and c are others."""
    boundary, more = MIXES[mix]
    f = np.zeros(SHAPE[::-1])
    f[6, 1] = 1.0
    shell = {"a": "where(hypot(r, z - 1) < 0.6, 3, 1)", "c": "where(hypot(r, z - 1) < 0.53, 2, 0)"}
    body = poisson.Body(inside="hypot(r, z - 1) < 0.37", **condition)
    found = []
    for each in ((0, 0, 0), more):
        problem = _box(f, boundary, each, "node", bodies=[body], **shell if "dirichlet" in condition else {})
        solution = poisson.solve(problem, backend="openmp", rtol=1e-11)
        assert solution.status.success
        found.append(solution.u[each[1] : each[1] + SHAPE[1], : SHAPE[0]])
    np.testing.assert_allclose(*found, rtol=0, atol=1e-8 * abs(found[0]).max())


LEAK: dict[str, Any] = {"robin": 0.0, "alpha": 1.5}


@pytest.mark.parametrize("centring", ["node", "cell"])
@pytest.mark.parametrize(
    ("boundary", "more"),
    [
        ({"z": "open", "r_lower": LEAK, "r_upper": LEAK}, (0, 3, 2)),
        ({**ALL, "r_lower": LEAK}, (4, 3, 2)),
        ({**ALL, "r_lower": LEAK, "z_lower": 0.0}, (4, 0, 2)),
        ({**ALL, "r_lower": LEAK, "z_lower": LEAK, "z_upper": 0.0}, (4, 0, 0)),
    ],
    ids=["z", "all", "r, z_upper", "r"],
)
def test_walls_around_an_axis_may_leak(boundary: Any, more: Any, centring: Any) -> None:
    """At the inner end of a radius that is open, too; in mixed precision it is the same."""
    f = np.random.default_rng(7).standard_normal(SHAPE[::-1])
    problems = [_box(f, boundary, each, centring, 0.4) for each in ((0, 0, 0), more)]
    small, large = (poisson.solve(problem, "cg", "openmp", rtol=1e-12).u for problem in problems)
    there = large[more[1] : more[1] + SHAPE[1], : SHAPE[0]]
    np.testing.assert_allclose(small, there, rtol=0, atol=1e-10 * abs(there).max())
    mixed = poisson.solve(problems[0], "cg", "openmp", "mixed", rtol=1e-10)
    np.testing.assert_allclose(mixed.u, small, rtol=0, atol=1e-8 * abs(there).max())


def test_z_may_be_open_beside_a_stretched_radius() -> None:
    f, found = np.random.default_rng(8).standard_normal((9, 17)), []
    for more in (0, 4):
        source = np.zeros((9 + 2 * more, 17))
        source[more : more + 9] = f
        for node in (more, more + 8) if more else ():
            source[node] *= 0.5
        problem = poisson.Problem.on_box(
            (17, 9 + 2 * more),
            system="cylinder",
            r=np.linspace(0.0, 1.0, 17) ** 1.5,
            f=source,
            boundary={"r_upper": 0.0, "z": "open"},
            lower=(0.0, -0.1 * more),
            upper=(1.0, 0.8 + 0.1 * more),
        )
        found.append(poisson.solve(problem, "fft", "openmp").u[more : more + 9])
    np.testing.assert_allclose(*found, rtol=0, atol=1e-12 * abs(found[0]).max())


def test_the_capacitances_of_two_spheres() -> None:
    """By images (W. R. Smythe, "Static and dynamic electricity", section 5.08), in boxes of two sizes the same."""
    radius, half, found = 0.4, 0.6, []
    bodies = [
        {"name": name, "inside": {"shape": "sphere", "center": [0.0, z], "radius": radius}, "dirichlet": 1.0}
        for name, z in (("lower", -half), ("upper", half))
    ]
    for n, size in ((15, 1.2), (60, 1.2), (80, 1.6)):
        problem = poisson.Problem.on_box(
            (n + 1, 2 * n + 1), system="cylinder", boundary=ALL, lower=(0.0, -size), upper=(size, size), bodies=bodies
        )
        found.append(poisson.capacitance(problem, backend="openmp", rtol=1e-10).matrix)
    np.testing.assert_allclose(found[1], found[2], rtol=1e-7)
    n, beta = np.arange(1, 60), np.arccosh(half / radius)
    scale = 4.0 * np.pi * radius * np.sinh(beta)
    own, mutual = scale * (1.0 / np.sinh((2 * n - 1) * beta)).sum(), -scale * (1.0 / np.sinh(2 * n * beta)).sum()
    exact = np.array([[own, mutual], [mutual, own]])
    orders = np.log2(abs(found[0] / exact - 1.0) / abs(found[1] / exact - 1.0)) / 2.0
    assert np.all((orders > 1.95) & (orders < 2.4)), orders
    assert abs(found[1] / exact - 1.0).max() < 7e-5


@pytest.mark.parametrize("centring", ["node", "cell"])
@pytest.mark.parametrize("c", [0.0, 1e-5, 0.5])
@pytest.mark.parametrize(("system", "power"), [("cylinder", 1), ("sphere", 2)])
def test_a_radius_alone_does_not_see_how_long_it_is(system: str, power: int, c: float, centring: Any) -> None:
    h, n, more, cells = 0.1, 9, 7, centring == "cell"
    f = np.random.default_rng(2).standard_normal(n)
    for start, beside in ((0.0, {}), (0.3, {"r_lower": 2.0}), (0.3, {"r_lower": {"robin": 1.0, "alpha": 2.0}})):
        found = []
        for beyond in (0, more):
            source = np.append(f, np.zeros(beyond))
            if beyond and not cells:
                source[n - 1] *= _part_inside(power, start + h * (n - 1), h)
            problem = poisson.Problem.on_box(
                (n + beyond,),
                system=system,
                centring=centring,
                f=source,
                c=c,
                boundary={"r_upper": "open", **beside},
                lower=(start,),
                upper=(start + h * (n + beyond - (not cells)),),
            )
            found.append(poisson.solve(problem, backend="numpy", rtol=1e-13).u[:n])
        np.testing.assert_allclose(*found, rtol=0, atol=1e-9 * abs(found[0]).max() if beside else 1e-12)


@pytest.mark.parametrize("system", ["cylinder", "sphere"])
def test_a_shell_does_not_see_how_long_the_radius_is(system: str) -> None:
    """The shell has another a, so that u on the open end comes from a few rounds, with charges beyond it."""
    found = []
    for more in (0, 7):
        problem = poisson.Problem.on_box(
            (17 + more,),
            system=system,
            f="where(r < 0.2, 1, 0)",
            a="where(abs(r - 0.4) < 0.12, 3, 1)",
            boundary={"r_upper": "open"},
            upper=((16 + more) / 16.0,),
        )
        found.append(poisson.solve(problem, "cg", "numpy", rtol=1e-13).u[:17])
    np.testing.assert_allclose(*found, rtol=0, atol=1e-10 * abs(found[0]).max())


@pytest.mark.parametrize("system", ["cylinder", "sphere"])
def test_a_wire_and_a_ball_that_are_screened(system: str) -> None:
    """By c: K₀(r) and e^(−r)/r beyond a surface where u is 1; of second order."""
    from scipy.special import k0

    def exact(r: Any) -> Any:
        return k0(r) / k0(0.5) if system == "cylinder" else 0.5 * np.exp(0.5 - r) / r

    errors = []
    for n in (17, 33, 65):
        problem = poisson.Problem.on_box(
            (n,), system=system, c=1.0, boundary={"r_lower": 1.0, "r_upper": "open"}, lower=(0.5,), upper=(1.5,)
        )
        solution = poisson.solve(problem, backend="numpy", rtol=1e-13)
        errors.append(abs(solution.u - exact(problem.lattice.coordinates(0))).max())
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx([2.0, 2.0], abs=0.05)


CASE: dict[str, Any] = {
    "equation": {"f": "exp(-9*(r**2 + (z - 0.4)**2))"},
    "domain": {"system": "cylinder", "lower": [0.0, 0.0], "upper": [1.0, 1.2], "shape": [9, 13]},
    "boundary": {"all": "open"},
}


def _case(**tables: Any) -> Any:
    given = {name: {**CASE[name], **tables.get(name, {})} for name in CASE}
    given["boundary"] = tables.get("boundary", CASE["boundary"])
    return from_mapping(given, name="case", folder=Path())


@pytest.mark.parametrize("a", [2.0, "where(hypot(r, z - 0.6) < 0.3, 3.0, 1.0)"])
@pytest.mark.parametrize("boundary", [ALL, {**ALL, "z_lower": {"dirichlet": "r"}}, {**ALL, "z": "periodic"}], ids=str)
@pytest.mark.parametrize("centring", ["node", "cell"])
def test_verify_has_the_values_on_open_faces_around_an_axis(a: Any, boundary: Any, centring: Any) -> None:
    report = verify(_case(equation={"a": a}, domain={"centring": centring}, boundary=boundary))
    assert report.passed, report
    assert max(row["max_difference"] for row in report.rows) < 5e-7


@pytest.mark.parametrize(("method", "ranks"), [("fft", (1, 2)), ("cg", (1, 3))])
def test_ranks_have_the_solution_around_an_axis(method: Any, ranks: Any) -> None:
    problem = _case().problem
    if method == "cg":
        problem = problem.having(a="where(hypot(r, z - 0.6) < 0.3, 3.0, 1.0)", initial="r")
    alone = poisson.solve(problem, method, backend="numpy", rtol=1e-11)

    def run(comm: Any) -> Any:
        return poisson.solve(problem, method, backend="numpy", rtol=1e-11, comm=comm, ranks=ranks).gather(all=True)

    for u in on_ranks(int(np.prod(ranks)), run, delay=0.0):
        np.testing.assert_allclose(u, alone.u, rtol=0, atol=1e-9 * abs(alone.u).max())


def test_float32_and_other_sources() -> None:
    problem = _case().problem
    solver = poisson.Solver(problem, backend="openmp", precision="float32", rtol=1e-4)
    wide = poisson.Solver(problem, backend="numpy")
    for f in np.random.default_rng(3).standard_normal((2, 13, 9)):
        u, expected = solver.solve(f).u, wide.solve(f).u
        assert u.dtype == np.float32
        np.testing.assert_allclose(u, expected, rtol=0, atol=4e-6 * abs(expected).max())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "the inner face": (
        {"domain": {"lower": [0.5, 0.0]}},
        'boundary.r_lower: "open"; allowed: another condition, because space ends there',
    ),
    "an angle": (
        {
            "equation": {"f": 1.0},
            "domain": {"lower": [0.0, 0.0, 0.0], "upper": [1.0, 6.283185307179586, 1.0], "shape": [5, 8, 5]},
            "boundary": {"r_upper": {"dirichlet": 0.0}, "phi": "periodic", "z": "open"},
        },
        'boundary.z_lower: "open"; allowed: another condition, because phi is an axis',
    ),
    "stretched": (
        {"domain": {"r": {"stretch": "geometric", "ratio": 2.0}}},
        'boundary.r_upper: "open"; allowed: equally spaced nodes or cells along r, because a face is open',
    ),
    "a Robin face opposite": (
        {"boundary": {**ALL, "z_lower": {"robin": 0.0, "alpha": 1.0}}},
        'boundary.z_lower: "robin"; allowed: another condition, because the opposite face is open',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_with_open_faces_around_an_axis(name: str) -> None:
    tables, line = REFUSED[name]
    with pytest.raises(CaseError) as caught:
        poisson.solve(_case(**tables).problem)
    assert caught.value.mistakes == (line,)


def test_what_needs_free_space_around_says_so() -> None:
    problem = _case().problem
    with pytest.raises(CaseError, match='"lattice" around an axis or a centre'):
        poisson.solve(problem, "fft", kernel="hejlesen4")
    tube = _box(1.0, {**ALL, "z": "periodic"}, (0, 0, 0), "node")
    with pytest.raises(GridError, match="unless all faces are open in x, y, z, or all but the inner end of r in r, z"):
        poisson.solve(tube, backend="numpy").at(2.0, 0.5)
    with pytest.raises(CaseError, match=r"boundary\.r_upper: open; allowed: a face that no body"):
        poisson.solve(_conductor(8, 1.0, {"inside": "r > 0.7", "dirichlet": 1.0}), backend="numpy")


def test_matrices_between_faces_need_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of them; where there are few nodes nobody asks."""
    problem = poisson.Problem.on_box((129, 257), system="cylinder", f=1.0, boundary=ALL)
    need = 3 * 8 * (257 + 2 * 129) ** 2
    monkeypatch.setattr(memory, "host_memory", lambda: (need, need))
    assert poisson.Solver(problem, backend="numpy").solve().status.success
    monkeypatch.setattr(memory, "host_memory", lambda: (need - 1, need))
    reason = r"^boundary\.r_upper: open; matrices between 515 nodes on open faces need .* free: reduce domain\.shape$"
    with pytest.raises(ResourceError, match=reason):
        poisson.Solver(problem, backend="numpy")
    few = poisson.Problem.on_box((9, 9), system="cylinder", f=1.0, boundary=ALL)
    monkeypatch.setattr(memory, "host_memory", lambda: (0, 0))
    assert poisson.Solver(few, backend="numpy").solve().status.success


@pytest.mark.parametrize("centring", ["node", "cell", {"z": "cell"}], ids=str)
@pytest.mark.parametrize(("start", "beside", "c"), [(0.0, {}, 0.0), (0.4, {"r_lower": 0.0}, 0.0), (0.0, {}, 2.0)])
def test_points_beyond_the_box_around_an_axis(centring: Any, start: float, beside: Any, c: float) -> None:
    """As in a larger box at its nodes, to rounding, and between them."""
    f = np.random.default_rng(5).standard_normal(SHAPE[::-1])
    more = (6, 5, 4)
    small, large = (
        poisson.solve(_box(f, {**ALL, **beside}, each, centring, start, c=c), "fft") for each in ((0, 0, 0), more)
    )
    r, z = (axis.coordinates for axis in large.problem.lattice.axes)
    outside = np.ones(large.u.shape, dtype=bool)
    outside[more[1] : more[1] + SHAPE[1], : SHAPE[0]] = False
    found = small.at(r, z[:, np.newaxis])
    np.testing.assert_allclose(found, large.u, rtol=0, atol=1e-12 * abs(large.u).max())
    between = start + 1.8, z[-4] + 0.1
    for field in ("u", "gradient", "E"):
        there = large.at(*between, field=field)
        np.testing.assert_allclose(
            small.at(*between, field=field), there, rtol=0, atol=0.02 * abs(large.gradient).max()
        )


def test_the_field_far_away_around_an_axis() -> None:
    """The field is that of a point charge, also beyond the ends of the axis; other points are refused in one line."""
    charged = poisson.Problem.on_box(
        (17, 33), system="cylinder", lower=(0.0, -1.0), upper=(1.0, 1.0), f="exp(-20*(r*r + z*z))", boundary="open"
    )
    solution = poisson.solve(charged, "fft")
    charge = sum(solution.fluxes().values())
    for r, z in ((30.0, 0.0), (0.0, -40.0), (0.03, 25.0), (20.0, 20.0)):
        distance = np.hypot(r, z)
        assert solution.at(r, z) == pytest.approx(charge / (4.0 * np.pi * distance), rel=1e-4)
        radial, along = solution.at(r, z, field="E") * 4.0 * np.pi * distance**3 / charge
        np.testing.assert_allclose((radial, along), (r, z), rtol=0, atol=1e-3 * distance)
    with pytest.raises(GridError, match="spacings away; allowed: at most 4000"):
        solution.at(400.0, 0.0)
    with pytest.raises(GridError, match=r"r = -0.1; allowed: from 0 on"):
        solution.at(-0.1, 0.0)
