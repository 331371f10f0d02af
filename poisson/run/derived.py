# SPDX-License-Identifier: MIT
"""Quantities derived from a solution: derivatives, values between nodes, and fluxes through the faces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson import backends
from poisson.backends.base import Backend
from poisson.case.settings import VECTORS
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.outflow import outflow
from poisson.errors import BackendUnavailable, CaseError, GridError
from poisson.mesh.differences import Differences
from poisson.mesh.interpolation import interpolate
from poisson.output.record import all_finite
from poisson.problem.arrays import on_device
from poisson.run import result_fields
from poisson.solvers.stopping import SolveResult

if TYPE_CHECKING:
    from poisson.run.solution import Solution


def vector(solution: Solution, name: str) -> NDArray[Any]:
    """``gradient`` or ``flux`` of a solution, by the differences of second order, on a processor of this machine.

    Raises CaseError if this process has a part of u only, or a value is beyond the range of the type of u.
    """
    _require_whole(solution, name, f"ask for {name!r} before the solve, with fields=({name!r},)")
    u, problem = solution.host_u, solution.problem
    discretisation = Discretisation(problem)
    backend = _processor(u.dtype)
    with backend.in_use(), np.errstate(all="ignore"):
        links = name == "flux" and problem.varies
        operator = discretisation.operator_on(backend) if links else discretisation.laplacian
        on_backend = backend.from_host(np.ascontiguousarray(u).reshape(discretisation.array_shape))
        work = backend.empty(discretisation.array_shape)
        result = SolveResult(solution.status, solution.iterations, on_backend, work, solution.target, ())
        found = result_fields.vectors(
            backend, Differences(problem.lattice.of_arrays), discretisation, operator, result, (name,)
        )
    if all_finite(u) and not all_finite(found[name]):
        beyond = f"a value is beyond the range of {u.dtype}"
        raise CaseError(f"{name}: {beyond}: solve with precision='float64', or in other units")
    return found[name]


def at(solution: Solution, points: Sequence[Any], field: str) -> Any:
    """A field at points, a number where they are one point and the field is no vector.

    Raises CaseError if there is no such field, or this process has a part of it only, and GridError if a point is
    outside of the box, or the coordinates do not fit.
    """
    _require_whole(solution, "at", "save the solution and load the file")
    if field == "u":
        values = solution.host_u if on_device(solution.u) else solution.u
    elif field in solution.fields:
        values = solution.fields[field]
    elif field in VECTORS:
        values = getattr(solution, field)
    else:
        known = dict.fromkeys(["u", *solution.fields, *VECTORS])
        raise CaseError(f"the solution has no field {field!r}; its fields are {', '.join(known)}")
    try:
        found = interpolate(solution.problem.lattice, values, points)
    except GridError:
        if field not in ("u", "gradient", "E") or not solution.problem.open_faces:
            raise
        from poisson.run.beyond import at_points

        found = at_points(solution, points, np.asarray(values), field)
    return found if found.ndim else found.item()


def face_flux(solution: Solution, face: str) -> float:
    """The flux out of the box through a face.

    Raises CaseError if there is no such face, or its axis is periodic, or this process has a part of u only.
    """
    known = faces(solution)
    if face not in known:
        through = ", ".join(known) or "none, because every axis is periodic"
        raise CaseError(f"face: {face!r}; allowed: {through}")
    _require_whole(solution, "face_flux", "save the solution and load the file")
    discretisation = balanced(Discretisation(solution.problem), np)
    return outflow(discretisation, solution.host_u, solution.problem.lattice.faces.index(face))


def faces(solution: Solution) -> tuple[str, ...]:
    """The names of the faces that something can leave through."""
    pairs = zip(solution.problem.lattice.faces, solution.problem.faces, strict=True)
    return tuple(name for name, given in pairs if given.kind.leads_out)


def _require_whole(solution: Solution, name: str, advice: str) -> None:
    if solution.u.shape != solution.problem.lattice.array_shape:
        raise CaseError(f"{name}: each process has a part of u; {advice}")


def _processor(dtype: Any) -> Backend:
    """The fastest backend that there is on the processors."""
    try:
        return backends.create("openmp", dtype)
    except BackendUnavailable:
        return backends.create("numpy", dtype)
