# SPDX-License-Identifier: MIT
"""What a right case file means; overrides, the resolved text, unreadable files, other grids.

Covers poisson.case.build.
"""

import copy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.case_texts import FACE_DATA, GOOD, GOOD_3D, SOLVER_KEYS, case_of, mistakes_of
from support.places import ROOT
from support.refusals import mistake_of

from poisson.backends.openmp.library import library_path
from poisson.case import OutputSettings, RunSettings, SolverSettings, from_mapping, load, regrid, toml
from poisson.errors import CaseError
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.lattice import Lattice
from poisson.problem.expressions import Expression, parse
from poisson.problem.faces import Face
from poisson.problem.fields import FieldFile
from poisson.solvers import registry
from poisson.solvers.jacobi import JacobiSettings
from poisson.solvers.settings import Relaxation
from poisson.solvers.stopping import Stopping

DEFAULTS = {
    **{"method": "auto", "omega": None, "loop": "blocked", "rtol": 1e-8, "atol": 0.0, "norm": "rms"},
    **{"max_iterations": 200_000, "check_every": 0, "cycle": "V", "full": True, "smoother": "chebyshev"},
    **{"pre": 2, "post": 1, "preconditioner": "multigrid", "stop": "residual"},
}
"""Of the keys of ``[solver]`` that the methods of the package have."""


def test_meaning() -> None:
    case = case_of(GOOD)
    problem = case.problem
    assert problem.lattice == Lattice.box((0.0, 0.0), (1.0, 2.0), (9, 17), problem.lattice.rules)
    assert problem.lattice.rules == tuple(face.kind.rule for face in problem.faces)
    assert [face.kind for face in problem.faces] == [Kind.DIRICHLET, Kind.NEUMANN, Kind.PERIODIC, Kind.PERIODIC]
    assert problem.faces[0].value == Expression.constant(0.0)
    assert problem.faces[1].value == parse("3*y", 2)
    assert problem.f == parse("x*y", 2)
    assert problem.exact == parse("x + y", 2)
    assert (problem.c, problem.initial, problem.title) == (0.0, Expression.constant(0.0), "Good")
    assert case.solver == SolverSettings()
    assert {name: case.solver.value(name) for name in DEFAULTS} == DEFAULTS
    assert case.run == RunSettings() == RunSettings(backend="auto", precision="float64", threads=0)
    assert case.output == OutputSettings(Path("case.h5"), ("u",), 2)


def test_every_setting() -> None:
    text = """
        [solver]
        method = "jacobi"
        omega = 0.5
        loop = "staged"
        rtol = 0
        atol = 1e-3
        norm = "max"
        max_iterations = 7
        check_every = 2
        [run]
        backend = "openmp"
        precision = "float32"
        threads = 3
        initial = "x"
        [output]
        file = "results/out.hdf5"
        fields = ["error", "f", "flux"]
        order = 6
    """
    case = case_of(GOOD + text)
    assert case.solver == SolverSettings(
        method="jacobi",
        stopping=Stopping(rtol=0.0, atol=1e-3, norm="max", max_iterations=7, check_every=2),
        parts=(Relaxation(omega=0.5), JacobiSettings(loop="staged")),
    )
    assert case.run == RunSettings("openmp", "float32", 3)
    assert case.output == OutputSettings(Path("results/out.hdf5"), ("u", "error", "f", "flux"), 6)
    assert case.problem.initial == parse("x", 2)


def test_both_tolerances_may_be_zero() -> None:
    case = case_of(GOOD, overrides=("solver.rtol=0", "solver.atol=0.0"))
    assert (case.solver.stopping.rtol, case.solver.stopping.atol) == (0.0, 0.0)


def test_three_dimensions_and_integers() -> None:
    problem = case_of(GOOD_3D).problem
    assert problem.lattice == Lattice.box((0.0,) * 3, (1.0,) * 3, (3, 4, 5), (Rule.FIXED,) * 6)
    assert [face.value for face in problem.faces] == [parse("z", 3)] * 6
    assert problem.title == "case"


def test_a_face_overrides_all() -> None:
    case = case_of(GOOD_3D, overrides=("boundary.y_lower={ neumann = 2 }", "boundary.z=periodic"))
    kinds = [face.kind for face in case.problem.faces]
    assert kinds == [Kind.DIRICHLET] * 2 + [Kind.NEUMANN, Kind.DIRICHLET] + [Kind.PERIODIC] * 2
    assert case.problem.faces[2].value == Expression.constant(2.0)


