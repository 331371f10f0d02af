# SPDX-License-Identifier: MIT
"""What the backends of both types on one device have in common: kernels, and room for the parts of reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from poisson.backends.gpu.overlap import Overlap
from poisson.backends.gpu.runtime import Kernel, Runtime
from poisson.backends.processors import processors

Key = tuple[Any, ...]
"""What a kernel is known by."""

Wanted = dict[Key, Callable[[], Kernel]]
"""How to compile kernels."""

MOST_READS = 30
MOST_LAUNCHES = 5000
"""Of a function that is only looked at, which sees norms that are made up and might never end."""


class _Enough(Exception):
    """A function that is looked at has shown what it needs."""


class Kernels:
    """The kernels of a device. Those that are asked for beforehand are compiled in threads beside each other.

    Parameters
    ----------
    runtime : Runtime
        The device.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._ready: dict[Key, Kernel] = {}
        self._asked: dict[Key, Future[Kernel]] = {}

    def __len__(self) -> int:
        """Those that have been asked for."""
        return len(self._ready) + len(self._asked)

    def ask(self, wanted: Wanted) -> None:
        """Begin to compile kernels, each as its function does; what goes wrong is raised where it is needed."""
        new = {key: make for key, make in wanted.items() if key not in self._ready and key not in self._asked}
        if not new:
            return
        pool = ThreadPoolExecutor(min(len(new), processors()))
        for key, make in new.items():
            self._asked[key] = pool.submit(self._compiled, make)
        pool.shutdown(wait=False)  # its threads end when these are done

    def get(self, key: Key, make: Callable[[], Kernel]) -> Kernel:
        """A kernel, compiled now if nobody has asked for it."""
        kernel = self._ready.get(key)
        if kernel is None:
            kernel = self._ready[key] = self._awaited(key) if key in self._asked else make()
        return kernel

    def wait(self, wanted: Wanted) -> None:
        """Have kernels ready."""
        for key, make in wanted.items():
            self.get(key, make)

    def _awaited(self, key: Key) -> Kernel:
        try:
            return self._asked.pop(key).result()
        except BaseException:
            # The process need not go on with the others, and does not end before them.
            for other in self._asked.values():
                other.cancel()
            self._asked.clear()
            raise

    def _compiled(self, make: Callable[[], Kernel]) -> Kernel:
        with self._runtime.in_use():
            return make()


class Shared:
    """What the backends of both types on one device have in common.

    Attributes
    ----------
    kernels : Kernels
        Those asked for so far.
    partial : array
        A counter and the parts of the blocks in a reduction; launches run in order, so one is enough.
    overlap : Overlap
        What goes on beside launches.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.kernels = Kernels(runtime)
        self.overlap = Overlap(runtime)
        self.partial = self._zeros(2)
        self._noted: Wanted | None = None
        self._norm, self._reads, self._launches = 1.0, 0, 0
        self._factor: float | None = None

    @property
    def launching(self) -> bool:
        """Whether a launch is to run; otherwise its kernel is only noted."""
        return self._noted is None

    def partial_of(self, blocks: int) -> Any:
        """`partial`, made large enough for so many blocks."""
        needed = 2 + 2 * blocks
        if self.partial.size < needed:
            self._runtime.synchronize()
            self.partial = self._zeros(needed)
        return self.partial

    @contextmanager
    def without_launches(self, factor: float | None = None) -> Iterator[Wanted]:
        """Within, what would be launched is noted, in the order of the first time; at the end it is asked for.

        With a factor norms may be read: they are made up, 1 and then each so many times the one before. What goes on
        for long with them, or stumbles over them, is left there.
        """
        outer, noted = self._noted, Wanted()
        self._noted = noted
        if outer is None:
            self._norm, self._factor, self._reads, self._launches = 1.0, factor, 0, 0
        try:
            yield noted
        except (_Enough, ArithmeticError):
            if factor is None:
                raise
        finally:
            self._noted = outer
        if outer is None:
            self.kernels.ask(noted)
        else:
            outer.update(noted)

    def note(self, key: Key, make: Callable[[], Kernel]) -> None:
        """A kernel that would be launched."""
        assert self._noted is not None
        self._noted.setdefault(key, make)
        self._launches += 1
        if self._factor is not None and self._launches >= MOST_LAUNCHES:
            raise _Enough

    def made_up(self) -> tuple[float, float]:
        """What a read gives where nothing was launched: a sum of squares, and a maximum."""
        assert self._factor is not None
        self._reads += 1
        if self._reads > MOST_READS:
            raise _Enough
        norm, self._norm = self._norm, self._norm * self._factor
        return norm * norm, norm

    def _zeros(self, count: int) -> Any:
        array = self._runtime.allocate(count, np.dtype(np.float64))
        self._runtime.upload(np.zeros(count), array)
        return array
