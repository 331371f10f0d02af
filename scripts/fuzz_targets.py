# SPDX-License-Identifier: MIT
"""Readers of the inputs of fuzz_inputs.py, and the rules that must hold for any input."""

import contextlib
import dataclasses
import inspect
import io
import json
import logging
import math
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import fuzz_inputs as inputs
import numpy as np
import tomli_w

import poisson
from poisson import cli
from poisson.backends.gpu import tuned
from poisson.backends.gpu.shapes import VECTOR_SHAPE
from poisson.case import from_mapping, load, regrid
from poisson.cli import COMMANDS, main
from poisson.cli.terms import EXIT_ERROR, EXIT_OFF, EXIT_OK, printable
from poisson.errors import CaseError, ExpressionError, OutputError, PoissonError
from poisson.output import checkpoint, hdf5
from poisson.output.description import describe
from poisson.problem.expressions import parse
from poisson.problem.fields import FieldFile

MOST_LINE = 6000
"""Characters of a message for people."""


class Defect(Exception):
    """A rule is broken."""


def require_lines(lines: Iterable[str]) -> None:
    """Make sure that a message is whole lines that a person can read, on any terminal."""
    found = list(lines)
    if not found:
        raise Defect("an error without a line")
    for line in found:
        if not line or not line.isprintable() or len(line) > MOST_LINE:
            raise Defect(f"no line for people: {len(line)} characters, {line[:300]!a}")


def case_file(draw: Random, folder: Path) -> str:
    """A case file gives a case, or a line for each mistake."""
    path = folder / "case.toml"
    path.write_bytes(inputs.case_file(draw))
    try:
        case = load(path)
    except PoissonError as error:
        require_lines(str(error).split("\n"))
        return "refused"
    _require_same(case, folder)
    return "accepted"


def case_tables(draw: Random, folder: Path) -> str:
    """Tables from Python with overrides make a case, or lines that say what is wrong."""
    tables = inputs.case_tables(draw)
    places = [place for place in inputs.places(tables) if all(isinstance(name, str) for name in place)]
    names = [".".join(place) for place in places] or ["solver.rtol"]
    overrides = []
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        entry = draw.choice((inputs.text(draw, 20), repr(inputs.number(draw)), draw.choice(inputs.WORDS)))
        overrides.append(f"{draw.choice(names)}={entry}" if draw.random() < 0.8 else inputs.text(draw))
    try:
        case = from_mapping(tables, name=inputs.text(draw, 5) or "case", folder=folder, overrides=overrides)
    except CaseError as error:
        require_lines(error.mistakes)
        return "refused"
    _require_same(case, folder)
    return "accepted"


def _require_same(case: Any, folder: Path) -> None:
    """Make sure that the text of a case, which goes into every result, is that case."""
    if from_mapping(tomllib.loads(case.text), name="again", folder=folder) != case:
        raise Defect("the text of the case is another case")


def expression(draw: Random, folder: Path) -> str:
    """A text gives an expression with values of the right shape, and a text that is read as the same; or one line."""
    try:
        whole = parse(inputs.any_expression(draw), 3, {"k": 2.5})
    except ExpressionError as error:
        require_lines([str(error)])
        return "refused"
    candidates = [whole]
    # The derivatives of a long product may be longer than any text.
    with contextlib.suppress(ExpressionError):
        candidates += [whole.derivative("x"), whole.derivative("y").derivative("y")]
    with np.errstate(all="ignore"):
        for candidate in candidates:
            values = candidate(np, np.array([0.0, -1.5, 0.5]), 0.25, np.array([[1.0], [-1.0]]))
            if np.broadcast_shapes(np.shape(values), (2, 3)) != (2, 3):
                raise Defect(f"values of the shape {np.shape(values)}")
            _require_text(candidate, derived=candidate is not whole)
    return "accepted"


def _require_text(candidate: Any, *, derived: bool) -> None:
    try:
        written = candidate.text
    except ExpressionError:
        return
    try:
        again = parse(written, 3)
    except ExpressionError as error:
        # A derivative may divide one number by zero, which a text may not.
        if not derived or not str(error).endswith("which is not a finite number"):
            raise Defect(f"what was written cannot be read: {error}") from error
        return
    if again != candidate:
        raise Defect(f"what was written is another expression: {written[:200]}")


