# SPDX-License-Identifier: MIT
"""The bytes that each operation must move between memory and chip, and the flops that it must compute, stated once.

Each array that an operation reads or writes counts once: that caches keep neighbours is taken for granted. Additions
and multiplications count one each, as the formulas in `poisson/kernels/common/formulas.h` have them.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from poisson.backends.ledger import Call
from poisson.backends.operations import ALL, ARRAYS, OPERATIONS, Role
from poisson.discrete.clusters import Clusters
from poisson.discrete.discretisation import Operator
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.sparse_rows import SparseRows
from poisson.problem.problem import Problem

NORM_FLOPS = 2
"""The flops that a norm adds to an operation for each node: a square and a sum."""


@dataclass(frozen=True)
class Cost:
    """The bytes that one call must read and write, and the flops that it must compute."""

    bytes: float
    flops: float

    @property
    def intensity(self) -> float:
        """Flops for each byte."""
        return self.flops / self.bytes


def cost(call: Call) -> Cost:
    """The bytes that a call of an operation must move, and the flops that it must compute."""
    values, flops = SPECIAL[call.name](call) if call.name in SPECIAL else _by_entry(call)
    return Cost(float(values) * call.itemsize - _narrower(call) + _apart(call), float(flops))


def _by_entry(call: Call) -> tuple[int, int]:
    """Values and flops of an operation that treats all nodes alike: what its entry says, and the coefficients."""
    spec, values, nodes = ALL[call.name], _coefficients(call) * call.nodes, call.nodes
    for argument in spec.arguments:
        if argument.role is Role.OUTPUTS:
            values += call.subject.dimension * call.nodes
        elif argument.role in ARRAYS:
            nodes = math.prod(getattr(call.subject, argument.grid).shape) if argument.grid else call.nodes
            values += ARRAYS[argument.role] * nodes
    left_out = (not call.source) + (not call.start)
    flops = call.count * spec.flops_of(call.subject) + NORM_FLOPS * call.norm
    return values - left_out * call.nodes, flops * nodes


def _narrower(call: Call) -> int:
    """Bytes less that arrays of float32 have than those of the others' type."""
    arguments = ALL[call.name].arguments if call.name in ALL else ()
    return sum(argument.single for argument in arguments) * call.nodes * (call.itemsize - 4)


def _coefficients(call: Call) -> int:
    """Arrays of coefficients that a call reads."""
    subject = call.subject
    if not ALL[call.name].coefficients or not isinstance(subject, Operator):
        return 0
    return len(subject.links or ()) + (subject.reaction is not None)


def _apart(call: Call) -> int:
    """Bytes of what a call reads of a full stencil, of weights and of clusters, which have types of their own."""
    subject = call.subject
    if isinstance(subject, Clusters):
        return int(subject.nodes.nbytes + subject.starts.nbytes + subject.factors.nbytes)
    if isinstance(subject, SparseRows):
        tables = (subject.nodes, subject.starts, subject.beside, subject.weights, subject.own, subject.constant)
        return sum(table.nbytes for table in tables)
    if not isinstance(subject, FullStencil | StencilTransfer):
        return 0
    stencil = subject if isinstance(subject, FullStencil) else subject.fine
    read = [(stencil.stack, stencil.coefficients)] if ALL[call.name].coefficients else []
    if isinstance(subject, StencilTransfer) and call.name != "stencil_interpolation":
        read.append((subject.table, subject.weights))
    return sum(math.prod(stack.shape) * array.dtype.itemsize for stack, array in read if array is not None)


def _dense(call: Call) -> tuple[int, int]:
    """A matrix for all nodes, and two vectors."""
    return call.nodes**2 + 2 * call.nodes, 2 * call.nodes**2


def _clusters(call: Call) -> tuple[int, int]:
    """At the nodes of clusters a product and a sum, and what is added."""
    assert isinstance(call.subject, Clusters)
    return 3 * call.subject.nodes.size, 3 * call.subject.nodes.size


def _rows(call: Call) -> tuple[int, int]:
    """At the nodes of the rows x and what is written, and a value of u, a product and a sum for each entry."""
    assert isinstance(call.subject, SparseRows)
    nodes, entries = call.subject.nodes.size, call.subject.beside.size
    return 2 * nodes + entries, 2 * (nodes + entries)


def _fast_solve(call: Call) -> tuple[int, int]:
    """The bytes that any direct solution would move, or each half of one; the arithmetic of transforms has no one
    count.
    """
    return 2 * call.nodes, 0


def _smooth(call: Call) -> tuple[int, int]:
    """u, f and the result once each, the arrays of coarser grids, and the arithmetic of all that is done.

    The term of short waves in the last sweep takes no more, because it belongs to the coefficient of f.
    """
    parts = {name: OPERATIONS[name] for name in ("sweep", "residual", "prolong_add", "restrict")}
    values = (3 - (not call.start) + _coefficients(call)) * call.nodes
    flops = call.count * parts["sweep"].flops_of(call.subject) * call.nodes
    if call.norm or call.restriction:
        flops += (parts["residual"].flops_of(call.subject) + NORM_FLOPS * call.norm) * call.nodes
    if call.correction:
        values += math.prod(call.correction.coarse.shape)
        flops += parts["prolong_add"].flops_of(call.correction) * call.nodes
    if call.restriction:
        coarse = math.prod(call.restriction.coarse.shape)
        values += coarse
        flops += parts["restrict"].flops_of(call.restriction) * coarse
    return values, flops


def _faces(call: Call) -> tuple[int, int]:
    """A node on a face that is not fixed reads itself and a neighbour off the face; every node there is written."""
    operator = call.subject
    assert isinstance(operator, Operator)
    on_faces = call.nodes - math.prod(n - 2 for n in operator.shape)
    free = on_faces - (call.nodes - operator.unknowns)
    return on_faces + 2 * free, free * OPERATIONS["laplacian"].flops_of(operator)


SPECIAL: Mapping[str, Callable[[Call], tuple[int, int]]] = MappingProxyType(
    {
        **{"boundary_conditions": _faces, "dense": _dense, "smooth": _smooth, "correct_clusters": _clusters},
        "replace_rows": _rows,
        **dict.fromkeys(("fast_solve", "slab_condense", "slab_expand"), _fast_solve),
    }
)
"""Operations that do not treat all nodes alike, or that consist of others: values that are moved, and flops."""


def operation_bytes(name: str, nodes: int, itemsize: int, *, source: bool = True) -> float:
    """Bytes that an operation on `nodes` values of `itemsize` bytes must move; fewer without a source."""
    arrays = sum(ARRAYS.get(argument.role, 0) for argument in OPERATIONS[name].arguments)
    return float(arrays - (not source)) * nodes * itemsize


def sweep_bytes(problem: Problem, itemsize: int, operations: Iterable[str]) -> float:
    """Bytes that a sweep made of some operations must move."""
    return sum(operation_bytes(name, problem.lattice.nodes, itemsize) for name in operations)
