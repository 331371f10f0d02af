# SPDX-License-Identifier: MIT
"""The command `check`, and the same checks before a solve."""

import json
import re
from pathlib import Path

import pytest
from support.places import ROOT

from poisson.cli import main

CASES = ROOT / "cases"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main([*words, "--backend", "numpy"])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", str(CASES / "heated_plate.toml"))
    assert (code, err) == (0, "")
    assert out.startswith(
        "Heated plate\n\n"
        "equation    -div(a grad u) + c u = f, a = 1\n"
        "f           burner*exp(-((x - 1.4)**2 + (y - 0.5)**2)/0.02)\n"
        "a           1\n"
        "c           0\n"
        "parameters  air = 20, burner = 4000, cooling = 2\n"
        "grid        97 x 49 nodes (4753 in all) on [0, 2] x [0, 1], spacing 0.02083 x 0.02083\n\n"
        "face     condition                         value        alpha\n"
        "-------  --------------------------------  -----------  -----\n"
        "x_lower  dirichlet: u = value              100\n"
        "x_upper  robin: a du/dn + alpha u = value  cooling*air  cooling\n"
        "y_lower  robin: a du/dn + alpha u = value  cooling*air  cooling\n"
        "y_upper  robin: a du/dn + alpha u = value  cooling*air  cooling\n\n"
        "singular    no\n"
        "coarsening  4 grids: 97x49, 49x25, 25x13, 13x7\n"
        "method      multigrid (V(2,1), chebyshev), as a is constant and c varies\n"
        "precision   float64\n"
        "backend     numpy: "
    )
    assert "\nmemory      1.52 MB of " in out
    assert out.endswith("\noutput      heated_plate.h5, about 1.16 MB\n\nthe case can run\n")
    assert not list(Path().iterdir())


def test_warnings_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CASES / "pressure_projection.toml")
    code, out, err = run(capsys, "check", path, "--set", "solver.rtol=1e-15", "--set", "run.threads=0")
    warning = next(line for line in out.splitlines() if line.startswith("warning: solver.rtol: rounding in float64 "))
    assert (code, err) == (0, "") and out.endswith(f"{warning}\nthe case can run, with 1 warning\n")
    assert "\nsingular    yes, the mean of u is set to zero; ∫f + ∮g is " in out
    words = ["--set", "equation.f=1", "--set", "output.file=missing/a.h5"]
    code, out, err = run(capsys, "check", path, *words)
    assert code == 2 and out.endswith("\nthe case cannot run, for 2 reasons below\n")
    first, second = err.splitlines()
    assert first.startswith("poisson: error: no face is dirichlet and c = 0, ")
    assert second.startswith("poisson: error: missing/a.h5: the folder does not exist; ") and "--output" in second
    quiet = run(capsys, "check", path, *words, "-q", "--set", "solver.rtol=1e-15")
    assert quiet[:2] == (2, "")
    assert [line.split()[1] for line in quiet[2].splitlines()] == ["warning:", "error:", "error:"]


def test_the_report_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CASES / "channel_3d.toml")
    code, out, err = run(
        capsys,
        "check",
        path,
        "--json",
        "--set",
        "solver.rtol=1e-16",
        "--set",
        "solver.method=auto",
        "--set",
        "solver.loop=blocked",
    )
    found = json.loads(out)
    assert (code, found["runs"], found["exit_code"], found["errors"]) == (0, True, 0, [])
    text = (ROOT / "docs" / "running.md").read_text("utf-8").partition("| key of `check --json` |")[2]
    assert set(found) <= set(re.findall(r"`(\w+)`", text.partition("\n\n")[0]))
    assert found["shape"] == [24, 17, 13] and found["periodic"] == [True, False, False]
    assert found["faces"][0] == {"face": "x", "condition": "periodic", "value": None, "alpha": None}
    assert found["faces"][1] == {"face": "y_lower", "condition": "neumann", "value": "exact", "alpha": None}
    assert (found["singular"], found["defect"], found["method"], found["backend"]) == (False, None, "fft", "numpy")
    assert found["grids"][0] == [24, 17, 13] and found["memory"][0]["needed"] > 0
    [warning] = found["warnings"]
    assert warning["key"] == "solver.rtol" and set(warning) == {"key", "text", "fix"}
    assert err == f"poisson: warning: solver.rtol: {warning['text']}; {warning['fix']}\n"
    code, out, _ = run(capsys, "check", path, "--json", "--set", "equation.c=1e300*x", "--set", "run.ranks=2")
    assert (code, json.loads(out)["runs"], json.loads(out)["method"]) == (2, False, None)


def test_a_solve_warns_once_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["solve", str(CASES / "unit_square.toml"), "--set", "domain.shape=[17, 17]", "--set", "solver.rtol=1e-16"]
    code, out, err = run(capsys, *words, "--log", "a.log")
    assert code == 0 and "at_rounding" in out
    [line] = [line for line in err.splitlines() if "solver.rtol" in line]
    assert line.startswith("poisson: warning: solver.rtol: rounding in float64 leaves ")
    logged = [json.loads(line) for line in Path("a.log").read_text().splitlines()]
    assert [f"poisson: warning: {each['text']}" for each in logged if each["event"] == "warning"] == [line]
    code, out, _ = run(capsys, *words, "--json", "-q")
    assert [each["key"] for each in json.loads(out)["warnings"]] == ["solver.rtol"]


def test_a_solve_tells_all_that_is_wrong_with_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "equation.f=1/x", "--set", "boundary.y_lower={neumann='log(x)'}"]
    code, out, err = run(capsys, "solve", str(CASES / "unit_square.toml"), *words)
    assert (code, out) == (2, "")
    assert err.splitlines()[-2:] == [
        "poisson: error: equation.f: inf at x = 0, y = 0; every value must be finite",
        "poisson: error: boundary.y_lower: -inf at x = 0, y = 0; every value must be finite",
    ]
    assert not list(Path().iterdir())
