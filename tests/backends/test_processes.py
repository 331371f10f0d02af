# SPDX-License-Identifier: MIT
"""The openmp backend in processes of its own: after a fork, under limits, and how its threads wait."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import real
from support.forked import Forks

from poisson.words import quantity

SETTINGS = ("OMP_", "GOMP_", "KMP_")
NO_ROOM = "OMP_THREAD_LIMIT, OMP_STACKSIZE, 'ulimit -u' or another limit allows no more threads"
PROBLEM = """
import logging, os, sys, threading, warnings
warnings.simplefilter("ignore")
logging.basicConfig(format="%(message)s", stream=sys.stdout)
import numpy as np
import poisson
problem = poisson.Problem.on_box((385, 257), f="sin(3*x)", a="1 + x")
solver = lambda threads=0: poisson.Solver(problem, "cg", "openmp", threads=threads, rtol=1e-4)
threads_of = lambda solution: solution.provenance["device"].split(",")[1].strip()
"""


@pytest.fixture(autouse=True)
def library() -> None:
    real("openmp")(np.float64)


Output = Callable[..., str]


@pytest.fixture
def output(forked: Forks) -> Output:
    """What a new process prints, without the settings of OpenMP that this one has."""

    def found(script: str, **environment: str) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        run = forked.run(PROBLEM + script, environment=kept | {"OPENBLAS_NUM_THREADS": "1"} | environment)
        assert (run.returncode, run.stderr) == (0, "")
        return run.stdout

    return found


# ---- fork

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@needs_fork
def test_solves_in_a_forked_process_after_a_solve(output: Output) -> None:
    """With what was made before the fork, with something new, and with all threads in a new thread."""
    script = """
made = solver(2)
right = made.solve()
sys.stdout.flush()
if os.fork() == 0:
    found = [made.solve(), solver(2).solve()]
    other = threading.Thread(target=lambda: found.append(solver(2).solve()))
    other.start()
    other.join()
    print([np.array_equal(solution.u, right.u) for solution in found], *map(threads_of, found), sep=", ", flush=True)
    os._exit(0)
os.wait()
print(np.array_equal(made.solve().u, right.u), threads_of(made.solve()))
"""
    line = (
        "the openmp backend runs on 1 of 2 threads: this process was forked after a solve; start processes with the "
        "method 'spawn' to use all threads\n"
    )
    assert output(script) == 2 * line + "[True, True, True], 1 thread, 1 thread, 2 threads\nTrue 2 threads\n"


@needs_fork
def test_a_pool_of_forked_processes(output: Output) -> None:
    script = """
import multiprocessing
right = solver(2).solve()
def work(number):
    return np.array_equal(solver(2).solve().u, right.u)
logging.disable()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, range(4)))
"""
    assert output(script) == "[True, True, True, True]\n"


@needs_fork
def test_a_fork_before_the_first_solve_costs_no_thread(output: Output) -> None:
    script = """
if os.fork() == 0:
    print(threads_of(solver(2).solve()), flush=True)
    os._exit(0)
os.wait()
"""
    assert output(script) == "2 threads\n"


@needs_fork
def test_a_solver_that_was_at_work_in_another_thread_at_the_fork_says_so(output: Output) -> None:
    script = """
made = solver(1)
begun, end = threading.Event(), threading.Event()
other = threading.Thread(target=lambda: made.solve(interrupted=lambda: (begun.set(), end.wait())[1]))
other.start()
begun.wait()
if os.fork() == 0:
    try:
        made.solve()
    except poisson.PoissonError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
end.set()
other.join()
print(made.solve().status.value)
"""
    assert output(script) == (
        "this process was forked while another thread used this Solver: make a new Solver here\n"
        "interrupted; keeping the last complete iterate\nconverged\n"
    )


# ---- how many threads
@pytest.mark.parametrize(
    ("asked", "environment", "given"),
    [
        ((0, 2), {"OMP_NUM_THREADS": "3"}, (3, 2)),
        ((0,), {"OMP_NUM_THREADS": "1,4"}, (1,)),
        ((0,), {"OMP_NUM_THREADS": "5", "OMP_THREAD_LIMIT": "2"}, (2,)),
        ((4,), {"OMP_THREAD_LIMIT": "2"}, (2,)),
        ((4,), {"OMP_STACKSIZE": "100000G"}, (1,)),
        ((4,), {"GOMP_STACKSIZE": "90000000000000"}, (1,)),
        ((2,), {"OMP_STACKSIZE": " 4 M "}, (2,)),
    ],
)
def test_threads_are_as_many_as_asked_for_and_allowed(
    output: Output, asked: tuple[int, ...], environment: dict[str, str], given: tuple[int, ...]
) -> None:
    script = f"""
for solution in (solver(threads).solve() for threads in {asked}):
    print(solution.status.value, threads_of(solution))