def test_manufactured_data() -> None:
    text = """
        equation = { f = "exact", c = 3.0, exact = "x**2*y + z" }
        domain = { lower = [0, 0, 0], upper = [1, 1, 1], shape = [3, 3, 3] }
        [boundary]
        all = { neumann = "exact" }
        y_upper = { dirichlet = "exact" }
    """
    problem = case_of(text).problem
    point = (0.5, 0.25, 0.75)
    assert isinstance(problem.f, Expression)
    assert float(problem.f(np, *point)) == 3.0 * (0.25 * 0.25 + 0.75) - 2.0 * 0.25
    values = [float(face.value(np, *point)) for face in problem.faces if face.value]
    assert values == [-0.25, 0.25, -0.25, 0.5**2 * 0.25 + 0.75, -1.0, 1.0]


def test_manufactured_data_with_coefficients() -> None:
    text = """
        equation = { f = "exact", a = "1 + x", c = "y", mean = "arithmetic", exact = "x**2*y" }
        domain = { lower = [0, 0], upper = [1, 1], shape = [3, 3] }
        [boundary]
        x_lower = { dirichlet = "exact" }
        x_upper = { neumann = "exact" }
        y_lower = { robin = "exact", alpha = 3 }
        y_upper = { robin = "exact", alpha = "1 + x" }
    """
    case = case_of(text)
    problem = case.problem
    assert (problem.a, problem.c, problem.mean) == (parse("1 + x", 2), parse("y", 2), "arithmetic")
    assert problem.equation == "-div(a grad u) + c u = f, a = a(x, y), arithmetic mean between nodes"
    x, y = 0.5, 0.25
    assert isinstance(problem.f, Expression)
    assert float(problem.f(np, x, y)) == pytest.approx(-(2 * y + 4 * x * y) + y * x**2 * y, rel=1e-15)
    values = [float(face.value(np, x, y)) for face in problem.faces if face.value]
    flux_y = (1 + x) * x**2
    expected = [x**2 * y, (1 + x) * 2 * x * y, -flux_y + 3 * x**2 * y, flux_y + (1 + x) * x**2 * y]
    assert values == pytest.approx(expected, rel=1e-15)
    assert [face.alpha for face in problem.faces] == [None, None, Expression.constant(3.0), parse("1 + x", 2)]
    assert case_of(case.text) == case


def test_a_coefficient_that_is_the_same_everywhere_is_a_number() -> None:
    text = GOOD.replace("[equation]", '[equation]\na = "2*k"\nc = "k - 3"')
    problem = case_of(text).problem
    assert (problem.a, problem.c, problem.varies) == (6.0, 0.0, False)
    assert problem.equation == "-div(a grad u) + c u = f, a = 6"


def test_coefficients_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "k.npy", np.ones((17, 9)))
    case = case_of(GOOD, tmp_path, ("equation.a={ file = 'k.npy' }", "equation.c={ file = 'k.npy' }"))
    assert case.problem.a == case.problem.c == FieldFile(tmp_path / "k.npy")
    assert case.problem.varies
    assert case_of(case.text, tmp_path) == case
    overrides = ("equation.a={ file = 'k.npy' }", "domain.shape=[9, 18]")
    path = str(tmp_path / "k.npy")
    assert mistakes_of(GOOD, tmp_path, overrides) == (
        f"--set equation.a: {path!r} has the shape (17, 9); the grid needs (18, 9), because arrays are (ny, nx)",
    )


def test_a_case_in_one_dimension(tmp_path: Path) -> None:
    text = """
        equation = { f = "x", a = "1 + x" }
        domain = { lower = [0], upper = [2], shape = [5] }
        boundary = { x_lower = { dirichlet = 1 }, x_upper = { robin = 2, alpha = 3 } }
    """
    case = case_of(text)
    assert case.problem.lattice == Lattice.box((0.0,), (2.0,), (5,), (Rule.FIXED, Rule.MIRROR))
    assert case.problem.faces == (
        Face(Kind.DIRICHLET, Expression.constant(1.0)),
        Face(Kind.ROBIN, Expression.constant(2.0), Expression.constant(3.0)),
    )
    assert case.problem.equation == "-div(a grad u) + c u = f, a = a(x), harmonic mean between nodes"
    assert case_of(case.text) == case
    assert regrid(case, (9,)).problem.lattice.shape == (9,)
    np.save(tmp_path / "f.npy", np.arange(4.0))
    path = str(tmp_path / "f.npy")
    assert mistakes_of(text, tmp_path, ("equation.f={ file = 'f.npy' }",)) == (
        f"--set equation.f: {path!r} has the shape (4,); the grid needs (5,), because arrays are (nx,)",
    )


