# SPDX-License-Identifier: MIT
"""What people read of the processes and of the ways between them."""

import pytest
from support.ranks import on_ranks

from poisson import backends
from poisson.cli.terminal import processes
from poisson.run import devices, neighbours
from poisson.run.devices import Seen
from poisson.run.neighbours import Neighbour, Neighbourhood, neighbourhood


def on_host(rank: int, host: str, gpu: str = "", **peers: bool) -> Neighbour:
    return Neighbour(rank, host, "gpu" if gpu else "numpy", f"device {rank}", gpu, peers)


def test_links_name_the_ranks_by_the_way_to_them() -> None:
    ranks = [
        on_host(0, "a", "g0", g1=True, g2=True, g3=False),
        on_host(1, "a", "g1", g0=True, g2=True, g3=False),
        on_host(2, "a", "g2", g0=True, g1=True, g3=False),
        on_host(3, "a", "g3"),  # it sees its own GPU only
        on_host(4, "a"),
        on_host(5, "b", "g0", g1=True),
        on_host(6, "b", "g1", g0=True),
    ]
    assert ranks[0].links(ranks) == "peer access: 1-2; no peer access: 3; same host: 4; network: 5-6"
    assert ranks[1].links(ranks) == "peer access: 0, 2; no peer access: 3; same host: 4; network: 5-6"
    assert ranks[3].links(ranks) == "same host: 0-2, 4; network: 5-6"
    assert ranks[4].links(ranks) == "same host: 0-3; network: 5-6"
    assert ranks[6].links(ranks) == "network: 0-4; peer access: 5"


@pytest.mark.parametrize(
    ("pointers", "said"),
    [(True, "takes device pointers"), (False, "takes no device pointers"), (None, "may take device pointers")],
)
def test_the_table_has_a_line_for_each_rank_and_one_for_mpi(pointers: bool | None, said: str) -> None:
    ranks = [on_host(0, "a", "g0", g1=True), on_host(1, "a", "g1", g0=True)]
    assert processes(Neighbourhood(ranks, "Some MPI 9", pointers)).splitlines() == [
        "rank  host  backend  device    links to other ranks",
        "----  ----  -------  --------  --------------------",
        "   0  a     gpu      device 0  peer access: 1",
        "   1  a     gpu      device 1  peer access: 0",
        "",
        f"Some MPI 9: {said}",
    ]


def test_every_rank_tells_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (neighbours, devices):
        monkeypatch.setattr(module, "look_around", lambda: Seen("node", (), frozenset(range(6))))
    monkeypatch.setattr(neighbours, "version", lambda: "Some MPI 9")
    monkeypatch.setattr(neighbours, "takes_device_pointers", lambda: None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    asked: list[int] = []
    described = backends.describe

    def describe(threads: int) -> list[backends.BackendInfo]:
        asked.append(threads)
        return described(threads)

    monkeypatch.setattr(backends, "describe", describe)
    for found in on_ranks(3, neighbourhood):
        assert [(each.rank, each.host, each.gpu) for each in found.ranks] == [(rank, "node", "") for rank in range(3)]
        assert all(each.backend in backends.NAMES and each.device for each in found.ranks)
        assert (found.mpi, found.device_pointers) == ("Some MPI 9", None)
    assert asked == [2, 2, 2]
