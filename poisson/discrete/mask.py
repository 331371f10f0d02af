# SPDX-License-Identifier: MIT
"""Nodes inside the box that keep their values, and links of zero: what follows from both for the whole operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import FIXED, Coefficients, Operator
from poisson.words import quantity

Values = NDArray[np.float64]


def masked(
    operator: Operator, fixed: NDArray[np.bool_], fetch: Callable[[Any], Any], put: Callable[[Values], Any]
) -> Operator:
    """The operator with nodes that keep their values, and with links that may be zero.

    Nodes without an equation, because c and all of their links are zero, are fixed too. With these, and with the
    nodes on fixed faces, the mask is in the coefficients: see `Coefficients`.

    `operator`: on a whole lattice; links of its coefficients may be zero. `fixed` (bool array): true at the nodes that
    keep their values; of the shape of the arrays. `fetch`, `put`: from an array of the coefficients' backend to one of
    NumPy, and back. Raises `ValueError` if the lattice is divided, or nodes are cut off from every value that is given
    while others are not.
    """
    lattice, shape = operator.lattice, operator.array_shape
    if lattice.divided:
        raise ValueError("the mask of a whole lattice, and this is a part")
    reaction = operator.reaction
    c = np.full(shape, operator.c) if reaction is None else np.array(fetch(reaction), dtype=np.float64)
    links = [np.asarray(fetch(array), dtype=np.float64) for array in operator.links or ()]
    links = links or [np.ones(shape)] * len(shape)
    on_faces = np.ones(shape, dtype=bool)
    on_faces[lattice.free] = False
    held = on_faces | fixed
    held |= without_links(operator, links) & (c == 0.0)
    beside = [link for axis in range(len(shape)) for link in _beside(operator, axis, links[axis])]
    number = _parts(operator, links, held)
    holds = np.zeros(number.max(initial=-1) + 1, dtype=bool)
    holds[number[~held & (c > 0.0)]] = True
    for link, neighbour in beside:
        holds[number[~held & (link > 0.0) & held.ravel()[neighbour]]] = True
    for axis, line in enumerate(lattice.axes):
        on_wall = np.broadcast_to(lattice.along(axis, line.couplings[2]) > 0.0, shape)
        holds[number[~held & on_wall & (links[axis] > 0.0)]] = True
    if holds.size > 1 and not holds.all():
        cut = number == int(np.flatnonzero(~holds)[0])
        node = ", ".join(map(str, np.argwhere(cut)[0][::-1]))
        raise ValueError(
            f"{quantity(int(np.count_nonzero(cut)), 'node')}, that of the numbers {node} among them, are cut off from "
            "every value that is given: hold one of them"
        )
    free = ~held
    ends = (float(c[free].min()), float(c[free].max())) if free.any() else (0.0, 0.0)
    before = operator.coefficients or Coefficients(None, None, (operator.a, operator.a), ends)
    found = replace(
        before,
        c=put(np.where(held, FIXED, c)),
        c_range=ends,
        fixed=int(np.count_nonzero(held & ~on_faces)),
        holds=bool(holds.all()),
    )
    return replace(operator, c=0.0, coefficients=found)


def without_links(operator: Operator, links: Sequence[Values]) -> NDArray[np.bool_]:
    """Whether all links of each node are zero."""
    found = np.ones(operator.array_shape, dtype=bool)
    for axis, along in enumerate(links):
        for link, _ in _beside(operator, axis, along):
            found &= link == 0.0
    return found


def _beside(operator: Operator, axis: int, links: Values) -> Iterator[tuple[Values, NDArray[np.int64]]]:
    """The links below and above every node along an axis, with the numbers of the nodes that they lead to."""
    line, place = operator.lattice.axes[axis], operator.lattice.array_axis(axis)
    numbers = np.arange(links.size).reshape(links.shape)
    coupled = float(operator.couplings[axis] > 0.0)
    for entries, nodes in zip(line.link_numbers, line.neighbours, strict=True):
        yield coupled * np.take(links, entries, axis=place), np.take(numbers, nodes, axis=place)


def _parts(operator: Operator, links: Sequence[Values], held: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of the part of each free node that links connect it with, from 0; −1 at the others."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = []
    for axis, along in enumerate(links):
        *_, (link, above) = _beside(operator, axis, along)
        linked = (link > 0.0) & ~held & ~held.ravel()[above]
        pairs.append(np.stack([np.flatnonzero(linked), above[linked]]))
    rows, columns = np.concatenate(pairs, axis=1)
    graph = coo_array((np.ones(rows.size, dtype=bool), (rows, columns)), shape=(held.size, held.size))
    labels = connected_components(graph, directed=False)[1].reshape(held.shape)
    found = np.full(held.shape, -1, dtype=np.int64)
    found[~held] = np.unique(labels[~held], return_inverse=True)[1]
    return found
