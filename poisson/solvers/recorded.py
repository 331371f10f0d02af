# SPDX-License-Identifier: MIT
"""Operations that are recorded once and repeated."""

from collections.abc import Callable
from functools import partial

from poisson.backends.base import Array, Backend


class Recorded:
    """A function that asks for operations and gives an array, recorded as `Backend.capture` can.

    `backend`: where the operations run. `function`: asks for the same operations at every call, and gives the array
    that has their result.
    """

    def __init__(self, backend: Backend, function: Callable[[], Array]) -> None:
        self._place: list[Array] = []
        self._replay = backend.capture(partial(_keep, self._place, function))

    def __call__(self) -> Array:
        """Repeat the operations; returns the array with the result."""
        self._replay()
        return self._place[0]


def _keep(place: list[Array], function: Callable[[], Array]) -> None:
    place[:] = [function()]
