"""The bytes that each operation must move between memory and chip, stated once.

Each array that an operation reads or writes counts once; that caches keep neighbours is taken for granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poisson.problem import Problem

ARRAYS: Mapping[str, int] = MappingProxyType(
    {
        "laplacian": 2,
        "update": 5,
        "norm": 1,
        "sweep": 3,
        "residual": 3,
        "fill": 1,
        "axpby": 3,
        "dot": 2,
    }
)
"""Arrays that an operation reads or writes, whole. boundary_conditions touches only the faces and does not count."""

LOOPS: Mapping[str, tuple[str, ...]] = MappingProxyType({"fused": ("sweep",), "staged": ("laplacian", "update")})
"""The operations of one sweep of each loop, without the norm, which is read only now and then in the staged loop."""


def operation_bytes(name: str, nodes: int, itemsize: int) -> float:
    """Bytes that an operation on `nodes` values of `itemsize` bytes must move."""
    return float(ARRAYS[name]) * nodes * itemsize


def sweep_bytes(problem: Problem, itemsize: int, loop: str) -> float:
    """Bytes that one Jacobi sweep must move."""
    return sum(operation_bytes(name, problem.grid.nodes, itemsize) for name in LOOPS[loop])
