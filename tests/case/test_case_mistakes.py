# SPDX-License-Identifier: MIT
"""The exact line for every kind of mistake in a case file, and all of them at once.

Covers poisson.problem.mistakes.
"""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.case_texts import (
    A_DATA,
    ALPHA_DATA,
    BACKENDS,
    C_DATA,
    CONDITION,
    DATA,
    EQUATION_KEYS,
    FACE_DATA,
    FACE_KEYS,
    FIELDS,
    GOOD,
    INITIAL_DATA,
    METHODS,
    NODES,
    NUMBERS,
    SECTIONS,
    SOLVER_KEYS,
    edited,
    mistakes_of,
)
from support.refusals import mistake_of

from poisson.case import from_mapping
from poisson.case.schema import UNIT
from poisson.errors import CaseError
from poisson.mesh.boundary import CONDITIONS, ONE_CONDITION

SAME = "allowed: 1, 2 or 3 entries, the same number in each"
LISTED = ', or a list of these, all but the last with where = "abs(x) < 0.2" or another condition'
WORDS = ", ".join([*(kind.value for kind in CONDITIONS), "alpha"])
RANKS = '"auto", the number of processes, or blocks along x(, y(, z)) such as [1, 2, 2], 1 along x'
ONE = f"allowed: exactly {ONE_CONDITION}"

