# SPDX-License-Identifier: MIT
"""Arrays in the memory of the caller: what a backend reads of them where they lie, and what it gives away.

A backend on the host can do better than what stands here for every one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = Any
Reduction = Any
Norms = tuple[float, float]


class CallersArrays(ABC):
    """A backend that takes arrays in the caller's memory."""

    @abstractmethod
    def to_host(self, array: Array) -> NDArray[Any]:
        """A copy of an array as a NumPy array."""

    def copy_to(self, array: Array, out: Any) -> None:
        """Copy an array to one of its shape and type, of NumPy or of `Backend.array_module`."""
        out[...] = self.to_host(array)

    def keeps(self, array_shape: tuple[int, ...]) -> bool:
        """Whether arrays of this shape had better stay where they are from solve to solve, and copies be given away.

        So it is where they are small, and what is done with them is recorded (`Backend.capture`).
        """
        return False

    def give(self, array: Array, back: Callable[[Array], None]) -> Any:
        """The values of an array as one of `Backend.array_module` that keeps their memory; None where it is kept here.

        It is for the user of the program; nothing else may write into the array until `back` is called with it, which
        may be when the user has let go of it, in any thread.
        """
        return None

    def in_place(self, values: Any, refuse: Callable[[], object]) -> Any:
        """Values in the memory of the caller, which `Operations.take` and `Operations.certify` read where they lie.

        What is subtracted from every value is its attribute ``shift``, 0 at first. None where the values cannot be
        read. Other operations do not take it: `Operations.settled` gives what they do.

        Parameters
        ----------
        values : array
            Of the shape of the backend's arrays, of NumPy or of `Backend.array_module`. It must not change as long as
            it is used.
        refuse : callable
            Called when a value may not be finite, to look for it and say so. A backend of which `Operations.take`
            returns before that is known does not call it.
        """
        return None


class CallersSources(ABC):
    """The operations of an operator that read a source in the caller's memory."""

    backend: Any

    @abstractmethod
    def norm(self, r: Array, result: Reduction) -> None:
        """See `poisson.backends.base.Operations`."""

    @abstractmethod
    def residual(self, u: Array, f: Array | None, r: Array, result: Reduction | None = None) -> None:
        """See `poisson.backends.base.Operations`."""

    def take(self, f: Array, out: Array, result: Reduction) -> None:
        """out = f, which may be `Backend.in_place`, and is zero at fixed nodes then; `result` gets the norms of it."""
        self.norm(f, result)
        self.backend.axpby(1.0, f, 0.0, out)

    def integrate(self, f: Array, out: Array | None, result: Reduction) -> bool:
        """`result` gets the sums of f and of abs(f) under the trapezoidal weights; f may be `Backend.in_place`.

        `out` may lose its values: it is where such a one goes that has to be copied for that, and is read there then.

        Returns
        -------
        bool
            Whether there is a pass for that; without one nothing has been done.
        """
        return False

    def certify(self, u: Array, f: Array, work: Array, result: Reduction) -> None:
        """`result` gets the norms of f − A u, as `residual` has them; f may be `Backend.in_place`.

        `work` may lose its values.
        """
        self.residual(u, f, work, result)

    def certify_in_double(self, u: Array, f: Array, result: Reduction) -> bool:
        """`result` gets the norms of f − A u in float64, for u in float32; f is `Backend.in_place`.

        Returns
        -------
        bool
            Whether there is a pass for that; without one nothing has been done.
        """
        return False

    def settled(self, f: Array) -> Array:
        """A source as an array of the backend: itself, or what `take` makes of one that is in the caller's memory."""
        return f


@runtime_checkable
class CallersSolver(Protocol):
    """A `FastSolver` for sources in the memory of the caller (`CallersArrays.in_place`), which certifies u at once."""

    @property
    def together(self) -> bool:
        """Whether it solves for several at once."""

    def solve_many(self, fs: Sequence[Array], start: Array, us: Sequence[Array]) -> NDArray[np.float64]:
        """us = A⁻¹ fs, as by `FastSolver.solve`; `start` has the values at fixed nodes.

        Returns
        -------
        array of shape (sources, 4)
            The norms of each source, and those of the residual of its solution: (Σ f², max |f|, Σ r², max |r|).
        """

    def solve_certified(self, f: Array, u: Array) -> tuple[Norms, Norms] | None:
        """u = A⁻¹ f, as by `FastSolver.solve`, for f in the memory of the caller or of the backend, which keeps it.

        u has zeros at the nodes that are not fixed. So it has afterwards where there is no result: f is zero, or this
        operator goes another way.

        Returns
        -------
        norms of f, norms of f − A u
            As (sum of squares, maximum).
        """
