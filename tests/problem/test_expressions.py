# SPDX-License-Identifier: MIT
"""The grammar of texts: values, precedence, derivatives, canonical text, messages, limits.

Covers poisson.problem.expressions.calculus, poisson.problem.expressions.expression, poisson.problem.expressions.parser
and poisson.problem.expressions.writer.
"""

import copy
import inspect
import math
import pickle
import random
import sys
import time

import numpy as np
import pytest
import sympy

from poisson.errors import ExpressionError
from poisson.problem.expressions import MAX_TEXT, Expression, parse
from poisson.problem.expressions.program import FUNCTIONS

POINTS = np.random.default_rng(7).uniform(0.1, 0.9, (3, 40))

NAMESPACE = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")} | {
    "abs": abs,
    "min": min,
    "max": max,
    "sign": lambda u: math.copysign(1.0, u) if u else 0.0,
    "where": lambda condition, a, b: a if condition else b,
    "k": 2.5,
}

TEXTS = [
    "1",
    "-1.5e-3",
    ".5 + 2. + 1E2",
    "x",
    "-x",
    "+x",
    "x - y - z",
    "x - (y - z)",
    "x / y / z",
    "x / (y * z)",
    "x * y / z * x",
    "-x**2",
    "(-x)**2",
    "x**-2",
    "2**-x**2",
    "2**x**y",
    "(2**x)**y",
    "-x * -y",
    "x - -y",
    "--x",
    "-(x*y)",
    "(-2)**2 * x",
    "k**x",
    "pi*x + e*y",
    "sin(x)*cos(y)*tan(z)",
    "asin(x) + acos(y) + atan(z)",
    "atan2(x, y) + hypot(x, -z)",
    "sinh(x) + cosh(y) + tanh(z)",
    "exp(-x) + log(y) + log10(z)",
    "sqrt(x) + abs(y - 0.5) + sign(z - 0.5)",
    "floor(5*x) + ceil(5*y)",
    "min(x, y, z) + max(x, y) - max(1, z, y, x)",
    "where(x < y, x, y)",
    "where(x <= 0.5 and y > 0.5 or not z >= 0.5, 1, x*y)",
    "where(not (x < 0.5 and (y < 0.5 or z < 0.5)), x, -y)",
    "where(x != y, where(x == x, 2, 3), 4)",
    "where(not not x < 0.5, 1, 2)",
    "\n x\t+\r\n y ",
]


@pytest.mark.parametrize("text", TEXTS)
def test_values_are_those_of_python(text: str) -> None:
    expression = parse(text, 3, {"k": 2.5})
    got = np.broadcast_to(expression(np, *POINTS), POINTS.shape[1])
    for index, (x, y, z) in enumerate(POINTS.T):
        expected = eval(" ".join(text.split()), {}, NAMESPACE | {"x": x, "y": y, "z": z})
        assert got[index] == pytest.approx(expected, rel=1e-14, abs=1e-15)


def test_ampersand_and_bar_bind_as_and_and_or() -> None:
    assert parse("where(x < 1 & y < 1 | x > 2, 1, 2)", 2) == parse("where((x < 1 and y < 1) or x > 2, 1, 2)", 2)


