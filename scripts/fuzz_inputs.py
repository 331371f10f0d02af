# SPDX-License-Identifier: MIT
"""Random inputs of every kind that the package reads: each is one seed, and most are nearly right.

What is right is taken from the cases of the checkout and from small files made here; then values are replaced by
others, parts are taken away, doubled or moved, and bytes are changed.
"""

import datetime
import io
import math
import string
import tomllib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import tomli_w

from poisson.problem.expressions.program import FUNCTIONS

ROOT = Path(__file__).resolve().parent.parent

NUMBERS: tuple[float | int, ...] = (
    *(0, 1, -1, 2, 3, 5, 9, 64, 2**31, 2**63, -(2**63), 2**64, 10**30, 10**400, -(10**400)),
    *(0.0, -0.0, 0.5, 1e-8, 1e-300, 5e-324, 1e154, 1e300, 1.7976931348623157e308),
    *(math.inf, -math.inf, math.nan),
)
CHARACTERS = (
    *string.printable,
    *"\0\x1b\x7f\x85\xa0\xad\xdfäπ∇²ſİ\u0301\u200b\u200f\u2028\u202e\ufeff\ufffd\U0001f600\U000e0001",
)
WORDS = (
    *("x", "y", "z", "k", "t", "exact", "periodic", "dirichlet", "neumann", "robin", "alpha", "file", "dataset"),
    *("f.npy", "u.h5", "../u.h5", "/dev/zero", "/etc/passwd", "auto", "multigrid", "cg", "fft", "jacobi", "solver"),
    *("run", "mixed", "float32", "numpy", "rms", "<table>", "<number>", "sin(pi*x)", "1e400", "nan", "inf", "x/0"),
)
TOKENS = (*"xyzekt+-*/()<>,&|^=!~.;'", *("**", "<=", "==", "!=", "and", "or", "not", "pi", "2", "0.5"))
TOKENS += ("1e300", "1e999", "9" * 30, "0x1F", "1_0", "__import__", "lambda", "if", "x.real", "[0]", " ", *FUNCTIONS)

SHAPE = (4, 5, 6)
"""The shape of the arrays in files that are nearly right: nz, ny, nx."""
HEADERS = (
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 5, 6), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (4, 5, 6), }",
    "{'descr': '<f8', 'fortran_order': True, 'shape': (4611686018427387904, 4, 6), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-4, -5, 6), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 5, True), }",
    "{'descr': [('a', '<f8'), ('b', '|O')], 'fortran_order': False, 'shape': (4, 5, 6), }",
    "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (4, 5, 6), }",
    "{'descr': '<U2', 'fortran_order': False, 'shape': (4, 5, 6), }",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (4, 5, 6), }",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (4, 5, 6), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 5, 6), 'more': __import__('os').abort()}",
    "{'descr': '<f8', 'fortran_order': 0, 'shape': " + "(" * 60 + "4" + ")" * 60 + ", }",
    "{'descr': " + "-" * 5000 + "1}",
    "{'descr': " + "[" * 500 + "]" * 500 + "}",
)


def number(draw: Random) -> Any:
    """A number, one in two of those at which programs go wrong."""
    if draw.random() < 0.5:
        return draw.choice(NUMBERS)
    return draw.choice([draw.uniform(-3, 3), draw.randint(-20, 200), draw.lognormvariate(0, 40)])


def text(draw: Random, most: int = 30) -> str:
    """Any characters."""
    return "".join(draw.choices(CHARACTERS, k=draw.randint(0, most)))


def scalar(draw: Random) -> Any:
    """A value of TOML that is no table and no list."""
    kind = draw.randrange(8)
    if kind < 3:
        return number(draw)
    if kind == 3:
        return text(draw)
    if kind == 4:
        return expression(draw, draw.randint(0, 3))
    if kind == 5:
        times = (datetime.date(1, 1, 1), datetime.time(1, 2), datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC))
        return draw.choice([True, False, *times])
    return draw.choice(WORDS)


def value(draw: Random, depth: int = 3) -> Any:
    """Any value of TOML."""
    kind = draw.random()
    if depth == 0 or kind < 0.7:
        return scalar(draw)
    if kind < 0.85:
        return [value(draw, depth - 1) for _ in range(draw.randint(0, 4))]
    return {key(draw): value(draw, depth - 1) for _ in range(draw.randint(0, 4))}


