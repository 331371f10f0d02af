# SPDX-License-Identifier: MIT
"""The summary of a solve: some lines for people, and one record for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from poisson.cli.terminal import rate_for_people, table
from poisson.output.files import size
from poisson.output.record import AGAIN, Performance, Record
from poisson.words import quantity

_MOST_ROWS = 12
_MOST_GRIDS = 6


@dataclass(frozen=True)
class Ended:
    """A solve that has ended, with its result written."""

    solution: Record  # The result.
    ends: tuple[float, float]  # The least and the largest u, in U (`poisson.output.record.extent`).
    files: tuple[Path, Path]  # The result, and the file beside it for ParaView.
    # Bytes that one sweep must move, for the effective bandwidth of a method of sweeps.
    sweep_bytes: float | None = None
    written: float | None = None  # The seconds that the files took.
    profile: bool = False  # Whether the speed, and where they were timed the operations, are wanted.
    warnings: Sequence[Mapping[str, str]] = ()  # What was said of the case before the solve.

    def lines(self) -> str:
        """For people: how it ended and why, by what, how exact it is, how long it took, where it is."""
        solution, (file, beside) = self.solution, self.files
        norms = f"{solution.residual:.3e} ({solution.norm}), target {solution.target:.3e}"
        lines = [
            f"{solution.status.value}: {solution.advice}",
            *self._method(),
            f"residual    {norms}, after {quantity(solution.iterations, 'iteration')}",
        ]
        if solution.error is not None:
            lines.append(f"error       {solution.error.rms:.3e} (rms), {solution.error.max:.3e} (max)")
        if solution.error_bar is not None:
            lines.append(f"error bar   {solution.error_bar:.3e} (max), estimated from coarser grids")
        lines.append(f"u           {self.ends[0]:.6g} to {self.ends[1]:.6g}")
        for name, found in solution.bodies.items():
            lines.append(f"{name:<11} {', '.join(f'{what} {value:.6g}' for what, value in found.items())}")
        if times := self._times():
            parts = ", ".join(f"{part} {value:.3g} s" for part, value in times.items())
            lines.append(f"time        {sum(times.values()):.3g} s: {parts}")
        if self.profile:
            lines += self._speed()
        return "\n".join([*lines, f"output      {file} (ParaView: {beside})"])

    def record(self, exit_code: int) -> dict[str, Any]:
        """For programs, as docs/running.md describes it."""
        solution = self.solution
        provenance, error = solution.provenance, solution.error
        found: dict[str, Any] = {
            "command": "solve",
            "title": solution.problem.title,
            "shape": solution.problem.lattice.shape,
            "status": solution.status.value,
            "converged": solution.status.success,
            "advice": solution.advice,
            "exit_code": exit_code,
            **{key: provenance.get(key) for key in ("method", "reason", "backend", "device", "precision", "ranks")},
            "iterations": solution.iterations,
            "norm": solution.norm,
            "residual": solution.residual,
            "target": solution.target,
            "error_rms": error.rms if error else None,
            "error_max": error.max if error else None,
            "error_bar": solution.error_bar,
            "u_min": self.ends[0],
            "u_max": self.ends[1],
            **({"bodies": solution.bodies} if solution.bodies else {}),
            "seconds": self._times(),
            "file": self.files[0],
            "xdmf": self.files[1],
            "warnings": list(self.warnings),
        }
        if solution.performance is not None:
            found["operations"] = [asdict(use) for use in solution.performance.operations]
            found["memory_bandwidth"] = solution.performance.bandwidth
        return found

    def _times(self) -> dict[str, float]:
        return dict(self.solution.times) | ({} if self.written is None else {"file": self.written})

    def _method(self) -> list[str]:
        provenance = self.solution.provenance
        if not provenance.get("method"):
            return []
        reason = str(provenance.get("reason", ""))
        why = f", {reason}" if reason == "asked for" else f", as {reason}" if reason else ""
        return [f"method      {provenance['method']}{why}"]

    def _speed(self) -> list[str]:
        solution, lines = self.solution, []
        if "tuning" in solution.provenance:
            lines.append(f"kernels     {solution.provenance['tuning']}")
        first, nodes = solution.times.get("solve", 0.0), solution.problem.lattice.nodes
        seconds = solution.times.get(AGAIN, first)
        if seconds > 0.0 and solution.iterations > 0:
            rate = solution.iterations / seconds
            speed = (
                f"{nodes / seconds:.3g} unknowns/s"
                if self.sweep_bytes is None
                else f"{nodes * rate:.3g} node updates/s, {rate_for_people(rate * self.sweep_bytes / 1e9)} GB/s"
            )
            second = f"in a second solve: its loop took {seconds:.3g} s, the first one with its warm-up {first:.3g} s"
            of = second if AGAIN in solution.times else "in the first solve, warm-up included"
            lines.append(f"speed       {speed} {of}")
        if solution.performance is not None:
            lines += ["", *operations(solution.performance, seconds), ""]
        return lines


def operations(performance: Performance, loop_seconds: float) -> list[str]:
    """The speed that the operations of a solve reached, a line each.

    `performance`: as measured after the loop. `loop_seconds`: wall time of the loop, in a second solve if there was
    one. Returns: a table: calls, the time of all of them, the bandwidth, and its part of the memory bandwidth; of many
    operations those that took longest. Below it, their time together, that of each grid, and that bandwidth.
    """
    together = sum(use.seconds for use in performance.operations)
    several = len({use.grid for use in performance.operations if use.grid}) > 1
    rows = [
        (
            f"{use.operation}, {use.grid}" if several else use.operation,
            use.calls,
            f"{use.seconds:.3g}",
            rate_for_people(use.bandwidth / 1e9),
            f"{100.0 * use.bandwidth / performance.bandwidth:.0f}",
        )
        for use in performance.operations[:_MOST_ROWS]
    ]
    rest = performance.operations[_MOST_ROWS:]
    if rest:
        calls, seconds = sum(use.calls for use in rest), sum(use.seconds for use in rest)
        rows.append((f"{len(rest)} more", calls, f"{seconds:.3g}", "", ""))
    by_grid: dict[str, float] = {}
    for use in performance.operations:
        by_grid[use.grid] = by_grid.get(use.grid, 0.0) + use.seconds
    shares = [f"{grid} {100.0 * seconds / together:.0f}%" for grid, seconds in by_grid.items()]
    levels = [f"by grid: {', '.join(shares[:_MOST_GRIDS])}"] if several else []
    passing = any(use.bandwidth > performance.bandwidth for use in performance.operations)
    return [
        *table(("operation", "calls", "time s", "GB/s", "% of copy"), rows).splitlines(),
        *levels,
        f"total {together:.3g} s, from calls timed after the loop; the loop took {loop_seconds:.3g} s",
        f"copy of arrays of {size(performance.array_bytes)}: {rate_for_people(performance.bandwidth / 1e9)} GB/s",
        *(["above 100%: more is read than written, or arrays stay in a cache"] if passing else []),
    ]
