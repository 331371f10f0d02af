# SPDX-License-Identifier: MIT
"""Nodes inside the box that keep their values, and links of zero: what follows from both for the whole operator."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import FIXED, Coefficients, Operator
from poisson.errors import CaseError
from poisson.mesh.grid import LEAST_SLABS, SLAB_NODES, over_slabs, slabs, true_at
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.mesh.axis import Axis

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]

log = logging.getLogger(__name__)

MOST_NODES = 2**31 - 1
"""The most nodes among which a backend finds parts: it numbers them in 32 bits."""

NOWHERE = "a is 0 at some nodes: nothing flows there, and u keeps its initial guess"


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that links of more than 0 join nodes to, as a backend finds them.

    `alone`: nodes without a link, to which the mask of c gives their values, those of fixed faces and of the mask
    before not counted. `loose`, `held`: parts that nothing holds, and those that fixed nodes or c hold.
    `least`: the least link of more than 0, infinite without any. `c_range`: of the nodes that are left; (inf, 0)
    without any.
    """

    alone: int
    loose: int
    held: int
    least: float
    c_range: tuple[float, float]


def masked(
    operator: Operator,
    fixed: NDArray[np.bool_],
    fetch: Callable[[Any], Any],
    put: Callable[[Values], Any],
    drops: bool = False,
) -> Operator:
    """The operator with nodes that keep their values, and with links that may be zero.

    Nodes without an equation, because c and all of their links are zero, are fixed too. With these, and with the
    nodes on fixed faces, the mask is in the coefficients: see `Coefficients`.

    `operator`: on a whole lattice; links of its coefficients may be zero. `fixed` (bool array): true at the nodes that
    keep their values; of the shape of the arrays. `fetch`, `put`: from an array of the coefficients' backend to one of
    NumPy, and back. `drops`: whether nodes that are cut off from every value that is given while others are not, or,
    where none is given, from more nodes than they are, belong to the mask, too. Raises `ValueError` if the lattice is
    divided, or nodes are so cut off without that.
    """
    lattice, shape = operator.lattice, operator.array_shape
    if lattice.divided:
        raise ValueError("the mask of a whole lattice, and this is a part")
    reaction = operator.reaction
    c = operator.c if reaction is None else np.asarray(fetch(reaction), dtype=np.float64)
    links = [np.asarray(fetch(array)) > 0.0 for array in operator.links or ()]
    links = links or [np.ones(shape, dtype=bool)] * len(shape)
    on_faces = np.ones(shape, dtype=bool)
    on_faces[lattice.free] = False
    held = on_faces | fixed
    alone = without_links(operator, links)
    held |= alone & (c == 0.0)
    number = parts(operator, links, held)
    holds = np.zeros(number.max(initial=-1) + 1, dtype=bool)
    holds[number[~held & (c > 0.0)]] = True
    ties = bool(np.any(held & ~alone))
    for axis in range(lattice.dimension):
        if holds.all():
            break
        for link, beside in _beside(operator, axis, links[axis]) if ties else ():
            holds[number[~held & link & beside(held)]] = True
        on_wall = np.broadcast_to(lattice.along(axis, operator.along(axis)[2]) > 0.0, shape)
        holds[number[~held & on_wall & links[axis]]] = True
    if drops and holds.size > 1 and not holds.all():
        kept = holds if holds.any() else np.arange(holds.size) == np.bincount(number[~held]).argmax()
        cut = ~held & ~kept[number]
        held |= cut
        holds = holds[kept]
        log.info("%s cut off by bodies: u keeps its initial guess there", quantity(int(np.count_nonzero(cut)), "node"))
    if holds.size > 1 and not holds.all():
        cut = number == int(np.flatnonzero(~holds)[0])
        node = ", ".join(map(str, np.argwhere(cut)[0][::-1]))
        raise ValueError(
            f"{quantity(int(np.count_nonzero(cut)), 'node')}, that of the numbers {node} among them, are cut off from "
            "every value that is given: hold one of them"
        )
    free = ~held
    values = np.broadcast_to(c, shape)[free] if reaction is not None else np.array([operator.c] * bool(free.any()))
    ends = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    before = operator.coefficients or Coefficients(None, None, (operator.a, operator.a), ends)
    found = replace(
        before,
        c=put(np.where(held, FIXED, c)),
        c_range=ends,
        fixed=int(np.count_nonzero(held & ~on_faces)),
        holds=bool(holds.all()),
    )
    return replace(operator, c=0.0, coefficients=found)


