# SPDX-License-Identifier: MIT
"""The residual that certifies a solution, recomputed in float64, and the verdict by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend, Operations
from poisson.discrete.discretisation import Discretisation, Operator
from poisson.mesh.grid import slabs
from poisson.solvers.rounding import largest_correction
from poisson.solvers.status import Status
from poisson.solvers.stopping import VANISHED, SolveResult

if TYPE_CHECKING:
    from poisson.run.setup import Setup

RESIDUAL_SLAB = 1 << 24
"""Nodes of a slab in which the residual of a float32 run is recomputed."""


def true_residual(
    setup: Setup, discretisation: Discretisation, result: SolveResult, *, keep: bool
) -> tuple[NDArray[np.float64] | None, tuple[float, float]]:
    """The residual of the final u in float64.

    `setup`: with the source that was solved for. `discretisation`: the problem with that source. `result`: holds u, and
    an array that may be overwritten; norms in it are taken as they are. `keep`: whether the values are wanted, too.
    Returns `values`: the residual on the host, if it is wanted; where the grid is divided, at the nodes of this
    process. Returns `norms`: (Σ r², max |r|) over the whole grid.
    """
    backend, operator, operations, norms = setup.backend, setup.operator, setup.operations, setup.norms
    double = setup.local.companion(np.float64)
    if double.dtype != backend.dtype:
        if setup.given is not None and not keep and operations.widens:
            operations.certify(result.u, setup.given, result.work, norms)
            return None, backend.read(norms)
        values = np.empty(discretisation.owned.array_shape) if keep else None
        return values, _residual_by_slabs(double, discretisation, operator, backend.to_host(result.u), values)
    if keep:
        operations.residual(result.u, operations.settled(setup.source), result.work, norms)
        return backend.to_host(result.work)[operator.lattice.owned], backend.read(norms)
    if result.norms is None:
        operations.certify(result.u, setup.source, result.work, norms)
    return None, result.norms or backend.read(norms)


def true_correction(setup: Setup, discretisation: Discretisation, result: SolveResult) -> float:
    """max |D⁻¹ r| in float64 for the residual r of the final u, in U, as `true_residual`; the source is overwritten."""
    operations, double = setup.operations, setup.local.companion(np.float64)
    if double.dtype == setup.backend.dtype:
        operations.residual(result.u, operations.settled(setup.source), result.work)
        return largest_correction(operations, result.work, setup.f, setup.norms)
    largest = 0.0
    for _, part, r in _residuals(double, discretisation, setup.operator, setup.backend.to_host(result.u)):
        z, place = double.empty(part.operator.array_shape), double.reduction()
        largest = max(largest, largest_correction(part, r, z, place))
    return discretisation.largest(largest)[0]


def _residual_by_slabs(
    backend: Backend,
    discretisation: Discretisation,
    whole: Operator,
    u: NDArray[Any],
    values: NDArray[np.float64] | None,
) -> tuple[float, float]:
    """Compute the residual slab by slab.

    `values`, if given, gets the residual. Returns (Σ r², max |r|).
    """
    norms = backend.reduction()
    total = largest = 0.0
    for (start, stop), part, r in _residuals(backend, discretisation, whole, u):
        part.norm(r, norms)
        squares, maximum = backend.read(norms)
        total, largest = total + squares, max(largest, maximum)
        if values is not None:
            values[start:stop] = backend.to_host(r)[part.operator.lattice.owned]
    return discretisation.total(total)[0], discretisation.largest(largest)[0]


def _residuals(
    backend: Backend, discretisation: Discretisation, whole: Operator, u: NDArray[Any]
) -> Iterator[tuple[tuple[int, int], Operations, Array]]:
    """The residual slab by slab: whole arrays in float64 may not fit where those of the run do.

    Yields `where`: the slab, as a range of the rows that are this process's own. Yields `part`: those of A on the slab
    and a halo of one row beside it. Yields `r`: the residual there, zero on the rows beside the slab.
    """
    if (surface := discretisation.surface) and surface.corrects:
        part, r = (
            with_surfaces(backend.bind(discretisation.operator_on(backend)), discretisation),
            backend.empty(whole.array_shape),
        )
        f = backend.assemble(whole.array_shape, discretisation.source)
        part.residual(backend.from_host(u), f, r)
        yield (0, whole.array_shape[0]), part, r
        return
    here = whole.lattice.axes[-1]
    first, count = here.first + here.owned.start, here.owned.stop - here.owned.start
    thickness = max(2, RESIDUAL_SLAB // math.prod(u.shape[1:]))
    starts = range(0, max(1, count - 1), thickness)
    for start, stop in zip(starts, (*starts[1:], count), strict=True):
        operator = discretisation.part_on(backend, whole, first + start, first + stop)
        slowest = operator.lattice.axes[-1]
        rows = (slowest.index - here.first) % here.undivided.nodes
        begin, f = slowest.owned.start, np.zeros(operator.array_shape)
        for low, high in slabs((stop - start, *u.shape[1:])):
            own = here.owned.start + start
            f[begin + low : begin + high] = discretisation.source(np, own + low, own + high)
        part, r = backend.bind(operator), backend.empty(operator.array_shape)
        part.residual(backend.from_host(u[rows]), backend.from_host(f), r)
        yield (start, stop), part, r


def with_surfaces(operations: Operations, discretisation: Discretisation) -> Operations:
    """The operations of A with the residual that the surfaces of bodies ask for, where there are any."""
    surface = discretisation.surface
    if surface is None or not surface.holds:
        return operations
    from poisson.solvers.surface import SurfaceOperations

    return SurfaceOperations.of(operations, surface)


def verdict(result: SolveResult, residual: float, rounded: Callable[[], bool], *, in_range: bool) -> Status:
    """How the solve ended, by the recomputed residual: that of the loop has rounding errors of the run's precision.

    A solve that estimates its error ends by that, whatever its residual. No other status than ``diverged`` goes with a
    value that is not finite, whatever the method says.

    `result`: how the method ended. `residual`: the norm of the recomputed residual, in U/L². `rounded`: whether that
    residual is at the rounding of u; asked only where it decides. `in_range`: whether the values at fixed nodes, which
    no residual shows, and the fields are finite.
    """
    if not (in_range and math.isfinite(residual) and math.isfinite(result.error or 0.0)):
        return Status.DIVERGED
    if result.error is not None or result.status is Status.INTERRUPTED:
        return result.status
    if residual <= result.target < math.inf:
        return Status.CONVERGED
    if result.status in (Status.CONVERGED, Status.AT_ROUNDING):
        vanished = residual <= VANISHED * max((norm for _, norm in result.history), default=0.0)
        return Status.AT_ROUNDING if vanished or rounded() else Status.STAGNATED
    return result.status