# One wrong value each: the path, the value as TOML (None: taken away), and the line expected, or what follows the path.
WRONG: list[tuple[str, str | None, str]] = [
    # title and tables
    ("title", "3", ": 3; allowed: one line of at most 256 printable characters"),
    ("title", '"a\\nb"', ': "a\\nb"; allowed: one line of at most 256 printable characters'),
    ("titel", '"x"', f": unknown key; allowed: {SECTIONS}; did you mean 'title'?"),
    ("rtol", "1e-6", f": unknown key; allowed: {SECTIONS}; did you mean 'solver.rtol'?"),
    ("mesh.n", "3", f"mesh: unknown key; allowed: {SECTIONS}"),
    ('"a b\\n"', "3", f'"\\"a b\\\\n\\"": unknown key; allowed: {SECTIONS}'),
    ("solver", "3", ": 3; allowed: a table"),
    ("run", "[1, 2]", ": [1, 2]; allowed: a table"),
    # What no table holds is not missing besides.
    *((table, "3", f"{table}: 3; allowed: a table") for table in ("equation", "domain", "boundary")),
    # equation
    ("equation.f", None, f": missing; allowed: {DATA}"),
    ("equation.f", "true", f": true; allowed: {DATA}"),
    ("equation.f", "nan", f": nan; allowed: {DATA}"),
    ("equation.f", "[1.0]", f": [1.0]; allowed: {DATA}"),
    ("equation.f", "1979-05-27", f": 1979-05-27; allowed: {DATA}"),
    ("equation.f", '"sine(x)"', ": \"sine(x)\"; unknown name 'sine' at column 1; did you mean 'sin'?"),
    ("equation.f", '"z"', ': "z"; z at column 1 is not a coordinate of a 2D case'),
    ("equation.f", '"x +"', ": \"x +\"; the expression ends after '+'; a number or a name must follow"),
    ("equation.f", '"10**10**10"', ": \"10**10**10\"; '**' at column 3 gives inf, which is not a finite number"),
    ("equation.f", "{ file = 3 }", ".file: 3; allowed: the path of a .npy, .h5 or .hdf5 file"),
    ("equation.f", "{}", ".file: missing; allowed: the path of a .npy, .h5 or .hdf5 file"),
    ("equation.f", '{ file = "f.h5", dataset = "" }', '.dataset: ""; allowed: the name of a dataset in an HDF5 file'),
    ("equation.f", '{ file = "no.npy" }', ": no such file: 'no.npy'"),
    ("equation.f", '{ file = "no.txt" }', ": 'no.txt' must end in .npy, .h5, .hdf5, .png, .tif or .tiff"),
    ("equation.c", "-1.0", f": -1.0; allowed: {C_DATA}"),
    ("equation.c", "inf", f": inf; allowed: {C_DATA}"),
    ("equation.c", "true", f": true; allowed: {C_DATA}"),
    ("equation.c", '"1 - 2"', f': "1 - 2"; allowed: {C_DATA}'),
    ("equation.c", '"z"', ': "z"; z at column 1 is not a coordinate of a 2D case'),
    ("equation.a", "0.0", f": 0.0; allowed: {A_DATA}"),
    ("equation.a", "-2", f": -2; allowed: {A_DATA}"),
    ("equation.a", '"0*x"', f': "0*x"; allowed: {A_DATA}'),
    ("equation.a", '"1 +"', ": \"1 +\"; the expression ends after '+'; a number or a name must follow"),
    ("equation.a", '{ file = "no.npy" }', ": no such file: 'no.npy'"),
    ("equation.mean", '"harmonics"', ': "harmonics"; allowed: "harmonic" or "arithmetic"; did you mean \'harmonic\'?'),
    ("equation.exact", "false", ": false; allowed: a finite number or an expression"),
    ("equation.exact", '"exact"', ": \"exact\"; unknown name 'exact' at column 1"),
    ("equation.g", "1", f": unknown key; allowed: {EQUATION_KEYS}"),
    ("equation.source", "1", f": unknown key; allowed: {EQUATION_KEYS}; did you mean 'surface'?"),
    ("equation.Exact", '"x"', f": unknown key; allowed: {EQUATION_KEYS}; did you mean 'exact'?"),
    # parameters
    ("parameters.k", '"3"', ': "3"; allowed: a finite number'),
    ("parameters.k", "true", ": true; allowed: a finite number"),
    ("parameters.q", "inf", ": inf; allowed: a finite number"),
    ("parameters.x", "1.0", ": this is the name of a coordinate; choose another name"),
    ("parameters.e", "1.0", ": this is the name of a constant; choose another name"),
    ("parameters.max", "1.0", ": this is the name of a function; choose another name"),
    ("parameters.a-b", "1.0", ": a name has only letters, digits and '_', and does not begin with a digit"),
    # domain
    ("domain.lower", None, f": missing; allowed: {NUMBERS}"),
    ("domain.shape", None, f": missing; allowed: {NODES}"),
    ("domain.shape", "[]", f": []; allowed: {NODES}"),
    ("domain.shape", "[9]", f"domain: lower, upper and shape have 2, 2 and 1 entries; {SAME}"),
    ("domain.shape", "[9, 2]", f": [9, 2]; allowed: {NODES}"),
    ("domain.shape", "[9, 17.0]", f": [9, 17.0]; allowed: {NODES}"),
    ("domain.shape", "[9, true]", f": [9, true]; allowed: {NODES}"),
    ("domain.shape", "[true, 1]", f": [true, 1]; allowed: {NODES}"),
    ("domain.shape", "[1152921504606846976, 3]", f": [1152921504606846976, 3]; allowed: {NODES}"),
    ("domain.shape", "[2147483648, 2147483648]", ": [2147483648, 2147483648]; allowed: fewer than 2**60 nodes in all"),
    ("domain.shape", "[1073741824, 1073741824]", ": [1073741824, 1073741824]; allowed: fewer than 2**60 nodes in all"),
    ("domain.shape", "[9, 17, 3]", f"domain: lower, upper and shape have 2, 2 and 3 entries; {SAME}"),
    ("domain.upper", "[1, nan]", f": [1, nan]; allowed: {NUMBERS}"),
    ("domain.upper", '"1 1"', f': "1 1"; allowed: {NUMBERS}'),
    ("domain.upper", "[1.0, 0.0]", ": 0.0; allowed: more than domain.lower, which is 0.0 along y"),
    ("domain.lower", "[4, 0]", "domain.upper: 1.0; allowed: more than domain.lower, which is 4.0 along x"),
    (
        "domain.upper",
        "[1e-160, 1]",
        ": 1e-160; allowed: a spacing of the nodes of more than 1e-150 and less than 1e+150 along x",
    ),
    (
        "domain",
        "{ lower = [-1e308, 0], upper = [1e308, 1], shape = [9, 9] }",
        ".upper: 1e+308; allowed: a spacing of the nodes of more than 1e-150 and less than 1e+150 along x",
    ),
    (
        "domain",
        "{ lower = [1, 0], upper = [1.0000000000000004, 1], shape = [9, 9] }",
        ".upper: 1.0000000000000004; allowed: nodes far enough apart to differ in float64 along x",
    ),
    ("domain.size", "[1, 1]", ": unknown key; allowed: lower, upper, shape, x, y, centring, system"),
    # boundary
    (
        "boundary.x_lower",
        None,
        f': missing; allowed: {CONDITION}{LISTED}; for both x faces at once also x = "periodic"',
    ),
    ("boundary.x_lower", "3.0", f': 3.0; allowed: {CONDITION}{LISTED}; for both x faces at once also x = "periodic"'),
    (
        "boundary.x_lower",
        '"periodic"',
        f': "periodic"; allowed: {CONDITION}{LISTED}; for both x faces at once also x = "periodic"',
    ),
    ("boundary.x_lower", "{}", f": {{}}; {ONE}"),
    ("boundary.x_lower", "{ dirichlet = 1, neumann = 2 }", f": {{ dirichlet = 1.0, neumann = 2.0 }}; {ONE}"),
    ("boundary.x_lower", "{ dirichelt = 1 }", f".dirichelt: unknown key; allowed: {WORDS}; did you mean 'dirichlet'?"),
    ("boundary.x_lower", "{ cauchy = 1 }", f".cauchy: unknown key; allowed: {WORDS}"),
    ("boundary.x_lower", "{ robin = 1 }", f".alpha: missing; allowed: {ALPHA_DATA}"),
    ("boundary.x_lower", "{ alpha = 1 }", f": {{ alpha = 1.0 }}; {ONE}"),
    ("boundary.x_lower", "{ neumann = 1, alpha = 2 }", f": {{ neumann = 1.0, alpha = 2.0 }}; {ONE}"),
    ("boundary.x_lower", "{ robin = 1, alpha = -2 }", f".alpha: -2; allowed: {ALPHA_DATA}"),
    ("boundary.x_lower", '{ robin = 1, alpha = "1 - 3" }', f'.alpha: "1 - 3"; allowed: {ALPHA_DATA}'),
    ("boundary.x_lower", '{ robin = 1, alpha = "exact" }', ".alpha: \"exact\"; unknown name 'exact' at column 1"),
    ("boundary.x_lower", "{ dirichlet = true }", f".dirichlet: true; allowed: {FACE_DATA}"),
    (
        "boundary.x_lower",
        '{ dirichlet = "sin(" }',
        ".dirichlet: \"sin(\"; the expression ends after '('; a number or a name must follow",
    ),
    (
        "boundary.y_lower",
        "{ dirichlet = 1 }",
        ': { dirichlet = 1.0 }; allowed: nothing, because y = "periodic" sets both faces',
    ),
    (
        "boundary.y",
        '"Periodic"',
        (
            ': "Periodic"; allowed: "periodic" or "open"; for other conditions use y_lower and y_upper; '
            "did you mean 'periodic'?"
        ),
    ),
    (
        "boundary.y",
        "{ dirichlet = 0.0 }",
        ': { dirichlet = 0.0 }; allowed: "periodic" or "open"; for other conditions use y_lower and y_upper',
    ),
    ("boundary.z", '"periodic"', f": unknown key; allowed: {FACE_KEYS}"),
    ("boundary.z_lower", "{ dirichlet = 0 }", f": unknown key; allowed: {FACE_KEYS}"),
    ("boundary.x_lowr", "{ dirichlet = 0 }", f": unknown key; allowed: {FACE_KEYS}; did you mean 'x_lower'?"),
    ("boundary.all", '"periodic"', f': "periodic"; allowed: {CONDITION}; periodic axes have x = "periodic"'),
    ("boundary.all", '{ dirichlet = "xx" }', ".dirichlet: \"xx\"; unknown name 'xx' at column 1; did you mean 'x'?"),
    # solver
    ("solver.method", '"jacoby"', f": \"jacoby\"; allowed: {METHODS}; did you mean 'jacobi'?"),
    ("solver.omega", "0.0", ": 0.0; allowed: a number > 0 and < 2"),
    ("solver.omega", "2.0", ": 2.0; allowed: a number > 0 and < 2"),
    ("solver.omga", "1", f": unknown key; allowed: {SOLVER_KEYS}; did you mean 'omega'?"),
    ("solver.loop", '"stagd"', ': "stagd"; allowed: "blocked", "fused" or "staged"; did you mean \'staged\'?'),
    ("solver.rtol", "-1e-8", ": -1e-08; allowed: a number >= 0 and < 1"),
    ("solver.rtol", '"1e-8"', ': "1e-8"; allowed: a number >= 0 and < 1'),
    ("solver.rtol", "true", ": true; allowed: a number >= 0 and < 1"),
    ("solver.atol", "inf", ": inf; allowed: a finite number >= 0"),
    ("solver.norm", '"l2"', ': "l2"; allowed: "rms" or "max"'),
    ("solver.max_iterations", "0", ": 0; allowed: an integer >= 1 and <= 2**53"),
    ("solver.max_iterations", "1e3", ": 1000.0; allowed: an integer >= 1 and <= 2**53"),
    ("solver.check_every", "-1", ": -1; allowed: an integer >= 0 and <= 2**53; 0 lets the solver choose"),
    ("solver.backend", '"gpu"', f": unknown key; allowed: {SOLVER_KEYS}; did you mean 'run.backend'?"),
    # run
    ("run.backend", '"cuda"', f": \"cuda\"; allowed: {BACKENDS}; did you mean 'gpu'?"),
    ("run.backend", '"OpenMP"', f": \"OpenMP\"; allowed: {BACKENDS}; did you mean 'openmp'?"),
    ("run.precision", "32", ': 32; allowed: "float64", "float32" or "mixed"'),
    ("run.threads", "-2", ": -2; allowed: an integer >= 0 and <= 4096; 0 uses all"),
    ("run.threads", "false", ": false; allowed: an integer >= 0 and <= 4096; 0 uses all"),
    ("run.ranks", "0", f": 0; allowed: {RANKS}"),
    ("run.ranks", "2.0", f": 2.0; allowed: {RANKS}"),
    ("run.ranks", '"Auto"', f": \"Auto\"; allowed: {RANKS}; did you mean 'auto'?"),
    ("run.ranks", "[]", f": []; allowed: {RANKS}"),
    ("run.ranks", "[2, 1]", f": [2, 1]; allowed: {RANKS}"),
    ("run.ranks", "[1, 0]", f": [1, 0]; allowed: {RANKS}"),
    ("run.initial", '"exp(x"', ': "exp(x"; the bracket at column 4 is not closed'),
    ("run.initial", "[]", f": []; allowed: {INITIAL_DATA}"),
    ("run.initial", '{ file = "u.h5" }', ": 'u.h5' is an HDF5 file; name the dataset, such as dataset = \"f\""),
    # output
    ("output.file", '"u.vtk"', ': "u.vtk"; allowed: a path that ends in .h5 or .hdf5'),
    ("output.file", "3", ": 3; allowed: a path that ends in .h5 or .hdf5"),
    ("output.fields", '"u"', f': "u"; allowed: {FIELDS}'),
    ("output.fields", '["u", "eror"]', f': ["u", "eror"]; allowed: {FIELDS}; did you mean \'error\'?'),
    ("output.fields", '["u", "f", "u"]', ': ["u", "f", "u"]; allowed: every field at most once'),
    (
        "output.feilds",
        '["u"]',
        ": unknown key; allowed: file, fields, order, units, checkpoint_every; did you mean 'fields'?",
    ),
    ("output.units", '"m"', ': "m"; allowed: a table such as { length = "m", value = "V" }'),
    ("output.units.length", "3", f": 3; allowed: {UNIT}"),
    ("output.units.value", '" V"', f': " V"; allowed: {UNIT}'),
    ("output.units.value", '""', f': ""; allowed: {UNIT}'),
    ("output.units.value", f'"{33 * "V"}"', f': "{33 * "V"}"; allowed: {UNIT}'),
    ("output.units.value", '"a\\nb"', f': "a\\nb"; allowed: {UNIT}'),
    ("output.order", "3", ": 3; allowed: 2, 4, 6 or 8"),
    ("output.order", '"4"', ': "4"; allowed: 2, 4, 6 or 8'),
]