def insulated(operator: Operator, backend: Any) -> Operator:
    """The operator of coefficients that are 0 at some nodes, whose mask has the nodes without a link.

    Connected nodes are found on the whole lattice: where it is divided, every process has the links of all nodes
    meanwhile. Raises `CaseError` if it is not in float64, or what conducts is in parts of which not all are held.
    """
    before = operator.coefficients
    assert before is not None and before.links is not None
    if backend.dtype != np.float64:
        raise CaseError("equation.a: 0 at some nodes; allowed in float64 or mixed precision")
    lattice, every = operator.lattice, (1,) * operator.dimension
    fetch = partial(backend.sample, lattice=lattice, steps=every) if lattice.divided else backend.to_host
    if not lattice.divided and backend.views:
        c = before.c
        if c is None:
            backend.fill(c := backend.empty(operator.array_shape), operator.c)
        if (by := by_parts(operator, c, backend)) is not None and by[1] < np.inf:
            log.info(NOWHERE)
            result, least = by
            assert result.coefficients is not None
            return replace(result, coefficients=replace(result.coefficients, a_range=(least, before.a_range[1])))
    c = None if before.c is None else np.maximum(fetch(before.c), 0.0)
    if lattice.divided or not backend.views:
        open_links = [_open(np, 1, fetch(link)) for link in before.links]
    else:
        with backend.ordered():
            open_links = [_open(backend.array_module, backend.threads, backend.view(link)) for link in before.links]
    links, ends = zip(*open_links, strict=True)
    least = min(ends)
    if not least < np.inf:
        raise CaseError("equation.a: 0 at one of any two neighbours; allowed: a > 0 somewhere at both")
    log.info(NOWHERE)
    given = replace(before, links=links, c=c, a_range=(least, before.a_range[1]))
    whole = replace(operator, lattice=lattice.whole, coefficients=given)
    part = np.ix_(*(line.index for line in reversed(lattice.axes)))
    try:
        put = (lambda c: backend.from_host(c[part])) if lattice.divided else backend.from_host
        result = masked(whole, np.zeros(whole.array_shape, dtype=bool), np.asarray, put)
        assert result.coefficients is not None
        return replace(result, lattice=lattice, coefficients=replace(result.coefficients, links=before.links))
    except ValueError as error:
        cut = str(error).partition(":")[0]
        raise CaseError(f"equation.a: {cut}; set a to 0 there, too, or connect them") from None


def by_parts(operator: Operator, c: Any, backend: Any, given: int = 0) -> tuple[Operator, float] | None:
    """The operator with a mask, as `masked` makes it, from the parts that a backend finds where its arrays are.

    `operator`: on a whole lattice, with links of the backend that may be zero. `c` (array of the backend): negative at
    the nodes of the mask; its values there have no meaning where None is returned. `given`: these nodes, those on
    fixed faces not counted. Returns the least link above 0, too; None where more is to be said of parts, or the
    backend does not find them.
    """
    before, lattice = operator.coefficients, operator.lattice
    walls = any(np.any(operator.along(axis)[2]) for axis in range(lattice.dimension))
    able = not walls and backend.dtype == np.float64 and lattice.nodes <= MOST_NODES
    parts = backend.parts(operator, c) if able else None
    if parts is None or parts.loose > (parts.held == 0):
        return None
    assert before is not None
    found = replace(
        before,
        c=c,
        c_range=parts.c_range if parts.c_range[0] <= parts.c_range[1] else (0.0, 0.0),
        fixed=given + parts.alone,
        holds=parts.loose == 0,
    )
    return replace(operator, c=0.0, coefficients=found), parts.least


