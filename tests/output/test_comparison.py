# SPDX-License-Identifier: MIT
"""Two results beside each other: differences of fields, on nested grids too, of cases and of provenance.

Covers poisson.cli.comparing.
"""

import itertools
import json
import math
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import poisson
from poisson import apart
from poisson.case import from_mapping
from poisson.cli import main
from poisson.errors import OutputError, PoissonError
from poisson.output import comparison
from poisson.output.comparison import compare, compare_apart

SHAPE = (8, 9, 5)
"""Of a box that is periodic along x."""


def solved(path: Path, shape: tuple[int, ...] = SHAPE, **tables: Any) -> Path:
    """A result on a box, with u and the gradient set to known values."""
    axes = len(shape)
    case = {
        "equation": {"f": 1.0},
        "domain": {"lower": [0.0, -1.0, 0.5][:axes], "upper": [1.0, 1.0, 2.0][:axes], "shape": list(shape)},
        "boundary": {"x": "periodic", "all": {"dirichlet": 0.0}} if axes > 1 else {"all": {"dirichlet": 0.0}},
        "run": {"backend": "numpy"},
        "output": {"fields": ["u", "residual", "gradient"]},
    }
    for name, table in tables.items():
        case[name] = {**case.get(name, {}), **table}
    solution = poisson.solve(from_mapping(case, name="a", folder=path.parent))
    solution.save(path)
    with h5py.File(path, "r+") as file:
        x, y, z = (file[name][:] if name in file else np.zeros(1) for name in "xyz")
        values = 2.0 * np.sin(x) + 3.0 * y[:, None] + np.exp(z)[:, None, None]
        file["u"][...] = values.reshape(file["u"].shape)
        if "gradient" in file:
            file["gradient"][...] = values.reshape((*file["u"].shape, 1)) * np.arange(1.0, axes + 1)
    return path


def add(path: Path, field: str, index: tuple[int, ...], value: float) -> Path:
    with h5py.File(path, "r+") as file:
        file[field][index] += value
    return path


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return solved(tmp_path_factory.mktemp("results") / "a.h5")


