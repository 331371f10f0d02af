"""What each operation must move between memory and chip, and what it must compute, stated once.

Each array that an operation reads or writes counts once: that caches keep neighbours is taken for granted. Additions
and multiplications count one each, as the formulas in `poisson/kernels/common/formulas.h` have them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from poisson.backends.ledger import Call
from poisson.discrete.discretisation import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.differences import Differences
from poisson.problem.problem import Problem


@dataclass(frozen=True)
class Work:
    """What an operation on whole arrays costs for each node.

    Parameters
    ----------
    arrays : int
        Arrays that it reads or writes, with the source.
    flops, flops_per_axis : int
        Floating-point operations: flops + flops_per_axis × dimension.
    """

    arrays: int
    flops: int
    flops_per_axis: int = 0


WORK: Mapping[str, Work] = MappingProxyType(
    {
        "laplacian": Work(2, 1, 5),
        "update": Work(5, 3),
        "norm": Work(1, 2),
        "sweep": Work(3, 4, 5),
        "sweeps": Work(3, 4, 5),
        "residual": Work(3, 2, 5),
        "fill": Work(1, 0),
        "axpby": Work(3, 3),
        "dot": Work(2, 2),
        "color_sweep": Work(3, 2, 3),
        "diagonal_solve": Work(2, 1),
        "direction": Work(4, 5, 5),
        "advance": Work(6, 6),
        "defect": Work(3, 3, 5),
        "correct": Work(3, 2),
        "edges": Work(2, 4),
        "fast_solve": Work(2, 0),
    }
)
"""The operations that treat all nodes alike. `cost` adds those between grids, on faces, of derivatives and of dense
matrices, and what varying coefficients and two types of numbers change. Of a fast solution it is what any would move;
the arithmetic of transforms has no one count."""

USES_COEFFICIENTS = frozenset(
    (
        *("laplacian", "update", "sweep", "sweeps", "residual", "smooth"),
        *("color_sweep", "diagonal_solve", "direction", "defect"),
    )
)
"""The operations that read the coefficients where they vary."""

HALVES = MappingProxyType({"defect": 1, "correct": 1})
"""Arrays of float32 among those of an operation."""

NORM_FLOPS = 2
"""What a norm adds for each node to the operation that leaves it: a square and a sum."""

LOOPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"blocked": ("sweep",), "fused": ("sweep",), "staged": ("laplacian", "update")}
)
"""The operations of one sweep of each loop, without the norm, which is read only now and then in the staged loop. Of
the blocked loop it is what a sweep would move alone: the rate at which it seems to stream passes that of the memory."""


@dataclass(frozen=True)
class Cost:
    """What one call must move and compute.

    Parameters
    ----------
    bytes : float
        Read and written together.
    flops : float
        Floating-point operations.
    """

    bytes: float
    flops: float

    @property
    def intensity(self) -> float:
        """Flops for each byte."""
        return self.flops / self.bytes


def cost(call: Call) -> Cost:
    """What a call of an operation must move and compute."""
    values, flops = _values_and_flops(call)
    narrower = HALVES.get(call.name, 0) * call.nodes * (call.itemsize - 4)
    return Cost(float(values) * call.itemsize - narrower, float(flops))


def _values_and_flops(call: Call) -> tuple[int, int]:
    subject = call.subject
    if isinstance(subject, Transfer):
        return _transfer(call.name, subject)
    if isinstance(subject, Interpolation):
        return math.prod(subject.source.shape) + call.nodes, 2 * 4**subject.target.dimension * call.nodes
    if isinstance(subject, Differences):
        axes = subject.dimension if call.name == "gradient" else 1
        return (1 + axes) * call.nodes, _difference_flops(subject) * axes * call.nodes
    if isinstance(subject, Operator) and call.name == "boundary_conditions":
        return _faces(subject)
    if call.name == "dense":
        return call.nodes**2 + 2 * call.nodes, 2 * call.nodes**2
    if call.name == "smooth":
        return _smooth(call)
    work = WORK[call.name]
    dimension = subject.dimension if isinstance(subject, Operator) else 0
    flops = call.count * (work.flops + work.flops_per_axis * dimension) + (NORM_FLOPS if call.norm else 0)
    arrays = work.arrays + _coefficients(call) - (not call.source) - (not call.start)
    return arrays * call.nodes, flops * call.nodes


def _coefficients(call: Call) -> int:
    """Arrays of coefficients that a call reads."""
    subject = call.subject
    if call.name not in USES_COEFFICIENTS or not isinstance(subject, Operator):
        return 0
    return len(subject.edges or ()) + (subject.reaction is not None)


def _smooth(call: Call) -> tuple[int, int]:
    """u, f and the result once each, the arrays of coarser grids, and the arithmetic of all that is done."""
    assert isinstance(call.subject, Operator)
    dimension = call.subject.dimension
    sweep, residual = WORK["sweep"], WORK["residual"]
    values = (3 - (not call.start) + _coefficients(call)) * call.nodes
    flops = call.count * (sweep.flops + sweep.flops_per_axis * dimension) * call.nodes
    if call.norm or call.restriction:
        flops += (residual.flops + residual.flops_per_axis * dimension + NORM_FLOPS * call.norm) * call.nodes
    if call.correction:
        values += math.prod(call.correction.coarse.shape)
        flops += 2 * 2**dimension * call.nodes
    if call.restriction:
        values += math.prod(call.restriction.coarse.shape)
        flops += 2 * 3**dimension * math.prod(call.restriction.coarse.shape)
    return values, flops


def _faces(operator: Operator) -> tuple[int, int]:
    """A node on a face that is not fixed reads itself and a neighbour off the face; every node there is written."""
    nodes = math.prod(operator.shape)
    on_faces = nodes - math.prod(n - 2 for n in operator.shape)
    free = on_faces - (nodes - operator.unknowns)
    laplacian = WORK["laplacian"]
    return on_faces + 2 * free, free * (laplacian.flops + laplacian.flops_per_axis * operator.dimension)


def _transfer(name: str, transfer: Transfer) -> tuple[int, int]:
    """Weighted sums of 3 fine nodes an axis, or of 2 coarse ones, to which interpolation adds the fine node itself."""
    fine, coarse = math.prod(transfer.fine.shape), math.prod(transfer.coarse.shape)
    dimension = transfer.fine.dimension
    if name in ("restrict", "coarsen_edges"):
        return fine + coarse, 2 * 3**dimension * coarse
    return 2 * fine + coarse, 2 * 2**dimension * fine


def _difference_flops(differences: Differences) -> int:
    """The central difference: a subtraction and a product for each pair, their sum, and the division by the spacing."""
    return 3 * differences.half


def operation_bytes(name: str, nodes: int, itemsize: int, *, source: bool = True) -> float:
    """Bytes that an operation of `WORK` on `nodes` values of `itemsize` bytes must move; fewer without a source."""
    return float(WORK[name].arrays - (not source)) * nodes * itemsize


def sweep_bytes(problem: Problem, itemsize: int, loop: str) -> float:
    """Bytes that one Jacobi sweep must move."""
    return sum(operation_bytes(name, problem.grid.nodes, itemsize) for name in LOOPS[loop])
