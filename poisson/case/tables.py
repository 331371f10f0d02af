# SPDX-License-Identifier: MIT
"""The tables of the box in a case file: its axes, faces and bodies."""

from poisson.case.axes import STRETCHES
from poisson.case.kinds import ABSENT, Either, Flag, Key, List, Number, Numbers, Table, Tables, Text, Word
from poisson.mesh.axis import MIN_NODES
from poisson.mesh.boundary import CONDITIONS, TABLES
from poisson.mesh.system import SYSTEMS
from poisson.problem.bodies import SHAPES
from poisson.problem.images import NO_PHASES, phases_of
from poisson.solvers.keys import MAX_COUNT, either

MAX_TITLE = 256
MAX_PATH = 4096


def title_of(text: str) -> str:
    if not text.isprintable() or len(text) > MAX_TITLE:
        raise ValueError
    return text


def path_of(text: str) -> str:
    if not (text.isprintable() and 0 < len(text) <= MAX_PATH):
        raise ValueError
    return text


REAL, TEXT, PATH = Number(), Text(), Text(path_of)
CORNER = List(REAL, 1, 3)
FORMULA = Either(REAL, TEXT)

AS_FORMULA = "a finite number or an expression"
_FACE = 'a finite number, an expression or a table such as { file = "g.npy" }'
_CONDITION = f'"open" or {TABLES}, with finite numbers, expressions or files'
_CORNER = "1, 2 or 3 finite numbers, in the order x(, y(, z))"

_DATASET = Key(PATH, "the dataset with the values, for an HDF5 file", "the name of a dataset in an HDF5 file")

FILE = Table(
    {
        "file": Key(
            PATH,
            "the file with the values at the nodes, relative to the folder of the case file",
            "the path of a .npy, .h5 or .hdf5 file",
            ABSENT,
        ),
        "dataset": _DATASET,
    }
)

IMAGE = Table(
    {
        "file": Key(
            PATH,
            "the file with the values at the nodes, or a pattern for the pages of an image",
            'the path of a .npy, .h5, .hdf5, .png, .tif or .tiff file, or of images such as "slices/*.tif"',
            ABSENT,
        ),
        "dataset": _DATASET,
        "phases": Key(Numbers(phases_of), "the value of each phase, for a file with labels", NO_PHASES),
    }
)

DATA = Either(REAL, TEXT, FILE)
NON_NEGATIVE_DATA = Either(Number(ge=0.0), TEXT, FILE)

AXIS = Table(
    {
        "nodes": Key(
            List(REAL, MIN_NODES),
            "the coordinates of the nodes, or with cells those of their faces, from one end of the axis to the other",
            f"a list of at least {MIN_NODES} finite numbers that ascend",
        ),
        "file": Key(
            PATH,
            "a file with these coordinates, relative to the folder of the case file",
            "the path of a .npy, .h5 or .hdf5 file",
        ),
        "dataset": Key(
            TEXT, "the dataset with the coordinates, for an HDF5 file", "the name of a dataset in an HDF5 file"
        ),
        "map": Key(
            TEXT,
            "coordinates as a function of s in [0, 1]; its values at 0 and 1 lie on the ends of the axis",
            'an expression of s that grows, such as "tanh(2*s)"',
        ),
        "stretch": Key(Word(*STRETCHES), "a map that is known by name", either(tuple(STRETCHES))),
        "ratio": Key(
            Number(gt=1.0, le=1e6),
            "with stretch: how many times the widest spacing is the least one",
            "a number > 1 and <= 1e6",
        ),
        "towards": Key(
            Word("both", "lower", "upper"),
            'with stretch: the end where the spacing is least; "both" where it is left out',
            '"both", "lower" or "upper"',
        ),
    }
)

_AXES = ("x", "y", "z", "r", "phi")
_CENTRING = Word("node", "cell")

DOMAIN = Table(
    {
        "lower": Key(CORNER, "the lower corner of the box", _CORNER),
        "upper": Key(CORNER, "the upper corner of the box", _CORNER),
        "shape": Key(
            List(Number(int, ge=MIN_NODES, le=MAX_COUNT), 1, 3),
            "nodes or cells along each axis; the last node of a periodic axis, the first one again, is not counted",
            f"1, 2 or 3 integers >= {MIN_NODES}, in the order x(, y(, z))",
        ),
        **{
            axis: Key(
                AXIS,
                f"where the nodes along {axis} are, if not equally spaced",
                'a table such as { stretch = "tanh", ratio = 10.0 }, { map = "s**2" } or { nodes = [...] }',
            )
            for axis in _AXES
        },
        "centring": Key(
            Either(
                _CENTRING,
                Table({axis: Key(_CENTRING, f"what lies along {axis}", '"node" or "cell"') for axis in _AXES}),
            ),
            "whether u stands at nodes, of which the outermost lie on the faces, or at the centres of cells",
            '"node", "cell" or a table of these by axis such as { x = "cell" }',
            "node",
        ),
        "system": Key(
            Word(*SYSTEMS),
            "the coordinates, if not x(, y(, z)): r, or r, z, or r, phi, z of a cylinder; r, phi; or r of a sphere",
            either(tuple(SYSTEMS)),
        ),
    }
)