def test_field_files(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.zeros((17, 9)))
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["group/f"] = np.ones((17, 9))
        file["turned"] = np.ones((9, 17))
    fields = ("run.initial={ file = 'u.npy' }", "equation.f={ file = 'f.h5', dataset = 'group/f' }")
    case = case_of(GOOD, tmp_path, fields)
    assert case.problem.f == FieldFile(tmp_path / "f.h5", "group/f")
    assert case.problem.initial == FieldFile(tmp_path / "u.npy")
    assert case_of(case.text, tmp_path) == case
    assert mistakes_of(GOOD, tmp_path, ("equation.f={ file = 'f.h5', dataset = 'turned' }",)) == (
        (
            f"--set equation.f: 'turned' in '{tmp_path / 'f.h5'}' has the shape (9, 17); the grid needs (17, 9), "
            "because arrays are (ny, nx)"
        ),
    )
    assert mistakes_of(GOOD, tmp_path, ("equation.f={ file = 'f.h5', dataset = 'f' }",)) == (
        f"--set equation.f: no dataset 'f' in '{tmp_path / 'f.h5'}'",
    )


def test_the_output_must_not_overwrite_an_input(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file["f"] = np.ones((17, 9))
    overrides = ("equation.f={ file = 'f.h5', dataset = 'f' }", f"output.file={path}")
    assert mistakes_of(GOOD, tmp_path, overrides) == (
        f"--set output.file: {toml.shown(str(path))}; allowed: a file other than those that the case reads",
    )
    # Nor may it by another name.
    (tmp_path / "sub").mkdir()
    link = tmp_path / "link.h5"
    link.symlink_to(path)
    for name in (tmp_path / "sub" / ".." / "f.h5", link):
        assert mistakes_of(GOOD, tmp_path, (overrides[0], f"output.file={name}")) == (
            f"--set output.file: {toml.shown(str(name))}; allowed: a file other than those that the case reads",
        )
    assert mistakes_of(GOOD, tmp_path, ("equation.f={ file = 'link.h5', dataset = 'f' }", overrides[1])) != ()


def test_a_name_that_cannot_be_printed_makes_one_that_can(tmp_path: Path) -> None:
    case = from_mapping(tomllib.loads(GOOD), name="a\nb\x1b[2J", folder=tmp_path)
    assert case.output.file == Path("a_b_[2J.h5")


# ---- overrides
def test_one_text_is_no_list_of_overrides() -> None:
    with pytest.raises(CaseError, match=r"^overrides: 'solver.rtol=1'; allowed: a list of strings, such as"):
        case_of(GOOD, overrides="solver.rtol=1")


def test_overrides() -> None:
    case = case_of(
        GOOD,
        overrides=(
            "solver.rtol=1e-6",
            "solver.method=jacobi",
            "solver.loop=staged",
            " equation.f = sin(q*pi*x) ",
            "equation.c=2",
            "domain.shape=[5, 6]",
            "boundary.x_lower.dirichlet=7",
            "title='a = b'",
            "parameters.q=1",
            "output.file=other.h5",
            "solver.rtol=1e-5",
        ),
    )
    assert (case.solver.stopping.rtol, case.solver.value("loop")) == (1e-5, "staged")
    assert case.problem.f == parse("sin(pi*x)", 2)
    assert case.problem.c == 2.0
    assert case.problem.lattice.shape == (5, 6)
    assert case.problem.faces[0].value == Expression.constant(7.0)
    assert case.problem.title == "a = b"
    assert case.output.file == Path("other.h5")
    assert case_of(case.text) == case


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("solver.rtol", '--set "solver.rtol"; allowed: KEY=VALUE, as in solver.rtol=1e-6'),
        ("=3", '--set "=3"; allowed: KEY=VALUE, as in solver.rtol=1e-6'),
        ("solver..rtol=3", '--set "solver..rtol=3"; allowed: KEY=VALUE, as in solver.rtol=1e-6'),
        ("", '--set ""; allowed: KEY=VALUE, as in solver.rtol=1e-6'),
        ("title.a=3", "--set title.a: title is not a table"),
        ("equation.f.file=3", "--set equation.f.file: equation.f is not a table"),
        ("solver.rtol=-1", "--set solver.rtol: -1; allowed: a number >= 0 and < 1"),
        ("solver.rtol=", '--set solver.rtol: ""; allowed: a number >= 0 and < 1'),
        (
            "solver.loop=fusd",
            '--set solver.loop: "fusd"; allowed: "blocked", "fused" or "staged"; did you mean \'fused\'?',
        ),
        ("solver.rtl=1", f"--set solver.rtl: unknown key; allowed: {SOLVER_KEYS}; did you mean 'rtol'?"),
        ("boundary.x_lower={ dirichlet = true }", f"--set boundary.x_lower.dirichlet: true; allowed: {FACE_DATA}"),
        ("equation.f=1\n[solver]", "equation.f: \"1\\n[solver]\"; unexpected '[' at column 3"),
        ("domain.upper=[1, -1]", "--set domain.upper: -1.0; allowed: more than domain.lower, which is 0.0 along y"),
        ("solver=3", "--set solver: 3; allowed: a table"),
    ],
)
def test_wrong_overrides(override: str, line: str) -> None:
    line = line if line.startswith("--set") else f"--set {line}"
    assert mistakes_of(GOOD, overrides=(override,)) == (line,)


