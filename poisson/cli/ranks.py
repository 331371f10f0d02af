# SPDX-License-Identifier: MIT
"""A command that several processes carry out together: the first of them speaks, and all of them end as one.

The processes were started by mpirun or srun, or by `poisson.cli.launcher`, which listens to what becomes of them.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator

from poisson.cli.launcher import Console
from poisson.cli.signals import ending
from poisson.cli.terms import EXIT_ERROR, complain, discard, murmur
from poisson.errors import PoissonError
from poisson.parallel.communicator import Communicator
from poisson.parallel.failures import CODE_DEFECT, Failure, code_of
from poisson.parallel.launched import Launch, world
from poisson.parallel.mpi import MpiCommunicator

Work = Callable[[Communicator], int]
"""Carries out a command on the ranks, and gives the exit code."""

PATIENCE = 1.0
"""Seconds that a rank, which has waited for the others in vain, leaves to another one to say why."""


def carry_out(launched: Launch, work: Work) -> int:
    """Carry out a command in a process that was started with others.

    An exception on any rank ends all. It is said once, by the first rank, or where that does not come to its end within
    seconds by the one that failed; the process then ends here, as what is left of MPI might wait for messages.

    `launched`: what the launcher has left in the environment. `work`: called with the communicator of all. Returns: the
    exit code, the same on every rank.
    """
    with ending(launched=True), Console.connected() as console:
        try:
            communicator = world(launched)
        except PoissonError as error:
            # Nobody can be asked who is the first.
            if launched.rank == 0:
                tell(Failure.of(0, error), 1)
                console.report(EXIT_ERROR)
            return EXIT_ERROR
        code, failures, everyone = _done(communicator, work)
        first = communicator.rank == 0
        if not failures:
            if first:
                console.report(code)
            return code
        # A defect before an error, which may be what it has led to elsewhere, and an interrupt last.
        failure = min(failures, key=lambda each: each.code)
        if not everyone and not first and failure.rank != communicator.rank:
            time.sleep(PATIENCE)
        elif first or not everyone:
            known = {each.text for each in failures}
            tell(failure, 1 if len(known) == 1 and len(failures) == communicator.size else communicator.size)
            console.report(failure.code)
        _end(communicator, failure.code, everyone=everyone)
    raise AssertionError("the process has ended")


def tell(failure: Failure, size: int) -> None:
    """Say why all end, naming the rank among `size` if that was not the first."""
    place = f"process {failure.rank} of {size}: " if failure.rank > 0 and size > 1 else ""
    if failure.interrupt:
        complain(failure.text or "interrupted")
    elif failure.code == CODE_DEFECT:
        murmur(f"{place}{failure.text.rstrip()}")
    else:
        for line in failure.text.splitlines():
            complain(f"error: {place}{line}")


def _done(communicator: MpiCommunicator, work: Work) -> tuple[int, list[Failure], bool]:
    """Do the work: the exit code where it ends well on all ranks, or else what failed, and whether all have come."""
    code = EXIT_ERROR
    try:
        with _heard(communicator.rank == 0), communicator.in_charge():
            try:
                code = work(communicator)
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else EXIT_ERROR
            except BaseException as error:
                communicator.fail(error)
            failures, everyone = communicator.settle()
        if everyone and not failures:
            code = communicator.broadcast(code)
    except KeyboardInterrupt as error:
        # While all were about to end: a second one, or one with nothing to lose.
        return code_of(error), [Failure.of(communicator.rank, error)], False
    return code, failures, everyone


def _end(communicator: MpiCommunicator, code: int, *, everyone: bool) -> None:
    """End the process at once; where others may still be at work, with them."""
    if everyone:
        # The first rank speaks before any other ends, at which launchers end all that are left.
        with contextlib.suppress(Exception):
            communicator.barrier()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            discard(stream)
    if not everyone:
        communicator.abort(code)
    os._exit(code)


@contextlib.contextmanager
def _heard(speaks: bool) -> Iterator[None]:
    """Within, what a rank prints that does not speak goes nowhere: messages, results, warnings of Python."""
    if speaks:
        yield
        return
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield
