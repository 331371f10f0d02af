# SPDX-License-Identifier: MIT
"""Communicators: that of one rank, and the threads that play several in the tests."""

import numpy as np
import pytest
from support.ranks import ThreadCommunicator, on_ranks

from poisson.parallel.communicator import Message, Serial


def test_a_single_rank_gives_itself_what_it_sends() -> None:
    sent, received = np.arange(3.0), np.zeros(3)
    Serial().exchange([Message(sent, 0, 7, sends=True), Message(received, 0, 7, sends=False)])
    assert received.tolist() == [0.0, 1.0, 2.0]
    assert Serial().allgather([1.0, 2.0]) == [(1.0, 2.0)]
    assert (Serial().broadcast("x"), Serial().gather("x")) == ("x", ["x"])


def test_threads_exchange_with_both_neighbours_of_a_ring() -> None:
    def around(comm: ThreadCommunicator) -> list[float]:
        below, above = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        found = [np.zeros(2), np.zeros(2)]
        for turn in range(20):
            own = np.array([comm.rank, turn], dtype=float)
            comm.exchange(
                [
                    *(Message(own, peer, tag, sends=True) for tag, peer in enumerate((below, above))),
                    *(
                        Message(each, peer, tag, sends=False)
                        for each, tag, peer in zip(found, (1, 0), (below, above), strict=True)
                    ),
                ]
            )
            assert [each.tolist() for each in found] == [[below, turn], [above, turn]]
        return [comm.rank]

    for size in (2, 3, 4):
        assert on_ranks(size, around) == [[rank] for rank in range(size)]


def test_threads_gather_in_the_order_of_the_ranks() -> None:
    def gathered(comm: ThreadCommunicator) -> tuple[object, ...]:
        numbers = comm.allgather([comm.rank, 0.5])
        return numbers, comm.broadcast(f"from {comm.rank}", root=1), comm.gather(comm.rank), comm.agree(comm.rank == 2)

    expected = [(0.0, 0.5), (1.0, 0.5), (2.0, 0.5)]
    found = on_ranks(3, gathered)
    assert found == [(expected, "from 1", [0, 1, 2] if rank == 0 else None, True) for rank in range(3)]


def test_an_error_of_one_rank_ends_all() -> None:
    def fails(comm: ThreadCommunicator) -> None:
        if comm.rank == 1:
            raise ValueError("one")
        comm.barrier()

    with pytest.raises(ValueError, match="one"):
        on_ranks(3, fails)
