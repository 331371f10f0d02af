# SPDX-License-Identifier: MIT
"""Facts from a sample of a problem: the ranges of its coefficients and data, and their mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poisson.discrete.operator import Coefficients, Operator
from poisson.errors import CaseError
from poisson.mesh.boundary import FACE_NAMES
from poisson.problem.problem import Problem, number
from poisson.problem.sampling import NOT_NEGATIVE, POSITIVE, Limit
from poisson.run.sample import Sample, Values

SOFTEST = 1e-300
"""No eigenvalue is called smaller, as it is divided by."""


@dataclass(frozen=True)
class Facts:
    """Facts from a sample of a problem.

    Parameters
    ----------
    sample : Sample
        The sample.
    f, a, c : array
        At its nodes; without what could not be evaluated they are ones.
    value, alpha : mapping
        g and α on the sample of each face that has them, by its number.
    mistakes : tuple of str
        What cannot be solved, a line each.
    """

    sample: Sample
    f: Values
    a: Values
    c: Values
    value: Mapping[int, Values]
    alpha: Mapping[int, Values]
    mistakes: tuple[str, ...]

    @property
    def problem(self) -> Problem:
        """Whose sample it is."""
        return self.sample.problem

    @property
    def fixed(self) -> tuple[float, float] | None:
        """The least and the largest value that a Dirichlet face holds, in U; None without one."""
        held = [each for face, each in self.value.items() if self.problem.faces[face].kind.fixes]
        if not held:
            return None
        return min(float(each.min()) for each in held), max(float(each.max()) for each in held)

    @property
    def laplacian(self) -> Operator:
        """−∇² with the rules of the faces."""
        return Operator(self.problem.lattice.of_arrays)

    @property
    def operator(self) -> Operator:
        """A with the ranges of its coefficients, and without their arrays where they vary."""
        problem, laplacian = self.problem, self.laplacian
        a, c = number(problem.a), number(problem.c)
        if not problem.varies:
            return replace(laplacian, a=1.0 if a is None else a, c=0.0 if c is None else c)
        absorbs = any(face.absorbs for face in problem.faces)
        alpha = [float(self.alpha[face].min()) if face in self.alpha else 0.0 for face in range(len(problem.faces))]
        axes, largest = problem.lattice.axes, float(self.c.max())
        robin = (float(each.max()) * axes[face // 2].inflow[face % 2] for face, each in self.alpha.items())
        coefficients = Coefficients(
            links=(None,) * laplacian.dimension if a is None else None,
            c=self.c if c is None or absorbs else None,
            a_range=(float(self.a.min()), float(self.a.max())),
            c_range=(float(self.c.min()), largest + max(robin, default=0.0)),
            alpha=(*alpha, *(0.0,) * (2 * laplacian.dimension - len(alpha))),
        )
        constant = 0.0 if c is None or absorbs else c
        return replace(laplacian, a=1.0 if a is None else a, c=constant, coefficients=coefficients)

    @property
    def mean_reaction(self) -> float:
        """The mean of c with the terms of Robin faces over the box, in 1/L²."""
        extent = self.problem.lattice.extent
        return float(self.c.mean()) + sum(float(each.mean()) / extent[face // 2] for face, each in self.alpha.items())

    @property
    def softest(self) -> float:
        """About the smallest non-zero eigenvalue of −∇·(a∇u) + c u, in 1/L²; with jumps a bound from below.

        That of −a u'' along each axis, with an end that is fixed, absorbs more or less, or is free.
        """
        problem, a = self.problem, float(self.a.min())
        total, free = float(self.c.min()), []
        for axis, extent in enumerate(problem.lattice.extent):
            held = 0.0
            for face in (2 * axis, 2 * axis + 1):
                if problem.faces[face].kind.fixes:
                    held += 1.0
                elif face in self.alpha:
                    absorbed = float(self.alpha[face].mean()) * extent / a
                    held += absorbed / (absorbed + 2.0)
            total += a * (math.pi * held / (2.0 * extent)) ** 2
            free.append(a * (math.pi / extent) ** 2)
        return max(total if total > 0.0 else min(free), SOFTEST)


def facts_of(problem: Problem) -> Facts:
    """Evaluate a problem on a sample of its nodes."""
    sample = Sample(problem)
    mistakes: list[str] = []

    def tried(evaluated: Callable[[], Values], otherwise: Callable[[], Values]) -> Values:
        try:
            return evaluated()
        except CaseError as error:
            mistakes.extend(error.mistakes)
            return otherwise()

    def nodes(key: str, given: Any, limit: Limit | None) -> Values:
        return tried(lambda: sample.nodes(f"equation.{key}", given, limit), lambda: sample.nodes("", 1.0))

    def on_face(face: int, key: str, given: Any, limit: Limit | None = None) -> Values:
        name = f"boundary.{FACE_NAMES[face]}{key}"
        return tried(lambda: sample.face(face, name, given, limit), lambda: np.ones(()))

    f, a, c = nodes("f", problem.f, None), nodes("a", problem.a, POSITIVE), nodes("c", problem.c, NOT_NEGATIVE)
    value: dict[int, Values] = {}
    alpha: dict[int, Values] = {}
    for face, condition in enumerate(problem.faces):
        if condition.value is not None:
            value[face] = on_face(face, "", condition.value)
        if condition.alpha is not None and condition.absorbs:
            alpha[face] = on_face(face, ".alpha", condition.alpha, NOT_NEGATIVE)
    if problem.guess:
        tried(lambda: sample.nodes("run.initial", problem.initial), lambda: sample.nodes("", 1.0))
    return Facts(sample, f, a, c, value, alpha, tuple(mistakes))
