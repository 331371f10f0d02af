# SPDX-License-Identifier: MIT
"""The knowledge of ``method = "auto"`` about a problem and the machine, and the offers of methods."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from poisson.backends.base import Backend, Operations
from poisson.discrete.operator import Operator
from poisson.discrete.share import known_to_all
from poisson.errors import PoissonError
from poisson.solvers.roughness import Roughness, has_products, roughness
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import weighted_mean

STRONG_JUMP = 10.0
"""Where a varies by more than this factor, cycles alone may converge slowly: CG makes up for it."""
STRONG_ANISOTROPY = 2.0
"""The same for spacings that differ by more than this factor, if a varies besides."""
STRONG_ANGLE = 30.0
"""The same for links along an angle, by which factor they vary with r."""
MOST_RADIAL = 1 << 25
"""The most values of eigenvectors along r for all angles, on several processes: seconds, and 0.25 GB."""
MIXED_NODES = 1 << 18
"""On fewer nodes float32 cycles inside float64 save no time."""
MIXED_RTOL = 1e-13
"""A smaller tolerance times the range of a is beyond what mixed precision can be sure to reach."""
MIXED_ROUNDING = 0.1
"""Where rounding in float32 leaves more than this part of a random residual, mixed precision takes more cycles, or does
not arrive. Found by experiments: from three times as much on, with jumps of a and with nearly singular problems."""
MIXED_ENERGY = 3e-4
"""The same for conjugate gradients and the energy, of which rounding in float32 makes eps² κ: a box of 10⁷ on 129²
nodes, with 9e-4, takes three times the iterations; up to this number 72 problems took half to all of the time."""
CONTRACTION = 0.07
"""The contraction of the residual by a cycle, for the expected time."""
OF_MIXED = 0.8
"""The part of the time of a cycle that one in mixed precision takes."""
CALLS_OF_LEVEL = 6
LEAST_VALUES = 1 << 10
"""Values at the least of the arrays that the bandwidth for the expected time is measured with."""
MOST_PROBES, PROBE_SECONDS = 20, 2e-3
"""After so many calls, or so long, no further one is timed; the fastest counts, as others may be at work, too."""
LEAST_SECONDS = 1e-7
"""No call takes less, whatever a coarse clock says."""
SLOW = 1e10
"""Bytes a second, where there is no memory left to measure with."""
UNSTEADY = 2.0
"""Where the middle one of these calls takes so many times as long as the fastest, others are at work."""
ROOM = 0.9
"""The part of the free memory that a method may take."""


@dataclass(frozen=True)
class Offer:
    """A method for a problem, with the time that a solve should take.

    `settings`: with the method.
    `precision`: ``float64``, ``float32`` or ``mixed``.
    `usual`: the time on a usual device of this kind, from stored numbers alone: the least of all offers is taken, so
    that the same problem gets the same method at every hour.
    `seconds`: the time with the bandwidth that was measured.
    `noun`: what would take longer, where another offer is compared with this one.
    `because`: what speaks for it, if anything does but the time.
    """

    settings: SolverSettings
    precision: str
    usual: float
    seconds: float
    noun: str
    because: str = ""


@dataclass(frozen=True)
class Times:
    """The times that cycles and transforms should take on a grid, from a pass over memory and the latency of a call."""

    cycle: float
    transforms: float
    precision: str

    def cycles(self, count: float) -> float:
        """The time of so many cycles, at least one."""
        return max(1.0, count) * self.cycle * (OF_MIXED if self.precision == "mixed" else 1.0)


@dataclass(frozen=True)
class Outline:
    """An operator and where it would run: what a method is chosen from before there are arrays.

    `backend`: where it would run. `operator`: A; of coefficients that vary the ranges count. `mean_reaction`: the mean
    of c with the terms of Robin faces, in 1/L². `roughness`: that of a, if it is known.
    """

    backend: Backend
    operator: Operator
    mean_reaction: float = 0.0
    roughness: Roughness | None = None


@dataclass(frozen=True)
class Question:
    """A problem for which a method is looked for.

    `operations`: those of A, where it will run; the free memory and the time of a pass over memory count. `settings`:
    with ``method = "auto"``. `precision`: what was asked for; ``float64`` may become ``mixed``, which reaches the same
    residual. `known`: the `stream`, if it has been measured before.
    """

    operations: Operations | Outline
    settings: SolverSettings
    precision: str
    known: tuple[float, bool] | None = None

    @property
    def backend(self) -> Backend:
        """Where it will run."""
        return self.operations.backend

    @property
    def operator(self) -> Operator:
        """A."""
        return self.operations.operator

    @property
    def to_discretisation(self) -> bool:
        """Whether a solve is to stop at the discretisation error."""
        return self.settings.stopping.stop == "discretisation"

    @cached_property
    def jump(self) -> float:
        """The largest a by the smallest."""
        if self.operator.coefficients is None:
            return 1.0
        least, largest = self.operator.coefficients.a_range
        return largest / least

    @cached_property
    def hard(self) -> str:
        """Why cycles alone may converge slowly; empty if they do not."""
        spacings = [h for h in self.operator.spacing if math.isfinite(h)]
        anisotropy = max(spacings) / min(spacings)
        if self.operator.fixed:
            return self._left_out
        if (stronger := self.operator.lattice.angular) > STRONG_ANGLE:
            return f"links along phi are up to {stronger:.3g} times as strong near r = 0"
        if self.jump > STRONG_JUMP:
            return f"a varies by a factor of {self.jump:.3g}"
        if self.jump > STRONG_ANISOTROPY and anisotropy > STRONG_ANISOTROPY:
            return f"a varies by a factor of {self.jump:.3g} and the spacings by {anisotropy:.3g}"
        return ""

    @property
    def no_modes(self) -> str:
        """Why there is no direct solution of such axes on these processes; empty if there is one."""
        lattice = self.operator.lattice
        if not lattice.divided:
            return ""
        if lattice.tabulated and not self.backend.on_host:
            return "direct solution on several GPUs needs equally spaced nodes"
        if lattice.angle is None:
            return ""
        if any(axis.whole for axis in lattice.axes[:-1]):
            return "direct solution with an angle needs whole planes on every rank"
        many = lattice.dimension == 3 and lattice.axes[lattice.angle].modes * lattice.axes[0].modes ** 2 > MOST_RADIAL
        return "the eigenvectors along r for every angle would take too long to find" if many else ""

    @known_to_all
    def rough(self) -> str:
        """Why multigrid had better have Galerkin coarse grids; empty if it had not, or the backend has none."""
        if not has_products(self.backend, self.operator):
            return ""
        known = self.operations.roughness if isinstance(self.operations, Outline) else roughness(self.operations)
        reason = known.reason(self.operator) if known else ""
        return reason or (self._left_out if self.operator.fixed and self.operator.lattice.divided else "")

    @property
    def _left_out(self) -> str:
        """Why some nodes have no equation."""
        cut = self.operator.coefficients and self.operator.coefficients.cut
        return "nodes in bodies have no equation" if cut else "a is 0 at some nodes"

    @cached_property
    def mixed(self) -> str:
        """The precision of cycles: mixed instead of float64 where that is faster and safe."""
        operator, stopping = self.operator, self.settings.stopping
        nodes = math.prod(operator.lattice.whole.shape)
        hardest = MIXED_RTOL * (self.jump if operator.varies else 1.0)
        if self.precision != "float64" or nodes < MIXED_NODES or stopping.rtol < hardest or self.to_discretisation:
            return self.precision
        if operator.coefficients and operator.coefficients.cut:
            return self.precision  # rows of Shortley and Weller are corrected around it
        limits = np.finfo(np.float32)
        largest, least = operator.norm, min(coupling for coupling in operator.couplings if coupling > 0.0)
        if operator.coefficients and operator.links:
            least *= operator.coefficients.a_range[0]
        if not (largest < 1e-3 * limits.max and least > 1e3 * limits.tiny):
            return "float64"
        eps, lowest = float(limits.eps), _lowest(self.operations)
        if (self.hard or self.rough) and eps * eps * operator.norm <= MIXED_ENERGY * lowest:
            return "mixed"
        # Rounding e = A⁻¹ r changes A e by eps ‖A‖ |e|; of a random r the mode of the lowest eigenvalue has 1/√nodes.
        return "mixed" if eps * operator.norm / math.sqrt(nodes) <= MIXED_ROUNDING * lowest else "float64"

    @cached_property
    def usual(self) -> Times:
        """The times on a usual device of this kind."""
        return self._pace(self.backend.probe().pace.bandwidth)

    @cached_property
    def measured(self) -> Times:
        """The times with the bandwidth of the moment."""
        return self._pace(self.stream[0])

    @property
    def steady(self) -> bool:
        """Whether they can be relied on: other programs take no part of the machine at this moment."""
        return self.stream[1] and not self.backend.probe().crowded()

    @cached_property
    def stream(self) -> tuple[float, bool]:
        """The bandwidth of the moment in bytes a second, and whether it was measured steadily."""
        if self.known:
            return self.known
        values = math.prod(self.operator.shape) * self.backend.dtype.itemsize // 8
        return _bandwidth(self.backend, values)

    @cached_property
    def slowdown(self) -> float:
        """How many times as long transforms take as those of a grid whose numbers of intervals have small factors."""
        probe = self.backend.probe()
        return max(probe.slowdown(axis.intervals) for axis in self.operator.lattice.whole.axes)

    @cached_property
    def _memory(self) -> tuple[int, int] | None:
        return self.backend.memory()

    def fits(self, arrays: float) -> bool:
        """Whether so many arrays of the grid's size have room."""
        memory = self._memory
        needed = arrays * math.prod(self.operator.shape) * self.backend.dtype.itemsize
        return memory is None or needed <= ROOM * memory[0]

    def cycles_to_tolerance(self) -> float:
        """Cycles that reduce the residual as far as the tolerance asks for."""
        return math.log(min(max(self.settings.stopping.rtol, 1e-15), 0.5)) / math.log(CONTRACTION)

    def _pace(self, bandwidth: float) -> Times:
        operator, pace = self.operator, self.backend.probe().pace
        array = 2.0 * math.prod(operator.shape) * self.backend.dtype.itemsize / bandwidth
        levels = max(1.0, math.log2(max(operator.lattice.whole.shape)) - 1.0)
        # A pass has u, f and a result, and the coefficients along each axis where they vary.
        more = 1.0 + (len(operator.links) / 3.0 if operator.links else 0.0)
        return Times(
            more * pace.cycle * array + levels * CALLS_OF_LEVEL * pace.call,
            self.slowdown * pace.transforms * array + 4 * len(operator.shape) * pace.call,
            self.mixed,
        )


