# SPDX-License-Identifier: MIT
"""Where each of several processes runs: its device, its threads, and how its arrays reach the others."""

import math
from collections.abc import Sequence

import pytest
from support.ranks import ThreadCommunicator, on_ranks

from poisson.backends.numpy import NumpyBackend
from poisson.errors import BackendUnavailable
from poisson.parallel.communicator import Serial
from poisson.run import devices
from poisson.run.devices import Seen, communicator_for, device_of, take_place, threads_of


def hosts(*devices: tuple[str, ...], each: int = 1) -> list[Seen]:
    """Ranks of which so many in a row stand on one host, with what they see."""
    return [Seen(f"node{rank // each}", names) for rank, names in enumerate(devices)]


@pytest.mark.parametrize(
    ("seen", "numbers"),
    [
        (hosts(("a",)), [0]),
        (hosts(("a", "b"), ("a", "b"), each=2), [0, 1]),
        (hosts(("a", "b", "c"), ("a", "b", "c"), each=2), [0, 1]),
        # one of its own for each, by CUDA_VISIBLE_DEVICES or by Slurm: number 0 everywhere
        (hosts(("a",), ("b",), ("c",), each=3), [0, 0, 0]),
        # two hosts, on which devices may have the same names
        (hosts(*[("a", "b")] * 4, each=2), [0, 1, 0, 1]),
        (hosts(("a",), ("a",), each=1), [0, 0]),
        # in another order, by which a user pins them
        (hosts(("a", "b"), ("b", "a"), each=2), [0, 0]),
        (hosts((), (), each=2), [None, None]),
        (hosts(("a",), (), each=2), [0, None]),
    ],
)
def test_each_rank_has_a_gpu_of_its_own(seen: Sequence[Seen], numbers: list[int | None]) -> None:
    assert [device_of(rank, seen) for rank in range(len(seen))] == numbers


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            hosts(("a",), ("a",), each=2),
            "2 processes on node0 share 1 GPU: start one process per GPU, with mpirun -n 1 ",
        ),
        (
            hosts(*[("a", "b")] * 3, each=3),
            "3 processes on node0 share 2 GPUs: start one process per GPU, with mpirun -n 2",
        ),
        (hosts(("a", "b"), ("a",), each=2), "2 processes on node0 share 2 GPUs"),
    ],
)
def test_fewer_gpus_than_ranks_are_refused_on_every_rank(seen: Sequence[Seen], said: str) -> None:
    for rank in range(len(seen)):
        with pytest.raises(BackendUnavailable) as refused:
            device_of(rank, seen)
        assert str(refused.value).startswith(said)


def cores(*sets: range, quota: float = math.inf) -> list[Seen]:
    return [Seen("node", (), frozenset(each), quota) for each in sets]


@pytest.mark.parametrize(
    ("seen", "threads"),
    [
        (cores(range(8)), [8]),
        # not bound: each has a share of all
        (cores(range(8), range(8)), [4, 4]),
        (cores(range(8), range(8), range(8)), [2, 2, 2]),
        (cores(range(2), range(2), range(2)), [1, 1, 1]),
        # bound
        (cores(range(4), range(4, 8)), [4, 4]),
        (cores(range(1), range(1, 2)), [1, 1]),
        # two of four have a socket each together
        (cores(range(4), range(4), range(4, 8), range(4, 8)), [2, 2, 2, 2]),
        # a container with a quota for all of them
        (cores(range(64), range(64), quota=4.0), [2, 2]),
        (cores(range(64), range(64), quota=1.5), [1, 1]),
        ([*cores(range(8)), Seen("other", (), frozenset(range(8)))], [8, 8]),
    ],
)
def test_threads_are_the_processors_of_a_rank(seen: Sequence[Seen], threads: list[int]) -> None:
    assert [threads_of(rank, seen) for rank in range(len(seen))] == threads


def test_a_user_says_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "look_around", lambda: Seen("node", (), frozenset(range(8))))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert on_ranks(2, lambda comm: take_place(comm, "auto", 0)) == [4, 4]
    assert on_ranks(2, lambda comm: take_place(comm, "auto", 3)) == [3, 3]
    assert take_place(Serial(), "auto", 0) == 0
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert on_ranks(2, lambda comm: take_place(comm, "auto", 0)) == [5, 5]


def test_a_rank_uses_its_gpu_unless_another_backend_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    monkeypatch.setattr(devices, "look_around", lambda: Seen("node", ("a", "b"), frozenset(range(8))))
    monkeypatch.setattr("poisson.backends.gpu.use", used.append)
    for backend, numbers in (("auto", [0, 1]), ("gpu", [0, 1]), ("numpy", [])):
        used.clear()
        on_ranks(2, lambda comm, name=backend: take_place(comm, name, 1))
        assert sorted(used) == numbers
    with pytest.raises(BackendUnavailable, match=r"^3 processes on node share 2 GPUs"):
        on_ranks(3, lambda comm: take_place(comm, "auto", 1))


def test_arrays_of_the_host_go_by_the_communicator_that_was_given() -> None:
    def same(comm: ThreadCommunicator) -> bool:
        return communicator_for(comm, NumpyBackend("float64")) is comm

    assert on_ranks(2, same) == [True, True]
    assert isinstance(communicator_for(Serial(), NumpyBackend("float64")), Serial)
