# SPDX-License-Identifier: MIT
"""Programs on several processes of MPI, which mpirun starts on this machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.places import ROOT

ROOTS = ("OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT")
SECONDS = 300.0


def mpirun(size: int, *arguments: str, seconds: float = SECONDS, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run so many processes of Python with these arguments, the test folder on their path; skip without MPI."""
    return subprocess.run(
        [*command(size), sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=cwd,
        env=environment(),
    )


def command(size: int) -> list[str]:
    """The words that start so many processes, which may be more than there are cores."""
    pytest.importorskip("mpi4py")
    beside = shutil.which("mpirun", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("mpirun")
    if found is None:
        pytest.skip("there is no mpirun")
    return [found, "-n", str(size), "--map-by", ":OVERSUBSCRIBE"]


def environment() -> dict[str, str]:
    """Ours, with what Open MPI asks of root, and where packages may be that are not installed."""
    allowed = {f"{name}{end}": "1" for name in ROOTS for end in ("", "_CONFIRM")}
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | allowed | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
