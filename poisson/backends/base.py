"""The operations that every backend has, and what each must compute.

A solver is written in these operations alone. `OPERATIONS` is the table: the backends' methods, the kernels' symbols
and the library's exported symbols carry these names, and a test compares them. The numpy backend is the specification.

Arrays are opaque to a solver: it gets them from `Backend.empty`, `from_host` or `assemble`, and passes them back.
Outputs are arguments. Operations may return before they have run; `read`, `to_host` and `synchronize` wait.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.differences import Differences
from poisson.discretisation import Operator
from poisson.transfer import Transfer

Array = Any
Reduction = Any
Derivative = Callable[[Differences, int, Array, Array], None]
Slab = Callable[[ModuleType, int, int], Any]

OPERATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "laplacian": ("operator", "u", "out"),
        "boundary_conditions": ("operator", "u", "out"),
        "update": ("operator", "f", "au", "r", "u", "omega"),
        "norm": ("operator", "r", "result"),
        "sweep": ("operator", "u", "f", "out", "omega", "result"),
        "sweeps": ("operator", "u", "f", "out", "omega", "count", "result"),
        "residual": ("operator", "u", "f", "r", "result"),
        "fill": ("x", "value"),
        "axpby": ("a", "x", "b", "y"),
        "dot": ("operator", "x", "y", "result"),
        "restrict": ("transfer", "fine", "coarse"),
        "prolong_add": ("transfer", "coarse", "fine"),
        "derivative": ("differences", "axis", "u", "out"),
        "gradient": ("differences", "u", "outs"),
    }
)
"""The operations and their arguments, in order."""


class Backend(ABC):
    """Arrays of one real type on one device, and the operations on them.

    Parameters
    ----------
    dtype : numpy dtype
        float32 or float64.

    Attributes
    ----------
    name : str
        The name in ``[run] backend``.
    device : str
        The device, for people.
    yardstick : str
        What `stream` does: ``copy`` or ``triad``.
    """

    name: str
    device: str
    yardstick: str = "copy"

    def __init__(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"{self.dtype} is not float32 or float64")

    # ---- memory

    @abstractmethod
    def empty(self, array_shape: tuple[int, ...]) -> Array:
        """An array whose values are not set."""

    @abstractmethod
    def from_host(self, values: NDArray[Any]) -> Array:
        """A copy of a NumPy array on the device, in this backend's type."""

    @abstractmethod
    def to_host(self, array: Array) -> NDArray[Any]:
        """A copy of an array as a NumPy array."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything asked for has been done."""

    @abstractmethod
    def memory(self) -> tuple[int, int] | None:
        """Bytes of memory that are free, and bytes in all, where the arrays live; None if the runtime cannot tell."""

    @abstractmethod
    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        """The yardstick of memory bandwidth: a call that streams `count` float64 values, and the bytes that it moves.

        On a GPU and in NumPy it copies (16 bytes a value); on the threads of a CPU it is the triad of the STREAM
        benchmark (24 bytes a value).
        """

    @abstractmethod
    def assemble(self, array_shape: tuple[int, ...], slab: Slab) -> Array:
        """An array filled slab by slab, so that its values need no second array of its size anywhere.

        Parameters
        ----------
        array_shape : tuple of int
            Shape of the array.
        slab : callable
            ``slab(xp, start, stop)`` gives the values of the range ``[start, stop)`` of the first array axis, computed
            with the array module xp.
        """

    # ---- reductions

    @abstractmethod
    def reduction(self) -> Reduction:
        """A place on the device for the two float64 results of a reduction."""

    @abstractmethod
    def read(self, result: Reduction) -> tuple[float, float]:
        """Wait for a reduction and return its results: (sum, maximum)."""

    def mark(self, result: Reduction) -> None:
        """Let `read` of this result wait for what was asked for before this call, and for nothing after it."""
        return

    # ---- time

    @abstractmethod
    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        """The yardstick of arithmetic: a call of at least `count` multiply-adds in this type, and its flops, two each.

        On a GPU and on the threads of a CPU these are independent chains in registers; NumPy multiplies matrices.
        """

    def seconds(self, call: Callable[[], None]) -> float:
        """The time on the device of the operations that `call` asks for."""
        self.synchronize()
        start = time.perf_counter()
        call()
        self.synchronize()
        return time.perf_counter() - start

    # ---- tuning

    def tuning(self, operator: Operator) -> str:
        """Where the settings of the kernels for an operator come from, in words."""
        return "built-in defaults"

    # ---- recording

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """A callable that repeats the operations that `function` asks for, on the same arrays, at the least cost.

        Where the runtime has graphs, `function` runs once to be recorded and need not run again. It must not allocate,
        read or wait.
        """
        return function

    # ---- the four stages of a Jacobi iteration

    @abstractmethod
    def laplacian(self, operator: Operator, u: Array, out: Array) -> None:
        """out = A u at the nodes that lie on no face. The other nodes of `out` keep their values."""

    @abstractmethod
    def boundary_conditions(self, operator: Operator, u: Array, out: Array) -> None:
        """out = A u at the nodes on the faces, by their rules; zero at fixed nodes. The others keep their values."""

    @abstractmethod
    def update(self, operator: Operator, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        """r = f − au, u = u + omega r / diag(A). Without `f` the source is zero."""

    @abstractmethod
    def norm(self, operator: Operator, r: Array, result: Reduction) -> None:
        """result = (Σ r², max |r|) over all nodes, in float64."""

    # ---- the same in one pass

    @abstractmethod
    def sweep(
        self, operator: Operator, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None
    ) -> None:
        """out = u + omega r / diag(A) with r = f − A u; u at fixed nodes. `result`, if given, gets the norms of r.

        Without `f` the source is zero, and no array is read for it.
        """

    @abstractmethod
    def depth(self, operator: Operator) -> int:
        """How many sweeps `sweeps` makes best in one pass over memory, and the most that it takes."""

    @abstractmethod
    def sweeps(
        self,
        operator: Operator,
        u: Array,
        f: Array | None,
        out: Array,
        omega: float,
        count: int,
        result: Reduction | None = None,
    ) -> None:
        """out = u after `count` sweeps, 1 ≤ count ≤ `depth`; u keeps its values.

        `result`, if given, gets the norms of the residual that the last of them computes. Without `f` the source is
        zero.
        """

    @abstractmethod
    def residual(
        self, operator: Operator, u: Array, f: Array | None, r: Array, result: Reduction | None = None
    ) -> None:
        """r = f − A u, zero at fixed nodes. `result`, if given, gets the norms of r. Without `f` the source is zero."""

    # ---- vectors

    @abstractmethod
    def fill(self, x: Array, value: float) -> None:
        """x = value."""

    @abstractmethod
    def axpby(self, a: float, x: Array, b: float, y: Array) -> None:
        """y = a x + b y; y is not read where b is zero."""

    @abstractmethod
    def dot(self, operator: Operator, x: Array, y: Array, result: Reduction) -> None:
        """result = (Σ w x y, 0) with the trapezoidal weights w: one half for each mirror face that a node lies on."""

    # ---- between grids

    @abstractmethod
    def restrict(self, transfer: Transfer, fine: Array, coarse: Array) -> None:
        """coarse = R fine, zero at fixed nodes."""

    @abstractmethod
    def prolong_add(self, transfer: Transfer, coarse: Array, fine: Array) -> None:
        """fine = fine + P coarse; fixed nodes keep their values."""

    # ---- first derivatives

    @abstractmethod
    def derivative(self, differences: Differences, axis: int, u: Array, out: Array) -> None:
        """out = ∂u/∂x along `axis` (0 is x) at every node."""

    def derivative_variants(self) -> Mapping[str, Derivative]:
        """The ways to compute `derivative` that there are, by name, for measurements."""
        return {self.name: self.derivative}

    @abstractmethod
    def gradient(self, differences: Differences, u: Array, outs: Sequence[Array]) -> None:
        """outs = ∇u: one array for each of x, y(, z)."""
