# SPDX-License-Identifier: MIT
"""Code that the tests of multigrid and conjugate gradients share: problems, coefficients that jump, contraction
factors."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend, Operations
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Coefficients, Operator
from poisson.mesh.boundary import Rule
from poisson.solvers import registry
from poisson.solvers.entries import Given
from poisson.solvers.iteration import Method
from poisson.solvers.multigrid import CoarserProblems, Multigrid, MultigridSettings
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import remove_mean
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult, Stopping

F, M, W = Rule.FIXED, Rule.MIRROR, Rule.WRAP

PLAIN = SolverSettings().having(full=False)
"""The default settings, but for the start on the coarsest grid."""

ASYMPTOTIC = 8
"""Cycles at the end of a solve whose mean contraction is measured: two periods of the Chebyshev smoother."""


def cube(
    shape: tuple[int, ...],
    rules: tuple[Rule, ...] | None = None,
    spacing: tuple[float, ...] | None = None,
    c: float = 0.0,
) -> Operator:
    """The operator with one spacing, on Dirichlet faces unless `rules` say otherwise."""
    return Operator.uniform(shape, spacing or (1.0 / 16,) * len(shape), c, rules or (F,) * (2 * len(shape)))


def source(backend: Backend, a: Operator, seed: int = 0) -> Array:
    """A random right-hand side: zero at fixed nodes, and of zero mean where A is singular."""
    f = backend.from_host(np.random.default_rng(seed).uniform(-1.0, 1.0, a.array_shape))
    zero, r = backend.from_host(np.zeros(a.array_shape)), backend.empty(a.array_shape)
    backend.bind(a).residual(zero, f, r)
    if a.singular:
        place = backend.reduction()
        ones = backend.from_host(np.ones(a.array_shape))
        backend.bind(a).dot(r, ones, place)
        total = backend.read(place)[0]
        backend.bind(a).dot(ones, ones, place)
        backend.axpby(-total / backend.read(place)[0], ones, 1.0, r)
    return r


def solver_of(
    operations: Operations,
    settings: SolverSettings,
    inner: Operations | None = None,
    coarser: CoarserProblems | None = None,
) -> Method:
    """The method that the settings name, with its set-up done."""
    return registry.make_method(Given(operations, settings, inner, coarser))


def zeros(backend: Backend, a: Operator) -> Array:
    return backend.from_host(np.zeros(a.array_shape))


def contraction(a: Operator, settings: MultigridSettings, rtol: float = 1e-12, backend: Backend | None = None) -> float:
    """The mean factor of the residual norm over the last cycles of a solve of a random problem."""
    backend = backend or NumpyBackend(np.float64)
    solver = Multigrid(backend.bind(a), replace(settings, full=False))
    stopping = Stopping(rtol=rtol, max_iterations=60)
    result = solver.solve(zeros(backend, a), source(backend, a), stopping=stopping)
    assert result.status is Status.CONVERGED
    norms = [norm for _, norm in result.history]
    count = min(ASYMPTOTIC, len(norms) - 1)
    return float((norms[-1] / norms[-1 - count]) ** (1.0 / count))


def error_contraction(a: Operator, settings: MultigridSettings, backend: Backend | None = None) -> float:
    """The mean factor of the residual norm over the last of 24 cycles for A u = 0, from a random u.

    As u vanishes, so does its rounding: modes with eigenvalues next to nothing beside the largest count, too.
    """
    backend = backend or NumpyBackend(np.float64)
    solver, f, norms = Multigrid(backend.bind(a), settings), zeros(backend, a), backend.reduction()
    u, spare, work = source(backend, a), *solver.spare
    history: list[float] = []
    for number in range(25):
        if number == 0:
            result = solver.cycle.down(u, f, spare, work, 0, norms)
        else:
            if a.singular:
                remove_mean(backend.bind(a), u, work, norms)
            error = solver.cycle.coarse(number - 1)
            result = solver.cycle.turn(u, f, spare, work, number, error, norms)
        if result is not u:
            u, spare = result, u
        history.append(backend.read(norms)[0] ** 0.5)
    return float((history[-1] / history[-1 - ASYMPTOTIC]) ** (1.0 / ASYMPTOTIC))


def node_values(a: Operator, kind: str, jump: float) -> NDArray[np.float64]:
    """a at the nodes: ``block``: `jump` in a box in the middle; ``smooth``: between 1/jump and jump, continuous."""
    counts = np.array(a.array_shape).reshape(-1, *(1,) * a.dimension)
    place = np.indices(a.array_shape) / np.maximum(counts - 1, 1)
    if kind == "block":
        return np.where(np.all((place > 0.3) & (place < 0.62), axis=0), jump, 1.0)
    return np.asarray(np.exp(np.log(jump) * np.sin(3.0 * place[0]) * np.cos(4.0 * place[1])))


def with_coefficients(backend: Backend, a: Operator, values: NDArray[Any], c: NDArray[Any] | None = None) -> Operator:
    """The operator with these values of a (and c) at the nodes, harmonic means between them."""
    nodes, links = backend.from_host(values), []
    for axis in range(a.dimension):
        links.append(backend.empty(a.array_shape))
        backend.bind(a).links(axis, nodes, True, links[-1])
    reaction = None if c is None else backend.from_host(c)
    c_range = (a.c, a.c) if c is None else (float(c.min()), float(c.max()))
    coefficients = Coefficients(tuple(links), reaction, (float(values.min()), float(values.max())), c_range)
    return replace(a, coefficients=coefficients)


def relative_residual(backend: Backend, a: Operator, u: Array, f: Array) -> float:
    """The rms of f − A u by that of f, computed anew."""
    r, place = backend.empty(a.array_shape), backend.reduction()
    backend.bind(a).residual(u, f, r, place)
    squares = backend.read(place)[0]
    backend.bind(a).norm(f, place)
    return float(np.sqrt(squares / backend.read(place)[0]))


def converged(backend: Backend, a: Operator, method: Method, rtol: float = 1e-8) -> SolveResult:
    """The result of a solve of a random problem from zero, whose true residual is below the target, too."""
    f = source(backend, a)
    result = method.solve(zeros(backend, a), f, stopping=Stopping(rtol=rtol))
    assert result.status is Status.CONVERGED
    assert relative_residual(backend, a, result.u, f) <= rtol * (1 + 1e-6)
    return result
