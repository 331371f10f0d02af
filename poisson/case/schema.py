# SPDX-License-Identifier: MIT
"""The form of a case file: every table and key, its type, range and default.

The description of a field is what an error message says is allowed, its title what it means, for editors
(`poisson.case.json_schema`). Optional keys that have no default are None; which of them a case needs depends on other
keys and is decided in `poisson.case.build`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, create_model

from poisson.backends.registry import AUTO, backend_names
from poisson.case.axes import STRETCHES
from poisson.case.settings import LENGTH, VALUE, FieldName, Interval
from poisson.mesh.axis import MIN_NODES
from poisson.mesh.boundary import CONDITIONS, TABLES
from poisson.mesh.system import SYSTEMS
from poisson.problem.bodies import SHAPES
from poisson.problem.fields import HDF5_SUFFIXES
from poisson.problem.images import NO_PHASES, phases_of
from poisson.solvers import registry
from poisson.solvers.keys import MAX_COUNT, Key, either
from poisson.solvers.settings import PRECISIONS

if TYPE_CHECKING:
    BackendName = str
    PrecisionName = str
    AutoName = str
else:
    AutoName = Literal[AUTO]
    BackendName = Literal[backend_names()]
    PrecisionName = Literal[PRECISIONS]

MAX_TITLE = 256
MAX_PATH = 4096
MAX_RANKS = 10**6
MAX_UNIT = 32


class Table(BaseModel):
    """A table of the case file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _title(text: str) -> str:
    if not text.isprintable() or len(text) > MAX_TITLE:
        raise ValueError
    return text


def _path(text: str) -> str:
    if not (text.isprintable() and 0 < len(text) <= MAX_PATH):
        raise ValueError
    return text


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
    return _path(text)


def _kind(item: object) -> str:
    return "<table>" if isinstance(item, (dict, Table)) else "<text>" if isinstance(item, str) else "<number>"


def _blocks(counts: list[int]) -> list[int]:
    if counts[0] != 1:
        raise ValueError
    return counts


def _ranks_kind(item: object) -> str:
    return "<text>" if isinstance(item, str) else "<list>" if isinstance(item, (list, tuple)) else "<number>"


def _interval(text: str) -> str:
    Interval.of(text)
    return text


Real = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Nodes = Annotated[int, Field(strict=True, ge=MIN_NODES, le=MAX_COUNT)]
Corner = Annotated[list[Real], Field(min_length=1, max_length=3)]
PathText = Annotated[str, AfterValidator(_path)]
Formula = Annotated[Annotated[Real, Tag("<number>")] | Annotated[str, Tag("<text>")], Discriminator(_kind)]

UNIT = f'the name of a unit, such as "m", of at most {MAX_UNIT} printable characters'
_FORMULA = "a finite number or an expression"
_FACE = 'a finite number, an expression or a table such as { file = "g.npy" }'
_CONDITION = f'"open" or {TABLES}, with finite numbers, expressions or files'
_CORNER = "1, 2 or 3 finite numbers, in the order x(, y(, z))"


class FileTable(Table):
    file: PathText = Field(
        title="the file with the values at the nodes, relative to the folder of the case file",
        description="the path of a .npy, .h5 or .hdf5 file",
    )
    dataset: PathText | None = Field(
        default=None,
        title="the dataset with the values, for an HDF5 file",
        description="the name of a dataset in an HDF5 file",
    )


Data = Annotated[
    Annotated[Real, Tag("<number>")] | Annotated[str, Tag("<text>")] | Annotated[FileTable, Tag("<table>")],
    Discriminator(_kind),
]


def _phases(given: dict[str, float]) -> dict[str, float]:
    phases_of(given)
    return given


class ImageTable(FileTable):
    file: PathText = Field(
        title="the file with the values at the nodes, or a pattern for the pages of an image",
        description='the path of a .npy, .h5, .hdf5, .png, .tif or .tiff file, or of images such as "slices/*.tif"',
    )
    phases: Annotated[dict[str, Real], AfterValidator(_phases)] | None = Field(
        default=None, title="the value of each phase, for a file with labels", description=NO_PHASES
    )


PositiveData = Annotated[
    Annotated[Real, Field(gt=0.0), Tag("<number>")]
    | Annotated[str, Tag("<text>")]
    | Annotated[ImageTable, Tag("<table>")],
    Discriminator(_kind),
]
NonNegativeData = Annotated[
    Annotated[Real, Field(ge=0.0), Tag("<number>")]
    | Annotated[str, Tag("<text>")]
    | Annotated[FileTable, Tag("<table>")],
    Discriminator(_kind),
]


