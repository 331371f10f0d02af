# SPDX-License-Identifier: MIT
"""The time of a work on many ranks: a model of halos, gathered grids, separators and sums, from a few measured numbers.

A rank computes on its nodes and on the halo beside them, and waits for what it exchanges; only the norms of the Jacobi
method come while it computes. An exchange takes a latency, and its bytes over a bandwidth, within a node or between
nodes: with more ranks than a node has, one of them has its neighbour elsewhere, and the slowest counts. How often there
is one, and how much it moves, follows what the methods do (`poisson.parallel`); tests compare it with what they are
counted to send.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from poisson.errors import GridError
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.parallel.distributed import FEWEST_OWNED, GATHERED_NODES
from poisson.parallel.division import LEAST_HALO, best_counts
from poisson.parallel.fast import GATHERED_BYTES_ON_DEVICE
from poisson.solvers import registry
from poisson.solvers.settings import SolverSettings

SUM_STEP = 2e-6
"""Seconds that a sum takes longer of twice as many ranks of a host."""

SUMS_OF_CG = 3
"""Sums of all ranks in an iteration of conjugate gradients; other methods read one norm."""


@dataclass(frozen=True)
class Link:
    """The link of one rank: the latency of an exchange with the packing, in s; bytes a second out to all its neighbours
    together; and what each further message of one exchange takes, in s.
    """

    latency: float
    bandwidth: float
    message: float = 1e-6

    def seconds(self, sent: float, messages: int = 1) -> float:
        """The seconds of an exchange in which a rank sends so many bytes in so many messages."""
        return self.latency + max(0, messages - 2) * self.message + sent / self.bandwidth


NVLINK = Link(8e-6, 230e9)
"""Between GPUs of a host, by NCCL in a graph: four H200, measured with messages of 8 KB and 8 MB to both neighbours."""

NDR = Link(10e-6, 50e9)
"""Between hosts with an InfiniBand port of 400 Gb/s for each GPU (NDR, as of NVIDIA's ConnectX-7): 2 µs are assumed for
the network, beside what an exchange takes within a host."""

PER_NODE = 8
"""GPUs of a host."""


@dataclass(frozen=True)
class Cluster:
    """Ranks, and the links between those of a node and of different nodes."""

    near: Link
    far: Link
    per_node: int

    def link(self, ranks: int) -> Link:
        """The link of the slowest of so many ranks."""
        return self.near if ranks <= self.per_node else self.far

    def sum(self, ranks: int) -> float:
        """Seconds until every rank has a sum of all: 6 and 8 µs on two and four GPUs of a host."""
        steps = math.log2(ranks)
        further = max(0.0, steps - math.log2(self.per_node))
        return self.near.latency / 2.0 + SUM_STEP * steps + (self.far.latency - self.near.latency) * further


@dataclass(frozen=True)
class Alone:
    """The seconds of an iteration on one rank: however small the grid is, for kernels that start and coarsest grids;
    and for each unknown, the bytes that are moved for it over the bandwidth of the memory.
    """

    fixed: float
    per_unknown: float

    @staticmethod
    def through(small: tuple[float, float], large: tuple[float, float]) -> "Alone":
        """From (unknowns, seconds) of two grids."""
        slope = max(0.0, (large[1] - small[1]) / (large[0] - small[0]))
        slope = min(slope, large[1] / large[0])
        return Alone(large[1] - slope * large[0], slope)


@dataclass(frozen=True)
class Expected:
    """An iteration on many ranks: the blocks of nodes along x, y(, z), and what a rank computes, exchanges of halos,
    gathers of coarse grids or separators of transforms, and waits for norms, in s; with the bytes that it sends.
    """

    blocks: tuple[int, ...]
    compute: float
    halo: float
    gather: float
    sums: float
    exchanges: float
    sent: float

    @property
    def seconds(self) -> float:
        return self.compute + self.halo + self.gather + self.sums

    @property
    def exchanged(self) -> float:
        """The part of the time that is no computing."""
        return 1.0 - self.compute / self.seconds


@dataclass(frozen=True)
class _Level:
    """A grid of a cycle: its nodes along x, y(, z), those that a rank owns, and whether it is divided."""

    whole: tuple[int, ...]
    owned: tuple[int, ...]
    divided: bool

    def with_halo(self, blocks: Sequence[int], halo: int) -> float:
        """Nodes that a rank computes on."""
        lines = zip(self.whole, self.owned, blocks, strict=True)
        return math.prod(min(whole, own + halo * min(2, count - 1)) for whole, own, count in lines)

    def faces(self, blocks: Sequence[int], halo: int) -> Iterator[float]:
        """Nodes that a rank sends along each axis that is divided."""
        for axis, count in enumerate(blocks):
            if count > 1:
                beside = (own for at, own in enumerate(self.owned) if at != axis)
                yield min(2, count - 1) * halo * math.prod(beside)


def expected(
    settings: SolverSettings,
    shape: tuple[int, ...],
    itemsize: int,
    ranks: int,
    alone: Alone,
    cluster: Cluster,
    *,
    depth: int = 1,
    gathered_nodes: int = GATHERED_NODES,
) -> Expected:
    """The cost of an iteration of a method by the model.

    `shape` is that of the whole grid, of whose values `itemsize` bytes are exchanged: 4 of cycles in float32. `depth`
    sweeps are a pass; grids of fewer than `gathered_nodes` are not divided.

    Raises `GridError` if there are too few nodes for so many ranks.
    """
    blocks = _blocks(settings, shape, ranks)
    if math.prod(blocks) == 1:
        compute = alone.fixed + alone.per_unknown * math.prod(shape)
        return Expected(blocks, compute, 0.0, 0.0, 0.0, 0.0, 0.0)
    halo = max(LEAST_HALO, registry.halo_of(settings, len(shape), depth))
    finest, link = _level(shape, blocks, 0), cluster.link(ranks)
    sums = (SUMS_OF_CG if settings.method == "cg" else 1) * cluster.sum(ranks)
    if settings.method == "fft":
        compute = alone.fixed + alone.per_unknown * math.prod(finest.owned)
        flow, messages, times = _separators(shape, itemsize, ranks)
        separators = times * link.seconds(flow / times, messages)
        between, moved, _ = _exchanges(finest, blocks, halo, itemsize, link)
        return Expected(blocks, compute, between, separators, sums, 1 + times, moved + flow)
    if settings.method not in ("multigrid", "cg"):
        compute = alone.fixed + alone.per_unknown * finest.with_halo(blocks, halo)
        between, moved, count = _exchanges(finest, blocks, halo, itemsize, link)
        # Each sweep uses up a layer. The norm is read while the next sweep is under way.
        late = max(0.0, sums / (depth if settings.value("loop") == "blocked" else 1) - compute)
        return Expected(blocks, compute, between / halo, 0.0, late, count / halo, moved / halo)
    levels = [finest]
    while levels[-1].divided and min(levels[-1].whole) > 3:
        levels.append(_level(shape, blocks, len(levels), gathered_nodes))
    divided, gathered = levels[:-1], levels[-1]
    # Of what a cycle takes on all its grids, the finest has the part that the others leave.
    part = 1.0 - 0.5 ** len(shape)
    nodes = sum(level.with_halo(blocks, halo) for level in divided) + math.prod(gathered.whole) / part
    compute = alone.fixed + alone.per_unknown * part * nodes
    halos = [
        (_times(settings, number, len(shape)), _exchanges(level, blocks, halo, itemsize, link))
        for number, level in enumerate(divided)
    ]
    between, moved, steps = (sum(often * each[at] for often, each in halos) for at in range(3))
    parts = math.prod(gathered.owned) * itemsize * (ranks - 1)
    gather = link.seconds(parts, ranks - 1)
    return Expected(blocks, compute, between, gather, sums, steps + 1, moved + parts)


def _times(settings: SolverSettings, number: int, dimension: int) -> int:
    """How often arrays of a divided grid are exchanged in a cycle: the restricted source, and the iterate.

    The finest has no such source. Below the second grid of a cycle of multigrid, and on it in 2D, whose halos are
    wider, the iterate comes with layers enough from the next coarser one; conjugate gradients need twice the sweeps
    after a correction.
    """
    if number == 0:
        return 1
    return 2 if settings.method == "cg" or (number == 1 and dimension == 3) else 1


def _blocks(settings: SolverSettings, shape: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    rules = (Rule.FIXED,) * (2 * len(shape))
    counts = best_counts(Lattice.uniform(shape, (1.0,) * len(shape), rules), ranks)
    if not registry.needs_planes(settings) or math.prod(counts) == 1:
        return counts
    if ranks > shape[-1] - 2:
        raise GridError(f"too many ranks ({ranks}) for {'x'.join(map(str, shape))} nodes: some would have no plane")
    return (*(1,) * (len(shape) - 1), ranks)


def _level(shape: tuple[int, ...], blocks: tuple[int, ...], number: int, gathered_nodes: int = 0) -> _Level:
    """A grid of a cycle; the rank is one in the middle, with the most nodes."""
    whole = tuple(max(3, ((nodes - 1) >> number) + 1) for nodes in shape)
    owned = tuple(-(-nodes // count) for nodes, count in zip(whole, blocks, strict=True))
    fewest = min(nodes // count for nodes, count in zip(whole, blocks, strict=True) if count > 1)
    return _Level(whole, owned, math.prod(whole) >= gathered_nodes and fewest >= FEWEST_OWNED)


def _exchanges(
    level: _Level, blocks: Sequence[int], halo: int, itemsize: int, link: Link
) -> tuple[float, float, float]:
    """The cost of exchanging the halos of one array: seconds, bytes that a rank sends, and exchanges."""
    sent = [itemsize * nodes for nodes in level.faces(blocks, halo)]
    return sum(link.seconds(each, 2) for each in sent), sum(sent), len(sent)


def _separators(shape: tuple[int, ...], itemsize: int, ranks: int) -> tuple[float, int, int]:
    """The cost of the separators of transforms: bytes that a rank sends, messages of an exchange, and exchanges."""
    plane = math.prod(shape[:-1]) * itemsize
    if 2.0 * (ranks - 1) * (1.0 - 2.0 / ranks) * plane <= GATHERED_BYTES_ON_DEVICE:
        return min(2, ranks - 1) * (ranks - 1) * plane, ranks - 1, 1
    return 4.0 * (ranks - 1) / ranks * plane, ranks - 1, 2
