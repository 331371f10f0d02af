# SPDX-License-Identifier: MIT
"""Fields a that are 0 at some nodes: every method against the direct solution, and what is refused."""

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import MAKES
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from support.operators import rules_of

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.mask import labelled
from poisson.discrete.operator import FIXED, Coefficients, Operator
from poisson.errors import CaseError, IncompatibleSource, PoissonError
from poisson.run.sample import Sample

METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("auto", {}),
    ("multigrid", {}),
    ("multigrid", {"full": True, "smoother": "red-black"}),
    *(("cg", {"preconditioner": name}) for name in ("multigrid", "fft", "jacobi", "none")),
    ("jacobi", {}),
    ("chebyshev", {}),
    ("sor", {}),
)
BOUNDARIES: dict[str, Any] = {
    "dirichlet": {"x_lower": "y", "all": 0.5},
    "mixed": {"x": "periodic", "y_lower": {"robin": 1.0, "alpha": 2.0}, "all": {"neumann": 0.1}},
    "periodic": "periodic",
}


def porous(shape: tuple[int, ...]) -> NDArray[Any]:
    """a with a body of zeros, a solitary zero, and a node that zeros surround."""
    a = np.random.default_rng(len(shape)).uniform(0.5, 5.0, shape)
    a[..., 3:8, 4:11] = 0.0
    a[..., 5, 6] = 1.0 if len(shape) == 2 else 0.0
    a[..., 11, 12] = 0.0
    return a


def problem_on(shape: tuple[int, ...], boundary: str) -> poisson.Problem:
    """With a source that is not 0 where a is, which says nothing there."""
    a = porous(shape)
    f = np.random.default_rng(0).standard_normal(shape)
    linked = a > 0.0
    linked[..., 5, 6] = False
    f -= f[linked].mean() * (boundary == "periodic")
    return poisson.Problem.on_box(shape[::-1], f=f, a=a, boundary=BOUNDARIES[boundary])


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("shape", [(16, 18), (6, 16, 14)])
def test_every_method_finds_the_direct_solution(shape: tuple[int, ...], boundary: str) -> None:
    problem = problem_on(shape, boundary)
    discretisation = Discretisation(problem)
    expected = reference.solve(discretisation)
    operator = reference.operator_of(discretisation)
    unlinked = porous(shape) == 0.0
    unlinked[..., 5, 6] = True
    inside = np.zeros(shape, dtype=bool)
    inside[operator.lattice.free] = True
    unlinked &= inside
    assert operator.mask is not None and operator.singular == (boundary == "periodic")
    np.testing.assert_array_equal(operator.mask & inside, unlinked)
    assert (
        operator.coefficients is not None and 0.0 < operator.coefficients.a_range[0] < operator.coefficients.a_range[1]
    )
    for number, (method, options) in enumerate(METHODS):
        # Each method on either backend, with one of the boundaries in turn.
        backend = ("numpy", "openmp")[(number + list(BOUNDARIES).index(boundary) + 1) % 2]
        solution = poisson.solve(problem, method, backend, rtol=1e-11, max_iterations=10**5, **options)
        assert solution.status.success, (method, options, backend)
        scale = float(abs(expected).max())
        np.testing.assert_allclose(solution.u, expected, rtol=0.0, atol=2e-8 * scale, err_msg=f"{method} {options}")
        assert np.all(solution.u[unlinked] == 0.0)


def test_mixed_precision_and_other_coefficients_take_zeros() -> None:
    shape = (16, 18)
    problem, solid = problem_on(shape, "dirichlet"), np.ones(shape)
    expected = reference.solve(Discretisation(problem))
    solver = poisson.Solver(poisson.Problem.on_box(shape[::-1], a=solid, boundary=BOUNDARIES["dirichlet"]), rtol=1e-11)
    for _ in range(2):
        found = solver.solve(f=problem.f, a=porous(shape))
        np.testing.assert_allclose(found.u, expected, atol=1e-8)
        assert solver.operator.fixed > 0
        whole = solver.solve(f=1.0)
        assert solver.operator.fixed == 0 and whole.u[1:-1, 1:-1].min() > 0.0
    mixed = poisson.solve(problem, "multigrid", "numpy", "mixed", rtol=1e-10)
    np.testing.assert_allclose(mixed.u, expected, atol=1e-8)


