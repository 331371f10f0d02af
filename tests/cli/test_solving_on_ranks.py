# SPDX-License-Identifier: MIT
"""`solve`, `verify` and `info` on several processes: one answer and one file, and one end whatever happens to one.

Covers poisson.cli.solving.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
from support.mpi import command, environment, mpirun
from support.places import ROOT
from test_commands_on_ranks import ENDING

CASE = str(ROOT / "cases" / "unit_square.toml")
SMALL = ["solve", CASE, "--backend", "numpy", "--set", "domain.shape=[41, 41]"]

FAILING = """
import os
import sys
from pathlib import Path
import poisson.backends
import poisson.case
import poisson.cli.terminal
import poisson.output.hdf5
import poisson.output.parts
import poisson.run.operator, poisson.run.solver
from poisson.cli import main
from poisson.errors import BackendUnavailable, CaseError, OutputError

words = ["solve", sys.argv[1], "--backend=numpy", "--set", "domain.shape=[41, 41]", "--set", "solver.method=multigrid"]

def stage(owner, name, error, code, left=()):
    whole = getattr(owner, name)
    for failing in (0, 1):
        if own == failing:
            def fails(*arguments, **named):
                raise error
            setattr(owner, name, fails)
        found = None
        try:
            main([*words, "--output=a.h5"])
        except End as ended:
            found = ended.args
        setattr(owner, name, whole)
        assert found == (code, True), (name, failing, found)
        if own == 0:
            print(f"{name} {failing}", file=sys.stderr, flush=True)
            assert sorted(os.listdir()) == sorted(left), (name, failing, os.listdir())

stage(poisson.case, "load", CaseError(["domain: wrong"]), 2)
stage(poisson.backends, "create", BackendUnavailable("no device"), 2)
stage(poisson.run.method, "require_memory", MemoryError("8 TiB"), 2)
stage(poisson.run.loader.Loader, "fill", MemoryError("8 TiB"), 2)
stage(poisson.run.loader.Loader, "fill", KeyboardInterrupt(), 130)
stage(poisson.cli.terminal.Progress, "__call__", ArithmeticError("a defect"), 1)
stage(poisson.run.solver, "finish", MemoryError("8 TiB"), 2)
stage(poisson.output.parts.os, "pwrite", OSError(28, "No space left on device"), 2)
"""


def test_a_failure_at_any_stage_of_a_solve_ends_it_on_all_ranks(tmp_path: Path) -> None:
    done = mpirun(2, "-c", ENDING + FAILING, CASE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    said, stages = [], {}
    for line in done.stderr.splitlines():
        if re.fullmatch(r"\w+ [01]", line):
            stages.setdefault(line, []).extend(each for each in said if re.match("poisson: |Arithm", each))
            said = []
        else:
            said.append(line)
    memory = "not enough memory (8 TiB); use fewer nodes (domain.shape)"
    for rank, place in ((0, ""), (1, "process 1 of 2: ")):
        assert stages[f"load {rank}"] == ["poisson: error: domain: wrong"]
        assert stages[f"create {rank}"] == ["poisson: error: no device"]
        assert stages[f"fill {rank}"] == [
            f"poisson: error: {place}{memory}",
            "poisson: interrupted; nothing was written",
        ]
        assert stages[f"finish {rank}"] == [f"poisson: error: {place}{memory}"]
        assert stages[f"__call__ {rank}"] == ["ArithmeticError: a defect"]
        [line] = stages[f"pwrite {rank}"]
        assert line.startswith("poisson: error: ") and "the disk is full" in line


def test_processes_give_one_answer_and_one_file(tmp_path: Path) -> None:
    command(2)
    serial = subprocess.run(
        [sys.executable, "-m", "poisson", *SMALL, "--output", "one.h5"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=tmp_path,
        env=environment(),
    )
    done = subprocess.run(
        [sys.executable, "-m", "poisson", *SMALL, "--output", "two.h5", "--ranks", "2"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["one.h5", "one.xmf", "two.h5", "two.xmf"]
    for text in (done.stdout, done.stderr):
        lines = [line for line in text.splitlines() if re.match("converged|output|method", line)]
        assert len(lines) == len(set(lines)) > 0
    assert [line.split(" ")[0] for line in done.stdout.splitlines()][:4] == [
        line.split(" ")[0] for line in serial.stdout.splitlines()
    ][:4]
    with h5py.File(tmp_path / "one.h5") as one, h5py.File(tmp_path / "two.h5") as two:
        assert np.abs(one["u"][...] - two["u"][...]).max() < 1e-10
        assert two["provenance"].attrs["ranks"] == 2


def test_processes_verify_a_case_and_show_one_table(tmp_path: Path) -> None:
    words = ["verify", CASE, "--set", "domain.shape=[33, 33]", "--set", "solver.method=multigrid"]
    done = mpirun(2, "-m", "poisson", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("comparison with scipy.sparse") == 1
    assert [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("numpy")] == ["ok"]


LONG = ["--set", "domain.shape=[201, 201]", "--set", "solver.method=jacobi", "--set", "solver.rtol=1e-12"]


def long_solve(folder: Path) -> subprocess.Popen[str]:
    """A solve of many seconds on two ranks of ours, in its loop."""
    command(2)
    words = [*SMALL, *LONG, "--output", "a.h5", "--ranks", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "poisson", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("sweep"):
            return process
    raise AssertionError("the solve has ended")


def test_ctrl_c_on_several_ranks_keeps_the_iterate(tmp_path: Path, interruptible: None) -> None:
    process = long_solve(tmp_path)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert out.startswith("interrupted: ")
    assert errors.count("interrupted; keeping the last complete iterate") == 1
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.xmf"]
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.attrs["status"] == "interrupted"
        assert np.isfinite(file["u"][...]).all()


def ranks_of(process: subprocess.Popen[str]) -> list[int]:
    """The numbers of the processes that solve: two generations below the command."""

    def below(number: int) -> list[int]:
        return [
            int(word) for path in Path(f"/proc/{number}/task").glob("*/children") for word in path.read_text().split()
        ]

    return [rank for launcher in below(process.pid) for rank in below(launcher)]


def test_a_rank_that_is_killed_ends_all_with_one_line(tmp_path: Path) -> None:
    process = long_solve(tmp_path)
    os.kill(ranks_of(process)[-1], signal.SIGKILL)
    out, errors = process.communicate(timeout=300)
    assert (process.returncode, out) == (2, "")
    line = "one of the 2 processes was ended by SIGKILL; possibly out of memory: use fewer nodes"
    assert [each for each in errors.splitlines() if each.startswith("poisson")] == [f"poisson: error: {line}"]
