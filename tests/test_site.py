# SPDX-License-Identifier: MIT
"""The pages for users: every listing of a tutorial or a how-to page runs, and the site has every page.

Covers poisson.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.places import ROOT
from test_documents import TAUGHT

from poisson import cli

DOCS = ROOT / "docs"
RUN = [path for path in sorted(DOCS.glob("*.md")) if path.name.startswith(TAUGHT)]
"""Pages whose listings are run, in their order and in one folder for each page."""


def listings(text: str) -> Iterator[tuple[str, str]]:
    """The language and the text of every fenced block."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", RUN, ids=lambda path: path.stem)
def test_every_listing_runs(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cases").symlink_to(ROOT / "cases")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, text in listings(page.read_text("utf-8")):
        if language == "toml":
            first = text.partition("\n")[0]
            assert re.fullmatch(r"# \w+\.toml", first), "the first line names the file"
            Path(first[2:]).write_text(text, "utf-8")
        elif language == "python":
            exec(compile(text, str(page), "exec"), names)
        else:
            assert language == "console"
            for line in text.splitlines():
                assert line.startswith("$ python -m poisson "), line
                capfd.readouterr()
                assert cli.main(shlex.split(line)[4:]) == 0, (line, capfd.readouterr().err)


def pages(part: Any) -> Iterator[str]:
    """The files of a navigation."""
    if isinstance(part, str):
        yield part
    else:
        for each in part.values() if isinstance(part, dict) else part:
            yield from pages(each)


def test_the_site_has_every_page_once() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    assert sorted(pages(navigation)) == sorted(path.name for path in DOCS.glob("*.md"))


def test_pages_link_to_nothing_outside_of_the_site() -> None:
    outside = [
        (path.name, link) for path in DOCS.glob("*.md") for link in re.findall(r"\]\((\.\./[^)]+)\)", path.read_text())
    ]
    assert outside == []
