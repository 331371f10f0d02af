# SPDX-License-Identifier: MIT
"""`bench scaling`: works on several ranks, what they exchange, and the rows of the report.

Covers poisson.cli.scaling.
"""

import json
import math
from typing import Any

import numpy as np
import pytest
from conftest import emulated
from support.mpi import mpirun
from support.ranks import ThreadCommunicator, on_ranks

from poisson.backends.numpy import NumpyBackend
from poisson.errors import PoissonError
from poisson.output.table import Report
from poisson.parallel.communicator import Message, Serial
from poisson.perf.benchmark.scaling import Series, Wanted, link_of
from poisson.perf.benchmark.tally import Recorder, Sent, Tally
from poisson.perf.benchmark.turns import COLUMNS, OF_MODEL, MeasuredWork, Turns, measure
from poisson.perf.benchmark.works import KINDS, Work, WorkOfRank, grown, largest_cube
from poisson.perf.timing import Timing

SMALL = Wanted(((33, 33), (17, 17, 17)), ((17, 17, 17),), 64, 12, 17)


def series(size: int, works: tuple[str, ...], **options: Any) -> Report:
    """The report of the first of so many ranks, on one rank and on all."""

    def run(communicator: ThreadCommunicator) -> Report:
        ranks = (1, size)
        return Series(communicator, SMALL, works, ranks, (1, 1), "numpy", 2, **options).report()

    return on_ranks(size, run, delay=0.0)[0]


def test_every_work_is_measured_on_one_rank_and_on_two() -> None:
    report = series(2, ())
    assert report.columns == COLUMNS
    found = [(row["work"], row["size"], row["ranks"], row["blocks"]) for row in report.rows]
    boxes = ("33x33", ("1x1", "1x2")), ("17x17x17", ("1x1x1", "1x1x2"))
    expected: list[tuple[str, str, int, str]] = []
    for name, size in (("laplace-fused", "64x62"), ("laplace-blocked", "64x62"), ("square-fused", "66x66")):
        expected += [(name, size, 1, "1x1"), (name, size, 2, "1x2")]
    for name in ("multigrid", "fft"):
        expected += [(name, size, ranks, blocks[ranks - 1]) for ranks in (1, 2) for size, blocks in boxes]
    for name in ("weak-multigrid", "weak-fft"):
        expected += [(name, "17x17x17", 1, "1x1x1"), (name, "17x17x33", 2, "1x1x2")]
    expected += [("cg", size, ranks, blocks[ranks - 1]) for ranks in (1, 2) for size, blocks in boxes]
    expected += [("largest", "17x17x17", 1, "1x1x1"), ("largest", "17x17x17", 2, "1x1x2")]
    assert sorted(found) == sorted(expected)
    for row in report.rows:
        assert 0.0 < row["lowest"] <= row["seconds"] <= row["highest"]
        assert (row["exchanges"] > 0) == (row["bytes"] > 0) == (row["ranks"] == 2)
        assert row["iterations"] == 12 if "x6" in row["size"] else row["iterations"] >= 1
        nodes = math.prod(int(part) - 2 for part in row["size"].split("x"))
        if row["work"] in ("multigrid", "fft", "cg"):
            assert row["unknowns_per_second"] * row["seconds"] == pytest.approx(nodes)
        if row["work"] in ("multigrid", "cg") and row["ranks"] == 2:
            assert row["below"] > 0.0
        else:
            assert row["below"] is None or row["work"] in ("weak-multigrid", "largest")


def test_numbers_of_ranks_take_turns_on_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    took: list[int] = []
    take = Turns.take

    def noted(turns: Turns) -> None:
        if turns._communicator.rank == 0:
            took.append(turns._communicator.size)
        take(turns)

    monkeypatch.setattr(Turns, "take", noted)
    series(2, ("square-fused",))
    assert took == [1, 2, 1, 2]
    # On a device the arrays of one number of ranks are there at a time.
    took.clear()
    monkeypatch.setattr(NumpyBackend, "on_host", False)
    series(2, ("square-fused",))
    assert took == [1, 1, 2, 2]


