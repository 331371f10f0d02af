"""The mathematical problem: equation, grid, faces, and the exact solution where it is known."""

from __future__ import annotations

from dataclasses import dataclass, field

from poisson.boundary import FACE_NAMES, Face, Kind
from poisson.expressions import Expression
from poisson.fields import FieldFile
from poisson.grid import AXES, Grid

EQUATION = "-div(a grad u) + c u = f, a = 1"
"""The equation with its sign, as every log and output file states it."""

NodeField = Expression | FieldFile
"""A function given at every node: by a text (or a number), or by a file."""


@dataclass(frozen=True)
class Problem:
    """−∇²u + c u = f on a box, with a condition on each face.

    Parameters
    ----------
    grid : Grid
        The nodes.
    faces : tuple of Face
        One for each face, in the order of `boundary.FACE_NAMES`.
    f : Expression or FieldFile
        The source, in U/L².
    c : float
        The reaction coefficient, ≥ 0, in 1/L².
    initial : Expression or FieldFile
        The initial guess, in U. Dirichlet nodes take their boundary values instead.
    exact : Expression, optional
        The exact solution, in U, if it is known.
    title : str
        A name for people.
    """

    grid: Grid
    faces: tuple[Face, ...]
    f: NodeField
    c: float = 0.0
    initial: NodeField = field(default_factory=lambda: Expression.constant(0.0))
    exact: Expression | None = None
    title: str = ""

    def __post_init__(self) -> None:
        if len(self.faces) != 2 * self.grid.dimension:
            raise ValueError(f"{2 * self.grid.dimension} faces are needed, {len(self.faces)} are given")
        if not self.c >= 0.0:
            raise ValueError(f"c = {self.c}; it must be >= 0")
        for axis, wraps in enumerate(self.grid.periodic):
            kinds = {self.faces[2 * axis].kind, self.faces[2 * axis + 1].kind}
            if (Kind.PERIODIC in kinds) != wraps or (wraps and len(kinds) > 1):
                raise ValueError(f"the {AXES[axis]} faces and the grid do not agree on whether the axis is periodic")

    @property
    def singular(self) -> bool:
        """Whether u is determined only up to a constant: no Dirichlet face anywhere, and c = 0."""
        return self.c == 0.0 and all(face.kind is not Kind.DIRICHLET for face in self.faces)


def manufactured_source(exact: Expression, c: float, dimension: int) -> Expression:
    """f = −∇²u + c u of the exact solution u, derived symbolically."""
    source = exact * c
    for name in AXES[:dimension]:
        source = source - exact.derivative(name).derivative(name)
    return source


def manufactured_value(exact: Expression, kind: Kind, face: int) -> Expression:
    """Boundary data of the exact solution on a face: u itself, or its outward normal derivative."""
    if kind is Kind.DIRICHLET:
        return exact
    derivative = exact.derivative(AXES[face // 2])
    return derivative if FACE_NAMES[face].endswith("upper") else -derivative
