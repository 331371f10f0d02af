# SPDX-License-Identifier: MIT
"""Preparation of functions that ask for operations: backends compile the kernels that these need, or record them."""

from collections.abc import Callable, Hashable

MOST_READS = 30
"""The most reads of a function that is run only to find its kernels: with invented norms it might never end."""


class Recordings:
    """The part of `poisson.backends.base.Backend` that looks at functions; here they need nothing, and just run."""

    @property
    def launching(self) -> bool:
        """Whether operations run when they are asked for, or are only looked at."""
        return True

    def prepare(self, *calls: Callable[[], object], reads: int = MOST_READS) -> None:
        """Begin to compile what the operations need that these functions ask for, which do not run.

        Norms that they read are made up, and fall. At the next read after so many the functions are left. What they
        record (`capture`) is recorded when it is first called elsewhere.
        """
        return

    def prepared(self, like: Hashable) -> bool:
        """Whether operations have been prepared in this process for what is like this, or need nothing; they count as
        prepared from now on. To look at functions again would take a part of a small set-up.
        """
        return True

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """A callable that repeats the operations that `function` asks for, on the same arrays, at the least cost.

        Where the runtime has graphs, `function` runs once or twice to be recorded and need not run again. It must not
        allocate, read or wait.
        """
        return function
