# SPDX-License-Identifier: MIT
"""The table of operations: one entry each, with what its arguments are, what it reads and writes, and what it computes.

From the entries follow the signatures of the library's functions (`poisson.backends.openmp.library`), what the ledger
notes of a call (`poisson.backends.ledger`), its bytes and flops (`poisson.perf.traffic`), its form on ranks
(`poisson.parallel.operations`), and the tests in which every backend is compared with the specification.
docs/extending.md says how to add an operation.
"""

import math
from abc import update_abstractmethods
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar

from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.inverse import DividedInverse, Inverse
from poisson.discrete.operator import Operator
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.differences import Differences

Class = TypeVar("Class", bound=type)


class Role(Enum):
    """The role of an argument."""

    READ = "an array that is read"
    WRITTEN = "an array that is written"
    BOTH = "an array that is read and written"
    OUTPUTS = "an array for each axis, which are written"
    COEFFICIENTS = "arrays behind one another of float32 or float64, whatever the type of the others, which are written"
    MATRIX = "a matrix for all nodes, which is read"
    RESULT = "a place for the results of a reduction"
    NUMBER = "a number"
    OMEGAS = "the weight of each sweep"
    AXIS = "an axis"
    COLOR = "a color of nodes"
    FLAG = "whether or not"
    COARSER = "operations to or from a coarser grid, and an array there"
    GIVEN = "an array that is read, of the backend or in the memory of the caller"
    SPARE = "an array that may lose its values"


ARRAYS = MappingProxyType({**dict.fromkeys((Role.READ, Role.GIVEN, Role.WRITTEN, Role.COEFFICIENTS), 1), Role.BOTH: 2})
"""How often an array is moved between memory and chip."""


@dataclass(frozen=True)
class Argument:
    """An argument of an operation.

    `name`: its name, of the methods and in C.
    `role`: what it is.
    `optional`: whether it may be None: a source or a start is zero then, and no result is wanted.
    `grid`: the grid of an array, where the subject has several: a field of the subject.
    `single`: whether it is a float32 array, whatever the type of the others.
    `positive`: whether its values must be positive.
    `grounded`: whether its values at fixed nodes must be zero, unless it is in the memory of the caller.
    `sums`: of a place for results: whether they are two sums, and not a sum and a maximum.
    `pointwise`: whether A plays no part. For an array that is read: a sweep uses at each node only the value of the
    array there. For an array that is only written: its values come from values at the same nodes alone.
    `factor`: the number that it is multiplied by, where the array is not read if that is zero.
    `made_of`: the arrays beside itself that the values written come from; without names all that are read.
    """

    name: str
    role: Role
    optional: bool = False
    grid: str = ""
    single: bool = False
    positive: bool = False
    grounded: bool = False
    sums: bool = False
    pointwise: bool = False
    factor: str = ""
    made_of: tuple[str, ...] = ()

    @property
    def read(self) -> bool:
        """Whether it is an array that is read."""
        return self.role in (Role.READ, Role.BOTH, Role.GIVEN)

    @property
    def written(self) -> bool:
        """Whether it is an array, or several, that the operation writes."""
        return self.role in (Role.WRITTEN, Role.BOTH, Role.OUTPUTS, Role.COEFFICIENTS)


