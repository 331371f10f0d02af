# SPDX-License-Identifier: MIT
"""Case files that are much too deep or too long: refused before they cost time or memory."""

import difflib
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.case_texts import GOOD_3D, case_of

from poisson.case import load, reading
from poisson.case.mistakes import MOST_SHOWN
from poisson.errors import CaseError

DEEP = "tables or lists are nested more than 8 deep"


def lines_of(text: str, folder: Path, *overrides: str) -> tuple[str, ...]:
    path = folder / "case.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CaseError) as caught:
        load(path, overrides)
    return caught.value.mistakes


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 10) + " = 1",
        " . ".join("a" * 10) + " = 1",
        ".".join(['"a.b"'] * 10) + " = 1",
        ".".join(["'a'"] * 10) + " = 1",
        "[" + ".".join("a" * 10) + "]",
        "[[" + ".".join("a" * 10) + "]]",
        "x = " + "[" * 10 + "]" * 10,
        "x = " + "{ a = " * 10 + "1" + " }" * 10,
        "x = [1, # ]\n" + "[" * 9 + "]" * 10,
        "x = { " + ".".join("a" * 10) + " = 1 }",
        'x = """\n"""\n' + ".".join("a" * 10) + " = 1",
        r'x = "\\"' + "\n" + ".".join("a" * 10) + " = 1",
        "x = '\\'\n" + ".".join("a" * 10) + " = 1",
    ],
)
def test_what_is_nested_too_deep_is_not_parsed(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tomllib.loads(text)
    monkeypatch.setattr(tomllib, "loads", lambda text: pytest.fail("parsed"))
    assert lines_of(text, tmp_path) == (f"'{tmp_path / 'case.toml'}': {DEEP}",)


@pytest.mark.parametrize(
    "text",
    [
        'title = "a.b.c.d.e.f.g.h.i.j.k.l [[[[[[[[[[[["',
        "title = 'a.b.c.d.e.f.g.h.i.j.k.l {{{{{{{{{{{{'",
        '"title" = "\\"[[[[[[[[[[[["',
        "# a.b.c.d.e.f.g.h.i.j.k.l [[[[[[[[[[[[\ntitle = 'x' # [[[[[[[[[[[[\n",
        'title = """a.b.c.d.e.f.g.h.i.j.k.l ""[[[[[[[[[[[[\\""" """""',
        "title = '''''[[[[[[[[[[[[ \"\"\" '''",
        "parameters = { a = 1.5, b = 2.5, c = 3.5, d = 1.5, f = 1.5, g = 1.5, h = 1.5, i = 1.5, j = 1.5 }",
        "[parameters] # [\na = 1.5 # [\nb = 1.5 # [\nc = 1.5 # [\nd = 1.5 # [\nf = 1.5\ng = 1.5\n",
    ],
)
def test_dots_and_brackets_that_nest_nothing_do_not_count(text: str, tmp_path: Path) -> None:
    # Tables stand last in the good case, so what is added at the top of it is a key of the file.
    path = tmp_path / "case.toml"
    path.write_text(f"{GOOD_3D}\n{text}", encoding="utf-8")
    assert load(path).problem.f == case_of(GOOD_3D).problem.f


def test_a_string_that_has_no_end_is_for_the_parser(tmp_path: Path) -> None:
    for text in ('"""' + "[" * 20, "x = '" + "[" * 20, 'x = "\\"' + "[" * 20, '\\"""\n' * 1000):
        [line] = lines_of(text, tmp_path)
        assert "is not TOML: " in line


def test_an_override_that_is_nested_too_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = ".".join("a" * 10)
    assert lines_of(GOOD_3D, tmp_path, f"{long}=1") == (f'--set "{long}=1": {DEEP}',)
    [line] = lines_of(GOOD_3D, tmp_path, ".".join("a" * 50_000) + "=1")
    assert line.endswith(f"...: {DEEP}")
    assert len(line) < 120
    parsed: list[str] = []
    loads = tomllib.loads
    monkeypatch.setattr(reading.tomllib, "loads", lambda text: parsed.append(text) or loads(text))
    value = "[" * 20
    assert lines_of(GOOD_3D, tmp_path, f"equation.f={value}") == (f'--set "equation.f={value}": {DEEP}',)
    assert len(parsed) == 1


@pytest.mark.parametrize("table", ["", "[solver]\n", "[parameters]\n", "[boundary.x_lower]\n"])
def test_thousands_of_wrong_keys_are_soon_refused(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was compared with all others, and searched for what it may mean: as many took 20 s."""
    searched: list[Any] = []
    search = difflib.get_close_matches
    monkeypatch.setattr(difflib, "get_close_matches", lambda *given, **named: searched.append(given) or search(*given))
    keys = 15_000
    text = "".join(f"key{number} = ''\n" for number in range(keys))
    base = GOOD_3D.replace("boundary =", "" if "boundary" in table else "boundary =")
    base = "equation = { f = 1.0 }\ndomain = { lower = [0], upper = [1], shape = [3] }\n" if table else base
    start = time.process_time()
    lines = lines_of(f"{base}\n{table}{text}" if table else f"{text}\n{base}", tmp_path)
    assert time.process_time() - start < 15.0
    assert len(lines) == MOST_SHOWN + 1
    assert lines[-1].startswith("and ")
    assert lines[-1].endswith(" more")
    assert keys - MOST_SHOWN <= int(lines[-1].split()[1]) <= keys + 4
    assert len(searched) <= 2 * MOST_SHOWN


def test_all_of_a_few_mistakes_are_shown(tmp_path: Path) -> None:
    for keys in (MOST_SHOWN, MOST_SHOWN + 1):
        lines = lines_of("".join(f"key{number} = 1\n" for number in range(keys)) + GOOD_3D, tmp_path)
        assert len(lines) == keys
    assert lines[-1] == "and 1 more"
