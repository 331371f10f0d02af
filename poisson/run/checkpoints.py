# SPDX-License-Identifier: MIT
"""The checkpoints of one solve: the one that it goes on from, and those that it writes."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from poisson.case import Case
from poisson.errors import OutputError, PoissonError, RemoteFailure
from poisson.output import checkpoint, hdf5
from poisson.output.checkpoint import Saved
from poisson.problem.fields import FieldFile
from poisson.problem.problem import Problem
from poisson.run.ranks import Ranks
from poisson.run.solution import Solution
from poisson.solvers.iteration import Interruption, Iterate
from poisson.solvers.stopping import Begun
from poisson.words import quantity

log = logging.getLogger(__name__)


class Checkpoints:
    """Writes the iterate now and then, while the solve goes on.

    `case`: says how often and, by its result, where. `saved`: what the solve goes on from. `provenance`: what else a
    checkpoint says of its origin. `clock`: gives the time in seconds.
    """

    def __init__(
        self,
        case: Case,
        saved: Saved | None = None,
        provenance: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file, self._text, self._every = case.output.file, case.text, case.output.checkpoint_every
        self._units = case.output.units
        self._saved = saved
        self._provenance = dict(provenance or {})
        self._clock = clock
        self._begin = self._time = clock()
        self._iterations = saved.iterations if saved else 0
        self._kept: tuple[Path, ...] = (saved.path,) if saved else ()

    @property
    def begun(self) -> Begun | None:
        """The part of the solve that is done."""
        saved = self._saved
        return Begun(saved.iterations, saved.target, saved.history, instead=saved.instead) if saved else None

    @property
    def origin(self) -> dict[str, str]:
        """The origin of a resumed solve, as its result states it."""
        saved = self._saved
        if saved is None:
            return {}
        return {
            "resumed": f"{saved.path.name} after {quantity(saved.iterations, 'iteration')} ({saved.backend}, "
            f"{saved.precision})"
        }

    @property
    def seconds(self) -> float:
        """The seconds of the solver loop before this solve."""
        return self._saved.seconds if self._saved else 0.0

    def resumed(self, problem: Problem) -> Problem:
        """The problem with what the solve goes on from as its initial guess, of which every rank reads its part."""
        return replace(problem, initial=FieldFile(self._saved.path, "u")) if self._saved else problem

    def between(
        self, ranks: Ranks, asked: Callable[[], bool], unfinished: Callable[[Iterate], Solution]
    ) -> Interruption:
        """The observer to which a method shows its iterates.

        `ranks`: of the solve, which all call this and what it returns. `asked`: whether the solve is to end, on which
        the ranks agree. `unfinished`: makes a solution of an iterate.
        """
        self._begin = self._time = self._clock()

        def between(iterate: Iterate) -> bool:
            ends = asked()
            if self._every is not None and (
                (ends and iterate.iterations > self._iterations) or self._due(ranks, iterate)
            ):
                self._write(ranks, iterate, unfinished)
            return ends

        return between

    def go_on_from_the_last(self) -> None:
        """Let the solve begin again with the last one that was written, if there is one."""
        if self._kept:
            with contextlib.suppress(OutputError):
                self._saved = checkpoint.load(self._kept[-1])

    def remove(self) -> None:
        """Remove all of them, once the result is there that they were for."""
        if self._every is not None or self._saved is not None:
            checkpoint.remove(self._file)

    def _due(self, ranks: Ranks, iterate: Iterate) -> bool:
        assert self._every is not None
        if self._every.iterations:
            return iterate.iterations >= self._iterations + self._every.iterations
        late = ranks.speaks and self._clock() >= self._time + self._every.seconds
        return ranks.communicator.agree(late) if ranks.division else late

    def _write(self, ranks: Ranks, iterate: Iterate, unfinished: Callable[[Iterate], Solution]) -> None:
        """Write a checkpoint; where that fails, the one before stays, and the solve goes on."""
        path = checkpoint.path_of(self._file, iterate.iterations)
        # Ranks that solve each the whole by themselves share no iterations: the first of them writes.
        together = ranks.agreed() if ranks.division else contextlib.nullcontext()
        try:
            if ranks.division or ranks.speaks:
                with together:
                    solution = unfinished(iterate)
                provenance = dict(solution.provenance) | self._provenance | self.origin
                times = {"solve": self.seconds + self._clock() - self._begin}
                hdf5.write(
                    path, replace(solution, case_text=self._text, units=self._units, provenance=provenance, times=times)
                )
                self._kept = (*(kept for kept in self._kept if kept != path), path)[-checkpoint.MOST_KEPT :]
                if ranks.speaks:
                    checkpoint.remove(self._file, but_for=self._kept)
        except RemoteFailure:
            raise
        except (PoissonError, MemoryError) as error:
            reason = str(error) or "too little memory"
            log.warning("no checkpoint at iteration %d (the solve continues): %s", iterate.iterations, reason)
        self._iterations, self._time = iterate.iterations, self._clock()