FACE = Table(
    {
        **{kind.value: Key(DATA, kind.meaning, f'{_FACE}; "exact" takes {kind.exact}') for kind in CONDITIONS},
        "alpha": Key(
            NON_NEGATIVE_DATA,
            "alpha of a Robin face",
            'a finite number >= 0, an expression or a table such as { file = "alpha.npy" }',
        ),
    }
)

PATCH = Table(
    {
        **FACE.keys,
        "where": Key(
            TEXT,
            "which part of the face it is for; the last table is for the rest",
            'a condition such as "abs(x) < 0.2"',
        ),
    }
)

_CONDITIONS = Either(FACE, Word("open"), Tables(PATCH, "a table with where and a condition", 1))


def _pair(axis: str) -> Key:
    return Key(
        Word("periodic", "open"),
        f"makes both {axis} faces periodic, or open",
        f'"periodic" or "open"; for other conditions use {axis}_lower and {axis}_upper',
    )


def _face(axis: str) -> Key:
    return Key(
        _CONDITIONS,
        f"the condition on a face across {axis}",
        f'{_CONDITION}, or a list of these, all but the last with where = "abs(x) < 0.2" or another '
        f'condition; for both {axis} faces at once also {axis} = "periodic"',
    )


def _radial(end: str, note: str = "") -> Key:
    return Key(_CONDITIONS, f"the condition at the {end} end of a radius{note}", _CONDITION)


BOUNDARY = Table(
    {
        "all": Key(
            Either(FACE, Word("open")),
            "the condition on every face without its own condition",
            f'{_CONDITION}; periodic axes have x = "periodic"',
        ),
        **{axis: _pair(axis) for axis in "xyz"},
        **{f"{axis}_{end}": _face(axis) for axis in "xyz" for end in ("lower", "upper")},
        "phi": _pair("phi"),
        "r_lower": _radial("lower", " where r does not begin at 0"),
        "r_upper": _radial("upper"),
        "phi_lower": _face("phi"),
        "phi_upper": _face("phi"),
    }
)

INSIDE = Table(
    {
        "shape": Key(Word(*SHAPES), "a shape by its name", either(tuple(SHAPES))),
        "center": Key(CORNER, "the center of a shape", _CORNER),
        "radius": Key(REAL, "of a sphere or a cylinder", "a number > 0"),
        "size": Key(CORNER, "the lengths of a box", f"{_CORNER}, all > 0"),
        "axis": Key(Word("x", "y", "z"), "the axis of a cylinder", '"x", "y" or "z"'),
        "length": Key(REAL, "the length of a cylinder, which has no ends without it", "a number > 0"),
        "normal": Key(CORNER, "the outward normal of a half space", _CORNER),
        "file": Key(
            PATH,
            "the file with the signed distance at the nodes, or with a mask of the nodes inside",
            "the path of a .npy, .h5 or .hdf5 file",
        ),
        "dataset": Key(PATH, "the dataset, for an HDF5 file", "the name of a dataset in an HDF5 file"),
    }
)


def _surface(meaning: str) -> Key:
    return Key(FORMULA, meaning, AS_FORMULA)


BODY = Table(
    {
        "name": Key(Text(title_of), "a name for people and results; by default body1, ...", "a name of one line", ""),
        "inside": Key(
            Either(TEXT, INSIDE),
            "where the body is",
            'a condition such as "hypot(x, y) < 0.1", or a table such as { shape = "sphere", center = [0.5, '
            '0.5], radius = 0.1 } or { file = "distance.npy" }',
        ),
        "dirichlet": _surface("u at the surface and inside"),
        "neumann": _surface("a du/dn at the surface, with the normal into the body"),
        "robin": _surface("a du/dn + alpha u at the surface, with the normal into the body"),
        "alpha": _surface("alpha of a Robin surface"),
        "a": _surface("the coefficient a inside"),
        "floating": Key(Flag(), "a conductor whose potential follows from its charge", "true or false", False),
        "charge": Key(REAL, "the charge of a floating body, 0 without it", "a finite number"),
    }
)