class EquationTable(Table):
    f: Data | None = Field(
        default=None,
        title="the source",
        description='a finite number, an expression, "exact" or a table such as { file = "f.npy" }',
    )
    a: PositiveData = Field(
        default=1.0,
        title="the coefficient of the gradient; it may jump",
        description='a finite number > 0, an expression or a table such as { file = "a.npy" }',
    )
    c: NonNegativeData = Field(
        default=0.0,
        title="the reaction coefficient",
        description='a finite number >= 0, an expression or a table such as { file = "c.npy" }',
    )
    mean: Literal["harmonic", "arithmetic"] = Field(
        default="harmonic", title="the mean that gives a between two nodes", description='"harmonic" or "arithmetic"'
    )
    surface: Literal["shortley_weller", "symmetric"] = Field(
        default="shortley_weller",
        title="the differences beside the surfaces of bodies",
        description='"shortley_weller" or "symmetric"',
    )
    exact: Formula | None = Field(
        default=None, title="the exact solution, if known; the error is then reported", description=_FORMULA
    )


class AxisTable(Table):
    nodes: Annotated[list[Real], Field(min_length=MIN_NODES)] | None = Field(
        default=None,
        title="the coordinates of the nodes, or with cells those of their faces, from one end of the axis to the other",
        description=f"a list of at least {MIN_NODES} finite numbers that ascend",
    )
    file: PathText | None = Field(
        default=None,
        title="a file with these coordinates, relative to the folder of the case file",
        description="the path of a .npy, .h5 or .hdf5 file",
    )
    dataset: str | None = Field(
        default=None,
        title="the dataset with the coordinates, for an HDF5 file",
        description="the name of a dataset in an HDF5 file",
    )
    map: str | None = Field(
        default=None,
        title="coordinates as a function of s in [0, 1]; its values at 0 and 1 lie on the ends of the axis",
        description='an expression of s that grows, such as "tanh(2*s)"',
    )
    stretch: Literal[tuple(STRETCHES)] | None = Field(  # type: ignore[valid-type]
        default=None, title="a map that is known by name", description=either(tuple(STRETCHES))
    )
    ratio: Annotated[Real, Field(gt=1.0, le=1e6)] | None = Field(
        default=None,
        title="with stretch: how many times the widest spacing is the least one",
        description="a number > 1 and <= 1e6",
    )
    towards: Literal["both", "lower", "upper"] | None = Field(
        default=None,
        title='with stretch: the end where the spacing is least; "both" where it is left out',
        description='"both", "lower" or "upper"',
    )


Centring = Literal["node", "cell"]


def _centring(axis: str) -> Any:
    return Field(default=None, title=f"what lies along {axis}", description='"node" or "cell"')


class CentringTable(Table):
    x: Centring | None = _centring("x")
    y: Centring | None = _centring("y")
    z: Centring | None = _centring("z")
    r: Centring | None = _centring("r")
    phi: Centring | None = _centring("phi")


def _axis(axis: str) -> Any:
    return Field(
        default=None,
        title=f"where the nodes along {axis} are, if not equally spaced",
        description='a table such as { stretch = "tanh", ratio = 10.0 }, { map = "s**2" } or { nodes = [...] }',
    )


class DomainTable(Table):
    lower: Corner | None = Field(default=None, title="the lower corner of the box", description=_CORNER)
    upper: Corner | None = Field(default=None, title="the upper corner of the box", description=_CORNER)
    shape: Annotated[list[Nodes], Field(min_length=1, max_length=3)] | None = Field(
        default=None,
        title="nodes or cells along each axis; the last node of a periodic axis, the first one again, is not counted",
        description=f"1, 2 or 3 integers >= {MIN_NODES}, in the order x(, y(, z))",
    )
    x: AxisTable | None = _axis("x")
    y: AxisTable | None = _axis("y")
    z: AxisTable | None = _axis("z")
    r: AxisTable | None = _axis("r")
    phi: AxisTable | None = _axis("phi")
    centring: Annotated[
        Annotated[Centring, Tag("<text>")] | Annotated[CentringTable, Tag("<table>")], Discriminator(_kind)
    ] = Field(
        default="node",
        title="whether u stands at nodes, of which the outermost lie on the faces, or at the centres of cells",
        description='"node", "cell" or a table of these by axis such as { x = "cell" }',
    )
    system: Literal["cartesian", "cylinder", "polar", "sphere"] | None = Field(
        default=None,
        title="the coordinates, if not x(, y(, z)): r, or r, z, or r, phi, z of a cylinder; r, phi; or r of a sphere",
        description=either(tuple(SYSTEMS)),
    )


