# SPDX-License-Identifier: MIT
"""The method of a problem with open faces, set up around the one that solves in the box."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from poisson.backends.base import Operations
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.operator import Operator
from poisson.discrete.outflow import plane
from poisson.errors import CaseError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import FACE_NAMES
from poisson.mesh.placement import Nodes
from poisson.problem import sampling
from poisson.problem.problem import number
from poisson.run.setup import Setup
from poisson.solvers import registry
from poisson.solvers.convolution import KERNELS, Convolution, KernelSettings
from poisson.solvers.iteration import Method
from poisson.solvers.open_space import OpenSpace


def opened(setup: Setup) -> Method:
    """The method of a setup, with u on open faces from the charges inside; raises `CaseError` as `around` does."""
    if (kernel := setup.settings.of(KernelSettings).kernel) != KERNELS[0]:
        if setup.discretisation.share is not None:
            raise CaseError([f"run.ranks: several; allowed: 1 with solver.kernel = {kernel!r}"])
        return Convolution(setup.stand_in, kernel)
    direct = registry.method_of(setup.settings).direct
    return around(setup.stand_in, setup.method, setup.discretisation, direct)


def around(operations: Operations, method: Method, discretisation: Discretisation, direct: bool) -> OpenSpace:
    """A method that solves in the box, with u on open faces; `direct` as for `OpenSpace`.

    Raises `CaseError` if a or c is not the same at all nodes on open faces, or a body reaches one.
    """
    problem, operator = discretisation.problem, operations.operator
    block = tuple((0, count) for count in discretisation.array_shape)
    faces = list(sampling.open_faces(problem, block))
    if (cuts := problem.cuts) is not None:
        inside = cuts.inside.reshape(discretisation.array_shape)
        for face, where in faces:
            if inside[where].any():
                allowed = "a face that no body and no Dirichlet part of another face reaches"
                raise CaseError([f"boundary.{FACE_NAMES[face]}: open; allowed: {allowed}"])
    even = number(problem.a) is not None and number(problem.c) is not None
    if discretisation.share is not None and (not even or problem.bodies):
        raise CaseError(
            ["run.ranks: several; allowed: 1, because a face is open and a or c varies or there are bodies"]
        )
    far = replace(operator, lattice=operator.lattice.whole, coefficients=None)
    if operator.varies:
        far = beyond(discretisation, [face for face, _ in faces])
    # α alone is beyond the box as well.
    varies = operator.varies and not (even and operator.links is None and not operator.fixed)
    return OpenSpace(operations, method, far, problem.open_faces, direct, varies)


def beyond(discretisation: Discretisation, faces: list[int]) -> Operator:
    """The operator with the a and the c of the nodes on open faces, the same beyond them."""
    problem = discretisation.problem
    found: dict[str, Any] = {}
    for name, layers, field in (("a", 2, problem.a), ("c", 1, problem.c)):
        value = number(field)
        for face in faces if value is None else ():
            values = sampling.nodes(problem, np, f"equation.{name}", field, plane(discretisation, face, layers))  # type: ignore[arg-type]
            least, largest = float(values.min()), float(values.max())
            value = largest if value is None else value
            if max(largest, value) - min(least, value) > 1e-9 * max(largest, value):
                least, largest = min(least, value), max(largest, value)
                layer = "on open faces" if layers == 1 else "on open faces, and next to them"
                raise CaseError(
                    [f"equation.{name}: from {least:g} to {largest:g} at open faces; allowed: one value {layer}"]
                )
        found[name] = value
    far = replace(discretisation.laplacian, lattice=discretisation.whole_lattice, **found)
    axes = list(far.lattice.axes)  # in 1D one more than there are pairs of faces
    for axis, (lower, upper) in enumerate(zip(problem.faces[::2], problem.faces[1::2], strict=True)):
        line = axes[axis]
        alpha = [0.0 if face.alpha is None else (number(face.alpha) or 0.0) / far.a for face in (lower, upper)]
        if any(alpha):
            placed = Nodes(line.coordinates) if line.placement is None else line.placement
            axes[axis] = Axis.placed(type(placed)(placed.marks, (lower.kind, upper.kind), (alpha[0], alpha[1])))
    return replace(far, lattice=replace(far.lattice, axes=tuple(axes)))