def _lowest(operations: Operations | Outline) -> float:
    """The size of the smallest non-zero eigenvalue of A."""
    backend, operator = operations.backend, operations.operator
    bound = operator.eigenvalues()[0]
    held = operator.lattice.holds or operator.fixed > 0
    if operator.coefficients is None or operator.reaction is None or operator.singular or held:
        return bound
    # c may be zero somewhere, as it is inside with Robin faces: for the constants its mean counts.
    if isinstance(operations, Outline):
        mean = operations.mean_reaction
    else:
        ones = backend.empty(operator.array_shape)
        backend.fill(ones, 1.0)
        mean = weighted_mean(operations, operator.reaction, ones, backend.reduction())
    without = replace(operator.coefficients, c=None, c_range=(0.0, 0.0))
    return max(bound, min(mean, replace(operator, coefficients=without).eigenvalues()[0]))


def _bandwidth(backend: Backend, values: int) -> tuple[float, bool]:
    """Bytes a second that the backend's methods stream, on arrays of up to so many float64 values; whether steadily."""
    try:
        probe = backend.probe()
        call, moved = probe.stream(max(LEAST_VALUES, min(values, probe.pace.probe)))
        call()
        times: list[float] = []
        while len(times) < 3 or (len(times) < MOST_PROBES and sum(times) < PROBE_SECONDS):
            times.append(backend.seconds(call))
        least, middle = (max(each, LEAST_SECONDS) for each in (min(times), sorted(times)[len(times) // 2]))
        return min(moved / least, probe.pace.highest), middle <= UNSTEADY * least
    except (PoissonError, MemoryError):
        return SLOW, False
