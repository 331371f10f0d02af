# SPDX-License-Identifier: MIT
"""From what a solve leaves on the backend to its solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import poisson
from poisson.case.settings import VECTORS
from poisson.errors import CaseError
from poisson.mesh.grid import AXES
from poisson.mesh.system import RADIUS
from poisson.output.parts import LARGE_BYTES
from poisson.output.record import CHARGE, FLUX, FORCES, ErrorNorms, all_finite, machine
from poisson.problem.arrays import brought
from poisson.problem.arrays import host as brought_to_host
from poisson.problem.expressions import Expression
from poisson.problem.fields import ArrayField, PartField
from poisson.run import certificate, result_fields
from poisson.run.solution import Solution
from poisson.solvers import registry
from poisson.solvers.rounding import at_rounding_in_norm
from poisson.solvers.spectrum import remove_mean
from poisson.solvers.status import Status
from poisson.solvers.surface import SurfaceOperations
from poisson.words import article

if TYPE_CHECKING:
    from poisson.backends.base import Array, Backend
    from poisson.discrete.discretisation import Discretisation
    from poisson.discrete.surface import Surface
    from poisson.problem.problem import Problem
    from poisson.run.ranks import Ranks
    from poisson.run.request import Request
    from poisson.run.setup import Setup
    from poisson.solvers.iteration import Iterate
    from poisson.solvers.stopping import SolveResult


class Solved(NamedTuple):
    """A solve whose method has ended."""

    problem: Problem
    discretisation: Discretisation
    result: SolveResult
    out: Any = None  # Where u is to be, in the shape of a solution.
    # How long what took, and how the solution comes about, as far as that is known.
    times: Mapping[str, float] = MappingProxyType({})
    origin: Mapping[str, str | int | float] = MappingProxyType({})
    stays: bool = False  # Whether u may stay on a device where it is written in runs.


class WithForces(Mapping[str, Any]):
    """How a solution comes about, with the forces on bodies, which are computed when they are asked for first.

    `known`: all but the forces. `surface`: of the problem, which has the data that were solved for. `u`: on all nodes.
    """

    def __init__(self, known: Mapping[str, Any], surface: Surface, problem: Problem, u: Any) -> None:
        self._known, self._given = known, (surface, problem, u)

    @cached_property
    def _all(self) -> Mapping[str, Any]:
        from poisson.discrete.forces import forces

        surface, problem, u = self._given
        found = forces(surface, problem, brought_to_host(u).reshape(surface.shape))
        parts = {
            f"force_{axis} of {name}": part
            for name, each in found.items()
            for axis, part in zip(
                AXES if problem.lattice.angle is not None else problem.lattice.names, each, strict=False
            )
            if axis != RADIUS  # around an axis what pushes outwards has no direction
        }
        return {**self._known, **parts}

    def __getitem__(self, key: str) -> Any:
        return (self._all if key.startswith(FORCES) else self._known)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._all,)


def finish(request: Request, setup: Setup, solved: Solved) -> Solution:
    """The solution, its residual recomputed in float64, with those of the fields asked for that there are."""
    problem, discretisation, result, _, times, origin, _ = solved
    names, ranks, stopping = request.fields, request.ranks, setup.stopping
    wanted = names and tuple(name for name in names if name != "error" or problem.exact is not None)
    backend, operator = setup.backend, setup.operator
    if operator.singular or wanted or result.norms is None:
        result = setup.left_over(result)
    if operator.singular and remove_mean(setup.operations, result.u, result.work, setup.norms):
        result = replace(result, norms=None)
    if operator.fixed and setup.settings.method == "multigrid":
        # Coarse grids interpolate to nodes of the mask as well.
        setup.clear_mask(result.u, discretisation.surface)
    u, result = _u(setup, ranks, solved, result)
    residual, norms = certificate.true_residual(setup, discretisation, result, keep="residual" in wanted)
    norm = stopping.measure(operator, norms)

    def rounded() -> bool:
        if operator.has_one_diagonal:
            correction = norms[1] / operator.diagonal
        else:
            correction = certificate.true_correction(setup, discretisation, setup.left_over(result))
        setup.operations.norm(result.u, setup.norms)
        return at_rounding_in_norm(norm, correction, backend.read(setup.norms)[1], backend.dtype, operator)

    if surface := discretisation.surface:
        origin = _of_bodies(setup, solved, result, u, surface)
    fields, error, in_range = (
        _fields(setup, solved, result, u, residual, wanted) if wanted or problem.exact else ({}, None, True)
    )
    in_range = in_range and stopping.boundary <= float(np.finfo(backend.dtype).max)
    status = certificate.verdict(result, norm, rounded, in_range=in_range)
    return Solution(
        problem=problem,
        u=u,
        status=status,
        iterations=result.iterations,
        norm=stopping.norm,
        residual=norm,
        target=result.target,
        history=result.history,
        fields=fields,
        error=error,
        error_bar=result.error,
        times=times,
        provenance=origin,
        share=ranks.held(problem.lattice.array_shape),
    )


def _of_bodies(setup: Setup, solved: Solved, result: SolveResult, u: Any, surface: Surface) -> Mapping[str, Any]:
    """How a solution comes about, with the charges, the flows and the forces of its bodies."""
    problem, discretisation, backend, operator = solved.problem, solved.discretisation, setup.backend, setup.operator
    origin = dict(solved.origin)
    if isinstance(setup.operations, SurfaceOperations):
        found = setup.operations.charges(result.u, setup.source, problem)
        totals = discretisation.total(*found.values())
        origin |= {f"{CHARGE}{name}": charge for name, charge in zip(found, totals, strict=True)}
    if surface.obstacles:
        with backend.ordered():
            values = backend.view(result.u) if backend.views else backend.to_host(result.u)
            found = surface.obstacles.flows_of(problem.bodies, values[operator.lattice.owned], discretisation.ranges)
        totals = discretisation.total(*found.values())
        origin |= {f"{FLUX}{name}": flow for name, flow in zip(found, totals, strict=True)}
    divided, every = operator.lattice.divided, (1,) * operator.dimension
    on_all = backend.sample(result.u, operator.lattice, every) if divided else u
    return WithForces(origin, surface, problem, on_all)


def _fields(
    setup: Setup,
    solved: Solved,
    result: SolveResult,
    u: Any,
    residual: NDArray[np.float64] | None,
    wanted: tuple[str, ...],
) -> tuple[dict[str, NDArray[Any]], ErrorNorms | None, bool]:
    """The fields that are wanted, the error if the exact solution is known, and whether all vectors are finite.

    `u`: the solution. `residual`: its residual, if that is wanted.
    """
    problem, discretisation = solved.problem, solved.discretisation
    backend, operator, shape = setup.backend, setup.operator, u.shape
    fields: dict[str, NDArray[Any]] = {}
    named, in_range = tuple(name for name in wanted if name in VECTORS), True
    if setup.differences is not None and named:
        fields |= result_fields.vectors(backend, setup.differences, discretisation, operator, result, named)
        beyond = sum(not all_finite(values) for values in fields.values())
        in_range = discretisation.total(float(beyond))[0] == 0.0
    if residual is not None:
        fields["residual"] = residual.reshape(shape)
    # A formula is evaluated where the loop ran; what a file, an array or a Python function gives, on the host.
    few = isinstance(u, np.ndarray) and u.size <= result_fields.FEW_OF_A_RESULT
    at_home = result_fields.Evaluation.on(setup.local, host=backend.on_host or not backend.views or few)
    host = result_fields.Evaluation.on(setup.local, host=True)
    error = None
    if problem.exact is not None:
        values = u if at_home.backend is None else backend.view(result.u)[operator.lattice.owned]
        error, difference = result_fields.error_of(discretisation, values, at_home, keep="error" in wanted)
        if difference is not None:
            fields["error"] = difference.reshape(shape)
    for name in wanted:
        if name not in fields:
            place = at_home if isinstance(getattr(problem, name), Expression) else host
            fields[name] = result_fields.scalar_field(name, discretisation, place).reshape(shape)
    return {name: fields[name] for name in wanted}, error, in_range


def unfinished(
    request: Request, setup: Setup, problem: Problem, origin: Mapping[str, str | int | float], iterate: Iterate
) -> Solution:
    """An iterate of a solve that goes on, as a solution: that of this process alone, or of all that have a part.

    `request`, `setup`: what is asked for, and what the solve works with. `problem`: what is solved. `origin`: how the
    solution comes about. `iterate`: the iterate.
    """
    ranks = request.ranks
    values = setup.backend.to_host(iterate.u())[setup.operator.lattice.owned]
    if iterate.factor != 1.0:
        values = values / iterate.factor
    return Solution(
        problem=problem,
        u=np.ascontiguousarray(values).reshape(values.shape[-problem.lattice.dimension :]),
        status=Status.UNFINISHED,
        iterations=iterate.iterations,
        norm=setup.stopping.norm,
        residual=iterate.history[-1][1] if iterate.history else math.nan,
        target=iterate.target,
        history=tuple(iterate.history),
        provenance=dict(origin) | {"method": setup.described_with(iterate.instead)},
        share=ranks.held(problem.lattice.array_shape) if ranks.division else None,
    )


def copy_of(backend: Backend, u: Array) -> Array:
    """A copy of an iterate."""
    kept = backend.empty(u.shape)
    backend.axpby(1.0, u, 0.0, kept)
    return kept


def copies(setup: Setup, problem: Problem, ranks: Ranks, out: Any) -> Callable[[Array], Array] | None:
    """Copies the iterate for its user (`Task.copy`), where that gets a copy of what the method leaves on a device."""
    backend, operator = setup.backend, setup.operator
    plain = out is None and not (ranks.division or operator.singular) and backend.views
    wanted = plain and backend.keeps(operator.array_shape) and _on_device(problem)
    return partial(copy_of, backend) if wanted else None


def _on_device(problem: Problem) -> bool:
    """Whether the source or the initial guess is an array on a device."""
    f, initial = problem.f, problem.initial
    return (isinstance(f, ArrayField) and f.on_device) or (isinstance(initial, ArrayField) and initial.on_device)


def _u(setup: Setup, ranks: Ranks, solved: Solved, result: SolveResult) -> tuple[Any, SolveResult]:
    """The solution of the grid's shape, or of that of this rank's part: on the device where the data were there.

    With the result that has it still.
    """
    backend, lattice, problem, out = setup.backend, setup.operator.lattice, solved.problem, solved.out
    if out is not None:
        if ranks.division:
            out[...] = backend.to_host(result.u)[lattice.owned].reshape(out.shape)
        else:
            backend.copy_to(result.u, out.reshape(result.u.shape) if out.ndim == 1 else out)
            backend.synchronize()
        return out, result
    large = math.prod(problem.lattice.array_shape) * backend.dtype.itemsize >= LARGE_BYTES
    there = backend.on_host or _on_device(problem) or (solved.stays and large)
    given = (problem.f, problem.initial)
    if ranks.division and any(isinstance(field, PartField) and field.on_devices for field in given):
        values = backend.view(result.u)[lattice.owned]
        local = setup.local.companion(backend.dtype)
        mine = local.view(local.empty(values.shape))
        with backend.ordered():
            mine[...] = values
        backend.synchronize()
        return mine.reshape(mine.shape[-problem.lattice.dimension :]), result
    if ranks.division or not (there and backend.views):
        values = backend.to_host(result.u)[lattice.owned]
        return np.ascontiguousarray(values).reshape(values.shape[-problem.lattice.dimension :]), result
    mine, result = setup.hand_over(result)
    if mine is None and result.copy is not None:
        mine = backend.view(result.copy)
    else:
        mine = backend.view(copy_of(backend, result.u)) if mine is None else mine
        # What the caller asks of a device runs beside what the backend does.
        backend.synchronize()
    shape = problem.lattice.array_shape
    return mine if mine.shape == shape else mine.reshape(shape), result


def provenance(setup: Setup, ranks: Ranks, started: datetime) -> dict[str, str | int | float]:
    """How a result comes about, if no other method goes on."""
    if not setup.origin:
        setup.origin = _origin(setup) | ranks.provenance()
    # In a forked process the device has fewer threads than it had.
    return setup.origin | {"device": setup.backend.device, "started": started.isoformat(timespec="seconds")}


def _origin(setup: Setup) -> dict[str, str | int | float]:
    """The common part of the origin of all solves with a set-up."""
    return {
        "version": poisson.__version__,
        **machine(),
        "numpy": np.__version__,
        "backend": setup.backend.name,
        "device": setup.backend.device,
        **({"instead_of": setup.local.instead_of} if setup.local.instead_of else {}),
        "precision": setup.precision,
        "method": setup.described,
        "reason": setup.choice.reason if setup.choice else "asked for",
        "loop": setup.settings.value("loop") if "loop" in registry.method_of(setup.settings).keys else "",
        "tuning": setup.operations.tuning(),
    }


def require_place(out: Any, ranks: Ranks, shape: tuple[int, ...], backend: Backend) -> None:
    """Refuse a place for u that does not fit.

    Raises CaseError with one line that says what is wrong.
    """
    held = ranks.held(shape)
    wanted = shape if held is None else tuple(stop - start for start, stop in held.ranges)
    on_device = not backend.on_host and not ranks.division and isinstance(out, backend.array_module.ndarray)
    if not (isinstance(out, np.ndarray) or on_device):
        found = article(type(out).__name__)
    elif out.shape != wanted or out.dtype != backend.dtype:
        found = f"an array of the shape {out.shape} and the type {out.dtype}"
    elif isinstance(out, np.ndarray) and not out.flags.writeable:
        found = "an array that is read-only"
    else:
        return
    kinds = "a NumPy array" if backend.on_host or ranks.division else "an array of NumPy, or on the device,"
    raise CaseError(f"out: {found}; allowed: {kinds} of the shape {wanted} and the type {backend.dtype}")


def apart(problem: Problem, out: Any, backend: Backend) -> Problem:
    """The problem with a copy of a source that u is to overwrite: the residual of u is certified from both.

    `problem`: the problem. `out`: where u is to be. `backend`: where it is solved.
    """
    f = problem.f
    if not isinstance(f, ArrayField) or (f.on_device and backend.on_host):
        return problem
    xp = backend.array_module
    values = brought(f.values, xp) if f.on_device else f.values
    if isinstance(values, np.ndarray) != isinstance(out, np.ndarray):
        return problem
    if not (np if isinstance(out, np.ndarray) else xp).may_share_memory(values, out):
        return problem
    return replace(problem, f=ArrayField(values.copy()))
