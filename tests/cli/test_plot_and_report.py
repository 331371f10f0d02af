# SPDX-License-Identifier: MIT
"""`plot` and `report`: what they write where, and what they refuse.

Covers poisson.cli.pictures and poisson.output.report.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.results import make_solution

import poisson
from poisson import cli
from poisson.case.settings import Units
from poisson.errors import PackageMissing
from poisson.output.pictures import drawing
from poisson.output.record import OperationUse, Performance
from poisson.problem.problem import Problem
from poisson.run.solution import Solution

pytest.importorskip("matplotlib")

PNG = b"\x89PNG"


@pytest.fixture(autouse=True)
def _no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    pyplot.switch_backend("agg")


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "a.h5"
    problem = Problem.on_box((9, 8), f=0.0, boundary={"all": {"dirichlet": "x*y"}}, exact="x*y")
    poisson.solve(problem, "jacobi", "numpy", fields=("f",)).save(path)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.parametrize(
    ("words", "name"),
    [([], "a_u.png"), (["--field", "f"], "a_f.png"), (["--error"], "a_error.png"), (["--history"], "a_history.png")],
)
def test_a_picture_stands_beside_the_result(
    result: Path, capsys: pytest.CaptureFixture[str], words: list[str], name: str
) -> None:
    assert cli.main(["plot", str(result), *words]) == 0
    assert capsys.readouterr() == (f"no display; picture written to {result.parent / name}\n", "")
    assert (result.parent / name).read_bytes().startswith(PNG)
    assert sorted(os.listdir(result.parent)) == sorted(["a.h5", "a.xmf", name])


def test_a_picture_where_it_is_wanted(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form, start in {"svg": b"<?xml", "pdf": b"%PDF", "PNG": PNG}.items():
        assert cli.main(["plot", "a.h5", "--slice=y=0", "--save", f"b.{form}"]) == 0
        assert Path(f"b.{form}").read_bytes().startswith(start)
    assert capsys.readouterr().out == "picture written to b.svg\npicture written to b.pdf\npicture written to b.PNG\n"


def test_colours_that_are_asked_for(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from poisson.output.pictures.picture import Picture

    drawn: list[Any] = []
    monkeypatch.setattr(Picture, "shown", lambda self: bool(drawn.append(self)) or True)
    assert cli.main(["plot", "a.h5", "--log", "--range", "-0.5,1", "--cmap=magma"]) == 0
    [image] = drawn[0].axes[0].get_images()
    assert (image.get_clim(), image.get_cmap().name, type(image.norm).__name__) == ((-0.5, 1.0), "magma", "SymLogNorm")


def test_a_picture_in_a_window_is_not_written(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from poisson.output.pictures.picture import Picture

    monkeypatch.setattr(Picture, "shown", lambda self: True)
    assert cli.main(["plot", "a.h5", "--vectors", "--lines"]) == 0
    assert sorted(os.listdir()) == ["a.h5", "a.xmf"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["plot"], "plot needs FILE; see 'python -m poisson plot --help'"),
        (["plot", "no.h5"], "no.h5: no such file; check the name"),
        (["plot", "a.h5", "--field", "E"], "the solution has no field 'E'; its fields are u, f, error"),
        (["plot", "a.h5", "--range", "1,0"], "range: 1,0; allowed: two finite numbers LO,HI with LO less than HI"),
        (["plot", "a.h5", "--cmap", "virdis"], "cmap: 'virdis'; did you mean viridis"),
        (["plot", "a.h5", "--history", "--log"], "--log cannot be combined with --history; leave --log out"),
        (["plot", "a.h5", "--slice", "z=1"], "slice: 'z'; allowed: x, y, such as y=0.5714"),
        (["plot", "a.h5", "--save", "a.h5"], "--save a.h5; allowed: a name that ends in .png, .svg or .pdf"),
        (["plot", "a.h5", "--save", "no/a.png"], "no/a.png: the folder does not exist; create it or "),
        (
            ["plot", "a.h5", "--error", "--history"],
            "--field, --error and --history exclude one another; give only one of them",
        ),
        (["plot", "a.h5", "--history", "--lines"], "--lines cannot be combined with --history; leave --lines out"),
        (["report", "a.h5", "--save", "a.xmf"], "--save a.xmf; allowed: a name that ends in .html"),
        (["report", "a.xmf"], "a.xmf: not an HDF5 file; give a result of 'poisson solve'"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    result: Path, capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    before = result.read_bytes()
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"poisson: error: {line}") and err.count("\n") == 1
    assert result.read_bytes() == before and sorted(os.listdir()) == ["a.h5", "a.xmf"]


@pytest.mark.parametrize(
    ("words", "package", "line"),
    [
        (["plot", "a.h5"], "matplotlib", "plot needs matplotlib: pip install matplotlib"),
        (["report", "a.h5"], "jinja2", "report needs jinja2 and matplotlib: pip install jinja2 matplotlib"),
    ],
)
def test_what_is_not_installed_is_named(
    result: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    package: str,
    line: str,
) -> None:
    for name in list(sys.modules):
        if name.startswith(("poisson.output.pictures.", "poisson.output.report", package)):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert cli.main(words) == 2
    assert capsys.readouterr() == ("", f"poisson: error: {line}\n")


def test_a_setting_of_matplotlib_that_is_wrong_is_one_line() -> None:
    wrong = "Key backend: 'none such' is not a valid value for backend"
    with (
        pytest.raises(PackageMissing, match=f"^plot: matplotlib cannot be loaded: {wrong}$"),
        drawing("plot", "matplotlib"),
    ):
        raise ValueError(wrong)


# ---- reports

WILD = '<script>alert(1)</script> & "quotes" </title>'


class Page(HTMLParser):
    """The elements of a page, the addresses in it and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href", "action", "data")]
        assert not any(name.startswith("on") for name, _ in attributes)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def wild_solution(**changes: Any) -> Solution:
    solution = make_solution(2, case_text=f'title = "{WILD}"\n', provenance={"host": WILD, "method": WILD}, **changes)
    return replace(solution, problem=replace(solution.problem, title=WILD))


