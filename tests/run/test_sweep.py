# SPDX-License-Identifier: MIT
"""Sweeps: the combinations and their names, what is solved and what is kept, failures, orders, interruptions.

Covers poisson.case.variations, poisson.cli.sweeping and poisson.case.differences.
"""

import csv
import itertools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import poisson
from poisson.backends.registry import backend_names
from poisson.case import load
from poisson.case.differences import differences
from poisson.case.variations import MOST, values_of, variations
from poisson.cli import main
from poisson.errors import CaseError, FileChoice, OutputError
from poisson.output.checkpoint import Saved
from poisson.output.hdf5 import text_checksum
from poisson.output.locks import reserved
from poisson.output.table import Report
from poisson.run import run, sweep
from poisson.run.interrupts import EndedBySignal
from poisson.run.sweep_figure import axis_key, draw

WRITE_PLOT = Report.write_plot
METHODS = ("fft", "multigrid", "cg", "chebyshev", "jacobi", "sor")
CASE = """
equation = { f = "pi**2*sin(pi*x)", exact = "sin(pi*x)" }
domain = { lower = [0], upper = [1], shape = [9] }
boundary = { all = { dirichlet = 0.0 } }
run = { backend = "numpy" }
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(CASE, "utf-8")
    # A picture takes longer than all the rest.
    monkeypatch.setattr(Report, "write_plot", lambda self, path: Path(path).touch())


def rows_of(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> list[dict[str, Any]]:
    assert main(["sweep", "a.toml", "--json", *words]) == code
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


# ---- combinations and names
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1", ["1"]),
        ("[65,65],[129, 129]", ["[65,65]", "[129, 129]"]),
        ('"a,b", c', ['"a,b"', "c"]),
        ("'a,\\', b", ["'a,\\'", "b"]),
        ('"a\\",b",c', ['"a\\",b"', "c"]),
        ("max(x, y), sin(x)", ["max(x, y)", "sin(x)"]),
        ('{ file = "a,b.npy" },0', ['{ file = "a,b.npy" }', "0"]),
        ("a,,b,", ["a", "", "b", ""]),
        ("[1,2", ["[1,2"]),
    ],
)
def test_values_are_apart_at_commas_outside_brackets_and_quotes(text: str, parts: list[str]) -> None:
    assert values_of(text) == parts


def test_every_combination_comes_once_the_last_key_changing_fastest() -> None:
    found = variations("a.toml", ["domain.shape=[5],[9]", "solver.method=cg,jacobi", "solver.rtol=1e-4"])
    assert [list(each.values.values()) for each in found] == [
        [[5], "cg", 1e-4],
        [[5], "jacobi", 1e-4],
        [[9], "cg", 1e-4],
        [[9], "jacobi", 1e-4],
    ]
    assert found[1].overrides == ("domain.shape=[5]", "solver.method=jacobi", "solver.rtol=1e-4")
    assert [each.name for each in found[:2]] == [
        "a_shape=5_method=cg_rtol=0.0001",
        "a_shape=5_method=jacobi_rtol=0.0001",
    ]


def test_names_are_fit_for_files_and_different_for_different_values() -> None:
    texts = ['"sin(pi*x)"', '"sin(pi+x)"', '"/"', '"1.5"', "1.5", "-1.5", '"x"', f'"{"x+" * 90}1"', f'"{"x+" * 90}2"']
    names = [each.name for each in variations("a.toml", [f"equation.f={','.join(texts)}"])]
    assert len(set(names)) == len(texts)
    assert all(len(name.encode()) < 200 and "/" not in name and name.isprintable() for name in names)
    assert "a_f=1.5" in names and "a_f=-1.5" in names and "a_f=x" in names
    Path("ä" * 120 + ".toml").write_text(CASE, "utf-8")
    [long, other] = [each.name for each in variations("ä" * 120 + ".toml", ["solver.rtol=1e-4,1e-5"])]
    assert long != other and len(long.encode()) < 200 and long.startswith("äää")
    alike = ["boundary.x_lower.dirichlet=1", "boundary.x_upper.dirichlet=2"]
    assert variations("a.toml", alike)[0].name == "a_x_lower.dirichlet=1_x_upper.dirichlet=2"


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (["solver.rtol"], '--set "solver.rtol"; allowed: KEY=VALUE,VALUE,..., as in solver.rtol=1e-4,1e-8'),
        (["solver.rtol=1e-4,"], "--set solver.rtol=1e-4,: a value is missing next to a comma or at the end"),
        (["solver.rtol="], "--set solver.rtol=: a value is missing next to a comma or at the end"),
        (["solver.rtol=1e-4,1e-3,0.0001"], "--set solver.rtol: 0.0001 is given twice; give it once"),
        (
            ["solver.rtol=1e-4", "solver.rtol=1e-3"],
            "--set solver.rtol is given twice; write its values in one, as solver.rtol=VALUE,VALUE",
        ),
        (
            ["domain.shape=[9],[2]"],
            "--set domain.shape: [2]; allowed: 1, 2 or 3 integers >= 3, in the order x(, y(, z))",
        ),
        (
            [
                *(f"run.threads={','.join(map(str, range(101)))}", f"solver.pre={','.join(map(str, range(65)))}"),
                "solver.post=1,2",
            ],
            f"13130 combinations; at most {MOST} in one sweep: take fewer values",
        ),
    ],
)
def test_settings_that_nobody_can_mean_are_refused(settings: list[str], line: str) -> None:
    with pytest.raises(CaseError) as error:
        variations("a.toml", settings)
    assert error.value.mistakes == (line,)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["a.toml"], "sweep needs --set KEY=VALUE,VALUE,... such as --set solver.method=jacobi,multigrid"),
        (
            ["a.toml", "--set=output.file=b.h5"],
            "--set output.file=b.h5: sweep names the result files; set their folder with --folder",
        ),
        (["a.toml", "--set=solver.rtol=1", "--folder="], "--folder is empty; give the name of a folder"),
        (["b.toml", "--set=solver.rtol=1"], "no case file 'b.toml'"),
        (
            ["a.toml", "--backend=numpy,gup"],
            f"--backend gup; allowed: {', '.join(backend_names())}; did you mean 'gpu'?",
        ),
        (
            ["a.toml", "--set=equation.f=1+,2+"],
            "--set equation.f: \"1+\"; the expression ends after '+'; a number or a name must follow",
        ),
        (
            ["a.toml", "--set=run.threads=0", "--folder=a.toml"],
            "a.toml: a file, not a folder; choose another folder with --folder",
        ),
    ],
)
def test_bad_input_is_one_line_before_anything_runs(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *words]) == 2
    assert capsys.readouterr() == ("", f"poisson: error: {line}\n")
    assert os.listdir() == ["a.toml"]


# ---- what is solved
def test_a_sweep_solves_every_combination_into_a_file_and_tells_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Report, "write_plot", WRITE_PLOT)
    assert main(["sweep", "a.toml", "--set", "domain.shape=[9],[17],[33]", "--set=solver.method=fft,cg"]) == 0
    out, err = capsys.readouterr()
    assert '3/6  domain.shape=[17] solver.method="fft"' in err
    title, _, heading, _, *lines = out.splitlines()
    assert title == "a: 6 combinations of domain.shape, solver.method"
    assert heading.split()[:3] == ["shape", "method", "status"] and "order" in heading
    assert len(lines) == 7
    assert lines[-1] == (
        "results in a-sweep/; this table with more columns in a-sweep/sweep.csv, its figure in a-sweep/sweep.png"
    )
    names = [f"a_shape={nodes}_method={method}" for nodes in (9, 17, 33) for method in ("fft", "cg")]
    files = {f"{name}{end}" for name in names for end in (".h5", ".xmf")} | {"sweep.csv", "sweep.png"}
    assert set(os.listdir("a-sweep")) == files
    with open("a-sweep/sweep.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["domain.shape"] for row in rows] == ["[9]"] * 2 + ["[17]"] * 2 + ["[33]"] * 2
    for row in rows:
        with h5py.File(row["file"]) as file:
            assert file["u"].shape == (int(row["domain.shape"].strip("[]")),)
            provenance = file["provenance"].attrs
            assert provenance["method"].split()[0] == row["solver.method"] == row["method_used"]
            assert float(row["error_rms"]) == provenance["error_rms"]
            assert float(row["seconds"]) == provenance["seconds_solve"]
    orders = [row["order"] for row in rows]
    assert orders[:2] == ["", ""]
    assert [float(order) for order in orders[2:]] == pytest.approx([2.0] * 4, abs=0.05)
    assert Path("a-sweep/sweep.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_there_is_kept_and_what_is_not_of_the_case_is_solved_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--set", "domain.shape=[9],[17]", "--folder", "deep/er"]
    first = rows_of(capsys, *words)
    assert [row["kept"] for row in first] == [False, False]
    again = rows_of(capsys, *words)
    assert [row["kept"] for row in again] == [True, True]
    assert [{**row, "kept": False} for row in again] == first
    assert [row["kept"] for row in rows_of(capsys, "--set=domain.shape=[17],[33]", "--folder=deep/er")] == [True, False]
    # As in another folder, whose name stands in the case of a result.
    os.rename("deep", "other")
    assert [row["kept"] for row in rows_of(capsys, words[0], words[1], "--folder=other/er")] == [True, True]

    Path("a.toml").write_text(CASE.replace("pi**2*sin", "2*sin").replace(', exact = "sin(pi*x)"', ""), "utf-8")
    assert [row["kept"] for row in rows_of(capsys, *words)] == [False, False]
    assert main(["sweep", "a.toml", "--set=domain.shape=[9]", "--set=solver.rtol=1e-6,1e-7", "--folder=deep/er"]) == 0
    capsys.readouterr()
    with h5py.File("deep/er/a_shape=9_rtol=1e-06.h5", "r+") as file:
        file.attrs["status"] = "interrupted"
    Path("deep/er/a_shape=9_rtol=1e-07.h5").write_bytes(b"")
    assert main(["sweep", "a.toml", "--set=domain.shape=[9]", "--set=solver.rtol=1e-6,1e-7", "--folder=deep/er"]) == 0
    said = capsys.readouterr().err
    assert "a_shape=9_rtol=1e-06.h5 will be solved again: the attributes do not match their checksum" in said
    assert "a_shape=9_rtol=1e-07.h5 will be solved again" in said


def test_results_of_an_older_source_are_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("f.npy", np.ones(9))
    Path("a.toml").write_text(CASE.replace('"pi**2*sin(pi*x)", exact = "sin(pi*x)"', '{ file = "f.npy" }'), "utf-8")
    words = ["--set=solver.method=fft"]
    assert [row["kept"] for row in (*rows_of(capsys, *words), *rows_of(capsys, *words))] == [False, True]
    later = os.stat("a-sweep/a_method=fft.h5").st_mtime + 10
    os.utime("f.npy", (later, later))
    assert [row["kept"] for row in rows_of(capsys, *words)] == [False]


def test_failures_are_rows_with_their_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set=equation.a=1,1+x", "--set=solver.method=fft,jacobi", "--set=solver.max_iterations=3"]
    os.mkdir("a-sweep")
    kept = Path("a-sweep/a_a=1_method=fft_max_iterations=3.h5")
    kept.write_text("mine")
    rows = rows_of(capsys, *words, code=1)
    assert [row["status"] for row in rows] == ["failed", "max_iterations", "refused", "max_iterations"]
    assert kept.read_text() == "mine"
    assert "already exists and is not a result of poisson; not overwritten" in rows[0]["reason"]
    assert rows[1]["reason"].startswith("the limit on iterations was reached first")
    assert rows[2]["reason"].startswith('--set solver.method: "fft"; allowed: ')
    assert [row["file"] is None for row in rows] == [True, False, True, False]
    assert main(["sweep", "a.toml", *words, "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert (
        out == "" and len([line for line in err.splitlines() if line.startswith("poisson: warning: equation.a=")]) == 4
    )
    assert main(["sweep", "a.toml", *words]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "2 of 4 already solved; skipped" in lines
    assert sum(line.startswith("equation.a=") for line in lines) == 4


class Presses:
    """An observer that sends a signal once, after ten iterations."""

    def __init__(self, number: int) -> None:
        self._left = [number]

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        """Nothing is to be noted."""

    def __call__(self, iteration: int, norm: float) -> None:
        if iteration >= 10 and self._left:
            os.kill(os.getpid(), self._left.pop())


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_tells_what_is_there_and_goes_on(
    begun: bool, number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    """From the iterate that was written, if there is one."""
    whole: Callable[..., poisson.Solution] = run.go_on
    solved: list[tuple[int, int]] = []

    def pressed(case: Any, saved: Saved | None, **named: Any) -> poisson.Solution:
        nodes, first = case.problem.lattice.shape[0], len(solved) == 1
        solved.append((nodes, saved.iterations if saved else 0))
        if nodes == 17 and first and not begun:
            raise EndedBySignal(number)
        if nodes == 17 and first:
            named["observer"] = Presses(number)
        return whole(case, saved, **named)

    monkeypatch.setattr(run, "go_on", pressed)
    words = ["sweep", "a.toml", "--set=domain.shape=[9],[17],[33]"]
    words += ["--set=solver.method=jacobi", "--set=solver.check_every=5"]
    assert main(words) == 128 + number
    lines = capsys.readouterr().out.splitlines()
    there = 2 if begun else 1
    assert f"interrupted: {there} of 3 solved; run the same command again to continue" in lines
    assert sum(" interrupted " in line for line in lines) == begun
    assert main(words) == 0
    assert "1 of 3 already solved; skipped" in capsys.readouterr().out
    assert [nodes for nodes, _ in solved] == [9, 17, 17, 33]
    assert [iterations > 0 for _, iterations in solved] == [False, False, begun, False]
    with h5py.File("a-sweep/a_shape=17_method=jacobi_check_every=5.h5") as file:
        assert file.attrs["status"] == "converged"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_sweep_that_is_interrupted_at_once_leaves_everything_as_it_was(
    number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: Any, **__: Any) -> poisson.Solution:
        raise EndedBySignal(number)

    monkeypatch.setattr(run, "go_on", pressed)
    assert main(["sweep", "a.toml", "--set=solver.method=fft", "--quiet"]) == 128 + number
    assert capsys.readouterr() == ("", "poisson: interrupted before the first solve ended\n")
    assert os.listdir("a-sweep") == []


def test_a_table_that_cannot_be_written_is_printed_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Report, path: str) -> None:
        raise OutputError(f"{path}: the disk is full; choose another place", FileChoice.PLACE)

    monkeypatch.setattr(Report, "write_csv", full)
    assert main(["sweep", "a.toml", "--set=solver.method=fft"]) == 2
    out, err = capsys.readouterr()
    line = "a-sweep/sweep.csv: the disk is full; choose another place with --folder"
    assert err.splitlines()[-1] == f"poisson: error: {line}"
    assert "converged" in out and out.endswith("results in a-sweep/\n")


def test_a_second_sweep_of_a_folder_and_a_solve_into_it_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a-sweep").mkdir()
    with reserved("a-sweep/sweep.csv", "sweep"):
        assert main(["sweep", "a.toml", "--set=solver.method=fft"]) == 2
        line = "a-sweep: another thread of this process is writing there; wait for its end, or choose another"
        assert capsys.readouterr().err == f"poisson: error: {line} place with --folder\n"
        assert not Path("a-sweep/sweep.csv").exists()
    with reserved("a-sweep/a_method=fft.h5"):
        [row] = rows_of(capsys, "--set=solver.method=fft", code=1)
        assert row["status"] == "failed" and "another thread of this process is writing there" in row["reason"]
    assert [row["status"] for row in rows_of(capsys, "--set=solver.method=fft")] == ["converged"]
    assert sorted(os.listdir("a-sweep")) == ["a_method=fft.h5", "a_method=fft.xmf", "sweep.csv", "sweep.png"]


def test_an_interrupted_result_of_another_case_is_no_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set=solver.method=jacobi"]
    [row] = rows_of(capsys, *words)
    with h5py.File(row["file"], "r+") as file:
        file.attrs["status"] = "interrupted"
        file.attrs["text_checksum"] = text_checksum(file)
    Path("a.toml").write_text(CASE.replace("pi**2*sin", "2*sin").replace(', exact = "sin(pi*x)"', ""), "utf-8")
    assert main(["sweep", "a.toml", *words]) == 0
    assert "the checkpoint belongs to another case" in capsys.readouterr().err
    with h5py.File(row["file"]) as file:
        assert file.attrs["status"] == "converged"


# ---- parts
def test_orders_are_observed_between_grids_that_are_refined_alike() -> None:
    def row(nodes: list[int], spacing: tuple[float, ...], error: float | None, **others: Any) -> sweep.Row:
        return sweep.Row({"domain.shape": nodes, **others}, "converged", spacing=spacing, error_rms=error)

    rows = [
        row([5, 5], (0.25, 0.25), 0.16),
        row([9, 9], (0.125, 0.125), 0.04),
        row([17, 9], (0.0625, 0.125), 0.03),
        row([33, 33], (0.03125, 0.03125), 0.0025),
        row([33, 33], (0.03125, 0.03125), 0.01, k=1),
        row([65, 65], (0.015625, 0.015625), None),
    ]
    assert [each.order and round(each.order, 9) for each in sweep.with_orders(rows)] == [
        *(None, 2.0, None, 2.0, None, None)
    ]


def test_the_keys_at_which_cases_differ_are_found() -> None:
    one = load("a.toml").text
    other = load(
        "a.toml", ["solver.rtol=1e-5", "boundary.x_lower={ neumann = 1 }", "equation.exact=x", "output.file=b.h5"]
    )
    found = differences(one, other.text, ("output.file",))
    assert found == {
        "equation.exact": ('"sin(pi*x)"', '"x"'),
        "boundary.x_lower": ("{ dirichlet = 0.0 }", "{ neumann = 1.0 }"),
        "solver.rtol": ("1e-08", "1e-05"),
    }
    assert differences(one, one) == {}
    assert differences("a = 1", "[b]\nc = 2") == {"a": ("1", None), "b.c": (None, "2")}


def test_the_figure_has_a_line_for_each_combination_of_the_other_keys() -> None:
    def row(nodes: int, method: str, seconds: float) -> sweep.Row:
        values = {"solver.method": method, "domain.shape": [nodes, nodes]}
        return sweep.Row(values, "converged", Path("a.h5"), residual=1e-9, seconds=seconds)

    rows = [row(nodes, method, 0.1 * nodes) for method in ("cg", "fft") for nodes in (9, 17)]
    rows.append(sweep.Row({"solver.method": "sor", "domain.shape": [9, 9]}, sweep.FAILED))
    assert axis_key(rows) == "domain.shape"
    figure = Figure()
    draw(figure, rows)
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["method = cg", "method = fft"]
    np.testing.assert_allclose(right.lines[0].get_xydata(), [[9, 0.9], [17, 1.7]])
    assert (left.get_ylabel(), right.get_xscale()) == ("residual", "log")
    assert [label.get_text() for label in right.get_xticklabels()] == ["9²", "17²"]
    by_method = [row(9, method, 1.0) for method in ("cg", "fft")]
    assert axis_key(by_method) == "solver.method"
    figure = Figure()
    draw(figure, by_method)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["cg", "fft"]
    assert {line.get_linestyle() for line in figure.axes[0].lines} == {"None"}


def drawn(rows: list[sweep.Row]) -> Figure:
    """The figure of a sweep, as large as in its file, after it was drawn."""
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure, rows)
    figure.canvas.draw()
    return figure


SWEPT = {
    "grids": [({"domain.shape": [n, n]}, 0.4 / n**2, 1e-9, 1e-6 * n**2) for n in (17, 33, 65, 129, 257)],
    "boxes": [({"domain.shape": [n, 2 * n, n]}, 0.4 / n**2, 1e-9, 1e-7 * n**3) for n in (17, 33, 65, 129, 257, 513)],
    "tolerances": [({"solver.rtol": 10.0**-k}, None, 0.8 * 10.0**-k, 0.01 * k) for k in range(2, 13)],
    "twenty": [({"parameters.k": 0.5 * k}, None, 1e-9 * (1 + k % 3), 0.02 + 0.001 * k) for k in range(20)],
    "methods": [({"solver.method": name}, 1.0041e-4 + 1e-9 * k, 1e-9, 3.0**k) for k, name in enumerate(METHODS)],
    "texts": [({"equation.f": f"{k}*exp(-(x - 0.5)**2/{k}**2) + y"}, None, 10.0**-k, 0.1) for k in range(20)],
    "two keys": [
        ({"domain.shape": [n, n], "solver.method": name}, None, 1e-9, 1e-6 * n**2)
        for n in (33, 65, 129)
        for name in METHODS
    ],
    "one": [({"domain.shape": [65, 65]}, 1e-4, 1e-9, 0.003)],
}


@pytest.mark.parametrize("name", SWEPT)
def test_the_ticks_of_the_figure_can_be_read(name: str) -> None:
    """Each axis has two labels at least, but for a key of one value, and none of them runs into another one."""
    rows = [
        sweep.Row(values, "converged", Path("a.h5"), residual=37.0, relative=residual, error_rms=error, seconds=seconds)
        for values, error, residual, seconds in SWEPT[name]
    ]
    figure = drawn(rows)
    left, right = figure.axes
    quality = "rms error" if rows[0].error_rms is not None else "relative residual"
    words = name in ("methods", "texts")
    assert (left.get_xlabel() if words else left.get_ylabel()) == quality
    for axes in (left, right):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            labels = [tick.label1 for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_text()]
            if axes is right and words and axis is axes.yaxis:
                continue
            assert len(labels) >= (1 if name == "one" else 2)
            boxes = [label.get_window_extent() for label in labels]
            assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
            assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)


def test_points_that_did_not_converge_are_marked() -> None:
    rows = [
        sweep.Row({"solver.rtol": 10.0**-k}, status, Path("a.h5"), relative=1e-6, seconds=0.1)
        for k, status in enumerate(["converged", "max_iterations", "stagnated"])
    ]
    left, _ = drawn(rows).axes
    marks = next(line for line in left.lines if line.get_label() == "not converged")
    np.testing.assert_allclose(sorted(np.asarray(marks.get_xdata())), [0.01, 0.1])
