"""Which nodes of an array go from which rank to which: the halos of a divided lattice, and its gathering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from poisson.backends.base import Array, Backend
from poisson.mesh.lattice import Lattice
from poisson.parallel.communicator import Communicator, Message


@dataclass(frozen=True)
class Segment:
    """What a rank has of one axis.

    Parameters
    ----------
    first, nodes, below, above, whole : int
        `Axis.first` and `nodes`, the widths of the halo, and the nodes of the whole axis.
    """

    first: int
    nodes: int
    below: int
    above: int
    whole: int

    @property
    def start(self) -> int:
        """The first node that the rank owns, on the whole axis."""
        return self.first + self.below

    @property
    def stop(self) -> int:
        """The node after the last one that the rank owns."""
        return self.first + self.nodes - self.above

    @property
    def owned(self) -> slice:
        """The nodes that the rank owns, counted from its first one."""
        return slice(self.below, self.nodes - self.above)

    def owns(self, node: int) -> bool:
        """Whether the rank owns a node of the whole axis."""
        return self.start <= node < self.stop


Layout = tuple[Segment, ...]
"""What a rank has of x, y(, z)."""


@dataclass(frozen=True)
class _Run:
    """Neighbouring nodes of a halo that one rank owns."""

    owner: int
    at: int
    there: int
    count: int
    tag: int


class Halo:
    """The halos of one lattice, and how arrays on it are exchanged and gathered.

    Parameters
    ----------
    backend : Backend
        Where the arrays of this rank are.
    communicator : Communicator
        The ranks. They make this object together.
    lattice : Lattice
        The part of this rank.
    """

    def __init__(self, backend: Backend, communicator: Communicator, lattice: Lattice) -> None:
        self._backend = backend
        self._communicator = communicator
        self.lattice = lattice
        own = [number for line in lattice.axes for number in (line.first, line.nodes, *line.halo, line.undivided.nodes)]
        self._layouts = tuple(_layout(numbers) for numbers in communicator.allgather(own))
        self._steps = [step for step in (self._step(axis) for axis in range(lattice.dimension)) if step]

    @cached_property
    def width(self) -> int:
        """Layers of nodes of the halo, where it is narrowest on any rank: all must decide alike."""
        segments = (segment for layout in self._layouts for segment in layout)
        return min((width for each in segments for width in (each.below, each.above) if width), default=0)

    @property
    def layout(self) -> Layout:
        """That of this rank."""
        return self._layouts[self._communicator.rank]

    @cached_property
    def fewest(self) -> int:
        """The fewest nodes that any rank owns along an axis that is divided."""
        segments = (segment for layout in self._layouts for segment in layout)
        return min((each.stop - each.start for each in segments if each.below or each.above), default=0)

    # ---- the halo

    def fill(self, values: Array) -> None:
        """Give the halo of an array what the ranks that own these nodes have there."""
        values = self._backend.view(values)
        for axis, sends, receives in self._steps:
            with self._backend.ordered():
                parcels = [(self._parcel(values, axis, at, count), peer, tag) for peer, at, count, tag in sends]
                outgoing = [Message(parcel.wrapped(), peer, tag, sends=True) for parcel, peer, tag in parcels]
                places = [(self._parcel(values, axis, at, count), peer, tag) for peer, at, count, tag in receives]
                incoming = [Message(parcel.room(), peer, tag, sends=False) for parcel, peer, tag in places]
                self._communicator.exchange([*outgoing, *incoming])
                for (parcel, _, _), message in zip(places, incoming, strict=True):
                    parcel.put(message.array)

    def _step(self, axis: int) -> tuple[int, list[tuple[int, int, int, int]], list[tuple[int, int, int, int]]] | None:
        """What this rank sends and receives along an axis: the peer, the first node here, how many, and the tag."""
        rank = self._communicator.rank
        receives = [(run.owner, run.at, run.count, run.tag) for run in self._runs(rank, axis)]
        sends = [
            (other, run.there, run.count, run.tag)
            for other in range(len(self._layouts))
            for run in self._runs(other, axis)
            if run.owner == rank
        ]
        return (axis, sends, receives) if sends or receives else None

    def _runs(self, rank: int, axis: int) -> Iterator[_Run]:
        """The halo of a rank along an axis, in pieces that another one owns."""
        layout = self._layouts[rank]
        segment = layout[axis]
        outside = [*range(segment.below), *range(segment.nodes - segment.above, segment.nodes)]
        runs: list[_Run] = []
        for at in outside:
            node = (segment.first + at) % segment.whole
            owner = self._owner(layout, axis, node)
            there = node - self._layouts[owner][axis].first
            last = runs[-1] if runs else None
            if last and last.owner == owner and (at, there) == (last.at + last.count, last.there + last.count):
                runs[-1] = _Run(owner, last.at, last.there, last.count + 1, last.tag)
            else:
                runs.append(_Run(owner, at, there, 1, len(runs)))
        yield from runs

    def _owner(self, layout: Layout, axis: int, node: int) -> int:
        """The rank that owns a node along an axis, and the same nodes along the others as the rank with a layout."""
        for rank, other in enumerate(self._layouts):
            beside = all(
                mine.start == its.start for at, (mine, its) in enumerate(zip(layout, other, strict=True)) if at != axis
            )
            if beside and other[axis].owns(node):
                return rank
        raise AssertionError("the ranks do not own every node")

    def _parcel(self, values: Array, axis: int, at: int, count: int) -> _Parcel:
        place = self.lattice.array_axis(axis)
        return _Parcel(
            self._backend, self._communicator.on_device, values, (slice(None),) * place + (slice(at, at + count),)
        )

    # ---- the whole

    def gather(self, values: Array, whole: Array) -> None:
        """Fill an array on the whole lattice, on every rank, with what each owns."""
        rank = self._communicator.rank
        values, whole = self._backend.view(values), self._backend.view(whole)
        own = tuple(segment.owned for segment in reversed(self.layout))
        with self._backend.ordered():
            whole[_place(self.layout)] = values[own]
            mine = _Parcel(self._backend, self._communicator.on_device, whole, _place(self.layout))
            parcel = mine.wrapped()
            others = [other for other in range(len(self._layouts)) if other != rank]
            places = {
                other: _Parcel(self._backend, self._communicator.on_device, whole, _place(self._layouts[other]))
                for other in others
            }
            incoming = {other: Message(place.room(), other, 0, sends=False) for other, place in places.items()}
            self._communicator.exchange(
                [*(Message(parcel, other, 0, sends=True) for other in others), *incoming.values()]
            )
            for other, place in places.items():
                place.put(incoming[other].array)

    def take(self, whole: Array, values: Array) -> None:
        """Fill an array on the part, with its halo, from one on the whole lattice."""
        values, whole = self._backend.view(values), self._backend.view(whole)
        with self._backend.ordered():
            values[...] = _picked(self._backend.array_module, whole, self.lattice)


def _picked(xp: Any, whole: Array, lattice: Lattice) -> Array:
    """The nodes of a part, one axis after the other: each is a range, or two where it wraps."""
    for place, line in enumerate(reversed(lattice.axes)):
        runs = np.split(line.index, np.flatnonzero(np.diff(line.index) != 1) + 1)
        pieces = [whole[(slice(None),) * place + (slice(int(run[0]), int(run[-1]) + 1),)] for run in runs]
        whole = pieces[0] if len(pieces) == 1 else xp.concatenate(pieces, axis=place)
    return whole


@dataclass(frozen=True)
class _Parcel:
    """A box of an array that is sent, or comes."""

    backend: Backend
    on_device: bool
    values: Array
    box: tuple[slice, ...]

    def wrapped(self) -> Array:
        """Contiguous, where the communicator wants it."""
        part = self.values[self.box]
        flat = _flat(part)
        if flat is None:
            flat = self.backend.array_module.ascontiguousarray(part).reshape(-1)
        return flat if self.on_device else _on_host(flat)

    def room(self) -> Array:
        """Where it comes in: the place itself, if it is contiguous there."""
        part = self.values[self.box]
        flat = _flat(part)
        if self.on_device or self.backend.array_module is np:
            return self.backend.array_module.empty(part.size, part.dtype) if flat is None else flat
        return np.empty(part.size if flat is None else flat.size, part.dtype)

    def put(self, came: Array) -> None:
        """To its place, unless it came there."""
        part = self.values[self.box]
        flat = _flat(part)
        xp = self.backend.array_module
        if flat is not None and (self.on_device or xp is np):
            return
        target = part if flat is None else flat
        target[...] = (came if self.on_device else xp.asarray(came)).reshape(target.shape)


def _flat(part: Array) -> Array | None:
    """The memory of a box as one run, with the ends of padded rows; None if it is not in one run."""
    item = part.dtype.itemsize
    if part.flags.c_contiguous:
        return part.reshape(-1)
    if part.ndim < 2 or part.strides[-1] != item or part.strides[-2] < part.shape[-1] * item:
        return None
    for place in range(part.ndim - 2):
        if part.strides[place] != part.shape[place + 1] * part.strides[place + 1] and part.shape[place] > 1:
            return None
    rows = part.size // part.shape[-1]
    values = (rows - 1) * (part.strides[-2] // item) + part.shape[-1]
    return _as_strided(part, values)


def _as_strided(part: Array, values: int) -> Array:
    if isinstance(part, np.ndarray):
        return np.lib.stride_tricks.as_strided(part, (values,), (part.dtype.itemsize,))
    return type(part)((values,), part.dtype, part.data)


def _on_host(flat: Array) -> Any:
    return flat if isinstance(flat, np.ndarray) else flat.get()


def _place(layout: Layout) -> tuple[slice, ...]:
    """The nodes that a rank owns in an array on the whole lattice."""
    return tuple(slice(segment.start, segment.stop) for segment in reversed(layout))


def _layout(numbers: tuple[float, ...]) -> Layout:
    whole = [int(number) for number in numbers]
    return tuple(Segment(*whole[at : at + 5]) for at in range(0, len(whole), 5))
