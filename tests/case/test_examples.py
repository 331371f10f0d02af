# SPDX-License-Identifier: MIT
"""The cases that come with the package, and the command `new` that writes them.

Covers poisson.cli.starting.
"""

import os
import tomllib
from pathlib import Path

import pytest
from support.places import ROOT

import poisson
from poisson.case import examples, load
from poisson.cli import main
from poisson.output import files
from poisson.solvers.status import Status

NAMES = sorted(path.stem for path in (ROOT / "cases").glob("*.toml"))


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_new_case_can_be_solved_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "first"]) == 0
    assert capsys.readouterr() == ("first.toml written; to solve the case: python -m poisson solve first.toml\n", "")
    text = Path("first.toml").read_text("utf-8")
    assert text.startswith(f"{examples.EDITORS}\n")
    assert max(map(len, text.splitlines())) <= 120
    case = load("first.toml", ['run.backend="numpy"', "domain.shape=[33, 33]"])
    assert set(tomllib.loads(text)) == {*tomllib.loads(case.text)}
    assert (case.problem.title, case.output.file) == ("first", Path("first.h5"))
    solution = poisson.solve(case)
    assert solution.status is Status.CONVERGED and 0.0 < solution.u.max() < 1.0


def test_what_stands_in_its_comments_is_right() -> None:
    text = examples.template("first")
    for comment, line in {
        '# exact = "sin(pi*x)*sin(pi*y)"': 'exact = "sin(pi*x)*sin(pi*y)"',
        '# y = "periodic"': 'y = "periodic"',
        '# y = { stretch = "tanh", ratio = 10.0 }': 'y = { stretch = "tanh", ratio = 10.0 }',
        '# centring = "cell"': 'centring = "cell"',
        "# [[body]]": "[[body]]",
        '# inside = "hypot(x - 0.7, y - 0.5) < 0.1"': 'inside = "hypot(x - 0.7, y - 0.5) < 0.1"',
        "# dirichlet = 1.0": "dirichlet = 1.0",
        "x_upper = { neumann = 0.0 }": "x_upper = { robin = 1.0, alpha = 2.0 }",
        "all = { dirichlet = 0.0 }": 'all = { dirichlet = "exact" }',
        'f = "exp(-((x - x0)**2 + (y - y0)**2)/w**2)"': 'f = "exact"',
        'fields = ["u", "f"]': 'fields = ["a", "c", "residual", "error", "gradient", "flux", "E"]',
    }.items():
        assert text.count(comment) == 1
        text = text.replace(comment, line)
    Path("all.toml").write_text(text, "utf-8")
    assert load("all.toml").problem.exact is not None


def test_names_with_signs_of_toml_are_written_right(capsys: pytest.CaptureFixture[str]) -> None:
    name = 'a "b" \\c.d'
    assert main(["new", name]) == 0
    assert capsys.readouterr().out.endswith("python -m poisson solve 'a \"b\" \\c.d.toml'\n")
    case = load(f"{name}.toml")
    assert (case.problem.title, case.output.file) == (name, Path(f"{name}.h5"))


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_of_each_case_is_that_case(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "mine.toml", "--from", name]) == 0
    written = sorted(path.name for path in Path().iterdir())
    reads = name in ("source_from_file", "voxels")
    assert written == (["mine.toml", "source.h5"] if reads else ["mine.toml"])
    assert ("with source.h5, which the case reads" in capsys.readouterr().out) == reads
    tables = tomllib.loads((ROOT / "cases" / f"{name}.toml").read_text("utf-8"))
    if "file" in tables.get("output", {}):
        tables["output"]["file"] = "mine.h5"
    assert tomllib.loads(Path("mine.toml").read_text("utf-8")) == tables
    case = load("mine.toml", ['run.backend="numpy"'])
    assert case.output.file == Path("mine.h5")
    assert not reads or poisson.solve(case).status is Status.CONVERGED


def test_the_cases_are_listed_with_their_titles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == NAMES
    assert "capacitor               A capacitor with a slab of dielectric" in lines


@pytest.mark.parametrize("kept", ["a.toml", "source.h5", "dangling"])
def test_a_file_that_is_there_is_never_replaced(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    if kept == "dangling":
        os.symlink("nowhere", "a.toml")
    else:
        Path(kept).write_text("mine")
    assert main(["new", "a", "--from=source_from_file"]) == 2
    name = "a.toml" if kept == "dangling" else kept
    line = f"poisson: error: {name}: already exists; not overwritten; give another name\n"
    assert capsys.readouterr() == ("", line)
    assert os.listdir() == [name]
    assert kept == "dangling" or Path(kept).read_text() == "mine"


@pytest.mark.parametrize("linking", [True, False])
def test_nor_is_one_that_comes_in_between(linking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: str, target: str) -> None:
        raise OSError("no second names here")

    if not linking:
        monkeypatch.setattr(os, "link", link)
    path = Path("a")
    with files.drafted(path) as draft:
        draft.temporary.write_text("new")
        draft.add()
        assert path.read_text() == "new"
    path.write_text("mine")
    with pytest.raises(poisson.PoissonError, match=r"a: already exists"), files.drafted(path) as draft:
        draft.temporary.write_text("newer")
        draft.add()
    assert (os.listdir(), path.read_text()) == (["a"], "mine")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["new"], "new needs NAME, such as python -m poisson new first; see 'python -m poisson new --help'"),
        (["new", "a", "b"], "unexpected argument 'b'; new takes one NAME"),
        (["new", "a", "--from", "unit_sqare"], "--from unit_sqare: did you mean unit_square?"),
        (["new", "a", "--from", "cases/rod.toml"], "--from cases/rod.toml: did you mean rod?"),
        (["new", "a", "--from", "zzz"], f"--from zzz: choose from {', '.join(NAMES)}"),
        (["new", "a", "--list"], "--list takes no other arguments: python -m poisson new --list"),
        (["new", "../"], "new ../: not a valid file name"),
        (["new", ".toml"], "new .toml: not a valid file name"),
        (["new", "a\nb"], "new a\nb: a file name with characters that cannot be printed; choose another name"),
        (["new", "no/where"], "no/where.toml: the folder does not exist; create it or choose another place"),
        (["completion", "tcsh"], "completion tcsh; allowed: bash, zsh, fish"),
        (["schema", "x"], "unexpected argument 'x'; schema takes no arguments"),
    ],
)
def test_what_cannot_be_begun_is_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    first, *others = capsys.readouterr().err.splitlines()
    assert [first, *others] == [f"poisson: error: {each}" for each in line.splitlines()]
    assert os.listdir() == []


def test_an_installed_package_has_the_cases_in_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert examples.folder() == ROOT / "cases"
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "one.toml").write_text("")
    monkeypatch.setattr(examples, "_PACKAGE", tmp_path)
    assert list(examples.cases()) == ["one"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["scikit-build"]["wheel"]["packages"]["poisson/cases"] == "cases"
