"""Axes of every kind with every pair of ends, and what the operator along them is, written down anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.placement import Cells, Nodes, Placement

D, N, R, P = Kind.DIRICHLET, Kind.NEUMANN, Kind.ROBIN, Kind.PERIODIC
ENDS = ((P, P), *((lower, upper) for lower in (D, N, R) for upper in (D, N, R)))
ALPHA = (0.7, 2.3)

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """An axis of some kind, and what it should be.

    Parameters
    ----------
    name : str
        For the test's name.
    axis : Axis
        The axis.
    matrix : array of shape (n, n)
        −d²/dx² on its nodes, in 1/L²; zero rows at fixed nodes.
    widths : array of shape (n,)
        The control widths, in L.
    """

    name: str
    axis: Axis
    matrix: Matrix
    widths: NDArray[np.float64]


def marks(count: int, kind: type[Placement] = Nodes) -> list[float]:
    """So many places from −0.5 on, unevenly apart by up to a factor of two."""
    return [-0.5 + (n + 0.3 * np.sin(1.7 * n + (kind is Cells)) + 0.01 * n * n) / 10 for n in range(count)]


def placement(kind: type[Placement], ends: tuple[Kind, Kind], nodes: int) -> Placement:
    """A placement of so many nodes."""
    alpha = tuple(value if end is R else 0.0 for end, value in zip(ends, ALPHA, strict=True))
    extra = kind is Cells or ends[0] is P
    return kind(marks(nodes + extra, kind), ends, (alpha[0], alpha[1]))  # type: ignore[call-arg]


def example(kind: type[Placement], ends: tuple[Kind, Kind], nodes: int) -> Example:
    """An axis of a kind, balanced control width by control width."""
    placed = placement(kind, ends, nodes)
    x, faces = placed.points, placed.marks
    wraps, cells = ends[0] is P, kind is Cells
    flows, widths = np.zeros((nodes, nodes)), np.zeros(nodes)
    for i in range(nodes if wraps else nodes - 1):
        j = (i + 1) % nodes
        gap = x[j] - x[i] if j else faces[-1] - x[i] + x[0] - faces[0]
        for one, other in ((i, j), (j, i)):
            flows[one, one] += 1.0 / gap
            flows[one, other] -= 1.0 / gap
            widths[one] += gap / 2.0
    if cells:
        widths = np.diff(faces)
    for node, end, alpha in zip((0, -1), ends, ALPHA, strict=True):
        half = widths[node] / 2.0 if cells else 0.0
        if end is R:
            flows[node, node] += 1.0 / (1.0 / alpha + half)
        if end is D and cells:
            flows[node, node] += 1.0 / half
        if end is D and not cells:
            flows[node] = 0.0
            widths[node] *= 2.0
    name = "".join(end.name[0] for end in ends)
    return Example(f"{kind.__name__}-{name}-{nodes}", Axis.placed(placed), flows / widths[:, None], widths)


def examples(*sizes: int) -> list[Example]:
    """Axes of both kinds with every pair of ends."""
    return [example(kind, ends, nodes) for nodes in sizes for kind in (Nodes, Cells) for ends in ENDS]


def fixed_nodes(axis: Axis) -> list[int]:
    return [node for node, rule in zip((0, axis.nodes - 1), axis.rules, strict=True) if rule is Rule.FIXED]
