# SPDX-License-Identifier: MIT
"""Random inputs of every kind, some hundreds with fixed seeds; and their watch, who must notice what they may do.

What holds for each is in scripts/fuzz_targets.py.
"""

import logging
from pathlib import Path
from random import Random

import fuzz
import fuzz_targets
import numpy as np
import pytest
from fuzz_inputs import expression
from fuzz_targets import TARGETS, Defect, attempt, require_lines

from poisson.errors import ExpressionError
from poisson.problem.expressions import parse

COUNTS = {
    "case_file": 100,
    "case_tables": 100,
    "expression": 150,
    "npy_field": 100,
    "command_line": 60,
    "tuning": 60,
    "solve": 20,
}
"""Of what reads in this process."""
APART = {"hdf5_field": 14, "result": 10, "loaded": 10, "compared": 5, "resumed": 1}
"""Three times so many of what a library reads that a file may bring down: in a process that is watched."""


def test_every_target_has_inputs_here() -> None:
    assert set(COUNTS) | set(APART) == set(TARGETS)


@pytest.mark.parametrize("name", COUNTS)
def test_no_input_is_a_defect(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is said of each input is no warning of these tests.
    monkeypatch.setattr(logging, "lastResort", None)
    outcomes = set()
    with np.errstate(all="ignore"):
        for seed in range(COUNTS[name]):
            try:
                outcomes.add(attempt(name, seed, tmp_path))
            except Exception as error:
                raise AssertionError(f"python scripts/fuzz.py --again={name}:{seed}") from error
    assert len(outcomes) > 1, outcomes


def test_no_file_of_hdf5_is_a_defect() -> None:
    turns = ",".join(name for name, count in APART.items() for _ in range(count))
    count = 3 * sum(APART.values())
    found = fuzz.watch(turns, range(count))
    assert found.defects == []
    assert set(found.outcomes) == {"accepted", "refused", "resumed", "the_same"}
    assert found.outcomes.total() == count


def reason(text: str) -> str:
    """Why a text is refused, or nothing."""
    try:
        parse(text, 3, {"k": 2.5})
    except ExpressionError as error:
        return str(error)
    return ""


def test_texts_of_the_grammar_are_read() -> None:
    reasons = [reason(expression(Random(seed), 4)) for seed in range(200)]
    assert reasons.count("") > 100
    assert [text for text in reasons if text and not text.endswith("which is not a finite number")] == []


@pytest.mark.parametrize("lines", [[], [""], ["a\nb"], ["\x1b[31m"], ["x" * 10_000]])
def test_a_message_that_is_no_line_is_a_defect(lines: list[str]) -> None:
    with pytest.raises(Defect):
        require_lines(lines)
    require_lines(["∇²u = 0; allowed: 1"])


SCRIPT = """
import os, sys, time
sys.path[:0] = [{scripts!r}, {root!r}]
import fuzz, fuzz_targets
kept = []
def target(draw, folder):
    what = {{"3": "halt", "5": "raise", "7": "crash"}}.get(str(number[0]), "accepted")
    number[0] += 1
    kept.append(bytes([1]) * (2 << 20))
    if what == "crash":
        os.abort()
    if what == "halt":
        time.sleep(60)
    if what == "raise":
        raise ValueError("a line\\nand another")
    return what
number = [int(sys.argv[3])]
fuzz_targets.TARGETS["{name}"] = (target, 1.0)
fuzz.work("{name}", int(sys.argv[3]), int(sys.argv[4]))
"""


def test_the_watch_notices_a_crash_a_halt_a_traceback_and_growth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "fuzz.py"
    scripts = Path(fuzz_targets.__file__).parent
    script.write_text(SCRIPT.format(scripts=str(scripts), root=str(scripts.parent), name="planted"), "utf-8")
    monkeypatch.setattr(fuzz, "__file__", str(script))
    # However slow the machine is: of the first there is no other end, and the others have time.
    found = fuzz.watch("planted", range(3, 4), patience=1.0)
    assert found.defects == [(3, "no end within 1 s")]
    found = fuzz.watch("planted", range(4, 40))
    assert found.outcomes == {"crash": 1, "defect": 1, "accepted": 34}
    (first, raised), (second, crash), (_, growth) = found.defects
    assert (first, second) == (5, 7)
    assert raised.rstrip().endswith("ValueError: a line\nand another")
    assert "ended with -6" in crash
    assert growth.startswith("the memory of the process has grown by ")
