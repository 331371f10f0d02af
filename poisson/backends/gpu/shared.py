# SPDX-License-Identifier: MIT
"""State that the backends of both types on one device share: kernels, and room for the parts of reductions."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import numpy as np

from poisson import kernels
from poisson.backends.gpu.overlap import Overlap
from poisson.backends.gpu.runtime import Kernel, Runtime
from poisson.backends.processors import processors

Key = tuple[Any, ...]
"""The key of a kernel, whose first part is its module."""

Wanted = dict[Key, Callable[[], Kernel]]
"""How to compile kernels."""

FALL = 0.1
"""The factor by which invented norms fall from one read to the next."""

MOST_LAUNCHES = 5000
"""The most launches of a function that is run only to find its kernels."""


class _Enough(Exception):
    """A function that is looked at has shown what it needs."""


class Kernels:
    """The kernels of a device. Those that are asked for beforehand are compiled in threads beside each other.

    `runtime`: the device. `seconds`: the time so far in which kernels were awaited, or launches recorded. `ready`: the
    kernels that have been wanted so far.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.seconds = 0.0
        self.ready: dict[Key, Kernel] = {}
        self._asked: dict[Key, Future[Kernel]] = {}

    def __len__(self) -> int:
        """The number of kernels that have been asked for."""
        return len(self.ready) + len(self._asked)

    def ask(self, wanted: Wanted) -> None:
        """Begin to compile kernels, each as its function does; what goes wrong is raised where it is needed."""
        new = {key: make for key, make in wanted.items() if not (key in self._asked or self._has(key))}
        if not new:
            return
        pool = ThreadPoolExecutor(min(len(new), processors()))
        # What takes long comes first, so that nobody waits for it alone at the end.
        for key in sorted(new, key=lambda key: -len(kernels.source(key[0]))):
            self._asked[key] = pool.submit(self._made, key, new[key])
        pool.shutdown(wait=False)  # its threads end when these are done

    def get(self, key: Key, make: Callable[[], Kernel]) -> Kernel:
        """A kernel, compiled now if nobody has asked for it."""
        if key in self._asked or not self._has(key):
            with self.timed():
                self.ready[key] = self._awaited(key) if key in self._asked else self._made(key, make)
        return self.ready[key]

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Within, all time counts in `seconds`, once."""
        begun, before = time.perf_counter(), self.seconds
        try:
            yield
        finally:
            self.seconds = before + time.perf_counter() - begun

    def settle(self, wanted: Wanted) -> None:
        """Have kernels ready, and no others under way: none may be loaded while a graph is recorded."""
        for key, make in wanted.items():
            self.get(key, make)
        with self._others_cancelled():
            wait(self._asked.values())

    def _awaited(self, key: Key) -> Kernel:
        with self._others_cancelled():
            return self._asked.pop(key).result()

    @contextmanager
    def _others_cancelled(self) -> Iterator[None]:
        """Cancel pending compilations when a wait is ended: the process would not end before they do."""
        try:
            yield
        except BaseException:
            for other in self._asked.values():
                other.cancel()
            self._asked.clear()
            raise

    def _has(self, key: Key) -> bool:
        """Whether a kernel is ready, or this process has used it on the device before."""
        if key not in self.ready and (kernel := self._runtime.kept(key)) is not None:
            self.ready[key] = kernel
        return key in self.ready

    def _made(self, key: Key, make: Callable[[], Kernel]) -> Kernel:
        with self._runtime.in_use():
            kernel = make()
            self._runtime.keep(key, kernel)
        return kernel


class Shared:
    """The state that the backends of both types on one device share.

    `kernels`: those asked for so far. `partials` (arrays): each a counter and the parts of the blocks in a reduction;
    launches run in order, so one for each reduction of a launch is enough. `overlap`: what goes on beside launches.
    `recordable`: whether all that was noted since this was set can be recorded. `recording`: whether launches are
    recorded, or noted to be.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.kernels = Kernels(runtime)
        self.overlap = Overlap(runtime)
        self.partials = [self._zeros(2), self._zeros(2)]
        self.recordable, self.recording = True, False
        self._noted: Wanted | None = None
        self._norm, self._launches = 1.0, 0
        self._reads: int | None = None

    @property
    def launching(self) -> bool:
        """Whether a launch is to run; otherwise its kernel is only noted."""
        return self._noted is None

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Within, `recording` is true."""
        before, self.recording = self.recording, True
        try:
            yield
        finally:
            self.recording = before

    def partial_of(self, blocks: int, place: int = 0) -> Any:
        """One of `partials`, made large enough for so many blocks."""
        needed = 2 + 2 * blocks
        if self.partials[place].size < needed:
            self._runtime.synchronize()
            self.partials[place] = self._zeros(needed)
        return self.partials[place]

    @contextmanager
    def without_launches(self, reads: int | None = None) -> Iterator[Wanted]:
        """Within, what would be launched is noted, in the order of the first time; at the end it is asked for.

        With a number of reads so many norms may be read, which are made up. What asks for more, goes on for long, or
        stumbles over them, is left there.
        """
        outer, noted = self._noted, Wanted()
        self._noted = noted
        if outer is None:
            self._norm, self._reads, self._launches = 1.0, reads, 0
        try:
            yield noted
        except (_Enough, ArithmeticError):
            if reads is None:
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
        if self._reads is not None and self._launches >= MOST_LAUNCHES:
            raise _Enough

    def made_up(self) -> tuple[float, float]:
        """The invented result of a read where nothing was launched: a sum of squares, and a maximum."""
        if not self._reads:
            raise _Enough
        self._reads -= 1
        norm, self._norm = self._norm, FALL * self._norm
        return norm * norm, norm

    def _zeros(self, count: int) -> Any:
        array = self._runtime.allocate(count, np.dtype(np.float64))
        self._runtime.upload(np.zeros(count), array)
        return array