def refused(tables: dict[str, Any], folder: Path = Path()) -> str:
    return mistake_of(from_mapping, tables, name="case", folder=folder)


@pytest.mark.parametrize(("path", "value", "line"), WRONG, ids=[f"{path}={value}" for path, value, _ in WRONG])
def test_one_mistake_is_one_line(path: str, value: str | None, line: str) -> None:
    assert refused(edited(path, value)) == (path + line if line[0] in ":." else line)


# Mistakes of a case without an exact solution.
@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("equation.f", '"exact"', 'equation.f: "exact"; allowed: only if equation.exact is given'),
        (
            "boundary.x_lower",
            '{ dirichlet = "exact" }',
            'boundary.x_lower.dirichlet: "exact"; allowed: only if equation.exact is given',
        ),
        (
            "boundary.all",
            '{ neumann = "exact" }',
            'boundary.all.neumann: "exact"; allowed: only if equation.exact is given',
        ),
        ("output.fields", '["error"]', 'output.fields: "error"; allowed: only if equation.exact is given'),
    ],
)
def test_what_needs_an_exact_solution(path: str, value: str, line: str) -> None:
    tables = edited(path, value)
    del tables["equation"]["exact"]
    assert refused(tables) == line


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        ("equation.f", '"exact"', "a"),
        ("equation.f", '"exact"', "c"),
        ("boundary.x_lower", '{ neumann = "exact" }', "a"),
        ("boundary.x_lower", '{ robin = "exact", alpha = 1 }', "a"),
    ],
)
def test_what_needs_a_coefficient_that_has_derivatives(tmp_path: Path, path: str, value: str, name: str) -> None:
    np.save(tmp_path / "k.npy", np.ones((17, 9)))
    tables = edited(path, value)
    tables["equation"][name] = {"file": "k.npy"}
    key = path if path == "equation.f" else f"{path}.{value.split()[1]}"
    line = f'{key}: "exact"; allowed: only if equation.{name} is a number or an expression'
    assert refused(tables, tmp_path) == line
    # Where u is given no derivative is needed.
    tables = edited("boundary.x_lower", '{ dirichlet = "exact" }')
    tables["equation"][name] = {"file": "k.npy"}
    from_mapping(tables, name="case", folder=tmp_path)