def _open(xp: ModuleType, threads: int, links: Any) -> tuple[Mask, float]:
    """Where links are positive, on the host, and the least of these."""
    found, on_host = xp.empty(links.shape, dtype=bool), xp is np

    def look(start: int, stop: int) -> float:
        xp.greater(links[start:stop], 0.0, out=found[start:stop])
        return float(xp.where(found[start:stop], links[start:stop], np.inf).min())

    least = min(over_slabs(links.shape, look, threads if on_host else 1, SLAB_NODES if on_host else found.size))
    return found if on_host else found.get(), least


def _taken(values: NDArray[Any], entries: NDArray[Any], place: int) -> NDArray[Any]:
    """The values at entries along an axis of an array, of which all but the first and the last follow one another."""
    if entries.size < 4:
        return np.take(values, entries, axis=place)
    whole = (slice(None),) * place
    pieces = (entries[:1], slice(entries[1], entries[-2] + 1), entries[-1:])
    return np.concatenate([values[(*whole, piece)] for piece in pieces], axis=place)


def without_links(operator: Operator, links: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Whether all links of each node are zero."""
    lattice, found = operator.lattice, np.ones(operator.array_shape, dtype=bool)
    along = [axis for axis, coupling in enumerate(operator.couplings) if coupling > 0.0]
    # The entry of a node is that of one of its links, along any axis: so few nodes are to be looked at.
    if along:
        np.equal(links[along[0]], 0, out=found)
    if 8 * np.count_nonzero(found) > found.size:
        for axis in along:
            closed = links[axis] == 0
            for entries in lattice.axes[axis].link_numbers:
                found &= _taken(closed, entries, lattice.array_axis(axis))
        return found
    nodes = true_at(found)
    alone = np.ones(nodes[0].size, dtype=bool)
    for axis in along:
        for entries in lattice.axes[axis].link_numbers:
            through, place = list(nodes), lattice.array_axis(axis)
            through[place] = entries[nodes[place]]
            alone &= links[axis][tuple(through)] == 0
    found[nodes] = alone
    return found


def _beside(operator: Operator, axis: int, links: Mask) -> Iterator[tuple[Mask, Callable[[Any], Any]]]:
    """Whether there are links below and above every node along an axis, and what gives values where they lead to."""
    line, place = operator.lattice.axes[axis], operator.lattice.array_axis(axis)
    coupled = operator.couplings[axis] > 0.0
    for entries, nodes in zip(line.link_numbers, line.neighbours, strict=True):
        yield coupled * _taken(links, entries, place), partial(_taken, entries=nodes, place=place)


def parts(operator: Operator, links: Sequence[Mask], held: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The number of the part of each free node that links connect it with, from 0 in C order; −1 at the others.

    Free neighbours are one part but at the ends of closed links, whose open ones are looked at one by one.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    lattice, free = operator.lattice, ~held
    torn = np.zeros(free.shape, dtype=bool)
    along: list[tuple[Axis, int, Mask]] = []
    for line, each in zip(lattice.axes, links, strict=True):
        place = lattice.array_axis(len(along))
        along.append((line, place, each))
        ends = [(slice(-1), slice(1, None))] + [(slice(-1, None), slice(1))] * line.wraps
        for low, high in ends if line.nodes > 1 else ():
            below, above = ((*(slice(None),) * place, end) for end in (low, high))
            closed = free[below] & free[above] & ~each[below]
            torn[below] |= closed
            torn[above] |= closed
    labels, joined = labelled(free & ~torn, [place for line, place, _ in along if line.wraps])
    lone, count = true_at(torn), int(labels.max(initial=0)) + 1
    labels[lone] = np.arange(count, count + lone[0].size)
    for line, place, each in along:
        for entries, beside in zip(line.link_numbers, line.neighbours, strict=True):
            through, other = list(lone), list(lone)
            through[place], other[place] = entries[lone[place]], beside[lone[place]]
            real = each[tuple(through)] & free[tuple(other)]
            joined.append(np.stack([labels[lone], labels[tuple(other)]])[:, real])
    rows, columns = np.concatenate(joined, axis=1)
    graph = coo_array((np.ones(rows.size, dtype=bool), (rows, columns)), shape=(count + lone[0].size,) * 2)
    part: NDArray[Any] = connected_components(graph, directed=False)[1]
    if part.max() > 1:
        first = np.searchsorted(np.maximum.accumulate(np.where(torn, 0, labels).ravel()), np.arange(count))
        firsts = np.full(part.max() + 1, free.size)
        np.minimum.at(firsts, part, np.concatenate([first, np.ravel_multi_index(lone, free.shape)]))
        firsts[part[0]] = -1
        part = np.argsort(np.argsort(firsts))[part]
    if part.max(initial=0) <= 1:
        return np.subtract(free, 1, dtype=np.int32)
    found: NDArray[np.int32] = (part - 1).astype(np.int32)[labels]
    return found


def labelled(
    free: NDArray[np.bool_], wraps: Sequence[int], threads: int = 1
) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """The parts that neighbours form where an array is true, and which of them the axes that wrap join.

    Returns: `labels`: from 1, by the part within the array in the order of the first nodes; 0 elsewhere. `seams`: for
    each axis that wraps the pairs of labels at its last and at its first node.
    """
    from scipy.ndimage import label

    labels = np.empty(free.shape, dtype=np.int32 if free.size < 1 << 31 else np.int64)
    limit = max(SLAB_NODES, free.size // (LEAST_SLABS * threads))
    if threads == 1 or free.size < LEAST_SLABS * limit:
        label(free, output=labels)
    else:
        _label_slabs(free, labels, threads, limit)
    return labels, [pairs_of(labels.take(-1, axis=place), labels.take(0, axis=place)) for place in wraps]


def pairs_of(last: NDArray[Any], first: NDArray[Any]) -> NDArray[Any]:
    """The labels of neighbours, two rows, each pair once."""
    last, first = last.ravel(), first.ravel()
    begins = (last > 0) & (first > 0)
    # Neighbours are mostly alike, which takes no sorting.
    begins[1:] &= (last[1:] != last[:-1]) | (first[1:] != first[:-1])
    last, first = (each[begins].astype(np.int64) for each in (last, first))
    pairs = np.unique(last << 32 | first)
    return np.stack([pairs >> 32, pairs & 0xFFFFFFFF])


def _label_slabs(free: NDArray[np.bool_], labels: NDArray[Any], threads: int, limit: int) -> None:
    """Label each slab of an array on its own, in threads, and join what meets between slabs."""
    from scipy.ndimage import label
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    counts = over_slabs(
        free.shape, lambda start, stop: label(free[start:stop], output=labels[start:stop]), threads, limit
    )
    starts = [start for start, _ in slabs(free.shape, limit)]
    before = [0, *np.cumsum(counts).tolist()]
    joined = [np.zeros((2, 0), dtype=np.int64)]
    for number, start in enumerate(starts[1:], start=1):
        pairs = pairs_of(labels[start - 1], labels[start])
        joined.append(pairs - 1 + np.array([[before[number - 1]], [before[number]]]))
    rows, columns = np.concatenate(joined, axis=1)
    graph = coo_array((np.ones(rows.size, dtype=bool), (rows, columns)), shape=(before[-1],) * 2)
    # Labels ascend with the first nodes in each slab and from slab to slab, and components with their first labels.
    part = connected_components(graph, directed=False)[1].astype(labels.dtype) + 1

    def renumber(start: int, stop: int) -> None:
        number = starts.index(start)
        own = np.append(labels.dtype.type(0), part[before[number] : before[number + 1]])
        labels[start:stop] = own.take(labels[start:stop])

    over_slabs(free.shape, renumber, threads, limit)
