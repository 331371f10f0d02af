# SPDX-License-Identifier: MIT
"""Processes of MPI: what they say to one another, and how all of them end when one fails."""

import pickle
import re
from pathlib import Path

import pytest
from support.mpi import mpirun

from poisson.errors import CaseError, FileChoice, OutputError, PoissonError, RemoteFailure
from poisson.parallel.failures import MOST_TOLD, Failure

TALK = """
import numpy as np
from mpi4py import MPI
from poisson.parallel.communicator import Message
from poisson.parallel.mpi import MpiCommunicator

assert MPI.Query_thread() <= MPI.THREAD_MULTIPLE
comm = MpiCommunicator.of(MPI.COMM_WORLD)
assert MpiCommunicator.of(MPI.COMM_WORLD) is comm
rank, size = comm.rank, comm.size
assert (rank, size, comm.on_device) == (MPI.COMM_WORLD.rank, 3, False)
assert (comm.local_rank, comm.local_size) == (rank, size)

# Around a ring, both ways, in large messages and small ones; a caller's own messages are not met.
below, above = (rank - 1) % size, (rank + 1) % size
stray = np.array([99.0])
MPI.COMM_WORLD.Isend(stray, above, 1)
for count in (1, 1000, 10**6):
    for turn in range(5):
        own, from_below, from_above = np.full(count, 10.0 * turn + rank), np.zeros(count), np.zeros(count)
        comm.exchange(
            [
                Message(own, above, 1, True),
                Message(own, below, 2, True),
                Message(from_below, below, 1, False),
                Message(from_above, above, 2, False),
            ]
        )
        assert (from_below == 10.0 * turn + below).all() and (from_above == 10.0 * turn + above).all()
MPI.COMM_WORLD.Recv(stray, below, 1)
comm.exchange([])

for repeated in (True, False):
    for values in ((), (1.0,), (0.1, 0.2), (5.0, 6.0, 7.0), (0.3, 0.4)):
        expected = [tuple(value + other for value in values) for other in range(size)]
        assert comm.allgather([value + rank for value in values]) == expected
    # as with an MPI whose requests cannot be started again
    for buffers in comm._gathers.values():
        buffers.request = None
assert comm.agree(rank == 1) and not comm.agree(False)
comm.barrier()
comm.barrier(asleep=rank > 0)
for root in range(size):
    large = {"rank": rank, "text": "x" * 10**6}
    assert comm.broadcast(large, root)["rank"] == root
    gathered = comm.gather((rank, "y" * rank), root)
    assert gathered == ([(each, "y" * each) for each in range(size)] if rank == root else None)
print(f"rank {rank} is done", flush=True)
"""


def test_processes_say_what_is_expected() -> None:
    done = mpirun(3, "-c", TALK)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} is done" for rank in range(3)]


FAIL = """
import time
import numpy as np
from mpi4py import MPI
from poisson.errors import CaseError, RemoteFailure
from poisson.parallel.communicator import Message
from poisson.parallel.mpi import MpiCommunicator

comm = MpiCommunicator.of(MPI.COMM_WORLD)
rank, size = comm.rank, comm.size
buffer = np.zeros(10**6)
waits = {
    "receive": lambda victim: comm.exchange([Message(buffer, victim, 1, False)]),
    "send": lambda victim: comm.exchange([Message(buffer, victim, 1, True)]),
    "allgather": lambda victim: comm.allgather([1.0, 2.0]),
    "broadcast": lambda victim: comm.broadcast("x", victim),
    "gather": lambda victim: comm.gather("x", victim),
    "barrier": lambda victim: comm.barrier(),
    "barrier, asleep": lambda victim: comm.barrier(asleep=True),
    "agree": lambda victim: comm.agree(True),
    "end": lambda victim: None,
    "look": lambda victim: ([comm.look() for _ in iter(lambda: time.sleep(0.01), 0)]),
}
for victim in range(size):
    for name, wait in waits.items():
        try:
            with comm.together():
                comm.allgather([0.0])
                if rank == victim:
                    raise CaseError([f"{name} {victim}"])
                wait(victim)
        except CaseError as error:
            assert rank == victim and str(error) == f"{name} {victim}"
        except RemoteFailure as error:
            assert rank != victim and (error.rank, error.text, error.code) == (victim, f"{name} {victim}", 2), error
        else:
            raise AssertionError(f"{name}: the failure of {victim} was not noticed")
        # As new, with nothing left of what was under way.
        assert comm.allgather([rank]) == [(each,) for each in range(size)]
# All at once, each with an error of its own.
try:
    with comm.together():
        raise KeyError(rank)
except KeyError as error:
    assert error.args == (rank,)
failures, everyone = [], False
comm.fail(MemoryError())
failures, everyone = comm.settle()
assert everyone and [(each.rank, each.code) for each in failures] == [(each, 2) for each in range(size)]
# Nothing has failed: an orderly end.
assert comm.settle() == ([], True)
print(f"rank {rank} is done", flush=True)
"""


