# SPDX-License-Identifier: MIT
"""A result in a few lines, for a prompt and for a notebook."""

import math
from collections.abc import Iterator
from html import escape

import numpy as np

from poisson.output.record import Record, unit_of
from poisson.words import quantity

WIDEST = 100
"""Characters of a line, where a text that somebody has given may be longer."""


def lines(solution: Record) -> Iterator[tuple[str, str]]:
    """The name and the text of what a person wants to know, at most nine of them.

    `solution`: the result, or the part of it that this process has.
    """
    grid, come = solution.problem.lattice, solution.provenance
    nodes = " x ".join(map(str, grid.shape))
    sides = (
        f"[{low:g}, {high:g}{')' if wraps else ']'}"
        for low, high, wraps in zip(grid.lower, grid.upper, grid.periodic, strict=True)
    )
    yield "equation", solution.problem.equation
    yield "grid", f"{nodes} nodes on {' x '.join(sides)}" + (", a part of them here" if solution.share else "")
    if come.get("method"):
        yield "method", f"{come['method']} on {come.get('backend', '')}, {come.get('precision', '')}"
    yield "status", f"{solution.status.value} after {quantity(solution.iterations, 'iteration')}"
    of_f, of_u = (f" {unit}" if (unit := unit_of(name, solution.units)) else "" for name in ("residual", "u"))
    yield "residual", f"{solution.residual:.3g}{of_f} ({solution.norm}), target {solution.target:.3g}{of_f}"
    if error := solution.error:
        yield "error", f"{error.rms:.3g}{of_u} (rms), {error.max:.3g}{of_u} (max), against the exact solution"
    elif solution.error_bar is not None:
        yield "error", f"at most {solution.error_bar:.3g}{of_u}, as estimated from coarser grids"
    yield "u", f"{_span(solution, of_u)}, {solution.u.dtype}"
    if solution.fields:
        yield "fields", ", ".join(solution.fields)
    if solution.times:
        together, loop = math.fsum(solution.times.values()), solution.times.get("solve", 0.0)
        yield "time", f"{together:.3g} s, {loop:.3g} s of them in the loop"


def text(solution: Record) -> str:
    """At most ten lines, the first with the title."""
    rows = list(lines(solution))
    width = max(len(name) for name, _ in rows)
    title = solution.problem.title
    return "\n".join(
        [
            _cut(f"Solution: {title}" if title else "Solution"),
            *(_cut(f"  {name:<{width}}  {row}") for name, row in rows),
        ]
    )


def html(solution: Record) -> str:
    """The same as a table in HTML, beside a picture of u where matplotlib is installed."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(row)}</td></tr>'
        for name, row in lines(solution)
    )
    table = f"<table><caption>{escape(solution.problem.title or 'Solution')}</caption>{rows}</table>"
    try:
        from poisson.output.pictures.figures import thumbnail
    except ModuleNotFoundError:
        return table
    return f'<div style="display:flex;flex-wrap:wrap;align-items:center;gap:1em">{table}{thumbnail(solution)}</div>'


def _span(solution: Record, unit: str) -> str:
    u = solution.u
    if not hasattr(u, "min"):
        return "stored in the file"
    with np.errstate(all="ignore"):
        lowest, highest = float(u.min()), float(u.max())
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        return "not finite everywhere"
    return f"{lowest:.6g} to {highest:.6g}{unit}"


def _cut(line: str) -> str:
    """A line without line breaks, not too long."""
    printable = "".join(character if character.isprintable() else " " for character in line)
    return printable if len(printable) <= WIDEST else f"{printable[: WIDEST - 1]}…"