_ALPHA = 'a finite number >= 0, an expression or a table such as { file = "alpha.npy" }'

if TYPE_CHECKING:

    class FaceTable(Table):
        alpha: NonNegativeData | None
else:
    FaceTable = create_model(
        "FaceTable",
        __base__=Table,
        **{
            kind.value: (
                Data | None,
                Field(default=None, title=kind.meaning, description=f'{_FACE}; "exact" takes {kind.exact}'),
            )
            for kind in CONDITIONS
        },
        alpha=(NonNegativeData | None, Field(default=None, title="alpha of a Robin face", description=_ALPHA)),
    )


Condition = Annotated[
    Annotated[FaceTable, Tag("<table>")] | Annotated[Literal["open"], Tag("<text>")],
    Discriminator(lambda item: "<text>" if isinstance(item, str) else "<table>"),
]
Pair = Literal["periodic", "open"]


def _pair(axis: str) -> Any:
    return Field(
        default=None,
        title=f"makes both {axis} faces periodic, or open",
        description=f'"periodic" or "open"; for other conditions use {axis}_lower and {axis}_upper',
    )


class PatchTable(FaceTable):
    where: str | None = Field(
        default=None,
        title="which part of the face it is for; the last table is for the rest",
        description='a condition such as "abs(x) < 0.2"',
    )


Conditions = Annotated[
    Annotated[FaceTable, Tag("<table>")]
    | Annotated[Literal["open"], Tag("<text>")]
    | Annotated[list[PatchTable], Field(min_length=1), Tag("<list>")],
    Discriminator(lambda item: {str: "<text>", list: "<list>"}.get(type(item), "<table>")),
]


def _face(axis: str) -> Any:
    return Field(
        default=None,
        title=f"the condition on a face across {axis}",
        description=f'{_CONDITION}, or a list of these, all but the last with where = "abs(x) < 0.2" or another '
        f'condition; for both {axis} faces at once also {axis} = "periodic"',
    )


def _radial(name: str) -> Any:
    wall = " where r does not begin at 0" * name.endswith("lower")
    return Field(default=None, title=f"the condition at the {name[2:]} end of a radius{wall}", description=_CONDITION)


class BoundaryTable(Table):
    all: Condition | None = Field(
        default=None,
        title="the condition on every face without its own condition",
        description=f'{_CONDITION}; periodic axes have x = "periodic"',
    )
    x: Pair | None = _pair("x")
    y: Pair | None = _pair("y")
    z: Pair | None = _pair("z")
    x_lower: Conditions | None = _face("x")
    x_upper: Conditions | None = _face("x")
    y_lower: Conditions | None = _face("y")
    y_upper: Conditions | None = _face("y")
    z_lower: Conditions | None = _face("z")
    z_upper: Conditions | None = _face("z")
    phi: Pair | None = _pair("phi")
    r_lower: Conditions | None = _radial("r_lower")
    r_upper: Conditions | None = _radial("r_upper")
    phi_lower: Conditions | None = _face("phi")
    phi_upper: Conditions | None = _face("phi")


class InsideTable(Table):
    shape: Literal[tuple(SHAPES)] | None = Field(  # type: ignore[valid-type]
        default=None, title="a shape by its name", description=either(tuple(SHAPES))
    )
    center: Corner | None = Field(default=None, title="the center of a shape", description=_CORNER)
    radius: Real | None = Field(default=None, title="of a sphere or a cylinder", description="a number > 0")
    size: Corner | None = Field(default=None, title="the lengths of a box", description=f"{_CORNER}, all > 0")
    axis: Literal["x", "y", "z"] | None = Field(
        default=None, title="the axis of a cylinder", description='"x", "y" or "z"'
    )
    length: Real | None = Field(
        default=None, title="the length of a cylinder, which has no ends without it", description="a number > 0"
    )
    normal: Corner | None = Field(default=None, title="the outward normal of a half space", description=_CORNER)
    file: PathText | None = Field(
        default=None,
        title="the file with the signed distance at the nodes, or with a mask of the nodes inside",
        description="the path of a .npy, .h5 or .hdf5 file",
    )
    dataset: PathText | None = Field(
        default=None, title="the dataset, for an HDF5 file", description="the name of a dataset in an HDF5 file"
    )


