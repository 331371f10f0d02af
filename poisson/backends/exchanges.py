# SPDX-License-Identifier: MIT
"""Work that a backend does while values come from other processes."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any


class Exchanges:
    """The part of `poisson.backends.base.Backend` that says what may go on together; here nothing does."""

    def beside(self, nodes: int) -> AbstractContextManager[Any]:
        """Within is an operation on so many nodes, and before it what is `exchanging`: both may go on together.

        The operation reads the arrays whose halos are exchanged, and writes others.
        """
        return nullcontext()

    def exchanging(self) -> AbstractContextManager[Any]:
        """Within, values come for the halo of an array."""
        return nullcontext()
