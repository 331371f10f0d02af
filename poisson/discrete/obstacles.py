# SPDX-License-Identifier: MIT
"""Bodies with a flow through their surfaces, Neumann and Robin ones, as coefficients of the discrete operator.

Each node balances what is open of its control volume (J. W. Purvis and J. E. Burkhalter, AIAA J. 17, 1979; Y. T. Ng,
C. Min and F. Gibou, J. Comput. Phys. 228, 2009). With the open parts s of the faces that links go through and v of the
volume V itself, and the area S of the surface in it,

    Σ s a (u_i − u_j) / (h h) + (v c + S α' / V) u_i = v f + S g' / V,

which is symmetric in the inner product of the whole volumes V: links, c and f, and a mask of the closed volumes. A node
that lies in the body while a part of its volume is open keeps its equation, whose u goes on beyond the surface.

At a Robin surface, a ∂u/∂n + αu = g, u differs from that at the node by what a ∂u/∂n makes of the distance d between
them, which is negative where the node is in the body: α' = α / (1 + α d / a) and g' = g / (1 + α d / a) (D. Bochkov and
F. Gibou, J. Comput. Phys. 376, 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.beside import Sparse
from poisson.discrete.cut_volumes import CutVolumes, Piece, corners, cut_volumes
from poisson.errors import CaseError
from poisson.problem.arrays import host
from poisson.problem.bodies import NEUMANN, ROBIN, Body
from poisson.problem.expressions import Expression
from poisson.problem.faces import may_absorb
from poisson.problem.sampling import NOT_NEGATIVE, Block, evaluated, require_values
from poisson.problem.surfaces import Level, cuts_of

if TYPE_CHECKING:
    from poisson.mesh.lattice import Lattice

Values = NDArray[np.float64]

KINDS = (NEUMANN, ROBIN)

PASSED = 0.5
"""The least 1 + α d / a: at nodes in a body so far behind the surface of one that absorbs so much, u at the surface
cannot be told from that at the node."""


@dataclass(frozen=True)
class Obstacles:
    """The open parts of a whole lattice beside bodies with a flow through their surfaces, and the flow.

    `open`: of the volumes, their faces and the surface, whose bodies have their numbers among all of the problem, from
    1. `g`, `alpha`: g' and α' at each piece of the surface, times the area. `passed`: g' over g, times the area.
    """

    lattice: Lattice
    open: CutVolumes
    g: Values
    alpha: Values
    passed: Values

    def having(self, bodies: Sequence[Body]) -> Obstacles:
        """The same with other g."""
        return replace(self, g=_data(self.open, bodies, self.lattice.names, alpha=False) * self.passed)

    @property
    def source(self) -> Sparse:
        """The term of the surfaces in the source at the nodes, in U/L²."""
        return self._on_nodes(self.g)

    @property
    def reaction(self) -> Sparse:
        """The term of the surfaces in c at the nodes, in 1/L²."""
        return self._on_nodes(self.alpha)

    def flows_of(self, bodies: Sequence[Body], u: Any, block: Block) -> dict[str, float]:
        """∫ −a ∂u/∂n over the surface of each body, with the normal into it, in U·L^(d−2), as the equations balance it.

        By the names of all `bodies` of the problem that have such a flow. `u`: on a block of the nodes, whose control
        volumes count; an array of NumPy or CuPy.
        """
        here = np.ones(self.open.body.size, dtype=bool)
        block = block[-self.lattice.dimension :]
        for index, (start, stop) in zip(self.open.cut, block, strict=True):
            here &= (index >= start) & (index < stop)
        places = tuple(index[here] - start for index, (start, _) in zip(self.open.cut, block, strict=True))
        flow = np.zeros(self.open.body.size)
        on_block = u.reshape([stop - start for start, stop in block])
        flow[here] = self.alpha[here] * host(on_block[places]).astype(np.float64, copy=False) - self.g[here]
        own = [(number, body.name) for number, body in enumerate(bodies, start=1) if body.kind in KINDS]
        return {name: float(flow[self.open.body == number].sum()) for number, name in own}

    def flows(self, u: NDArray[Any]) -> Values:
        """The same in the control volume of each node, over the surfaces of all bodies."""
        found = np.zeros(self.lattice.array_shape)
        found[self.open.cut] = self.alpha * u.reshape(found.shape)[self.open.cut] - self.g
        return found

    @cached_property
    def links(self) -> tuple[Sparse, ...]:
        """The open part of the faces that links along each axis go through, as `Coefficients.links` has them."""
        return tuple(self.open.links(self.lattice, axis) for axis in range(self.lattice.dimension))

    def without(self, closed: NDArray[np.bool_]) -> Obstacles:
        """The same with some volumes that count as closed; their links stay."""
        kept, before = ~closed[self.open.cut], self.open.volumes
        nodes = np.concatenate([before.nodes, more := np.flatnonzero(closed)])
        opened = replace(
            self.open,
            volumes=Sparse.least(nodes, np.concatenate([before.values, np.zeros(more.size)]), before.shape),
            cut=tuple(index[kept] for index in self.open.cut),
            surface=self.open.surface[kept],
            centres=self.open.centres[kept],
            body=self.open.body[kept],
        )
        return replace(self, open=opened, g=self.g[kept], alpha=self.alpha[kept], passed=self.passed[kept])

    def _on_nodes(self, values: Values) -> Sparse:
        lengths = [axis.lengths for axis in reversed(self.lattice.axes)]
        volumes = math.prod(
            (along[index] for along, index in zip(lengths, self.open.cut, strict=True)), start=self.lattice.turn
        )
        nodes, used = np.ravel_multi_index(self.open.cut, self.lattice.array_shape), values != 0.0
        return Sparse(nodes[used], (values / volumes)[used], self.lattice.array_shape)


def obstacles_of(lattice: Lattice, bodies: Sequence[Body], a: Callable[[], Values]) -> Obstacles | None:
    """The Neumann and Robin bodies among all bodies of a problem; None without any.

    `a`: its values at the nodes. Raises `CaseError` if a level or data at a surface are not finite, or α is negative;
    the line names the body and the place.
    """
    numbers = [number for number, body in enumerate(bodies, start=1) if body.kind in KINDS]
    if not numbers:
        return None
    pieces, closed = [], [np.zeros(0, dtype=np.int64)]
    for number in numbers:
        level = Level(lattice, f"body.{number}.inside", bodies[number - 1].inside)
        if level.inside.mask:
            _require_insulator(number, bodies[number - 1])
            assert level.values is not None
            closed.append(np.flatnonzero(level.values <= 0.0))
            continue
        values, index = _at_corners(level)
        pieces.append(Piece(tuple(along.start or 0 for along in index), values, number))
    found = _with_thin_ones(lattice, bodies, pieces, np.concatenate(closed))
    points = list(found.centres.T)
    g, alpha = (_data(found, bodies, lattice.names, alpha=which) for which in (False, True))
    nodes = [axis.coordinates[found.cut[lattice.array_axis(number)]] for number, axis in enumerate(lattice.axes)]
    steps = [place - node for place, node in zip(points, nodes, strict=True)]
    if lattice.angle is not None:
        steps[lattice.angle] *= points[0]
    distance = sum(step * along for step, along in zip(steps, found.normals.T, strict=True))
    here = a().reshape(lattice.array_shape)[found.cut] if alpha.any() else 1.0
    passed = lattice.turn * found.areas / np.maximum(1.0 + alpha * distance / here, PASSED)
    return Obstacles(lattice, found, g * passed, alpha * passed, passed)


def _data(found: CutVolumes, bodies: Sequence[Body], names: Sequence[str], *, alpha: bool) -> Values:
    """α at each piece of the surfaces, or g."""
    points, out = list(found.centres.T), np.zeros(found.body.size)
    for number in set(found.body.tolist()):
        own, given = found.body == number, bodies[number - 1]
        key = "alpha" if alpha else given.kind
        if (data := getattr(given, key)) is not None:
            out[own] = _at_surface(f"body.{number}.{key}", data, [place[own] for place in points], names)
    return out


def _require_insulator(number: int, body: Body) -> None:
    """Refuse a flow through a surface that only a mask describes: its area is not known."""
    g = body.value
    if body.kind != NEUMANN or not (isinstance(g, Expression) and g.is_constant and g.value == 0.0):
        raise CaseError(f"body.{number}.{body.kind}: a mask of nodes; allowed: neumann = 0, or a surface")


def _at_corners(level: Level) -> tuple[Values, tuple[slice, ...]]:
    """The level of a body at the corners of the volumes that its surface may cut, and which these are.

    The level of an array is linear between the nodes.
    """
    lattice = level.lattice
    if level.values is not None:
        values = level.values.reshape(lattice.array_shape)
        for axis, line in enumerate(lattice.axes):
            along = np.moveaxis(values, lattice.array_axis(axis), 0)
            at, period = line.coordinates, line.interval[1] - line.interval[0]
            if line.wraps:
                along = np.concatenate([along[-1:], along, along[:1]])
                at = np.concatenate([at[-1:] - period, at, at[:1] + period])
            lower = np.clip(np.searchsorted(at, corners(line)) - 1, 0, at.size - 2)
            part = np.clip((corners(line) - at[lower]) / (at[lower + 1] - at[lower]), 0.0, 1.0)
            part = part.reshape((-1,) + (1,) * (along.ndim - 1))
            along = along[lower] * (1.0 - part) + along[lower + 1] * part
            values = np.moveaxis(along, 0, lattice.array_axis(axis))
        return values, (slice(None),) * values.ndim
    index = tuple(slice(start, max(start, stop) + 1) for start, stop in level.ranges[: lattice.dimension])
    places = [lattice.along(axis, corners(line)[index[axis]]) for axis, line in enumerate(lattice.axes)]
    values = np.array(np.broadcast_to(level.at(places), tuple(place.size for place in places[::-1])))
    require_values(np, level.key, values, places, None, lattice.names)
    for axis, line in enumerate(lattice.axes):
        along = np.moveaxis(values, lattice.array_axis(axis), 0)
        if line.wraps and len(along) == line.nodes + 1:
            along[0] = along[-1]
    return values, index[::-1]


def _with_thin_ones(
    lattice: Lattice, bodies: Sequence[Body], pieces: Sequence[Piece], closed: NDArray[np.int64]
) -> CutVolumes:
    """The cut volumes, in which parts of bodies that no corner of a volume is in close those of their nodes, or links.

    Raises `CaseError` if something flows through the surface of such a part, whose area is not known.
    """
    found, shape = cut_volumes(lattice, pieces, closed), lattice.array_shape
    cuts = cuts_of(lattice, bodies, KINDS, exact=False)
    inside = cuts.inside.ravel()
    within = np.flatnonzero(inside)
    hidden = within[found.volumes.at(within) == 1.0]
    numbers = set(inside[hidden].tolist())
    if hidden.size:
        found = cut_volumes(lattice, pieces, np.concatenate([closed, hidden]))
    places = np.unravel_index(cuts.node, shape)
    for axis, line in enumerate(lattice.axes):
        place = lattice.array_axis(axis)
        own = cuts.axis == axis
        at, beside = [index[own] for index in places], [index[own] for index in places]
        up = cuts.side[own] == 1
        beside[place] = np.where(up, line.neighbours[1][at[place]], line.neighbours[0][at[place]])
        at[place] = at[place] + up  # of the face
        faces = found.faces[axis]
        whole = faces.at(np.ravel_multi_index(tuple(at), faces.shape)) == 1.0
        thin = (inside[np.ravel_multi_index(tuple(beside), shape)] == 0) & whole
        found = found.closing(axis, tuple(index[thin] for index in at))
        numbers |= set(cuts.body[own][thin].tolist())
    for number in numbers:
        g, alpha = bodies[number - 1].value, bodies[number - 1].alpha
        if not (isinstance(g, Expression) and g.is_constant and g.value == 0.0) or may_absorb(alpha):
            raise CaseError(
                f"body.{number}: it is thinner than a cell somewhere, where its area is not known; allowed: "
                "neumann = 0, or a finer grid"
            )
    return found


def _at_surface(key: str, data: Any, points: list[Values], names: Sequence[str]) -> Values:
    values = np.broadcast_to(evaluated(key, data, np, points, ()), points[0].shape)
    require_values(np, key, values, points, NOT_NEGATIVE if key.endswith("alpha") else None, names)
    return np.asarray(values)
