"""Conditions on the faces of the box, and the rule by which a stencil finds a neighbour across each.

Where Dirichlet faces meet at an edge or a corner, the face that stands first in `FACE_NAMES` gives the value: x before
y before z, lower before upper. Where a Dirichlet face meets a Neumann face, the node is a Dirichlet node. Where Neumann
faces meet, each adds its own term.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from poisson.expressions import Expression

FACE_NAMES = ("x_lower", "x_upper", "y_lower", "y_upper", "z_lower", "z_upper")


class Rule(IntEnum):
    """How a stencil finds the neighbour that lies across a face. The values are part of the kernels' interface."""

    FIXED = 0
    """The node on the face is not updated, so it needs no neighbour (Dirichlet)."""
    MIRROR = 1
    """The neighbour is the first inner node (Neumann; the data are in the source)."""
    WRAP = 2
    """The neighbour is the node at the other end (periodic)."""


class Kind(Enum):
    """The kind of condition on a face."""

    DIRICHLET = "dirichlet"
    NEUMANN = "neumann"
    PERIODIC = "periodic"

    @property
    def rule(self) -> Rule:
        return _RULES[self]


_RULES = {Kind.DIRICHLET: Rule.FIXED, Kind.NEUMANN: Rule.MIRROR, Kind.PERIODIC: Rule.WRAP}


@dataclass(frozen=True)
class Face:
    """The condition on one face.

    Parameters
    ----------
    kind : Kind
        ``u = g`` (Dirichlet, g in U), ``∂u/∂n = g`` with the outward normal (Neumann, g in U/L) or periodic.
    value : Expression, optional
        g as a function of the coordinates; needed unless the face is periodic.
    """

    kind: Kind
    value: Expression | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.kind is Kind.PERIODIC):
            raise ValueError("a Dirichlet or Neumann face needs a value, a periodic one has none")