"""
    expected = ""
    for threads, found in zip(asked, given, strict=True):
        wanted = threads or int(environment["OMP_NUM_THREADS"].partition(",")[0])
        if found < wanted:
            expected += f"the openmp backend runs on {found} of {wanted} threads: {NO_ROOM}\n"
        expected += f"converged {quantity(found, 'thread')}\n"
    assert output(script, **environment) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count threads in other ways")
@pytest.mark.parametrize("room", [1, 4])
def test_a_limit_on_the_threads_of_a_user(output: Output, room: int) -> None:
    """Where the run time would end the process; scipy's transforms, of lengths that the library has not, go on too."""
    script = f"""
import resource
odd = poisson.Problem.on_box((378, 270), f=1.0)
for method, backend in (("cg", "openmp"), ("fft", "openmp"), ("fft", "numpy")):
    poisson.Solver(poisson.Problem.on_box((9, 9), f=1.0), method, backend).solve()  # imports what is needed
os.environ["OMP_NUM_THREADS"] = "1"
right = poisson.Solver(odd, "fft", "numpy").solve().u
os.environ["OMP_NUM_THREADS"] = "8"
if os.getuid() == 0:
    # The limit is not for the superuser; nobody else has this number.
    os.setuid(64321)
    resource.setrlimit(resource.RLIMIT_NPROC, ({room}, {room}))
else:
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
made = solver(8)
logging.disable()
print(made.solve().status.value, threads_of(made.solve()))
for backend in ("openmp", "numpy"):
    print(np.allclose(poisson.Solver(odd, "fft", backend).solve().u, right))
"""
    found = re.fullmatch(
        f"the openmp backend runs on (\\d) of 8 threads: {NO_ROOM}\nconverged (\\d) threads?\nTrue\nTrue\n",
        output(script),
    )
    assert found and found[1] == found[2] < "8"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc")
def test_each_solver_has_its_own_number_of_threads_in_every_thread(output: Output) -> None:
    """Counted while the threads that solved are alive, as their teams are."""
    script = """
def tasks(threads):
    before = len(os.listdir("/proc/self/task"))
    found, begun, end = [], threading.Event(), threading.Event()
    def work():
        for made in makers:
            made.solve()
        found.append(len(os.listdir("/proc/self/task")) - before)
    makers = [solver(number) for number in threads]
    for made in makers:
        made.solve()
    before = len(os.listdir("/proc/self/task"))
    other = threading.Thread(target=work)
    other.start()
    other.join()
    return found[0]
print(tasks([1]), tasks([3]), tasks([3, 1]), tasks([1, 2]))
"""
    # The thread itself, and those of its team beside it; a team of one leaves the larger one as it is.
    assert output(script) == "1 3 3 2\n"


# ---- how threads wait

MEASURED = """
import time
made = solver(2)
made.solve()
backend, operator = made.backend, made.operator
u, f, r = (backend.from_host(np.ones((257, 385))) for _ in range(3))
backend.bind(operator).residual(u, f, r)
taken = []
for _ in range(3):  # other programs make a processor slow now and then
    start = time.process_time()
    for _ in range(40):
        backend.bind(operator).residual(u, f, r)
        time.sleep(0.02)
    taken.append(time.process_time() - start)
    if taken[-1] < 0.04 or os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
        break
print(min(taken) < 0.04, {name for name in os.environ if name.startswith(("OMP_", "GOMP_", "KMP_"))})
"""
"""Busily, a thread would wait for a millisecond or more after each region: 0.04 s of them in all, or more."""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="with one processor the run time does not wait busily")
def test_threads_do_not_wait_busily_and_the_environment_stays_as_it_was(output: Output) -> None:
    assert output(MEASURED) == "True set()\n"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="with one processor the run time does not wait busily")
def test_threads_do_not_wait_busily_where_another_library_has_loaded_the_run_time(output: Output) -> None:
    first = "\nimport ctypes\nctypes.CDLL('libgomp.so.1')\nassert 'libgomp' in open('/proc/self/maps').read()\n"
    assert output(first + MEASURED) == "True set()\n"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="with one processor the run time does not wait busily")
@pytest.mark.parametrize(("name", "value"), [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "1000000000")])
def test_threads_wait_as_the_user_says(output: Output, name: str, value: str) -> None:
    assert output(MEASURED, **{name: value}) == f"False {{'{name}'}}\n"


# ---- memory
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_a_problem_that_does_not_fit_under_a_limit_is_refused(output: Output) -> None:
    """At any limit: it is solved, or refused in one line."""
    script = """
import resource
logging.disable()
big = poisson.Problem.on_box((1025, 1025), f=1.0)
poisson.Solver(poisson.Problem.on_box((33, 33), f=1.0), "cg", "openmp", threads=2).solve()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for megabytes in (1, 20, 50, 1000):
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), resource.RLIM_INFINITY))
    try:
        print(poisson.Solver(big, "multigrid", "openmp", threads=2, rtol=1e-3).solve().status.value)
    except poisson.PoissonError as error:
        print(str(error).partition(",")[0], "..." , str(error).partition("free: ")[2])
"""
    refused = "domain.shape = [1025 ... reduce domain.shape"
    # float32 is named where its arrays fit.
    assert output(script) == f"{refused}\n{refused}\n{refused}, or use run.precision = 'float32'\nconverged\n"
