# SPDX-License-Identifier: MIT
"""Problems that `bench solve` and `bench call` measure by the method of `auto`, beside the unit box of nodes."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from poisson.errors import PoissonError
from poisson.problem.problem import Problem

Nodes = tuple[int, ...]


def _with_ball(nodes: Nodes, **condition: float) -> Problem:
    ball = {"shape": "sphere", "center": (0.5,) * len(nodes), "radius": 0.2}
    return Problem.on_box(nodes, bodies=[{"inside": ball, **condition}])


def _stretched(nodes: Nodes) -> Problem:
    places = np.tanh(np.linspace(-2.0, 2.0, nodes[-1]))
    last = "xyz"[len(nodes) - 1]
    return Problem.on_box(nodes, **{last: (1.0 + places / places[-1]) / 2.0})


def _around(nodes: Nodes, system: str) -> Problem:
    if system == "cylinder" and len(nodes) == 2:
        return Problem.on_box(nodes, system=system)
    around: Any = {"phi": "periodic", "all": {"dirichlet": 0.0}}
    return Problem.on_box(nodes, system=system, upper=(1.0, 2.0 * math.pi, 1.0)[: len(nodes)], boundary=around)


PROBLEMS: Mapping[str, Callable[[Nodes], Problem]] = MappingProxyType(
    {
        "open": lambda nodes: Problem.on_box(nodes, boundary="open"),
        "electrode": lambda nodes: _with_ball(nodes, dirichlet=1.0),
        "insulator": lambda nodes: _with_ball(nodes, neumann=0.0),
        "dielectric": lambda nodes: _with_ball(nodes, a=80.0),
        "stretched": _stretched,
        "cells": lambda nodes: Problem.on_box(nodes, centring="cell"),
        "cylinder": lambda nodes: _around(nodes, "cylinder"),
        "polar": lambda nodes: _around(nodes, "polar"),
    }
)
"""By the name that ``--method`` takes, for so many nodes, or cells, along each axis; all but the first with Dirichlet
faces, a = 1 and c = 0.

open: all faces are open. electrode, insulator, dielectric: a ball (a disc in 2D) of radius 0.2 in the middle.
stretched: the last axis at tanh(2s), 14 times as close at its ends as in the middle. cells: the centres of cells.
cylinder: r, z in 2D and r, φ, z in 3D. polar: a disc, r and φ.
"""


def require_problem(method: str, nodes: Nodes) -> None:
    """Raise PoissonError if the problem that a method is measured on, of `PROBLEMS` or the box, has no such grid."""
    try:
        PROBLEMS.get(method, Problem.on_box)(nodes)
    except PoissonError as error:
        raise PoissonError(f"--method {method}: {error}") from None
