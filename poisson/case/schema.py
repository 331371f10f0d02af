# SPDX-License-Identifier: MIT
"""The form of a case file: every table and key, its type, range and default.

Optional keys that have no default are left out of what is read; which of them a case needs depends on other keys and is
decided in `poisson.case.build`.
"""

from poisson.backends.registry import AUTO, backend_names
from poisson.case.kinds import Either, Flag, Key, Kind, List, Number, Numbers, Table, Tables, Text, Word
from poisson.case.settings import FIELDS, LENGTH, VALUE, Interval
from poisson.case.tables import (
    AS_FORMULA,
    BODY,
    BOUNDARY,
    DATA,
    DOMAIN,
    FORMULA,
    IMAGE,
    MAX_TITLE,
    NON_NEGATIVE_DATA,
    TEXT,
    path_of,
    title_of,
)
from poisson.mesh.differences import ORDERS
from poisson.problem.fields import HDF5_SUFFIXES
from poisson.problem.problem import FORMS, MEANS
from poisson.solvers import keys, registry
from poisson.solvers.keys import MAX_COUNT, either
from poisson.solvers.settings import MAX_THREADS, PRECISIONS

MAX_RANKS = 10**6
MAX_UNIT = 32


def unit(text: str) -> str:
    """The name of a unit as it was given, if it is one.

    Raises ValueError if it is not.
    """
    if not (text.isprintable() and 0 < len(text.strip()) == len(text) <= MAX_UNIT):
        raise ValueError
    return text


def _hdf5(text: str) -> None:
    if not path_of(text).lower().endswith(HDF5_SUFFIXES):
        raise ValueError


def _blocks(counts: list[int]) -> None:
    if counts[0] != 1:
        raise ValueError


UNIT = f'the name of a unit, such as "m", of at most {MAX_UNIT} printable characters'

EQUATION = Table(
    {
        "f": Key(DATA, "the source", 'a finite number, an expression, "exact" or a table such as { file = "f.npy" }'),
        "a": Key(
            Either(Number(gt=0.0), TEXT, IMAGE),
            "the coefficient of the gradient; it may jump",
            'a finite number > 0, an expression or a table such as { file = "a.npy" }',
            1.0,
        ),
        "c": Key(
            NON_NEGATIVE_DATA,
            "the reaction coefficient",
            'a finite number >= 0, an expression or a table such as { file = "c.npy" }',
            0.0,
        ),
        "mean": Key(Word(*MEANS), "the mean that gives a between two nodes", either(MEANS), MEANS[0]),
        "surface": Key(Word(*FORMS), "the differences beside the surfaces of bodies", either(FORMS), FORMS[0]),
        "exact": Key(FORMULA, "the exact solution, if known; the error is then reported", AS_FORMULA),
    }
)


def _of_solver(key: keys.Key) -> Kind:
    if key.kind is str:
        return Word(*key.words())
    return Flag() if key.kind is bool else Number(key.kind, **key.bounds)


SOLVER = Table(
    {
        name: Key(_of_solver(key), key.doc, key.allowed, default)
        for name, (key, default, _) in registry.solver_keys().items()
    }
)

_COUNT = Number(int, ge=1, le=MAX_RANKS)

RUN = Table(
    {
        "backend": Key(Word(*backend_names()), "where to compute", either(backend_names()), AUTO),
        "precision": Key(
            Word(*PRECISIONS), "the type of the arrays in the solver loop", either(PRECISIONS), PRECISIONS[0]
        ),
        "threads": Key(
            Number(int, ge=0, le=MAX_THREADS),
            "threads of a CPU",
            f"an integer >= 0 and <= {MAX_THREADS}; 0 uses all",
            0,
        ),
        "ranks": Key(
            Either(Word(AUTO), _COUNT, List(_COUNT, 1, 3, _blocks)),
            "the number of processes, or the blocks that the grid is divided into",
            '"auto", the number of processes, or blocks along x(, y(, z)) such as [1, 2, 2], 1 along x',
            AUTO,
        ),
        "initial": Key(
            DATA, "the initial guess", 'a finite number, an expression or a table such as { file = "u.npy" }', 0.0
        ),
    }
)

_UNITS = Table(
    {
        "length": Key(Text(unit), "the unit of the coordinates", UNIT, LENGTH),
        "value": Key(Text(unit), "the unit of u", UNIT, VALUE),
    }
)

OUTPUT = Table(
    {
        "file": Key(
            Text(_hdf5),
            "the result, relative to the current folder; by default named after the case",
            "a path that ends in .h5 or .hdf5",
        ),
        "fields": Key(
            List(Word(*FIELDS)),
            "the fields that are written",
            'a list with entries from "u", "f", "a", "c", "residual", "error", "gradient", "flux" and "E"',
            ["u"],
        ),
        "order": Key(Word(*ORDERS), "the order of accuracy of gradient, flux and E", "2, 4, 6 or 8", ORDERS[0]),
        "units": Key(
            _UNITS,
            "the units of length and of u, for axes and for readers",
            'a table such as { length = "m", value = "V" }',
            {},
        ),
        "checkpoint_every": Key(
            Either(Number(int, ge=1, le=MAX_COUNT), Text(Interval.of)),
            "how often a checkpoint of a long solve is written beside the result, for --resume",
            'an integer >= 1, of iterations, or a time in s, min or h such as "10 min"',
        ),
    }
)


def _table(table: Table, meaning: str) -> Key:
    return Key(table, meaning, "a table", {})


CASE = Table(
    {
        "title": Key(Text(title_of), "a title for people", f"one line of at most {MAX_TITLE} printable characters"),
        "equation": _table(EQUATION, "-div(a grad u) + c u = f"),
        "parameters": Key(Numbers(), "names that the expressions may use", "a table of finite numbers", {}),
        "domain": _table(DOMAIN, "the box and its grid"),
        "boundary": _table(BOUNDARY, "the conditions on the faces"),
        "body": Key(Tables(BODY, "a table"), "bodies in the box", "tables [[body]]", []),
        "solver": _table(SOLVER, "how to solve"),
        "run": _table(RUN, "the method and its settings"),
        "output": _table(OUTPUT, "which fields are written, and where"),
    }
)
