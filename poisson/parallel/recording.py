# SPDX-License-Identifier: MIT
"""Recordings of operations on divided arrays: which exchanges they have depends on what is right when they begin."""

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from poisson.backends.base import Backend
from poisson.parallel.arrays import EVERYWHERE, DividedArray, DividedResult

SHORT = 32
"""Arrays and results that operations of a short recording name in all. One is made for every state of the halos that it
meets, so that none is exchanged before it must be …"""

MOST_VARIANTS = 16
"""… as long as they are not more than these. A longer one is made once, as if no halo were right but those that are so
everywhere: it costs more to make than an exchange."""

State = tuple[int, ...]
"""The valid layers of the halo of each array that a recording touches, and how each result is divided."""


class Touched:
    """The arrays and results that a recording touches, in the order of their first use.

    `as_found`: whether it begins in the state that its arrays are in; otherwise as if nothing were right that is not so
    everywhere. `things`: arrays and results. `found`, `begins`: their states before the recording, and those in which
    it begins. `count`: how many of them operations name, one after the other.
    """

    def __init__(self, as_found: bool) -> None:
        self._as_found = as_found
        self._known: set[DividedArray | DividedResult] = set()
        self.things: list[DividedArray | DividedResult] = []
        self.found: list[int] = []
        self.begins: list[int] = []
        self.count = 0

    def note(self, *things: DividedArray | DividedResult) -> None:
        """An operation is about to use them."""
        self.count += len(things)
        for thing in things:
            if thing in self._known:
                continue
            self._known.add(thing)
            self.things.append(thing)
            self.found.append(_state(thing))
            if isinstance(thing, DividedArray) and thing.valid < EVERYWHERE and not self._as_found:
                thing.valid = 0
            self.begins.append(_state(thing))

    @property
    def state(self) -> State:
        """The present state of everything."""
        return tuple(_state(thing) for thing in self.things)

    def set(self, state: Sequence[int]) -> None:
        """Put everything into a state."""
        for thing, each in zip(self.things, state, strict=True):
            if isinstance(thing, DividedArray):
                thing.valid = each
            else:
                thing.divided = each

    def key(self, state: Sequence[int]) -> State:
        """The part of a state that counts when a recording begins: results are written before they are read."""
        pairs = zip(self.things, state, strict=True)
        return tuple(each for thing, each in pairs if isinstance(thing, DividedArray))


class Noting:
    """Where operations say what they are about to use: to a recording, if one is being made."""

    def __init__(self) -> None:
        self.touched: Touched | None = None

    def note(self, *things: DividedArray | DividedResult) -> None:
        """An operation is about to use them."""
        if self.touched is not None:
            self.touched.note(*things)


class Recording:
    """A function of operations, recorded as the local backend can, in one variant or several.

    `local`: of this process. `function`: asks for the operations. `noting`: where the operations say what they use.
    `held`: where the variants are noted, for as long as this lives if its keys are weak: who clears them there ends
    what was recorded.
    """

    def __init__(
        self,
        local: Backend,
        function: Callable[[], None],
        noting: Noting,
        held: "MutableMapping[Recording, dict[Any, Any]]",
    ) -> None:
        self._local = local
        self._function = function
        self._noting = noting
        self._variants: dict[State, tuple[Callable[[], None], Touched, State]] = {}
        held[self] = self._variants
        self._touched = self._record(as_found=False)

    def __call__(self) -> None:
        """Repeat the operations."""
        key = self._touched.key(self._touched.state)
        more = self._touched.count <= SHORT and len(self._variants) < MOST_VARIANTS
        if key not in self._variants and (more or not self._variants):
            self._record(as_found=True)
        if key not in self._variants:
            key = next(iter(self._variants))
            self._make_right(self._variants[key][1])
        replay, touched, after = self._variants[key]
        replay()
        touched.set(after)

    def _record(self, as_found: bool) -> Touched:
        """Make a variant; nothing has run then, and all is in the state that it was in."""
        touched = Touched(as_found)
        after: list[State] = []
        function, noting = self._function, self._noting  # and not this object, which keeps what is made of it

        def recorded() -> None:
            # This runs more than once: the first time only to make ready what the recording needs.
            touched.set(touched.begins)
            noting.touched = touched
            try:
                function()
            finally:
                noting.touched = None
            after[:] = [touched.state]

        replay = self._local.capture(recorded)
        touched.set(touched.found)
        self._variants[touched.key(touched.begins)] = replay, touched, after[0]
        return touched

    @staticmethod
    def _make_right(touched: Touched) -> None:
        """Exchange the halos that a variant needs and that are not right."""
        for thing, begins in zip(touched.things, touched.begins, strict=True):
            if isinstance(thing, DividedArray) and thing.valid < begins:
                thing.halo.fill(thing)


def _state(thing: DividedArray | DividedResult) -> int:
    return thing.valid if isinstance(thing, DividedArray) else thing.divided