def test_efficiency_is_that_beside_the_same_work_on_the_fewest_ranks() -> None:
    rows = {(row["work"], row["ranks"]): row for row in series(3, ("square-fused", "weak-fft")).rows}
    for work in ("square-fused", "weak-fft"):
        one, three = rows[work, 1], rows[work, 3]
        assert (one["speedup"], one["efficiency"]) == (1.0, 1.0)
        speedup = three["unknowns_per_second"] / one["unknowns_per_second"]
        assert (three["speedup"], three["efficiency"]) == (pytest.approx(speedup), pytest.approx(speedup / 3.0))
    assert rows["square-fused", 1]["size"] == rows["square-fused", 3]["size"]
    assert rows["weak-fft", 3]["size"] == "17x17x49"


def test_more_threads_are_more_processors_on_a_host() -> None:
    work = Work("fft", (33, 33))

    def of(ranks: int, threads: int, seconds: float) -> MeasuredWork:
        return MeasuredWork(work, ranks, threads, (33, 33), (1, ranks), 961, 1, Timing.of([seconds]), Sent(), None)

    base = of(1, 2, 3.0)
    for on_host, expected in ((True, 1.5), (False, 0.75)):
        row = of(2, 1, 2.0).row(base, on_host, None)
        assert (row["speedup"], row["efficiency"]) == (pytest.approx(1.5), pytest.approx(expected))
    # Beside nothing there is no efficiency.
    alone = of(2, 1, 2.0)
    row = alone.row(alone, True, None)
    assert (row["speedup"], row["efficiency"], row["unknowns_per_second"]) == (None, None, 480.5)


def test_every_rank_has_the_times_of_the_slowest() -> None:
    work = Work("fft", (33, 33))
    found = on_ranks(3, lambda communicator: measure(work, NumpyBackend(np.float64), communicator, 1, 3), delay=1e-3)
    assert found[0] == found[1] == found[2]


def test_a_blocked_loop_reads_the_norm_after_each_block() -> None:
    def sums(name: str) -> int:
        def run(communicator: ThreadCommunicator) -> int:
            share = WorkOfRank(Work(name, (64, 64), 32), NumpyBackend(np.float32), communicator)
            before = share.tally.sent
            share.solve()
            return (share.tally.sent - before).sums

        return on_ranks(2, run, delay=0.0)[0]

    assert sums("laplace-blocked") < 32 <= sums("laplace-fused")


def test_a_solve_on_ranks_does_what_one_does() -> None:
    for name, shape in (("square-fused", (64, 64)), ("laplace-blocked", (64, 64)), ("cg", (17, 33, 33))):
        work = Work(name, shape, 24)

        def run(communicator: ThreadCommunicator, work: Work = work) -> Any:
            share = WorkOfRank(work, NumpyBackend(work.kind.dtype), communicator, gathered_nodes=1000)
            share.begin()
            share.solve()
            share.begin()
            result = share.solve()
            owned = share.backend.to_host(result.u)[share.operator.lattice.owned]
            return result.iterations, owned

        [(iterations, whole)] = on_ranks(1, run, delay=0.0)
        parts = on_ranks(3, run, delay=0.0)
        assert [part[0] for part in parts] == [iterations] * 3
        joined = np.concatenate([part[1] for part in parts])
        np.testing.assert_allclose(joined, whole, rtol=0.0, atol=3e-7 * np.abs(whole).max())


def test_grids_grow_with_the_ranks() -> None:
    assert grown((513, 513, 513), 4) == (513, 1025, 1025)
    assert grown((513, 513, 513), 8) == (1025,) * 3
    assert grown((33, 33), 6) == (65, 97)
    assert math.prod(nodes - 1 for nodes in grown((513,) * 3, 10000)) == 10000 * 512**3


def test_the_largest_cube_fits_and_halves() -> None:
    for memory in (1e8, 1e9, 4.2e11):
        n = largest_cube(memory, 4.65)
        assert n**3 * 4.65 * 8 <= memory < (1.14 * n) ** 3 * 4.65 * 8
        assert (n - 1) % 2 ** (int(math.log2(n)) - 4) == 0
    assert largest_cube(4 * 0.9 * 139e9, 4.65) == 2305
    with pytest.raises(PoissonError, match="no cube fits"):
        largest_cube(1e4, 4.65)