def test_a_mistake_in_the_file_is_not_blamed_on_an_override() -> None:
    lines = mistakes_of(GOOD.replace("k = 3.0", "k = true"), overrides=("solver.rtol=-1",))
    assert lines == (
        "parameters.k: true; allowed: a finite number",
        "--set solver.rtol: -1; allowed: a number >= 0 and < 1",
    )


def test_data_is_not_changed() -> None:
    tables = tomllib.loads(GOOD)
    before = copy.deepcopy(tables)
    from_mapping(tables, name="case", folder=Path(), overrides=("domain.shape=[5, 5]", "solver.rtol=1e-3"))
    assert tables == before


# ---- the resolved text
@pytest.mark.parametrize("text", [GOOD, GOOD_3D], ids=["2D", "3D"])
def test_the_resolved_text_gives_the_same_case(text: str) -> None:
    case = case_of(text)
    again = from_mapping(tomllib.loads(case.text), name="another", folder=Path())
    assert again == case
    assert again.text == case.text


def test_the_resolved_text() -> None:
    others = set(registry.solver_keys()) - set(DEFAULTS)
    lines = case_of(GOOD).text.splitlines(keepends=True)
    assert "".join(line for line in lines if line.partition(" = ")[0] not in others) == (
        'title = "Good"\n\n'
        '[equation]\nf = "x*y"\na = 1.0\nc = 0.0\nmean = "harmonic"\nexact = "x + y"\n\n'
        "[parameters]\nk = 3.0\n\n"
        "[domain]\nlower = [\n    0.0,\n    0.0,\n]\nupper = [\n    1.0,\n    2.0,\n]\n"
        'shape = [\n    9,\n    17,\n]\ncentring = "node"\n\n'
        '[boundary]\ny = "periodic"\n\n[boundary.x_lower]\ndirichlet = 0.0\n\n[boundary.x_upper]\nneumann = "k*y"\n\n'
        '[solver]\nmethod = "auto"\nloop = "blocked"\nrtol = 1e-08\natol = 0.0\nnorm = "rms"\n'
        'max_iterations = 200000\ncheck_every = 0\ncycle = "V"\nfull = true\nsmoother = "chebyshev"\npre = 2\n'
        'post = 1\npreconditioner = "multigrid"\nstop = "residual"\n\n'
        '[run]\nbackend = "auto"\nprecision = "float64"\nthreads = 0\nranks = "auto"\ninitial = 0.0\n\n'
        '[output]\nfile = "case.h5"\nfields = [\n    "u",\n]\norder = 2\n\n'
        '[output.units]\nlength = "L"\nvalue = "U"\n'
    )


