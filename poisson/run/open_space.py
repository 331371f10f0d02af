# SPDX-License-Identifier: MIT
"""The method of a problem with open faces, set up around the one that solves in the box."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Operations
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.mask import parts
from poisson.discrete.operator import Operator
from poisson.discrete.outflow import plane
from poisson.discrete.radial_fields import goes_outwards
from poisson.errors import CaseError
from poisson.mesh.axis import Axis
from poisson.mesh.placement import Nodes
from poisson.problem import sampling
from poisson.problem.problem import Problem, number
from poisson.problem.sampling import Block
from poisson.run.memory import require_faces
from poisson.run.setup import Setup
from poisson.solvers import registry
from poisson.solvers.convolution import KERNELS, Convolution, KernelSettings
from poisson.solvers.iteration import Method
from poisson.solvers.open_space import OpenSpace


def opened(setup: Setup) -> Method:
    """The method of a setup, with u on open faces from the charges inside; raises `CaseError` as `around` does."""
    if (kernel := setup.settings.of(KernelSettings).kernel) != KERNELS[0]:
        return Convolution(setup.stand_in, [face.kind for face in setup.discretisation.problem.faces], kernel)
    direct = registry.method_of(setup.settings).direct
    return around(setup.stand_in, setup.method, setup.discretisation, direct)


def around(operations: Operations, method: Method, discretisation: Discretisation, direct: bool) -> OpenSpace:
    """A method that solves in the box, with u on open faces; `direct` as for `OpenSpace`.

    Raises `CaseError` if a or c is not the same at all nodes on open faces, or a body reaches one, and `ResourceError`
    if the matrix that there is where a radius is open does not fit into memory.
    """
    problem, operator = discretisation.problem, operations.operator
    shape = discretisation.whole_lattice.array_shape
    faces = list(sampling.open_faces(problem, tuple((0, count) for count in shape)))
    if (cuts := problem.cuts) is not None:
        inside = cuts.inside.reshape(shape)
        for face, where in faces:
            if inside[where].any():
                raise reached(problem, face)
        _require_far(discretisation, [face for face, _ in faces])
        _require_held(discretisation)
    far = replace(operator, lattice=operator.lattice.whole, coefficients=None)
    if operator.varies:
        far = beyond(discretisation, [face for face, _ in faces])
    opened = [face for face, _ in faces]
    if goes_outwards(far, opened) and far.lattice.angle is None:
        require_faces(operations.backend, sum(far.shape[1 - face // 2] for face in opened))
    # Numbers, and α among them, are beyond the box as well.
    numbers = [problem.a, problem.c, *(face.alpha for face in problem.faces if face.alpha is not None)]
    varies = operator.varies and (bool(problem.bodies) or any(number(each) is None for each in numbers))
    return OpenSpace(operations, method, far, problem.open_faces, direct, varies)


def reached(problem: Problem, face: int) -> CaseError:
    """The error of an open face that a body reaches."""
    allowed = "a face that no body and no Dirichlet part of another face reaches"
    return CaseError(f"boundary.{problem.lattice.faces[face]}: open; allowed: {allowed}")


def _require_far(discretisation: Discretisation, faces: list[int]) -> None:
    """Refuse dielectrics and obstacles on open faces, and next to them, whose links go on beyond as those there are."""
    from poisson.problem.bodies import HELD, keys_of
    from poisson.problem.surfaces import Level

    problem, blocks = discretisation.problem, [plane(replace(discretisation, share=None), face, 2) for face in faces]
    for position, body in enumerate(problem.bodies, start=1):
        if body.kind in HELD:
            continue
        level = Level(problem.lattice, keys_of(body, position)[0], body.inside)
        for face, block in zip(faces, blocks, strict=True):
            own = tuple(slice(0, stop - start) for start, stop in block)
            if (level.nodes(block)[own] <= 0.0).any():
                raise reached(problem, face)


def _require_held(discretisation: Discretisation) -> None:
    """Refuse obstacles that part the open ends of one axis, beyond which u falls or rises without end.

    By the convention of −|x| / 2a half of the charges is seen from each end. A part that only one end belongs to, and
    that nothing else holds, is seen from there as a whole, and its constant is not defined.
    """
    problem, surface = discretisation.problem, discretisation.surface
    axes = {face // 2 for face, is_open in enumerate(problem.open_faces) if is_open}
    if surface is None or surface.obstacles is None or len(axes) > 1 or not discretisation.absorbs_nowhere:
        return
    [axis] = axes
    lattice = surface.lattice
    opened = [each.positive().reshape(surface.shape) for each in surface.obstacles.links]
    opened += [np.ones(surface.shape, dtype=bool)] * (len(surface.shape) - len(opened))
    labels = parts(Operator(lattice), opened, ~surface.volumes.positive() | (surface.cuts.inside > 0))
    held = set(labels.ravel()[surface.cuts.node].tolist())
    for face, given in enumerate(problem.faces):
        if given.kind.fixes and given.kind.has_data:
            held |= set(labels[lattice.face(face)].ravel().tolist())
    ends = [set(labels[lattice.face(2 * axis + end)].ravel().tolist()) for end in (0, 1)]
    for end in (0, 1):
        face, other = 2 * axis + end, problem.faces[2 * axis + 1 - end]
        if problem.open_faces[face] and not ends[end] & held and not ends[0] & ends[1] and other.kind.fixes:
            raise CaseError(
                f"boundary.{problem.lattice.faces[face]}: open; allowed: a face that obstacles do not part from what "
                "holds u and from the other end, as nothing says what u is there"
            )


def beyond(discretisation: Discretisation, faces: list[int]) -> Operator:
    """The operator with the a, the c and the α of the nodes on open faces, the same beyond them."""
    problem, whole = discretisation.problem, replace(discretisation, share=None)
    found: dict[str, Any] = {}
    for name, layers, where in (("a", 2, "on open faces, and next to them"), ("c", 1, "on open faces")):
        field: Any = getattr(problem, name)
        sample = partial(sampling.nodes, problem, np, f"equation.{name}", field)
        blocks = [plane(whole, face, layers) for face in faces]
        found[name] = _one_value(discretisation, f"equation.{name}", field, blocks, sample, where)
    far = replace(discretisation.laplacian, lattice=discretisation.whole_lattice, **found)
    axes = list(far.lattice.axes)  # in 1D one more than there are pairs of faces
    alpha = [0.0] * len(problem.faces)
    for face, given in enumerate(problem.faces):
        if given.alpha is not None:
            key, sample = (
                f"boundary.{problem.lattice.faces[face]}.alpha",
                partial(sampling.face_alpha, problem, np, face),
            )
            edges = [plane(whole, other, 1) for other in faces]
            alpha[face] = _one_value(discretisation, key, given.alpha, edges, sample, "on open faces") / far.a
    for axis, (lower, upper) in enumerate(zip(problem.faces[::2], problem.faces[1::2], strict=True)):
        line, (low, high) = axes[axis], alpha[2 * axis : 2 * axis + 2]
        if low or high:
            placed = Nodes(line.coordinates) if line.placement is None else line.placement
            axes[axis] = Axis.placed(type(placed)(placed.marks, (lower.kind, upper.kind), (low, high), placed.power))
    return replace(far, lattice=replace(far.lattice, axes=tuple(axes)))


def _one_value(
    discretisation: Discretisation,
    key: str,
    field: Any,
    blocks: Sequence[Block],
    sample: Callable[[Block], NDArray[np.float64]],
    where: str,
) -> float:
    """The value of a coefficient in blocks of the grid, whichever rank has them; `CaseError` if there are two."""
    value = number(field)
    for block in blocks if value is None else ():
        pairs = zip(block, discretisation.ranges, strict=True)
        own = tuple((max(one[0], other[0]), min(one[1], other[1])) for one, other in pairs)
        least, largest = np.inf, -np.inf
        with discretisation.agreed():
            if all(start < stop for start, stop in own):
                values = sample(own)
                least, largest = float(values.min()), float(values.max())
        least, largest = discretisation.largest(-least, largest)
        value = largest if value is None else value
        least, largest = min(-least, value), max(largest, value)
        if largest - least > 1e-9 * largest:
            raise CaseError(f"{key}: from {least:g} to {largest:g} at open faces; allowed: one value {where}")
    assert value is not None
    return value
