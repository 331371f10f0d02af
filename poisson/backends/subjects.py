# SPDX-License-Identifier: MIT
"""The subjects of operations, and those of them that a backend takes."""

from __future__ import annotations

from collections.abc import Container

from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.inverse import DividedInverse, Inverse
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.errors import GridError
from poisson.mesh.differences import Differences
from poisson.mesh.lattice import Lattice

Subject = (
    Operator
    | Transfer
    | Interpolation
    | Differences
    | FullStencil
    | StencilTransfer
    | Clusters
    | Inverse
    | DividedInverse
)
"""The types that `Backend.bind` takes."""


def require_plain(subject: Subject, name: str, bound: Container[type]) -> None:
    """Refuse what the backend has no operations for, and parts of a lattice divided along x.

    Parameters
    ----------
    subject : Subject
        What is bound.
    name : str
        The name of the backend.
    bound : container of type
        What it has operations for.

    Raises
    ------
    GridError
        If the backend does not take it.
    """
    if type(subject) not in bound:
        raise GridError(f"the {name} backend has no stencils of 9 and 27 points yet: use run.backend = 'numpy'")
    for lattice in _lattices(subject):
        if lattice.axes[0].whole is not None:
            raise GridError(f"the {name} backend takes no grid that is divided along x: use run.backend = 'numpy'")


def _lattices(subject: Subject) -> tuple[Lattice, ...]:
    """The lattices that the arrays of a subject lie on."""
    match subject:
        case Operator():
            return (subject.lattice,)
        case Transfer():
            return subject.fine.lattice, subject.coarse.lattice
        case Interpolation():
            return subject.source.lattice, subject.target.lattice
        case Differences():
            return (subject.lattice,)
        case Inverse() | DividedInverse():
            return (subject.operator.lattice,)
        case _:
            return ()