def npy_field(draw: Random, folder: Path) -> str:
    """A ``.npy`` file gives values of the grid, or one line."""
    path = folder / "f.npy"
    path.write_bytes(inputs.npy(draw))
    return _field(FieldFile(path))


def hdf5_field(draw: Random, folder: Path) -> str:
    """A data set gives values of the grid, or one line."""
    path = folder / "f.h5"
    inputs.hdf5_file(draw, path)
    names = ("f", "f", "f", "/f", "f/f", "g", "", "/", "..", "./f", inputs.text(draw, 5), "a/" * 2000 + "f")
    return _field(FieldFile(path, draw.choice(names)))


def _field(field: FieldFile) -> str:
    try:
        field.check(inputs.SHAPE)
        for start, stop in ((0, 4), (1, 2)):
            values = field.read(start, stop)
            if values.shape != (stop - start, 5, 6) or values.dtype != np.float64:
                raise Defect(f"values of the shape {values.shape} and the type {values.dtype}")
    except CaseError as error:
        require_lines(error.mistakes)
        return "refused"
    return "accepted"


def result(draw: Random, folder: Path) -> str:
    """A result in any state is described, or one line says what is wrong with it."""
    path = folder / "result.h5"
    good = _good_results()
    content = good[draw.randrange(len(good))]
    for _ in range(draw.choice((1, 1, 2, 5))):
        content = inputs.damaged(draw, content) if content else content
    path.write_bytes(content)
    try:
        require_lines(describe(path).split("\n"))
    except OutputError as error:
        require_lines([str(error)])
        return "refused"
    finally:
        hdf5.is_result(path)
    return "accepted"


def loaded(draw: Random, folder: Path) -> str:
    """The file is loaded as a solution with finite shapes, or one line says what is wrong with it."""
    path = folder / "result.h5"
    content = draw.choice(_good_results())
    path.write_bytes(inputs.damaged(draw, content))
    try:
        solution = poisson.load(path, lazy=draw.random() < 0.3)
        if np.asarray(solution.u[...]).shape != solution.problem.lattice.array_shape:
            raise Defect(f"u has the shape {solution.u.shape}")
    except PoissonError as error:
        require_lines(str(error).split("\n"))
        return "refused"
    return "accepted"


def compared(draw: Random, folder: Path) -> str:
    """Two results are compared, or one line says which of them cannot be."""
    first, second = folder / "first.h5", folder / "second.h5"
    first.write_bytes(draw.choice(_good_results()))
    content = draw.choice(_good_results())
    second.write_bytes(inputs.damaged(draw, content) if draw.random() < 0.8 else content)
    paths = [str(first), str(second)]
    draw.shuffle(paths)
    code, lines, shown = _called(["compare", *paths])
    require_lines(shown or ["nothing"])
    if code not in (EXIT_OK, EXIT_OFF, EXIT_ERROR) or (code == EXIT_ERROR) != bool(lines):
        raise Defect(f"exit code {code}, said {lines}")
    return {EXIT_OK: "the same", EXIT_OFF: "different", EXIT_ERROR: "refused"}[code].replace(" ", "_")


RESUMED = """
[equation]
f = "x*y + 1"
[domain]
lower = [0, 0]
upper = [1, 1]
shape = [7, 6]
[boundary]
all = { dirichlet = "x" }
[solver]
method = "jacobi"
rtol = 1e-3
[run]
backend = "numpy"
[output]
checkpoint_every = 20
"""


