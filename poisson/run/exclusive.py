# SPDX-License-Identifier: MIT
"""Locks for objects that belong to one thread at a time, such as the arrays of a solver."""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from poisson.errors import PoissonError


class Exclusive:
    """Lets one thread at a time use an object; others wait for it, and an interrupt from the keyboard ends their wait.

    `what`: the object, for people, such as ``Solver``.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.RLock()
        self._used = False
        self._lost = False
        _known.add(self)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Within, no other thread uses the object.

        Raises PoissonError if this thread is using it already, or another one was when this process was forked.
        """
        with self._lock:
            if self._used:
                raise PoissonError(
                    f"this {self._what} is already at work in this thread, and an observer or a function called "
                    f"it again: use another {self._what} there"
                )
            if self._lost:
                raise PoissonError(
                    f"this process was forked while another thread used this {self._what}: make a new {self._what} here"
                )
            self._used = True
            try:
                yield
            finally:
                self._used = False

    def _renew(self) -> None:
        """In a forked process, where the thread that has the lock may not exist."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()
            self._used, self._lost = False, True


_known: weakref.WeakSet[Exclusive] = weakref.WeakSet()


def _renew_all() -> None:
    for exclusive in list(_known):
        exclusive._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
