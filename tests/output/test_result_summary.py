# SPDX-License-Identifier: MIT
"""A result in ten lines and as a table."""

import importlib.util
from dataclasses import replace

import numpy as np
from support.results import make_solution

from poisson.case.settings import Units
from poisson.output import summary


def test_a_result_in_ten_lines() -> None:
    provenance = {"method": "fft (direct)", "backend": "numpy", "precision": "float64"}
    assert repr(make_solution(3, provenance=provenance)).splitlines() == [
        "Solution: A test",
        "  equation  -div(a grad u) + c u = f, a = 1",
        "  grid      5 x 4 x 3 nodes on [0, 1] x [-1, 1) x [2, 5]",
        "  method    fft (direct) on numpy, float64",
        "  status    converged after 40 iterations",
        "  residual  1.25e-09 (rms), target 1e-08",
        "  error     0.25 (rms), 0.5 (max), against the exact solution",
        "  u         0 to 59, float64",
        "  fields    f, error",
        "  time      2.5 s, 2 s of them in the loop",
    ]


def test_what_is_not_known_is_left_out() -> None:
    bare = make_solution(1, error=None, times={}, fields={}, provenance={}, error_bar=0.125, iterations=1)
    bare = replace(bare, problem=replace(bare.problem, title=""))
    assert summary.text(bare).splitlines() == [
        "Solution",
        "  equation  -div(a grad u) + c u = f, a = 1",
        "  grid      5 nodes on [0, 1]",
        "  status    converged after 1 iteration",
        "  residual  1.25e-09 (rms), target 1e-08",
        "  error     at most 0.125, as estimated from coarser grids",
        "  u         0 to 4, float64",
    ]


def test_units_that_have_a_name_stand_behind_the_numbers() -> None:
    lines = repr(make_solution(2, units=Units("m", "V"))).splitlines()
    assert "  residual  1.25e-09 V/m^2 (rms), target 1e-08 V/m^2" in lines
    assert "  error     0.25 V (rms), 0.5 V (max), against the exact solution" in lines
    assert "  u         0 to 19 V, float64" in lines
    assert "  error     at most 0.125 V, as" in repr(
        make_solution(2, units=Units("m", "V"), error=None, error_bar=0.125)
    )
    # Of the residual one name of two is not enough.
    assert "(rms), target 1e-08\n" in repr(make_solution(2, units=Units("m")))


def test_long_and_wild_texts_stay_ten_lines() -> None:
    wild = {f"field{number}": np.ones(5) for number in range(100)}
    solution = make_solution(1, "float32", u=np.array([1, 2, np.nan, 3, 4]), fields=wild)
    solution = replace(solution, problem=replace(solution.problem, title="\x1b[31m\n" + "x" * 300))
    lines = repr(solution).splitlines()
    assert len(lines) == 9 and max(map(len, lines)) == summary.WIDEST and all(map(str.isprintable, lines))
    assert "not finite everywhere" in repr(solution)


def test_a_table_in_a_notebook_has_no_markup_of_others() -> None:
    solution = make_solution(2)
    html = replace(solution, problem=replace(solution.problem, title="<b>&"))._repr_html_()
    assert html is not None and "<table><caption>&lt;b&gt;&amp;</caption><tr>" in html and "<b>" not in html
    assert html.count("<tr>") == len(list(summary.lines(solution)))
    assert ("<img " in html) == (importlib.util.find_spec("matplotlib") is not None)
    broken = replace(solution, times=None)  # type: ignore[arg-type]
    assert replace(broken, status=None)._repr_html_() is None  # type: ignore[arg-type]
