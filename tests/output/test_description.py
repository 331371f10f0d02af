# SPDX-License-Identifier: MIT
"""`info` on results in any state: a description or one line, never a crash, a halt or what could steer a terminal."""

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.forked import Forks
from support.places import ROOT
from support.results import make_solution

from poisson import apart
from poisson.cli import main
from poisson.errors import OutputError
from poisson.output import description, hdf5
from poisson.output.record import OperationUse, Performance

PERFORMANCE = Performance((OperationUse("sweep", 3, 0.1, 1e9, 1e9, "5x4"),), 1e10, 1000)
MANY = {f"key{number}": "text" * 20 for number in range(60)}
EDITED = "the attributes do not match their checksum: the file was edited or is damaged"


def damaged(good: bytes, seed: int) -> bytes:
    """Bytes changed, cut off, blanked, scrambled or copied to another place."""
    draw, content = random.Random(seed), bytearray(good)
    start, length = draw.randrange(len(good)), draw.choice([1, 8, 64, 512, 4096])
    part = slice(start, min(start + length, len(good)))
    match seed % 6:
        case 0:
            for _ in range(draw.choice([1, 4, 20])):
                content[draw.randrange(len(good))] = draw.randrange(256)
        case 1:
            del content[start:]
        case 2:
            content[part] = bytes(part.stop - start)
        case 3:
            content[start] ^= 1 << draw.randrange(8)
        case 4:
            content[part] = draw.randbytes(part.stop - start)
        case _:
            source = draw.randrange(len(good) - length)
            content[part] = good[source : source + part.stop - start]
    return bytes(content)


# In a process of its own: the library may crash, and does so at the end at the latest.
MANY_FILES = """
import json, signal, sys
from pathlib import Path
from poisson.errors import OutputError
from poisson.output.description import describe
for path in sorted(Path(sys.argv[1]).glob("*.h5")):
    signal.alarm(20)
    try:
        answer = ["text", describe(path).split(":", 1)[1]]
    except OutputError as error:
        answer = ["error", str(error).removeprefix(f"{path}: ")]
    print(json.dumps([int(path.stem), *answer]), flush=True)
"""


