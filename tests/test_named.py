# SPDX-License-Identifier: MIT
"""The names in messages: the option, the file, the field, the signal that a message is about."""

import errno
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.case_texts import GOOD
from support.places import ROOT
from support.results import make_solution

import poisson
from poisson import plain
from poisson.case import examples
from poisson.cli import main
from poisson.errors import CaseError, ExpressionError, OutputError
from poisson.output import files
from poisson.problem.expressions import parse
from poisson.solvers.status import Status


def test_a_folder_that_takes_no_files_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /proc, which answers that there is no such file where one is to be made."""
    wrong = FileNotFoundError(errno.ENOENT, "No such file or directory")
    monkeypatch.setattr(files, "_create", lambda target: (_ for _ in ()).throw(wrong))
    with pytest.raises(OutputError, match=r"x\.h5: the folder takes no new files; choose another place$"):
        files.check_space(tmp_path / "x.h5", 10)
    with pytest.raises(OutputError, match="the folder does not exist; create it"):
        files.check_space(tmp_path / "none" / "x.h5", 10)


def test_a_file_that_is_missing_names_the_most_similar_one(tmp_path: Path) -> None:
    for name in ("channel.toml", "channel.h5", "plates.toml"):
        (tmp_path / name).write_bytes(b"")
    assert plain.nearest(tmp_path / "chanel.toml") == f"; did you mean {str(tmp_path / 'channel.toml')!r}?"
    assert plain.nearest(tmp_path / "chanel.h5") == f"; did you mean {str(tmp_path / 'channel.h5')!r}?"
    assert plain.nearest(tmp_path / "a.toml") == plain.nearest(tmp_path / "none" / "channel.toml") == ""
    with pytest.raises(CaseError, match=r"no case file .*chanel.toml'; did you mean .*channel.toml'"):
        poisson.load_case(tmp_path / "chanel.toml")
    with pytest.raises(OutputError, match=r"chanel.h5: no such file; did you mean .*channel.h5'"):
        poisson.load(tmp_path / "chanel.h5")


def test_the_hdf5_library_keeps_the_names_of_its_variables(tmp_path: Path) -> None:
    whole = tmp_path / "a.h5"
    poisson.solve(poisson.Problem.on_box((9, 9), f=1.0)).save(whole)
    (tmp_path / "cut.h5").write_bytes(whole.read_bytes()[:500])
    with pytest.raises(OutputError, match=r"damaged \(truncated: 500 of \d+ bytes are left\); solve the case again"):
        poisson.load(tmp_path / "cut.h5")
    assert plain.of_library("Unable to open object (object 'x' doesn't exist)") == "object 'x' doesn't exist"
    assert plain.of_library("Can't read data (H5Z_filter_deflate() failed)") == "its structure is not that of HDF5"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["solve", "a.toml", "--backend", "cuda"], "--backend: \"cuda\"; allowed: .*; did you mean 'gpu'?"),
        (["solve", "a.toml", "--set=run.backend=cuda"], "--set run.backend: \"cuda\"; .*; did you mean 'gpu'?"),
        (["solve", "a.toml", "-o", "a.vtk"], '--output: "a.vtk"; allowed: a path that ends in .h5 or .hdf5'),
    ],
)
def test_a_mistake_names_the_option_that_was_given(
    words: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(GOOD)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert re.fullmatch("poisson: error: " + re.escape(line).replace(r"\.\*", ".*") + "\n", said), said


@pytest.mark.parametrize("text", ["x if x < 0.5 else 1", "if x < 0.5", "x ? 1"])
def test_a_choice_in_an_expression_is_where(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"column \d; write where\(condition, a, b\) for a choice$"):
        parse(text, 2)


def test_what_a_function_of_the_caller_raises_names_the_field() -> None:
    def wrong(x: Any, y: Any) -> Any:
        raise ZeroDivisionError("division by zero")

    def solved(**given: Any) -> None:
        poisson.solve(poisson.Problem.on_box((9, 9), **given), backend="numpy")

    for name, given in {
        "equation.f": {"f": wrong},
        "equation.a": {"a": wrong},
        "equation.c": {"c": wrong},
        "run.initial": {"initial": wrong},
        "boundary.x_lower": {"boundary": {"x_lower": wrong, "all": 0.0}},
        "boundary.y_upper.alpha": {"boundary": {"y_upper": {"robin": 1.0, "alpha": wrong}, "all": 0.0}},
    }.items():
        with pytest.raises(CaseError) as caught:
            solved(**given)
        assert str(caught.value) == f"{name}: the function fails with ZeroDivisionError: division by zero"
        causes = [caught.value.__cause__, caught.value.__cause__ and caught.value.__cause__.__cause__]
        assert any(isinstance(cause, ZeroDivisionError) for cause in causes)


def test_lists_are_arrays() -> None:
    values = [[float(x * y) for x in range(5)] for y in range(4)]
    given: dict[str, Any] = {"a": [[2.0] * 5] * 4, "boundary": {"x_lower": [1.0, 2.0, 3.0, 4.0], "all": 0.0}}
    one = poisson.solve(poisson.Problem.on_box((5, 4), f=values, **given))
    other = poisson.solve(poisson.Problem.on_box((5, 4), f=np.array(values), **given))
    assert one.u.tobytes() == other.u.tobytes() and one.u[1, 0] == 2.0
    again = poisson.Solver(poisson.Problem.on_box((5, 4), **given)).solve(f=values)
    assert again.u.tobytes() == one.u.tobytes()
    with pytest.raises(CaseError, match=r"^f: lists of different lengths; allowed: lists of one length at each depth$"):
        poisson.Problem.on_box((5, 4), f=[[1.0], [1.0, 2.0]])
    with pytest.raises(CaseError, match=r"^f: an array without real numbers"):
        poisson.Problem.on_box((5, 4), f=[["a"] * 5] * 4)


def test_a_field_that_was_not_asked_for_says_how() -> None:
    solution = poisson.solve(poisson.Problem.on_box((9, 9), f=1.0), fields=("E",))
    with pytest.raises(KeyError) as caught:
        solution.fields["residual"]
    assert isinstance(caught.value, poisson.PoissonError)
    assert str(caught.value).startswith(
        "fields['residual']: not computed (the solution has u, E); ask for it with fields="
    )
    with pytest.raises(KeyError, match=r"fields\['gradent'\]: no such field; there are u, f, a, c, residual"):
        solution.fields["gradent"]
    assert solution.fields.get("residual") is None and set(solution.fields) == {"E"}
    assert pickle.loads(pickle.dumps(solution)).fields.keys() == {"E"}


def test_a_signal_is_named() -> None:
    solution = make_solution(2, status=Status.INTERRUPTED)
    assert solution.advice == "stopped before the end; u is the last complete iterate"
    for name, by in {"SIGTERM": "the signal SIGTERM", "SIGINT": "Ctrl-C"}.items():
        ended = replace(solution, provenance={"signal": name})
        assert ended.advice == f"stopped by {by}; u is the last complete iterate"


def test_a_new_case_has_no_path_of_this_machine() -> None:
    for text in (examples.template("first"), *(examples.copy(name, "mine") for name in examples.cases())):
        assert "file://" not in text and str(ROOT) not in text and text.startswith("# For completion in an editor: ")
