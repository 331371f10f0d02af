# SPDX-License-Identifier: MIT
"""The cost of transpositions in the place of the planes that `fft` exchanges between its blocks.

    mpirun -n 2 python scripts/transposition.py [--backend=NAME] NXxNYxNZ ...

Of a grid that is divided along its slowest axis every rank packs and sends, so that it then has all planes of its share
of the rows, and back: what a direct solution with transforms along every axis needs beside them. The arrays are float64
and the processes have one thread each. Beside it stands the whole of a solve with `fft` as it is, in turn with it.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from poisson import backends
from poisson.backends.base import Backend
from poisson.cli.terms import grid_shape
from poisson.parallel.communicator import Communicator, Message
from poisson.perf.benchmark.turns import Turns
from poisson.perf.benchmark.works import Work
from poisson.perf.timing import Timing
from poisson.run.devices import communicator_for, take_place

REPEATS = 9


class Transposition:
    """From planes to rows and back, on one of the ranks that make this together.

    Parameters
    ----------
    backend : Backend
        Of this rank.
    communicator : Communicator
        The ranks.
    shape : tuple of int
        Nodes along x, y(, z) of the whole grid.

    Attributes
    ----------
    planes : array
        Shape (own planes, rows, nodes along x).
    rows : array
        Shape (planes, own rows, nodes along x).
    """

    def __init__(self, backend: Backend, communicator: Communicator, shape: Sequence[int]) -> None:
        self._backend, self._communicator = backend, communicator
        # In 2D the values along x are divided in the place of rows.
        nx, ny, nz = shape if len(shape) == 3 else (1, *shape)
        size, rank = communicator.size, communicator.rank
        self._of_z, self._of_y = (
            [slice(count * each // size, count * (each + 1) // size) for each in range(size)] for count in (nz, ny)
        )
        xp = backend.array_module if communicator.on_device else np
        own_z, own_y = self._of_z[rank], self._of_y[rank]
        self._rank = rank
        self._others = [each for each in range(size) if each != rank]
        with backend.ordered():
            self.planes = xp.zeros((own_z.stop - own_z.start, ny, nx))
            self.rows = xp.zeros((nz, own_y.stop - own_y.start, nx))
            self._packed = {each: xp.empty_like(self.planes[:, self._of_y[each]], order="C") for each in self._others}

    @property
    def sent(self) -> int:
        """Bytes that this rank sends each way."""
        return sum(int(each.nbytes) for each in self._packed.values())

    def forth(self) -> None:
        """The rows from the planes."""
        with self._backend.ordered():
            for each, packed in self._packed.items():
                packed[...] = self.planes[:, self._of_y[each]]
            self.rows[self._of_z[self._rank]] = self.planes[:, self._of_y[self._rank]]
            self._exchange(out=self._packed, into={each: self.rows[self._of_z[each]] for each in self._others})

    def back(self) -> None:
        """The planes from the rows."""
        with self._backend.ordered():
            self._exchange(out={each: self.rows[self._of_z[each]] for each in self._others}, into=self._packed)
            self.planes[:, self._of_y[self._rank]] = self.rows[self._of_z[self._rank]]
            for each, packed in self._packed.items():
                self.planes[:, self._of_y[each]] = packed

    def _exchange(self, out: dict[int, Any], into: dict[int, Any]) -> None:
        messages = [Message(array, each, 0, sends=True) for each, array in out.items()]
        self._communicator.exchange(
            [*messages, *(Message(array, each, 0, sends=False) for each, array in into.items())]
        )


def compare(shape: tuple[int, ...], backend: Backend, communicator: Communicator, repeats: int = REPEATS) -> str:
    """A line for a grid; all ranks call this."""
    transposition = Transposition(backend, communicator, shape)
    solve = Turns(Work("fft", shape), backend, communicator, backend.threads)
    ways = transposition.forth, transposition.back
    for way in ways:
        way()
    seconds: list[tuple[float, ...]] = []
    while not solve.enough(repeats):
        found = []
        for way in ways:
            communicator.barrier()
            found.append(backend.seconds(way))
        seconds.append(tuple(max(each) for each in zip(*communicator.allgather(found), strict=True)))
        solve.take()
    forth, back = (Timing.of(column) for column in zip(*seconds, strict=True))
    whole = solve.measured().timing
    rate = transposition.sent / min(forth.low, back.low) / 1e9
    return (
        f"{'x'.join(map(str, shape))} on {communicator.size} ranks, ms (fastest, median): forth {_ms(forth)}, "
        f"back {_ms(back)}, {transposition.sent / 1e6:.0f} MB each way at {rate:.3g} GB/s; fft {_ms(whole)}; "
        f"transpositions over fft {(forth.low + back.low) / whole.low:.2f}"
    )


def _ms(timing: Timing) -> str:
    return f"{timing.low * 1e3:.3g}, {timing.median * 1e3:.3g}"


def main(arguments: Sequence[str]) -> None:
    """Print a line for each grid."""
    from mpi4py import MPI

    from poisson.parallel.mpi import MpiCommunicator

    shapes = [grid_shape("grid", text, 17) for text in arguments if not text.startswith("--")]
    [name] = [text.partition("=")[2] for text in arguments if text.startswith("--backend=")] or ["auto"]
    world = MpiCommunicator.of(MPI.COMM_WORLD)
    take_place(world, name, 1)
    backend = backends.create(name, np.dtype(np.float64), 1)
    for shape in shapes:
        with world.together():
            line = compare(shape, backend, communicator_for(world, backend))
        if world.rank == 0:
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
