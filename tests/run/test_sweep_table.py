# SPDX-License-Identifier: MIT
"""The table of the sweeps into a folder: whose rows it keeps, and what the numbers in it are."""

import csv
from pathlib import Path

import numpy as np
import pytest
from support.results import make_solution
from test_sweep import rows_of

import poisson
from poisson.cli import main
from poisson.output.table import Report
from poisson.run import sweep_table
from poisson.run.quantities import at_name, quantities
from poisson.run.sweep_table import Row

CASE = """
equation = { f = "2*pi**2*sin(pi*x)*sin(pi*y)", exact = "sin(pi*x)*sin(pi*y)", c = 0.0 }
domain = { lower = [0, 0], upper = [1, 1], shape = [9, 9] }
boundary = { all = { dirichlet = 0.0 } }
run = { backend = "numpy" }
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(CASE, "utf-8")
    # A picture takes longer than all the rest.
    monkeypatch.setattr(Report, "write_plot", lambda self, path: Path(path).touch())


def table_of(path: str = "a-sweep/sweep.csv") -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_a_second_sweep_adds_its_rows_and_loses_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "a.toml", "--set=domain.shape=[9,9],[17,17]", "--set=solver.rtol=1e-4,1e-8", "-q"]) == 0
    first = table_of()
    assert main(["sweep", "a.toml", "--set=solver.rtol=1e-8,1e-10", "--set=domain.shape=[9, 9]"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "a-sweep/sweep.csv: 3 rows of earlier sweeps kept" in lines
    both = table_of()
    assert [(row["domain.shape"], row["solver.rtol"]) for row in both] == [
        *(("[9, 9]", "0.0001"), ("[9, 9]", "1e-08"), ("[17, 17]", "0.0001"), ("[17, 17]", "1e-08"), ("[9, 9]", "1e-10"))
    ]
    assert [both[place] for place in (0, 2, 3)] == [first[place] for place in (0, 2, 3)]
    # In another order of the keys the result has another name, and was solved again.
    assert both[1]["file"] == "a-sweep/a_rtol=1e-08_shape=9x9.h5"


def test_columns_are_united(capsys: pytest.CaptureFixture[str]) -> None:
    rows_of(capsys, "--set=domain.shape=[9,9]", "--at=0.25,0.5")
    rows_of(capsys, "--set=solver.method=fft", "--at=0.5,0.5")
    first, second = table_of()
    assert list(first)[:3] == ["domain.shape", "solver.method", "status"]
    assert (first["domain.shape"], first["solver.method"]) == ("[9, 9]", "")
    assert (second["domain.shape"], second["solver.method"]) == ("", "fft")
    assert [bool(row["u(0.25,0.5)"]) for row in (first, second)] == [True, False]
    assert [bool(row["u(0.5,0.5)"]) for row in (first, second)] == [False, True]


def test_values_at_other_points_stay_with_a_result_that_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set=domain.shape=[9,9]"]
    rows_of(capsys, *words, "--at=0.25,0.5")
    rows_of(capsys, *words, "--at=0.5,0.5")
    [row] = table_of()
    assert (row["kept"], bool(row["u(0.25,0.5)"]), bool(row["u(0.5,0.5)"])) == ("True", True, True)
    Path("a.toml").write_text(CASE.replace("c = 0.0", "c = 1.0").replace("2*pi**2", "(2*pi**2 + 1)"), "utf-8")
    rows_of(capsys, *words, "--at=0.5,0.5")
    [row] = table_of()
    assert (row["kept"], bool(row["u(0.25,0.5)"]), bool(row["u(0.5,0.5)"])) == ("False", False, True)


def test_rows_of_the_case_before_it_was_changed_are_kept_and_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "a.toml", "--set=domain.shape=[9,9],[17,17]", "-q"]) == 0
    Path("a.toml").write_text('title = "Another title"\n' + CASE, "utf-8")
    assert main(["sweep", "a.toml", "--set=domain.shape=[9,9]"]) == 0
    assert "sweep.csv: 1 row of earlier sweeps kept\n" in capsys.readouterr().out
    Path("a.toml").write_text(CASE.replace("c = 0.0", "c = 1.0"), "utf-8")
    assert main(["sweep", "a.toml", "--set=domain.shape=[9,9]"]) == 0
    line = "sweep.csv: 1 row of earlier sweeps kept, 1 of them of the case file before it was changed\n"
    assert line in capsys.readouterr().out
    checksums = [row["case_checksum"] for row in table_of()]
    assert len(checksums) == len(set(checksums)) == 2


@pytest.mark.parametrize("content", [b"mine\n1\n", b"status,status\n1,2\n", b"a,status\n1\n", b"\xff\xfe\x00", b'"'])
def test_a_file_of_that_name_that_is_no_table_is_not_replaced(
    content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a-sweep").mkdir()
    Path("a-sweep/sweep.csv").write_bytes(content)
    assert main(["sweep", "a.toml", "--set=domain.shape=[9,9]"]) == 2
    line = (
        "already exists and is not the table of a sweep; not overwritten; move the file away, or choose "
        "another place with --folder"
    )
    assert capsys.readouterr() == ("", f"poisson: error: a-sweep/sweep.csv: {line}\n")
    assert Path("a-sweep/sweep.csv").read_bytes() == content and len(list(Path("a-sweep").iterdir())) == 1


def test_columns_and_rows_of_the_users_own_stay(capsys: pytest.CaptureFixture[str]) -> None:
    rows_of(capsys, "--set=domain.shape=[9,9]")
    [row] = table_of()
    text = "domain.shape,status,comment,seconds\n" + '"[5, 5]",refused,"a, b",1.5\n' + '"[9, 9]",converged,old,2\n'
    Path("a-sweep/sweep.csv").write_text(text, "utf-8")
    rows_of(capsys, "--set=domain.shape=[9,9]")
    first, second = table_of()
    assert (first["domain.shape"], first["comment"], first["seconds"]) == ("[5, 5]", "a, b", "1.5")
    assert (second["comment"], second["seconds"]) == ("old", row["seconds"])


def test_an_empty_file_and_an_older_table_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a-sweep").mkdir()
    Path("a-sweep/sweep.csv").touch()
    rows_of(capsys, "--set=domain.shape=[9,9]")
    assert len(table_of()) == 1


def test_the_numbers_are_those_of_the_solution(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set=domain.shape=[9,9],[17,17]", "--at=0.25,0.6", "--at=1,1"]
    first = rows_of(capsys, *words)
    solution = poisson.load(first[1]["file"])
    row = first[1]
    assert (row["u_min"], row["u_max"]) == (solution.u.min(), solution.u.max())
    assert row["u_mean"] == pytest.approx((2 / np.pi) ** 2, rel=5e-3)
    assert row["energy"] == pytest.approx(np.pi**2 / 4, rel=5e-3)
    assert {name: row[f"flux_{name}"] for name in solution.fluxes()} == solution.fluxes()
    assert row["u(0.25,0.6)"] == solution.at(0.25, 0.6) and row["u(1,1)"] == 0.0
    assert row["relative_residual"] == pytest.approx(solution.residual / solution.target * 1e-8)
    again = rows_of(capsys, *words)
    assert [{**row, "kept": False} for row in again] == first
    assert [float(row["u(0.25,0.6)"]) for row in table_of()] == [row["u(0.25,0.6)"] for row in first]


def test_the_errors_of_the_numbers_are_of_second_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, "--set=domain.shape=[17,17],[33,33]", "--at=0.3,0.6")
    exact = {"u_max": 1.0, "u_mean": (2 / np.pi) ** 2, "energy": np.pi**2 / 4, "flux_x_upper": 2.0}
    exact["u(0.3,0.6)"] = float(np.sin(0.3 * np.pi) * np.sin(0.6 * np.pi))
    for name, value in exact.items():
        errors = [abs(row[name] - value) for row in rows]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1), name


def test_a_point_must_lie_in_the_box_of_one_combination_at_least(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        "2,0.5": "--at 2,0.5: x = 2: outside of the box; allowed: within [0, 1]",
        "0.5": "--at 0.5: coordinates: 1 given; this grid needs x, y",
        "a,b": "--at a,b: the coordinates of a point are needed, such as --at 0.25,0.6",
        "nan,0": "--at nan,0: the coordinates of a point are needed, such as --at 0.25,0.6",
    }
    for text, line in wrong.items():
        assert main(["sweep", "a.toml", "--set=domain.shape=[9,9]", f"--at={text}"]) == 2
        assert capsys.readouterr() == ("", f"poisson: error: {line}\n")
    assert not Path("a-sweep").exists()
    Path("a.toml").write_text(CASE.replace(', exact = "sin(pi*x)*sin(pi*y)"', ""), "utf-8")
    rows = rows_of(capsys, "--set=domain.upper=[1,1],[3,1]", "--at=2,0.5")
    assert rows[0]["u(2,0.5)"] is None and rows[1]["u(2,0.5)"] is not None


def test_what_is_not_finite_is_not_known() -> None:
    solution = make_solution(2)
    solution.u[1, 1] = np.nan
    found = quantities(solution, [(0.0, 0.0)])
    assert found["u_mean"] is None and found["energy"] is None
    assert found[at_name((0.0, 0.0))] is not None or np.isnan(solution.at(0.0, 0.0))


def test_rows_without_results_have_their_place_in_the_table() -> None:
    rows = [Row({"k": 1.0}, "failed", reason="no\nroom"), Row({"k": "x"}, "converged", Path("a.h5"), checksum="c")]
    merged = sweep_table.merged(None, rows)
    assert [row["reason"] for row in merged.table.rows] == ["no\nroom", ""]
    again = sweep_table.merged(merged.table, [Row({"k": 1.0}, "refused", checksum="c")])
    assert [row["status"] for row in again.table.rows] == ["refused", "converged"]
    assert [row.values for row in sweep_table.drawn([rows[1]], again.earlier, ("k",))] == [{"k": "x"}, {"k": "x"}]


def test_a_combination_is_known_however_its_values_are_written() -> None:
    old = sweep_table.SweepTable(("n", "k"), ("status",), ({"n": "[9,9]", "k": "1E-4", "status": "converged"},))
    merged = sweep_table.merged(old, [Row({"k": 1e-4, "n": [9, 9]}, "refused")])
    assert [row["status"] for row in merged.table.rows] == ["refused"] and not merged.earlier


def test_the_figure_shows_earlier_rows_of_the_same_keys_only() -> None:
    table = sweep_table.merged(None, [Row({"k": 1.0}, "converged"), Row({"n": 2.0}, "converged")]).table
    rows = [Row({"k": 3.0}, "converged")]
    merged = sweep_table.merged(table, rows)
    drawn = sweep_table.drawn(rows, merged.earlier, merged.table.keys)
    assert [row.values for row in drawn] == [{"k": 3.0}, {"k": 1.0}]


@pytest.mark.parametrize(
    ("width", "wanted", "missing"), [("60", "status", "energy"), ("200", "flux x_upper", "reason")]
)
def test_the_table_fits_the_terminal(
    width: str, wanted: str, missing: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert main(["sweep", "a.toml", "--set=domain.shape=[9,9],[17,17]"]) == 0
    _, _, heading, rule, *lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in (heading, rule, *lines[:2])) <= int(width)
    assert wanted in heading and missing not in heading and "solve s" in heading and "order" in heading