def test_a_singular_problem_needs_a_balance_where_something_conducts() -> None:
    a = np.ones((12, 12))
    a[:, :4] = 0.0
    f = np.where(a > 0.0, 1.0, -2.0)  # as much as in all, and nowhere for it to go
    problem = poisson.Problem.on_box((12, 12), f=f, a=a, boundary="periodic")
    with pytest.raises(IncompatibleSource, match="f must have the mean 0 where a > 0, but it is 1, and "):
        poisson.solve(problem)


def test_what_zeros_cannot_have_is_one_line() -> None:
    a = np.ones((12, 12))
    a[3:9, 3:9] = 0.0
    a[5:7, 5] = 1.0

    def line(**given: Any) -> str:
        settings = {name: given.pop(name) for name in ("precision",) if name in given}
        with pytest.raises(PoissonError) as caught:
            poisson.solve(poisson.Problem.on_box((12, 12), **({"a": a, "f": 1.0} | given)), **settings)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    island = "equation.a: 2 nodes, that of the numbers 5, 5 among them, are cut off from every value that is given"
    assert line() == f"{island}; set a to 0 there, too, or connect them"
    a[5:7, 5] = 0.0
    single = "equation.a: 0 at some nodes; allowed in float64 or mixed precision"
    assert line(precision="float32") == single
    assert line(a=0.0 * a).startswith("equation.a: 0 at one of any two neighbours; allowed: a > 0 somewhere")
    assert line(mean="arithmetic").startswith("equation.a: 0.0 at x = ") and line(mean="arithmetic").endswith("> 0")
    assert line(a=-a).endswith("every value must be >= 0")
    assert line(a=0.0) == "a = 0.0; it must be > 0"

    assert line(a="abs(x - 1)").endswith("x = 1, y = 0; every value must be > 0")


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("shape", [(16, 18), (6, 9, 14)])
def test_a_device_finds_the_parts_that_the_host_finds(make: Any, shape: tuple[int, ...]) -> None:
    """All, or that one is cut off, with each kind of faces, for parts of any number and shape."""
    rng, found = np.random.default_rng(7), Counter[str]()
    plain, device = NumpyBackend(np.float64), make(np.float64)
    walls: tuple[Any, ...] = ({"x": "periodic", "all": {"neumann": 0.0}}, {"x_lower": 1.0, "all": {"neumann": 0.0}})
    opens = (0.5, 0.8, 0.95, 0.95, 0.99)
    for boundary, open_part, absorbs in itertools.product((*BOUNDARIES.values(), *walls), opens, (0.0, 0.3, 1.0)):
        a = rng.uniform(0.5, 5.0, shape) * (rng.random(shape) < open_part)
        if boundary is walls[0] or len(shape) == 3:
            a[..., 4:7, :] = a[..., -2:, :] = 0.0
        if boundary is walls[1]:
            a[..., :2, :] = 1.0
        c = rng.random(shape) * (rng.random(shape) < absorbs)
        if absorbs == 0.3:
            # c at a node without links alone: it holds itself, and what conducts is loose.
            a[..., :3, :3], c[...] = 0.0, 0.0
            a[..., 1, 1], c[..., 1, 1] = 1.0, 1.0
        problem = poisson.Problem.on_box(shape[::-1], a=a, c=c if absorbs else 0.0, boundary=boundary)
        results = []
        for backend in (plain, device):
            try:
                results.append(Discretisation(problem).operator_on(backend))
            except CaseError as error:
                results.append(str(error))
        expected, result = results
        if isinstance(expected, str) or isinstance(result, str):
            found["cut off"] += 1
            assert result == expected
            continue
        found[f"held: {expected.coefficients.holds}"] += 1
        assert np.array_equal(device.to_host(result.reaction), expected.reaction)
        one, other = (replace(each.coefficients, c=None, links=None) for each in (result, expected))
        assert vars(one) == vars(other)
    assert found.keys() == {"cut off", "held: True", "held: False"}


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("shape", [(17, 23), (9, 8, 7), (30, 1)])
def test_parts_of_any_links_are_those_of_a_graph(make: Any, shape: tuple[int, ...]) -> None:
    """Links that are closed wherever nodes lie, as thin walls close them, on each kind of faces."""
    backend, rng = make(np.float64), np.random.default_rng(3)
    for rules, part, absorbs in itertools.product(rules_of(len(shape))[::3], (0.3, 0.55, 0.9), (0.0, 0.02)):
        whole = Operator.uniform(shape, (0.1,) * len(shape), 0.0, rules)
        lattice, free = whole.lattice, np.zeros(whole.array_shape, dtype=bool)
        free[lattice.free] = True
        links = [rng.uniform(0.5, 2.0, free.shape) * (rng.random(free.shape) < part) for _ in shape]
        c = rng.uniform(0.5, 1.0, free.shape) * (rng.random(free.shape) < absorbs)
        c[rng.random(free.shape) < 0.02] = FIXED
        numbers, ends = np.arange(free.size).reshape(free.shape), []
        for axis, line in enumerate(lattice.axes):
            place = lattice.array_axis(axis)
            beyond = np.roll(numbers, -1, axis=place)
            linked = links[axis] > 0.0
            if not line.wraps:
                np.moveaxis(linked, place, 0)[-1] = False
            ends.append(np.stack([numbers[linked], beyond[linked]]))
        one, other = np.concatenate(ends, axis=1)
        number, label = connected_components(coo_array((np.ones(one.size), (one, other)), shape=(free.size,) * 2))
        several = np.bincount(label) > 1
        holds = np.zeros(number, dtype=bool)
        holds[label[(~free | (c != 0.0)).ravel()]] = True
        alone = ~several[label].reshape(free.shape) & free & (c == 0.0)
        of_one = int(np.count_nonzero(~several[label].reshape(free.shape) & free & (c > 0.0)))
        coefficients = Coefficients(tuple(map(backend.from_host, links)), None, (1.0, 1.0), (0.0, 0.0))
        array = backend.from_host(c)
        found = backend.parts(replace(whole, coefficients=coefficients), array)
        assert (found.alone, found.loose) == (int(alone.sum()), int((several & ~holds).sum()))
        assert found.held == int((several & holds).sum()) + of_one
        assert np.array_equal(backend.to_host(array), np.where(~free | alone, FIXED, c))
        assert found.least == min(link[link > 0.0].min(initial=np.inf) for link in links)
        left = c[free & (c >= 0.0) & ~alone]
        assert found.c_range == (left.min(initial=np.inf), left.max(initial=0.0))