@pytest.mark.parametrize("key", ["y_lower", "z_upper", "y", "z"])
def test_a_1d_case_has_no_other_faces(key: str) -> None:
    value = '"periodic"' if key in "yz" else "{ dirichlet = 0 }"
    text = f"""
        equation = {{ f = 1.0 }}
        domain = {{ lower = [0], upper = [1], shape = [9] }}
        boundary = {{ x_lower = {{ dirichlet = 0 }}, x_upper = {{ dirichlet = 0 }}, {key} = {value} }}
    """
    assert mistakes_of(text) == (f"boundary.{key}: unknown key; allowed: all, x, x_lower, x_upper",)
    text = text.replace(f", {key} = {value}", "").replace("1.0", '"y"')
    assert mistakes_of(text) == ('equation.f: "y"; y at column 1 is not a coordinate of a 1D case',)


@pytest.mark.parametrize(("order", "fields", "fits"), [(8, "gradient", True), (8, "flux", False), (6, "flux", True)])
def test_an_order_needs_one_node_more_along_each_axis(order: int, fields: str, fits: bool) -> None:
    tables = edited("output.fields", f'["{fields}"]')
    tables["output"]["order"] = order
    tables["domain"]["shape"] = [9, 17] if fits and order == 8 else [17, 8]
    if fits:
        assert from_mapping(tables, name="case", folder=Path()).output.order == order
        return
    reason = "because order p needs p + 1 nodes along every axis of domain.shape = [17, 8]"
    assert refused(tables) == f"output.order: 8; allowed: at most 6, {reason}"


