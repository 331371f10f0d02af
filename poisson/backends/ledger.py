# SPDX-License-Identifier: MIT
"""The operations that a solve asked for, how often and on which arrays, counted without slowing its loop."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np

from poisson.backends.base import Backend
from poisson.backends.operations import OperationSpec, Role, operations_of
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.grid import AXES

Invocation = Callable[[], None]


@dataclass(frozen=True)
class Call:
    """An operation on arrays of a size: all that what it must move and compute depends on.

    `name`: one of `operations.ALL`.
    `subject`: what it is bound to, if anything.
    `nodes`: nodes of its arrays; of the finer ones, or of those that are written, between two grids.
    `itemsize`: bytes of a value.
    `source`: whether a source was given, where it takes one.
    `norm`: whether a result was given, where it need not be.
    `count`: sweeps, where it makes several.
    `axis`: the axis of a derivative, or of links.
    `start`: whether an array to start from was given, where it need not be: u of a smoothing, p of a direction.
    `correction`, `restriction`: from and to which coarser grid a smoothing goes.
    """

    name: str
    subject: Any
    nodes: int
    itemsize: int
    source: bool = True
    norm: bool = False
    count: int = 1
    axis: int | None = None
    start: bool = True
    correction: Transfer | None = None
    restriction: Transfer | None = None

    @property
    def grid(self) -> str:
        """The nodes of its arrays for people, such as ``65x33``; their number where no argument says more."""
        subject = self.subject
        if isinstance(subject, Transfer):
            subject = subject.fine
        elif isinstance(subject, Interpolation):
            subject = subject.target
        return str(self.nodes) if subject is None else "x".join(map(str, subject.shape))

    @property
    def label(self) -> str:
        """The operation for people: its name, axis or sweeps, and whether it leaves a norm and has a source."""
        axis = "" if self.axis is None else f" {AXES[self.axis]}"
        sweeps = f" x{self.count}" if self.name in ("sweeps", "smooth") else ""
        start = "" if self.start or self.name != "smooth" else ", from zero"
        correction = ", corrected" if self.correction else ""
        restriction = ", restricted" if self.restriction else ""
        source = "" if self.source else ", no source"
        return self.name + axis + sweeps + (" + norm" if self.norm else "") + start + correction + restriction + source


@dataclass
class Ledger:
    """The calls of operations so far.

    `samples`: for each call that was made, one that makes it again on the same arrays. `pauses`: whether calls do not
    count.
    """

    samples: dict[Call, Invocation] = field(default_factory=dict)
    pauses: bool = False
    _direct: Counter[Call] = field(default_factory=Counter)
    _blocks: "list[_Block]" = field(default_factory=list)
    _recorded: list[tuple[Call, Invocation]] | None = None

    @property
    def counts(self) -> Counter[Call]:
        """How often each call was made, also within the replays of recordings."""
        total = Counter(self._direct)
        for block in self._blocks:
            total.update({call: count * block.replays for call, count in block.calls.items()})
        return total

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within, no call counts. Later replays of what is recorded here do."""
        self.pauses = True
        try:
            yield
        finally:
            self.pauses = False

    def note(self, call: Call, invocation: Invocation) -> None:
        """Write a call down, and make it or, while a function is recorded, keep it."""
        if self._recorded is not None:
            self.samples.setdefault(call, invocation)
            self._recorded.append((call, invocation))
            return
        if not self.pauses:
            self.samples.setdefault(call, invocation)
            self._direct[call] += 1
        invocation()


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
    """Counts the operations of a backend, and of what is bound to it; all else is the backend's own."""

    def __init__(self, backend: Backend, ledger: Ledger) -> None:
        self._backend = backend
        self._ledger = ledger
        for name, spec in operations_of(None).items():
            operation = getattr(backend, name)
            setattr(self, name, partial(_operate, ledger, backend.dtype.itemsize, spec, None, operation))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        recorded: list[tuple[Call, Invocation]] = []
        self._ledger._recorded = recorded
        try:
            function()
        finally:
            self._ledger._recorded = None
        block = _Block(Counter(call for call, _ in recorded))
        self._ledger._blocks.append(block)
        invocations = [invocation for _, invocation in recorded]

        def repeat() -> None:
            for invocation in invocations:
                invocation()

        replay = self._backend.capture(repeat)

        def counted_replay() -> None:
            block.replays += not self._ledger.pauses
            replay()

        return counted_replay

    def companion(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
        if np.dtype(dtype) == self._backend.dtype:
            return cast(Backend, self)
        return cast(Backend, _Counted(self._backend.companion(dtype), self._ledger))

    def bind(self, subject: Any) -> Any:
        return _CountedOperations(self, self._ledger, self._backend.bind(subject), subject)


class _CountedOperations:
    """Counts the operations of a subject.

    `backend`: the stand-in that they were bound by. `uncounted`: the operations themselves.
    """

    def __init__(self, backend: _Counted, ledger: Ledger, uncounted: Any, subject: Any) -> None:
        self.backend = backend
        self.uncounted = uncounted
        self._ledger = ledger
        for name, spec in operations_of(type(subject)).items():
            operation = getattr(uncounted, name)
            setattr(self, name, partial(_operate, ledger, backend.dtype.itemsize, spec, subject, operation))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.uncounted, name)


def _operate(
    ledger: Ledger,
    itemsize: int,
    spec: OperationSpec,
    subject: Any,
    operation: Callable[..., None],
    *arguments: Any,
    **named: Any,
) -> None:
    """Make a call of an operation through a ledger."""
    values = dict(zip(spec.names, arguments, strict=False)) | named
    coarser = dict.fromkeys(argument.name for argument in spec.arguments if argument.role is Role.COARSER)
    for key in coarser:
        if values.get(key):
            between, array = values[key]
            values[key], coarser[key] = (between.uncounted, array), between.transfer
    written = (argument.name for argument in spec.arguments if argument.role is Role.COEFFICIENTS)
    for key in written:
        itemsize = values[key].dtype.itemsize
    call = Call(
        spec.name,
        subject,
        math.prod(_shape(subject, values)),
        itemsize,
        source=not ("f" in spec.optional and values["f"] is None),
        norm="result" in spec.optional and values.get("result") is not None,
        count=len(values["omegas"]) if "omegas" in values else 1,
        axis=values.get("axis"),
        start=values.get("u", True) is not None and values.get("beta", 1.0) != 0.0,
        **coarser,
    )
    ledger.note(call, partial(operation, **values))


def _shape(subject: Any, values: dict[str, Any]) -> tuple[int, ...]:
    if isinstance(subject, Transfer):
        return subject.fine.shape
    if isinstance(subject, Interpolation):
        return subject.target.shape
    shape: tuple[int, ...] = values["x"].shape if subject is None else subject.shape
    return shape
