# SPDX-License-Identifier: MIT
"""Axes of every kind with every pair of ends, and what the operator along them is, written down anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.placement import Cells, Nodes, Placement

D, N, R, P, OPEN = Kind.DIRICHLET, Kind.NEUMANN, Kind.ROBIN, Kind.PERIODIC, Kind.OPEN
ENDS = ((P, P), *((lower, upper) for lower in (D, N, R) for upper in (D, N, R)))
ALPHA = (0.7, 2.3)

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """An axis of some kind, and what it should be.

    `name`: for the test's name. `matrix` (array of shape (n, n)): −d²/dx² on its nodes, in 1/L²; zero rows at fixed
    nodes. `widths` (array of shape (n,)): the control widths, in L. `with_links`: the matrix of −d/dx a d/dx, for
    values of a on the links laid out as `Coefficients.links` is; a wall takes that of the link beside it.
    """

    name: str
    axis: Axis
    matrix: Matrix
    widths: NDArray[np.float64]
    with_links: Callable[[Matrix], Matrix]


def marks(count: int, kind: type[Placement] = Nodes) -> list[float]:
    """Places from −0.5 on, as many as asked for, unevenly apart by up to a factor of two."""
    return [-0.5 + (n + 0.3 * np.sin(1.7 * n + (issubclass(kind, Cells))) + 0.01 * n * n) / 10 for n in range(count)]


def placement(kind: type[Placement], ends: tuple[Kind, Kind], nodes: int) -> Placement:
    """A placement of so many nodes."""
    alpha = tuple(value if end is R else 0.0 for end, value in zip(ends, ALPHA, strict=True))
    extra = issubclass(kind, Cells) or ends[0] is P
    return kind(marks(nodes + extra, kind), ends, (alpha[0], alpha[1]))  # type: ignore[call-arg]


def example(kind: type[Placement], ends: tuple[Kind, Kind], nodes: int) -> Example:
    """An axis of a kind, balanced control width by control width."""
    placed = placement(kind, ends, nodes)
    return _balanced(issubclass(kind, Cells), ends, placed.points, placed.marks, Axis.placed(placed), kind.__name__)


def open_cells(ends: tuple[Kind, Kind], nodes: int) -> Example:
    """Equal cells with an open end, or two."""
    placed = Cells(np.linspace(-0.5, 0.8, nodes + 1), ends)
    return _balanced(True, ends, placed.points, placed.marks, Axis.placed(placed), "Cells")


def radius(kind: type[Placement], start: float, upper: Kind, nodes: int, power: int) -> Example:
    """A radius that begins at `start`, with the weight r^power."""
    places = np.array(marks(nodes + issubclass(kind, Cells), kind)) + 0.5 + start
    places[0] = start
    alpha = (0.0, ALPHA[1] if upper is R else 0.0)
    placed = kind(places, (D if start else Kind.AXIS, upper), alpha, power)
    ends = D if start else N, upper
    cells = issubclass(kind, Cells)
    return _balanced(cells, ends, placed.points, placed.marks, Axis.placed(placed), f"r{power}{kind.__name__}", power)


def uniform(ends: tuple[Kind, Kind], nodes: int) -> Example:
    """A uniform axis; Robin ends are Neumann ends for it."""
    ends = N if ends[0] is R else ends[0], N if ends[1] is R else ends[1]
    marks = np.linspace(-0.5, 0.8, nodes + (ends[0] is P))
    axis = Axis.between(-0.5, 0.8, nodes, (ends[0].rule, ends[1].rule))
    return _balanced(False, ends, marks[:nodes], marks, axis, "Uniform")


def _balanced(
    cells: bool, ends: tuple[Kind, Kind], x: Matrix, faces: Matrix, axis: Axis, kind: str, power: int = 0
) -> Example:
    nodes, wraps = len(x), ends[0] is P
    areas = np.ones(nodes)
    widths = np.zeros(nodes)
    gaps = [x[i + 1] - x[i] for i in range(nodes - 1)] + [faces[-1] - x[-1] + x[0] - faces[0]] * wraps
    for i, gap in enumerate(gaps):
        widths[i] += gap / 2.0
        widths[(i + 1) % nodes] += gap / 2.0
    if cells:
        widths = np.diff(faces)
    if power:
        edges = faces if cells else np.concatenate([x[:1], (x[1:] + x[:-1]) / 2.0, x[-1:]])
        widths, areas = np.diff(edges ** (power + 1)) / (power + 1), edges[1:] ** power
    for node, end in zip((0, -1), ends, strict=True):
        if end is D and not cells:
            widths[node] *= 2.0

    def matrix_with(links: Matrix) -> Matrix:
        flows = np.zeros((nodes, nodes))
        for i, gap in enumerate(gaps):
            for one, other in ((i, (i + 1) % nodes), ((i + 1) % nodes, i)):
                flows[one, one] += areas[i] * links[i] / gap
                flows[one, other] -= areas[i] * links[i] / gap
        for node, end, alpha, link in zip((0, -1), ends, ALPHA, links[[0, len(gaps) - 1]], strict=True):
            half = abs(faces[node] - x[node]) if cells else 0.0
            area = faces[node] ** power
            if end is R:
                flows[node, node] += area * link / (1.0 / alpha + half)
            if end is D and cells:
                flows[node, node] += area * link / half
            if end is OPEN or (end is D and not cells):
                flows[node] = 0.0
        return np.asarray(flows / widths[:, None])

    name = "".join(end.name[0] for end in ends)
    return Example(f"{kind}-{name}-{nodes}", axis, matrix_with(np.ones(nodes)), widths, matrix_with)


def examples(*sizes: int) -> list[Example]:
    """Axes of both kinds with every pair of ends, and radii."""
    straight = [example(kind, ends, nodes) for nodes in sizes for kind in (Nodes, Cells) for ends in ENDS]
    straight += [open_cells(ends, nodes) for nodes in sizes[1:] for ends in ((OPEN, OPEN), (OPEN, D))]
    radii = ((Nodes, 0.0, D, 1), (Cells, 0.0, R, 1), (Nodes, 0.4, N, 2), (Cells, 0.4, D, 2), (Cells, 0.0, N, 2))
    return straight + [radius(kind, start, upper, sizes[-1], p) for kind, start, upper, p in radii]


def fixed_nodes(axis: Axis) -> list[int]:
    return [node for node, rule in zip((0, axis.nodes - 1), axis.rules, strict=True) if rule is Rule.FIXED]


def dense(lines: Sequence[Example], c: Matrix, coefficients: Sequence[Matrix] | None, a: float) -> Matrix:
    """A on the nodes of a product of axes, in C order, assembled line by line; zero rows at fixed nodes.

    `lines`: the axes x, y(, z). `c` (array of the nodes): the reaction coefficient. `coefficients` (sequence of arrays
    of the nodes, optional): `Coefficients.links`; without it `a` is constant. `a`: the coefficient where it is
    constant.
    """
    numbers = np.arange(c.size).reshape(c.shape)
    matrix = np.diag(c.ravel())
    for axis, line in enumerate(lines):
        place = c.ndim - 1 - axis
        of_lines = np.moveaxis(numbers, place, -1).reshape(-1, c.shape[place])
        for nodes in of_lines:
            links = np.full(len(nodes), a) if coefficients is None else coefficients[axis].ravel()[nodes]
            matrix[np.ix_(nodes, nodes)] += line.with_links(links)
    for axis, line in enumerate(lines):
        for node in fixed_nodes(line.axis):
            matrix[np.take(numbers, node, axis=c.ndim - 1 - axis).ravel()] = 0.0
    return np.asarray(matrix)
