# SPDX-License-Identifier: MIT
"""The command `effective`: the effective conductivity tensor of a case's a."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poisson.cli.terms import EXIT_OFF, EXIT_OK, as_json, complain, naming, overrides, say
from poisson.errors import FileChoice
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.run.effective import Effective


@dataclass(frozen=True)
class Averaging:
    case: str
    overrides: tuple[str, ...]
    potentials: bool
    overwrite: bool
    json: bool
    quiet: bool

    def execute(self) -> int:
        from poisson.case import load
        from poisson.cli.terminal import Progress
        from poisson.output.files import check_target
        from poisson.output.hdf5 import check_replaceable
        from poisson.run.effective import effective_of

        case = load(self.case, self.overrides)
        file = case.output.file
        with naming({FileChoice.PLACE: " with --output", FileChoice.OVERWRITE: " with --overwrite"}):
            check_target(file)
            check_replaceable(file, overwrite=self.overwrite)
            with Progress(quiet=self.quiet) as progress:
                found = effective_of(case, progress)
            found.save(file, potentials=self.potentials, overwrite=self.overwrite)
        for name, parts in found.solutions.items():
            for solution in parts:
                if not solution.status.success:
                    complain(f"warning: {name}: {solution.status.value}: {solution.advice}")
        code = EXIT_OK if found.converged else EXIT_OFF
        if self.json:
            say(as_json(_record(found, code) | {"file": file}))
        elif not self.quiet:
            say("\n".join([*_lines(found), f"output      {file}"]))
        return code


def _record(found: Effective, code: int) -> dict[str, Any]:
    """For programs, as docs/how-to-voxels.md describes it."""
    return {
        "command": "effective",
        "tensor": found.tensor.tolist(),
        "bounds": found.bounds,
        "fractions": found.fractions,
        "islands": found.islands,
        "converged": found.converged,
        "exit_code": code,
        "iterations": found.iterations,
        "seconds": found.seconds,
    }


def _lines(found: Effective) -> list[str]:
    """For people."""
    rows = ["  ".join(f"{value:13.6g}" for value in row) for row in found.tensor]
    bounds = found.bounds
    lines = [f"{'tensor' if not number else '':<10}{row}" for number, row in enumerate(rows)]
    lines.append(f"bounds      {bounds['reuss']:.6g} (Reuss) to {bounds['voigt']:.6g} (Voigt)")
    lines.append(f"isotropic   {bounds['lower']:.6g} to {bounds['upper']:.6g} (Hashin and Shtrikman)")
    if found.fractions:
        lines.append("fractions   " + ", ".join(f"{part:.4g} of {a:g}" for a, part in found.fractions.items()))
    if found.islands:
        lines.append(f"islands     {quantity(found.islands, 'conducting voxel')} without a connection through the cell")
    lines.append("iterations  " + ", ".join(f"{name} {count}" for name, count in found.iterations.items()))
    return [*lines, f"time        {found.seconds:.3g} s"]


def effective(
    case: str,
    *,
    set: Sequence[str] = (),
    backend: str | None = None,
    output: str | None = None,
    potentials: bool = False,
    overwrite: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> Averaging:
    """Compute the effective conductivity of a voxel image.

    Usage: python -m poisson effective CASE [--set KEY=VALUE ...] [--backend NAME] [--output FILE] [--potentials]
                                            [--overwrite] [--json] [--quiet]

      CASE             the case file (TOML): a in a box that is periodic along every axis; f plays no part
      --set KEY=VALUE  override a key of the case file; may be given several times
      --backend NAME   {backends}; the same as --set run.backend=NAME
      --output FILE    (or -o) the file for the tensor (HDF5); the same as --set output.file=FILE
      --potentials     write the potential along each axis, too
      --overwrite      replace FILE even if it is not a result
      --json           print one JSON object instead of the tensor
      --quiet          (or -q) show nothing but warnings and errors

    The unit of the tensor is that of a. docs/how-to-voxels.md says how an image becomes a.

    Examples:
      python -m poisson effective cases/voxels.toml
      python -m poisson effective rock.toml --set solver.rtol=1e-5 --backend gpu --potentials

    Exit codes: 0 converged, 1 not converged (the tensor is still written), 2 bad input, 130 interrupted."""
    words = overrides(set, output=output, backend=backend)
    return Averaging(case, words, potentials, overwrite, json, quiet)