def _surface(meaning: str) -> Any:
    return Field(default=None, title=meaning, description=_FORMULA)


class BodyTable(Table):
    name: Annotated[str, AfterValidator(_title)] = Field(
        default="", title="a name for people and results; by default body1, ...", description="a name of one line"
    )
    inside: (
        Annotated[Annotated[str, Tag("<text>")] | Annotated[InsideTable, Tag("<table>")], Discriminator(_kind)] | None
    ) = Field(
        default=None,
        title="where the body is",
        description='a condition such as "hypot(x, y) < 0.1", or a table such as { shape = "sphere", center = [0.5, '
        '0.5], radius = 0.1 } or { file = "distance.npy" }',
    )
    dirichlet: Formula | None = _surface("u at the surface and inside")
    neumann: Formula | None = _surface("a du/dn at the surface, with the normal into the body")
    robin: Formula | None = _surface("a du/dn + alpha u at the surface, with the normal into the body")
    alpha: Formula | None = _surface("alpha of a Robin surface")
    a: Formula | None = _surface("the coefficient a inside")
    floating: bool = Field(
        default=False,
        strict=True,
        title="a conductor whose potential follows from its charge",
        description="true or false",
    )
    charge: Real | None = Field(
        default=None, title="the charge of a floating body, 0 without it", description="a finite number"
    )


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
            name: (
                _annotation(place.key, place.default),
                Field(default=place.default, title=place.key.doc, description=place.key.allowed),
            )
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
    backend: BackendName = Field(default=AUTO, title="where to compute", description=either(backend_names()))
    precision: PrecisionName = Field(
        default=PRECISIONS[0], title="the type of the arrays in the solver loop", description=either(PRECISIONS)
    )
    threads: Annotated[int, Field(strict=True, ge=0, le=4096)] = Field(
        default=0, title="threads of a CPU", description="an integer >= 0 and <= 4096; 0 uses all"
    )
    ranks: Ranks = Field(
        default=AUTO,
        title="the number of processes, or the blocks that the grid is divided into",
        description='"auto", the number of processes, or blocks along x(, y(, z)) such as [1, 2, 2], 1 along x',
    )
    initial: Data = Field(
        default=0.0,
        title="the initial guess",
        description='a finite number, an expression or a table such as { file = "u.npy" }',
    )


class UnitNames(Table):
    length: Annotated[str, AfterValidator(unit)] = Field(
        default=LENGTH, title="the unit of the coordinates", description=UNIT
    )
    value: Annotated[str, AfterValidator(unit)] = Field(default=VALUE, title="the unit of u", description=UNIT)


Every = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT), Tag("<number>")]
    | Annotated[str, AfterValidator(_interval), Tag("<text>")],
    Discriminator(_kind),
]


class OutputTable(Table):
    file: Annotated[str, AfterValidator(_hdf5)] | None = Field(
        default=None,
        title="the result, relative to the current folder; by default named after the case",
        description="a path that ends in .h5 or .hdf5",
    )
    fields: list[FieldName] = Field(
        default=["u"],
        title="the fields that are written",
        description='a list with entries from "u", "f", "a", "c", "residual", "error", "gradient", "flux" and "E"',
    )
    order: Literal[2, 4, 6, 8] = Field(
        default=2, title="the order of accuracy of gradient, flux and E", description="2, 4, 6 or 8"
    )
    units: UnitNames = Field(
        default_factory=UnitNames,
        title="the units of length and of u, for axes and for readers",
        description='a table such as { length = "m", value = "V" }',
    )
    checkpoint_every: Every | None = Field(
        default=None,
        title="how often a checkpoint of a long solve is written beside the result, for --resume",
        description='an integer >= 1, of iterations, or a time in s, min or h such as "10 min"',
    )


class CaseFile(Table):
    title: Annotated[str, AfterValidator(_title)] | None = Field(
        default=None, title="a title for people", description=f"one line of at most {MAX_TITLE} printable characters"
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
    body: list[BodyTable] = Field(default=[], title="bodies in the box", description="tables [[body]]")
    solver: Solver = Field(default_factory=Solver, title="how to solve", description="a table")
    run: RunTable = Field(default_factory=RunTable, title="the method and its settings", description="a table")
    output: OutputTable = Field(
        default_factory=OutputTable, title="which fields are written, and where", description="a table"
    )
