"""Which operations a solve asked for, how often, and on what: counted without slowing its loop."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from poisson.backends.base import OPERATIONS, Backend
from poisson.differences import Differences
from poisson.discretisation import Operator
from poisson.grid import AXES
from poisson.transfer import Transfer

Invocation = Callable[[], None]

MAY_LEAVE_A_NORM = ("sweep", "sweeps", "residual")
"""The operations whose result is optional."""


@dataclass(frozen=True)
class Call:
    """An operation on arrays of a size: all that what it must move and compute depends on.

    Parameters
    ----------
    name : str
        One of `OPERATIONS`.
    subject : Operator, Transfer, Differences or None
        Its first argument, if it is no array.
    nodes : int
        Nodes of its arrays; of the finer ones, between two grids.
    itemsize : int
        Bytes of a value.
    source : bool
        Whether a source was given, where it takes one.
    norm : bool
        Whether a result was given, where it need not be.
    count : int
        Sweeps, where it makes several.
    axis : int, optional
        The axis of a derivative.
    """

    name: str
    subject: Operator | Transfer | Differences | None
    nodes: int
    itemsize: int
    source: bool = True
    norm: bool = False
    count: int = 1
    axis: int | None = None

    @property
    def label(self) -> str:
        """The operation for people: its name, axis or sweeps, and whether it leaves a norm and has a source."""
        axis = "" if self.axis is None else f" {AXES[self.axis]}"
        sweeps = f" x{self.count}" if self.name == "sweeps" else ""
        return self.name + axis + sweeps + (" + norm" if self.norm else "") + ("" if self.source else ", no source")


@dataclass
class Ledger:
    """The calls of operations so far.

    Attributes
    ----------
    samples : dict
        For each call that was made, one that makes it again on the same arrays.
    """

    samples: dict[Call, Invocation] = field(default_factory=dict)
    _direct: Counter[Call] = field(default_factory=Counter)
    _blocks: list[_Block] = field(default_factory=list)

    @property
    def counts(self) -> Counter[Call]:
        """How often each call was made, also within the replays of recordings."""
        total = Counter(self._direct)
        for block in self._blocks:
            total.update({call: count * block.replays for call, count in block.calls.items()})
        return total


@dataclass
class _Block:
    """A recording: its calls, and how often it was replayed."""

    calls: Counter[Call]
    replays: int = 0


def counted(backend: Backend) -> tuple[Backend, Ledger]:
    """A stand-in for a backend that counts the operations, and where it writes them down.

    A function that is recorded (`Backend.capture`) is looked at once: what it asks for is written down, and repeated
    without it. A replay then costs the loop one addition more, and nothing for each operation.
    """
    ledger = Ledger()
    return cast(Backend, _Counted(backend, ledger)), ledger


class _Counted:
    """Counts the operations of a backend; all else is the backend's own."""

    def __init__(self, backend: Backend, ledger: Ledger) -> None:
        self._backend = backend
        self._ledger = ledger
        self._recorded: list[tuple[Call, Invocation]] | None = None
        for name in OPERATIONS:
            setattr(self, name, partial(self._operation, name, getattr(backend, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        recorded: list[tuple[Call, Invocation]] = []
        self._recorded = recorded
        try:
            function()
        finally:
            self._recorded = None
        block = _Block(Counter(call for call, _ in recorded))
        self._ledger._blocks.append(block)
        invocations = [invocation for _, invocation in recorded]

        def repeat() -> None:
            for invocation in invocations:
                invocation()

        replay = self._backend.capture(repeat)

        def counted_replay() -> None:
            block.replays += 1
            replay()

        return counted_replay

    def _operation(self, name: str, operation: Callable[..., None], *arguments: Any, **named: Any) -> None:
        call, invocation = self._call(name, arguments, named), partial(operation, *arguments, **named)
        self._ledger.samples.setdefault(call, invocation)
        if self._recorded is not None:
            self._recorded.append((call, invocation))
        else:
            self._ledger._direct[call] += 1
            invocation()

    def _call(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Call:
        values = dict(zip(OPERATIONS[name], arguments, strict=False)) | named
        subject = next((values[kind] for kind in ("operator", "transfer", "differences") if kind in values), None)
        sized = values["x"] if subject is None else subject.fine if isinstance(subject, Transfer) else subject
        return Call(
            name,
            subject,
            math.prod(sized.shape),
            self._backend.dtype.itemsize,
            source="f" not in OPERATIONS[name] or values["f"] is not None,
            norm=name in MAY_LEAVE_A_NORM and values.get("result") is not None,
            count=values.get("count", 1),
            axis=values.get("axis"),
        )
