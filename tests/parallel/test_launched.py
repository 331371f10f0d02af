# SPDX-License-Identifier: MIT
"""Whether a process was started alone or with others, and what is said where MPI does not see the others."""

import os
import subprocess
import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace

import pytest
from support.mpi import environment, mpirun
from support.places import ROOT

from poisson.errors import PackageMissing
from poisson.parallel.launched import Launch, LaunchError, launch, world

OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3", "PMIX_NAMESPACE": "x@1"}
HYDRA = {"PMI_SIZE": "4", "PMI_RANK": "3", "PMI_FD": "7"}
SLURM = {"SLURM_NTASKS": "4", "SLURM_PROCID": "3"}


@pytest.mark.parametrize(
    "variables",
    [
        OPEN_MPI,
        HYDRA,
        SLURM | {"PMI_FD": "7"},
        SLURM | {"PMIX_NAMESPACE": "slurm.pmix.1.0"},
        # mpirun within a batch job of one task, and srun with a variable left over from elsewhere
        OPEN_MPI | {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"},
        SLURM | {"PMI_FD": "7", "OMPI_COMM_WORLD_SIZE": "9"},
    ],
)
def test_a_launcher_is_known_by_what_it_leaves_in_the_environment(variables: Mapping[str, str]) -> None:
    assert launch(variables) == Launch(3, 4)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OMPI_COMM_WORLD_SIZE": "4"},
        {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"},
        {"PMI_SIZE": "4", "PMI_RANK": "0"},
        {"PMIX_RANK": "0"},
        # a batch script of several tasks that starts the program itself
        SLURM,
        OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"},
        OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "many"},
        OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "4"},
        OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "-1"},
        OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": ""},
    ],
)
def test_a_variable_that_was_set_by_mistake_does_not_make_a_run_one_of_several(variables: Mapping[str, str]) -> None:
    assert launch(variables) is None


def test_a_missing_package_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(PackageMissing) as missing:
        world(Launch(1, 4))
    assert (
        str(missing.value) == "started with 4 processes, and mpi4py is missing: in the checkout, pip install '.[mpi]'"
    )


def test_a_package_without_an_mpi_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("mpi4py")
    package.rc = SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mpi4py", package)
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    with pytest.raises(
        LaunchError, match=r"^mpi4py finds no MPI \(.*\): install an MPI, or load the module of an MPI$"
    ):
        world(Launch(1, 4))


WORLD = """
import sys
from poisson.parallel.launched import LaunchError, launch, world
launched = launch()
assert "mpi4py" not in sys.modules
try:
    comm = world(launched)
except LaunchError as error:
    print(error)
else:
    print(comm.rank == launched.rank, comm.size == launched.size)
"""


def test_mpirun_starts_processes_that_find_each_other() -> None:
    done = mpirun(2, "-c", WORLD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n" * 2, "")


def test_a_launcher_of_another_mpi_is_found_out() -> None:
    pytest.importorskip("mpi4py")
    done = subprocess.run(
        [sys.executable, "-c", WORLD],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={name: value for name, value in environment().items() if "PMI" not in name} | HYDRA,
    )
    assert done.stdout.startswith("started with 4 processes, and MPI sees 1: mpi4py uses Open MPI"), done.stderr
    assert done.stdout.endswith("; take its mpirun, or install mpi4py for the MPI that started them\n")


def test_these_tests_are_not_started_by_a_launcher() -> None:
    assert launch(os.environ) is None