def resumed(draw: Random, folder: Path) -> str:
    """A solve goes on from what one has left that was broken off, in any state, or a line says why not."""
    (folder / "case.toml").write_text(RESUMED, "utf-8")
    left = dict(_left_over())
    for name in draw.sample(sorted(left), draw.randint(1, len(left))):
        left[name] = inputs.damaged(draw, left[name]) if draw.random() < 0.8 else b""
    for name, content in left.items():
        (folder / name).write_bytes(content)
    code, lines, _ = _called(
        ["solve", str(folder / "case.toml"), "--output", str(folder / "out.h5"), "--resume", "--quiet"]
    )
    there = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    if code == EXIT_ERROR:
        if {name: there.get(name) for name in left} != left or not lines:
            raise Defect(f"exit code 2, said {lines}, and there are {sorted(there)}")
        return "refused"
    if code != EXIT_OK or not {"out.h5", "out.xmf"} <= set(there) or any(".tmp" in name for name in there):
        raise Defect(f"exit code {code}, and there are {sorted(there)}")
    require_lines(describe(folder / "out.h5").split("\n"))
    return "resumed"


@cache
def _left_over() -> dict[str, bytes]:
    """The checkpoints of a solve that was broken off after it had written them."""
    remove = checkpoint.remove
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "case.toml").write_text(RESUMED, "utf-8")
        checkpoint.remove = lambda file, **kept: remove(file, **kept) if kept else None
        try:
            _called(["solve", str(folder / "case.toml"), "--output", str(folder / "out.h5"), "--quiet"])
        finally:
            checkpoint.remove = remove
        return {path.name: path.read_bytes() for path in folder.glob("out.checkpoint-*")}


def _called(words: list[str]) -> tuple[int, list[str], list[str]]:
    """The exit code of a command, the lines of its messages, and those of its answer."""
    said, shown = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown):
        code = main(words)
    lines = said.getvalue().splitlines()
    for line in lines:
        require_lines([line])
        if not line.startswith(("poisson: error: ", "poisson: warning: ")):
            raise Defect(f"said: {line[:300]}")
    return code, lines, [line for line in shown.getvalue().splitlines() if line]


@cache
def _good_results() -> tuple[bytes, ...]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("rod", "single_precision", "cube"):
            overrides = ["run.backend=numpy", 'output.fields=["u", "f", "residual"]']
            case = load(inputs.ROOT / "cases" / f"{name}.toml", overrides)
            small = regrid(case, (7, 6, 5)[: case.problem.lattice.dimension])
            poisson.solve(small).save(Path(folder) / "a.h5")
            found.append((Path(folder) / "a.h5").read_bytes())
    return tuple(found)