@dataclass(frozen=True)
class OperationSpec:
    """An operation.

    `name`: the name of its kernel (``poisson_NAME``) and of its functions in the library.
    `subject`: what `Backend.bind` is given for it; None for an operation on plain vectors, a method of the backend.
    `arguments`: in order.
    `flops`: floating-point operations for each node of what it writes last, given the subject; of one sweep, where it
    makes several. None: `poisson.perf.traffic` has the cost itself, because not all nodes are treated alike.
    `coefficients`: whether it reads the coefficients of the operator where they vary.
    `radius`: how far it looks around a node, in layers of nodes, or this given the subject; of one sweep, where it
    makes several. On a part of a grid with so many layers of halo less is right than before. Between two grids they are
    nodes of the finer one, and of an interpolation those of the source.
    `method`: the name of its methods, where that is not its own: operations of several subjects may share one.
    `also`: further subjects that have it as it is, because it reads nothing but their lattice.
    """

    name: str
    subject: type | None
    arguments: tuple[Argument, ...]
    flops: Callable[[Any], int] | int | None = None
    coefficients: bool = False
    radius: Callable[[Any], int] | int = 0
    method: str = ""
    also: tuple[type, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", self.method or self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return tuple(argument.name for argument in self.arguments)

    @property
    def optional(self) -> frozenset[str]:
        """The names of the arguments that may be None."""
        return frozenset(argument.name for argument in self.arguments if argument.optional)

    def flops_of(self, subject: Any) -> int:
        """The flops for each node."""
        assert self.flops is not None
        return self.flops if isinstance(self.flops, int) else self.flops(subject)

    def radius_of(self, subject: Any) -> int:
        """The radius."""
        return self.radius if isinstance(self.radius, int) else self.radius(subject)

    def sources(self, written: Argument) -> tuple[Argument, ...]:
        """The arrays that the values of one that is written come from."""
        names = {*written.made_of, written.name} if written.made_of else set(self.names)
        return tuple(argument for argument in self.arguments if argument.read and argument.name in names)

    def looks(self, read: Argument | None, written: Argument) -> bool:
        """Whether values beside a node count for what a single sweep writes there: of an array, or of A without one.

        After n sweeps `radius` counts n times where this is so, and n − 1 times elsewhere.
        """
        apart = written.role is Role.WRITTEN and written.pointwise
        return not (apart or (read is not None and read.pointwise))


def _stencil(more: int, each_axis: int = 5) -> Callable[[Operator], int]:
    """A u at a node takes one flop, and five for each axis; `more` is what comes on top."""
    return lambda operator: 1 + more + each_axis * operator.dimension


def _differences(more: int, each_neighbour: int = 3) -> Callable[[FullStencil], int]:
    """At each of the neighbours of a full stencil a difference takes three flops; `more` is what comes on top."""
    return lambda stencil: 1 + more + 2 * each_neighbour * len(stencil.offsets)


def _of_transfer(transfer: Transfer) -> int:
    """The nodes beside those under which coarse ones are that these gather from."""
    return 1 if transfer.halves is not None else 2


def _of_differences(differences: Differences) -> int:
    return differences.half


def _read(name: str, **more: Any) -> Argument:
    return Argument(name, Role.READ, **more)


def _written(name: str, **more: Any) -> Argument:
    return Argument(name, Role.WRITTEN, **more)


def _both(name: str, **more: Any) -> Argument:
    return Argument(name, Role.BOTH, **more)


def _coefficients(name: str, grid: str) -> Argument:
    return Argument(name, Role.COEFFICIENTS, grid=grid)


def _given(name: str, **more: Any) -> Argument:
    return Argument(name, Role.GIVEN, **more)


def _number(name: str) -> Argument:
    return Argument(name, Role.NUMBER)


_SOURCE = _read("f", optional=True, pointwise=True)
_OMEGAS = Argument("omegas", Role.OMEGAS)
_AXIS = Argument("axis", Role.AXIS)
_RESULT = Argument("result", Role.RESULT)
_NORMS = Argument("result", Role.RESULT, optional=True)
_RESIDUAL = (_read("u"), _SOURCE, _written("r"), _NORMS)
_SWEEP = (_read("u"), _SOURCE, _written("out"), _number("omega"), _NORMS)
_COLOR_SWEEP = (_both("u"), _SOURCE, Argument("color", Role.COLOR), _number("omega"))
_DIAGONAL_SOLVE = (_read("r", pointwise=True), _written("z"), _number("omega"), _NORMS)
_DIRECTION = (
    *(_read("z"), _number("beta"), _read("p", factor="beta"), _written("out", pointwise=True), _written("q")),
    _RESULT,
)


def _linked(
    name: str, arguments: tuple[Argument, ...], flops: Callable[[Operator], int] | int | None = None
) -> OperationSpec:
    """An operation of operators that reads the links of a node, if only for its diagonal."""
    return OperationSpec(name, Operator, arguments, flops, coefficients=True, radius=1)


def _full(method: str, arguments: tuple[Argument, ...], flops: Callable[[FullStencil], int]) -> OperationSpec:
    """An operation of full stencils."""
    return OperationSpec(f"stencil_{method}", FullStencil, arguments, flops, coefficients=True, radius=1, method=method)


def _weighted(method: str, arguments: tuple[Argument, ...], flops: Callable[[StencilTransfer], int]) -> OperationSpec:
    """An operation of transfers by weights, which reads the coefficients where it writes some."""
    reads = any(argument.role is Role.COEFFICIENTS for argument in arguments)
    return OperationSpec(
        f"stencil_{method}", StencilTransfer, arguments, flops, coefficients=reads, radius=1, method=method
    )


def _table(*specs: OperationSpec) -> Mapping[str, OperationSpec]:
    return MappingProxyType({spec.name: spec for spec in specs})


OPERATIONS = _table(
    _linked("laplacian", (_read("u"), _written("out")), _stencil(0)),
    _linked("boundary_conditions", (_read("u"), _written("out"))),
    _linked(
        "update",
        (
            *(_SOURCE, _read("au", pointwise=True), _written("r", pointwise=True, made_of=("f", "au"))),
            *(_both("u", pointwise=True), _number("omega")),
        ),
        flops=3,
    ),
    OperationSpec("norm", Operator, (_read("r"), _RESULT), flops=2, also=(FullStencil,)),
    _linked("sweep", _SWEEP, _stencil(3)),
    _linked("sweeps", (_read("u"), _SOURCE, _written("out"), _OMEGAS, _NORMS), _stencil(3)),
    _linked("residual", _RESIDUAL, _stencil(1)),
    OperationSpec("fill", None, (_written("x"), _number("value")), flops=0),
    OperationSpec("axpby", None, (_number("a"), _read("x"), _number("b"), _both("y", factor="b")), flops=3),
    OperationSpec("dot", Operator, (_read("x"), _read("y"), _RESULT), flops=2, also=(FullStencil,)),
    OperationSpec(
        "integrate",
        Operator,
        (_given("f"), Argument("work", Role.SPARE, optional=True), Argument("result", Role.RESULT, sums=True)),
        flops=3,
    ),
    OperationSpec(
        "restrict",
        Transfer,
        (_read("fine", grid="fine"), _written("coarse", grid="coarse")),
        flops=lambda transfer: 2 * 3**transfer.fine.dimension,
        radius=_of_transfer,
    ),
    OperationSpec(
        "prolong_add",
        Transfer,
        (_read("coarse", grid="coarse"), _both("fine", grid="fine", pointwise=True)),
        flops=lambda transfer: 2 * 2**transfer.fine.dimension,
        radius=1,
    ),
    OperationSpec(
        "interpolate",
        Interpolation,
        (_read("source", grid="source"), _written("out", grid="target")),
        flops=lambda interpolation: 2 * 4**interpolation.target.dimension,
        radius=2,
    ),
    _linked("color_sweep", _COLOR_SWEEP, _stencil(1, each_axis=3)),  # on half of the nodes
    _linked("diagonal_solve", _DIAGONAL_SOLVE, flops=1),
    _linked("direction", _DIRECTION, _stencil(4)),
    OperationSpec(
        "advance",
        Operator,
        (*(_number("alpha"), _read("p"), _read("q"), _both("u", made_of=("p",)), _both("r", made_of=("q",))), _RESULT),
        flops=6,
        also=(FullStencil,),
    ),
    _linked("defect", (_read("u"), _SOURCE, _number("factor"), _written("r", single=True), _NORMS), _stencil(2)),
    OperationSpec("correct", None, (_number("factor"), _read("x", single=True), _both("y")), flops=2),
    OperationSpec("dense", None, (Argument("matrix", Role.MATRIX), _read("x"), _written("y"))),
    OperationSpec(
        "links",
        Operator,
        (_AXIS, _read("a", positive=True), Argument("harmonic", Role.FLAG), _written("out")),
        flops=4,
        radius=1,
    ),
    OperationSpec(
        "coarsen_links",
        Transfer,
        (_AXIS, _read("fine", grid="fine", positive=True), _written("coarse", grid="coarse")),
        flops=lambda transfer: 2 * 3**transfer.fine.dimension,
        radius=_of_transfer,
    ),
    OperationSpec(
        "derivative",
        Differences,
        (_AXIS, _read("u"), _written("out")),
        # A subtraction and a product for each pair, their sum, and the division by the spacing.
        flops=lambda differences: 3 * differences.half,
        radius=_of_differences,
    ),
    OperationSpec(
        "gradient",
        Differences,
        (_read("u"), Argument("outs", Role.OUTPUTS)),
        flops=lambda differences: 3 * differences.half * differences.dimension,
        radius=_of_differences,
    ),
    _full("residual", _RESIDUAL, _differences(1)),
    _full("sweep", _SWEEP, _differences(3)),
    _full("color_sweep", _COLOR_SWEEP, _differences(3)),
    _full("diagonal_solve", _DIAGONAL_SOLVE, _differences(1, 1)),
    _full("direction", _DIRECTION, _differences(4)),
    _weighted(
        "restrict",
        (_read("fine", grid="fine"), _written("coarse", grid="coarse")),
        lambda transfer: 2 * len(transfer.directions) + 2,
    ),
    _weighted(
        "prolong_add",
        (_read("coarse", grid="coarse"), _both("fine", grid="fine", pointwise=True)),
        lambda transfer: math.ceil((2 * len(transfer.directions) + 2) * transfer.scale),
    ),
    # The links of a node are summed over the other axes, and each is shared out.
    _weighted(
        "interpolation",
        (_coefficients("out", grid="table"), Argument("spreads", Role.FLAG)),
        lambda transfer: 4 * len(transfer.fine.offsets),
    ),
    # At each fine node beside a coarse one a difference for each link, its product and the sum of both.
    _weighted(
        "galerkin",
        (_coefficients("out", grid="product"),),
        lambda transfer: (2 + 6 * len(transfer.fine.offsets)) * (1 + len(transfer.directions)),
    ),
    OperationSpec("correct_clusters", Clusters, (_read("r"), _both("u"))),
    OperationSpec("replace_rows", SparseRows, (_read("x", pointwise=True), _read("u"), _both("out")), radius=1),
)
"""The operations that every backend has of its own."""

COMPOSITES = _table(
    _linked(
        "smooth",
        (
            *(_both("u", optional=True), _read("f"), _written("out"), _written("work"), _OMEGAS),
            *(Argument(name, Role.COARSER, optional=True) for name in ("correction", "restriction")),
            *(_NORMS, _number("short_waves")),
        ),
    ),
    OperationSpec("take", Operator, (_given("f", grounded=True), _written("out"), _RESULT), flops=2),
    _linked("certify", (_read("u"), _given("f", pointwise=True), Argument("work", Role.SPARE), _RESULT), _stencil(3)),
)
"""Operations that are put together from others; a backend may have them in fewer passes over memory."""

DIRECT = _table(
    OperationSpec("fast_solve", Inverse, (_both("f"), _both("u")), method="solve"),
    OperationSpec(
        "slab_condense",
        DividedInverse,
        (*(_both("f"), _read("u")), *(_written(plane, optional=True) for plane in ("first", "last", "line"))),
        method="condense",
    ),
    OperationSpec(
        "slab_expand",
        DividedInverse,
        (*(_read("f"), _both("u")), *(_read(plane, optional=True) for plane in ("below", "above", "line"))),
        method="expand",
    ),
)
"""Direct solutions, for which every backend has passes of its own."""

ALL = MappingProxyType({**OPERATIONS, **COMPOSITES, **DIRECT})
"""All of these."""


def operations_of(subject: type | None) -> Mapping[str, OperationSpec]:
    """The entries of all operations that a subject has, by the names of their methods."""
    return MappingProxyType({spec.method: spec for spec in ALL.values() if subject in (spec.subject, *spec.also)})


def with_methods(
    cls: Class, specs: Iterable[OperationSpec], lines: Callable[[OperationSpec], list[str]], names: Mapping[str, Any]
) -> Class:
    """A class with a method for each of the operations that it has none for itself.

    `lines`: the text of the method's body, which is compiled once: a loop over the arguments at each call would take
    longer than an operation on a small grid. `names`: what it uses beside its arguments and ``radius_of``.
    """
    for spec in specs:
        if (name := spec.method) not in vars(cls):
            parameters = [
                f"{argument.name}=None" if argument.optional and argument.role is Role.RESULT else argument.name
                for argument in spec.arguments
            ]
            text = f"def {name}(self, {', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines(spec))
            made: dict[str, Any] = {}
            place = f"<{cls.__qualname__}.{name}, from the entry of {spec.name}>"
            exec(compile(text, place, "exec"), {**names, "radius_of": spec.radius}, made)
            made[name].__qualname__, made[name].__module__ = f"{cls.__qualname__}.{name}", cls.__module__
            setattr(cls, name, made[name])
    update_abstractmethods(cls)
    return cls