def test_the_order_may_be_given_only_where_a_derivative_is_written() -> None:
    tables = edited("output.order", "2")
    tables["domain"]["shape"] = [3, 3]
    assert from_mapping(tables, name="case", folder=Path()).output.vectors == ()
    tables["output"]["order"] = 8
    reason = "only its default without gradient, flux or E in output.fields, whose order of accuracy it is"
    assert refused(tables) == f"output.order: 8; allowed: {reason}"


def test_several_mistakes_at_once_in_the_order_of_the_tables() -> None:
    text = """
        colour = "red"
        [output]
        fields = ["u", "u"]
        [solver]
        omega = 2.0
        loop = "fusd"
        rtl = 1.0
        [equation]
        F = 1.0
        exact = "sinn(x)"
        [parameters]
        k = "three"
        pi = 3.0
        [domain]
        lower = [0, 0]
        upper = [1, -1]
        shape = [2, 9]
        [boundary]
        x = "periodic"
        x_upper = { dirichlet = "exact" }
        y_upper = { neumann = "k*z" }
        [run]
        initial = { fil = "u.npy" }
    """
    loop = '"fusd"; allowed: "blocked", "fused" or "staged"; did you mean \'fused\'?'
    assert mistakes_of(text) == (
        f"equation.F: unknown key; allowed: {EQUATION_KEYS}; did you mean 'f'?",
        "equation.exact: \"sinn(x)\"; unknown name 'sinn' at column 1; did you mean 'sin'?",
        'parameters.k: "three"; allowed: a finite number',
        "parameters.pi: this is the name of a constant; choose another name",
        f"domain.shape: [2, 9]; allowed: {NODES}",
        'boundary.x_upper: { dirichlet = "exact" }; allowed: nothing, because x = "periodic" sets both faces',
        f'boundary.y_lower: missing; allowed: {CONDITION}{LISTED}; for both y faces at once also y = "periodic"',
        'boundary.y_upper.neumann: "k*z"; z at column 3 is not a coordinate of a 2D case',
        "solver.omega: 2.0; allowed: a number > 0 and < 2",
        f"solver.loop: {loop}",
        f"solver.rtl: unknown key; allowed: {SOLVER_KEYS}; did you mean 'rtol'?",
        "run.initial.file: missing; allowed: the path of a .npy, .h5 or .hdf5 file",
        "run.initial.fil: unknown key; allowed: file, dataset; did you mean 'file'?",
        'output.fields: ["u", "u"]; allowed: every field at most once',
        f"colour: unknown key; allowed: {SECTIONS}",
    )


