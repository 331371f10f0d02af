# SPDX-License-Identifier: MIT
"""The record of a solve, as data: the solution, how the solve ended, and where it came from."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from poisson.backends.processors import processors
from poisson.case.settings import FIELDS, Units
from poisson.errors import PoissonError
from poisson.mesh.grid import AXES, over_slabs
from poisson.solvers.status import Status

if TYPE_CHECKING:
    from poisson.parallel.communicator import Communicator
    from poisson.problem.problem import Problem

AGAIN = "solve_again"
"""In `Record.times`: the solver loop in another solve, whose kernels are compiled and whose memory is touched."""

THEN = ", then "
"""Between the method that was chosen and the one that went on."""

FIELD_NOTES = {
    "u": "solution u",
    "f": "source f",
    "a": "coefficient a",
    "c": "coefficient c, without the terms of robin faces",
    "residual": "residual f - A u, zero where u is given",
    "error": "u - exact",
    "gradient": "gradient of u",
    "flux": "flux -a grad u",
    "E": "field strength -grad u",
}
"""Descriptions of the fields."""

FIELD_POWERS = {
    "u": (1, 0),
    "f": (1, -2),
    "a": (0, 0),
    "c": (0, -2),
    "residual": (1, -2),
    "error": (1, 0),
    "gradient": (1, -1),
    "flux": (1, -1),
    "E": (1, -1),
}
"""Their units, as powers of the unit of u and of that of length."""


def machine() -> dict[str, str]:
    """The host, its system and Python; `platform.platform` starts a program for the same."""
    known, library = platform.uname(), "".join(platform.libc_ver())
    parts = known.system, known.release, known.machine, *(("with", library) if library else ())
    return {"host": known.node, "platform": "-".join(parts), "python": platform.python_version()}


def field_note(name: str, units: Units) -> tuple[str, str]:
    """The description of a field and its unit; of an unknown field, its name and 1."""
    return FIELD_NOTES.get(name, name), units.power(*FIELD_POWERS.get(name, (0, 0)))


def unit_of(name: str, units: Units) -> str:
    """The unit of a field, such as ``V/m^2``; empty if it is none, or if nobody has named it."""
    powers = FIELD_POWERS.get(name, (0, 0))
    return units.power(*powers) if any(powers) and units.named(*powers) else ""


SIGNAL = "signal"
"""The entry of the provenance with the name of the signal that ended a solve."""

CHARGE, POTENTIAL, FLUX = "charge of ", "potential of ", "flux of "
"""The beginnings of the entries of the provenance with the charge, the potential and the flux of a named body."""

FORCES = tuple(f"force_{axis} of " for axis in AXES)
"""The beginnings of the entries with the components of the force on a named body."""


class FieldMissing(PoissonError, KeyError):
    """A solution does not have a field that was not asked for."""

    def __str__(self) -> str:
        return str(self.args[0])


class Fields(dict[str, NDArray[Any]]):
    """The fields of a solution by name; one that is missing says how to have it."""

    def __missing__(self, name: str) -> NDArray[Any]:
        there = ", ".join(("u", *self))
        if name == "u":
            raise FieldMissing("fields['u']: u is the attribute u of the solution")
        if name not in FIELDS:
            raise FieldMissing(f"fields[{name!r}]: no such field; there are {', '.join(FIELDS)}")
        raise FieldMissing(
            f"fields[{name!r}]: not computed (the solution has {there}); ask for it with fields=({name!r},) in "
            "poisson.solve or poisson.Solver, or in output.fields of a case"
        )


@dataclass(frozen=True)
class ErrorNorms:
    """The difference between u and the exact solution, in U: its trapezoidal rms and its maximum."""

    rms: float
    max: float


@dataclass(frozen=True)
class OperationUse:
    """All calls of one operation in the solver loop, on one grid.

    `operation`: its name, and whether it leaves a norm. `calls`: how often it ran. `seconds`: that number times the
    time of one call, measured after the loop on the same arrays. `bytes`, `flops`: what all the calls together had to
    move and to compute. `grid`: the nodes of the grid, such as ``65x33``; of the finer one between two grids.
    """

    operation: str
    calls: int
    seconds: float
    bytes: float
    flops: float
    grid: str = ""

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds


@dataclass(frozen=True)
class Performance:
    """The operations of the solver loop, and what the device can do at best.

    `operations`: the one that took longest first. `bandwidth`: that of a copy in bytes a second, measured after the
    loop. `array_bytes`: the size of the arrays that were copied: larger than a cache, as far as memory and time allow.
    """

    operations: tuple[OperationUse, ...]
    bandwidth: float
    array_bytes: int


class HeldPart(Protocol):
    """The part of a solution that one rank holds."""

    @property
    def communicator(self) -> Communicator:
        """The communicator of the ranks that hold the parts."""

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The first node of the part and the one after its last, along each axis of an array, slowest first."""


