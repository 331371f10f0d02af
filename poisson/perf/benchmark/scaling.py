# SPDX-License-Identifier: MIT
"""How the time of a work changes with the ranks that share it: strong scaling of one grid, weak of one that grows."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.gpu.backend import GpuBackend
from poisson.errors import GridError, PoissonError
from poisson.output.table import Column, Report
from poisson.parallel.communicator import Communicator, Message, Serial
from poisson.perf.benchmark.turns import COLUMNS, OF_MODEL, MeasuredWork, Turns, measure, of_model
from poisson.perf.benchmark.works import KINDS, Work, largest_cube
from poisson.perf.network import NDR, NVLINK, PER_NODE, Alone, Cluster, Expected, Link, expected
from poisson.perf.timing import Timing
from poisson.run.devices import communicator_for, take_place
from poisson.solvers.registry import arrays_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = TypeVar("Value")

REPEATS = 5
OF_MEMORY = 0.9
"""The part of the free memory that the arrays of the largest cube may take."""
FURTHER = (8, 64, 1024, 10000)
"""Numbers of ranks that the model is asked for beyond those that are measured."""
LINK_VALUES = (1, 1 << 20)
"""Values of float64 in messages whose times give a latency and a bandwidth."""
LINK_REPEATS = 21


@dataclass(frozen=True)
class Wanted:
    """The grids of the works, where they are not to be the usual ones.

    Nodes along x, y(, z) of multigrid, fft and cg, and those of one rank; nodes of the published problems as their
    authors count, and iterations of these; nodes along each side of the largest cube, by default as many as fit.
    """

    boxes: tuple[tuple[int, ...], ...] = ()
    weak: tuple[tuple[int, ...], ...] = ()
    jacobi: int | None = None
    iterations: int | None = None
    largest: int | None = None

    def works(self, name: str, usual: Usual) -> list[Work]:
        """The works of a name; none of ``largest`` without a size."""
        kind = KINDS[name]
        if kind.published:
            n = self.jacobi or (usual.laplace if kind.published == "laplace" else usual.square)
            return [Work(name, (n, n), self.iterations or usual.iterations)]
        if kind.largest:
            return [] if self.largest is None else [Work(name, _cube(self.largest))]
        boxes = self.boxes or (usual.cg if kind.settings.method == "cg" else usual.boxes)
        return [Work(name, shape) for shape in ((self.weak or usual.weak) if kind.weak else boxes)]


@dataclass(frozen=True)
class Usual:
    """The usual grids: see `Wanted`."""

    laplace: int
    square: int
    iterations: int
    boxes: tuple[tuple[int, ...], ...]
    cg: tuple[tuple[int, ...], ...]
    weak: tuple[tuple[int, ...], ...]


def _cube(nodes: int) -> tuple[int, ...]:
    return (nodes,) * 3


ON_GPU = Usual(20480, 16384, 1000, (_cube(1025),), (_cube(513),), (_cube(513),))
ON_CPU = Usual(4096, 4096, 100, ((4097, 4097), _cube(257)), (_cube(129),), (_cube(129),))


@dataclass(frozen=True)
class Group:
    """The ranks that do works, how many they are, and the threads of each; no communicator on others."""

    communicator: Communicator | None
    ranks: int
    threads: int


@dataclass
class Series:
    """A series of measurements on some of the ranks of a communicator, the first ones, while the others wait.

    The works are by default all of `KINDS`, ``largest`` only on a GPU or where its size is given. The numbers of ranks
    ascend, and `threads` has those of a rank for each. Solves are repeated, fewer times where they take long; with
    `model` what `poisson.perf.network` expects is added.
    """

    communicator: Communicator
    wanted: Wanted = Wanted()
    works: Sequence[str] = ()
    ranks: Sequence[int] = (1,)
    threads: Sequence[int] = (1,)
    name: str = "auto"
    repeats: int = REPEATS
    model: bool = False
    _devices: dict[str, None] = field(default_factory=dict, init=False)
    _backends: dict[tuple[np.dtype[Any], int], Backend] = field(default_factory=dict, init=False)
    _alone: dict[Work, Alone] = field(default_factory=dict, init=False)
    _on_host: bool = field(default=True, init=False)

    def report(self) -> Report:
        """Measure, on all processes; the report is that of the first, and without rows on others.

        Raises `PoissonError` if a work cannot be done, or the model is to be compared and nothing is measured on one
        rank.
        """
        if self.model and self.ranks[0] != 1:
            raise PoissonError("the model needs a measurement on one process: --ranks=1,...")
        # A GPU for each of all ranks, also where some of them work.
        take_place(self.communicator, self.name, self.threads[0])
        self._on_host = not self.communicator.agree(not self._probe.on_host)
        places = [
            Group(_first(self.communicator, ranks), ranks, threads)
            for ranks, threads in zip(self.ranks, self.threads, strict=True)
        ]
        measured: list[MeasuredWork] = []
        # On a host other programs disturb now more and now less: all numbers of ranks take turns, solve by solve. The
        # memory of a device has room for the largest arrays of one of them.
        for group in [places] if self._on_host else [[place] for place in places]:
            for work, chosen in self._chosen(group):
                measured += self._in_turn(work, chosen)
                gc.collect()
            self._backends.clear()
        rows: Sequence[Mapping[str, Any]] = self._rows(measured)
        columns: tuple[Column, ...] = COLUMNS
        notes: tuple[str, ...] = NOTES
        if self.model:
            cluster = self._cluster()
            rows = self._with_model(measured, cluster)
            columns, notes = (*COLUMNS, *OF_MODEL), (*NOTES, *_assumed(cluster))
        return Report(
            f"scaling: {', '.join(self._devices)}", columns, tuple(rows), notes, lambda figure: _draw(figure, measured)
        )

    def _in_turn(self, work: Work, group: Sequence[Group]) -> list[MeasuredWork]:
        """Measure in several places in turns: a solve in each, then the next solve in each."""
        turns = {place: self._there(place, partial(self._turns, work, place)) for place in group}
        mine = [each for each in turns.values() if each is not None]
        while self.communicator.agree(not all(each.enough(self.repeats) for each in mine)):
            for place, each in turns.items():
                self._there(place, partial(_take, each, self.repeats))
        found = [self._there(place, partial(_measured, each)) for place, each in turns.items()]
        for place, one in zip(group, found, strict=True):
            if self.model and place.ranks == 1:
                self._there(place, partial(self._find_alone, work, place, one))
        return [one for one in found if one is not None]

    def _there(self, place: Group, action: Callable[[], Value]) -> Value | None:
        """Let the ranks of a place work while the others sleep, whose processors they might need."""
        found = None
        if place.communicator is not None:
            # Others know of an error by the communicator of all.
            with place.communicator.together():
                found = action()
        self.communicator.barrier(asleep=True)
        return found

    def _turns(self, work: Work, place: Group) -> Turns:
        assert place.communicator is not None
        backend = self._backend(work.kind.dtype, place.threads)
        self._devices[f"{backend.name}: {backend.device}"] = None
        return Turns(work, backend, communicator_for(place.communicator, backend), place.threads)

    def _find_alone(self, work: Work, place: Group, found: MeasuredWork | None) -> None:
        """The costs of a rank alone, from the work on this grid and on one of twice the spacing."""
        assert place.communicator is not None
        assert found is not None
        half = replace(work, shape=tuple((nodes - 1) // 2 + 1 for nodes in work.shape))
        small = measure(half, self._backend(work.kind.dtype, place.threads), Serial(), place.threads, self.repeats)
        pairs = ((each.unknowns, each.timing.median / each.iterations) for each in (small, found))
        self._alone[work] = Alone.through(*pairs)

    @property
    def _probe(self) -> Backend:
        return self._backend(np.dtype(np.float64), self.threads[0])

    def _backend(self, dtype: np.dtype[Any], threads: int) -> Backend:
        key = dtype, threads
        if key not in self._backends:
            self._backends[key] = backends.create(self.name, *key)
        return self._backends[key]

    def _rows(self, measured: Sequence[MeasuredWork]) -> list[Mapping[str, Any]]:
        works = list(dict.fromkeys(each.work for each in measured))
        ordered = sorted(measured, key=lambda each: (list(KINDS).index(each.work.name), works.index(each.work)))
        return [each.row(_base(each, measured), self._on_host, None) for each in ordered]

    # ---- the model

    def _cluster(self) -> Cluster:
        """The links as they are measured here, and published ones between nodes."""
        communicator = self.communicator
        if communicator.size == 1:
            return Cluster(NVLINK, NDR, PER_NODE)
        backend = self._backend(np.dtype(np.float64), self.threads[-1])
        return Cluster(link_of(communicator_for(communicator, backend), backend), NDR, max(PER_NODE, communicator.size))

    def _with_model(self, measured: Sequence[MeasuredWork], cluster: Cluster) -> list[Mapping[str, Any]]:
        rows = []
        for work in sorted({each.work: None for each in measured}, key=lambda work: list(KINDS).index(work.name)):
            if work not in self._alone:
                continue
            found = [each for each in measured if each.work == work]
            rows += [each.row(found[0], self._on_host, self._expected(work, each.ranks, cluster)) for each in found]
            for ranks in FURTHER:
                model = self._expected(work, ranks, cluster)
                if model is not None and ranks > found[-1].ranks:
                    rows.append(
                        {
                            "work": work.name,
                            "size": "x".join(map(str, work.on(ranks).shape)),
                            "ranks": ranks,
                            "blocks": "x".join(map(str, model.blocks)),
                            "iterations": found[-1].iterations,
                            **of_model(model, found[-1].iterations),
                        }
                    )
        return rows

    def _expected(self, work: Work, ranks: int, cluster: Cluster) -> Expected | None:
        kind = work.kind
        itemsize = 4 if kind.precision == "mixed" else kind.dtype.itemsize
        operator = work.on(ranks)
        depth = self._backend(work.kind.dtype, self.threads[0]).bind(operator).depth()
        try:
            return expected(kind.settings, operator.shape, itemsize, ranks, self._alone[work], cluster, depth=depth)
        except GridError:
            # There are not so many planes.
            return None

    def _chosen(self, group: Sequence[Group]) -> Iterator[tuple[Work, Sequence[Group]]]:
        """The works, and where each is done."""
        on_gpu = self.communicator.broadcast(isinstance(self._probe, GpuBackend))
        for name in self.works or KINDS:
            for work in self.wanted.works(name, ON_GPU if on_gpu else ON_CPU):
                yield work, group
            last = group[-1]
            most = last.ranks == max(self.ranks)
            if KINDS[name].largest and self.wanted.largest is None and (self.works or on_gpu) and most:
                nodes = self._there(last, partial(self._fitting, name, last))
                yield Work(name, _cube(self.communicator.broadcast(nodes))), [last]

    def _fitting(self, name: str, place: Group) -> int:
        assert place.communicator is not None
        return _fitting(name, self._probe, place.communicator)


def _take(turns: Turns | None, repeats: int) -> None:
    assert turns is not None
    if not turns.enough(repeats):
        turns.take()


def _measured(turns: Turns | None) -> MeasuredWork:
    assert turns is not None
    return turns.measured()


def _first(communicator: Communicator, ranks: int) -> Communicator | None:
    """The communicator of the first so many ranks; None on the others."""
    if ranks == communicator.size:
        return communicator
    if ranks == 1:
        return Serial() if communicator.rank == 0 else None
    found: Communicator | None = communicator.first(ranks)  # type: ignore[attr-defined]  # that of MPI alone
    return found


def link_of(communicator: Communicator, backend: Backend) -> Link:
    """Measure the links between neighbouring ranks of a communicator; all ranks call this."""
    ends = ((communicator.rank + 1) % communicator.size, (communicator.rank - 1) % communicator.size)
    peers = list(dict.fromkeys(ends))
    seconds = []
    for values in LINK_VALUES:
        xp = backend.array_module if communicator.on_device else np
        with backend.ordered():
            arrays = [xp.ones(values) for _ in range(2 * len(peers))]
        messages = [Message(array, peers[at // 2], 0, sends=at % 2 == 0) for at, array in enumerate(arrays)]

        def exchange(messages: Sequence[Message] = messages) -> None:
            with backend.ordered():
                communicator.exchange(messages)

        # The first one connects; between devices it is recorded, as in a solve.
        exchange()
        repeated = backend.capture(exchange) if communicator.on_device else exchange
        communicator.barrier()
        own = [backend.seconds(repeated) for _ in range(LINK_REPEATS)]
        seconds.append(max(each for (each,) in communicator.allgather([Timing.of(own).median])))
    sent = 8.0 * (LINK_VALUES[1] - LINK_VALUES[0]) * len(peers)
    return Link(seconds[0], sent / max(1e-9, seconds[1] - seconds[0]))


def _assumed(cluster: Cluster) -> tuple[str, ...]:
    near, far = cluster.near, cluster.far
    return (
        "expected: from the model of docs/performance.md, also for more processes than measured; exchanged: the part "
        "of the expected time that exchanges take",
        f"links within a node: {near.latency * 1e6:.3g} us, {near.bandwidth / 1e9:.3g} GB/s out of a process; between "
        f"nodes of {cluster.per_node}: {far.latency * 1e6:.3g} us, {far.bandwidth / 1e9:.3g} GB/s",
    )


def _fitting(name: str, backend: Backend, communicator: Communicator) -> int:
    """Nodes along each side of the largest cube that fits the memory of all ranks."""
    kind = KINDS[name]
    memory = backend.memory()
    # On one host, ranks on the CPU share its memory.
    shared = communicator.size if backend.on_host else 1
    free = math.inf if memory is None else memory[0] / shared
    least = min(each for (each,) in communicator.allgather([free]))
    return largest_cube(OF_MEMORY * least * communicator.size, arrays_of(kind.settings, kind.precision, 3))


def _base(measured: MeasuredWork, all_measured: Sequence[MeasuredWork]) -> MeasuredWork:
    """The same work on the fewest ranks."""
    return min((each for each in all_measured if each.work == measured.work), key=lambda each: each.ranks)


NOTES = (
    "ms: the median time of a solve on the slowest rank, without set-up, with all arrays in the backend's memory",
    "times faster: unknowns per second relative to the same work on the fewest ranks; efficiency: times faster, "
    "divided by the same ratio of processors (threads on a CPU, GPUs)",
    "exchanges, MB sent: in one solve, by the rank with the most; gathered: the part of the time that multigrid takes "
    "on grids that every rank has as a whole",
)


def _draw(figure: Figure, measured: Sequence[MeasuredWork]) -> None:
    """Unknowns a second over the ranks, and where they would lie with an efficiency of one."""
    from matplotlib import colormaps

    axes = figure.add_subplot()
    for number, work in enumerate(dict.fromkeys(each.work for each in measured)):
        found = sorted((each for each in measured if each.work == work), key=lambda each: each.ranks)
        ranks = [each.ranks for each in found]
        rates = [each.unknowns * (each.iterations if work.kind.published else 1) / each.timing.median for each in found]
        label = f"{work.name} {'x'.join(map(str, work.shape))}"
        color = colormaps["tab20"](number % 20)
        axes.plot(ranks, rates, "o-", label=label, color=color)
        axes.plot(ranks, [rates[0] * many / ranks[0] for many in ranks], ":", color=color, linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    every = sorted({each.ranks for each in measured})
    axes.set_xticks(every, [str(each) for each in every])
    axes.set_xlabel("ranks")
    axes.set_ylabel("unknowns per second (Jacobi: times iterations)")
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_title("dotted: efficiency 1", fontsize="small")