@pytest.mark.parametrize("text", TEXTS)
def test_text_reads_back(text: str) -> None:
    expression = parse(text, 3, {"k": 2.5})
    assert parse(expression.text, 3) == expression
    for name in "xyz":
        derivative = expression.derivative(name)
        assert parse(derivative.text, 3) == derivative


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2*pi", "6.283185307179586"),
        ("1+1", "2"),
        ("x*1 + 0*y - 0", "x"),
        ("0 - x", "-x"),
        ("x**1 + y**0", "x + 1"),
        ("x/1 + 0/y", "x"),
        ("-1*x", "-x"),
        ("x*-1", "-x"),
        ("x-(y-x)", "x - (y - x)"),
        ("(x+y)*(x-y)", "(x + y)*(x - y)"),
        ("(-2)**x", "(-2)**x"),
        ("-2**x", "-2**x"),
        ("(x**y)**2", "(x**y)**2"),
        ("where(x<1&(y<1|y>2),1,2)", "where(x < 1 and (y < 1 or y > 2), 1, 2)"),
        ("where(x < y, x+1, x+1)", "x + 1"),
        ("1e300*x + 1e-7", "1e+300*x + 1e-07"),
        ("-0.0", "0"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert parse(text, 2).text == canonical


def test_powers_of_zero_and_one_keep_their_values() -> None:
    x = np.array([-1.0, 0.0, 2.0])
    assert parse("0**x", 2)(np, x).tolist() == [math.inf, 1.0, 0.0]
    assert np.broadcast_to(parse("1**x", 2)(np, x), 3).tolist() == [1.0] * 3
    assert np.broadcast_to(parse("x**0", 2)(np, x), 3).tolist() == [1.0] * 3


def to_sympy(text: str) -> sympy.Expr:
    x, y, z = sympy.symbols("x y z", real=True)
    names = {
        "x": x,
        "y": y,
        "z": z,
        "k": sympy.Float(2.5),
        "e": sympy.E,
        "abs": sympy.Abs,
        "min": sympy.Min,
        "max": sympy.Max,
        "log10": lambda u: sympy.log(u) / sympy.log(10),
        "ceil": sympy.ceiling,
        "hypot": lambda u, v: sympy.sqrt(u**2 + v**2),
    }
    return sympy.sympify(text, locals=names)


@pytest.mark.parametrize(
    "text",
    [
        "x**2*y - 3*x/y + z",
        "x**y + 2**x + x**x",
        "x**-1.5",
        "(x*y + z)**3",
        "sin(x*y)*cos(y/z)*tan(x)",
        "asin(x*y) + acos(x*z) + atan(x/y)",
        "atan2(x*y, z + x)",
        "hypot(x**2, y*z)",
        "sinh(x*y) + cosh(y*z) + tanh(x*z)",
        "exp(-x**2/y) + log(x*y) + log10(x + z)",
        "sqrt(x*y + z)",
        "abs(x - y)*x",
        "sign(x - y)*x**2",
        "min(x*y, z**2)*x",
        "max(x, y)*y",
        "max(min(x, y), z)",
        "k*x/(1 + k*x)",
    ],
)
@pytest.mark.parametrize("name", ["x", "y", "z"])
def test_first_and_second_derivatives_are_those_of_sympy(text: str, name: str) -> None:
    expression = parse(text, 3, {"k": 2.5})
    symbolic = to_sympy(text)
    for order in (1, 2):
        expression = expression.derivative(name)
        symbolic = sympy.diff(symbolic, sympy.Symbol(name, real=True))
        got = np.broadcast_to(expression(np, *POINTS), POINTS.shape[1])
        for index, (x, y, z) in enumerate(POINTS.T[:12]):
            values = {sympy.Symbol(n, real=True): v for n, v in zip("xyz", (x, y, z), strict=True)}
            expected = float(symbolic.subs(values).doit().evalf())
            assert got[index] == pytest.approx(expected, rel=1e-10, abs=1e-10), (order, x, y, z)


@pytest.mark.parametrize(
    ("text", "derivative"),
    [
        ("x**2", "2*x"),
        ("x**3", "3*x**2"),
        ("x", "1"),
        ("y", "0"),
        ("5", "0"),
        ("-x", "-1"),
        ("x*y", "y"),
        ("sin(x)", "cos(x)"),
        ("cos(x)", "-sin(x)"),
        ("exp(2*x)", "exp(2*x)*2"),
        ("floor(x) + ceil(x) + sign(x)", "0"),
        ("abs(x)", "sign(x)"),
        ("where(x < 0.5, x**2, y)", "where(x < 0.5, 2*x, 0)"),
        ("where(x < 0.5, 1, 2)", "0"),
        ("min(x, y)", "where(x <= y, 1, 0)"),
        ("max(x, y)", "where(x >= y, 1, 0)"),
        ("max(x, y, 2*x)", "where(max(x, y) >= 2*x, where(x >= y, 1, 0), 2)"),
        ("y**x", "y**x*log(y)"),
        ("2**x", "2**x*0.6931471805599453"),
    ],
)
def test_derivative_text(text: str, derivative: str) -> None:
    assert parse(text, 2).derivative("x").text == derivative


def test_derivative_of_a_power_at_and_below_zero() -> None:
    slope = parse("x**2", 2).derivative("x")
    assert slope(np, np.array([-3.0, 0.0, 2.0])).tolist() == [-6.0, 0.0, 4.0]
    assert slope.derivative("x").value == 2.0


def test_derivative_by_an_unknown_name_is_a_defect() -> None:
    with pytest.raises(ValueError, match="'k' is not a coordinate"):
        parse("x", 2).derivative("k")


def test_constants_and_names() -> None:
    assert (Expression.constant(-0.0).text, parse("-1e-300*1e-300", 2).text) == ("0", "0")
    constant = Expression.constant(2)
    assert (constant.is_constant, constant.value, constant.text, constant.names) == (True, 2.0, "2", frozenset())
    assert parse("where(1 < 2, 3, 4)", 2).value == 3.0
    assert parse("x*sin(z)", 3).names == {"x", "z"}
    assert not parse("x", 2).is_constant
    with pytest.raises(ValueError, match="depends on x"):
        _ = parse("x", 2).value
    with pytest.raises(ExpressionError, match=r"^inf is not a finite number$"):
        Expression.constant(math.inf)


def test_composition() -> None:
    x, y = parse("x", 2), parse("y", 2)
    assert x + y == parse("x + y", 2)
    assert x - 1.0 == parse("x - 1", 2)
    assert 1.0 - x == parse("1 - x", 2)
    assert 1.0 + x == parse("1 + x", 2)
    assert 3.0 * x * y == parse("3*x*y", 2)
    assert -x == parse("-x", 2)
    minus = -x
    assert -minus == x
    assert x * 0.0 == Expression.constant(0.0)
    assert parse("sin(x) + sin(x)", 2) == parse("sin(x)", 2) + parse("sin(x)", 2)


def test_value_semantics() -> None:
    one, other = parse("sin(x) + y", 2), parse("sin( x )+(y)", 2)
    assert one == other
    assert hash(one) == hash(other)
    assert one != parse("y + sin(x)", 2)
    assert repr(one) == "Expression('sin(x) + y')"
    assert copy.deepcopy(one) == one
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.program = ()  # type: ignore[misc]


def test_a_step_is_evaluated_once() -> None:
    calls = []

    class Module:
        def __getattr__(self, name: str) -> object:
            calls.append(name)
            return getattr(np, name)

    parse("sin(x*y) + sin(x*y)**2", 2)(Module(), np.ones(3), np.ones(3))
    assert sorted(calls) == ["add", "asarray", "asarray", "multiply", "sin", "square"]


def test_coordinates_broadcast() -> None:
    x, y, z = np.arange(4.0), np.arange(3.0)[:, None], np.arange(2.0)[:, None, None]
    got = parse("x + 10*y + 100*z", 3)(np, x, y, z)
    assert got.shape == (2, 3, 4)
    assert got[1, 2, 3] == 123.0
    assert parse("x + y", 3)(np, x, 0.5, z).tolist() == [0.5, 1.5, 2.5, 3.5]
    assert parse("y", 2)(np, 0.0, 2.0) == 2.0
    assert np.ndim(parse("3", 3)(np, x, y, z)) == 0
    with pytest.raises(ValueError, match="depends on z, which is not among the coordinates given"):
        parse("z", 3)(np, x, y)


@pytest.mark.parametrize("text", TEXTS)
def test_float32_stays_float32(text: str) -> None:
    x, y, z = POINTS.astype(np.float32)
    expression = parse(text, 3, {"k": 2.5})
    assert expression(np, x, y, z).dtype == np.float32
    assert expression(np, x, y, 0.25).dtype == np.float32
    assert expression(np, x, y, z.astype(np.float64)).dtype == np.float64


def test_integers_become_float64() -> None:
    got = parse("x**y", 2)(np, np.array([2, 4]), np.array([-1, -2]))
    assert got.dtype == np.float64
    assert got.tolist() == [0.5, 0.0625]


@pytest.mark.filterwarnings("error")
def test_a_value_that_is_not_finite_gives_no_warning() -> None:
    x = np.array([0.0, -1.0])
    assert np.isinf(parse("1/x", 2)(np, x)[0])
    assert np.isnan(parse("sqrt(x)", 2)(np, x)[1])
    assert np.isinf(parse("1e300*x*1e300", 2)(np, x)[1])
    assert parse("where(x < 0, 1, log(x))", 2)(np, x)[1] == 1.0


ONLY_IN_WHERE = "where a number is needed; a condition may only be the first argument of where(condition, a, b)"

MESSAGES = [
    ("", "the expression is empty"),
    (" \n", "the expression is empty"),
    ("sine(x)", "unknown name 'sine' at column 1; did you mean 'sin'?"),
    ("1 + 2*sine(x)", "unknown name 'sine' at column 7; did you mean 'sin'?"),
    ("PI", "unknown name 'PI' at column 1; did you mean 'pi'?"),
    ("ln(x)", "unknown name 'ln' at column 1; did you mean 'log'?"),
    ("pow(x, 2)", "unknown name 'pow' at column 1; did you mean '**'?"),
    ("speeed", "unknown name 'speeed' at column 1; did you mean 'speed'?"),
    ("__import__('os')", 'unexpected "\'" at column 12'),
    ("qqqq", "unknown name 'qqqq' at column 1"),
    ("q" * 60, f"unknown name '{'q' * 37}...' at column 1"),
    ("x + z", "z at column 5 is not a coordinate of a 2D case"),
    ("x.real", "unexpected '.' at column 2"),
    ("x[0]", "unexpected '[' at column 2"),
    ("x^2", "unexpected '^' at column 2; write '**' for a power"),
    ("where(x = 1, 1, 2)", "unexpected '=' at column 9; write '==' to compare"),
    ("where(!(x < 1), 1, 2)", "unexpected '!' at column 7; write 'not'"),
    ("x\u00b2", "unexpected '\\xb2' at column 2"),
    ("x // y", "unexpected '/' at column 4; a number, a name or '(' is needed here"),
    ("2x", "unexpected 'x' at column 2; an operator is missing before it"),
    ("2(x)", "unexpected '(' at column 2; an operator is missing before it"),
    ("(x)(y)", "unexpected '(' at column 4; an operator is missing before it"),
    ("x y", "unexpected 'y' at column 3; an operator is missing before it"),
    ("1.2.3", "unexpected '.3' at column 4; an operator is missing before it"),
    ("1_000", "unexpected '_000' at column 2; an operator is missing before it"),
    ("x not y", "unexpected 'not' at column 3; an operator is missing before it"),
    ("x +", "the expression ends after '+'; a number or a name must follow"),
    ("sin(", "the expression ends after '('; a number or a name must follow"),
    ("* x", "unexpected '*' at column 1; a number, a name or '(' is needed here"),
    ("()", "unexpected ')' at column 2; a number, a name or '(' is needed here"),
    ("sin(x,)", "unexpected ')' at column 7; a number, a name or '(' is needed here"),
    ("(x", "the bracket at column 1 is not closed"),
    ("x + sin (x", "the bracket at column 9 is not closed"),
    ("x)", "the bracket at column 2 was not opened"),
    ("x, y", "unexpected ',' at column 2; a comma may only separate the arguments of a function"),
    ("(x, y)", "unexpected ',' at column 3; a comma may only separate the arguments of a function"),
    ("sin", "'sin' at column 1 is a function; its arguments must follow in brackets"),
    ("sin + 1", "'sin' at column 1 is a function; its arguments must follow in brackets"),
    ("x(2)", "'x' at column 1 is not a function; write '*' to multiply"),
    ("sin()", "'sin' at column 1 takes 1 argument, not 0"),
    ("sin(x, y)", "'sin' at column 1 takes 1 argument, not 2"),
    ("atan2(x)", "'atan2' at column 1 takes 2 arguments, not 1"),
    ("where(x < 1, 2)", "'where' at column 1 takes 3 arguments, not 2"),
    ("1 + max(x)", "'max' at column 5 takes 2 or more arguments, not 1"),
    ("x < 1", f"a condition at column 1, {ONLY_IN_WHERE}"),
    ("2*(x < 1)", f"a condition at column 4, {ONLY_IN_WHERE}"),
    ("where(x, 1, 2)", "a number at column 7, where a condition such as x < 0.5 is needed"),
    ("where(x < 1 and y, 1, 2)", "a number at column 17, where a condition such as x < 0.5 is needed"),
    ("where(not x, 1, 2)", "a number at column 11, where a condition such as x < 0.5 is needed"),
    ("where(0 < x < 1, 1, 2)", "a second comparison at column 13; join the two comparisons with 'and'"),
    ("where((0 < x) < 1, 1, 2)", f"a condition at column 8, {ONLY_IN_WHERE}"),
    ("1e999", "the number at column 1 is too large"),
    ("9" * 400, "the number at column 1 is too large"),
    ("10**10**10", "'**' at column 3 gives inf, which is not a finite number"),
    ("x + 1/0", "'/' at column 6 gives inf, which is not a finite number"),
    ("x*log(-1)", "'log' at column 3 gives nan, which is not a finite number"),
    ("x" * (MAX_TEXT + 1), f"the expression has {MAX_TEXT + 1} characters; at most {MAX_TEXT} are allowed"),
]


@pytest.mark.parametrize(("text", "message"), MESSAGES, ids=[text[:20] for text, _ in MESSAGES])
def test_messages(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, 2, {"speed": 3.0})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", 1.0, "parameter 'x': this is the name of a coordinate; choose another name"),
        ("z", 1.0, "parameter 'z': this is the name of a coordinate; choose another name"),
        ("pi", 1.0, "parameter 'pi': this is the name of a constant; choose another name"),
        ("sin", 1.0, "parameter 'sin': this is the name of a function; choose another name"),
        ("and", 1.0, "parameter 'and': this is a keyword of expressions; choose another name"),
        ("2k", 1.0, "parameter '2k': a name has only letters, digits and '_', and does not begin with a digit"),
        ("k", math.nan, "parameter 'k' is not a finite number"),
    ],
)
def test_wrong_parameters(name: str, value: float, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("1", 2, {name: value})
    assert str(caught.value) == message


def nested(left: str, inner: str, right: str) -> str:
    count = (MAX_TEXT - len(inner)) // (len(left) + len(right))
    return left * count + inner + right * count


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["1"] * (MAX_TEXT // 2)),
        "+".join(["x"] * (MAX_TEXT // 2)),
        "*".join(["x"] * (MAX_TEXT // 2)),
        "/".join(["x"] * (MAX_TEXT // 2)),
        "**".join(["x"] * (MAX_TEXT // 3)),
        nested("(", "x", ")"),
        nested("-", "x", ""),
        nested("sin(", "x", ")"),
        nested("x+(", "x", ")"),
        nested("2**-", "x", ""),
        nested("where(x<1,", "x", ",y)"),
        "max(" + ",".join(["x", "y"] * ((MAX_TEXT - 5) // 4)) + ")",
        nested("where(not not x<1,x,", "x", ")"),
    ],
    ids=lambda text: text[:16],
)
def test_the_longest_texts(text: str) -> None:
    """Neither reading nor evaluating nor differentiating recurses, and time stays proportional to the length."""
    limit = sys.getrecursionlimit()
    started = time.process_time()
    assert len(text) <= MAX_TEXT
    # Room for this test and the calls of the package, and not for one call for each bracket.
    depth = len(inspect.stack()) + 40
    try:
        sys.setrecursionlimit(depth)
        expression = parse(text, 2)
        second = expression.derivative("x").derivative("x")
        values = [e(np, np.array([0.5, 0.7]), np.array([0.25, 0.5])) for e in (expression, second)]
        hashes = {hash(expression), hash(second)}
        equal = expression == parse(text, 2)
        shown = repr(second)
    finally:
        sys.setrecursionlimit(limit)
    assert np.shape(values[0]) in ((), (2,))
    assert equal
    assert hashes
    assert shown.startswith("Expression(")
    assert time.process_time() - started < 10.0


def test_a_text_that_would_be_too_long_is_refused() -> None:
    tower = parse(nested("sin(", "x", ")"), 2).derivative("x")
    with pytest.raises(ExpressionError, match=r"^the derived expression is longer than 4096 characters$"):
        _ = tower.text
    assert repr(tower) == f"Expression(<{len(tower.program)} steps>)"


def random_text(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["x", "y", "z", "k", "pi", "e", "2", "0.5", "1e-3", "3.25"])
    choice = rng.randrange(6)
    sub = [random_text(rng, rng.randrange(depth)) for _ in range(3)]
    if choice < 3:
        return f"{sub[0]} {rng.choice(['+', '-', '*', '/', '**'])} {sub[1]}"
    if choice == 3:
        return f"({sub[0]})"
    if choice == 4:
        return f"-{sub[0]}"
    name = rng.choice(sorted(set(FUNCTIONS) - {"where"}))
    return f"{name}({', '.join(sub[: FUNCTIONS[name] or 3])})"


def test_random_texts_agree_with_python() -> None:
    rng = random.Random(11)
    compared = 0
    for _ in range(1500):
        text = random_text(rng, 5)
        point = {name: rng.uniform(0.1, 0.9) for name in "xyz"}
        try:
            expected = eval(text, {}, NAMESPACE | point)
        except (ArithmeticError, ValueError, TypeError):
            # Python goes on with complex numbers, until a function of `math` refuses them.
            continue
        if isinstance(expected, complex) or not math.isfinite(expected):
            continue
        got = float(parse(text, 3, {"k": 2.5})(np, *point.values()))
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-12), text
        compared += 1
    assert compared > 700
