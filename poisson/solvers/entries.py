# SPDX-License-Identifier: MIT
"""Entries of the registry for methods and preconditioners, each in the file of the method that it describes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from poisson.backends.base import Operations
from poisson.problem.problem import Problem
from poisson.solvers.expected import Offer, Question
from poisson.solvers.iteration import Method, Preconditioner
from poisson.solvers.keys import Settings
from poisson.solvers.multigrid.coarser import CoarserProblems
from poisson.solvers.settings import SolverSettings
from poisson.solvers.stopping import Patience

ARRAYS_OF_LEVEL = 4.25
"""Four, on grids with a little more than 2^−dimension of the nodes."""

ARRAYS_OF_CORRECTION = 3.0
"""Arrays in float64 of mixed precision: u, the source, and one that is needed after the solve."""


class Clash(NamedTuple):
    """A value that does not go with the others: its key, the value, and what would."""

    path: tuple[str, str]
    item: Any
    allowed: str


def clash(name: str, item: Any, allowed: str) -> Clash:
    """One of a key of ``[solver]``."""
    return Clash(("solver", name), item, allowed)


@dataclass(frozen=True)
class Given:
    """The material from which a method or a preconditioner is made.

    `operations`: those of A, with coefficients on that backend. `settings`: with the method and its settings. `inner`:
    those of A on the companion of float32: with it the cycles, or the directions of ``cg`` and their preconditioner,
    are made there (mixed precision). `coarser`: the problem on coarser grids, which ``multigrid`` needs to stop at the
    discretisation error.
    """

    operations: Operations
    settings: SolverSettings
    inner: Operations | None = None
    coarser: CoarserProblems | None = None


@dataclass(frozen=True)
class Sizes:
    """The quantities that determine the memory of a method.

    `settings`: of the solve. `precision`: mixed precision has the cycles, with a source and a correction, and the
    directions of ``cg`` in float32. `dimension`: of the grid: each coarser one has 2^−dimension of its nodes.
    `coefficients`: arrays that the coefficients take where they vary, or 0. `half_open`: axes with an open end and a
    wall. `on_device`: whether the arrays are not in the host's memory.
    """

    settings: SolverSettings
    precision: str
    dimension: int
    coefficients: float
    half_open: int = 0
    on_device: bool = False

    @property
    def levels(self) -> float:
        """Arrays of all levels below the finest, each of which has four and the coefficients."""
        return (ARRAYS_OF_LEVEL + self.coefficients) / (2.0**self.dimension - 1.0)

    def mixed(self, in_float32: float) -> float:
        """Arrays of a method in mixed precision, of which so many, and the coefficients once more, are in float32."""
        return ARRAYS_OF_CORRECTION + self.coefficients + 0.5 * (in_float32 + self.coefficients)


def so_many(arrays: float) -> Callable[[Sizes], float]:
    """The estimate of a method that always takes so many arrays beside the coefficients."""
    return lambda sizes: arrays + sizes.coefficients


USUAL_HALO = 4
"""Nodes beside the part of a rank that it has a copy of, where a method does not say how many it makes use of."""


def _usual_halo(settings: SolverSettings, dimension: int, depth: int) -> int:
    return USUAL_HALO


def _nothing(*_: Any) -> Iterable[Clash]:
    return ()


def _alone(settings: SolverSettings) -> Mapping[str, SolverSettings]:
    return {settings.method: settings}


def _same(settings: SolverSettings) -> SolverSettings:
    return settings


@dataclass(frozen=True)
class MethodEntry:
    """A method.

    `name`: the name in ``[solver] method``.
    `rank`: its place in lists: the most useful first.
    `use`, `iteration`: what it is for, and what an iteration is, in Markdown: a row of the table in docs/methods.md.
    `make`: the method with its set-up done.
    `arrays`: arrays of the grid's size, in the type of u, that a solve takes at once, u and the coefficients included.
    `keys`: the keys of ``[solver]`` that mean something to it, beside `registry.COMMON_KEYS`; any other may have its
    default only, for no setting is accepted and then ignored.
    `parts`: the records that declare those of the keys that are declared nowhere else.
    `mixed`: whether it has mixed precision: whether `make` heeds ``inner``.
    `wrong`: the settings, given with the precision, that do not go together.
    `refused`: the settings that do not go with a problem.
    `offer`: what it offers where `auto` asks: None where it is not meant for such a problem, or why it is out. `verify`
    compares the methods that have one in the place of ``auto``.
    `patience`: the progress that is expected of it, if it was chosen, before another method goes on.
    `variants`: what `verify` compares in its place, by names for people.
    `resuming`: the settings for a solve that has an initial guess.
    `label`: the method with its main settings, for people.
    `sweep`: the operations of an iteration, where it is a sweep whose bytes say how fast it is; else none.
    `halo`: where the grid is divided over ranks: how many nodes beside its part a rank has a copy of, so that a pass of
    the method exchanges them once; given the settings, the dimension, and how many sweeps one pass makes.
    `direct`: whether its first iteration solves, but for rounding.
    `in_place`: whether it reads the source by `Operations.take` and `certify` alone, so that it may lie in the memory
    of the caller.
    `planes`: whether each rank must then have whole rows, or planes in 3D.
    """

    name: str
    rank: int
    use: str
    iteration: str
    make: Callable[[Given], Method]
    arrays: Callable[[Sizes], float]
    keys: frozenset[str] = frozenset()
    parts: tuple[type[Settings], ...] = ()
    mixed: bool = False
    wrong: Callable[[SolverSettings, str], Iterable[Clash]] = _nothing
    refused: Callable[[SolverSettings, Problem], Iterable[Clash]] = _nothing
    offer: Callable[[Question], Offer | str | None] | None = None
    patience: Patience | None = None
    variants: Callable[[SolverSettings], Mapping[str, SolverSettings]] = _alone
    resuming: Callable[[SolverSettings], SolverSettings] = _same
    label: Callable[[SolverSettings], str] = lambda settings: settings.method
    sweep: Callable[[SolverSettings], tuple[str, ...]] = lambda settings: ()
    halo: Callable[[SolverSettings, int, int], int] = _usual_halo
    direct: bool = False
    in_place: bool = False
    planes: Callable[[SolverSettings], bool] = lambda settings: False


@dataclass(frozen=True)
class PreconditionerEntry:
    """A preconditioner of ``cg``.

    `name`: the name in ``[solver] preconditioner``.
    `rank`: its place in lists.
    `use`: what it is and what it is for, in Markdown: a row of the table in docs/methods.md.
    `make`: the preconditioner with its set-up done; None: none.
    `arrays`: arrays of the grid's size that it takes beside those of ``cg``.
    `keys`, `parts`, `wrong`, `refused`: as of `MethodEntry`.
    `mixed`: whether it goes with mixed precision.
    `stands_by`: its place among those with which ``cg`` goes on where a method that was chosen stalls; None: it is not
    one.
    `label`: what is said after "cg" to people.
    `halo`: as of `MethodEntry`.
    `planes`: whether each rank must have whole rows, or planes in 3D, where the grid is divided.
    """

    name: str
    rank: int
    use: str
    make: Callable[[Given], Preconditioner | None]
    arrays: Callable[[Sizes], float] = lambda sizes: 0.0
    keys: frozenset[str] = frozenset()
    parts: tuple[type[Settings], ...] = ()
    mixed: bool = False
    wrong: Callable[[SolverSettings, str], Iterable[Clash]] = _nothing
    refused: Callable[[SolverSettings, Problem], Iterable[Clash]] = _nothing
    stands_by: int | None = None
    label: Callable[[SolverSettings], str] = lambda settings: f" with preconditioner {settings.preconditioner}"
    halo: Callable[[SolverSettings, int, int], int] = _usual_halo
    planes: bool = False
