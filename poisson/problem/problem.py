# SPDX-License-Identifier: MIT
"""The mathematical problem: equation, grid, faces, and the exact solution where it is known."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from poisson.errors import CaseError
from poisson.mesh.boundary import Kind
from poisson.mesh.lattice import Lattice
from poisson.mesh.system import ALL_AXES, CARTESIAN
from poisson.problem.expressions import Expression
from poisson.problem.faces import Face
from poisson.problem.fields import ArrayField, CoarserField, FieldFile, FunctionField
from poisson.problem.given import AxisTable, Boundary, Centring, Condition, Data, Form, HostArray, Mean
from poisson.problem.user_data import (
    Conditions,
    NodeField,
    axes_with,
    box_of,
    conditions_of,
    exact_solution,
    faces_with,
    first_of,
    given_bodies,
    lattice_of,
    node_field,
    other_faces,
    require_axes,
    require_system,
    settled,
)
from poisson.words import article

if TYPE_CHECKING:
    from poisson.problem.bodies import Body
    from poisson.problem.surfaces import Cuts

EQUATION = "-div(a grad u) + c u = f"
"""The equation with its sign; `Problem.equation` says what a is as well."""

Coefficient = float | NodeField
"""A number, or a function given at every node."""

Number = TypeVar("Number", int, float)

MEANS = ("harmonic", "arithmetic")
"""The default first."""
CONSTANT_A = "only its default if a is constant, because every mean of equal values is the same"

FORMS = ("shortley_weller", "symmetric")
"""The differences beside surfaces, the default first."""

_NOTHING = Expression.constant(0.0)
"""No initial guess."""


@dataclass(frozen=True)
class Problem:
    """−∇·(a∇u) + c u = f on a box, with a condition on each face.

    Parameters
    ----------
    lattice : Lattice
        The nodes, with the rules that follow from the faces.
    faces : tuple of Face
        One for each face, in the order of `boundary.FACE_NAMES`.
    f : Expression, FieldFile, ArrayField or FunctionField
        The source, in U/L².
    c : float or a field as `f`
        The reaction coefficient, ≥ 0, in 1/L².
    initial : a field as `f`
        The initial guess, in U. Dirichlet nodes take their boundary values instead.
    exact : Expression, optional
        The exact solution, in U, if it is known.
    title : str
        A name for people.
    a : float or a field as `f`
        The coefficient of the gradient, > 0, dimensionless.
    mean : str
        How a between two nodes follows from its values at them, where it varies: ``harmonic`` or ``arithmetic``.
    bodies : tuple of Body
        Bodies in the box, with data that can be evaluated.
    surface : str
        Beside given values ``shortley_weller`` is of second order everywhere, ``symmetric`` has a symmetric operator.

    Examples
    --------
    >>> problem = poisson.Problem.on_box((33, 17), f="x*y", boundary={"x": "periodic", "all": 0.0})
    >>> problem.lattice.periodic, problem.c, problem == poisson.Problem.on_box((33, 17))
    ((True, False), 0.0, False)
    """

    lattice: Lattice
    faces: tuple[Face, ...]
    f: NodeField
    c: Coefficient = 0.0
    initial: NodeField = _NOTHING
    exact: Expression | None = None
    title: str = ""
    a: Coefficient = 1.0
    mean: str = "harmonic"
    bodies: tuple[Body, ...] = ()
    surface: Form = "shortley_weller"

    def __post_init__(self) -> None:
        if len(self.faces) != 2 * self.lattice.dimension:
            raise ValueError(f"{2 * self.lattice.dimension} faces are needed, {len(self.faces)} are given")
        a, c = number(self.a), number(self.c)
        if self.surface not in FORMS:
            raise ValueError(f"surface = {self.surface!r}; it must be one of {FORMS}")
        if c is not None and not c >= 0.0:
            raise ValueError(f"c = {c}; it must be >= 0")
        if a is not None and not a > 0.0:
            raise ValueError(f"a = {a}; it must be > 0")
        if self.mean not in MEANS:
            raise ValueError(f"mean = {self.mean!r}; it must be one of {MEANS}")
        for axis, wraps in enumerate(self.lattice.periodic):
            if any(face.kind.wraps != wraps for face in self.faces[2 * axis : 2 * axis + 2]):
                raise ValueError(
                    f"the {self.lattice.names[axis]} faces and the grid do not agree on whether the axis is periodic"
                )
        if [face.kind is Kind.AXIS for face in self.faces] != [self.lattice.centred] + [False] * (len(self.faces) - 1):
            raise ValueError("the first face, and no other, has the kind 'axis' where a radius begins at 0")
        object.__setattr__(self, "lattice", self.lattice.facing([face.kind for face in self.faces]))

    @staticmethod
    def on_box(
        shape: Sequence[int] | None = None,
        *,
        x: Sequence[float] | HostArray | None = None,
        y: Sequence[float] | HostArray | None = None,
        z: Sequence[float] | HostArray | None = None,
        r: Sequence[float] | HostArray | None = None,
        phi: Sequence[float] | HostArray | None = None,
        centring: Centring | Mapping[str, Centring] = "node",
        f: Data = 0.0,
        a: Data = 1.0,
        c: Data = 0.0,
        boundary: Boundary | Condition = 0.0,
        lower: Sequence[float] | None = None,
        upper: Sequence[float] | None = None,
        initial: Data = 0.0,
        exact: float | str | Expression | None = None,
        mean: Mean = "harmonic",
        title: str = "",
        bodies: Sequence[Body | Mapping[str, Any]] = (),
        surface: Form = "shortley_weller",
        system: str = CARTESIAN,
    ) -> Problem:
        """A problem from numbers, texts, Python functions and arrays.

        Parameters
        ----------
        shape : sequence of int
            Nodes along x(, y, z), those on the boundary included, or cells; on a periodic axis the last node is not
            counted. Not needed where every axis has its nodes.
        x, y, z, r, phi : array, optional
            The nodes of an axis from one face to the other, in L, equally spaced or not; of an axis of cells their
            faces. On a periodic axis the last one is the first one again, a period later.
        centring : ``"node"``, ``"cell"`` or mapping
            Whether the unknowns stand at the nodes or at the centres of cells, along all axes or by axis, as
            ``{"y": "cell"}``.
        f, a, c, initial : number, text, function, array or field
            The source, the coefficients and the initial guess. A function takes arrays x(, y, z) that broadcast against
            each other. An array, of any library, has the shape `shape` reversed, as x is its last axis; one on a device
            stays there.
        boundary : mapping, number, text, function or array
            As the table ``[boundary]`` of a case file, with functions and arrays beside numbers and texts, such as
            ``{"x": "periodic", "y_lower": {"neumann": 0.0}, "y_upper": {"dirichlet": lambda x, y: x}}``. What is no
            mapping is the Dirichlet value on every face; ``"periodic"``, also under ``"all"``, makes every axis
            periodic. An array has one value for each node of its face, in the order of the other arrays: ``(ny,)`` on
            an x face in 2D, ``(nz, nx)`` on a y face in 3D; in 1D a face takes a number.
        lower, upper : sequence of float, optional
            The corners of the box, in L; by default the unit box.
        exact : text or Expression, optional
            The exact solution, if it is known.
        mean, title : str
            As in `Problem`.
        bodies : sequence of Body
            Bodies in the box, or mappings as the tables ``[[body]]`` of a case file.
        surface : str
            As in `Problem`.
        system : str
            ``cylinder`` for axes r, or r, z, or r, phi, z; ``polar`` for r, phi; ``sphere`` for r. Where r begins at 0
            there is no face, and beside phi `shape` counts cells along r, whose centres are the nodes.

        Raises
        ------
        CaseError
            With one line that says what is wrong.

        Examples
        --------
        >>> problem = poisson.Problem.on_box(
        ...     (65, 33),  # nodes along x, y
        ...     upper=(2.0, 1.0),
        ...     f=lambda x, y: np.exp(-((x - 1.4) ** 2 + (y - 0.5) ** 2) / 0.02),
        ...     a=np.where(np.arange(65) < 30, 5.0, 1.0) * np.ones((33, 1)),
        ...     boundary={"x_lower": 1.0, "x_upper": {"neumann": 0.0}, "y": "periodic"},
        ... )
        >>> poisson.solve(problem).u.shape
        (33, 65)
        """
        marks = {name: given for name, given in zip(ALL_AXES, (x, y, z, r, phi), strict=True) if given is not None}
        if centring == "node" and not marks and system == CARTESIAN:
            nodes = _corner("shape", shape, operator.index, "integers")
            low = _corner("lower", (0.0,) * len(nodes) if lower is None else lower, float, "finite numbers")
            high = _corner("upper", (1.0,) * len(nodes) if upper is None else upper, float, "finite numbers")
            conditions = conditions_of(boundary, len(nodes))
            with _one_line():
                lattice = Lattice.box(low, high, nodes, tuple(each.kind.rule for each in conditions.values()))
        else:
            nodes = () if marks and shape is None else _corner("shape", shape, operator.index, "integers")
            names = axes_with(system, marks, len(nodes))
            count = len(names)
            stated = (
                (None,) * count if lower is None else _corner("lower", lower, float, "finite numbers"),
                (None,) * count if upper is None else _corner("upper", upper, float, "finite numbers"),
                nodes or (None,) * count,
            )
            tables = [marks.get(name) for name in names]
            centred = system != CARTESIAN and (first_of(tables[0], (stated[0][0] or 0.0,)) == 0.0)
            conditions = conditions_of(boundary, count, system, centred)
            lattice = box_of(tables, centring, stated, [each.kind for each in conditions.values()], system)
        return _described(
            lattice, conditions, {"f": f, "a": a, "c": c, "initial": initial}, exact, mean, title, bodies, surface
        )

    @staticmethod
    def on_lattice(
        axes: Sequence[AxisTable],
        *,
        f: Data = 0.0,
        a: Data = 1.0,
        c: Data = 0.0,
        boundary: Boundary | Condition = 0.0,
        initial: Data = 0.0,
        exact: float | str | Expression | None = None,
        mean: Mean = "harmonic",
        title: str = "",
        bodies: Sequence[Body | Mapping[str, Any]] = (),
        surface: Form = "shortley_weller",
        system: str = CARTESIAN,
    ) -> Problem:
        """A problem whose nodes are not equally spaced along every axis, or are the centres of cells.

        Parameters
        ----------
        axes : sequence of mapping
            x(, y, z): ``{"nodes": coordinates}`` of stretched nodes, the first and the last of them on the faces;
            ``{"cells": boundaries}`` of cells, whose centres are the nodes, half a cell away from the faces; or
            ``{"uniform": (lower, upper, nodes)}`` as in `on_box`. On a periodic axis the last coordinate is the first
            one again, a period later.
        f, a, c, boundary, initial, exact, mean, title, bodies, surface, system
            As in `on_box`. Arrays have one value for each node: for each cell along an axis of cells.

        Raises
        ------
        CaseError
            With one line that says what is wrong.

        Examples
        --------
        >>> problem = poisson.Problem.on_lattice(
        ...     ({"nodes": np.linspace(0.0, 1.0, 41) ** 1.5}, {"cells": np.linspace(0.0, 2.0, 33)}),
        ...     boundary={"y": "periodic", "all": 0.0},
        ... )
        >>> problem.lattice.shape
        (41, 32)
        """
        require_system(system, require_axes(axes))
        centred = system != CARTESIAN and first_of(axes[0], None) == 0.0
        conditions = conditions_of(boundary, len(axes), system, centred)
        lattice = lattice_of(axes, [each.kind for each in conditions.values()], system)
        return _described(
            lattice, conditions, {"f": f, "a": a, "c": c, "initial": initial}, exact, mean, title, bodies, surface
        )

    def coarser(self) -> Problem | None:
        """The same problem on a grid of half the intervals, without its initial guess and its exact solution.

        None where an axis would have too few nodes.

        Examples
        --------
        >>> poisson.Problem.on_box((33, 17)).coarser().lattice.shape
        (17, 9)
        """
        lattice = self.lattice.coarser
        if lattice is None:
            return None

        def on_it(given: Any, axes: Sequence[int], bounded: bool = False) -> Any:
            if not isinstance(given, (FieldFile, ArrayField, CoarserField)):
                return given
            fine, coarse = (tuple(each.axes[axis] for axis in axes) for each in (self.lattice, lattice))
            return CoarserField(given, fine, coarse, bounded)

        axes = range(lattice.dimension)[::-1]
        faces = []
        for index, face in enumerate(self.faces):
            along = [axis for axis in axes if axis != index // 2]
            faces.append(replace(face, value=on_it(face.value, along), alpha=on_it(face.alpha, along, bounded=True)))
        f, c, a = on_it(self.f, axes), on_it(self.c, axes, bounded=True), on_it(self.a, axes, bounded=True)
        return replace(self, lattice=lattice, faces=tuple(faces), f=f, c=c, a=a, initial=_NOTHING, exact=None)

    def having(
        self,
        *,
        f: Data | None = None,
        initial: Data | None = None,
        boundary: Boundary | Condition | None = None,
        a: Data | None = None,
        c: Data | None = None,
    ) -> Problem:
        """The same problem with other data, as `on_box` takes them; what is None stays.

        Faces keep their kinds, and those that a mapping does not name their data. The exact solution belongs to the
        data: with others there is none.

        Raises
        ------
        CaseError
            With one line that says what is wrong.

        Examples
        --------
        >>> problem = poisson.Problem.on_box((33, 17), boundary={"x_lower": 1.0, "all": 0.0})
        >>> problem.having(f="x*y", boundary={"x_lower": "sin(pi*y)"}).faces[0].value
        Expression('sin(3.141592653589793*y)')
        """
        found: dict[str, Any] = {} if f is None else {"f": node_field(f, self.lattice, "f")}
        if initial is a is c is boundary is None and found:
            # Nothing is to be checked again: what is asked of a problem does not depend on its source.
            other = object.__new__(type(self))
            other.__dict__.update(self.__dict__, exact=None, **found)
            return other
        for name, value in (("initial", initial), ("a", a), ("c", c)):
            if value is not None:
                found[name] = node_field(value, self.lattice, name)
        for name in found.keys() & {"a", "c"}:
            if (constant := number(found[name])) is not None:
                found[name] = constant
        if boundary is not None:
            found["faces"] = other_faces(self.lattice, self.faces, boundary)
        if not found:
            return self
        if not set(found) <= {"initial"}:
            found["exact"] = None
        with _one_line():
            other = replace(self, **found)
        if "cuts" in self.__dict__:
            other.__dict__["cuts"] = self.cuts
        return other

    @cached_property
    def cuts(self) -> Cuts | None:
        """Where the surfaces of bodies cut the links between nodes; None without a body.

        Examples
        --------
        >>> plate = poisson.Body("abs(x - 0.35) < 0.2", dirichlet=1.0)
        >>> poisson.Problem.on_box((11, 3), bodies=[plate]).cuts.theta.round(12)
        array([0.5, 0.5])
        """
        from poisson.problem.surfaces import cuts_of

        return cuts_of(self.lattice, self.bodies) if self.bodies else None

    @cached_property
    def varies(self) -> bool:
        """Whether the coefficients of the discrete operator differ from node to node; α of a Robin face is one.

        Examples
        --------
        >>> poisson.Problem.on_box((33, 17), a=3.0).varies, poisson.Problem.on_box((33, 17), a="1 + x").varies
        (False, True)
        """
        absorbs = any(face.absorbs for face in self.faces)
        return not self.even or number(self.c) is None or absorbs or bool(self.bodies)

    @property
    def separable(self) -> bool:
        """Whether a direct solution takes it: a and c are constant, no face has an α, and there are no bodies.

        Examples
        --------
        >>> poisson.Problem.on_box((33, 17), a=3.0).separable
        True
        """
        constant = number(self.a) is not None and number(self.c) is not None
        return constant and not any(face.absorbs for face in self.faces) and not self.bodies

    @property
    def even(self) -> bool:
        """Whether all links have one coefficient: a is constant, and there is no angle, whose links are r long.

        Examples
        --------
        >>> poisson.Problem.on_box((33, 17), a=3.0).even
        True
        """
        return number(self.a) is not None and self.lattice.angle is None

    @cached_property
    def open_faces(self) -> tuple[bool, ...]:
        """Whether each face is open, in the order of `boundary.FACE_NAMES`; nothing where none is.

        Examples
        --------
        >>> poisson.Problem.on_box((33, 17), boundary={"x": "periodic", "all": "open"}).open_faces
        (False, False, True, True)
        """
        found = tuple(face.kind is Kind.OPEN for face in self.faces)
        return found if any(found) else ()

    @cached_property
    def guess(self) -> bool:
        """Whether there is an initial guess other than zero.

        Examples
        --------
        >>> poisson.Problem.on_box((33, 17), initial="x").guess
        True
        """
        return self.initial is not _NOTHING and self.initial != _NOTHING

    @property
    def equation(self) -> str:
        """The equation, and what a is in it.

        Examples
        --------
        >>> poisson.Problem.on_box((33, 17), a="1 + x").equation
        '-div(a grad u) + c u = f, a = a(x, y), harmonic mean between nodes'
        """
        a = number(self.a)
        if a is not None:
            return f"{EQUATION}, a = {a:.12g}"
        return f"{EQUATION}, a = a({', '.join(self.lattice.names)}), {self.mean} mean between nodes"


def no_problem(given: object) -> CaseError:
    """The error for what is no `Problem`, such as a case: the line says what to give instead."""
    kind = article(type(given).__name__)
    return CaseError(f"problem: {kind}; allowed: a poisson.Problem; the problem of a case is case.problem")


def _corner(name: str, given: Any, convert: Callable[[Any], Number], kind: str) -> tuple[Number, ...]:
    """One number for each axis from what `Problem.on_box` is given."""
    with contextlib.suppress(TypeError, ValueError):
        return tuple(convert(entry) for entry in given)
    raise CaseError(f"{name}: {given!r}; allowed: 1, 2 or 3 {kind}, in the order x(, y(, z))")


def number(coefficient: Coefficient) -> float | None:
    """The value of a coefficient that is the same everywhere; None for one that is not known to be."""
    if isinstance(coefficient, Expression):
        return coefficient.value if coefficient.is_constant else None
    return None if isinstance(coefficient, (FieldFile, ArrayField, FunctionField, CoarserField)) else float(coefficient)


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Within, a value that does not fit is a mistake of the one who gave it."""
    try:
        yield
    except ValueError as error:
        raise CaseError(str(error)) from error


def _described(
    lattice: Lattice,
    conditions: Conditions,
    given: Mapping[str, Any],
    exact: Any,
    mean: str,
    title: str,
    bodies: Sequence[Any],
    surface: Form,
) -> Problem:
    """The problem with these conditions on a lattice, from what users give as its data."""
    conditions, patches = settled(conditions, lattice)
    faces = faces_with(conditions, lattice)
    solution = None if exact is None else exact_solution(exact, lattice)
    fields: dict[str, Any] = {name: node_field(value, lattice, name) for name, value in given.items()}
    for name in ("a", "c"):
        if (constant := number(fields[name])) is not None:
            fields[name] = constant
    if mean in MEANS[1:] and isinstance(fields["a"], float):
        raise CaseError(f"mean: {mean!r}; allowed: {CONSTANT_A}")
    with _one_line():
        found = given_bodies(bodies, patches, lattice) if bodies or patches else ()
        return Problem(lattice, faces, **fields, exact=solution, title=title, mean=mean, bodies=found, surface=surface)
