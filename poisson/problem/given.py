# SPDX-License-Identifier: MIT
"""The types of what a caller gives in Python as the data of a problem, for type checkers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict

from poisson.problem.expressions import Expression
from poisson.problem.faces import Face
from poisson.problem.fields import ArrayField, FieldFile, FunctionField

Mean = Literal["harmonic", "arithmetic"]
"""How a between two nodes follows from a at both."""

Form = Literal["shortley_weller", "symmetric"]
"""The differences beside the surfaces of bodies."""


class HostArray(Protocol):
    """An array that NumPy reads."""

    def __array__(self) -> Any: ...


class ArrayOnDevice(Protocol):
    """An array on a device, as of CuPy."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


class DlpackArray(Protocol):
    """An array of a library that shares its memory by DLPack, as PyTorch and JAX do."""

    def __dlpack__(self) -> Any: ...


Centring = Literal["node", "cell"]
"""Where the unknowns stand along an axis."""

Numbers = Sequence[float] | Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]]
"""Lists of numbers, nested as deep as there are axes."""

Data = (
    float
    | str
    | Callable[..., Any]
    | Numbers
    | HostArray
    | ArrayOnDevice
    | DlpackArray
    | Expression
    | FieldFile
    | ArrayField
    | FunctionField
)
"""A field: a number, an expression, a function of x(, y, z), an array or lists of numbers."""


class UniformNodes(TypedDict):
    """Equally spaced nodes: the lower and the upper end of the axis, and how many."""

    uniform: tuple[float, float, int]


# scripts/method_tables.py writes these from the kinds of conditions and of axes.


class Dirichlet(TypedDict):
    """u = g on the face."""

    dirichlet: Data


class Neumann(TypedDict):
    """a du/dn = g: the flux into the box."""

    neumann: Data


class Robin(TypedDict):
    """a du/dn + alpha u = g."""

    robin: Data
    alpha: Data


class PlacedNodes(TypedDict):
    """The nodes of an axis: coordinates."""

    nodes: Sequence[float] | HostArray


class PlacedCells(TypedDict):
    """The cells of an axis: their boundaries."""

    cells: Sequence[float] | HostArray


Condition = Data | Dirichlet | Neumann | Robin | Face | Sequence[Mapping[str, float | str]]
"""A face: the value of u there, a condition, or a list of these with ``where`` each counts."""

AxisTable = PlacedNodes | PlacedCells | UniformNodes
"""The nodes along an axis."""


class Boundary(TypedDict, total=False):
    """The faces of a box by name, both faces of a periodic axis, or all others."""

    all: Condition
    x: Literal["periodic", "open"]
    y: Literal["periodic", "open"]
    z: Literal["periodic", "open"]
    x_lower: Condition
    x_upper: Condition
    y_lower: Condition
    y_upper: Condition
    z_lower: Condition
    z_upper: Condition
