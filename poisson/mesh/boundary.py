# SPDX-License-Identifier: MIT
"""The faces of the box: their names, the kinds of condition, and how a stencil finds a neighbour across each."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Literal, get_args

FaceName = Literal["x_lower", "x_upper", "y_lower", "y_upper", "z_lower", "z_upper"]

FACE_NAMES: tuple[FaceName, ...] = get_args(FaceName)


class Rule(IntEnum):
    """How a stencil finds the neighbour that lies across a face. The values are part of the kernels' interface."""

    FIXED = 0
    """The node on the face is not updated, so it needs no neighbour (Dirichlet, and open)."""
    MIRROR = 1
    """The neighbour is the first inner node (Neumann and Robin; the data are in the source and in c)."""
    WRAP = 2
    """The neighbour is the node at the other end (periodic)."""
    HALO = 3
    """The node belongs to another process: read, not counted, not zeroed. Its neighbour beyond is not here, so what an
    operation with neighbours leaves at it has no meaning."""

    # That of an enumeration runs Python code, four times and more for every operator that is looked up.
    __hash__ = int.__hash__


@dataclass(frozen=True)
class _Traits:
    rule: Rule
    meaning: str = ""
    exact: str = ""
    alpha: bool = False


class Kind(Enum):
    """The kind of condition on a face: its word in a case and, in `_TRAITS`, what everything else follows from."""

    DIRICHLET = "dirichlet"
    NEUMANN = "neumann"
    ROBIN = "robin"
    PERIODIC = "periodic"
    OPEN = "open"
    AXIS = "axis"
    """The end r = 0 of a radius, which is no face: nothing flows there."""

    @property
    def rule(self) -> Rule:
        """How the operator goes on beyond the face."""
        return _TRAITS[self].rule

    @property
    def leads_out(self) -> bool:
        """Whether something can flow out through it."""
        return not self.wraps and self is not Kind.AXIS

    @property
    def wraps(self) -> bool:
        """Whether the face belongs to a pair, each of which goes on in the other."""
        return self.rule is Rule.WRAP

    @property
    def has_data(self) -> bool:
        """Whether data are given with it."""
        return bool(self.meaning)

    @property
    def fixes(self) -> bool:
        """Whether u is fixed at the nodes on it: by its data, or on an open face by the field of the charges inside."""
        return self.rule is Rule.FIXED

    @property
    def takes_alpha(self) -> bool:
        """Whether its data are flows less α u, so that α is given beside them."""
        return _TRAITS[self].alpha

    @property
    def meaning(self) -> str:
        """The condition that its data g stand in, in words."""
        return _TRAITS[self].meaning

    @property
    def exact(self) -> str:
        """The data that "exact" stands for, in words."""
        return _TRAITS[self].exact


_TRAITS = {
    Kind.DIRICHLET: _Traits(Rule.FIXED, "u = g on the face", "the value of equation.exact"),
    Kind.NEUMANN: _Traits(Rule.MIRROR, "a du/dn = g: the flux into the box", "the flux of equation.exact"),
    Kind.ROBIN: _Traits(
        Rule.MIRROR, "a du/dn + alpha u = g", "the value that equation.exact and alpha give", alpha=True
    ),
    Kind.PERIODIC: _Traits(Rule.WRAP),
    Kind.OPEN: _Traits(Rule.FIXED),
    Kind.AXIS: _Traits(Rule.MIRROR),
}

CONDITIONS = tuple(kind for kind in Kind if kind.has_data)
"""The kinds that have data, and so a table of their own for each face."""


def _listed(kinds: Iterable[Kind]) -> str:
    *others, last = (kind.value for kind in kinds)
    return f"{', '.join(others)} and {last}" if others else last


TABLES = " or ".join(
    ", ".join(f"{{ {kind.value} = ...{', alpha = ...' * kind.takes_alpha} }}" for kind in kinds)
    for kinds in (CONDITIONS[:-1], CONDITIONS[-1:])
)
"""The tables of conditions as a case file has them."""

ONE_CONDITION = f"one of {_listed(CONDITIONS)}, and alpha with {_listed(k for k in CONDITIONS if k.takes_alpha)}"
"""The allowed contents of the table of a face, in words."""
