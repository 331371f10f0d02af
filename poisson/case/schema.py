# SPDX-License-Identifier: MIT
"""The form of a case file: every table and key, its type, range and default.

The description of a field is what an error message says is allowed, its title what it means, for editors
(`poisson.case.json_schema`). Optional keys that have no default are None; which of them a case needs depends on other
keys and is decided in `poisson.case.build`.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, create_model

from poisson.backends.registry import AUTO, backend_names
from poisson.case.settings import LENGTH, VALUE, FieldName, Interval
from poisson.case.tables import (
    FORMULA,
    MAX_TITLE,
    BodyTable,
    BoundaryTable,
    Data,
    DomainTable,
    Formula,
    NonNegativeData,
    PositiveData,
    Real,
    Table,
    key,
    kind_of,
    path_of,
    title_of,
)
from poisson.problem.fields import HDF5_SUFFIXES
from poisson.solvers import registry
from poisson.solvers.keys import MAX_COUNT, Key, either
from poisson.solvers.settings import MAX_THREADS, PRECISIONS

if TYPE_CHECKING:
    BackendName = str
    PrecisionName = str
    AutoName = str
else:
    AutoName = Literal[AUTO]
    BackendName = Literal[backend_names()]
    PrecisionName = Literal[PRECISIONS]

MAX_RANKS = 10**6
MAX_UNIT = 32


def unit(text: str) -> str:
    """The name of a unit as it was given, if it is one.

    Raises ValueError if it is not.
    """
    if not (text.isprintable() and 0 < len(text.strip()) == len(text) <= MAX_UNIT):
        raise ValueError
    return text


def _hdf5(text: str) -> str:
    if not text.lower().endswith(HDF5_SUFFIXES):
        raise ValueError
    return path_of(text)


def _blocks(counts: list[int]) -> list[int]:
    if counts[0] != 1:
        raise ValueError
    return counts


def _ranks_kind(item: object) -> str:
    return "<text>" if isinstance(item, str) else "<list>" if isinstance(item, (list, tuple)) else "<number>"


def _interval(text: str) -> str:
    Interval.of(text)
    return text


UNIT = f'the name of a unit, such as "m", of at most {MAX_UNIT} printable characters'


class EquationTable(Table):
    f: Data | None = key("the source", 'a finite number, an expression, "exact" or a table such as { file = "f.npy" }')
    a: PositiveData = key(
        "the coefficient of the gradient; it may jump",
        'a finite number > 0, an expression or a table such as { file = "a.npy" }',
        default=1.0,
    )
    c: NonNegativeData = key(
        "the reaction coefficient",
        'a finite number >= 0, an expression or a table such as { file = "c.npy" }',
        default=0.0,
    )
    mean: Literal["harmonic", "arithmetic"] = key(
        "the mean that gives a between two nodes", '"harmonic" or "arithmetic"', default="harmonic"
    )
    surface: Literal["shortley_weller", "symmetric"] = key(
        "the differences beside the surfaces of bodies", '"shortley_weller" or "symmetric"', default="shortley_weller"
    )
    exact: Formula | None = key("the exact solution, if known; the error is then reported", FORMULA)


def _annotation(key: Key, default: Any) -> Any:
    """The type of a key of ``[solver]``, as strict as those of the others."""
    if key.kind is str:
        return Literal[tuple(key.words())]
    bounds: dict[str, Any] = dict(key.bounds)
    kind: Any = (
        Annotated[Real, Field(**bounds)] if key.kind is float else Annotated[key.kind, Field(strict=True, **bounds)]
    )
    return kind if default is not None else kind | None


if TYPE_CHECKING:
    Solver = Table
else:
    Solver = create_model(
        "Solver",
        __base__=Table,
        **{
            name: (_annotation(place.key, place.default), key(place.key.doc, place.key.allowed, default=place.default))
            for name, place in registry.solver_keys().items()
        },
    )


Count = Annotated[int, Field(strict=True, ge=1, le=MAX_RANKS)]
Ranks = Annotated[
    Annotated[AutoName, Tag("<text>")]
    | Annotated[Count, Tag("<number>")]
    | Annotated[list[Count], Field(min_length=1, max_length=3), AfterValidator(_blocks), Tag("<list>")],
    Discriminator(_ranks_kind),
]


class RunTable(Table):
    backend: BackendName = key("where to compute", either(backend_names()), default=AUTO)
    precision: PrecisionName = key(
        "the type of the arrays in the solver loop", either(PRECISIONS), default=PRECISIONS[0]
    )
    threads: Annotated[int, Field(strict=True, ge=0, le=MAX_THREADS)] = key(
        "threads of a CPU", f"an integer >= 0 and <= {MAX_THREADS}; 0 uses all", default=0
    )
    ranks: Ranks = key(
        "the number of processes, or the blocks that the grid is divided into",
        '"auto", the number of processes, or blocks along x(, y(, z)) such as [1, 2, 2], 1 along x',
        default=AUTO,
    )
    initial: Data = key(
        "the initial guess", 'a finite number, an expression or a table such as { file = "u.npy" }', default=0.0
    )


class UnitNames(Table):
    length: Annotated[str, AfterValidator(unit)] = key("the unit of the coordinates", UNIT, default=LENGTH)
    value: Annotated[str, AfterValidator(unit)] = key("the unit of u", UNIT, default=VALUE)


Every = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT), Tag("<number>")]
    | Annotated[str, AfterValidator(_interval), Tag("<text>")],
    Discriminator(kind_of),
]


class OutputTable(Table):
    file: Annotated[str, AfterValidator(_hdf5)] | None = key(
        "the result, relative to the current folder; by default named after the case",
        "a path that ends in .h5 or .hdf5",
    )
    fields: list[FieldName] = key(
        "the fields that are written",
        'a list with entries from "u", "f", "a", "c", "residual", "error", "gradient", "flux" and "E"',
        default=["u"],
    )
    order: Literal[2, 4, 6, 8] = key("the order of accuracy of gradient, flux and E", "2, 4, 6 or 8", default=2)
    units: UnitNames = Field(
        default_factory=UnitNames,
        title="the units of length and of u, for axes and for readers",
        description='a table such as { length = "m", value = "V" }',
    )
    checkpoint_every: Every | None = key(
        "how often a checkpoint of a long solve is written beside the result, for --resume",
        'an integer >= 1, of iterations, or a time in s, min or h such as "10 min"',
    )


class CaseFile(Table):
    title: Annotated[str, AfterValidator(title_of)] | None = key(
        "a title for people", f"one line of at most {MAX_TITLE} printable characters"
    )
    equation: EquationTable = Field(
        default_factory=EquationTable, title="-div(a grad u) + c u = f", description="a table"
    )
    parameters: dict[str, Real] = Field(
        default_factory=dict, title="names that the expressions may use", description="a table of finite numbers"
    )
    domain: DomainTable = Field(default_factory=DomainTable, title="the box and its grid", description="a table")
    boundary: BoundaryTable = Field(
        default_factory=BoundaryTable, title="the conditions on the faces", description="a table"
    )
    body: list[BodyTable] = key("bodies in the box", "tables [[body]]", default=[])
    solver: Solver = Field(default_factory=Solver, title="how to solve", description="a table")
    run: RunTable = Field(default_factory=RunTable, title="the method and its settings", description="a table")
    output: OutputTable = Field(
        default_factory=OutputTable, title="which fields are written, and where", description="a table"
    )
