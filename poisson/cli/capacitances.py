# SPDX-License-Identifier: MIT
"""The command `capacitance`: the capacitance matrix of the conductors of a case."""

from collections.abc import Sequence
from dataclasses import dataclass

from poisson.cli.terms import EXIT_OFF, EXIT_OK, as_json, complain, overrides, rank_count, say
from poisson.parallel.communicator import Communicator


@dataclass(frozen=True)
class Capacitances:
    case: str
    overrides: tuple[str, ...]
    json: bool
    quiet: bool
    ranks: int | None = None

    def execute(self, communicator: Communicator) -> int:
        from poisson.case import load
        from poisson.discrete.share import agreed
        from poisson.run.conductors import capacitance_of

        with agreed(communicator):
            case = load(self.case, self.overrides)
        found = capacitance_of(case, communicator)
        code = EXIT_OK if found.converged else EXIT_OFF
        if communicator.rank > 0:
            return code
        for name, solution in zip(found.names, found.solutions, strict=False):
            if not solution.status.success:
                complain(f"warning: {name}: {solution.status.value}: {solution.advice}")
        if self.json:
            matrix = found.matrix.tolist()
            record = {"command": "capacitance", "names": found.names, "matrix": matrix, "converged": found.converged}
            say(as_json(record | {"exit_code": code}))
        elif not self.quiet:
            width = max(map(len, found.names))
            rows = zip(found.names, found.matrix, strict=True)
            say("\n".join(f"{name:<{width}}  {'  '.join(f'{value:13.6g}' for value in row)}" for name, row in rows))
        return code


def capacitance(
    case: str,
    *,
    set: Sequence[str] = (),
    backend: str | None = None,
    ranks: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> Capacitances:
    """Compute the capacitance matrix of the conductors of a case.

    Usage: python -m poisson capacitance CASE [--set KEY=VALUE ...] [--backend NAME] [--ranks N] [--json] [--quiet]

      CASE             the case file (TOML): bodies with dirichlet or floating = true; f and their potentials play no
                       part, and all Dirichlet faces together are one more conductor
      --set KEY=VALUE  override a key of the case file; may be given several times
      --backend NAME   {backends}; the same as --set run.backend=NAME
      --ranks N        solve in N processes, started on this machine; leave it out under mpirun or srun
      --json           print one JSON object instead of the matrix
      --quiet          (or -q) show nothing but warnings and errors

    The unit is ε₀ L, in 2D ε₀ per length, with a the permittivity relative to ε₀.

    Examples:
      python -m poisson capacitance cases/electrodes.toml
      python -m poisson capacitance line.toml --set domain.shape=[257,257] --json

    Exit codes: 0 converged, 1 not converged (the matrix is still printed), 2 bad input, 130 interrupted."""
    return Capacitances(case, overrides(set, backend=backend), json, quiet, rank_count(ranks))
