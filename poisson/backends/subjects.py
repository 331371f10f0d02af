# SPDX-License-Identifier: MIT
"""The subjects of operations, and those of them that a backend takes."""

from collections.abc import Container
from typing import Any

from poisson.errors import GridError
from poisson.mesh.lattice import Lattice

PARTS = ("operator", "fine", "coarse", "source", "target")
"""The fields of subjects that have operators, and so no lattice of their own."""


def require_plain(subject: Any, name: str, bound: Container[type]) -> None:
    """Refuse what the backend has no operations for, and parts of a lattice divided along x.

    `subject`: an operator or another stencil, or an object with operators in its fields `PARTS`. `name`: of the
    backend. `bound`: the types of the subjects that the backend has operations for. Raises `GridError`.
    """
    if type(subject) not in bound:
        raise GridError(f"the {name} backend has no stencils of 9 and 27 points yet: use run.backend = 'numpy'")
    for lattice in _lattices(subject):
        if lattice.axes[0].whole is not None:
            raise GridError(f"the {name} backend takes no grid that is divided along x: use run.backend = 'numpy'")


def _lattices(subject: Any) -> tuple[Lattice, ...]:
    """The lattices that the arrays of a subject lie on."""
    parts = [getattr(subject, name) for name in PARTS if hasattr(subject, name)]
    return tuple(part.lattice for part in parts or [subject])
