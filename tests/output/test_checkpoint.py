# SPDX-License-Identifier: MIT
"""Which file a solve goes on from: the newest that is whole, as a process of its own finds."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from support.problems import SINE, WALLS, make_case

import poisson
from poisson.errors import OutputError
from poisson.output import checkpoint, hdf5
from poisson.solvers.status import Status


@pytest.fixture(scope="module")
def solution() -> poisson.Solution:
    case = make_case(SINE, WALLS, (9, 7))
    return replace(poisson.solve(case), status=Status.UNFINISHED)


def write(folder: Path, solution: poisson.Solution, *iterations: int) -> Path:
    for number in iterations:
        hdf5.write(checkpoint.path_of(folder / "a.h5", number), replace(solution, iterations=number))
    return folder / "a.h5"


def test_they_stand_beside_the_result_by_their_iterations(tmp_path: Path) -> None:
    file = tmp_path / "runs.of" / "a[1].hdf5"
    file.parent.mkdir()
    assert checkpoint.path_of(file, 12000) == file.parent / "a[1].checkpoint-12000.hdf5"
    for name in (
        "a[1].checkpoint-9.hdf5",
        "a[1].checkpoint-10.hdf5",
        "a1.checkpoint-11.hdf5",
        "a[1].checkpoint-x.hdf5",
    ):
        (file.parent / name).touch()
    assert [path.name for path in checkpoint.beside(file)] == ["a[1].checkpoint-10.hdf5", "a[1].checkpoint-9.hdf5"]
    assert checkpoint.beside(tmp_path / "no folder" / "a.h5") == []


def test_where_the_newest_is_damaged_the_one_before_is_taken(
    tmp_path: Path, solution: poisson.Solution, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path, solution, 20, 30, 100)
    damaged, cut = checkpoint.path_of(file, 100), checkpoint.path_of(file, 30)
    content = bytearray(damaged.read_bytes())
    place = content.find(solution.u.tobytes()[80:96])
    assert place > 0
    content[place] ^= 1
    damaged.write_bytes(content)
    cut.write_bytes(cut.read_bytes()[:-500])
    with caplog.at_level(logging.INFO, "poisson"):
        saved = checkpoint.newest(file, solution.case_text)
    assert saved is not None
    assert (saved.path, saved.iterations, saved.complete) == (checkpoint.path_of(file, 20), 20, False)
    assert (saved.history, saved.target) == (solution.history, solution.target)
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in said[:2]] == [str(damaged), str(cut)]
    assert all("the file is damaged" in line for line in said[:2])
    assert said[2] == f"resumed from {saved.path} after 20 iterations"


def test_texts_that_were_edited_are_damage(tmp_path: Path, solution: poisson.Solution) -> None:
    file = checkpoint.path_of(write(tmp_path, solution, 20), 20)
    content = file.read_bytes()
    assert content.count(b"sin(pi*x)*sin(pi*y)")
    file.write_bytes(content.replace(b"sin(pi*x)*sin(pi*y)", b"sin(pi*y)*sin(pi*x)"))
    with pytest.raises(OutputError, match="damaged"):
        checkpoint.load(file)


def test_only_ours_are_removed(tmp_path: Path, solution: poisson.Solution) -> None:
    file = write(tmp_path, solution, 20, 30)
    other = checkpoint.path_of(file, 25)
    other.write_text("somebody's own")
    checkpoint.remove(file, but_for=(checkpoint.path_of(file, 30),))
    assert sorted(tmp_path.iterdir()) == [other, checkpoint.path_of(file, 30)]


def test_a_result_that_is_complete_clears_its_own_checkpoints(tmp_path: Path, solution: poisson.Solution) -> None:
    """A run that is killed between its result and their removal leaves them."""
    file = write(tmp_path, solution, 20)
    other = checkpoint.path_of(file, 30)
    text = solution.case_text.replace("9", "11")
    hdf5.write(other, replace(solution, iterations=30, case_text=text))
    hdf5.write(file, replace(solution, status=Status.CONVERGED))
    saved = checkpoint.newest(file, solution.case_text)
    assert saved is not None and saved.complete
    assert sorted(tmp_path.iterdir()) == [other, file]
