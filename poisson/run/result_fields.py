# SPDX-License-Identifier: MIT
"""The fields of a solution beside u, and its error against the exact solution."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Backend
from poisson.discrete.discretisation import Discretisation, Operator
from poisson.discrete.flux import link_flux
from poisson.mesh.differences import Differences
from poisson.mesh.grid import slabs
from poisson.output.record import ErrorNorms
from poisson.solvers.stopping import SolveResult


def scalar_field(name: str, discretisation: Discretisation, u: NDArray[Any]) -> NDArray[np.float64]:
    """``f``, ``a``, ``c`` or ``error`` at the nodes of this process, as float64 on the host."""
    own = discretisation.owned
    values = np.empty(own.array_shape)
    u = u.reshape(values.shape)
    offset = _exact_mean(discretisation, np) if name == "error" else 0.0
    with discretisation.agreed():
        for start, stop in slabs(values.shape):
            if name == "f":
                values[start:stop] = own.f(np, start, stop)
            elif name == "a":
                values[start:stop] = own.a(np, start, stop)
            elif name == "c":
                values[start:stop] = own.c(np, start, stop)
            elif name == "error":
                values[start:stop] = u[start:stop] - (own.exact(np, start, stop) - offset)
            else:
                raise ValueError(f"unknown field {name!r}")
    return values


def vectors(
    backend: Backend,
    differences: Differences,
    discretisation: Discretisation,
    operator: Operator,
    result: SolveResult,
    names: tuple[str, ...],
) -> dict[str, NDArray[Any]]:
    """∇u, −a∇u and E = −∇u, where they are named, on the host with the components last, in the precision of the run.

    Where the grid is divided they are those at the nodes of this process. The flux of second order is that through the
    links where a varies (`poisson.discrete.flux`).
    """
    grid, found, own = discretisation.problem.lattice, {}, operator.lattice.owned
    through_links = "flux" in names and operator.links is not None and differences.order == 2
    if through_links:
        found["flux"] = _flux_of_links(backend, operator, result, grid.dimension)[own]
    if {"gradient", "E"}.intersection(names) or not through_links:
        bound = backend.bind(differences)
        gradient = np.empty((*discretisation.owned.array_shape, grid.dimension), dtype=backend.dtype)
        for axis in range(grid.dimension):
            # One component at a time needs no array that the loop has not made.
            bound.derivative(axis, result.u, result.work)
            gradient[..., axis] = backend.to_host(result.work)[own]
        found["gradient"] = gradient
        if "flux" in names and not through_links:
            found["flux"] = _flux(discretisation, gradient)
        if "E" in names:
            # Nobody else has the array where the gradient is not asked for.
            found["E"] = np.negative(gradient, out=None if "gradient" in names else gradient)
    shape = discretisation.owned.array_shape[-grid.dimension :]
    return {name: found[name].reshape(*shape, grid.dimension) for name in names}


def _flux_of_links(backend: Backend, operator: Operator, result: SolveResult, dimension: int) -> NDArray[Any]:
    assert operator.links is not None
    u = backend.to_host(result.u)
    flux = np.empty((*u.shape, dimension), dtype=u.dtype)
    for axis in range(dimension):
        link_flux(operator, axis, backend.to_host(operator.links[axis]), u, flux[..., axis])
    return flux


def _flux(discretisation: Discretisation, gradient: NDArray[Any]) -> NDArray[Any]:
    flux, own = np.empty_like(gradient), discretisation.owned
    with discretisation.agreed():
        for start, stop in slabs(own.array_shape):
            a = own.a(np, start, stop)[..., np.newaxis]
            flux[start:stop] = -a * gradient[start:stop]
    return flux


def error_norms(discretisation: Discretisation, u: Any, xp: ModuleType = np) -> ErrorNorms:
    """The error of u against the exact solution; for a singular problem, against the exact solution with zero mean.

    The rms is that of the trapezoidal rule, sqrt(∫e² / volume): a plain mean counts the faces by the mesh, which the
    observed order of accuracy would show.

    `discretisation`: the problem, with its exact solution. `u`: the solution, an array of `xp`; where the grid is
    divided, at the nodes of this process. `xp`: numpy or cupy.
    """
    squares = largest = 0.0
    offset = _exact_mean(discretisation, xp)
    own = discretisation.owned
    u = u.reshape(own.array_shape)
    with discretisation.agreed():
        for start, stop in slabs(own.array_shape):
            error = u[start:stop] - (own.exact(xp, start, stop) - offset)
            # Dirichlet faces have weight 1 here, but no error.
            squares += float((own.volumes(xp, start, stop) * error * error).sum())
            largest = max(largest, float(abs(error).max()))
    [squares], [largest] = discretisation.total(squares), discretisation.largest(largest)
    return ErrorNorms(math.sqrt(squares / math.prod(discretisation.problem.lattice.intervals)), largest)


def _exact_mean(discretisation: Discretisation, xp: ModuleType) -> float:
    """The trapezoidal mean of the exact solution of a singular problem, whose u has zero mean; 0 for any other."""
    if not discretisation.singular:
        return 0.0
    total, volume, own = 0.0, 0.0, discretisation.owned
    with discretisation.agreed():
        for start, stop in slabs(own.array_shape):
            volumes = own.volumes(xp, start, stop)
            total += float((volumes * own.exact(xp, start, stop)).sum())
            volume += float(volumes.sum())
    total, volume = discretisation.total(total, volume)
    return total / volume
