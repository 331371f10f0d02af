# SPDX-License-Identifier: MIT
"""Whether a residual is what the rounding of u makes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from poisson.backends.base import Array, Operations, Reduction
    from poisson.discrete.operator import Operator

ROUNDING_FACTOR = 16.0
"""A residual is at rounding if the corrections D⁻¹ r are nowhere larger than this many times eps · max|u|."""

OUT_OF_REACH, NEAR_ROUNDING = 0.1, 4.0
"""A target below the first part of `norms_of_rounding` cannot be reached. A recursion, each step of which rounds u,
leaves a multiple of these norms; what is above the second number has other reasons."""

LEAST_RTOL = 10.0 * float(np.finfo(np.float64).eps)
"""A tolerance below this asks for the least residual there is, which restarts of a recursion bring nearer."""

LOCAL_ERROR = 0.1
"""Sweeps that rounding keeps from going on may leave a relative error of eps · κ; a larger one is no solution."""


def largest_correction(operations: Operations, r: Array, z: Array, place: Reduction) -> float:
    """max |D⁻¹ r| over the unknowns: by how much the residual r would change u at a node, in U.

    A residual says little about u where the diagonal D of A varies from node to node: it is the differences of
    neighbours times their link, so that rounding of u alone leaves some eps · D · |u| at each node.

    `operations`: those of A. `r` (Array): the residual. `z` (Array): overwritten. `place`: for the result.
    """
    backend = operations.backend
    operations.diagonal_solve(r, z, 1.0)
    operations.norm(z, place)
    return backend.read(place)[1]


def norms_of_rounding(operations: Operations, u: Array, work: Sequence[Array], place: Reduction) -> tuple[float, float]:
    """(Σ t², max |t|) of t = eps D u, with D the diagonal of A: about what rounding of u alone leaves as a residual.

    `operations`: those of A. `work`: two arrays, which are overwritten. `place`: for the result.
    """
    backend, (inverse, sizes) = operations.backend, work
    eps = float(np.finfo(backend.dtype).eps)
    backend.fill(sizes, 1.0)
    operations.diagonal_solve(sizes, inverse, 1.0)
    with backend.ordered():
        values, scales = (backend.view(each) if backend.views else backend.to_host(each) for each in (u, inverse))

        def rounded(xp: ModuleType, start: int, stop: int) -> Any:
            scale = scales[start:stop]
            return xp.where(scale > 0.0, eps * values[start:stop] / xp.where(scale > 0.0, scale, 1.0), 0.0)

        backend.assemble(operations.operator.array_shape, rounded, sizes)
    operations.norm(sizes, place)
    return backend.read(place)


def at_rounding_in_norm(
    norm: float, correction: float, largest: float, dtype: np.dtype[Any], operator: Operator
) -> bool:
    """Whether a norm of the residual is at rounding, and no correction changes half of the digits of u.

    Rounding errors of a stiff part can keep a method from improving a soft one, whose corrections are far smaller. This
    is no reason to end, but of a solve that has stalled it tells that it is right.

    `norm`: a norm of the residual. `correction`, `largest`, `dtype`: as `at_rounding` takes them. `operator`: A.
    """
    limits = np.finfo(dtype)
    eps = float(limits.eps)
    if at_rounding(correction, largest, dtype):
        return True
    return norm <= ROUNDING_FACTOR / 2.0 * eps * operator.norm * largest and correction <= math.sqrt(eps) * largest


def at_rounding(correction: float, largest: float, dtype: np.dtype[Any]) -> bool:
    """Whether corrections of at most so much are rounding errors of u, whose largest value is given, in its type.

    Below the least normal number of the type everything is.
    """
    limits = np.finfo(dtype)
    return correction <= ROUNDING_FACTOR * float(limits.eps) * largest + float(limits.tiny)
