# SPDX-License-Identifier: MIT
"""The command line in a process of its own: files, signals, and streams that end early or lack letters."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import h5py
from support.places import ROOT
from test_cli import PYTHON, run

from poisson.solvers.status import Status

CHOSEN = ["solve", "cases/unit_square.toml", "--backend", "numpy", "--set", "domain.shape=[17, 17]"]
SMALL = [*CHOSEN, "--set", "solver.method=jacobi", "--output"]


def test_a_case_from_the_shell_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "result.h5"
    done = run(*SMALL, str(path), cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("converged: ")
    assert done.stdout.endswith(f"\noutput      {path} (ParaView: {tmp_path / 'result.xmf'})\n")
    with h5py.File(path) as file:
        assert file["u"].shape == (17, 17)
        assert file["provenance"].attrs["backend"] == "numpy"
    done = run(*SMALL, str(path), "--set", "solver.max_iterations=10", "--quiet", cwd=ROOT)
    assert done.returncode == 1
    assert (done.stdout, done.stderr) == ("", f"poisson: warning: max_iterations: {Status.MAX_ITERATIONS.advice}\n")
    with h5py.File(path) as file:
        assert (file.attrs["converged"], file["provenance"].attrs["iterations"]) == (0, 10)


def test_the_method_chosen_is_said_and_written(tmp_path: Path) -> None:
    path = tmp_path / "result.h5"
    done = run(*CHOSEN, "--output", str(path), cwd=ROOT)
    assert done.returncode == 0
    time = "(about .* expected|no time estimate: the machine is busy)"
    assert re.fullmatch(rf"method fft, as a and c are constant, .*; {time}\n", done.stderr)
    assert "\nmethod      fft, as a and c are constant, and " in done.stdout
    assert run(*CHOSEN, "--output", str(path), "--quiet", cwd=ROOT).stderr == ""
    with h5py.File(path) as file:
        assert file["provenance"].attrs["method"] == "fft"
        assert file["provenance"].attrs["reason"].startswith("a and c are constant, ")


def test_ctrl_c_in_a_solve_writes_the_result_so_far(tmp_path: Path, interruptible: None) -> None:
    path = tmp_path / "result.h5"
    endless = [
        "--set",
        "domain.shape=[129, 129]",
        "--set",
        "solver.rtol=0.0",
        "--set",
        "solver.max_iterations=100000000",
    ]
    command = [*PYTHON, *SMALL, str(path), *endless]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        # The first line comes two seconds into the solve.
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert first.startswith("target: residual 0.000e+00, ")
    assert "interrupted" in err and "Traceback" not in err
    assert process.returncode == 130
    assert out.startswith("interrupted: stopped by Ctrl-C; u is the last complete iterate\n")
    with h5py.File(path) as file:
        assert (file.attrs["status"], file.attrs["converged"]) == ("interrupted", 0)


def test_a_reader_that_goes_away_changes_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as closed:
        done = subprocess.run([*PYTHON, "--help"], stdout=closed, stderr=subprocess.PIPE, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_that_lacks_a_letter() -> None:
    done = run("sølve", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (2, "poisson: error: unknown command 's\\xf8lve'; did you mean solve?\n")


def test_ctrl_c_outside_the_solver_is_one_line(interruptible: None) -> None:
    script = (
        "import sys, time\nfrom poisson import cli\nfrom poisson.cli import solving\n"
        "def wait(self, communicator):\n    print('waiting', flush=True)\n    time.sleep(60)\n"
        "solving.Solve.execute = wait\nsys.exit(cli.main(['solve', 'a.toml']))\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, "", "poisson: interrupted\n")