@dataclass(frozen=True, eq=False)
class Record:
    """The result of a solve. Arrays have the grid's ``array_shape``, or that of the part of it which this rank holds.

    Parameters
    ----------
    problem : Problem
        What was solved.
    u : float array
        The solution in U, in the type of the run. A NumPy array; where the data came as arrays on a device, an array
        there.
    status : Status
        How the solve ended.
    iterations : int
        Iterations (sweeps, cycles) done to reach u.
    norm : str
        The norm that the residuals are measured in: ``rms`` or ``max``.
    residual : float
        Norm of f − A u in U/L², recomputed in float64 from `u`.
    target : float
        The residual norm at which the solve counts as converged, in U/L².
    history : sequence of (int, float)
        Iterate, as the number of iterations that made it, and its residual norm in U/L², for each norm read.
    fields : mapping of str to float array
        The further fields asked for in ``[output] fields``, by name. A vector has one axis more, the last, for its
        components x, y(, z), and the precision of the run; the others are float64.
    error : ErrorNorms, optional
        The error against the exact solution, where one is known.
    times : mapping of str to float
        Seconds spent in each part of the run; ``solve`` is the solver loop alone.
    provenance : mapping
        Strings and numbers that say how the result came about (backend, device, precision, versions, …).
    case_text : str
        The resolved case as TOML.
    performance : Performance, optional
        What the operations of the loop reached, where it was measured.
    error_bar : float, optional
        With ``stop = "discretisation"``, an estimate of the largest error of u against the solution of the
        differential equation, in U, that is meant to lie above it.
    share : HeldPart, optional
        Which part of the arrays this is, where several ranks hold one each.
    units : Units
        The names of the units L and U, for files and pictures.
    """

    problem: Problem
    u: NDArray[Any]
    status: Status
    iterations: int
    norm: str
    residual: float
    target: float
    history: tuple[tuple[int, float], ...]
    fields: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    error: ErrorNorms | None = None
    times: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, str | int | float] = field(default_factory=dict)
    case_text: str = ""
    performance: Performance | None = None
    error_bar: float | None = None
    share: HeldPart | None = None
    units: Units = field(default_factory=Units)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", Fields(self.fields))

    @property
    def bodies(self) -> dict[str, dict[str, float]]:
        """The charge of each body with given values, the potential of each that floats, forces, and fluxes, by name.

        A charge is ∮ −a ∂u/∂n over the surface, with the normal out of the body, in U·L^(d−2); the flux of a Neumann or
        Robin body, whose surface is one of the domain as a face is, has the normal into it. Charges, fluxes and
        ∫(f − c u) outside of the bodies balance as the fluxes alone do in a box without bodies. ``force_x`` and so on
        are the force on a conductor or a dielectric, in the unit of a times U²·L^(d−3), with x where phi = 0; a body
        has none where f or c is not zero beside it, a varies, or another body is within two links.

        Examples
        --------
        >>> disc = {"shape": "sphere", "center": (0.5, 0.5), "radius": 0.2}
        >>> problem = poisson.Problem.on_box((65, 65), bodies=[poisson.Body(disc, dirichlet=1.0, name="wire")])
        >>> solution = poisson.solve(problem)
        >>> charge = solution.bodies["wire"]["charge"]
        >>> round(charge, 2), round(sum(solution.fluxes().values()) / charge, 6)
        (6.33, 1.0)
        """
        found: dict[str, dict[str, float]] = {}
        for key, value in self.provenance.items():
            for prefix in (CHARGE, POTENTIAL, FLUX, *FORCES):
                if key.startswith(prefix):
                    found.setdefault(key.removeprefix(prefix), {})[prefix.partition(" ")[0]] = float(value)
        return found

    @property
    def advice(self) -> str:
        """The meaning of the status and the remedy, in one line.

        Examples
        --------
        >>> poisson.solve(poisson.Problem.on_box((33, 33), f=1.0)).advice
        'the residual, recomputed in float64, is below the tolerance'
        """
        if self.status is Status.CONVERGED and self.error_bar is not None:
            return "the estimated algebraic error is below the discretisation error"
        if self.status is Status.AT_ROUNDING:
            level = f"the residual {self.residual:.1e} is as small as rounding of u in {self.u.dtype} allows"
            smaller = "; run.precision = 'float64' reaches a smaller residual" if self.u.dtype == np.float32 else ""
            return f"{level}, and the target {self.target:.1e} is below that{smaller}"
        if self.status is Status.DIVERGED and (what := self._not_finite):
            limit = f"the range of {self.u.dtype}, which ends at {np.finfo(self.u.dtype).max:.2g}"
            single = "run.precision = 'float64', or " if self.u.dtype == np.float32 else ""
            return f"{what} left {limit}; use {single}other units, in which f, a, c and the boundary data are nearer 1"
        if self.status is Status.INTERRUPTED and (name := self.provenance.get(SIGNAL)):
            by = "Ctrl-C" if name == "SIGINT" else f"the signal {name}"
            return f"stopped by {by}; u is the last complete iterate"
        return self.status.advice

    @property
    def _not_finite(self) -> str:
        """The parts of a diverged solution that are not finite, for people; empty where all are finite."""
        norms = (self.residual, self.error_bar or 0.0, *(norm for _, norm in self.history[-1:]))
        if not all(map(math.isfinite, norms)) or not all_finite(self.host_u):
            return "u, or a value from which u is computed,"
        return " and ".join(name for name, values in self.fields.items() if not all_finite(np.asarray(values)))

    @property
    def host_u(self) -> NDArray[Any]:
        """u as a NumPy array: itself, or a copy of what is on a device or in a file.

        Examples
        --------
        >>> type(poisson.solve(poisson.Problem.on_box((33, 33), f=1.0)).host_u)
        <class 'numpy.ndarray'>
        """
        return self.u if isinstance(self.u, np.ndarray) else np.asarray(self.u.get())


