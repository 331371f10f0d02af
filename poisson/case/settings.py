"""A validated case: the problem, and how to solve it, run it and write it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poisson.problem.problem import Problem
from poisson.solvers.settings import RunSettings, SolverSettings

WITHOUT_VECTORS = "only its default without gradient or flux in {}, which it is the order of"


@dataclass(frozen=True)
class OutputSettings:
    """The table ``[output]``.

    Parameters
    ----------
    file : Path
        Relative to the current folder.
    fields : tuple of str
        What is written, with ``u`` among it.
    order : int
        Order of accuracy of the differences that ``gradient`` and ``flux`` are computed with.
    """

    file: Path
    fields: tuple[str, ...]
    order: int

    @property
    def vectors(self) -> tuple[str, ...]:
        """Those of the fields that are vectors."""
        return tuple(name for name in self.fields if name in ("gradient", "flux"))


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
    """

    problem: Problem
    solver: SolverSettings
    run: RunSettings
    output: OutputSettings
    text: str