def solve(draw: Random, folder: Path) -> str:
    """A case is checked, or solved and written whole, or a line says why not; nothing else is left in the folder."""
    tables = inputs.case_tables(draw)
    _make_small(draw, tables)
    try:
        text = tomli_w.dumps(tables)
    except (TypeError, ValueError):
        text = inputs.edited(draw, inputs.EVERYTHING.replace("9, 9, 9", "5, 5, 5"))
    (folder / "case.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / "f.npy").write_bytes(inputs.npy(draw))
    there = set(os.listdir(folder))
    more = ["--set", f"solver.max_iterations={draw.choice((1, 7, 40))}", "--set", "run.backend=numpy"]
    if draw.random() < 0.2:
        code, _, shown = _called(["check", str(folder / "case.toml"), *more])
        require_lines(shown or ["nothing"])
        if code not in (EXIT_OK, EXIT_ERROR) or set(os.listdir(folder)) != there:
            raise Defect(f"exit code {code} of a check, and there are {os.listdir(folder)}")
        return "checked" if code == EXIT_OK else "refused"
    code, lines, shown = _called(
        ["solve", str(folder / "case.toml"), "--output", str(folder / "out.h5"), "--quiet", *more]
    )
    new = set(os.listdir(folder)) - there
    if shown:
        raise Defect(f"printed: {shown[:5]}")
    errors = [line for line in lines if line.startswith("poisson: error: ")]
    if code == EXIT_ERROR and errors and not new:
        return "refused"
    if code not in (EXIT_OK, EXIT_OFF) or errors or new != {"out.h5", "out.xmf"}:
        raise Defect(f"exit code {code}, {len(errors)} errors, and new are {sorted(new)}")
    require_lines(describe(folder / "out.h5").split("\n"))
    return "solved" if code == EXIT_OK else "unconverged"


def _make_small(draw: Random, tables: dict[str, Any]) -> None:
    """Leave a grid that is solved at once, or one that is far too large, and no threads."""
    domain = tables.get("domain")
    shape = domain.get("shape") if isinstance(domain, dict) else None
    if isinstance(domain, dict) and isinstance(shape, list):
        whole = [entry for entry in shape if type(entry) is int]
        if math.prod(whole) < 10**15:
            domain["shape"] = [draw.randint(3, 7) if type(entry) is int and entry > 7 else entry for entry in shape]
    if isinstance(tables.get("run"), dict):
        for name in ("ranks", "threads"):
            tables["run"].pop(name, None)


def command_line(draw: Random, folder: Path) -> str:
    """The words of a command are understood, or one line says which is wrong."""
    command = draw.choice(list(COMMANDS))
    options = [f"--{name.replace('_', '-')}" for name in inspect.signature(COMMANDS[command]).parameters]
    words = []
    for _ in range(draw.randint(0, 5)):
        option, entry = draw.choice((*options, "--set", "-q", "--help=3")), draw.choice((*inputs.WORDS, *inputs.TOKENS))
        entry = draw.choice((entry, inputs.text(draw, 10), repr(inputs.number(draw)), "solver.rtol=1"))
        words += draw.choice(([option], [entry], [option, entry], [f"{option}={entry}"], ["--", entry]))
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            request = cli._bind(command, words)
    except PoissonError as error:
        require_lines([printable(line) for line in str(error).split("\n")])
        return "refused"
    if said.getvalue() or not hasattr(request, "execute"):
        raise Defect(f"{command} {words} became {request!r} and said {said.getvalue()[:300]!r}")
    return "accepted"


def tuning(draw: Random, folder: Path) -> str:
    """The file of measured shapes is used, or ignored with a warning."""
    device = tuned.Device("a device", "1.0", "kernels")
    shapes = {"laplacian": dataclasses.asdict(VECTOR_SHAPE)}
    measured = {"type": "float64", "dimension": 2, "size": "2^24", "date": "2026-01-01", "shapes": shapes}
    tables: Any = {"format": 1, "device": "a device", "driver": "1.0", "kernels": "kernels", "measured": [measured]}
    for _ in range(draw.randint(0, 2)):
        tables = inputs.mutated(draw, tables)
    content = json.dumps(tables, default=str).encode("utf-8", "surrogatepass")
    way = draw.random()
    if way < 0.1:
        content = b"[" * draw.choice((10, 1000, 100_000))
    elif way < 0.6:
        content = inputs.damaged(draw, content)
    os.environ[tuned.FOLDER_VARIABLE] = str(folder)
    device.path.write_bytes(content)
    lines = _Lines()
    logger = logging.getLogger(tuned.__name__)
    logger.addHandler(lines)
    try:
        table = tuned.read(device)
    finally:
        logger.removeHandler(lines)
    for line in lines.said:
        require_lines([printable(line)])
    if not table and len(lines.said) != 1 and b'"measured": []' not in content:
        raise Defect(f"nothing is used, and {len(lines.said)} lines say why")
    return "accepted" if table else "refused"


class _Lines(logging.Handler):
    """The messages of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


Target = Callable[[Random, Path], str]

TARGETS: dict[str, tuple[Target, float]] = {
    "case_file": (case_file, 0.2),
    "case_tables": (case_tables, 0.15),
    "expression": (expression, 0.2),
    "npy_field": (npy_field, 0.15),
    "hdf5_field": (hdf5_field, 0.1),
    "result": (result, 0.04),
    "loaded": (loaded, 0.03),
    "compared": (compared, 0.02),
    "resumed": (resumed, 0.004),
    "solve": (solve, 0.05),
    "command_line": (command_line, 0.06),
    "tuning": (tuning, 0.04),
}
"""By name, with the part of all inputs that each gets."""


def attempt(name: str, seed: int, folder: Path) -> str:
    """The outcome of one input; any exception is a defect."""
    target, _ = TARGETS[name]
    for path in folder.iterdir():
        path.unlink()
    return target(Random(f"{name} {seed}"), folder)
