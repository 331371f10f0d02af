# SPDX-License-Identifier: MIT
"""The common part of the tables of a case file, and the tables of the box: its axes, faces and bodies.

The description of a field is what an error message says is allowed, its title what it means, for editors
(`poisson.case.json_schema`).
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, create_model

from poisson.case.axes import STRETCHES
from poisson.mesh.axis import MIN_NODES
from poisson.mesh.boundary import CONDITIONS, TABLES
from poisson.mesh.system import SYSTEMS
from poisson.problem.bodies import SHAPES
from poisson.problem.images import NO_PHASES, phases_of
from poisson.solvers.keys import MAX_COUNT, either

MAX_TITLE = 256
MAX_PATH = 4096


class Table(BaseModel):
    """A table of the case file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def key(meaning: str, allowed: str, default: Any = None) -> Any:
    """A key that may be left out."""
    return Field(default=default, title=meaning, description=allowed)


def title_of(text: str) -> str:
    if not text.isprintable() or len(text) > MAX_TITLE:
        raise ValueError
    return text


def path_of(text: str) -> str:
    if not (text.isprintable() and 0 < len(text) <= MAX_PATH):
        raise ValueError
    return text


def kind_of(item: object) -> str:
    return "<table>" if isinstance(item, (dict, Table)) else "<text>" if isinstance(item, str) else "<number>"


Real = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Nodes = Annotated[int, Field(strict=True, ge=MIN_NODES, le=MAX_COUNT)]
Corner = Annotated[list[Real], Field(min_length=1, max_length=3)]
PathText = Annotated[str, AfterValidator(path_of)]
Formula = Annotated[Annotated[Real, Tag("<number>")] | Annotated[str, Tag("<text>")], Discriminator(kind_of)]

FORMULA = "a finite number or an expression"
_FACE = 'a finite number, an expression or a table such as { file = "g.npy" }'
_CONDITION = f'"open" or {TABLES}, with finite numbers, expressions or files'
_CORNER = "1, 2 or 3 finite numbers, in the order x(, y(, z))"


class FileTable(Table):
    file: PathText = Field(
        title="the file with the values at the nodes, relative to the folder of the case file",
        description="the path of a .npy, .h5 or .hdf5 file",
    )
    dataset: PathText | None = key(
        "the dataset with the values, for an HDF5 file", "the name of a dataset in an HDF5 file"
    )


Data = Annotated[
    Annotated[Real, Tag("<number>")] | Annotated[str, Tag("<text>")] | Annotated[FileTable, Tag("<table>")],
    Discriminator(kind_of),
]


def _phases(given: dict[str, float]) -> dict[str, float]:
    phases_of(given)
    return given


class ImageTable(FileTable):
    file: PathText = Field(
        title="the file with the values at the nodes, or a pattern for the pages of an image",
        description='the path of a .npy, .h5, .hdf5, .png, .tif or .tiff file, or of images such as "slices/*.tif"',
    )
    phases: Annotated[dict[str, Real], AfterValidator(_phases)] | None = key(
        "the value of each phase, for a file with labels", NO_PHASES
    )


PositiveData = Annotated[
    Annotated[Real, Field(gt=0.0), Tag("<number>")]
    | Annotated[str, Tag("<text>")]
    | Annotated[ImageTable, Tag("<table>")],
    Discriminator(kind_of),
]
NonNegativeData = Annotated[
    Annotated[Real, Field(ge=0.0), Tag("<number>")]
    | Annotated[str, Tag("<text>")]
    | Annotated[FileTable, Tag("<table>")],
    Discriminator(kind_of),
]


class AxisTable(Table):
    nodes: Annotated[list[Real], Field(min_length=MIN_NODES)] | None = key(
        "the coordinates of the nodes, or with cells those of their faces, from one end of the axis to the other",
        f"a list of at least {MIN_NODES} finite numbers that ascend",
    )
    file: PathText | None = key(
        "a file with these coordinates, relative to the folder of the case file",
        "the path of a .npy, .h5 or .hdf5 file",
    )
    dataset: str | None = key(
        "the dataset with the coordinates, for an HDF5 file", "the name of a dataset in an HDF5 file"
    )
    map: str | None = key(
        "coordinates as a function of s in [0, 1]; its values at 0 and 1 lie on the ends of the axis",
        'an expression of s that grows, such as "tanh(2*s)"',
    )
    stretch: Literal[tuple(STRETCHES)] | None = key("a map that is known by name", either(tuple(STRETCHES)))  # type: ignore[valid-type]
    ratio: Annotated[Real, Field(gt=1.0, le=1e6)] | None = key(
        "with stretch: how many times the widest spacing is the least one", "a number > 1 and <= 1e6"
    )
    towards: Literal["both", "lower", "upper"] | None = key(
        'with stretch: the end where the spacing is least; "both" where it is left out', '"both", "lower" or "upper"'
    )


Centring = Literal["node", "cell"]


def _centring(axis: str) -> Any:
    return key(f"what lies along {axis}", '"node" or "cell"')


class CentringTable(Table):
    x: Centring | None = _centring("x")
    y: Centring | None = _centring("y")
    z: Centring | None = _centring("z")
    r: Centring | None = _centring("r")
    phi: Centring | None = _centring("phi")


