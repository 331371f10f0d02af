# SPDX-License-Identifier: MIT
"""The command `compare`: what two results differ in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poisson.cli.terms import EXIT_OFF, EXIT_OK, UsageError, as_json, say

if TYPE_CHECKING:
    from poisson.output.comparison import Comparison


@dataclass(frozen=True)
class Compare:
    first: str
    second: str
    fields: tuple[str, ...]
    rtol: float
    json: bool

    def execute(self) -> int:
        from poisson.output.comparison import compare_apart

        found = compare_apart(self.first, self.second, self.fields)
        beyond = found.beyond(self.rtol)
        say(as_json(self._record(found)) if self.json else self._text(found))
        return EXIT_OFF if beyond else EXIT_OK

    def _record(self, found: Comparison) -> dict[str, object]:
        """The comparison for programs."""
        return {
            "a": self.first,
            "b": self.second,
            "rtol": self.rtol,
            "agree": not found.beyond(self.rtol),
            "fields": {
                field.name: {
                    "max": field.max,
                    "rms": field.rms,
                    "largest": field.largest,
                    "relative": field.relative,
                    "not_finite": field.unknown,
                    "counts": field.counts,
                }
                for field in found.fields
            },
            "shapes": found.shapes,
            "interpolated": None if found.interpolated is None else "ab"[found.interpolated],
            "only_in_a": found.alone[0],
            "only_in_b": found.alone[1],
            "status": found.statuses,
            "case": found.keys,
            "provenance": found.provenance,
            "notes": found.notes,
        }

    def _text(self, found: Comparison) -> str:
        from poisson.cli.terminal import table

        lines = [f"A  {self.first}: {found.statuses[0]}", f"B  {self.second}: {found.statuses[1]}", ""]
        rows = [
            (
                field.name,
                *(f"{value:.3e}" for value in (field.max, field.rms, field.largest, field.relative)),
                "" if field.counts else "not counted",
            )
            for field in found.fields
        ]
        headings = ("field", "max diff", "rms diff", "relative to", "relative", "")
        width = len(headings) if any(row[-1] for row in rows) else len(headings) - 1
        lines += [table(headings[:width], [row[:width] for row in rows]), *found.notes]
        sizes = [" x ".join(map(str, shape)) for shape in found.shapes]
        if found.interpolated is not None:
            at, between = (("A", sizes[0]), ("B", sizes[1]))[:: 2 * found.interpolated - 1]
            lines.append(f"compared at the {at[1]} nodes of {at[0]}; {between[0]} ({between[1]}) is interpolated there")
        elif sizes[0] != sizes[1]:
            coarse, fine = (0, 1) if math.prod(found.shapes[0]) < math.prod(found.shapes[1]) else (1, 0)
            lines.append(f"compared at the {sizes[coarse]} common nodes; {'AB'[fine]} has {sizes[fine]} nodes")
        lines += [f"{field.name}: {field.unknown} values are not finite" for field in found.fields if field.unknown]
        for letter, names in zip("AB", found.alone, strict=True):
            if names:
                lines.append(f"only in {letter}: {', '.join(names)}")
        for title, differing in (("case", found.keys), ("provenance", found.provenance)):
            lines += ["", *_differing(title, differing)]
        beyond = found.beyond(self.rtol)
        if beyond:
            off = ", ".join(f"{field.name} by {field.relative:.3g}" for field in beyond)
            verdict = f"the results differ: {off} (relative), more than {self.rtol:g}"
        else:
            verdict = f"the results agree: no relative difference is larger than {self.rtol:g}"
        return "\n".join([*lines, "", verdict])


def _differing(title: str, found: Mapping[str, tuple[str | None, str | None]]) -> list[str]:
    """The differences, one line each."""
    from poisson.cli.terminal import table

    if not found:
        return [f"{title}: the same"]
    rows = [(name, *("" if value is None else value for value in values)) for name, values in found.items()]
    return [table((title, "A", "B"), rows)]


def compare(a: str, b: str, *, field: str | None = None, rtol: str | None = None, json: bool = False) -> Compare:
    """Compare two results: their fields, cases and provenance.

    Usage: python -m poisson compare A B [--field NAME,...] [--rtol R] [--json]

      A             a result (HDF5)
      B             another result on the same box; if the grids differ, the nodes of the coarser are compared, where
                    the finer is interpolated if it lacks them, as between nodes and cells, or between uniform and
                    stretched axes
      --field NAME  only these fields, separated by commas; by default all common fields
      --rtol R      the allowed difference: the largest difference over the largest absolute value in A, 1e-8 by
                    default; 0 requires equal values
      --json        print one JSON object and nothing else

    The field error is relative to the largest u, and the residual counts only if --field names it. Values that are not
    finite are a difference. Files of any size are read in parts.

    Examples:
      python -m poisson compare one.h5 other.h5
      python -m poisson compare coarse.h5 fine.h5 --field u --rtol 1e-3

    Exit codes: 0 the results agree, 1 they differ by more, 2 bad input, or a file that cannot be compared."""
    names = tuple(name.strip() for name in field.split(",")) if field is not None else ()
    if field is not None and not all(names):
        raise UsageError(f"--field {field}; allowed: names of fields, such as u or u,gradient")
    from poisson.output.comparison import RTOL

    return Compare(a, b, names, RTOL if rtol is None else _tolerance(rtol), json)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < math.inf:
        raise UsageError(f"--rtol {text}; allowed: a finite number >= 0")
    return value
