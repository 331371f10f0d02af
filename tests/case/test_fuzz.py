"""Whatever stands in a case file or in a text, the answer is a case or a `PoissonError` of whole lines."""

from __future__ import annotations

import copy
import datetime
import string
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from poisson.case import from_mapping, load
from poisson.errors import CaseError, ExpressionError, PoissonError
from poisson.problem.expressions import parse
from poisson.problem.expressions.program import FUNCTIONS

VALID = tomllib.loads("""
title = "Everything"

[equation]
f = "exact"
a = "1 + x**2"
c = 1.0
mean = "arithmetic"
exact = "sin(k*x)*y + z"

[parameters]
k = 3.0

[domain]
lower = [0.0, 0.0, 0.0]
upper = [1.0, 1.0, 1.0]
shape = [9, 9, 9]

[boundary]
all = { dirichlet = "exact" }
x = "periodic"
y_lower = { neumann = 1.0 }
y_upper = { neumann = "where(x < k, 1, z)" }
z_upper = { robin = "exact", alpha = "2 + x" }

[solver]
method = "jacobi"
omega = 1.0
loop = "fused"
rtol = 1e-8
atol = 0.0
norm = "rms"
max_iterations = 200000
check_every = 0

[run]
backend = "auto"
precision = "float64"
threads = 0
initial = { file = "u.h5", dataset = "u" }

[output]
file = "everything.h5"
fields = ["u", "f", "a", "c", "residual", "error", "gradient", "flux"]
""")

WORDS = [
    "x",
    "periodic",
    "exact",
    "dirichlet",
    "neumann",
    "robin",
    "alpha",
    "file",
    "f.npy",
    "u.h5",
    "<table>",
    "<number>",
    "k",
    "solver",
]
SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.floats(),
    st.text(max_size=30),
    st.sampled_from(WORDS),
    st.dates(),
    st.datetimes(),
    st.just(datetime.time(1, 2)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def check_lines(lines: Sequence[str]) -> None:
    assert lines
    for line in lines:
        assert line
        assert line.isprintable(), ascii(line)


def check_not_finite(error: ExpressionError) -> None:
    assert str(error).endswith("which is not a finite number")


def check_case(tables: dict[str, Any], overrides: list[str]) -> None:
    try:
        case = from_mapping(tables, name="fuzz", folder=Path("no/such/folder"), overrides=overrides)
    except CaseError as error:
        check_lines(error.mistakes)
        return
    again = from_mapping(tomllib.loads(case.text), name="again", folder=Path("no/such/folder"))
    assert again == case


def places(tables: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(tables, dict):
        found += [place for key, value in tables.items() for place in places(value, (*path, key))]
    return found


@st.composite
def mutations(draw: st.DrawFn) -> dict[str, Any]:
    """The valid case with a few values replaced, taken away, renamed or added."""
    tables = copy.deepcopy(VALID)
    del tables["run"]["initial"]
    for _ in range(draw(st.integers(1, 4))):
        everywhere = places(tables)
        if not everywhere:
            break
        *outer, last = draw(st.sampled_from(everywhere))
        table = tables
        for key in outer:
            table = table[key]
        match draw(st.sampled_from(["replace", "delete", "rename", "add"])):
            case "replace":
                table[last] = draw(VALUES)
            case "delete":
                del table[last]
            case "rename":
                table[draw(st.sampled_from(WORDS) | st.text(max_size=10))] = table.pop(last)
            case "add":
                table[draw(st.sampled_from(WORDS) | st.text(max_size=10))] = draw(VALUES)
    return tables


@settings(max_examples=600, deadline=None, derandomize=True)
@given(mutations())
def test_a_mutated_case_gives_a_case_or_lines(tables: dict[str, Any]) -> None:
    check_case(tables, [])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from([*VALID, "other"]) | st.text(max_size=8), VALUES, max_size=6))
def test_any_tree_gives_a_case_or_lines(tables: dict[str, Any]) -> None:
    check_case(tables, [])


PATHS = [".".join(place) for place in places(VALID)]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=30),
            st.builds("{}={}".format, st.sampled_from(PATHS), st.text(max_size=20)),
            st.builds("{}={}".format, st.sampled_from(PATHS), st.integers() | st.floats() | st.sampled_from(WORDS)),
        ),
        max_size=3,
    )
)
def test_any_override_gives_a_case_or_lines(overrides: list[str]) -> None:
    tables = copy.deepcopy(VALID)
    del tables["run"]["initial"]
    check_case(tables, overrides)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=200) | st.text(alphabet="=[]{}\".'#\n ax1", max_size=80).map(str.encode))
def test_any_file_gives_a_case_or_lines(tmp_path_factory: Any, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes(content)
    try:
        load(path)
    except PoissonError as error:
        check_lines(str(error).split("\n"))


TOKENS = [*"xyzek+-*/()<>,&|", "**", "<=", "==", "!=", "and", "or", "not", "pi", "2", "0.5", "1e300", " ", *FUNCTIONS]


@st.composite
def grammatical(draw: st.DrawFn, depth: int = 4) -> str:
    """Texts that are right, but for their values."""
    if depth == 0:
        return draw(st.sampled_from(["x", "y", "z", "k", "pi", "2", "0.5", "1e200"]))
    sub = grammatical(depth=depth - 1)
    match draw(st.integers(0, 5)):
        case 0:
            return f"({draw(sub)})"
        case 1:
            return f"-{draw(sub)}"
        case 2:
            name = draw(st.sampled_from(sorted(set(FUNCTIONS) - {"where"})))
            return f"{name}({', '.join(draw(sub) for _ in range(FUNCTIONS[name] or 3))})"
        case 3:
            comparison = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
            return f"where(not {draw(sub)} {comparison} {draw(sub)} or x < y, {draw(sub)}, {draw(sub)})"
        case _:
            return f"{draw(sub)} {draw(st.sampled_from(['+', '-', '*', '/', '**']))} {draw(sub)}"


@settings(max_examples=800, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.text(max_size=60),
        st.text(alphabet=string.printable, max_size=60),
        st.lists(st.sampled_from(TOKENS), max_size=25).map("".join),
        st.lists(st.sampled_from(TOKENS), max_size=25).map(" ".join),
        grammatical(),
    )
)
def test_any_text_gives_an_expression_or_one_line(text: str) -> None:
    try:
        expression = parse(text, 3, {"k": 2.5})
    except ExpressionError as error:
        check_lines([str(error)])
        return
    for candidate in (expression, expression.derivative("x"), expression.derivative("y").derivative("y")):
        value = candidate(np, np.array([0.0, -1.5, 0.5]), 0.25, np.array([[1.0], [-1.0]]))
        assert np.broadcast_shapes(np.shape(value), (2, 3)) == (2, 3)
        try:
            written = candidate.text
        except ExpressionError:
            continue
        try:
            again = parse(written, 3)
        except ExpressionError as error:
            # A derivative may divide one number by zero, which a text may not.
            check_not_finite(error)
            assert candidate is not expression
        else:
            assert again == candidate


@settings(max_examples=300, deadline=None, derandomize=True)
@given(grammatical())
def test_texts_of_the_grammar_are_read(text: str) -> None:
    try:
        parse(text, 3, {"k": 2.5})
    except ExpressionError as error:
        check_not_finite(error)