def test_a_table_of_the_wrong_kind() -> None:
    assert mistakes_of(
        GOOD.replace("[parameters]\nk = 3.0", "").replace("\n[equation]", "parameters = [1.0]\n[equation]")
    ) == (
        "parameters: [1.0]; allowed: a table of finite numbers",
        "boundary.x_upper.neumann: \"k*y\"; unknown name 'k' at column 1",
    )


def test_an_empty_case_says_what_a_case_needs() -> None:
    lines = mistakes_of("")
    assert [line.partition(":")[0] for line in lines] == ["equation.f", "domain.lower", "domain.upper", "domain.shape"]


def test_long_and_large_values_are_shortened() -> None:
    [line] = mistakes_of(GOOD.replace('title = "Good"', f'title = "{"t" * 300}"'))
    assert line == f'title: "{"t" * 56}...; allowed: one line of at most 256 printable characters'
    line = refused(edited("equation.c", f"0x{'f' * 5000}"))
    assert line == f"equation.c: 0x{'f' * 55}...; allowed: {C_DATA}"


def test_keys_that_look_like_ours_inside() -> None:
    """Keys named like the tags that the checks use within."""
    tables = tomllib.loads(GOOD)
    tables["<table>"] = 1
    tables["equation"]["f"] = {"<table>": 1, "<text>": {}}
    tables["parameters"]["<number>"] = "a"
    with pytest.raises(CaseError) as caught:
        from_mapping(tables, name="case", folder=Path())
    assert [line.partition(": ")[0] for line in caught.value.mistakes] == [
        "equation.f.file",
        'equation.f."<table>"',
        'equation.f."<text>"',
        'parameters."<number>"',
        'parameters."<number>"',
        '"<table>"',
    ]