def alike(draw: Random, old: Any) -> Any:
    """A value of the same kind as another one."""
    if isinstance(old, (bool, dict)):
        return old if draw.random() < 0.5 else not old
    if isinstance(old, int):
        return draw.choice((draw.randint(1, 9), draw.choice([entry for entry in NUMBERS if isinstance(entry, int)])))
    if isinstance(old, float):
        return float(draw.choice((draw.uniform(-2, 4), draw.choice((0.0, -1.0, 1e-300, 1e-8, 1e154, 1e300, 5e-324)))))
    if isinstance(old, list):
        return [alike(draw, entry) for entry in old]
    if not isinstance(old, str):
        return scalar(draw)
    if any(sign in old for sign in "(*+-/") and draw.random() < 0.9:
        return expression(draw, draw.randint(0, 4)).replace("k", "x").replace("z", "y")
    return draw.choice(WORDS)


def key(draw: Random) -> str:
    """A name of a key."""
    return draw.choice(WORDS) if draw.random() < 0.7 else text(draw, 8)


def places(tables: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all tables and values within tables."""
    found = [path] if path else []
    if isinstance(tables, dict):
        found += [place for name, entry in tables.items() for place in places(entry, (*path, name))]
    elif isinstance(tables, list):
        found += [place for index, entry in enumerate(tables) for place in places(entry, (*path, index))]
    return found


# ---- case files


@cache
def cases() -> tuple[str, ...]:
    """The texts of the cases in the checkout, and of one with a value for most keys."""
    return (EVERYTHING, *(path.read_text("utf-8") for path in sorted((ROOT / "cases").glob("*.toml"))))


EVERYTHING = """
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
[output]
file = "everything.h5"
fields = ["u", "f", "a", "c", "residual", "error", "gradient", "flux", "E"]
"""


def mutated(draw: Random, tables: dict[str, Any]) -> dict[str, Any]:
    """Tables with a few values replaced, taken away, renamed or added; `tables` is changed."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        everywhere = places(tables)
        if not everywhere:
            break
        leaves = [place for place in everywhere if not any(other[:-1] == place for other in everywhere)]
        *outer, last = draw.choice(leaves if leaves and draw.random() < 0.9 else everywhere)
        table: Any = tables
        for name in outer:
            table = table[name]
        way = draw.randrange(12)
        if way < 7:
            table[last] = alike(draw, table[last])
        elif way == 7:
            table[last] = value(draw)
        elif way == 8:
            del table[last]
        elif isinstance(table, list):
            table.insert(last, value(draw))
        elif way == 9:
            table[key(draw)] = table.pop(last)
        else:
            table[key(draw)] = value(draw)
    return tables


def case_tables(draw: Random) -> dict[str, Any]:
    """The contents of a case file as Python gives them: numbers too large for TOML, among others."""
    if draw.random() < 0.1:
        return {key(draw): value(draw) for _ in range(draw.randint(0, 6))}
    return mutated(draw, tomllib.loads(draw.choice(cases())))


def case_file(draw: Random) -> bytes:
    """The bytes of a case file."""
    way = draw.randrange(10)
    if way < 5:
        try:
            return tomli_w.dumps(case_tables(draw)).encode("utf-8", "surrogatepass")
        except (TypeError, ValueError):
            way = 5
    if way < 8:
        return edited(draw, draw.choice(cases())).encode()
    if way == 8:
        return deep(draw).encode()
    content = draw.choice(cases()).encode() if draw.random() < 0.7 else draw.randbytes(draw.randint(0, 300))
    return damaged(draw, content) if content else content


def edited(draw: Random, whole: str) -> str:
    """A text with lines moved, doubled or left out, and pieces of it replaced."""
    lines = whole.splitlines()
    for _ in range(draw.randint(1, 5)):
        place = draw.randrange(len(lines))
        way = draw.randrange(6)
        if way == 0 and len(lines) > 1:
            del lines[place]
        elif way == 1:
            lines.insert(draw.randrange(len(lines)), lines[place])
        elif way == 2:
            lines[place] = lines[place][: draw.randint(0, len(lines[place]))]
        elif way == 3:
            lines[place] += draw.choice(("'", '"', "]", "}", "[", "{", "#", "=", '"""', ".", ",", "\x00", text(draw)))
        else:
            left, equals, _ = lines[place].partition("=")
            entry = draw.choice((repr(number(draw)), f'"{expression(draw, 2)}"', text(draw), "[" * 9, "{ a = "))
            lines[place] = f"{left}{equals} {entry}"
    return "\n".join(lines)


def deep(draw: Random) -> str:
    """Tables, lists, names or expressions that are nested, or long."""
    count = draw.choice((7, 8, 9, 50, 2000, 60_000))
    kinds = (
        "a = " + "[" * count + "]" * count,
        "a = " + "{ a = " * count + "1" + " }" * count,
        "[" + ".".join("a" * min(count, 20_000)) + "]",
        "a" + ".a" * count + " = 1",
        "[[a]]\n" * min(count, 20_000),
        '[equation]\nf = "' + "(" * count + "x" + ")" * count + '"',
        '[equation]\nf = "' + "-" * count + 'x"',
        '[equation]\nf = "' + "sin(" * count + "x" + ")" * count + '"',
        '[equation]\nf = "' + "x**" * count + 'x"',
        "[parameters]\n" + "\n".join(f"k{n} = {n}" for n in range(min(count, 5000))),
        "[boundary]\n" + "\n".join(f"x{n} = {n}" for n in range(min(count, 5000))),
        f"[domain]\nshape = {[3] * min(count, 5000)}",
        f"title = '{'t' * count}'",
        f"x = {'9' * count}",
        f"x = {'1' * min(count, 4000)}.{'1' * count}e{'9' * min(count, 300)}",
    )
    return draw.choice(kinds)


# ---- expressions


def expression(draw: Random, depth: int) -> str:
    """A text in the grammar."""
    if depth == 0:
        return draw.choice(("x", "y", "z", "k", "pi", "2", "0.5", "1e200", ".5", "3.", "1e-200"))

    def part() -> str:
        return expression(draw, depth - draw.randint(1, depth))

    kind = draw.randrange(7)
    if kind == 0:
        return f"({part()})"
    if kind == 1:
        return f"-{part()}"
    if kind == 2:
        name = draw.choice(sorted(set(FUNCTIONS) - {"where"}))
        return f"{name}({', '.join(part() for _ in range(FUNCTIONS[name] or draw.randint(2, 5)))})"
    if kind == 3:
        sign = draw.choice(("<", "<=", ">", ">=", "==", "!="))
        return f"where(not {part()} {sign} {part()} {draw.choice(('or', 'and', '|'))} x < y, {part()}, {part()})"
    return f"{part()} {draw.choice(('+', '-', '*', '/', '**'))} {part()}"


def any_expression(draw: Random) -> str:
    """A text that may be an expression."""
    way = draw.randrange(10)
    if way < 4:
        return expression(draw, draw.randint(1, 6))
    if way < 6:
        whole = list(expression(draw, draw.randint(1, 5)))
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(whole) + 1)
            whole[place : place + draw.randint(0, 3)] = draw.choice((*TOKENS, "", *CHARACTERS))
        return "".join(whole)
    if way < 8:
        return draw.choice(("", " ")).join(draw.choices(TOKENS, k=draw.randint(0, 40)))
    if way == 8:
        return text(draw, 60)
    count = draw.choice((10, 100, 1000, 10_000))
    kinds = ("x+" * count + "x", "x*(" * count + "1" + ")" * count, "exp(" * count + "x" + ")" * count)
    kinds += (
        "not " * count + "x",
        "2**" * count + "x",
        "-" * count + "x",
        "9" * count,
        f"min({'x,' * count}x)",
        "(" * count,
    )
    kinds += ("where(x<y," * count + "1" + ",2)" * count, "+".join(f"sin({n}*x)**{n}" for n in range(count // 10)))
    return draw.choice(kinds)


# ---- files of values


def damaged(draw: Random, good: bytes) -> bytes:
    """Bytes changed, cut off, blanked, scrambled or copied to another place."""
    content = bytearray(good)
    start, length = draw.randrange(len(good)), min(draw.choice((1, 8, 64, 512, 4096)), len(good))
    part = slice(start, min(start + length, len(good)))
    match draw.randrange(7):
        case 0:
            for _ in range(draw.choice((1, 4, 20))):
                content[draw.randrange(len(good))] = draw.randrange(256)
        case 1:
            del content[start:]
        case 2:
            content[part] = bytes(part.stop - start)
        case 3:
            content[start] ^= 1 << draw.randrange(8)
        case 4:
            content[part] = draw.randbytes(part.stop - start)
        case 5:
            content[start : start + 8] = draw.choice((2**63 - 1, 2**64 - 1, 2**32, 0)).to_bytes(8, "little")
        case _:
            source = draw.randrange(len(good) - length + 1)
            content[part] = good[source : source + part.stop - start]
    return bytes(content)


def npy(draw: Random) -> bytes:
    """The bytes of a ``.npy`` file."""
    if draw.random() < 0.3:
        header = (draw.choice(HEADERS) if draw.random() < 0.6 else _edited_header(draw)).encode("latin-1", "replace")
        version, width = draw.choice(((1, 2), (2, 4), (3, 4), (4, 4)))
        length = draw.choice((len(header), len(header) + 1, 0, 10**4, 2**16 - 1))
        head = b"\x93NUMPY" + bytes((version, 0)) + length.to_bytes(width, "little") + header
        return head + bytes(draw.choice((0, 8, 960, 2000)))
    whole = io.BytesIO()
    np.save(whole, array(draw), allow_pickle=True)
    return damaged(draw, whole.getvalue()) if draw.random() < 0.8 else whole.getvalue()


def _edited_header(draw: Random) -> str:
    whole = list(HEADERS[0])
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(whole))
        whole[place : place + draw.randint(0, 4)] = draw.choice(
            (*CHARACTERS, "L", "9" * 20, "None", "[", "(", "{", "''")
        )
    return "".join(whole)


def array(draw: Random) -> Any:
    """An array that may be a field: of any type, and most often of the right shape."""
    shape = SHAPE if draw.random() < 0.7 else draw.choice(((), (0,), (4, 5), (6, 5, 4), (4, 5, 6, 1), (1,) * 32))
    kind = draw.choice(("<f8", "<f8", ">f8", "<f4", "<f2", "<i8", "u1", "?", "c16", "M8[s]", "S3", "U2", "V4", "O"))
    if kind == "O":
        return np.full(shape, "text" if draw.random() < 0.5 else 1.0, dtype=object)
    if draw.random() < 0.1:
        return np.zeros(shape, dtype=[("a", "<f8"), ("b", "<i4", (2,))])
    values = np.ones(shape, dtype=kind)
    if values.dtype.kind == "f" and values.size and draw.random() < 0.4:
        values.flat[draw.randrange(values.size)] = draw.choice((np.nan, np.inf, -np.inf, 6e4))
    return values


def hdf5_file(draw: Random, path: Path) -> None:
    """Write an HDF5 file that may have a field at ``f``."""
    with h5py.File(path, "w", libver=draw.choice(("earliest", "latest"))) as file:
        _hdf5_field(draw, file)
        for _ in range(draw.randint(0, 2)):
            file.attrs[draw.choice(("a", "b", "c"))] = draw.choice(("text", 1.0, [1, 2], ["x", "y"]))
    if draw.random() < 0.7:
        path.write_bytes(damaged(draw, path.read_bytes()))


def _hdf5_field(draw: Random, file: Any) -> None:
    way = draw.randrange(16)
    if way < 6:
        file["f"] = _storable(array(draw))
    elif way < 10:
        options: dict[str, Any] = {
            "chunks": draw.choice((True, (1, 5, 6), (4, 5, 6), (4, 500, 600))),
            "compression": draw.choice((None, "gzip", "lzf")),
            "shuffle": draw.random() < 0.5,
            "fletcher32": draw.random() < 0.5,
            "maxshape": (None, None, None),
        }
        file.create_dataset("f", data=np.ones(SHAPE), **options)
    elif way == 10:
        shape = draw.choice(((2**20, 2**20, 2**20), SHAPE, (2**40,)))
        file.create_dataset("f", shape, draw.choice(("f8", "u1")), chunks=True, compression="gzip")
    elif way == 11:
        file["f"] = h5py.SoftLink(draw.choice(("/f", "f", "/g", "../f", "/" + "a/" * 2000, "")) or ".")
    elif way == 12:
        file["f"] = h5py.ExternalLink(draw.choice((file.filename, "/etc/passwd", "no.h5", "/dev/zero")), "/f")
    elif way == 13:
        layout = h5py.VirtualLayout(SHAPE, "f8")
        layout[...] = h5py.VirtualSource(draw.choice((".", "no.h5", "/dev/zero")), "f", SHAPE)
        file.create_virtual_dataset("f", layout)
    elif way == 14:
        external = [(draw.choice(("/etc/passwd", "/dev/zero", "no")), 0, 960)]
        file.create_dataset("f", SHAPE, "f8", external=external)
    else:
        group = file.create_group("f")
        group["f"] = group if draw.random() < 0.5 else np.ones(SHAPE)


def _storable(values: Any) -> Any:
    """The form of an array that h5py can store."""
    if values.dtype.kind == "O":
        return np.full(values.shape, "text", dtype=h5py.string_dtype())
    if values.dtype.kind in "UM":
        return np.full(values.shape, b"text")
    return values