@pytest.mark.parametrize(
    "solution",
    [
        make_solution(3),
        make_solution(2, "float32", performance=PERFORMANCE),
        make_solution(1, provenance=MANY, error=None),
    ],
    ids=["3D", "2D", "1D"],
)
def test_every_damage_is_one_line_and_none_of_the_values_goes_unnoticed(
    forked: Forks, tmp_path: Path, solution: object
) -> None:
    whole = tmp_path / "whole" / "a.h5"
    whole.parent.mkdir()
    hdf5.write(whole, solution)  # type: ignore[arg-type]
    good, text = whole.read_bytes(), description.describe(whole).split(":", 1)[1]
    count = 120
    for seed in range(count):
        (tmp_path / f"{seed:04}.h5").write_bytes(damaged(good, seed))
    done = forked.run(MANY_FILES, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [seed for seed, *_ in answers] == list(range(count))
    kinds = {"same": 0, "warning": 0, "damaged": 0, "other": 0}
    for seed, kind, answer in answers:
        assert all(character.isprintable() or character == "\n" for character in answer), seed
        if kind == "text":
            # Not noticed is only what no byte of the description comes from.
            assert answer == text or EDITED in answer, seed
            kinds["same" if answer == text else "warning"] += 1
        else:
            assert "\n" not in answer
            kinds["damaged" if answer.startswith("the file is damaged (") else "other"] += 1
    assert kinds["damaged"] > count / 3 and kinds["same"] >= 5


def test_a_heap_without_an_end(tmp_path: Path) -> None:
    """The library would go round in it for ever, which neither `info` nor a new solve may."""
    path = tmp_path / "a.h5"
    hdf5.write(path, make_solution(3))
    content = bytearray(path.read_bytes())
    second = content.index(b"GCOL") + 16 + 16 + 8
    content[second : second + 16] = bytes(16)
    path.write_bytes(content)
    with pytest.raises(OutputError, match=r"a\.h5: the file is damaged \(a heap of strings has no end\); solve the "):
        description.describe(path)
    assert not hdf5.is_result(path)


@pytest.mark.parametrize("name", ["u", "f", "x", "convergence/residual"])
def test_one_changed_bit_of_any_values_is_damage_to_every_reader(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.h5"
    hdf5.write(path, make_solution(3))
    with h5py.File(path) as file:
        chunk = file[name].id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset + chunk.size // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(OutputError, match=r"a\.h5: the file is damaged \(the values do not match their checksum\); "):
        description.describe(path)
    with h5py.File(path) as file, pytest.raises(OSError, match="filter returned failure"):
        file[name][...]


def test_texts_cannot_steer_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    solution = make_solution(2, provenance={"backend": "\x1b]0;evil\x07", "host": "a\nb\u202ec", "device": "x" * 5000})
    hdf5.write(path, replace(solution, problem=replace(solution.problem, title="\x1b[31mred\r\n\x9b2J")))
    text = description.describe(path)
    lines = text.splitlines()
    assert lines[0] == f"{path}: \ufffd[31mred \ufffd2J"
    assert ["backend", "\ufffd]0;evil\ufffd"] in [line.split() for line in lines]
    assert ["host", "a", "b\ufffdc"] in [line.split() for line in lines]
    assert all(len(line) < 1100 for line in lines)
    assert all(character.isprintable() or character == "\n" for character in text)


def test_an_edited_text_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    hdf5.write(path, make_solution(2))
    with h5py.File(path, "a") as file:
        file.attrs["title"] = "another"
        file["mine"] = np.ones(3)
    lines = description.describe(path).splitlines()
    assert lines[0] == f"{path}: another"
    assert lines[1].split(maxsplit=1) == ["warning", EDITED]
    assert "mine" not in "".join(lines)


def test_a_locked_result_is_not_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.h5"
    hdf5.write(path, make_solution(2))
    with h5py.File(path, "a", locking=True):
        assert main(["info", str(path)]) == 2
    message = f"poisson: error: {path}: locked by another program; close the file there\n"
    assert capsys.readouterr() == ("", message)
    assert main(["info", str(path)]) == 0


def test_what_is_no_file_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe.h5"
    os.mkfifo(path)
    with pytest.raises(OutputError) as caught:
        description.describe_apart(path)
    assert str(caught.value) == f"{path}: it is a pipe, not a file; copy the data into one"
    hdf5.write(tmp_path / "a.h5", make_solution(2))
    for name in ("f", "convergence"):
        with h5py.File(tmp_path / "a.h5", "a") as file:
            del file[name]
            file[name] = h5py.ExternalLink(str(path), "/f")
        with pytest.raises(OutputError, match=rf"the file is damaged \(.*is a link to another file, '{path}'"):
            description.describe_apart(tmp_path / "a.h5")


@pytest.mark.parametrize("how", ["crash, SIGSEGV", "no end", "no answer"])
def test_the_process_that_reads_may_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    path = tmp_path / "a.h5"
    hdf5.write(path, make_solution(2))

    def end(*arguments: object) -> None:
        raise apart.Lost(how)

    monkeypatch.setattr(apart, "call", end)
    with pytest.raises(OutputError) as caught:
        description.describe_apart(path)
    reason = f"the HDF5 library fails: {how}"
    assert str(caught.value) == f"{path}: the file is damaged ({reason}); solve the case again"


def test_info_needs_no_path_to_the_package(tmp_path: Path) -> None:
    """In a checkout that is not installed the package is found in the current folder, which then leaves the path."""
    path = tmp_path / "a.h5"
    hdf5.write(path, make_solution(2))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "poisson", "info", str(path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: A test\n")


def test_the_convergence_is_that_of_the_second_half() -> None:
    """Where what converges slowest is left."""
    sweeps = np.arange(0, 80, 10)
    norms = np.where(sweeps < 40, 0.5**sweeps, 0.5**40 * 0.9 ** (sweeps - 40.0))
    line = description._rate_for_people(description._rate(sweeps, norms))
    assert line == "a factor of 0.9 per iteration, 21.85 iterations per decimal digit"
    assert description._rate(sweeps[:1], norms[:1]) is None
    assert description._rate_for_people(None) == "too few residual norms to tell"
    assert description._rate_for_people(description._rate(sweeps, norms[::-1])) == "the residual does not fall"
    assert description._rate_for_people(0.0) == "a factor of 0 per iteration"
