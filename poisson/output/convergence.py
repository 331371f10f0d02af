# SPDX-License-Identifier: MIT
"""How fast a residual falls, from its history."""

import math
from collections.abc import Iterable


def log_slope(history: Iterable[tuple[int, float]]) -> float | None:
    """Slope of ln(residual) against the sweep, by least squares.

    `history` (iterable of (int, float)): sweep and residual norm. Norms that are zero or not finite are left out.
    Returns: change of ln(residual) per sweep, negative where the residual falls; None with fewer than two different
    sweeps.
    """
    points = [(float(sweep), math.log(norm)) for sweep, norm in history if 0.0 < norm < math.inf]
    if not points:
        return None
    mean_sweep = math.fsum(sweep for sweep, _ in points) / len(points)
    mean_log = math.fsum(log for _, log in points) / len(points)
    spread = math.fsum((sweep - mean_sweep) ** 2 for sweep, _ in points)
    if spread == 0.0:
        return None
    return math.fsum((sweep - mean_sweep) * (log - mean_log) for sweep, log in points) / spread
