# SPDX-License-Identifier: MIT
"""The part of a problem that one of several processes has, and how what each finds on its part becomes known to all.

Sums are made in the order of the processes, which are called ranks, so that every rank has the same numbers to the bit,
and so at every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise, product
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError, PoissonError, RemoteFailure
from poisson.problem.fields import joined

if TYPE_CHECKING:
    from poisson.mesh.lattice import Lattice
    from poisson.problem.sampling import Block

Indices = NDArray[np.int64]
Value = TypeVar("Value")


class Joining(Protocol):
    """The part of a communicator that a share needs."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def allgather(self, values: Sequence[float]) -> list[tuple[float, ...]]: ...

    def broadcast(self, value: Any, root: int = 0) -> Any: ...


CODE_DEFECT = 1
"""The exit code for an error that is no `PoissonError`."""


@dataclass(frozen=True)
class Share:
    """The part of a divided grid that one rank has.

    `lattice`: the part of the rank, with its halo. `communicator`: the ranks. `with_halo`: whether arrays have the
    nodes of the halo, too, or only those that the rank owns.
    """

    lattice: Lattice
    communicator: Joining
    with_halo: bool = True

    @cached_property
    def ranges(self) -> Block:
        """The nodes that the rank owns, on the whole grid."""
        axes = reversed(self.lattice.axes)
        return tuple((axis.first + axis.owned.start, axis.first + axis.owned.stop) for axis in axes)

    @cached_property
    def index(self) -> tuple[Indices, ...]:
        """The number on the whole grid of every node along each axis of an array, the slowest first."""
        if self.with_halo:
            return numbers_of(self.lattice)
        return tuple(np.arange(*ends) for ends in self.ranges)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of the arrays."""
        return tuple(numbers.size for numbers in self.index)

    # ---- what all ranks know

    def total(self, *values: float) -> tuple[float, ...]:
        """Each value, summed over the ranks."""
        return self._joined(values, lambda column: float(sum(column)))

    def least(self, *values: float) -> tuple[float, ...]:
        """The least of each value on any rank."""
        return self._joined(values, min)

    def largest(self, *values: float) -> tuple[float, ...]:
        """The largest of each value on any rank."""
        return self._joined(values, max)

    def _joined(self, values: Sequence[float], join: Callable[[Sequence[float]], float]) -> tuple[float, ...]:
        columns = zip(*self.communicator.allgather([float(value) for value in values]), strict=True)
        return tuple(join(column) for column in columns)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Within, a rank talks to no other; an error there on any of them is raised on all, as that of the first.

        Raises `PoissonError`: the error of the first rank that has one; where that is a defect, `RemoteFailure` on the
        others; `MemoryError` if that is the first error.
        """
        with agreed(self.communicator):
            yield


@contextmanager
def agreed(communicator: Joining) -> Iterator[None]:
    """As `Share.agreed`, for all ranks of a communicator."""
    error: Exception | None = None
    try:
        yield
    except Exception as found:
        error = found
    failed = [bool(flag) for (flag,) in communicator.allgather([error is not None])]
    if not any(failed):
        return
    first = failed.index(True)
    mine = communicator.rank == first
    said = communicator.broadcast(_said(error, first) if mine else None, first)
    if error is not None and (mine or not isinstance(error, (PoissonError, MemoryError))):
        raise error
    raise said


def _said(error: Exception | None, rank: int) -> Exception:
    """The error that the other ranks raise: a copy that can be sent."""
    if isinstance(error, CaseError):
        return CaseError(error.mistakes)
    if isinstance(error, (PoissonError, MemoryError)):
        return type(error)(*error.args)
    return RemoteFailure(rank, f"{type(error).__name__}: {error}", CODE_DEFECT)


class known_to_all(Generic[Value]):  # noqa: N801
    """A property that ranks find out together, once: as `functools.cached_property`, but without a lock.

    Python 3.11 holds one for all objects of a class meanwhile, so that ranks of one process would wait for each other.
    """

    def __init__(self, find: Callable[[Any], Value]) -> None:
        self._find = find
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        found: Value = self._find(instance)
        instance.__dict__[self._name] = found
        return found


# ---- from the rows of a part to blocks of the grid


def numbers_of(lattice: Lattice) -> tuple[Indices, ...]:
    """The number on the whole lattice of every node along each axis of an array, the slowest first."""
    return tuple(axis.index for axis in reversed(lattice.axes))


def on_blocks(
    index: Sequence[Indices], function: Callable[[ModuleType, Block], Any]
) -> Callable[[ModuleType, int, int], Any]:
    """A function of blocks of the grid as one of slabs of an array, whose nodes have these numbers along its axes."""

    def slab(xp: ModuleType, start: int, stop: int) -> Any:
        runs = [_runs(index[0][start:stop]), *map(_runs, index[1:])]
        return joined(xp, partial(function, xp), runs)

    return slab


def pieces_of(index: Sequence[Indices]) -> Iterator[tuple[Block, tuple[slice, ...]]]:
    """The blocks of the grid that an array has, and where: its nodes have these numbers along its axes."""
    pairs = []
    for numbers in index:
        runs = _runs(numbers)
        ends = np.cumsum([0, *(stop - start for start, stop in runs)]).tolist()
        pairs.append([(run, slice(*place)) for run, place in zip(runs, pairwise(ends), strict=True)])
    for combination in product(*pairs):
        block, place = zip(*combination, strict=True)
        yield block, place


def _runs(numbers: Indices) -> Block:
    """The ranges of numbers that follow one upon another; a halo may wrap around the ends of an axis."""
    pieces = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return tuple((int(piece[0]), int(piece[-1]) + 1) for piece in pieces)
