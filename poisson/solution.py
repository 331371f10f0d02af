"""What a run returns: the solution, how the solve ended, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.problem import Problem
from poisson.solvers.status import Status


@dataclass(frozen=True)
class ErrorNorms:
    """The difference between u and the exact solution, in U: its trapezoidal rms and its maximum."""

    rms: float
    max: float


@dataclass(frozen=True)
class Solution:
    """The result of a run. Arrays have the grid's ``array_shape``.

    Parameters
    ----------
    problem : Problem
        What was solved.
    u : float array
        The solution in U, in the precision of the run.
    status : Status
        How the solve ended.
    iterations : int
        Sweeps done to reach u.
    norm : str
        The norm that the residuals are measured in: ``rms`` or ``max``.
    residual : float
        Norm of f − A u in U/L², recomputed in float64 from `u`.
    target : float
        The residual norm at which the solve counts as converged, in U/L².
    history : sequence of (int, float)
        Iterate, as the number of sweeps that made it, and its residual norm in U/L², for each norm read.
    fields : mapping of str to float64 array
        The further fields asked for in ``[output] fields``, by name.
    error : ErrorNorms, optional
        The error against the exact solution, where one is known.
    times : mapping of str to float
        Seconds spent in each part of the run; ``solve`` is the solver loop alone.
    provenance : mapping
        Strings and numbers that say how the result came about (backend, device, precision, versions, …).
    case_text : str
        The resolved case as TOML.
    """

    problem: Problem
    u: NDArray[Any]
    status: Status
    iterations: int
    norm: str
    residual: float
    target: float
    history: tuple[tuple[int, float], ...]
    fields: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    error: ErrorNorms | None = None
    times: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, str | int | float] = field(default_factory=dict)
    case_text: str = ""