@pytest.mark.parametrize("make", MAKES)
def test_a_device_finds_the_parts_beside_obstacles(make: Any) -> None:
    """Closed shells, of which the inside is cut off, and bodies that hold u, in boxes that hold it or do not."""
    plain, device, found = NumpyBackend(np.float64), make(np.float64), set[bool | None]()
    ring = poisson.Body(inside="abs(sqrt((x - 0.4)**2 + (y - 0.5)**2) - 0.25) < 0.05", neumann=0.0)
    disc = poisson.Body(inside="(x - 0.7)**2 + (y - 0.6)**2 < 0.15**2", neumann=0.0)
    wire = poisson.Body(inside="(x - 0.8)**2 + (y - 0.2)**2 < 0.08**2", dirichlet=1.0)
    layers = "where(x > 0.5, 100, 1)"
    for bodies, boundary, a, c in itertools.product(
        ((disc,), (ring,), (ring, disc), (disc, wire)), (0.0, {"all": {"neumann": 0.0}}), (1.0, layers), (0.0, 2.0)
    ):
        problem = poisson.Problem.on_box((31, 29), a=a, c=c, boundary=boundary, bodies=list(bodies))
        expected, result = (Discretisation(problem).operator_on(backend) for backend in (plain, device))
        atol = 1e-13 * expected.reaction.max()
        np.testing.assert_allclose(device.to_host(result.reaction), expected.reaction, rtol=0, atol=atol)
        assert (result.fixed, result.coefficients.holds) == (expected.fixed, expected.coefficients.holds)
        assert result.coefficients.a_range == expected.coefficients.a_range
        np.testing.assert_allclose(result.coefficients.c_range, expected.coefficients.c_range, rtol=1e-13)
        found.add(expected.coefficients.holds)
    assert found == {True, False}


def test_a_check_takes_the_least_a_that_conducts() -> None:
    problem = problem_on((16, 18), "dirichlet")
    sample = Sample(problem)
    assert sample.insulated == sample.operator.fixed == np.count_nonzero(porous((16, 18)) == 0.0)
    assert sample.mistakes == () and sample.a.min() == porous((16, 18))[porous((16, 18)) > 0.0].min()


def test_parts_are_labelled_and_joined_across_the_ends() -> None:
    free = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]], dtype=bool)
    labels, seams = labelled(free, [0, 1])
    np.testing.assert_array_equal(labels, [[1, 0, 2, 2], [0, 0, 0, 0], [3, 3, 0, 4]])
    assert [pairs.T.tolist() for pairs in seams] == [[[3, 1], [4, 2]], [[2, 1], [4, 3]]]
