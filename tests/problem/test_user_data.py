# SPDX-License-Identifier: MIT
"""Problems on stretched nodes and cells: their data reach the equations, and u is of second order."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.axes import ENDS, dense, example, fixed_nodes
from support.divided import solved

import poisson
from poisson.discrete import reference
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.integrals import energy, mean
from poisson.discrete.operator import Operator
from poisson.discrete.outflow import outflow
from poisson.errors import CaseError
from poisson.mesh.boundary import FACE_NAMES, Kind
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes
from poisson.output.comparison import compare
from poisson.problem.exact_data import manufactured_source, manufactured_value
from poisson.problem.expressions import Expression, parse
from poisson.problem.faces import Face
from poisson.problem.problem import Problem
from poisson.run.loader import FaceTerms

D, N, R, P = Kind.DIRICHLET, Kind.NEUMANN, Kind.ROBIN, Kind.PERIODIC
EXACT = ("sin(2*pi*x + 0.3)", "cos(2*pi*y + 0.5)", "(2 + sin(2*pi*z + 1))")
PAIRS = {"dirichlet-neumann": (D, N), "robin-dirichlet": (R, D), "robin-robin": (R, R), "periodic": (P, P)}


def stretched(count: int) -> np.ndarray:
    """Marks on [0, 1] whose distances vary smoothly, by a factor of three."""
    place = np.linspace(0.0, 1.0, count + 1)
    return np.asarray(place + 0.08 * np.sin(2.0 * np.pi * place))


def axis_of(kind: str, count: int) -> Any:
    if kind == "u":
        return {"uniform": (0.0, 1.0, count + 1)}
    return {{"n": "nodes", "c": "cells"}[kind]: stretched(count)}


def problem_on(kinds: str, ends: tuple[Kind, Kind], counts: tuple[int, ...], *, linear: bool = False) -> Problem:
    """A manufactured problem: the ends of x as given, those of y and z Robin and Dirichlet; a, c and α vary."""
    dimension = len(kinds)
    u = parse("*".join(EXACT[:dimension]), dimension, {})
    a = parse("2 + 0.5*" + "*".join(f"sin(2*pi*{name} + 1)" for name in "xyz"[:dimension]), dimension, {})
    c = parse("1" if ends[0] is P or dimension == 1 else "1 + y", dimension, {})
    boundary: dict[str, Any] = {"x": "periodic"} if ends[0] is P else {}
    for face in range(2 * dimension):
        kind = ends[face] if face < 2 else (R, D)[face % 2]
        if kind is P:
            continue
        alpha = parse("2 + " + ("0" if dimension == 1 else "yxx"[face // 2]), dimension, {}) if kind is R else None
        boundary[FACE_NAMES[face]] = Face(kind, manufactured_value(u, a, kind, alpha, face), alpha)
    axes = [axis_of(*pair) for pair in zip(kinds, counts, strict=True)]
    return Problem.on_lattice(
        axes, f=manufactured_source(u, a, c, dimension), a=a, c=c, boundary=boundary, exact=u, mean="harmonic"
    )


def errors_of(problem: Problem, u: np.ndarray) -> tuple[float, float]:
    """The rms error, and the largest one of the outermost nodes."""
    assert problem.exact is not None
    lattice = problem.lattice
    places = np.meshgrid(*(axis.coordinates for axis in reversed(lattice.axes)), indexing="ij")[::-1]
    error = np.abs(u.reshape(lattice.array_shape) - problem.exact(np, *places))
    rms = math.sqrt(float(np.average(error**2, weights=np.broadcast_to(lattice.volumes(), error.shape))))
    error[(slice(1, -1),) * error.ndim] = 0.0
    return rms, float(error.max())


@pytest.mark.parametrize("ends", PAIRS)
@pytest.mark.parametrize("kinds", ["n", "c", "nc", "cn", "uc", "nu", "ncu", "cuc", "unn"])
def test_u_is_of_second_order(kinds: str, ends: str) -> None:
    coarse = {1: 20, 2: 20, 3: 10}[len(kinds)]
    errors = []
    for count in (coarse, 2 * coarse):
        problem = problem_on(kinds, PAIRS[ends], (count,) * len(kinds))
        errors.append(errors_of(problem, reference.solve(Discretisation(problem))))
    rms, beside_faces = np.log2(np.divide(*errors))
    assert rms == pytest.approx(2.0, abs=0.12) and beside_faces == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize(
    ("kinds", "ends", "method"),
    [
        (kinds, ends, ("multigrid", "cg", "chebyshev", "jacobi")[(n + m) % 4])
        for n, kinds in enumerate(("c", "nc", "cu", "cnu"))
        for m, ends in enumerate(PAIRS)
    ],
)
def test_methods_find_the_solution_of_the_reference(kinds: str, ends: str, method: str) -> None:
    problem = problem_on(kinds, PAIRS[ends], (12, 9, 8)[: len(kinds)])
    solution = poisson.solve(problem, method=method, backend="numpy", rtol=1e-11)
    expected = reference.solve(Discretisation(problem)).reshape(solution.u.shape)
    assert solution.status is poisson.Status.CONVERGED
    np.testing.assert_allclose(solution.u, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kinds", ["c", "n", "nc", "cu", "cnc"])
def test_direct_solution_meets_the_reference(kinds: str) -> None:
    boundary = {"x_lower": {"neumann": "1 + x"}, "x_upper": {"dirichlet": 2.0}, "all": {"dirichlet": "1 + x"}}
    if len(kinds) == 1:
        del boundary["all"]
    axes = [axis_of(*pair) for pair in zip(kinds, (13, 10, 9), strict=False)]
    problem = Problem.on_lattice(axes, f="sin(x)", a=3.0, c=0.5, boundary=boundary)
    solution = poisson.solve(problem, method="fft", backend="numpy")
    assert solution.status is poisson.Status.CONVERGED
    expected = reference.solve(Discretisation(problem)).reshape(solution.u.shape)
    np.testing.assert_allclose(solution.u, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("ends", PAIRS)
@pytest.mark.parametrize("kinds", ["nc", "cu"])
def test_flows_balance_and_integrals_are_of_second_order(kinds: str, ends: str) -> None:
    """What leaves through the faces is ∫f − ∫c u to rounding, and the energy is that of the exact u."""
    wanted = exact_energy(problem_on("uu", PAIRS[ends], (400, 400)))
    errors = []
    for count in (16, 32):
        problem = problem_on(kinds, PAIRS[ends], (count, count))
        discretisation = Discretisation(problem)
        u = reference.solve(discretisation)
        leaves = sum(outflow(discretisation, u, face) for face in range(4) if not problem.faces[face].kind.wraps)
        volumes = np.outer(problem.lattice.axes[1].lengths, problem.lattice.axes[0].lengths)
        rows = 0, u.shape[0]
        made = discretisation.f(np, *rows) - discretisation.c(np, *rows) * u
        assert leaves == pytest.approx(float((volumes * made).sum()), abs=1e-9)
        errors.append(abs(energy(discretisation, u) - wanted))
        assert mean(discretisation, np.ones_like(u)) == pytest.approx(1.0, rel=1e-14)
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.25)


def exact_energy(problem: Problem) -> float:
    """The energy of the exact solution."""
    x, y = (np.linspace(0.0, 1.0, 2001)[:-1] + 0.00025 for _ in range(2))
    places = x[None, :], y[:, None]
    u, a = problem.exact, problem.a
    assert u is not None and isinstance(a, Expression) and isinstance(problem.c, (float, Expression))
    slopes = [u.derivative(name)(np, *places) for name in "xy"]
    c = problem.c if isinstance(problem.c, float) else problem.c(np, *places)
    density = a(np, *places) * (slopes[0] ** 2 + slopes[1] ** 2) + c * u(np, *places) ** 2
    return float(np.mean(density)) / 2.0


@pytest.mark.parametrize("kinds", ["cc", "nc"])
def test_terms_of_faces_are_those_of_the_source(kinds: str) -> None:
    problem = problem_on(kinds, (R, D), (7, 6))
    discretisation = Discretisation(problem)
    source, f = (function(np, 0, 6 + (kinds[1] == "n")) for function in (discretisation.source, discretisation.f))
    FaceTerms(problem).add(f)
    for axis, line in enumerate(problem.lattice.axes):
        for node in fixed_nodes(line):
            f[(slice(None),) * (1 - axis) + (node,)] = 0.0
    np.testing.assert_allclose(source, f, rtol=1e-14)


def test_a_singular_problem_of_cells() -> None:
    u = parse("cos(pi*x)*cos(2*pi*y) + x", 2, {})
    boundary = {FACE_NAMES[face]: Face(N, manufactured_value(u, 1.0, N, None, face)) for face in range(4)}
    errors = []
    for count in (16, 32):
        axes = [axis_of("c", count)] * 2
        f = manufactured_source(u, 1.0, 0.0, 2)
        problem = Problem.on_lattice(axes, f=f, boundary=boundary, exact=u)
        found = poisson.solve(problem, backend="numpy", rtol=1e-10).u
        places = np.meshgrid(*(axis.coordinates for axis in reversed(problem.lattice.axes)), indexing="ij")[::-1]
        error = found - u(np, *places)
        weights = problem.lattice.volumes()
        errors.append(float(np.abs(error - np.average(error, weights=weights)).max()))
    assert math.log2(errors[0] / errors[1]) > 1.7


def test_a_wall_before_a_jump_keeps_the_sum_of_resistances() -> None:
    """Cells of a between 1 and 1000: the flow through a chain of cells, of which the mean of the links is harmonic."""
    a = np.where(np.arange(10) < 4, 1.0, 1000.0)
    problem = Problem.on_lattice([{"cells": np.linspace(0.0, 1.0, 11)}], a=a, boundary={"x_lower": 0.0, "x_upper": 1.0})
    u = poisson.solve(problem, backend="numpy", method="cg", rtol=1e-12).u
    resistance = np.sum(0.1 / a)
    np.testing.assert_allclose(u[1] - u[0], 0.1 / resistance, rtol=1e-9)


@pytest.mark.parametrize("kinds", ["c", "n", "nc", "cun"])
def test_derivatives_are_of_second_order(kinds: str) -> None:
    errors: dict[str, list[float]] = {"gradient": [], "flux": [], "E": []}
    for count in (16, 32) if len(kinds) < 3 else (12, 24):
        problem = problem_on(kinds, (R, D), (count,) * len(kinds))
        u = reference.solve(Discretisation(problem)).reshape(problem.lattice.array_shape)
        solution = replace(poisson.solve(problem, method="cg", rtol=0.5, backend="numpy"), u=u, fields={})
        places = np.meshgrid(*(axis.coordinates for axis in reversed(problem.lattice.axes)), indexing="ij")[::-1]
        assert problem.exact is not None and isinstance(problem.a, Expression)
        slopes = np.stack([problem.exact.derivative(axis)(np, *places) for axis in "xyz"[: len(kinds)]], axis=-1)
        factors = {"gradient": 1.0, "flux": -problem.a(np, *places)[..., None], "E": -1.0}
        for name, factor in factors.items():
            errors[name].append(float(np.sqrt(np.mean((getattr(solution, name) - factor * slopes) ** 2))))
    assert all(math.log2(coarse / fine) > 1.7 for coarse, fine in errors.values())


@pytest.mark.parametrize("kinds", ["c", "nc", "cu", "ncn"])
@pytest.mark.parametrize("ends", ["dirichlet-neumann", "periodic"])
def test_a_result_file_says_where_the_nodes_are(tmp_path: Path, kinds: str, ends: str) -> None:
    problem = problem_on(kinds, PAIRS[ends], (9, 8, 7)[: len(kinds)])
    solution = poisson.solve(problem, backend="numpy")
    path = solution.save(tmp_path / "u.h5")
    loaded = poisson.load(path)
    assert loaded.problem == replace(problem, title=loaded.problem.title)
    np.testing.assert_array_equal(loaded.u, solution.u)
    for before, after in zip(problem.lattice.axes, loaded.problem.lattice.axes, strict=True):
        np.testing.assert_allclose(after.coordinates, before.coordinates, rtol=0, atol=1e-14)
        np.testing.assert_allclose(after.lengths, before.lengths, rtol=0, atol=1e-14)
        assert (after.wraps, after.tabulated) == (before.wraps, before.tabulated)
    assert compare(path, path).shapes == (problem.lattice.shape,) * 2
    other = poisson.solve(problem_on("u" * len(kinds), PAIRS[ends], (9, 8, 7)[: len(kinds)]), backend="numpy")
    second = other.save(tmp_path / "v.h5")
    assert (compare(path, path).interpolated, compare(path, second).interpolated is None) == (None, False)


@pytest.mark.parametrize(
    ("axes", "boundary", "message"),
    [
        ((), 0.0, "axes: (); allowed: 1, 2 or 3 tables"),
        ((33,), 0.0, 'axes: 33 along x; allowed: {"nodes": coordinates}, {"cells"'),
        (({"cells": [1.0, 2.0], "nodes": []},), 0.0, "axes: {'cells': [1.0, 2.0], 'nodes': []} along x; allowed"),
        (({"nodes": [0.0, 1.0, 2.0]},), {"x": "periodic"}, "axes: nodes along x: an axis of 2 nodes; at least 3"),
        (({"cells": [0.0, 1.0, 0.5, 2.0]},), 0.0, "axes: cells along x: 0.5 after 1; the places along"),
        (
            ({"cells": [[0.0, 1.0]]},),
            0.0,
            "axes: cells along x: [[0.0, 1.0]]; allowed: real numbers in ascending order",
        ),
        (({"nodes": [0.0, 1j, 2.0]},), 0.0, "axes: nodes along x: [0.0, 1j, 2.0]; allowed: real numbers"),
        (({"nodes": "abc"},), 0.0, "axes: nodes along x: 'abc'; allowed: real numbers in ascending order"),
        (
            ({"nodes": [0.0, 1e-320, 1.0]},),
            0.0,
            "axes: nodes along x: places from 1e-320 to 1 apart; allowed: more than",
        ),
        (({"nodes": [0.0, 1e200, 2e200]},), 0.0, "axes: nodes along x: places from 1e+200 to 1e+200 apart; allowed"),
        (
            ({"uniform": (0.0, 1.0)},),
            0.0,
            "axes: uniform along x: (0.0, 1.0); allowed: (lower, upper, number of nodes)",
        ),
        (({"uniform": (0.0, 1.0, 2.5)},), 0.0, "axes: uniform along x: (0.0, 1.0, 2.5); allowed: (lower, upper"),
        ((axis_of("n", 8),), {"y": "periodic"}, "boundary.y: unknown key"),
    ],
)
def test_wrong_tables_of_axes(axes: Any, boundary: Any, message: str) -> None:
    with pytest.raises(CaseError) as caught:
        Problem.on_lattice(axes, boundary=boundary)
    assert str(caught.value).startswith(message)


def test_between_nodes_and_beyond_the_outermost() -> None:
    """Values between a wall and the centre beside it go on as the cubics do."""
    problem = Problem.on_lattice([axis_of("c", 40)], f="-6*x", boundary={"x_lower": 0.0, "x_upper": 1.0})
    solution = poisson.solve(problem, backend="numpy")
    for x in (0.0, 0.001, 0.4, 1.0):
        assert solution.at(x) == pytest.approx(x**3, abs=3e-3)


def test_dense_agrees_with_the_sparse_matrix() -> None:
    """The reference against matrices that are assembled line by line."""
    for kinds in itertools.product((Nodes, Cells), repeat=2):
        for ends in ENDS:
            lines = [example(kinds[0], ends, 5), example(kinds[1], ENDS[4], 4)]
            operator = Operator(Lattice(tuple(line.axis for line in lines)), c=0.7, a=1.3)
            found = reference.matrix(operator).toarray()
            expected = dense(lines, np.full((4, 5), 0.7), None, 1.3)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("kinds", ["nc", "cn", "cu", "cnc"])
@pytest.mark.parametrize("method", ["multigrid", "cg"])
def test_ranks_solve_what_one_does(kinds: str, method: str) -> None:
    problem = problem_on(kinds, (R, D), (20, 16, 12)[: len(kinds)])
    alone = poisson.solve(problem, method=method, backend="numpy", rtol=1e-11).u
    for ranks in ([1, 2, 1], [1, 2, 2])[: len(kinds) - 1]:
        blocks = ranks[: len(kinds)]
        _, u = solved(problem, math.prod(blocks), ranks=blocks, method=method, backend="numpy", rtol=1e-11)
        np.testing.assert_allclose(u, alone, rtol=0, atol=1e-8)