@pytest.fixture
def pair(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two files of one result in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.h5", "b.h5"):
        shutil.copy(original, name)
    return Path("a.h5"), Path("b.h5")


def field_of(found: comparison.Comparison, name: str) -> comparison.FieldDifference:
    return next(field for field in found.fields if field.name == name)


def test_a_result_differs_in_nothing_from_itself(pair: tuple[Path, Path]) -> None:
    found = compare(*pair)
    assert [(field.name, field.max, field.rms, field.relative) for field in found.fields] == [
        *(("u", 0.0, 0.0, 0.0), ("gradient", 0.0, 0.0, 0.0), ("residual", 0.0, 0.0, 0.0))
    ]
    assert (found.keys, found.provenance, found.alone, found.notes) == ({}, {}, ((), ()), ())
    assert found.statuses == ("converged", "converged")
    assert found.beyond(0.0) == []


@pytest.mark.parametrize("values", [1, 50, 10**6])
def test_differences_are_the_largest_and_the_root_mean_square(
    pair: tuple[Path, Path], values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "_SLAB_VALUES", values)
    one, other = pair
    with h5py.File(one) as file:
        largest = np.abs(file["u"][...]).max()
    add(add(other, "u", (4, 8, 7), 0.5), "u", (0, 3, 2), -0.25)
    add(other, "gradient", (2, 2, 2, 1), 1e-3)
    found = compare(one, other)
    u, gradient = field_of(found, "u"), field_of(found, "gradient")
    assert (u.max, u.largest) == (pytest.approx(0.5), largest)
    assert u.rms == pytest.approx(math.sqrt((0.5**2 + 0.25**2) / math.prod(SHAPE)))
    assert u.relative == pytest.approx(0.5 / largest)
    assert gradient.rms == pytest.approx(1e-3 / math.sqrt(3 * math.prod(SHAPE)), rel=1e-9)
    assert found.beyond(1e-3) == [u]
    assert found.beyond(1e-8) == [u, gradient]
    assert found.beyond(u.relative * 1.001) == []


@pytest.mark.parametrize("finer", ["first", "second"])
@pytest.mark.parametrize("values", [1, 10**6])
def test_nested_grids_are_compared_at_the_nodes_of_the_coarser(
    pair: tuple[Path, Path], finer: str, values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a factor of its own along each axis."""
    monkeypatch.setattr(comparison, "_SLAB_VALUES", values)
    fine = solved(Path("fine.h5"), (16, 9, 13))
    both = (fine, pair[0]) if finer == "first" else (pair[0], fine)
    found = compare(*both)
    assert field_of(found, "u").max < 1e-14
    assert found.shapes == (((16, 9, 13), SHAPE) if finer == "first" else (SHAPE, (16, 9, 13)))
    assert found.keys["domain.shape"] == tuple(str(list(shape)) for shape in found.shapes)
    # At nodes that only the finer has a difference is none.
    add(add(add(fine, "u", (1, 0, 0), 9.0), "u", (0, 0, 1), 9.0), "u", (12, 8, 15), 9.0)
    assert field_of(compare(*both), "u").max < 1e-14
    assert field_of(compare(add(fine, "u", (9, 5, 6), 1.0), pair[0]), "u").max == pytest.approx(1.0)


def test_grids_of_one_and_two_dimensions_nest_too(tmp_path: Path) -> None:
    for small, large in (((5,), (17,)), ((6, 5), (12, 9))):
        coarse, fine = solved(tmp_path / "c.h5", small), solved(tmp_path / "f.h5", large)
        assert field_of(compare(coarse, fine), "u").max < 1e-14
        assert field_of(compare(coarse, add(fine, "u", (4,) * len(large), 1.0)), "u").max == pytest.approx(1.0)


KINDS: dict[str, dict[str, Any]] = {
    "nodes": {},
    "cells": {"centring": "cell"},
    "stretched": {"x": {"stretch": "tanh", "ratio": 8.0}},
}


def on_axes(kind: str, intervals: int) -> Path:
    """A result on axes of a kind with so many intervals or cells along each."""
    shape = [intervals + (kind != "cells")] * 2
    case = {
        "equation": {"f": "exact", "exact": "sin(2*x)*exp(y)"},
        "domain": {"lower": [0.0, 0.0], "upper": [1.0, 1.0], "shape": shape, **KINDS[kind]},
        "boundary": {"all": {"dirichlet": "exact"}},
        "run": {"backend": "numpy"},
        "output": {"fields": ["gradient"]},
    }
    return poisson.solve(from_mapping(case, name=kind, folder=Path())).save(f"{kind}.h5")


@pytest.mark.parametrize("values", [1, 10**6])
def test_other_axes_are_interpolated_by_cubics_at_the_nodes_of_the_coarser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], values: int
) -> None:
    """Whichever result is the coarser, at the nodes beside the walls as well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "_SLAB_VALUES", values)
    for kinds in itertools.permutations(KINDS, 2):
        one, other = paths = [on_axes(kind, intervals) for kind, intervals in zip(kinds, (7, 40), strict=True)]
        for path in paths:
            with h5py.File(path, "r+") as file:
                x, y = file["x"][...], file["y"][...][:, None]
                file["u"][...] = cubic = 1 + x * y**2 - 2 * x**3 + y**3 + x**2 * y
                file["gradient"][...] = cubic[..., None] * np.array([1.0, -3.0])
                for name in ("u", "gradient"):
                    file[name].attrs.pop("crc32", None)
        for pair, interpolated in (((one, other), 1), ((other, one), 0)):
            found = compare(*pair)
            assert [field.max for field in found.fields] == pytest.approx([0.0, 0.0], abs=1e-13)
            assert (found.interpolated, field_of(found, "gradient").largest > 4.0) == (interpolated, True)
    on_axes("nodes", 50)
    assert main(["compare", "nodes.h5", "cells.h5"]) == 1
    assert "compared at the 40 x 40 nodes of B; A (51 x 51) is interpolated there" in capsys.readouterr().out.split(
        "\n"
    )
    with h5py.File("nodes.h5", "r+") as file:
        file["u"].attrs["crc32"] = 7
    with pytest.raises(OutputError, match=r"^nodes\.h5: the file is damaged \(the values do not match"):
        compare("nodes.h5", "cells.h5")


def test_results_on_other_axes_approach_each_other_to_second_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [("nodes", "cells"), ("cells", "stretched"), ("stretched", "nodes"), ("nodes", "nodes")]
    differences = []
    for n in (16, 32):
        found = []
        for one, other in pairs:
            first = on_axes(one, n).rename("first.h5")
            found.append(field_of(compare(first, on_axes(other, 3 * n // 2)), "u").rms)
        differences.append(found)
    assert np.log2(np.divide(*differences)) == pytest.approx([2.0] * len(pairs), abs=0.15)


@pytest.mark.parametrize(
    ("shape", "tables", "reason"),
    [
        ((8, 9), {}, "have grids in 3D and 2D: nothing to compare"),
        (
            SHAPE,
            {"domain": {"upper": [1.0, 1.5, 2.0]}},
            "have different boxes, [-1, 1] and [-1, 1.5] along y: nothing to compare",
        ),
    ],
)
def test_grids_on_other_boxes_are_refused(
    pair: tuple[Path, Path],
    shape: tuple[int, ...],
    tables: dict[str, Any],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    domain = {"lower": [0.0, -1.0, 0.5][: len(shape)], "upper": [1.0, 1.0, 2.0][: len(shape)], "shape": list(shape)}
    solved(Path("c.h5"), shape, domain={**domain, **tables.get("domain", {})})
    assert main(["compare", "a.h5", "c.h5"]) == 2
    assert capsys.readouterr() == ("", f"poisson: error: a.h5 and c.h5 {reason}\n")


def test_a_periodic_axis_is_none_without_period(pair: tuple[Path, Path]) -> None:
    walls = {"x_lower": {"dirichlet": 0.0}, "x_upper": {"dirichlet": 0.0}}
    case = {
        "equation": {"f": 1.0},
        "domain": {"lower": [0.0, -1.0, 0.5], "upper": [1.0, 1.0, 2.0], "shape": [9, 9, 5]},
        "boundary": {"all": {"dirichlet": 0.0}, **walls},
        "run": {"backend": "numpy"},
    }
    poisson.solve(from_mapping(case, name="a", folder=Path())).save("c.h5")
    with pytest.raises(
        PoissonError,
        match=r"a\.h5 and c\.h5: only one of the grids is periodic along x: "
        r"nothing to compare",
    ):
        compare("a.h5", "c.h5")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite_are_a_difference_even_from_themselves(
    pair: tuple[Path, Path], value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    add(pair[1], "u", (1, 2, 3), value)
    assert [field_of(compare(*order), "u").unknown for order in (pair, pair[::-1])] == [1, 1]
    add(pair[0], "u", (1, 2, 3), value)
    u = field_of(compare(*pair), "u")
    assert (u.unknown, u.max) == (1, 0.0) and math.isnan(u.relative)
    assert compare(*pair).beyond(1e300) == [u]
    assert main(["compare", "a.h5", "b.h5", "--rtol", "1e300"]) == 1
    assert "u: 1 values are not finite" in capsys.readouterr().out
    assert main(["compare", "a.h5", "b.h5", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["fields"]["u"]["relative"] is None


def test_the_residual_counts_where_it_is_asked_for_and_the_error_beside_u(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for path, value in zip(pair, (1.0, 1.5), strict=True):
        with h5py.File(path, "r+") as file:
            file["residual"][...] = value
            file["error"] = np.full(file["u"].shape, 1e-6 * value)
            largest = np.abs(file["u"][...]).max()
    found = compare(*pair)
    assert (field_of(found, "residual").relative, field_of(found, "residual").counts) == (0.5, False)
    assert field_of(found, "error").largest == largest
    assert found.beyond(1e-6) == []
    assert [field.name for field in compare(*pair, ["residual"]).beyond(0.4)] == ["residual"]
    assert main(["compare", "a.h5", "b.h5", "--field", "u, residual", "--rtol=0.4"]) == 1
    out = capsys.readouterr().out
    assert "the results differ: residual by 0.5 (relative), more than 0.4" in out and "error" not in out


def test_against_nothing_but_zeros_any_difference_is_too_large(pair: tuple[Path, Path]) -> None:
    with h5py.File(pair[0], "r+") as file:
        file["u"][...] = 0.0
    assert field_of(compare(*pair), "u").relative == math.inf
    assert field_of(compare(pair[0], pair[0]), "u").relative == 0.0


def test_the_command_tells_where_cases_and_provenance_differ(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    solved(Path("c.h5"), solver={"method": "jacobi"}, equation={"c": 2.0}, output={"fields": ["u", "f"]})
    assert main(["compare", "a.h5", "c.h5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["A  a.h5: converged", "B  c.h5: converged"]
    assert lines[3].split()[0] == "field" and lines[5].startswith("u ")
    assert "only in A: gradient, residual" in lines and "only in B: f" in lines
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.count(" ") > 3}
    assert rows["equation.c"] == ["0.0", "2.0"]
    assert rows["solver.method"] == ['"auto"', '"jacobi"']
    assert rows["loop"] == ["blocked"] and rows["method"][-1] == "jacobi"
    assert not any(line.startswith(("started", "seconds", "output.file")) for line in lines)
    assert lines[-1] == "the results agree: no relative difference is larger than 1e-08"
    assert main(["compare", "a.h5", "c.h5", "--json", "--rtol=0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agree"], found["rtol"], found["a"], found["only_in_b"]) == (True, 0.0, "a.h5", ["f"])
    assert found["case"]["equation.c"] == ["0.0", "2.0"]
    assert found["fields"] == {
        "u": {"max": 0.0, "rms": 0.0, "largest": found["fields"]["u"]["largest"], "relative": 0.0, "not_finite": 0}
        | {"counts": True}
    }


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["compare", "a.h5"], "compare needs B; see 'python -m poisson compare --help'"),
        (["compare", "a.h5", "b.h5", "c.h5"], "unexpected argument 'c.h5'; compare takes A and B"),
        (["compare", "a.h5", "b.h5", "--rtol=-1"], "--rtol -1; allowed: a finite number >= 0"),
        (["compare", "a.h5", "b.h5", "--rtol", "nan"], "--rtol nan; allowed: a finite number >= 0"),
        (["compare", "a.h5", "b.h5", "--field=u,"], "--field u,; allowed: names of fields, such as u or u,gradient"),
        (
            ["compare", "a.h5", "b.h5", "--field=v"],
            "no field 'v' in both results; common fields: gradient, residual, u",
        ),
        (["compare", "a.h5", "none.h5"], "none.h5: no such file; check the name"),
        (["compare", "none.h5", "a.h5"], "none.h5: no such file; check the name"),
        (["compare", "a.h5", "."], ".: it is a directory; give the name of a file in it"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    pair: tuple[Path, Path], words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr() == ("", f"poisson: error: {line}\n")


def test_a_vector_is_not_compared_with_numbers(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for path, components in zip(pair, ((), (3,)), strict=True):
        with h5py.File(path, "r+") as file:
            file["mine"] = np.zeros(SHAPE[::-1] + components)
    assert main(["compare", "a.h5", "b.h5"]) == 2
    assert capsys.readouterr().err == "poisson: error: mine is a vector in only one of a.h5 and b.h5\n"
    assert main(["compare", "a.h5", "b.h5", "--field=u"]) == 0


@pytest.mark.parametrize("place", [0, 1])
def test_a_damaged_file_is_named(pair: tuple[Path, Path], place: int) -> None:
    with h5py.File(pair[place], "r+") as file:
        file["u"].attrs["crc32"] = 7
    with pytest.raises(OutputError) as error:
        compare_apart(*pair)
    line = "the file is damaged (the values do not match their checksum); solve the case again"
    assert str(error.value) == f"{pair[place]}: {line}"
    with h5py.File(pair[place], "r+") as file:
        del file["convergence"], file["provenance"]
    with pytest.raises(OutputError, match=rf"^{pair[place]}: the file is damaged \(provenance is missing\)"):
        compare_apart(*pair)


def test_texts_of_a_file_that_nobody_wrote_are_said_and_shown_in_one_line(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(pair[1], "r+") as file:
        file["provenance"].attrs["host"] = "evil\x1b[2J\nhost"
        file["provenance"].attrs["case"] = "no toml"
    assert main(["compare", "a.h5", "b.h5"]) == 0
    out = capsys.readouterr().out
    assert "b.h5: the attributes do not match their checksum" in out
    assert "the cases cannot be compared: the second case is not TOML" in out
    assert "\x1b" not in out and "evil\N{REPLACEMENT CHARACTER}[2J host" in out


def test_a_file_that_the_library_does_not_survive_is_a_line(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*arguments: object) -> None:
        raise apart.Lost("crash, SIGSEGV")

    monkeypatch.setattr(apart, "call", end)
    with pytest.raises(OutputError) as error:
        compare_apart(*pair)
    reason = "the file is damaged (the HDF5 library fails: crash, SIGSEGV); solve the case again"
    assert str(error.value) == f"a.h5 or b.h5: {reason}"