def test_a_report_holds_all_and_runs_nothing_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    path = tmp_path / "a.h5"
    performance = Performance((OperationUse("sweep", 3, 0.5, 2e9, 1e9, "5x4"),), 1e10, 1000)
    wild_solution(performance=performance).save(path)
    assert cli.main(["report", str(path)]) == 0
    assert capsys.readouterr().out == f"report written to {tmp_path / 'a.html'}\n"
    text = (tmp_path / "a.html").read_text("utf-8")
    page = Page(text)
    assert page.open == [] and not {"script", "link", "iframe", "object"} & set(page.tags)
    assert page.tags.count("title") == 1 and page.text.count(WILD) >= 4
    # u, f, the field lines, the history and the error
    assert len(page.addresses) == page.tags.count("img") == 5
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    assert "http:" not in text and "https:" not in text and "url(" not in text
    for part in ("Converged", "0.25 (rms)", "sweep", "copy, 10 GB/s", "4", "time, solve", "1.25e-09 (rms)"):
        assert part in page.text
    assert "default-src 'none'" in text


def test_a_report_has_units_and_captions_and_no_curve_of_one_point() -> None:
    pytest.importorskip("jinja2")
    from poisson.output.report import page

    units = Units("m", "V")
    vectors = {"E": np.ones((3, 4, 5, 3)), "f": np.ones((3, 4, 5))}
    text = page(make_solution(3, units=units, fields=vectors, history=((1, 3e-12),), iterations=1, residual=3e-12))
    found = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    views = ", on three planes and as surfaces of one value"
    assert found == [
        f"solution u, in V{views}",
        f"the length of the field strength -grad u, in V/m{views}",
        f"source f, in V/m^2{views}",
        f"solution u, in V{views}, with field lines",
    ]
    assert "its rms norm at the end is 3e-12 V/m^2." in text and "0.25 V (rms)" in text
    curve = page(make_solution(2, units=units))
    assert (
        "<figcaption>rms norm of the residual over the iterations, in V/m^2; broken: the target</figcaption>" in curve
    )
    assert "<figcaption>u - exact, in V</figcaption>" in curve


def test_a_report_of_a_solve_that_failed_and_knows_little(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    from poisson.output.report import page
    from poisson.solvers.status import Status

    solution = make_solution(1, error=None, fields={}, history=(), times={}, provenance={}, case_text="")
    text = page(replace(solution, status=Status.DIVERGED, u=np.full(5, np.nan)))
    for part in (
        "Not converged",
        "Too few residual norms",
        "gives no exact solution",
        "were not timed",
        "was given in Python",
    ):
        assert part in text


def test_a_browser_shows_a_report(tmp_path: Path) -> None:
    """In headless Chromium, where there is one: it finds the elements, and runs no script of a title."""
    pytest.importorskip("jinja2")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("there is no Chromium")
    from poisson.output.report import page

    path = tmp_path / "a.html"
    wild = "<script>document.body.innerHTML = 'run'</script><img src=x onerror=\"document.title='run'\">"
    solution = make_solution(2, case_text=wild)
    path.write_text(page(replace(solution, problem=replace(solution.problem, title=wild))), "utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0
    shown = Page(done.stdout)
    assert "script" not in shown.tags and "Machine and provenance" in shown.text and wild in shown.text
    assert shown.tags.count("img") == 5
