# SPDX-License-Identifier: MIT
"""The passes over memory in which the gpu backend smooths, and the choice of those that take the least time.

kernels/multigrid/passes.h says what a pass can do. Many steps in one move less memory, but pay with a halo for each
stage, with shared memory and with registers. In 2D passes of as many stages as there may be are the fastest for all
grids. In 3D it depends on the size: on small grids the number of passes counts, on large ones their times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType


@dataclass(frozen=True)
class Pass:
    """The steps of one pass over memory: kernels/multigrid/passes.h explains the steps, which come in this order.

    `zero`: whether it starts from zero, and not from an array. `correct`: whether a coarse correction is added first.
    `sweeps`: Jacobi sweeps. `residual`: whether the residual is computed.
    """

    zero: bool
    correct: bool
    sweeps: int
    residual: bool

    @property
    def stages(self) -> int:
        """The steps that need the neighbours of a node."""
        return self.sweeps - self.zero + self.residual

    @property
    def kind(self) -> str:
        """The kind of passes with the same shape, as `poisson.backends.gpu.shapes.SMOOTH_SHAPES` names it."""
        if self.stages == 0:
            return "correction" if self.writes else "restriction"
        if self.stages == 1:
            return "correct" if self.correct else "single" if self.residual else "zero"
        if not (self.zero or self.correct or self.residual):
            return "sweeps"
        return "two" if self.stages == 2 else "several"

    @property
    def writes(self) -> bool:
        """Whether the iterate changes."""
        return self.correct or self.sweeps > 0


def passes(zero: bool, correct: bool, sweeps: int, residual: bool, most: int) -> Iterator[Pass]:
    """The passes of at most so many stages that do all of it. A residual may be left for a last one, which writes less.

    `zero`, `correct`, `sweeps`, `residual`: as for `Pass`; there is something to do. `most`: stages of a pass.
    """
    while zero or correct or sweeps or residual:
        count = min(sweeps, most + zero)
        last = residual and count == sweeps and count - zero < most
        yield Pass(zero, correct, count, last)
        zero = correct = False
        sweeps -= count
        residual = residual and not last


FIRST, SWEEP = Pass(True, False, 1, False), Pass(False, False, 1, False)
FIRST_TWO = Pass(True, False, 2, False)
RESIDUAL = Pass(False, False, 0, True)

Times = Mapping[Pass, tuple[float, float]]
"""Microseconds in float32 and in float64."""

TIMES: Times = MappingProxyType(
    {
        Pass(True, False, 1, False): (305.0, 557.0),
        Pass(True, False, 1, True): (440.0, 768.0),
        Pass(True, False, 2, False): (350.0, 678.0),
        Pass(True, False, 2, True): (590.0, 1081.0),
        Pass(False, True, 0, False): (334.0, 620.0),
        Pass(False, True, 1, False): (450.0, 871.0),
        Pass(False, True, 1, True): (659.0, 1271.0),
        Pass(False, True, 2, False): (550.0, 1079.0),
        Pass(False, False, 1, False): (418.0, 814.0),
        Pass(False, False, 2, False): (505.0, 984.0),
        Pass(False, False, 0, True): (398.0, 677.0),
        Pass(False, False, 1, True): (632.0, 1363.0),
    }
)
"""Times of the passes in 3D that may be taken, on `TIMED` nodes of an H200, with full coarsening and faces along x that
are fixed; a residual comes with its norm."""

VARYING_TIMES: Times = MappingProxyType(
    {
        Pass(True, False, 1, False): (646.0, 1297.0),
        Pass(False, True, 0, False): (326.0, 617.0),
        Pass(False, True, 1, False): (1326.0, 1930.0),
        Pass(False, False, 1, False): (784.0, 1632.0),
        Pass(False, False, 0, True): (1115.0, 1890.0),
    }
)
"""The same where the coefficients of links vary."""

TIMED = 513**3
LATENCIES: Mapping[Pass, float] = MappingProxyType(
    {
        Pass(True, False, 1, False): 1.4,
        Pass(True, False, 1, True): 5.6,
        Pass(True, False, 2, False): 4.1,
        Pass(True, False, 2, True): 7.4,
        Pass(False, True, 0, False): 2.2,
        Pass(False, True, 1, False): 5.0,
        Pass(False, True, 1, True): 8.0,
        Pass(False, True, 2, False): 8.0,
        Pass(False, False, 1, False): 1.6,
        Pass(False, False, 2, False): 5.6,
        Pass(False, False, 0, True): 5.1,
        Pass(False, False, 1, True): 8.3,
    }
)
"""Microseconds of a pass on an H200 however small the grid is: a march of several stages waits for each plane."""


@lru_cache(maxsize=256)
def fastest_passes(
    zero: bool, correct: bool, sweeps: int, residual: bool, varies: bool, single: bool, nodes: int
) -> tuple[Pass, ...]:
    """The passes in 3D that do all of it in the least time, by what was measured.

    `zero`, `correct`, `sweeps`, `residual`: as for `Pass`; what starts from zero has a sweep and no correction.
    `varies`: whether the coefficients of links vary. `single`: whether the type is float32. `nodes`: those of the grid.
    """
    times = VARYING_TIMES if varies else TIMES

    def seconds(found: tuple[Pass, ...]) -> float:
        return sum(LATENCIES[step] + times[step][not single] * nodes / TIMED for step in found)

    # What is the fastest after another pass, by the sweeps that are left then.
    rest: list[tuple[Pass, ...]] = []

    def fastest(zero: bool, correct: bool, left: int) -> tuple[Pass, ...]:
        choices = (
            (step,) if step.residual else (step, *rest[left - step.sweeps])
            for step in times
            if (step.zero, step.correct) == (zero, correct)
            and step.sweeps <= left
            and (not step.residual or (residual and step.sweeps == left))
        )
        return min(choices, key=seconds)

    while len(rest) <= sweeps:
        left = len(rest)
        rest.append(fastest(False, False, left) if left or residual else ())
    return fastest(zero, correct, sweeps)
