# SPDX-License-Identifier: MIT
"""Planes of cells that processes with runs of a staggered grid send one another (`poisson.mac`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.parallel.communicator import Communicator, Message

Ranges = Sequence[tuple[int, int]]
"""The first cell and that after the last one along each axis of an array, the slowest first."""


class Borders:
    """The planes of cells beside those of a rank, from the ranks that have them.

    `communicator`: the ranks. `ranges`: the cells of this one. `shape`: all cells, as an array has them. `cut`: for
    each array axis whether other ranks have the cells below and above.
    """

    def __init__(
        self, communicator: Communicator, ranges: Ranges, shape: Sequence[int], cut: Sequence[Sequence[bool]]
    ) -> None:
        self._communicator = communicator
        rows = communicator.allgather([float(end) for ends in ranges for end in ends])
        others = [[(int(row[2 * n]), int(row[2 * n + 1])) for n in range(len(shape))] for row in rows]
        self._peers: dict[tuple[int, int], int] = {}
        for place, count in enumerate(shape):
            for end in (0, 1):
                if not cut[place][end]:
                    continue
                beside = [*ranges[:place], *ranges[place + 1 :]]
                self._peers[place, end] = next(
                    rank
                    for rank, theirs in enumerate(others)
                    if [*theirs[:place], *theirs[place + 1 :]] == beside
                    and theirs[place][1 - end] % count == ranges[place][end] % count
                )

    def beyond(self, p: NDArray[Any]) -> dict[tuple[int, int], NDArray[Any]]:
        """The planes next to the cells of this rank, by array axis and end; the ranks ask for them together."""
        messages, found = [], {}
        for (place, end), peer in self._peers.items():
            own = np.ascontiguousarray(p.take(-end, axis=place))
            found[place, end] = np.empty_like(own)
            messages.append(Message(own, peer, 2 * place + end, sends=True))
            messages.append(Message(found[place, end], peer, 2 * place + 1 - end, sends=False))
        self._communicator.exchange(messages)
        return found
