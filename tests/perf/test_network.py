# SPDX-License-Identifier: MIT
"""The model of many ranks: what it says is sent is what is counted, and its numbers are right where they are known."""

import numpy as np
import pytest
from support.places import ROOT
from support.ranks import ThreadCommunicator, on_ranks

from poisson.backends.numpy import NumpyBackend
from poisson.errors import GridError
from poisson.perf.benchmark.works import FFT, KINDS, MULTIGRID, Work, WorkOfRank
from poisson.perf.network import Alone, Cluster, Link, expected
from scripts import scaling_model

FREE = Cluster(Link(0.0, 1e30, 0.0), Link(0.0, 1e30, 0.0), 8)
NOTHING = Alone(0.0, 0.0)
GATHERED = 3000


def counted(name: str, shape: tuple[int, ...], size: int) -> tuple[float, float]:
    """Exchanges and bytes of an iteration, by the rank that sends most."""

    def run(communicator: ThreadCommunicator) -> list[tuple[int, int]]:
        kind = KINDS[name]
        share = WorkOfRank(Work(name, shape, 16), NumpyBackend(kind.dtype), communicator, GATHERED)
        found = []
        for count in (2, 6):
            share.begin()
            before = share.tally.sent
            share.iterate(count)
            sent = share.tally.sent - before
            found.append((sent.exchanges, sent.bytes))
        return found

    every = np.array(on_ranks(size, run, delay=0.0))
    exchanges, sent = (every[:, 1] - every[:, 0]).max(axis=0) / 4.0
    return float(exchanges), float(sent)


@pytest.mark.parametrize(
    ("name", "shape", "size"),
    [
        ("square-fused", (96, 96), 2),
        ("square-fused", (96, 96), 3),
        ("multigrid", (257, 257), 2),
        ("multigrid", (129, 257), 3),
        ("multigrid", (33, 65, 65), 2),
        ("multigrid", (33, 65, 65), 4),
        ("cg", (33, 65, 65), 2),
    ],
)
def test_what_is_sent_is_what_is_counted(name: str, shape: tuple[int, ...], size: int) -> None:
    kind = KINDS[name]
    itemsize = 4 if kind.precision == "mixed" else kind.dtype.itemsize
    found = expected(kind.settings, shape, itemsize, size, NOTHING, FREE, gathered_nodes=GATHERED)
    exchanges, sent = counted(name, shape, size)
    assert found.exchanges == pytest.approx(exchanges, abs=0.3)
    # Halos are one node wider where that makes them begin at an even node, and have those of other axes.
    assert found.sent == pytest.approx(sent, rel=0.25)


def test_one_rank_takes_what_was_measured_and_free_links_divide_it() -> None:
    alone = Alone.through((1000.0, 3.0), (3000.0, 7.0))
    assert (alone.fixed, alone.per_unknown) == (pytest.approx(1.0), pytest.approx(0.002))
    # Where the larger grid is the faster one nothing is fixed.
    assert Alone.through((1000.0, 1.0), (2000.0, 4.0)) == Alone(0.0, 0.002)
    cube = (65, 65, 65)
    one = expected(FFT, cube, 8, 1, alone, FREE)
    assert (one.seconds, one.exchanged, one.blocks) == (1.0 + 0.002 * 65**3, 0.0, (1, 1, 1))
    five = expected(FFT, cube, 8, 5, Alone(0.0, 1.0), FREE)
    assert five.seconds == pytest.approx(65**3 / 5.0, abs=1e-3)


def test_the_parts_of_the_time() -> None:
    cluster = Cluster(Link(4e-6, 1e9, 1e-6), Link(9e-6, 1e8, 1e-6), 4)
    jacobi = KINDS["square-fused"].settings
    found = expected(jacobi, (64, 80), 8, 4, Alone(1e-4, 0.0), cluster)
    # Four rows each way, once in four sweeps; the norm comes meanwhile.
    assert (found.blocks, found.compute, found.sums) == ((1, 4), 1e-4, 0.0)
    assert found.halo == pytest.approx((4e-6 + 2 * 4 * 64 * 8 / 1e9) / 4)
    assert expected(jacobi, (64, 80), 8, 8, Alone(1e-4, 0.0), cluster).halo == pytest.approx(
        (9e-6 + 2 * 4 * 64 * 8 / 1e8) / 4
    )
    quick = expected(jacobi, (64, 80), 8, 4, Alone(1e-6, 0.0), cluster)
    assert quick.sums == pytest.approx(cluster.sum(4) - 1e-6) and cluster.sum(4) == pytest.approx(6e-6)
    assert cluster.sum(16) == pytest.approx(2e-6 + 8e-6 + 10e-6)
    # To three others, on one grid that is small enough.
    cycle = expected(MULTIGRID, (65, 65, 129), 4, 4, NOTHING, cluster, gathered_nodes=33 * 33 * 65)
    assert cycle.gather == pytest.approx(4e-6 + 1e-6 + 3 * 17 * 17 * 9 * 4 / 1e9)


def test_the_halo_of_a_small_block_is_computed_too() -> None:
    per_node = Alone(0.0, 1.0)
    jacobi = KINDS["square-fused"].settings
    assert expected(jacobi, (100, 100), 8, 2, per_node, FREE).compute == 100 * (50 + 4)
    assert expected(jacobi, (100, 100), 8, 10, per_node, FREE).compute == 100 * (10 + 8)


def test_more_ranks_than_planes_are_refused() -> None:
    with pytest.raises(GridError, match="too many ranks"):
        expected(FFT, (33, 33, 33), 8, 32, NOTHING, FREE)


def test_the_table_of_the_document_is_that_of_the_model() -> None:
    """Where this fails, put in what ``python scripts/scaling_model.py`` prints."""
    assert "\n".join(scaling_model.lines()) in (ROOT / "docs/performance-ranks.md").read_text("utf-8")