def _axis(axis: str) -> Any:
    return key(
        f"where the nodes along {axis} are, if not equally spaced",
        'a table such as { stretch = "tanh", ratio = 10.0 }, { map = "s**2" } or { nodes = [...] }',
    )


class DomainTable(Table):
    lower: Corner | None = key("the lower corner of the box", _CORNER)
    upper: Corner | None = key("the upper corner of the box", _CORNER)
    shape: Annotated[list[Nodes], Field(min_length=1, max_length=3)] | None = key(
        "nodes or cells along each axis; the last node of a periodic axis, the first one again, is not counted",
        f"1, 2 or 3 integers >= {MIN_NODES}, in the order x(, y(, z))",
    )
    x: AxisTable | None = _axis("x")
    y: AxisTable | None = _axis("y")
    z: AxisTable | None = _axis("z")
    r: AxisTable | None = _axis("r")
    phi: AxisTable | None = _axis("phi")
    centring: Annotated[
        Annotated[Centring, Tag("<text>")] | Annotated[CentringTable, Tag("<table>")], Discriminator(kind_of)
    ] = key(
        "whether u stands at nodes, of which the outermost lie on the faces, or at the centres of cells",
        '"node", "cell" or a table of these by axis such as { x = "cell" }',
        default="node",
    )
    system: Literal["cartesian", "cylinder", "polar", "sphere"] | None = key(
        "the coordinates, if not x(, y(, z)): r, or r, z, or r, phi, z of a cylinder; r, phi; or r of a sphere",
        either(tuple(SYSTEMS)),
    )


_ALPHA = 'a finite number >= 0, an expression or a table such as { file = "alpha.npy" }'

if TYPE_CHECKING:

    class FaceTable(Table):
        alpha: NonNegativeData | None
else:
    FaceTable = create_model(
        "FaceTable",
        __base__=Table,
        **{kind.value: (Data | None, key(kind.meaning, f'{_FACE}; "exact" takes {kind.exact}')) for kind in CONDITIONS},
        alpha=(NonNegativeData | None, key("alpha of a Robin face", _ALPHA)),
    )


Condition = Annotated[
    Annotated[FaceTable, Tag("<table>")] | Annotated[Literal["open"], Tag("<text>")],
    Discriminator(lambda item: "<text>" if isinstance(item, str) else "<table>"),
]
Pair = Literal["periodic", "open"]


def _pair(axis: str) -> Any:
    return key(
        f"makes both {axis} faces periodic, or open",
        f'"periodic" or "open"; for other conditions use {axis}_lower and {axis}_upper',
    )


class PatchTable(FaceTable):
    where: str | None = key(
        "which part of the face it is for; the last table is for the rest", 'a condition such as "abs(x) < 0.2"'
    )


Conditions = Annotated[
    Annotated[FaceTable, Tag("<table>")]
    | Annotated[Literal["open"], Tag("<text>")]
    | Annotated[list[PatchTable], Field(min_length=1), Tag("<list>")],
    Discriminator(lambda item: {str: "<text>", list: "<list>"}.get(type(item), "<table>")),
]


def _face(axis: str) -> Any:
    return key(
        f"the condition on a face across {axis}",
        f'{_CONDITION}, or a list of these, all but the last with where = "abs(x) < 0.2" or another '
        f'condition; for both {axis} faces at once also {axis} = "periodic"',
    )


def _radial(name: str) -> Any:
    wall = " where r does not begin at 0" * name.endswith("lower")
    return key(f"the condition at the {name[2:]} end of a radius{wall}", _CONDITION)


class BoundaryTable(Table):
    all: Condition | None = key(
        "the condition on every face without its own condition", f'{_CONDITION}; periodic axes have x = "periodic"'
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
    shape: Literal[tuple(SHAPES)] | None = key("a shape by its name", either(tuple(SHAPES)))  # type: ignore[valid-type]
    center: Corner | None = key("the center of a shape", _CORNER)
    radius: Real | None = key("of a sphere or a cylinder", "a number > 0")
    size: Corner | None = key("the lengths of a box", f"{_CORNER}, all > 0")
    axis: Literal["x", "y", "z"] | None = key("the axis of a cylinder", '"x", "y" or "z"')
    length: Real | None = key("the length of a cylinder, which has no ends without it", "a number > 0")
    normal: Corner | None = key("the outward normal of a half space", _CORNER)
    file: PathText | None = key(
        "the file with the signed distance at the nodes, or with a mask of the nodes inside",
        "the path of a .npy, .h5 or .hdf5 file",
    )
    dataset: PathText | None = key("the dataset, for an HDF5 file", "the name of a dataset in an HDF5 file")


def _surface(meaning: str) -> Any:
    return key(meaning, FORMULA)


class BodyTable(Table):
    name: Annotated[str, AfterValidator(title_of)] = key(
        "a name for people and results; by default body1, ...", "a name of one line", default=""
    )
    inside: (
        Annotated[Annotated[str, Tag("<text>")] | Annotated[InsideTable, Tag("<table>")], Discriminator(kind_of)] | None
    ) = key(
        "where the body is",
        'a condition such as "hypot(x, y) < 0.1", or a table such as { shape = "sphere", center = [0.5, '
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
    charge: Real | None = key("the charge of a floating body, 0 without it", "a finite number")
