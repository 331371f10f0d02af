# SPDX-License-Identifier: MIT
"""The file that keeps the measured shapes of kernels."""

import dataclasses
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_tuning import DEVICE, OPERATOR, START, TABLE, Scripted

from poisson.backends.gpu import tuned
from poisson.backends.gpu.shapes import Shape
from poisson.backends.gpu.tuned import Measured, Setting, measured_on, read, size_class, write
from poisson.errors import OutputError
from poisson.perf import autotune
from poisson.perf.autotune import Search, keep, tune_device


@pytest.mark.parametrize(
    ("nodes", "name"),
    [
        (9, "2^3"),
        (741_455, "2^18"),
        (741_456, "2^21"),
        (4096**2, "2^24"),
        (4097**2, "2^24"),
        (512**3, "2^27"),
        (16384**2, "2^27"),
        (1024**3, "2^30"),
    ],
)
def test_size_classes(nodes: int, name: str) -> None:
    assert size_class(nodes) == name


def put(text: str) -> None:
    DEVICE.path.parent.mkdir(parents=True, exist_ok=True)
    DEVICE.path.write_text(text, "utf-8")


def test_what_is_written_is_read() -> None:
    assert read(DEVICE) == {}
    put(write(TABLE, DEVICE))
    assert read(DEVICE) == TABLE
    for other in ({"name": "b"}, {"driver": "1.3"}, {"kernels": "0124"}):
        assert read(dataclasses.replace(DEVICE, **other)) == {}


def test_kernels_are_read_for_their_digest_only_where_something_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []
    monkeypatch.setattr(tuned, "digest", lambda: asked.append(None) or DEVICE.kernels)
    runtime: Any = SimpleNamespace(name=DEVICE.name, driver=DEVICE.driver)
    assert measured_on(runtime) == {} and not asked
    put(write(TABLE, DEVICE))
    assert measured_on(runtime) == TABLE and asked


def test_the_folder_is_the_users_cache_unless_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(tuned.FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tuned.folder() == tmp_path / "poisson"
    monkeypatch.setenv(tuned.FOLDER_VARIABLE, str(tmp_path / "mine"))
    assert tuned.folder() == tmp_path / "mine"


def changed(**changes: Any) -> str:
    """The text of a file whose first shape is changed."""
    content = json.loads(write(TABLE, DEVICE))
    shapes = content["measured"][-1]["shapes"]
    shapes["sweep"] |= changes
    return json.dumps(content)


def top(**changes: Any) -> str:
    return json.dumps(json.loads(write(TABLE, DEVICE)) | changes)


FOREIGN = "measured with another device, driver or version"
DAMAGED = [
    ("", "Expecting value: line 1 column 1 (char 0)"),
    ("[]", "list indices must be integers or slices, not str"),
    ("null", "'NoneType' object is not subscriptable"),
    (write(TABLE, DEVICE)[:-4], "Expecting ',' delimiter"),
    (top(device="another"), FOREIGN),
    (top(driver="1.3"), FOREIGN),
    (top(kernels="0"), FOREIGN),
    (top(format=2), FOREIGN),
    (top(measured=[{}]), "'type'"),
    (top(measured=[7]), "'int' object is not subscriptable"),
    (changed(march=0), "sweep: march = 0"),
    (changed(march=2.0), "sweep: march = 2.0"),
    (changed(march=True), "sweep: march = True"),
    (changed(march=1 << 40), "sweep: march = 1099511627776"),
    (changed(more=1), "the shape of sweep is not complete"),
    (changed(block_y=1024), "sweep: no kernel has the shape"),
    (changed(block_x=48, block_y=1), "sweep: no kernel has the shape"),
    (write(TABLE, DEVICE).replace('"laplacian"', '"biharmonic"'), "there is no kernel 'biharmonic'"),
    (write(TABLE, DEVICE).replace("2026-03-04", "yesterday"), "Invalid isoformat string: 'yesterday'"),
]


@pytest.mark.parametrize(("text", "reason"), DAMAGED)
def test_a_damaged_or_foreign_file_is_ignored_with_one_line(
    text: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(text)
    assert read(DEVICE) == {}
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"{DEVICE.path}: ignored ({reason}")
    assert record.getMessage().endswith("); 'python -m poisson tune' makes a new one")
    assert "\n" not in record.getMessage()


def test_a_file_that_cannot_be_read_is_passed_over_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    DEVICE.path.mkdir(parents=True)
    assert read(DEVICE) == {}
    DEVICE.path.rmdir()
    DEVICE.path.write_bytes(b"\xff\xfe{")
    assert read(DEVICE) == {}
    assert [message.partition(" (")[0] for message in caplog.messages] == [f"{DEVICE.path}: cannot be read"] * 2


# ---- keeping what was found
def found(kind: str, best: Shape | None) -> Search:
    return Search(kind, START, best=best, before=1.0, after=0.5)


def test_what_is_found_is_added_to_the_file() -> None:
    setting, other = Setting("float64", 2, "2^24"), Setting("float64", 2, "2^9")
    put(write(TABLE, DEVICE))
    keep(DEVICE, setting, [found("sweep", Shape(128, 1, 4)), found("laplacian", None)])
    today = datetime.now(UTC).date().isoformat()
    table = read(DEVICE)
    assert table[setting] == Measured(today, {"sweep": Shape(128, 1, 4), "laplacian": START})
    assert table[other] == TABLE[other]
    keep(DEVICE, other, [found("sweep", None)])
    assert read(DEVICE)[other].shapes == {"sweep": START}
    assert [path.name for path in DEVICE.path.parent.iterdir()] == [DEVICE.path.name]


def test_a_damaged_file_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    put("{")
    keep(DEVICE, Setting("float64", 2, "2^9"), [found("sweep", START)])
    assert list(read(DEVICE)) == [Setting("float64", 2, "2^9")]
    assert len(caplog.records) == 1


def test_a_folder_that_cannot_be_made_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(tuned.FOLDER_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(
        OutputError, match=rf"^{tmp_path}/file/cache: .* \(Not a directory\); set .* POISSON_CACHE_DIR$"
    ):
        keep(DEVICE, Setting("float64", 2, "2^9"), [found("sweep", START)])
    # And before anything is measured.
    monkeypatch.setattr(autotune, "copy_bandwidth", lambda backend: pytest.fail("measured"))
    with pytest.raises(OutputError, match=r"POISSON_CACHE_DIR$"):
        tune_device(Scripted(lambda shape: 1.0), [OPERATOR])
