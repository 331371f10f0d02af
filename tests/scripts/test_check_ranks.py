# SPDX-License-Identifier: MIT
"""`scripts/check_ranks.py`: cases on several processes against the same on one."""

import pytest
from support.mpi import mpirun

from poisson.backends import gpu

SCRIPT = "scripts/check_ranks.py"
STRICT = """
import sys
sys.path.insert(0, "scripts")
import check_ranks
check_ranks.SAME["float64"] = -1.0
sys.exit(check_ranks.main(sys.argv[1:]))
"""


def test_cases_on_two_processes_are_as_on_one() -> None:
    done = mpirun(2, SCRIPT, "--backend=numpy", "cases/periodic_2d.toml", "cases/electrolyte.toml")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("same ")] == [
        "same  periodic_2d",
        "same  electrolyte",
    ]
    assert done.stdout.splitlines()[-1] == "2 processes: none off"


def test_what_is_off_is_said_and_is_the_exit_code() -> None:
    done = mpirun(2, "-c", STRICT, "--backend=numpy", "cases/periodic_2d.toml")
    assert done.returncode == 1
    assert done.stdout.startswith("OFF   periodic_2d\n")


@pytest.mark.gpu
@pytest.mark.parametrize("size", [2, 4])
def test_all_cases_on_gpus(size: int) -> None:
    if len(gpu.identities()) < size:
        pytest.skip(f"there are not {size} GPUs")
    done = mpirun(size, SCRIPT, "--backend=gpu", "--large", seconds=600.0)
    assert done.returncode == 0, done.stdout + done.stderr
