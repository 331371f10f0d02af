# SPDX-License-Identifier: MIT
"""Every command that a document quotes with its output prints that output.

Times, the machine and what rounding leaves are another each time; all else is compared: words, numbers, tables.
"""

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.places import ROOT

from poisson import backends, cli
from poisson.case.examples import SOURCE, write_source

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROMPT = "$ python -m poisson "
NOISE = 1e-8
"""Two numbers below this are what rounding or the tolerance leaves."""

MASKED = (
    (r"^(time|memory|backend) .*", r"\1 #"),
    (r"^(method .*?); .*", r"\1"),  # the expected time, or why there is none
    (r"(cycles would take) [\d.]+ times", r"\1 # times"),
)
"""What depends on the machine and the moment, and what stands for it."""


def quotes(text: str) -> Iterator[list[tuple[str, list[str]]]]:
    """The commands of every listing that quotes an output, with the lines that are said to follow."""
    for block in re.findall(r"^```(?:console|)\n(\$ .*?)^```$", text, re.MULTILINE | re.DOTALL):
        commands: list[tuple[str, list[str]]] = []
        for line in block.splitlines():
            if line.startswith(PROMPT):
                commands.append((line.removeprefix(PROMPT), []))
            else:
                commands[-1][1].append(line)
        if any(lines for _, lines in commands):
            yield commands


def masked(lines: Sequence[str]) -> list[list[str | float]]:
    """The words and numbers of every line that is not empty, without what depends on the machine."""
    found: list[list[str | float]] = []
    timed = False
    for line in lines:
        heading = line.endswith("solve s")
        timed = heading or (timed and line.startswith(("[", "---")))
        for pattern, instead in MASKED:
            line = re.sub(pattern, instead, line)
        if timed and not heading:
            line = re.sub(r"\s+\S+$", "", line)
        words = re.findall(r"\d+(?:\.\d+)?(?:e[+-]\d+)?|[^\s\d]+", re.sub(r"-{3,}", "---", line))
        if words:
            found.append([float(word) if word[0].isdigit() else word for word in words])
    return found


def same(said: Sequence[str | float], printed: Sequence[str | float]) -> bool:
    """Whether two lines say the same, numbers up to a hundredth where they are no integers."""
    if len(said) != len(printed):
        return False
    for one, other in zip(said, printed, strict=True):
        if isinstance(one, float) and isinstance(other, float):
            noise = max(abs(one), abs(other)) < NOISE
            close = one == other if one.is_integer() else abs(one - other) <= 0.01 * abs(one)
            if not (noise or close):
                return False
        elif one != other:
            return False
    return True


def missing(quoted: Sequence[str], printed: Sequence[str]) -> list[list[str | float]]:
    """The quoted lines that are not among the printed ones, in their order."""
    rest = iter(masked(printed))
    return [line for line in masked(quoted) if line != ["..."] and not any(same(line, other) for other in rest)]


QUOTING = {path.name: list(quotes(path.read_text("utf-8"))) for path in DOCUMENTS}
QUOTING = {name: found for name, found in QUOTING.items() if found}


@pytest.mark.parametrize("name", QUOTING)
def test_what_is_quoted_is_printed(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if next(info.name for info in backends.describe() if info.available) != "openmp":
        pytest.skip("the outputs are those of a CPU with the OpenMP library")
    pytest.importorskip("matplotlib")
    shutil.copytree(ROOT / "cases", tmp_path / "cases", ignore=shutil.ignore_patterns("*.h5"))
    write_source(tmp_path / "cases" / SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    text = (ROOT / name if name == "README.md" else ROOT / "docs" / name).read_text("utf-8")
    for file, case in re.findall(r"^```toml\n# (\w+\.toml)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        Path(file).write_text(case, "utf-8")
    for commands in QUOTING[name]:
        for command, lines in commands:
            capfd.readouterr()
            cli.main(shlex.split(command))
            out, err = capfd.readouterr()
            assert missing(lines, [*err.splitlines(), *out.splitlines()]) == [], (command, err + out)
            if "..." not in lines:
                assert missing(out.splitlines(), lines) == [], (command, "is printed and not quoted")


def test_documents_quote_outputs() -> None:
    assert {"README.md", "campaigns.md", "case-file.md", "commands.md", "running.md"} <= set(QUOTING)


def test_another_output_is_seen() -> None:
    quoted = ["a  11936  7.1e-05  ok", "time  0.1 s", "b"]
    assert missing(quoted, ["a  11936  7.12e-05  ok", "time  3 s: all", "x", "b"]) == []
    for other in (["a  15504  7.1e-05  ok", "b"], ["a  11936  9.7e-05  ok", "b"], ["a  11936  7.1e-05  no", "b"]):
        assert missing(quoted, ["time 1 s", *other]) != []
    assert missing(quoted, ["b", "a  11936  7.1e-05  ok", "time  0.1 s"]) != []


def documented_keys(heading: str) -> set[str]:
    """The keys in the first column of a table of docs/running.md."""
    text = (ROOT / "docs" / "running.md").read_text("utf-8")
    rows = text.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}


@pytest.mark.parametrize(
    ("heading", "commands"),
    [
        ("key of `solve --json`", ["solve CASE --profile", "solve CASE --resume"]),
        ("key of `verify --json`", ["verify CASE", "verify CASE --refine 2 --backend numpy"]),
        ("key of `info FILE --json`", ["solve CASE --profile --quiet", "info unit_square.h5"]),
        ("key of `check --json`", ["check CASE"]),
    ],
)
def test_the_keys_of_json_are_documented(
    heading: str,
    commands: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    keys: set[str] = set()
    for command in commands:
        case = (str(ROOT / "cases" / "unit_square.toml"), "--set", "domain.shape=[17,17]")
        words = [part for word in command.split() for part in (case if word == "CASE" else (word,))]
        capfd.readouterr()
        cli.main([*words, "--json"])
        if words[0] in heading:
            keys |= set(json.loads(capfd.readouterr().out))
    assert documented_keys(heading) == keys


def test_the_events_of_a_log_are_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = f"{ROOT}/cases/heated_square.toml"
    cli.main(["solve", case, "--set", "domain.shape=[9,9]", "--log", "a.log", "--quiet"])
    events: dict[str, set[str]] = {}
    for line in Path("a.log").read_text("utf-8").splitlines():
        event = json.loads(line)
        events.setdefault(event["event"], set()).update(event)
    text = (ROOT / "docs" / "running.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)`[^|]* \| (.*) \|$", text.partition("| `event` |")[2], re.MULTILINE))
    assert set(events) == set(rows) and "warning" in text
    for name in set(events) - {"end"}:
        assert set(re.findall(r"`(\w+)`", rows[name])) == events[name] - {"event", "elapsed"}, name
