# SPDX-License-Identifier: MIT
"""The operations that every backend has, and what each must compute.

A solver is written in these operations alone. `poisson.backends.operations` has the table of them: the methods here,
the kernels' symbols and the library's exported symbols carry these names, and a test compares them. The numpy backend
is the specification.

Operations on plain vectors are methods of the backend. All others have a subject, such as an operator: `Backend.bind`
gives an object with the operations of that subject, which owns what they need beside the arrays.

Arrays are opaque to a solver: it gets them from `Backend.empty`, `from_host` or `assemble`, and passes them back.
Outputs are arguments; operations may return before they have run (`read`, `to_host` and `synchronize` wait).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from poisson.backends.callers import CallersArray, CallersArrays
from poisson.backends.exchanges import Exchanges
from poisson.backends.own_ways import OwnWays
from poisson.backends.recordings import Recordings
from poisson.backends.subjects import require_plain

if TYPE_CHECKING:
    from poisson.backends.inverses import DividedInverseOperations, InverseOperations
    from poisson.backends.probe import Probe
    from poisson.backends.rows import RowOperations
    from poisson.backends.stencils import ClusterOperations, StencilOperations, StencilTransferOperations
    from poisson.backends.transfers import DifferenceOperations, InterpolationOperations, TransferOperations
    from poisson.discrete.clusters import Clusters
    from poisson.discrete.discretisation import Operator
    from poisson.discrete.face_fields import FaceFields
    from poisson.discrete.full_stencil import FullStencil, StencilTransfer
    from poisson.discrete.inverse import DividedInverse, Inverse
    from poisson.discrete.sparse_rows import SparseRows
    from poisson.discrete.transfer import Interpolation, Transfer
    from poisson.mesh.differences import Differences
    from poisson.mesh.lattice import Lattice

Array = Any
Reduction = Any
Slab = Callable[[ModuleType, int, int], Any]


class Backend(CallersArrays, Exchanges, OwnWays, Recordings):
    """Arrays of one real type on one device, and the operations on them.

    `name`: in ``[run] backend``. `device`: for people. `dtype`: float32 or float64. `bound`: what `bind` makes of this
    backend and a subject, by the type of the subject. `any_axis`: whether it takes parts with any halos, of x too.
    Another takes a part with a halo of one node alone, and to it the halo is fixed nodes: `residual` is right at the
    nodes that are owned and zero in the halo, and so is what is made of it by `norm` and `diagonal_solve`. `threads`:
    of the host, that operations run on. `on_host`: whether arrays are in the host's memory. `views`: whether there is a
    module for arrays where they are. `instead_of`: the backends that ``auto`` would have taken before it, with why it
    did not; for people. `place`: the number of this process among those that divide a grid, and how many they are.
    """

    name: str
    device: str
    threads: int = 1
    on_host: bool = False
    views: bool = True
    instead_of: str = ""
    any_axis: bool = False
    place: tuple[int, int] = (0, 1)
    bound: Mapping[type, Callable[[Any, Any], Any]]

    def __init__(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"{self.dtype} is not float32 or float64")

    @property
    def kernel_seconds(self) -> float | None:
        """Seconds so far in which kernels were awaited and launches recorded; None where none are loaded on demand."""
        return None

    def in_use(self) -> AbstractContextManager[Any]:
        """Within, the calling thread asks for operations: any thread may, but one at a time.

        Raises `BackendUnavailable` if this process was forked from the one that made the backend, and the device cannot
        be used here.
        """
        return nullcontext()

    # ---- memory

    @abstractmethod
    def empty(self, array_shape: tuple[int, ...]) -> Array:
        """An array whose values are not set."""

    @abstractmethod
    def from_host(self, values: NDArray[Any]) -> Array:
        """A copy of a NumPy array on the device, in this backend's type."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything asked for has been done."""

    def watch(self, look: Callable[[], None]) -> None:
        """Call this now and then while the host waits for a device, which may wait for that of another process."""
        return

    @abstractmethod
    def memory(self) -> tuple[int, int] | None:
        """Bytes of memory that are free, and bytes in all, where the arrays live; None if the runtime cannot tell."""

    @abstractmethod
    def assemble(self, array_shape: tuple[int, ...], slab: Slab, out: Array | None = None) -> Array:
        """An array filled slab by slab, so that its values need no second array of its size anywhere.

        ``slab(xp, start, stop)`` gives the values of the range ``[start, stop)`` of the first array axis, computed with
        the array module xp, or NumPy. `out`: the array to fill; without it a new one.
        """

    @property
    def array_module(self) -> ModuleType:
        """The module that `assemble` has slabs computed with: NumPy, or the one whose arrays are on the device."""
        return np

    def view(self, array: Array) -> Any:
        """The values of an array as an array of `array_module` that shares its memory, as long as that lives.

        Raises `BackendUnavailable` if there is no module for arrays where they are (`views`).
        """
        return array

    def ordered(self) -> AbstractContextManager[Any]:
        """Within, what `array_module` is asked for runs in order with the operations."""
        return nullcontext()

    def coarse_lattice(self, lattice: Lattice) -> Lattice:
        """The lattice of a coarser grid whose axes are those of `lattice`; a process may have all of a divided one."""
        return lattice

    def begins_evenly(self, lattice: Lattice) -> bool:
        """Whether the parts of a lattice that processes have begin at even nodes, on all of them."""
        return True

    def gathers(self, lattice: Lattice, halved: Sequence[bool]) -> bool:
        """Whether each process that has a part of a lattice has all of the one of every other node of some axes."""
        return False

    def sample(self, array: Array, lattice: Lattice, steps: Sequence[int]) -> NDArray[Any]:
        """The values at one node of so many along each axis x, y(, z) of the whole lattice, on the host."""
        values = self.view(array) if self.views else self.to_host(array)
        with self.ordered():
            values = values[tuple(slice((step - 1) // 2, None, step) for step in reversed(steps))]
            return values if isinstance(values, np.ndarray) else values.get()

    def around(self, array: Array, lattice: Lattice) -> Any:
        """`view`, or without views the values on the host, with those that the neighbours of a process own beside."""
        return self.view(array) if self.views else self.to_host(array)

    def changed(self, array: Array) -> None:
        """Note that some values of an array that this process owns are others, by a view."""
        return

    def joined(self, values: NDArray[Any], places: NDArray[np.int64], size: int) -> NDArray[Any]:
        """An array of so many values on the host, of which each process has those at some places."""
        return values

    def swapped(self, parts: Sequence[Any]) -> list[Any]:
        """The arrays that all processes have for this one; each has one for every process, NumPy's or on the device."""
        return list(parts)

    # ---- reductions

    @abstractmethod
    def reduction(self) -> Reduction:
        """A place on the device for the two float64 results of a reduction."""

    @abstractmethod
    def read(self, result: Reduction) -> tuple[float, float]:
        """Wait for a reduction and return its results: (sum, maximum)."""

    def read_all(self, results: Sequence[Reduction]) -> list[tuple[float, float]]:
        """The results of several reductions, for which a device is waited for once."""
        return [self.read(result) for result in results]

    def mark(self, result: Reduction) -> None:
        """Let `read` of this result wait for what was asked for before this call, and for nothing after it."""
        return

    # ---- time

    @abstractmethod
    def probe(self) -> Probe:
        """How fast this backend is, and what there is to be measured beside its operations."""

    def seconds(self, call: Callable[[], None]) -> float:
        """The time on the device of the operations that `call` asks for."""
        self.synchronize()
        start = time.perf_counter()
        call()
        self.synchronize()
        return time.perf_counter() - start

    # ---- operations with a subject

    @overload
    def bind(self, subject: Operator) -> Operations: ...
    @overload
    def bind(self, subject: Transfer) -> TransferOperations: ...
    @overload
    def bind(self, subject: Interpolation) -> InterpolationOperations: ...
    @overload
    def bind(self, subject: Differences) -> DifferenceOperations: ...
    @overload
    def bind(self, subject: FullStencil) -> StencilOperations: ...
    @overload
    def bind(self, subject: StencilTransfer) -> StencilTransferOperations: ...
    @overload
    def bind(self, subject: Clusters) -> ClusterOperations: ...
    @overload
    def bind(self, subject: SparseRows) -> RowOperations: ...
    @overload
    def bind(self, subject: DividedInverse) -> DividedInverseOperations: ...
    @overload
    def bind(self, subject: Inverse) -> InverseOperations: ...
    @overload
    def bind(self, subject: object) -> Any: ...
    def bind(self, subject: object) -> Any:
        """The operations of an operator, between grids, or of first derivatives; they end with the object returned.

        Raises `GridError` if the backend does not take an axis of it: see `any_axis`.
        """
        if not self.any_axis:
            require_plain(subject, self.name, self.bound)
        return self.bound[type(subject)](self, subject)

    # ---- vectors

    @abstractmethod
    def fill(self, x: Array, value: float) -> None:
        """x = value."""

    @abstractmethod
    def axpby(self, a: float, x: Array, b: float, y: Array) -> None:
        """y = a x + b y; y is not read where b is zero."""

    @abstractmethod
    def correct(self, factor: float, x: Array, y: Array) -> None:
        """y = y + factor x, computed in this backend's type; x is a float32 array, whatever the type of y."""

    @abstractmethod
    def dense(self, matrix: Array, x: Array, y: Array) -> None:
        """y = M x over all nodes in C order; `matrix` is an array of shape (nodes, nodes)."""

    def face_fields(self, far: Operator, faces: Sequence[bool], lattice: Lattice) -> FaceFields:
        """The field of the charges inside on open faces.

        `far`: the operator beyond them, on the whole lattice. `faces`: which are open. `lattice`: that of the arrays.
        """
        from poisson.discrete.face_fields import FaceFields

        return FaceFields(far, faces, self.array_module, self.threads)

    # ---- another precision

    @abstractmethod
    def companion(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
        """The backend of another type on the same device, whose operations run in order with those of this one."""


@dataclass(eq=False, repr=False)
class Operations(ABC):
    """The operations of an operator on a backend, as `Backend.bind` gives them.

    What they need beside the arrays of a call belongs to this object: tables, structures, plans of launches. Several
    may be bound to one operator.

    `backend`: where the arrays are. `operator`: A, whose coefficients are on that backend where they vary.
    """

    backend: Backend
    operator: Operator

    def rebind(self, operator: Operator) -> None:
        """Go over to an operator on the same nodes, whose coefficients lie in the same arrays.

        The values in the arrays may have changed, and so may constants. What was recorded (`Backend.capture`) reads the
        new values, but has the old constants.
        """
        self.operator = operator

    # ---- tuning

    def tuning(self) -> str:
        """Where the settings of the kernels come from, in words."""
        return "built-in defaults"

    # ---- the four stages of a Jacobi iteration

    @abstractmethod
    def laplacian(self, u: Array, out: Array) -> None:
        """out = A u at the nodes that lie on no face. The other nodes of `out` keep their values."""

    @abstractmethod
    def boundary_conditions(self, u: Array, out: Array) -> None:
        """out = A u at the nodes on the faces, by their rules; zero at fixed nodes. The others keep their values."""

    @abstractmethod
    def update(self, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        """r = f − au, u = u + omega r / diag(A). Without `f` the source is zero."""

    @abstractmethod
    def norm(self, r: Array, result: Reduction) -> None:
        """result = (Σ r², max |r|) over all nodes, in float64."""

    # ---- the same in one pass

    @abstractmethod
    def sweep(self, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None) -> None:
        """out = u + omega r / diag(A) with r = f − A u; u at fixed nodes. `result`, if given, gets the norms of r.

        Without `f` the source is zero, and no array is read for it.
        """

    @abstractmethod
    def depth(self) -> int:
        """How many sweeps `sweeps` makes best in one pass over memory, and the most that it takes."""

    @abstractmethod
    def sweeps(
        self, u: Array, f: Array | None, out: Array, omegas: Sequence[float], result: Reduction | None = None
    ) -> None:
        """out = u after one sweep with each weight ω in turn, at most `depth` of them; u keeps its values.

        `result`, if given, gets the norms of the residual that the last of them computes. Without `f` the source is
        zero.
        """

    @abstractmethod
    def color_sweep(self, u: Array, f: Array | None, color: int, omega: float) -> None:
        """u = u + omega r / diag(A) with r = f − A u at the nodes of one color that are not fixed.

        The color of a node is the parity of the sum of its indices; an axis that wraps has an even number of nodes, or
        one. On a part of a grid the indices are those of the part's arrays, with the halo: one who means a color of the
        whole grid adds the numbers that the part's first nodes have there. Without `f` the source is zero.
        """

    @abstractmethod
    def residual(self, u: Array, f: Array | None, r: Array, result: Reduction | None = None) -> None:
        """r = f − A u, zero at fixed nodes. `result`, if given, gets the norms of r. Without `f` the source is zero."""

    @abstractmethod
    def dot(self, x: Array, y: Array, result: Reduction) -> None:
        """result = (Σ w x y, 0) with the trapezoidal weights w: one half for each mirror face that a node lies on."""

    # ---- of Krylov methods

    @abstractmethod
    def diagonal_solve(self, r: Array, z: Array, omega: float, result: Reduction | None = None) -> None:
        """z = omega r / diag(A), zero at fixed nodes. `result`, if given, gets (Σ w r z, 0) as `dot` does."""

    @abstractmethod
    def direction(self, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction) -> None:
        """out = z + beta p, q = A out, both zero at fixed nodes; p is not read where beta is zero.

        `result` gets (Σ w out q, 0) as `dot` does. `out` is neither z nor p.
        """

    @abstractmethod
    def advance(self, alpha: float, p: Array, q: Array, u: Array, r: Array, result: Reduction) -> None:
        """u = u + alpha p, r = r − alpha q; `result` gets the norms of r."""

    # ---- between precisions

    @abstractmethod
    def defect(self, u: Array, f: Array | None, factor: float, r: Array, result: Reduction | None = None) -> None:
        """r = factor (f − A u), zero at fixed nodes; r is a float32 array, whatever the type of u and f.

        It is computed in this backend's type. `result`, if given, gets the norms of f − A u without the factor.
        """

    # ---- on the coefficients of links

    @abstractmethod
    def links(self, axis: int, a: Array, harmonic: bool, out: Array) -> None:
        """out = the mean of `a` over the ends of each link along `axis`: harmonic, or else arithmetic.

        The array is laid out as `Coefficients.links` says.
        """

    # ---- of sources, which may be in the memory of the caller (`CallersArray`)

    @abstractmethod
    def integrate(self, f: Array, work: Array | None, result: Reduction) -> None:
        """result = (Σ w f, Σ w |f|) with the weights of `dot`; f is read in `work` then, if it has to be copied."""

    def take(self, f: Array, out: Array, result: Reduction) -> None:
        """out = f, zero at fixed nodes; `result` gets the norms of it.

        An array of the backend is zero there. The sum is not finite if a value is not, wherever it is.
        """
        self.norm(f, result)
        self.backend.axpby(1.0, f, 0.0, out)

    def certify(self, u: Array, f: Array, work: Array, result: Reduction) -> None:
        """result = the norms of f − A u, as `residual` has them."""
        self.residual(u, self.settled(f), work, result)

    @property
    def widens(self) -> bool:
        """Whether `certify` computes in float64 for u in float32 and f in float64."""
        return False

    def taken(self, f: Array, result: Reduction) -> tuple[float, float]:
        """The norms that `take` found; of values in the memory of the caller that are not finite it tells."""
        norms = self.backend.read(result)
        if isinstance(f, CallersArray) and not math.isfinite(norms[0]):
            f.refuse()
        return norms

    def settled(self, f: Array) -> Array:
        """A source as an array of the backend: itself, or what `take` makes of one in the memory of the caller."""
        if not isinstance(f, CallersArray):
            return f
        array = self.backend.empty(f.shape)
        self.take(f, array, self.backend.reduction())
        return array

    # ---- half a level of multigrid

    def _sweep_from_zero(self, f: Array, out: Array, work: Array, omegas: Sequence[float]) -> int:
        """out = zero after the first of some sweeps, or after several in one pass; returns how many."""
        self.diagonal_solve(f, out, omegas[0])
        return 1

    def _relax(self, u: Array, f: Array, out: Array, omegas: Sequence[float], short_waves: float) -> None:
        """out = u after the sweeps of one pass, the last of them with `short_waves`, as `smooth` has it; u loses its
        values.
        """
        if len(omegas) == 1:
            self.sweep(u, f, out, omegas[0])
        else:
            self.sweeps(u, f, out, omegas)
        if short_waves:
            self.update(None, f, u, out, -short_waves)

    def smooth(
        self,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        omegas: Sequence[float],
        correction: tuple[TransferOperations, Array] | None = None,
        restriction: tuple[TransferOperations, Array] | None = None,
        result: Reduction | None = None,
        short_waves: float = 0.0,
    ) -> None:
        """out = u with the coarse correction, after one sweep with each weight in turn; and its residual, restricted.

        `u`: where to start; without it zero. It loses its values, and so does `work`; u, out and work are three
        different arrays. `f`: the source. `omegas`: the weight ω of each sweep; any number of them. `correction`: an
        array whose prolongation is added to u first. `restriction`: its array gets R (f − A out). `result`: gets the
        norms of f − A out. `short_waves`: the factor of f / diag(A), which the last sweep adds to out, or which is
        added without a sweep; f is zero at fixed nodes then.
        """
        start, spare = (out, work) if u is None else (u, out)
        if u is None and (correction or not omegas):
            self.backend.fill(start, 0.0)
        elif u is None:
            omegas = omegas[self._sweep_from_zero(f, start, spare, omegas) :]
        if correction:
            correction[0].prolong_add(correction[1], start)
        depth = self.depth()
        for first in range(0, len(omegas), depth):
            last = first + depth >= len(omegas)
            self._relax(start, f, spare, omegas[first : first + depth], short_waves if last else 0.0)
            start, spare = spare, start
        if short_waves and not omegas:
            self.update(None, f, spare, start, -short_waves)
        if start is not out:
            self.backend.axpby(1.0, start, 0.0, out)
        if restriction or result is not None:
            self.residual(out, f, work, result)
        if restriction:
            restriction[0].restrict(work, restriction[1])
