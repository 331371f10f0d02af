# SPDX-License-Identifier: MIT
"""The fields of a solution beside u, and its error against the exact solution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Backend
from poisson.discrete.discretisation import Discretisation, Operator
from poisson.discrete.flux import link_flux
from poisson.mesh.differences import Differences
from poisson.mesh.grid import over_slabs, slabs
from poisson.mesh.lattice import Lattice
from poisson.output.record import ErrorNorms
from poisson.solvers.stopping import SolveResult

FEW_NODES = 1 << 21
"""NumPy evaluates formulas on so many in some milliseconds. CuPy first compiles each function, or loads it."""

FEW_OF_A_RESULT = 1 << 22
"""Threads of the host evaluate a formula on so many nodes in less time than a device takes to load its functions."""

DEVICE_NODES = 1 << 24
"""Nodes of a slab that a device evaluates."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Evaluation:
    """Where the functions of a problem are evaluated on a grid, some slabs at a time.

    `xp`: numpy or cupy. `threads`: of the host that do it. `backend`: whose device does, in place of the host.
    """

    xp: ModuleType
    threads: int = 1
    backend: Backend | None = None

    @classmethod
    def on(cls, backend: Backend, *, host: bool) -> Evaluation:
        """On the device of a backend, or by its threads on the host."""
        return cls(np, backend.threads) if host else cls(backend.array_module, backend=backend)

    def over(self, array_shape: tuple[int, ...], work: Callable[[int, int], Value]) -> list[Value]:
        """The values of a function for all slabs, in their order."""
        if self.backend is None:
            return over_slabs(array_shape, work, self.threads)
        with self.backend.ordered():
            return [work(*each) for each in slabs(array_shape, DEVICE_NODES)]

    def bring(self, values: Any, out: NDArray[Any]) -> None:
        """Copy values of a slab to the host."""
        if self.backend is None or isinstance(values, np.ndarray):
            out[...] = values
        else:
            self.backend.copy_to(values, out)


def scalar_field(name: str, discretisation: Discretisation, place: Evaluation) -> NDArray[np.float64]:
    """``f``, ``a`` or ``c`` at the nodes of this process, as float64 on the host."""
    own = discretisation.owned
    function: Callable[..., Any] = {"f": own.f, "a": own.a, "c": own.c}[name]
    values = np.empty(own.array_shape)
    with discretisation.agreed():
        place.over(values.shape, lambda *slab: place.bring(function(place.xp, *slab), values[slice(*slab)]))
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
        found["flux"] = _flux_of_links(backend, operator, result, grid)[own]
    surface = discretisation.surface
    if {"gradient", "E"}.intersection(names) or not through_links or surface:
        bound = backend.bind(differences)
        gradient = np.empty((*discretisation.owned.array_shape, grid.dimension), dtype=backend.dtype)
        for axis in range(grid.dimension):
            # One component at a time needs no array that the loop has not made.
            bound.derivative(axis, result.u, result.work)
            gradient[..., axis] = backend.to_host(result.work)[own]
            if axis == grid.angle:
                gradient[..., axis] /= grid.scale(axis, ((0, grid.shape[0]),))
        found["gradient"] = gradient
        if "flux" in names and not through_links:
            found["flux"] = _flux(discretisation, gradient)
        if surface:
            from poisson.discrete.surface_fields import write_beside

            a = discretisation.constant_a or discretisation.owned.a(np, 0, gradient.shape[0])
            divided, every = operator.lattice.divided, (1,) * operator.dimension
            u = backend.sample(result.u, operator.lattice, every) if divided else backend.to_host(result.u)
            write_beside(surface, u, gradient, found.get("flux"), a, discretisation.ranges)
        if "E" in names:
            # Nobody else has the array where the gradient is not asked for.
            found["E"] = np.negative(gradient, out=None if "gradient" in names else gradient)
    shape = discretisation.owned.array_shape[-grid.dimension :]
    return {name: found[name].reshape(*shape, grid.dimension) for name in names}


def _flux_of_links(backend: Backend, operator: Operator, result: SolveResult, grid: Lattice) -> NDArray[Any]:
    assert operator.links is not None
    u = backend.to_host(result.u)
    flux = np.empty((*u.shape, grid.dimension), dtype=u.dtype)
    for axis in range(grid.dimension):
        link_flux(operator, axis, backend.to_host(operator.links[axis]), u, flux[..., axis])
        if axis == grid.angle:
            flux[..., axis] *= grid.scale(axis, ((0, grid.shape[0]),))
    return flux


def _flux(discretisation: Discretisation, gradient: NDArray[Any]) -> NDArray[Any]:
    flux, own = np.empty_like(gradient), discretisation.owned
    with discretisation.agreed():
        for start, stop in slabs(own.array_shape):
            a = own.a(np, start, stop)[..., np.newaxis]
            flux[start:stop] = -a * gradient[start:stop]
    return flux


def error_of(
    discretisation: Discretisation, u: Any, place: Evaluation, *, keep: bool = False
) -> tuple[ErrorNorms, NDArray[np.float64] | None]:
    """The error of u against the exact solution; for a singular problem, against the exact solution with zero mean.

    The rms is that of the trapezoidal rule, sqrt(∫e² / volume): a plain mean counts the faces by the mesh, which the
    observed order of accuracy would show.

    `discretisation`: the problem, with its exact solution. `u`: the solution, an array where the error is evaluated;
    where the grid is divided, at the nodes of this process. `keep`: whether the values are wanted, too, as float64 on
    the host.
    """
    xp, own = place.xp, discretisation.owned
    offset = _exact_mean(discretisation, place)
    u = u.reshape(own.array_shape)
    values = np.empty(own.array_shape) if keep else None

    def part(start: int, stop: int) -> tuple[float, float]:
        # By functions: with CuPy's operators come its special functions, and with these SciPy's sparse matrices, 0.1 s.
        exact = own.exact(xp, start, stop)
        if offset:
            xp.subtract(exact, offset, out=exact)
        error = xp.subtract(u[start:stop], exact, out=exact)
        own.leave_out(xp, error, start, stop)
        if values is not None:
            place.bring(error, values[start:stop])
        # Dirichlet faces have weight 1 here, but no error.
        weighted = xp.multiply(own.volumes(xp, start, stop), xp.square(error))
        return float(xp.sum(weighted)), max(abs(float(xp.min(error))), abs(float(xp.max(error))))

    with discretisation.agreed():
        squares, largest = zip(*place.over(own.array_shape, part), strict=True)
    [total], [worst] = discretisation.total(sum(squares)), discretisation.largest(float(np.max(largest)))
    return ErrorNorms(math.sqrt(total / math.prod(discretisation.problem.lattice.intervals)), worst), values


def _exact_mean(discretisation: Discretisation, place: Evaluation) -> float:
    """The trapezoidal mean of the exact solution of a singular problem, whose u has zero mean; 0 for any other."""
    if not discretisation.singular:
        return 0.0
    xp, own = place.xp, discretisation.owned

    def part(start: int, stop: int) -> tuple[float, float]:
        volumes = own.volumes(xp, start, stop)
        if own.surface:
            volumes = volumes + xp.zeros((stop - start, *own.array_shape[1:]))
            own.leave_out(xp, volumes, start, stop)
        return float((volumes * own.exact(xp, start, stop)).sum()), float(volumes.sum())

    with discretisation.agreed():
        sums = zip(*place.over(own.array_shape, part), strict=True)
    total, volume = discretisation.total(*map(sum, sums))
    return total / volume
