# SPDX-License-Identifier: MIT
"""A validated case: the problem, and how to solve it, run it and write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from poisson.problem.problem import Problem
    from poisson.solvers.settings import RunSettings, SolverSettings

FieldName = Literal["u", "f", "a", "c", "residual", "error", "gradient", "flux", "E"]

FIELDS: tuple[str, ...] = get_args(FieldName)
"""The fields that a result can hold."""

VECTORS = ("gradient", "flux", "E")
"""The fields that are vectors."""

WITHOUT_VECTORS = "only its default without gradient, flux or E in {}, whose order of accuracy it is"

LENGTH, VALUE = "L", "U"
"""The symbols for the unit of length and that of u where the case does not name them."""


@dataclass(frozen=True)
class Units:
    """The table ``[output] units``: names, by which nothing is converted.

    `length`: of the coordinates. `value`: of u.
    """

    length: str = LENGTH
    value: str = VALUE

    def power(self, value: int, length: int) -> str:
        """The unit U^value L^length, as UDUNITS and pint read it, such as ``V/m^2``.

        `value`: 0 or 1. `length`: 0 or negative; 1 where `value` is 0.
        """
        above = self.value if value else "1"
        if length >= 0:
            return above if value or not length else self.length
        below = self.length if _is_simple(self.length) else f"({self.length})"
        return f"{above}/{below}" + (f"^{-length}" if length < -1 else "")

    def named(self, value: int, length: int) -> bool:
        """Whether all that stands in `power` has a name that somebody has given."""
        return (not value or self.value != VALUE) and (not length or self.length != LENGTH)


def _is_simple(name: str) -> bool:
    """Whether a unit stays whole below a stroke or with a power."""
    return not any(character in " */^·⋅-0123456789" for character in name)


@dataclass(frozen=True)
class Interval:
    """How often something is done: after so many iterations, or so many seconds.

    `iterations`: 0 where the time counts. `seconds`: 0 where the iterations count.
    """

    iterations: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, given: int | str) -> Interval:
        """The interval as a case file gives it: a number of iterations, or a time such as ``10 min``.

        Raises ValueError if it is neither.
        """
        if isinstance(given, int):
            return cls(iterations=given)
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|min|h)", given, re.ASCII)
        if found is None or float(found[1]) == 0.0:
            raise ValueError(f"{given!r} is no time such as '10 min'")
        return cls(seconds=float(found[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[found[2]])


@dataclass(frozen=True)
class OutputSettings:
    """The table ``[output]``.

    `file`: relative to the current folder. `fields`: what is written, with ``u`` among it. `order`: order of accuracy
    of the differences that ``gradient``, ``flux`` and ``E`` are computed with. `units`: names of the units, for files
    and pictures. `checkpoint_every`: how often the iterate is kept beside the result while the solve goes on.
    """

    file: Path
    fields: tuple[str, ...]
    order: int
    units: Units = Units()
    checkpoint_every: Interval | None = None

    @property
    def vectors(self) -> tuple[str, ...]:
        """The fields that are vectors."""
        return tuple(name for name in self.fields if name in VECTORS)


@dataclass(frozen=True)
class Case:
    """A case file, validated.

    Parameters
    ----------
    problem : Problem
        The equation, the grid, the faces.
    solver, run, output : SolverSettings, RunSettings, OutputSettings
        The settings, with every default filled in.
    text : str
        The case as TOML with every default filled in and every override applied. Read again with the same folder for
        its field files, it gives an equal case.

    Examples
    --------
    >>> case = poisson.load_case("cases/unit_square.toml")
    >>> case.problem.lattice.shape, case.solver.method, case.output.fields
    ((129, 129), 'auto', ('u', 'f', 'residual', 'error'))
    """

    problem: Problem
    solver: SolverSettings
    run: RunSettings
    output: OutputSettings
    text: str
