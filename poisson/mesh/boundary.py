"""The faces of the box: their names, the kinds of condition, and how a stencil finds a neighbour across each."""

from __future__ import annotations

from enum import Enum, IntEnum

FACE_NAMES = ("x_lower", "x_upper", "y_lower", "y_upper", "z_lower", "z_upper")


class Rule(IntEnum):
    """How a stencil finds the neighbour that lies across a face. The values are part of the kernels' interface."""

    FIXED = 0
    """The node on the face is not updated, so it needs no neighbour (Dirichlet)."""
    MIRROR = 1
    """The neighbour is the first inner node (Neumann and Robin; the data are in the source and in c)."""
    WRAP = 2
    """The neighbour is the node at the other end (periodic)."""
    HALO = 3
    """The node belongs to another process: read, not counted, not zeroed. Its neighbour beyond is not here."""

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