def all_finite(values: NDArray[Any]) -> bool:
    """Whether no value is infinite or NaN; without an array of the size of the values."""
    return math.isfinite(values.min()) and math.isfinite(values.max())


class Span(NamedTuple):
    """The least and the largest finite value, inf and -inf where there is none, and how many values are not finite."""

    least: float
    largest: float
    not_finite: int

    @classmethod
    def of(cls, values: NDArray[Any]) -> Self:
        if not values.size:
            return cls(math.inf, -math.inf, 0)
        low, high = float(values.min()), float(values.max())
        if math.isfinite(low) and math.isfinite(high):
            return cls(low, high, 0)
        finite = values[np.isfinite(values)]
        return cls.of(finite)._replace(not_finite=values.size - finite.size)

    @classmethod
    def joined(cls, spans: Iterable[Span]) -> Self:
        """The span of all values, from those of some each."""
        lows, highs, counts = zip(*spans, strict=True)
        return cls(min(lows), max(highs), sum(counts))


def extent(record: Record) -> tuple[float, float]:
    """The least and the largest u, in U; NaN where a value is. Every rank that holds a part calls this."""
    u = record.u
    if isinstance(u, np.ndarray):
        ends = over_slabs(u.shape, lambda start, stop: (u[start:stop].min(), u[start:stop].max()), processors())
        low, high = zip(*ends, strict=True)
        least, largest = float(np.min(low)), float(np.max(high))
    else:
        least, largest = float(u.min()), float(u.max())
    if record.share is None:
        return least, largest
    rows = record.share.communicator.allgather([least, largest])
    lows, highs = zip(*rows, strict=True)
    return float(np.min(lows)), float(np.max(highs))