@pytest.mark.parametrize(
    "item",
    [
        "",
        'a "b" \\ c',
        "tab\tnew\nline\r\f\b",
        "\x00\x1f\x7f\u2028",
        "é漢\U0001f600",
        "'",
        1.5,
        1e300,
        -0.0,
        5,
        True,
        False,
    ],
)
def test_shown_values_read_back_from_their_one_line(item: Any) -> None:
    shown = toml.shown({"a é": [item]})
    assert shown.isprintable()
    assert tomllib.loads(f"value = {shown}") == {"value": {"a é": [item]}}


# ---- files
def file_mistake(path: Path) -> str:
    return mistake_of(load, path)


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "my.case.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    case = load(str(path), ["solver.rtol=1e-3"])
    assert case == from_mapping(tomllib.loads(GOOD), name="my.case", folder=tmp_path, overrides=["solver.rtol=1e-3"])
    assert case.output.file == Path("my.case.h5")


def test_unreadable_files(tmp_path: Path) -> None:
    path = tmp_path / "case.toml"
    assert file_mistake(path) == f"no case file '{path}'"
    assert file_mistake(tmp_path) == f"'{tmp_path}' is a directory; name a case file in it"
    path.write_bytes(b'title = "\xff"')
    assert file_mistake(path) == f"'{path}' is not UTF-8: byte 9 is invalid"
    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    assert file_mistake(path) == f"'{path}' is an HDF5 file; a case file is TOML"
    path.write_bytes(b"#" * (2**18 + 1))
    assert file_mistake(path) == f"'{path}' is longer than 262144 bytes; a case file is short"
    path.write_text("a = 1\nb = 2\nc = = 3\n")
    line = file_mistake(path)
    assert line.startswith(f"'{path}' is not TOML: ")
    assert line.endswith("(at line 3, column 5)")
    path.write_text("a = " + "[" * 100_000)
    assert file_mistake(path) == f"'{path}': tables or lists are nested more than 8 deep"
    path.write_text("a = " + "[" * 20 + "]" * 20)
    assert file_mistake(path) == f"'{path}': tables or lists are nested more than 8 deep"
    path.write_text("a = " + "9" * 5000)
    assert file_mistake(path).startswith(f"'{path}' is not TOML: ")
    path.write_text("a = 1\na = 2\n")
    assert file_mistake(path).startswith(f"'{path}' is not TOML: ")
    assert file_mistake(tmp_path / ("n" * 300)).startswith(f"'{tmp_path / ('n' * 300)}' cannot be read: ")
    assert file_mistake(
        tmp_path / "a\0b"
    ) == f"{str(tmp_path / 'a' / 'b')!r} cannot be read: embedded null byte".replace("a/b", "a\\x00b")


# ---- another grid
def test_regrid() -> None:
    case = case_of(GOOD)
    finer = regrid(case, (33, 40))
    assert finer == case_of(GOOD, overrides=("domain.shape=[33, 40]",))
    with pytest.raises(ValueError, match="2 nodes"):
        regrid(case, (2, 9))


def test_regrid_refuses_a_field_file(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.zeros((17, 9)))
    for key in ("equation.f", "equation.a", "equation.c", "run.initial"):
        case = case_of(GOOD, tmp_path, (f"{key}={{ file = 'u.npy' }}",))
        line = f"{key}: {str(tmp_path / 'u.npy')!r}; allowed on another grid: a number or an expression"
        assert mistake_of(regrid, case, (5, 5)) == line


SOLVE_ARRAYS = """
import sys
import numpy
import poisson
on_half = numpy.random.default_rng(5).random((321, 321)) < 0.5
problem = poisson.Problem.on_box((321, 321), f=1.0, a=numpy.where(on_half, 1e6, 1.0))
solution = poisson.Solver(problem, backend="openmp", rtol=1e-6).solve()
print(solution.provenance["method"])
print(*{"scipy", "numpy.ma", "tomllib", "h5py", "subprocess", "fractions"} & {*sys.modules})
"""


def test_what_other_solves_need_is_imported_on_use() -> None:
    """From arrays, with large clusters that are corrected together."""
    if library_path() is None:
        pytest.skip("the OpenMP library was not built here")
    command = [sys.executable, "-W", "ignore", "-c", SOLVE_ARRAYS]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told == "cg with preconditioner multigrid (V(2,1), chebyshev, galerkin)\n\n"