def test_a_failure_of_one_process_ends_the_wait_of_every_other_and_leaves_the_communicator_as_new() -> None:
    done = mpirun(3, "-c", FAIL)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} is done" for rank in range(3)]


PROGRAM = """
import numpy as np
from mpi4py import MPI
import poisson
from poisson.errors import PoissonError

comm = MPI.COMM_WORLD

def source(x, y):
    if fails and comm.rank == 1:
        raise MemoryError("too much")
    return np.sin(np.pi * x) * np.sin(np.pi * y)

for fails in (False, True, False):
    problem = poisson.Problem.on_box((65, 65), f=source, boundary={"all": 0.0})
    try:
        solution = poisson.solve(problem, "multigrid", "openmp", comm=comm)
        u = solution.gather()
        print(comm.rank, None if u is None else u.shape, flush=True)
    except (MemoryError, PoissonError) as error:
        print(comm.rank, type(error).__name__, flush=True)
"""


def test_a_program_of_a_user_goes_on_after_a_failure() -> None:
    done = mpirun(2, "-c", PROGRAM)
    assert (done.returncode, done.stderr) == (0, "")
    solved = {0: "0 (65, 65)", 1: "1 None"}
    for rank in (0, 1):
        [first, failed, last] = [line for line in done.stdout.splitlines() if line.startswith(str(rank))]
        assert (first, last) == (solved[rank], solved[rank])
        assert failed in (f"{rank} MemoryError", f"{rank} RemoteFailure", f"{rank} FailedElsewhere")


LATE = """
import time
from pathlib import Path
from mpi4py import MPI
from poisson.errors import CaseError, RemoteFailure
from poisson.parallel.mpi import MpiCommunicator

for late in (0, 1):
    comm = MpiCommunicator(MPI.COMM_WORLD)
    left = Path(f"left {late}")
    if comm.rank == 1 - late:
        comm.fail(CaseError(["one"]))
        failures, everyone = comm.settle(0.2)
        assert [failure.text for failure in failures] == ["one"] and not everyone
        left.touch()
        assert comm.settle(100.0) == (failures, False)
    else:
        while not left.exists():
            time.sleep(0.01)
        try:
            comm.allgather([1.0])
        except RemoteFailure:
            failures, everyone = comm.settle(0.2)
            assert [failure.text for failure in failures] == ["one"] and not everyone
        try:
            comm.barrier()
        except RemoteFailure:
            print("remembered", flush=True)
"""


def test_a_process_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    done = mpirun(2, "-c", LATE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "remembered\n" * 2), done.stderr


@pytest.mark.parametrize(
    "error",
    [
        CaseError(["one", "two"]),
        OutputError("x.h5: full; choose another place", FileChoice.PLACE, OutputError(" or", FileChoice.OVERWRITE)),
        RemoteFailure(3, "no memory", 2),
    ],
)
def test_errors_go_to_other_processes_as_they_are(error: PoissonError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


def test_a_failure_is_told_by_what_it_means_to_a_user() -> None:
    interrupt = Failure.of(1, KeyboardInterrupt())
    assert (interrupt.text, interrupt.code, str(interrupt.remote)) == ("", 130, "process 1 has failed: interrupted")
    case = Failure.of(2, CaseError(["one", "two"]))
    assert (case.text, case.code) == ("one\ntwo", 2)
    memory = Failure.of(0, MemoryError("12 GB"))
    assert (memory.text.partition(";")[0], memory.code) == ("not enough memory (12 GB)", 2)
    defect = Failure.of(0, ZeroDivisionError("no"))
    assert (defect.text.splitlines()[-1], defect.code) == ("ZeroDivisionError: no", 1)
    assert len(Failure.of(0, CaseError(["x" * 10**5])).text) == MOST_TOLD
    error = case.remote
    assert isinstance(error, RemoteFailure)
    assert re.search("process 2 has failed: one", str(error))
