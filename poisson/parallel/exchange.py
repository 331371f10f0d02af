# SPDX-License-Identifier: MIT
"""The nodes of an array that go from rank to rank: the halos of a divided lattice, and its gathering."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend
from poisson.mesh.lattice import Lattice
from poisson.parallel.arrays import EVERYWHERE, DividedArray
from poisson.parallel.communicator import Communicator, Message


@dataclass(frozen=True)
class Segment:
    """The segment of one axis that a rank has.

    `first`, `nodes`, `below`, `above`, `whole`: `Axis.first` and `nodes`, the widths of the halo, and the nodes of the
    whole axis.
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

    def open_to(self, *, wraps: bool) -> list[int]:
        """The widths of the halo on the sides on which the axis goes on beyond it."""
        if self.nodes - self.below - self.above == self.whole:
            return []
        more = (self.below, wraps or self.first > 0), (self.above, wraps or self.first + self.nodes < self.whole)
        return [width for width, beyond in more if beyond]

    @property
    def owned(self) -> slice:
        """The nodes that the rank owns, counted from its first one."""
        return slice(self.below, self.nodes - self.above)

    def owns(self, node: int) -> bool:
        """Whether the rank owns a node of the whole axis."""
        return self.start <= node < self.stop


Layout = tuple[Segment, ...]
"""The segments of a rank along x, y(, z)."""


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

    `backend`: where the arrays of this rank are. `communicator`: the ranks. They make this object together. `lattice`:
    the part of this rank.
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
        wraps = [line.undivided.wraps for line in self.lattice.axes]
        widths = (
            width
            for layout in self._layouts
            for segment, around in zip(layout, wraps, strict=True)
            for width in segment.open_to(wraps=around)
        )
        return min(widths, default=EVERYWHERE)

    @property
    def layout(self) -> Layout:
        """The layout of this rank."""
        return self._layouts[self._communicator.rank]

    @cached_property
    def fewest(self) -> int:
        """The fewest nodes that any rank owns along an axis that is divided."""
        segments = (segment for layout in self._layouts for segment in layout)
        return min((each.stop - each.start for each in segments if each.below or each.above), default=0)

    @cached_property
    def begins_evenly(self) -> bool:
        """Whether the parts of all ranks begin at even nodes."""
        return all(segment.first % 2 == 0 for layout in self._layouts for segment in layout)

    # ---- the halo

    def fill(self, array: DividedArray) -> None:
        """Give the halo of an array what the ranks that own these nodes have there."""
        self.filling(array).run()

    def filling(self, array: DividedArray) -> Transport:
        """The exchange of `fill`, prepared at the first use: later, and within recordings, nothing is allocated."""
        if self not in array.plans:
            array.plans[self] = self._filling(self._backend.view(array.values))
        plan: Transport = array.plans[self]
        return plan

    def _filling(self, values: Array) -> Transport:
        steps = []
        for axis, sends, receives in self._steps:
            place = (slice(None),) * axis  # behind the divided one; in front of all may be a number of arrays
            boxes = [
                Parcel(values[(..., slice(at, at + count), *place)], peer, tag, goes)
                for goes, each in ((True, sends), (False, receives))
                for peer, at, count, tag in each
            ]
            steps.append(boxes)
        return Transport(self._backend, self._communicator, steps)

    def _step(self, axis: int) -> tuple[int, list[tuple[int, int, int, int]], list[tuple[int, int, int, int]]] | None:
        """The messages of this rank along an axis: the peer, the first node here, how many, and the tag."""
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

    # ---- the whole

    def gathering(self, part: DividedArray, whole: DividedArray) -> Transport:
        """The call that gathers an array on the whole lattice, on every rank, from the nodes that each rank owns."""
        if ("gather", part) not in whole.plans:
            values, target = self._backend.view(part.values), self._backend.view(whole.values)
            own = tuple(segment.owned for segment in reversed(self.layout))
            place, rank = _place(self.layout), self._communicator.rank
            parcels = [
                Parcel(target[(..., *(place if goes else _place(layout)))], other, 0, goes)
                for goes in (True, False)
                for other, layout in enumerate(self._layouts)
                if other != rank
            ]
            copies = [(target[(..., *place)], values[(..., *own)])]
            whole.plans["gather", part] = Transport(self._backend, self._communicator, [parcels], copies)
        plan: Transport = whole.plans["gather", part]
        return plan

    def taking(self, whole: DividedArray, part: DividedArray) -> Transport:
        """The call that fills an array on the part, with its halo, from one on the whole lattice."""
        if ("take", part) not in whole.plans:
            values, source = self._backend.view(part.values), self._backend.view(whole.values)
            runs = [_ranges(line.index) for line in reversed(self.lattice.axes)]
            copies = [
                (values[tuple(here for here, _ in box)], source[tuple(there for _, there in box)])
                for box in itertools.product(*runs)
            ]
            whole.plans["take", part] = Transport(self._backend, self._communicator, [], copies)
        plan: Transport = whole.plans["take", part]
        return plan


