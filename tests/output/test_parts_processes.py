# SPDX-License-Identifier: MIT
"""One file from real processes of MPI: a limit of the system or a signal on one of them is one error of all."""

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.mpi import mpirun
from support.results import make_solution

from poisson.output import description, hdf5

PROGRAM = """
import os, resource, signal, sys, tempfile
import numpy as np
from dataclasses import replace
from mpi4py import MPI
from poisson.output import result
from poisson.parallel.mpi import MpiCommunicator
from support.results import make_solution, part_of

path, what, elsewhere, rank = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
comm = MpiCommunicator.of(MPI.COMM_WORLD)
solution = make_solution(3)
shape = solution.problem.lattice.array_shape
gradient = np.arange(3.0 * solution.u.size).reshape(*shape, 3)
part = part_of(replace(solution, fields={"gradient": gradient}), comm, (3, 1, 1))
tempfile.tempdir = elsewhere
write = os.pwrite

def killed(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    return write(*arguments)

if comm.rank == rank:
    if what == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    elif what == "signal":
        os.pwrite = killed
try:
    result.save(path, part)
    line = "saved"
except BaseException as error:
    line = f"{type(error).__name__}: {error}"
print(f"{line}\\n", end="", flush=True)
"""
LIMIT = (
    "the file is larger than the file system or the shell's limit (ulimit -f) allows; raise the limit or choose "
    "another place"
)


@pytest.mark.parametrize("what", ["nothing", "limit", "signal"])
def test_three_processes_write_one_file_or_none(tmp_path: Path, what: str, interruptible: None) -> None:
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    there.mkdir()
    elsewhere.mkdir()
    path = there / "a.h5"
    hdf5.write(path, make_solution(2))
    before = path.read_bytes()
    done = mpirun(3, "-c", PROGRAM, str(path), what, str(elsewhere), "2")
    assert (done.returncode, done.stderr) == (0, "")
    [line] = set(done.stdout.splitlines())
    assert len(done.stdout.splitlines()) == 3
    if what == "nothing":
        assert line == "saved"
        with h5py.File(path) as file:
            np.testing.assert_array_equal(file["u"], make_solution(3).u)
            np.testing.assert_array_equal(file["gradient"], np.arange(180.0).reshape(3, 4, 5, 3))
        assert description.describe(path).startswith(f"{path}: A test\n")
        assert sorted(os.listdir(there)) == ["a.h5", "a.xmf"]
        return
    assert path.read_bytes() == before
    assert os.listdir(there) == ["a.h5"]
    assert os.listdir(elsewhere) == []
    if what == "limit":
        assert line.startswith(f"OutputError: {path}: {LIMIT}; saving in the temporary folder failed, too (")
    else:
        assert line == "KeyboardInterrupt: "
