# SPDX-License-Identifier: MIT
"""The commands that solve and look at results: `solve`, `verify`, `info`."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import poisson
from poisson.backends.registry import AUTO, begin
from poisson.cli.terms import (
    EXIT_ERROR,
    EXIT_OFF,
    EXIT_OK,
    UsageError,
    as_json,
    complain,
    naming,
    overrides,
    rank_count,
    say,
    search_for_garbage,
)
from poisson.errors import CaseError, FileChoice, OutputError
from poisson.parallel.communicator import Communicator
from poisson.parallel.failures import code_of, signal_of
from poisson.run import interrupts
from poisson.solvers.status import Status
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.case import Case
    from poisson.cli.journal import Journal
    from poisson.output.checkpoint import Saved
    from poisson.output.result import Written
    from poisson.run.concerns import Concern

log = logging.getLogger(__name__)

OPTIONS = {FileChoice.PLACE: " with --output", FileChoice.OVERWRITE: " with --overwrite"}
"""The options of `solve` that messages about its files name."""

MOST_WRITTEN_TWICE = 1 << 30
"""A result of more bytes is not written again for the times of its operations."""


@dataclass(frozen=True)
class Solve:
    case: str
    overrides: tuple[str, ...]
    quiet: bool
    overwrite: bool = False
    ranks: int | None = None
    profile: bool = False
    json: bool = False
    log: str | None = None
    resume: bool = False

    def execute(self, communicator: Communicator) -> int:
        if communicator.size == 1 and (name := _named_backend(self.case, self.overrides)):
            # A device starts while the rest of Python is loaded and the case is read.
            begin(name)
        from poisson.cli.journal import Journal
        from poisson.discrete.share import agreed

        written: list[Written] = []
        with contextlib.ExitStack() as stack:
            journal = None
            with agreed(communicator):
                if self.log is not None and communicator.rank == 0:
                    self._check_apart(Path(self.log), "--log")
                    journal = stack.enter_context(Journal.opened(self.log))
            try:
                with naming(OPTIONS):
                    return self._execute(communicator, written, journal, stack)
            except KeyboardInterrupt as interrupt:
                what = f"the result is in {written[0].path}" if written else "nothing was written"
                self._end(journal, Status.INTERRUPTED.value, what)
                raise interrupts.EndedBySignal(signal_of(interrupt), f"interrupted; {what}") from None
            except Exception as error:
                self._end(journal, "error", str(error))
                raise

    def _execute(
        self, communicator: Communicator, written: list[Written], journal: Journal | None, held: contextlib.ExitStack
    ) -> int:
        """Solve, write and report; `written` receives them as soon as they are there, `held` the lock of them."""
        import numpy as np

        from poisson.case import load
        from poisson.cli.journal import Observers
        from poisson.cli.summary import Ended
        from poisson.cli.terminal import Progress
        from poisson.discrete.share import agreed
        from poisson.output import checkpoint, hdf5, locks, result
        from poisson.output.record import extent
        from poisson.perf.traffic import sweep_bytes
        from poisson.run import memory, run
        from poisson.run.solution import Interrupted, Solution
        from poisson.solvers import registry

        with agreed(communicator):
            case = load(self.case, self.overrides)
            file, size = case.output.file, memory.result_bytes(case.problem.lattice, case.run.dtype, case.output.fields)
            if journal:
                journal.begin(_start_of(self.case, case))
            concerns: tuple[Concern, ...] = ()
            if communicator.rank == 0:
                self._check_output(file)
                result.check(file, size, overwrite=self.overwrite)
                held.enter_context(locks.reserved(file))
                concerns = _concerns(case)
        search_for_garbage()
        saved = run.found(case, communicator) if self.resume else None
        if saved is not None and saved.complete:
            return self._complete(saved, journal)
        if not self.resume and (left := checkpoint.beside(file)):
            log.info(
                "found %s, a checkpoint of an earlier run that did not finish; --resume continues from it", left[0]
            )
        operations = registry.sweep_of(case.solver)
        traffic = sweep_bytes(case.problem, np.dtype(case.run.dtype).itemsize, operations) if operations else None

        seconds = 0.0

        def keep(solution: Solution) -> None:
            nonlocal seconds
            begun = time.perf_counter()
            written.append(result.save(file, solution, overwrite=self.overwrite))
            seconds = time.perf_counter() - begun

        try:
            with Progress(traffic, quiet=self.quiet) as progress:
                observer = Observers([progress, journal]) if journal else progress
                appraised = None
                if self.profile:
                    from poisson.perf.usage import appraise

                    appraised = appraise
                solution = run.go_on(case, saved, observer=observer, appraise=appraised, keep=keep, comm=communicator)
            code = solution.status.exit_code
        except Interrupted as interrupted:
            if not written:
                raise
            solution, code = interrupted.solution, code_of(interrupted)
        if communicator.broadcast(solution.performance is not None and size <= MOST_WRITTEN_TWICE):
            try:
                hdf5.write(file, solution)
            except OutputError as error:
                complain(
                    f"warning: the times of the operations could not be added to the result: {error.worded(OPTIONS)}"
                )
        if code > EXIT_ERROR and solution.status is not Status.INTERRUPTED:
            complain("warning: interrupted after the end of the solve; the result is complete")
        [(path, beside, span)] = written
        ends = extent(solution) if span is None or span.not_finite else (span.least, span.largest)
        said = [asdict(concern) for concern in concerns]
        ended = Ended(solution, ends, (path, beside), traffic, seconds, self.profile, said)
        if journal:
            journal.end(ended.record(code))
        if not self.quiet or self.json:
            try:
                say(as_json(ended.record(code)) if self.json else ended.lines())
            except OutputError as error:
                complain(f"error: {error}; the result is in {path}")
                return code or EXIT_ERROR
        if self.quiet and solution.status.exit_code != EXIT_OK:
            complain(f"warning: {solution.status.value}: {solution.advice}")
        return code

    def _complete(self, saved: Saved, journal: Journal | None) -> int:
        """There is nothing to be done: the result is there."""
        text = f"{saved.path} is complete: {saved.status.value} after {quantity(saved.iterations, 'iteration')}"
        code = saved.status.exit_code
        self._end(journal, saved.status.value, text)
        if self.json:
            ending = {"status": saved.status.value, "converged": saved.status.success, "exit_code": code}
            say(
                as_json(
                    {"command": "solve", **ending, "iterations": saved.iterations, "file": saved.path, "complete": True}
                )
            )
        elif not self.quiet:
            say(f"{text}; omit --resume to solve it again")
        return code

    @staticmethod
    def _end(journal: Journal | None, status: str, text: str) -> None:
        if journal:
            journal.end({"status": status, "text": text})

    def _check_output(self, file: Path) -> None:
        from poisson.output.xdmf import path_beside

        for path in (file, path_beside(file)):
            self._check_apart(path, "--output")

    def _check_apart(self, path: Path, option: str) -> None:
        """Refuse to write over the case itself, whatever its name is."""
        if os.path.realpath(path) == os.path.realpath(self.case):
            raise OutputError(f"{path}: this is the case file; give another name with {option}")


def _named_backend(path: str, overrides: Sequence[str]) -> str | None:
    """The backend that a case names, at a first glance; None where something is wrong, of which reading it tells."""
    try:
        run = tomllib.loads(Path(path).read_text("utf-8")).get("run", {})
    except (OSError, ValueError):
        return None
    name = run.get("backend", AUTO) if isinstance(run, dict) else None
    for pair in overrides:
        key, _, value = pair.partition("=")
        if key.strip() == "run.backend":
            name = value.strip().strip("'\"")
    return name if isinstance(name, str) else None


def _concerns(case: Case) -> tuple[Concern, ...]:
    """Say what may go wrong with a case.

    Raises CaseError if it cannot be solved: with a line for each reason, where a solve would stop at the first.
    """
    from poisson.run.concerns import Subject, concerns_of
    from poisson.run.sample import Sample

    sample = Sample(case.problem)
    if sample.mistakes:
        raise CaseError(sample.mistakes)
    concerns = concerns_of(Subject(sample, case.solver, case.run))
    for concern in concerns:
        log.warning("%s", concern.line)
    return concerns


def _start_of(path: str, case: Case) -> dict[str, Any]:
    """The first line of a log: the case, and where it is solved."""
    from poisson.output.record import machine

    return {
        "command": "solve",
        "file": path,
        "case": tomllib.loads(case.text),
        "output": case.output.file,
        "version": poisson.__version__,
        **machine(),
        "processors": os.cpu_count(),
        "process": os.getpid(),
    }


@dataclass(frozen=True)
class Verify:
    case: str
    overrides: tuple[str, ...]
    refine: int | None
    quiet: bool
    ranks: int | None = None
    json: bool = False

    def execute(self, communicator: Communicator) -> int:
        from poisson.case import load
        from poisson.cli.terminal import told
        from poisson.run import verify as verification

        report = verification.verify(load(self.case, self.overrides), self.refine, comm=communicator)
        code = EXIT_OK if report.passed else EXIT_OFF
        if self.json:
            found = {"title": report.title, "passed": report.passed, "exit_code": code}
            say(as_json({"command": "verify", **found, "rows": report.rows, "notes": report.notes}))
        elif not (self.quiet and report.passed):
            say(told(report))
        return code


@dataclass(frozen=True)
class Info:
    file: str | None
    ranks: int | None = None
    json: bool = False

    def execute(self, communicator: Communicator) -> int:
        text, record = self._found(communicator)
        if communicator.rank == 0:
            say(as_json({"command": "info", **record()}) if self.json else text())
        return EXIT_OK

    def _found(self, communicator: Communicator) -> tuple[Callable[[], str], Callable[[], dict[str, Any]]]:
        """The profile, in lines for people and as data for programs; all ranks call this."""
        from poisson.cli import terminal

        if self.file is not None:
            from poisson.output import description

            file = self.file
            return (lambda: description.describe_apart(file), lambda: {"file": file, **description.facts_apart(file)})
        if communicator.size > 1:
            from poisson.run.neighbours import neighbourhood

            found = neighbourhood(communicator)
            return lambda: terminal.processes(found), lambda: asdict(found)
        from poisson import backends

        installed = backends.describe()
        return (
            lambda: terminal.installation(installed),
            lambda: {"backends": [asdict(each) for each in installed], "versions": dict(terminal.versions())},
        )


def solve(
    case: str,
    *,
    set: Sequence[str] = (),
    output: str | None = None,
    overwrite: bool = False,
    backend: str | None = None,
    ranks: str | None = None,
    profile: bool = False,
    log: str | None = None,
    json: bool = False,
    quiet: bool = False,
    resume: bool = False,
) -> Solve:
    """Solve a case file and write the result.

    Usage: python -m poisson solve CASE [--set KEY=VALUE ...] [--output FILE] [--overwrite] [--backend NAME] [--ranks N]
                                        [--resume] [--profile] [--log FILE] [--json] [--quiet]

      CASE             the case file (TOML)
      --set KEY=VALUE  override a key of the case file; may be given several times
      --output FILE    (or -o) where to write the result; the same as --set output.file=FILE
      --overwrite      also replace files that are not results; older results are always replaced
      --backend NAME   {backends}; the same as --set run.backend=NAME
      --ranks N        solve in N processes, started on this machine; leave it out under mpirun or srun
      --resume         continue from the newest checkpoint of the case (output.checkpoint_every), or from a result that
                       ended early; without either, start from scratch
      --profile        time the operations after the solve, compare them with the memory bandwidth, and show the speed
      --log FILE       append the events to this file, one JSON object per line: every residual norm, warnings, the end
      --json           print one JSON object instead of the summary
      --quiet          (or -q) show nothing but warnings and errors

    FILE.xmf, for ParaView, is written beside the result FILE.h5. Ctrl-C stops the solve after the current sweep or
    cycle and writes the result so far; a second one aborts. docs/running.md explains what is printed.

    Examples:
      python -m poisson solve cases/unit_square.toml
      python -m poisson solve cases/unit_square.toml --set solver.rtol=1e-6 --set domain.shape=[257,257]
      python -m poisson solve cases/unit_square.toml -o run1.h5 --backend numpy -q

    Exit codes: 0 converged, 1 not converged (the result is still written), 2 bad input, 130 interrupted, 143 and 129
    ended by SIGTERM and SIGHUP, which stop a solve as Ctrl-C does."""
    changes = overrides(set, output=output, backend=backend)
    return Solve(case, changes, quiet, overwrite, rank_count(ranks), profile, json, log, resume)


def verify(
    case: str,
    *,
    refine: str | None = None,
    set: Sequence[str] = (),
    backend: str | None = None,
    ranks: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> Verify:
    """Compare every backend with a direct solution, or measure the order of accuracy.

    Usage: python -m poisson verify CASE [--refine N [--backend NAME]] [--set KEY=VALUE ...] [--ranks N]
                                         [--json] [--quiet]

      CASE             the case file (TOML)
      --refine N       instead, solve on N grids, each with half the spacing of the one before, the last being the
                       grid of the case, and show the observed order of accuracy; needs equation.exact
      --set KEY=VALUE  override a key of the case file; may be given several times
      --backend NAME   the backend for --refine: {backends}; the same as --set run.backend=NAME
      --ranks N        solve in N processes, started on this machine; leave it out under mpirun or srun
      --json           print one JSON object instead of the table
      --quiet          (or -q) show nothing unless a comparison fails

    Examples:
      python -m poisson verify cases/unit_square.toml
      python -m poisson verify cases/unit_square.toml --refine 4 --backend numpy

    Exit codes: 0 all agree, 1 a comparison fails, 2 bad input, 130 interrupted."""
    keys = [pair.partition("=")[0].strip() for pair in set]
    if refine is None and (backend is not None or "run.backend" in keys):
        option = "--set run.backend" if backend is None else "--backend"
        raise UsageError(f"{option} needs --refine: without --refine, verify compares every backend")
    for key in keys:
        if key.partition(".")[0] == "output":
            raise UsageError(f"--set {key}: verify writes no result; leave this key out")
    grids = None if refine is None else _grids(refine)
    return Verify(case, overrides(set, backend=backend), grids, quiet, rank_count(ranks), json)


def info(file: str | None = None, *, ranks: str | None = None, json: bool = False) -> Info:
    """Describe a result file, or the backends and versions installed here.

    Usage: python -m poisson info [FILE] [--ranks N] [--json]

      FILE       a result of 'solve'; without FILE: the backends, their devices, and how to install a missing
                 one
      --ranks N  instead: where N processes on this machine run, and how they are linked; also under mpirun
      --json     print one JSON object instead of the description

    Examples:
      python -m poisson info
      python -m poisson info unit_square.h5

    Exit codes: 0 done, 2 the file cannot be read."""
    return Info(file, rank_count(ranks), json)


def _grids(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) >= 2):
        raise UsageError(f"--refine {text}; allowed: a whole number of grids, at least 2")
    return int(text)
