# SPDX-License-Identifier: MIT
"""`scripts/kill_test.py`: a solve that is killed at random moments, and resumed."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import kill_test
import pytest
from support.places import ROOT
from support.problems import SINE, WALLS, make_case

import poisson
from poisson.errors import OutputError
from poisson.output import checkpoint, hdf5
from poisson.solvers.status import Status

sys.path.insert(0, str(ROOT / "scripts"))


def test_a_solve_that_is_killed_loses_nothing() -> None:
    """Many more moments: the script without --moments."""
    words = ["--moments=4", "--every=60", "solver.rtol=1e-5"]
    done = subprocess.run(
        [sys.executable, kill_test.__file__, *words], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("4 moments, ")
    assert done.stdout.endswith(" 0 wrong\n")


def test_a_file_that_is_not_whole_is_found(tmp_path: Path) -> None:
    case, file = make_case(SINE, WALLS, (5, 5)), tmp_path / "a.h5"
    solution = replace(poisson.solve(case), status=Status.UNFINISHED)
    for iterations in (1, 2):
        hdf5.write(checkpoint.path_of(file, iterations), solution)
    assert kill_test.require_whole(file) == 2
    cut = checkpoint.path_of(file, 1)
    cut.write_bytes(cut.read_bytes()[:-200])
    with pytest.raises(OutputError, match="damaged"):
        kill_test.require_whole(file)