def test_what_a_recording_sends_counts_with_its_replays() -> None:
    """On a device, by a backend that records."""

    class OnDevice(ThreadCommunicator):
        on_device = True

    class Recording(NumpyBackend):
        def companion(self, dtype: Any) -> Any:
            return self

        def capture(self, function: Any) -> Any:
            function()
            return lambda: None

    def run(communicator: ThreadCommunicator) -> Sent:
        communicator.__class__ = OnDevice
        tally = Tally(communicator)
        peer = 1 - communicator.rank

        def exchange() -> None:
            outgoing, incoming = np.ones(5), np.ones(5)
            tally.exchange([Message(outgoing, peer, 0, True), Message(incoming, peer, 0, False)])

        replay = Recorder(Recording(np.float64), tally).companion(np.float32).capture(exchange)
        assert tally.sent == Sent()
        for _ in range(3):
            replay()
        tally.allgather([1.0])
        return tally.sent

    assert on_ranks(2, run) == [Sent(3, 120, 1)] * 2


def test_the_model_stands_beside_what_is_measured() -> None:
    report = series(2, ("multigrid", "weak-fft"), model=True)
    assert report.columns == (*COLUMNS, *OF_MODEL)
    rows = {(row["work"], row["size"], row["ranks"]): row for row in report.rows}
    assert {ranks for work, _, ranks in rows if work == "multigrid"} == {1, 2, 8, 64, 1024, 10000}
    # There are more ranks than planes.
    assert {ranks for work, _, ranks in rows if work == "weak-fft"} == {1, 2, 8}
    for (_, _, ranks), row in rows.items():
        assert row["expected"] > 0.0
        assert (row["expected_exchanged"] == 0.0) == (ranks == 1)
        assert (row["seconds"] is None) == (ranks > 2)
    assert any(note.startswith("links within a node: ") for note in report.notes)
    with pytest.raises(PoissonError, match="needs a measurement on one process"):
        Series(Serial(), SMALL, ("fft",), (2,), (1,), "numpy", 1, model=True).report()


def test_links_are_measured_in_both_directions() -> None:
    for size in (2, 3):
        links = on_ranks(size, lambda communicator: link_of(communicator, NumpyBackend(np.float64)), delay=0.0)
        assert all(link == links[0] for link in links)
        assert links[0].latency > 0.0 < links[0].bandwidth < 1e13


def test_processes_of_mpi_measure_some_of_them_and_all() -> None:
    words = ["--ranks=1,2,3", "--n=33x33", "--work=multigrid", "--backend=numpy", "--repeats=1", "--json"]
    done = mpirun(3, "-m", "poisson", "bench", "scaling", *words)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["ranks"] for row in rows] == [1, 2, 3]
    assert all(row["seconds"] > 0.0 for row in rows)


def test_an_error_on_some_processes_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--ranks=2,3", "--n=99999x99999", "--work=multigrid", "--backend=numpy"]
    done = mpirun(3, "-m", "poisson", "bench", "scaling", *words)
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("poisson: ")]
    assert "GB are free: choose " in line


@pytest.mark.parametrize("name", ["laplace-blocked", "multigrid", "fft"])
def test_what_is_counted_on_a_device_is_what_goes_from_rank_to_rank(name: str) -> None:
    kind = KINDS[name]
    work = Work(name, (64, 64) if kind.published else (33, 33), 24)

    def run(communicator: ThreadCommunicator) -> tuple[int, int, int, int]:
        communicator.on_device = True
        share = WorkOfRank(work, emulated(kind.dtype), communicator, gathered_nodes=300)
        for _ in range(2):
            share.begin()
            share.solve()
        return share.tally.sent.exchanges, communicator.exchanges, share.tally.sent.bytes, communicator.bytes

    for counted, made, sent, away in on_ranks(2, run, delay=0.0):
        assert counted == made > 0
        assert sent == away > 0
