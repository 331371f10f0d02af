# SPDX-License-Identifier: MIT
"""The pages for users: every listing of a tutorial or a how-to page runs, and the site has every page.

Covers poisson.
"""

import inspect
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.places import ROOT
from test_documents import TAUGHT
from test_interface import members as members_of

import poisson
from poisson import cli
from scripts import site_links

DOCS = ROOT / "docs"
PLACEHOLDER = "https://example.org/"
INTERNAL = {
    "Problem": {"cuts", "even", "open_faces", "separable", "coarser", "guess", "having", "varies"},
    "Solver": {"backend", "direct", "keep_on", "ledger", "local_backend", "of", "operator"},
    "Status": {"goes_on"},
}
"""Members of public classes that other modules of the package use, and that are not meant for users."""
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


def test_the_api_page_lists_every_public_name_and_the_members_for_users() -> None:
    text = (DOCS / "api.md").read_text("utf-8")
    listed = re.findall(r"^::: poisson\.(\w+)\n(?:    options:\n      members: \[(.*)\]\n)?", text, re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(poisson.__all__)
    for name, members in listed:
        kind = getattr(poisson, name)
        if not inspect.isclass(kind):
            continue
        own = {member.partition(".")[2] for member, _ in members_of(kind)}
        assert set(members.split(", ")) - {""} == own - INTERNAL.get(name, set()), name
        assert INTERNAL.get(name, set()) <= own, name


def test_the_address_of_the_repository_stands_in_one_place() -> None:
    """In the table of pyproject.toml, from which the site takes it; while it is a placeholder, this test says so."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    assert set(table) == {"Repository", "Issues"} and table["Issues"] == f"{table['Repository']}/issues"
    if not (ROOT / ".git").exists():
        pytest.skip("the files of the repository are not known")
    found = subprocess.run(
        ["git", "grep", "--untracked", "--files-with-matches", "--fixed-strings", table["Repository"]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["pyproject.toml"]
    if table["Repository"].startswith(PLACEHOLDER):
        pytest.xfail(
            "the address of the repository is a placeholder: put the real one into pyproject.toml, project.urls"
        )


def test_the_site_links_to_the_repository_and_its_issues() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert [ROOT / path for path in config["hooks"]] == [Path(site_links.__file__)]
    assert all((DOCS / path).is_file() for path in config["extra_css"])
    changed = site_links.on_config(dict(config))
    assert changed["repo_url"] == site_links.URLS["Repository"]
    assert changed["nav"][-1] == {"Project": [{name: address} for name, address in site_links.URLS.items()]}
    assert changed["nav"][:-1] == config["nav"]
    home = site_links.on_page_markdown((DOCS / "index.md").read_text("utf-8"), page=None)
    assert f"git clone {changed['repo_url']} poisson" in home and "pip install ." in home