Copy = tuple[Array, Array]
"""Target and source."""


@dataclass(frozen=True)
class Parcel:
    """A box of an array that is sent, or comes.

    `part` (array): a view of the box. `peer`, `tag`, `sends`: as of `Message`.
    """

    part: Array
    peer: int
    tag: int
    sends: bool


class Transport:
    """Copies within a rank, and then messages between ranks, step by step; all of it made ready before.

    `backend`: where the arrays are. `communicator`: the ranks. `steps`: what goes at once. `copies`: what is copied
    first.
    """

    def __init__(
        self, backend: Backend, communicator: Communicator, steps: list[list[Parcel]], copies: Sequence[Copy] = ()
    ) -> None:
        self._backend = backend
        self._communicator = communicator
        self._staged = not communicator.on_device and backend.array_module is not np
        self._copies = copies
        self._steps = [self._ready(parcels) for parcels in steps]
        with backend.ordered():
            # Whatever compiles at its first use does so now, and not while operations are recorded.
            for target, source in self._copies:
                target[...] = source
            for packed, _, unpacked in self._steps:
                # What is to be unpacked comes from its place first: the halo may be right by now, and stays so.
                for target, source in (*packed, *((room, place) for place, room in unpacked), *unpacked):
                    self._copy(target, source)

    def _ready(self, parcels: list[Parcel]) -> tuple[list[Copy], list[Message], list[Copy]]:
        """Boxes to be packed, the messages, and those to be unpacked."""
        packed, messages, unpacked = [], [], []
        xp = np if self._staged else self._backend.array_module
        for parcel in parcels:
            flat = None if self._staged else _flat(parcel.part)
            if flat is None:
                flat = xp.empty(parcel.part.shape, parcel.part.dtype)
                if parcel.sends:
                    packed.append((flat, parcel.part))
                else:
                    unpacked.append((parcel.part, flat))
            messages.append(Message(flat, parcel.peer, parcel.tag, parcel.sends))
        return packed, messages, unpacked

    def run(self) -> None:
        """Do all of it. Every rank does."""
        with self._backend.ordered():
            for target, source in self._copies:
                target[...] = source
            for packed, messages, unpacked in self._steps:
                for target, source in packed:
                    self._copy(target, source)
                self._communicator.exchange(messages)
                for target, source in unpacked:
                    self._copy(target, source)

    def _copy(self, target: Array, source: Array) -> None:
        if not self._staged:
            target[...] = source
        elif isinstance(target, np.ndarray) and not isinstance(source, np.ndarray):
            target[...] = source.get()
        else:
            target[...] = self._backend.array_module.asarray(source)


def swapped(communicator: Communicator, xp: ModuleType, parts: Sequence[Any]) -> list[Any]:
    """The arrays that the ranks have for this one, in their order, where each has one for every rank.

    `xp`: the module of the arrays, unless they are NumPy arrays. `parts`: as many as ranks, of one type on all of them.
    """
    own, dimension = communicator.rank, parts[0].ndim
    shapes = communicator.allgather([float(length) for part in parts for length in part.shape])
    through_host = not (communicator.on_device or isinstance(parts[own], np.ndarray))
    found, messages = list(parts), []
    for peer, lengths in enumerate(shapes):
        if peer == own:
            continue
        sent = parts[peer].get() if through_host else parts[peer]
        shape = [int(length) for length in lengths[own * dimension : (own + 1) * dimension]]
        module = np if isinstance(sent, np.ndarray) else xp
        sent, found[peer] = module.ascontiguousarray(sent), module.empty(shape, sent.dtype)
        messages += [Message(sent, peer, 0, sends=True), Message(found[peer], peer, 0, sends=False)]
    communicator.exchange(messages)
    return [xp.asarray(part) if through_host else part for part in found]


def _ranges(index: NDArray[np.int64]) -> list[tuple[slice, slice]]:
    """Nodes as ranges of neighbours: where they are here, and where on the whole axis."""
    runs = np.split(np.arange(index.size), np.flatnonzero(np.diff(index) != 1) + 1)
    return [(slice(int(run[0]), int(run[-1]) + 1), slice(int(index[run[0]]), int(index[run[-1]]) + 1)) for run in runs]


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


def _place(layout: Layout) -> tuple[slice, ...]:
    """The nodes that a rank owns in an array on the whole lattice."""
    return tuple(slice(segment.start, segment.stop) for segment in reversed(layout))


def _layout(numbers: tuple[float, ...]) -> Layout:
    whole = [int(number) for number in numbers]
    return tuple(Segment(*whole[at : at + 5]) for at in range(0, len(whole), 5))
