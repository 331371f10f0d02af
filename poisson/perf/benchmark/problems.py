# SPDX-License-Identifier: MIT
"""The problems on which others have published the time of Jacobi iterations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi
from types import MappingProxyType, ModuleType
from typing import Any

from poisson.backends.base import Array, Backend
from poisson.discrete.discretisation import Operator
from poisson.mesh.boundary import Rule


@dataclass(frozen=True)
class JacobiProblem:
    """A Laplace problem on a square, started from zero within its boundary values.

    `n` is the size and `precision` the real type in which it is published, `least` the smallest size; ``operator(n)``
    is A on its nodes, ``values(xp, operator, start, stop)`` u at the start on the rows [start, stop).
    """

    title: str
    n: int
    least: int
    precision: str
    operator: Callable[[int], Operator]
    values: Callable[[ModuleType, Operator, int, int], Any]

    def start(self, backend: Backend, operator: Operator) -> Array:
        """A new array with u at the start."""
        return backend.assemble(operator.array_shape, lambda xp, start, stop: self.values(xp, operator, start, stop))


def _heated_square_operator(n: int) -> Operator:
    """On n x n inner nodes."""
    return Operator.uniform((n + 2, n + 2), (1.0 / (n + 1),) * 2, 0.0, (Rule.FIXED,) * 4)


def _heated_square_values(xp: ModuleType, operator: Operator, start: int, stop: int) -> Any:
    nx, ny = operator.shape
    values = xp.zeros((stop - start, nx))
    values[:, 0] = values[:, -1] = xp.sin(pi * xp.arange(start, stop) / (ny - 1))
    along = xp.sin(pi * xp.arange(nx) / (nx - 1))
    if start == 0:
        values[0] = along
    if stop == ny:
        values[-1] = along
    return values


def _laplace_operator(n: int) -> Operator:
    """On a mesh of n x n nodes, whose first and last row repeat those across the periodic faces and are not stored."""
    return Operator.uniform((n, n - 2), (1.0 / (n - 1),) * 2, 0.0, (Rule.FIXED, Rule.FIXED, Rule.WRAP, Rule.WRAP))


def _laplace_values(xp: ModuleType, operator: Operator, start: int, stop: int) -> Any:
    nx, ny = operator.shape
    values = xp.zeros((stop - start, nx))
    values[:, 0] = values[:, -1] = xp.sin(2.0 * pi * xp.arange(start + 1, stop + 1) / (ny + 1))
    return values


PROBLEMS: Mapping[str, JacobiProblem] = MappingProxyType(
    {
        "heated_square": JacobiProblem(
            "heated square (Jacobi article of the AMD lab notes)",
            *(4096, 1, "float64", _heated_square_operator, _heated_square_values),
        ),
        "laplace": JacobiProblem(
            "Laplace problem of NVIDIA's multi-gpu-programming-models",
            *(16384, 5, "float32", _laplace_operator, _laplace_values),
        ),
    }
)
"""By the name that `bench jacobi --problem` takes.

heated_square: u = sin along each of the four sides, one half wave, 1 in the middle; the sizes count the inner nodes.
laplace: u = sin on the two sides in x, one wave from row to row, periodic in y; the sizes count the nodes of the mesh
with its boundary.
"""
