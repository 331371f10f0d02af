"""Conditions on the faces of the box, and the rule by which a stencil finds a neighbour across each.

Where Dirichlet faces meet at an edge or a corner, the face that stands first in `FACE_NAMES` gives the value: x before
y before z, lower before upper. Where a Dirichlet face meets a Neumann or a Robin face, the node is a Dirichlet node.
Where Neumann and Robin faces meet, each adds its own terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from poisson.expressions import Expression
from poisson.fields import ArrayField, FunctionField

FaceData = Expression | FunctionField | ArrayField
"""A function on a face. An array has one value for each of its nodes, in the order of the grid's arrays: ``(ny,)`` on
an x face in 2D, ``(nz, nx)`` on a y face in 3D."""

FACE_NAMES = ("x_lower", "x_upper", "y_lower", "y_upper", "z_lower", "z_upper")


class Rule(IntEnum):
    """How a stencil finds the neighbour that lies across a face. The values are part of the kernels' interface."""

    FIXED = 0
    """The node on the face is not updated, so it needs no neighbour (Dirichlet)."""
    MIRROR = 1
    """The neighbour is the first inner node (Neumann and Robin; the data are in the source and in c)."""
    WRAP = 2
    """The neighbour is the node at the other end (periodic)."""

    # That of an enumeration runs Python code, four times and more for every operator that is looked up.
    __hash__ = int.__hash__


class Kind(Enum):
    """The kind of condition on a face."""

    DIRICHLET = "dirichlet"
    NEUMANN = "neumann"
    ROBIN = "robin"
    PERIODIC = "periodic"

    @property
    def rule(self) -> Rule:
        return _RULES[self]


_RULES = {
    Kind.DIRICHLET: Rule.FIXED,
    Kind.NEUMANN: Rule.MIRROR,
    Kind.ROBIN: Rule.MIRROR,
    Kind.PERIODIC: Rule.WRAP,
}


@dataclass(frozen=True)
class Face:
    """The condition on one face.

    Parameters
    ----------
    kind : Kind
        ``u = g`` (Dirichlet, g in U), ``a ∂u/∂n = g`` with the outward normal (Neumann, g in U/L), ``a ∂u/∂n + αu = g``
        (Robin, g in U/L) or periodic.
    value : Expression, FunctionField or ArrayField, optional
        g on the face; needed unless the face is periodic.
    alpha : as `value`, optional
        α ≥ 0 in 1/L on the face; needed on a Robin face, and only there.
    """

    kind: Kind
    value: FaceData | None = None
    alpha: FaceData | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.kind is Kind.PERIODIC):
            raise ValueError("a face needs a value, unless it is periodic; then it has none")
        if (self.alpha is None) != (self.kind is not Kind.ROBIN):
            raise ValueError("a Robin face needs alpha, and no other has one")

    @property
    def absorbs(self) -> bool:
        """Whether α may be other than zero: it is not known to be before it is computed."""
        if isinstance(self.alpha, Expression) and self.alpha.is_constant:
            return self.alpha.value != 0.0
        return self.alpha is not None
