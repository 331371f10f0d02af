"""``method = "auto"``: which method a problem gets, why, and the time it should take. docs/methods.md has the table."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace

import numpy as np

from poisson.backends.base import Backend
from poisson.discrete.operator import Operator
from poisson.errors import PoissonError
from poisson.mesh.boundary import Rule
from poisson.solvers.memory import ARRAYS
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import weighted_mean
from poisson.solvers.stopping import Patience

STRONG_JUMP = 10.0
"""Where a varies by more than this factor, cycles alone may converge slowly: CG makes up for it."""
STRONG_ANISOTROPY = 2.0
"""The same for spacings that differ by more than this factor, if a varies besides."""
MIXED_NODES = 1 << 18
"""On fewer nodes float32 cycles inside float64 save no time."""
MIXED_RTOL = 1e-13
"""A smaller tolerance times the range of a is beyond what mixed precision can be sure to reach."""
MIXED_ROUNDING = 0.1
"""Where rounding in float32 leaves more than this part of a random residual, mixed precision takes more cycles, or does
not arrive. Found by experiments: from three times as much on, with jumps of a and with next to singular problems."""
LARGEST_FACTOR = 13
"""Transforms are fast where the intervals of every axis have no larger prime factor; else they take …"""
AWKWARD = 4.0
"""… about so much longer."""
CONTRACTION = 0.07
"""Of the residual by a cycle, for the expected time."""
GAINED_BY_FULL = 3.0
"""Cycles that a start on the coarsest grid saves."""
HARDER = 2.2
"""What conjugate gradients take where a jumps, in cycles for constant a."""
OF_MIXED = 0.8
"""Of the time of a cycle, in mixed precision."""
CALLS_OF_LEVEL = 6
LEAST_VALUES = 1 << 10
"""Values at the least of the arrays that the bandwidth for the expected time is measured with."""
MOST_PROBES, PROBE_SECONDS = 20, 2e-3
"""After so many calls, or so long, no further one is timed; the fastest counts, as others may be at work, too."""
LEAST_SECONDS = 1e-7
"""No call takes less, whatever a coarse clock says."""
SLOW = 1e10
"""Bytes a second, where there is no memory left to measure with."""
PATIENCE = {"multigrid": Patience(reads=8, factor=4.0), "cg": Patience(reads=100, factor=10.0)}
"""What a method that was chosen must do for the residual, or another one goes on."""

ROOM = 0.9
"""Of the free memory that a method may take."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """A method for a problem.

    Parameters
    ----------
    settings : SolverSettings
        With a method other than ``auto``.
    precision : str
        ``float64``, ``float32`` or ``mixed``.
    reason : str
        Why, in a few words.
    seconds : float
        The time that a solve should take, without its set-up.
    """

    settings: SolverSettings
    precision: str
    reason: str
    seconds: float

    @property
    def line(self) -> str:
        """What, why, and the time it should take."""
        name = describe(self.settings, self.precision)
        return f"method {name}, as {self.reason}; about {_time(self.seconds)} expected"


def describe(settings: SolverSettings, precision: str) -> str:
    """A method with its main settings, for people."""
    name = settings.method
    if name == "cg" and settings.preconditioner != "none":
        name = f"cg with preconditioner {settings.preconditioner}"
    if "multigrid" in name:
        name += f" ({settings.cycle}({settings.pre},{settings.post}), {settings.smoother})"
    return name + (", mixed precision" if precision == "mixed" else "")


def choose(backend: Backend, operator: Operator, settings: SolverSettings, precision: str) -> Choice:
    """Choose a method.

    Parameters
    ----------
    backend : Backend
        Where it will run; its free memory and the time of a pass over memory count.
    operator : Operator
        A.
    settings : SolverSettings
        With ``method = "auto"``.
    precision : str
        What was asked for; ``float64`` may become ``mixed``, which reaches the same residual.
    """
    mixed = _mixed(backend, operator, settings, precision)
    anisotropy = _anisotropy(operator)
    measured = _bandwidth(backend, math.prod(operator.shape) * backend.dtype.itemsize // 8)
    pace = _Pace.of(backend, operator, measured)
    cycles = replace(settings, method="multigrid")
    if operator.varies:
        jump = _jump(operator)
        if settings.stop == "discretisation":
            reason = "solver.stop asks for the discretisation error"
            return Choice(cycles, mixed, reason, pace.cycles(settings, mixed))
        if jump > STRONG_JUMP or (jump > STRONG_ANISOTROPY and anisotropy > STRONG_ANISOTROPY):
            krylov = replace(settings, method="cg", preconditioner="multigrid")
            reason = f"a varies by a factor of {jump:.3g}"
            if jump <= STRONG_JUMP:
                reason += f" and the spacings by {anisotropy:.3g}"
            return Choice(krylov, mixed, reason, pace.iterations(settings, mixed))
        what = f"a varies by a factor of {jump:.3g} only" if jump > 1.0 else "a is constant and c varies"
        return Choice(cycles, mixed, what, pace.cycles(settings, mixed))
    if settings.stop == "discretisation":
        return Choice(cycles, mixed, "solver.stop asks for the discretisation error", pace.cycles(settings, mixed))
    usual = _Pace.of(backend, operator, backend.pace.bandwidth)
    by_cycles, by_transforms = usual.cycles(settings, mixed), usual.transforms
    factor = _largest_factor(operator)
    if not _fits(backend, operator):
        return Choice(cycles, mixed, "transforms would need more memory than there is", pace.cycles(settings, mixed))
    if by_cycles < by_transforms:
        awkward = f", whose lengths have the factor {factor}," if factor > LARGEST_FACTOR else ""
        reason = f"transforms{awkward} would take {by_transforms / by_cycles:.1f} times as long"
        return Choice(cycles, mixed, reason, pace.cycles(settings, mixed))
    direct = replace(settings, method="fft")
    plain = "float64" if precision == "mixed" else precision
    longer = f"{by_cycles / by_transforms:.1f} times as long"
    return Choice(direct, plain, f"a and c are constant, and cycles would take {longer}", pace.transforms)


def alternatives(settings: SolverSettings) -> tuple[SolverSettings, ...]:
    """What to go on with, one after the other, where a method that was chosen stalls."""
    krylov = replace(settings, method="cg", preconditioner="multigrid")
    plain = replace(krylov, preconditioner="jacobi")
    if settings.method != "cg":
        return krylov, plain
    return (plain,) if settings.preconditioner == "multigrid" else ()


def patience_with(settings: SolverSettings) -> Patience | None:
    """The progress that is expected of a method as long as there are alternatives to it."""
    return PATIENCE.get(settings.method) if alternatives(settings) else None


def _mixed(backend: Backend, operator: Operator, settings: SolverSettings, precision: str) -> str:
    """The precision of cycles: mixed instead of float64 where that is faster and safe."""
    small = math.prod(operator.shape) < MIXED_NODES
    hardest = MIXED_RTOL * (_jump(operator) if operator.varies else 1.0)
    if precision != "float64" or small or settings.rtol < hardest or settings.stop == "discretisation":
        return precision
    limits = np.finfo(np.float32)
    largest, least = operator.norm, min(weight for weight in operator.weights if weight > 0.0)
    if operator.coefficients and operator.edges:
        least *= operator.coefficients.a_range[0]
    if not (largest < 1e-3 * limits.max and least > 1e3 * limits.tiny):
        return "float64"
    # Rounding e = A⁻¹ r changes A e by eps ‖A‖ |e|, and of a random r the mode of the lowest eigenvalue has 1/√nodes.
    left = float(limits.eps) * operator.norm / math.sqrt(math.prod(operator.shape))
    return "mixed" if left <= MIXED_ROUNDING * _lowest(backend, operator) else "float64"


def _lowest(backend: Backend, operator: Operator) -> float:
    """The size of the smallest non-zero eigenvalue of A."""
    bound = operator.eigenvalues()[0]
    if operator.coefficients is None or operator.reaction is None or operator.singular or Rule.FIXED in operator.rules:
        return bound
    # c may be zero somewhere, as it is inside with Robin faces: for the constants its mean counts.
    ones = backend.empty(operator.array_shape)
    backend.fill(ones, 1.0)
    mean = weighted_mean(backend, operator, operator.reaction, ones, backend.reduction())
    without = replace(operator.coefficients, c=None, c_range=(0.0, 0.0))
    return max(bound, min(mean, replace(operator, coefficients=without).eigenvalues()[0]))


def _anisotropy(operator: Operator) -> float:
    """The largest spacing by the smallest."""
    spacings = [h for h in operator.spacing if math.isfinite(h)]
    return max(spacings) / min(spacings)


def _jump(operator: Operator) -> float:
    """The largest a by the smallest."""
    assert operator.coefficients is not None
    least, largest = operator.coefficients.a_range
    return largest / least


def _largest_factor(operator: Operator) -> int:
    """The largest prime factor of the intervals of any axis: the transforms have these lengths, or twice them."""
    largest = 1
    for axis, nodes in enumerate(operator.shape):
        rest = nodes if operator.axis_rules(axis)[0] is Rule.WRAP else nodes - 1
        factor = 2
        while factor * factor <= rest:
            if rest % factor:
                factor += 1
            else:
                rest //= factor
                largest = max(largest, factor)
        largest = max(largest, rest)
    return largest


def _fits(backend: Backend, operator: Operator) -> bool:
    """Whether u, the source and the work of the transforms have room."""
    memory = backend.memory()
    needed = ARRAYS["fft"] * math.prod(operator.shape) * backend.dtype.itemsize
    return memory is None or needed <= ROOM * memory[0]


@dataclass(frozen=True)
class _Pace:
    """The times that the methods should take on a grid, from a pass over memory and the latency of a call."""

    cycle: float
    transforms: float

    @staticmethod
    def of(backend: Backend, operator: Operator, bandwidth: float) -> _Pace:
        array = 2.0 * math.prod(operator.shape) * backend.dtype.itemsize / bandwidth
        levels = max(1.0, math.log2(max(operator.shape)) - 1.0)
        slower = AWKWARD if _largest_factor(operator) > LARGEST_FACTOR else 1.0
        pace = backend.pace
        # A pass has u, f and a result, and the coefficients along each axis where they vary.
        more = 1.0 + (len(operator.edges) / 3.0 if operator.edges else 0.0)
        return _Pace(
            more * pace.cycle * array + levels * CALLS_OF_LEVEL * pace.call,
            slower * pace.transforms * array + 4 * len(operator.shape) * pace.call,
        )

    def cycles(self, settings: SolverSettings, precision: str) -> float:
        """The time of so many cycles as the tolerance asks for."""
        if settings.stop == "discretisation":
            return 2.0 * self.cycle
        return self._of(_cycles_for(settings.rtol) - (GAINED_BY_FULL if settings.full else 0.0), precision)

    def iterations(self, settings: SolverSettings, precision: str) -> float:
        """The time of conjugate gradients with a jumping a."""
        return self._of(HARDER * _cycles_for(settings.rtol), precision)

    def _of(self, count: float, precision: str) -> float:
        return max(1.0, count) * self.cycle * (OF_MIXED if precision == "mixed" else 1.0)


def _cycles_for(rtol: float) -> float:
    """Cycles that reduce the residual so far."""
    return math.log(min(max(rtol, 1e-15), 0.5)) / math.log(CONTRACTION)


def _bandwidth(backend: Backend, values: int) -> float:
    """Bytes a second that the backend's methods stream, on arrays of up to so many float64 values."""
    try:
        call, moved = backend.stream(max(LEAST_VALUES, min(values, backend.pace.probe)))
        call()
        times: list[float] = []
        while len(times) < 3 or (len(times) < MOST_PROBES and sum(times) < PROBE_SECONDS):
            times.append(backend.seconds(call))
        return min(moved / max(min(times), LEAST_SECONDS), backend.pace.highest)
    except (PoissonError, MemoryError):
        return SLOW


def _time(seconds: float) -> str:
    """A time with two digits: ``45 us``, ``3.2 ms``, ``1.5 s``, ``3.4 min``."""
    for unit, factor in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        value = seconds / factor
        if value < (99.5 if unit == "s" else 995.0):
            return f"{value:.0f} {unit}" if value >= 9.95 else f"{value:.1f} {unit}"
    return f"{seconds / 60.0:.1f} min"
