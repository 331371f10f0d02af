# SPDX-License-Identifier: MIT
"""Conditions on the faces of the box.

Where Dirichlet faces meet at an edge or a corner, the face that stands first in `FACE_NAMES` gives the value: x before
y before z, lower before upper. Where a Dirichlet face meets a Neumann or a Robin face, the node is a Dirichlet node.
Where Neumann and Robin faces meet, each adds its own terms.
"""

from dataclasses import dataclass, field
from typing import Any

from poisson.errors import CaseError
from poisson.mesh.boundary import Kind
from poisson.mesh.grid import AXES
from poisson.mesh.system import faces_of
from poisson.problem.expressions import Expression
from poisson.problem.fields import ArrayField, CoarserField, FieldFile, FunctionField

FaceData = Expression | FunctionField | ArrayField | FieldFile | CoarserField
"""A function on a face. An array, also one in a file, has one value for each of its nodes, in the order of the grid's
arrays: ``(ny,)`` on an x face in 2D, ``(nz, nx)`` on a y face in 3D."""


@dataclass(frozen=True)
class Face:
    """The condition on one face.

    `kind`: ``u = g`` (Dirichlet, g in U), ``a ∂u/∂n = g`` with the outward normal (Neumann, g in U/L), ``a ∂u/∂n + αu =
    g`` (Robin, g in U/L), periodic, open, with nothing beyond it, or at r = 0 the axis. `value`: g on the face; needed
    but in the last three. `alpha`: α ≥ 0 in 1/L on the face; needed on a Robin face, and only there.
    `patched`: whether the data are those of the parts of a face.
    """

    kind: Kind
    value: FaceData | None = None
    alpha: FaceData | None = None
    patched: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if (self.value is None) == self.kind.has_data:
            raise ValueError("a face needs a value, unless it is periodic, open or the axis; then it has none")
        if (self.alpha is not None) != self.kind.takes_alpha:
            raise ValueError("a Robin face needs alpha, and no other has one")

    @property
    def absorbs(self) -> bool:
        """Whether α may be other than zero: it is not known to be before it is computed."""
        return may_absorb(self.alpha)

    @property
    def lasts(self) -> bool:
        """Whether the data are the same at every time."""
        return self.value is None or isinstance(self.value, Expression)


def may_absorb(alpha: Any) -> bool:
    """Whether α, of a face or a body, may be other than zero."""
    if isinstance(alpha, Expression) and alpha.is_constant:
        return alpha.value != 0.0
    return alpha is not None


def face_shape(nodes: tuple[int, ...], face: int) -> tuple[int, ...]:
    """The shape of an array on a face of a grid with so many nodes along x(, y(, z)): the grid's without one axis."""
    return tuple(nodes[axis] for axis in _across(nodes, face))


def require_on_face(data: FaceData | None, nodes: tuple[int, ...], face: int, axes: tuple[str, ...] = AXES) -> None:
    """Refuse an array, or a file with one, that has not one value for each node of a face across one of these axes.

    Raises CaseError with one line that says what is wrong, and not where.
    """
    if not isinstance(data, (ArrayField, FieldFile)):
        return
    if len(nodes) == 1:
        given = "a file" if isinstance(data, FieldFile) else f"an array of the shape {data.shape}"
        raise CaseError(f"{given}; allowed: a number, because the face is one node")
    along = [axes[axis] for axis in reversed(_across(nodes, face))]
    data.check(face_shape(nodes, face), f"the face {faces_of(axes)[face]}", along)


def _across(nodes: tuple[int, ...], face: int) -> list[int]:
    """The axes along a face, in the order of those of an array."""
    return [axis for axis in reversed(range(len(nodes))) if axis != face // 2]
