# SPDX-License-Identifier: MIT
"""What the source makes leaves through the faces: to rounding, for every kind of face and whatever a is."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from support.operators import AXIS_RULES, name_of, random_array, rules_of
from support.varying import problem_with

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.discrete.balance import balance_of
from poisson.discrete.discretisation import Discretisation
from poisson.mesh.boundary import Kind, Rule
from poisson.problem.problem import Problem

SHAPES = {1: (6,), 2: (5, 4), 3: (4, 3, 5)}
RULES = [*AXIS_RULES, *rules_of(2), *rules_of(3)[::4]]


class Balance:
    """The terms of a balance and the sum of their sizes, one after the other."""

    def __init__(self) -> None:
        self.terms: list[float] = []

    def add(self, term: float) -> None:
        self.terms.append(term)

    @property
    def defect(self) -> float:
        """The sum of the terms, as a part of the sum of their sizes."""
        return abs(math.fsum(self.terms)) / math.fsum(map(abs, self.terms))


def widths(problem: Problem, axis: int) -> NDArray[np.float64]:
    """The width of the cell of each node along an axis: half of the spacing on a face that is not periodic."""
    grid = problem.lattice
    width = np.full(grid.shape[axis], grid.spacing[axis])
    if not grid.periodic[axis]:
        width[[0, -1]] *= 0.5
    return width


def through_faces(problem: Problem, u: NDArray[np.float64], balance: Balance) -> None:
    """What flows in through the faces, node by node: the data of Neumann and Robin faces, and the links from nodes
    where u is given. Their cells have no equation, so the balance is that of the other cells."""
    grid = problem.lattice
    fixed = reference.fixed_nodes(Discretisation(problem).laplacian).reshape(grid.array_shape)
    a: Any = problem.a
    for node in itertools.product(*(range(count) for count in grid.shape)):
        if fixed[node[::-1]]:
            continue
        point = [float(grid.coordinates(axis)[index]) for axis, index in enumerate(node)]
        for axis in range(grid.dimension):
            area = math.prod(widths(problem, other)[node[other]] for other in range(grid.dimension) if other != axis)
            for upper in (0, 1):
                face = problem.faces[2 * axis + upper]
                neighbour = list(node)
                neighbour[axis] += 2 * upper - 1
                if grid.periodic[axis]:
                    neighbour[axis] %= grid.shape[axis]
                if not 0 <= neighbour[axis] < grid.shape[axis]:
                    assert face.value is not None
                    balance.add(area * float(face.value(np, *point)))
                    if face.kind is Kind.ROBIN:
                        assert face.alpha is not None
                        balance.add(-area * float(face.alpha(np, *point)) * u[node[::-1]])
                elif fixed[tuple(neighbour[::-1])]:
                    here, there = (float(a.values[place[::-1]]) for place in (tuple(node), tuple(neighbour)))
                    link = 2.0 * here * there / (here + there)
                    if problem.mean == "arithmetic":
                        link = (here + there) / 2.0
                    slope = (u[tuple(neighbour[::-1])] - u[node[::-1]]) / grid.spacing[axis]
                    balance.add(area * link * slope)


def trapezoidal(problem: Problem, values: NDArray[np.float64], balance: Balance) -> None:
    """The integral of values over the cells of the nodes where u is not given."""
    grid = problem.lattice
    cells = np.ones(grid.array_shape)
    for axis in range(grid.dimension):
        cells *= widths(problem, axis).reshape(-1, *(1,) * axis)
    cells[reference.fixed_nodes(Discretisation(problem).laplacian).reshape(grid.array_shape)] = 0.0
    for term in (cells * values).ravel():
        balance.add(float(term))


@pytest.mark.parametrize("rules", RULES, ids=name_of)
def test_the_source_of_a_solution_leaves_through_the_faces(rules: tuple[Rule, ...]) -> None:
    for mean, c in (("harmonic", True), ("arithmetic", False)):
        problem = problem_with(rules, SHAPES[len(rules) // 2], mean=mean, c=c)
        discretisation = Discretisation(problem)
        if discretisation.singular:
            discretisation = Discretisation(problem, shift=balance_of(discretisation, np).defect / extent(problem))
        u = reference.solve(discretisation)
        count = discretisation.array_shape[0]
        net = discretisation.f(np, 0, count) - discretisation.c(np, 0, count) * u
        balance = Balance()
        trapezoidal(problem, net.reshape(problem.lattice.array_shape), balance)
        through_faces(problem, u.reshape(problem.lattice.array_shape), balance)
        assert balance.defect < 1e-11


def extent(problem: Problem) -> float:
    return math.prod(problem.lattice.extent)


@pytest.mark.parametrize("name", ["numpy", "openmp", "emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_every_backend_conserves(name: str) -> None:
    """For any u: what is left over, f − A u, is the source less what u reacts and what flows out."""
    make: Any = {"numpy": NumpyBackend, **BACKENDS}[name]
    backend: Backend = make(np.float64)
    # The emulated device compiles for each of the rules.
    for rules in RULES[4::21] if name == "emulated" else RULES[::3]:
        problem = problem_with(rules, SHAPES[len(rules) // 2])
        discretisation = Discretisation(problem)
        operator, shape = discretisation.operator_on(backend), discretisation.array_shape
        u, r = random_array(shape, np.float64, 7), backend.empty(shape)
        source = backend.assemble(shape, discretisation.source)
        backend.bind(operator).residual(backend.from_host(u), source, r)
        f, c = (part(np, 0, shape[0]) for part in (discretisation.f, discretisation.c))
        balance = Balance()
        for values in (f, -c * u, -backend.to_host(r)):
            trapezoidal(problem, values.reshape(problem.lattice.array_shape), balance)
        through_faces(problem, u.reshape(problem.lattice.array_shape), balance)
        assert balance.defect < 1e-13, name_of(rules)
