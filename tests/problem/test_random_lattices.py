# SPDX-License-Identifier: MIT
"""Random problems on random axes against a balance of control volumes that is assembled here, node by node.

No line of the package takes part in the matrix or in the right-hand side, the terms of the faces among them.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from conftest import real

import poisson
from poisson.errors import CheckWarning
from poisson.problem.problem import Problem
from poisson.solvers.status import Status

Values = np.ndarray[Any, Any]


@dataclass
class Line:
    """An axis: its table for `Problem.on_lattice`, the nodes that follow from it, their widths, its ends and faces."""

    table: dict[str, Any]
    nodes: Values
    widths: Values
    ends: tuple[float, float]
    periodic: bool
    faces: list[dict[str, float]]

    def beside(self, node: int, step: int) -> tuple[int, float] | None:
        """The neighbour of a node and its distance; None beyond a face."""
        other = node + step
        if 0 <= other < self.nodes.size:
            return other, abs(self.nodes[other] - self.nodes[node])
        if not self.periodic:
            return None
        return other % self.nodes.size, self.ends[1] - self.ends[0] - abs(self.nodes[0] - self.nodes[-1])


def line(rng: np.random.Generator, most: int) -> Line:
    kind, count = str(rng.choice(["uniform", "nodes", "cells"])), int(rng.integers(4, most))
    ratios = np.exp(np.cumsum(0.2 * rng.normal(size=count)))
    if kind == "uniform":
        ratios[:] = 1.0
    lower, length = rng.normal(), 10.0 ** rng.uniform(-1.0, 1.0)
    marks = lower + length * np.append(0.0, np.cumsum(ratios)) / ratios.sum()
    periodic = bool(rng.random() < 0.25)
    nodes = marks[:-1] if periodic else marks
    if kind == "cells":
        nodes, widths = (marks[:-1] + marks[1:]) / 2.0, np.diff(marks)
    elif periodic:
        gaps = np.diff(marks)
        widths = (gaps + np.roll(gaps, 1)) / 2.0
    else:
        gaps = np.pad(np.diff(marks), 1)
        widths = (gaps[:-1] + gaps[1:]) / 2.0
    table = {"uniform": (marks[0], marks[-1], nodes.size)} if kind == "uniform" else {kind: marks}
    faces = []
    for _ in range(0 if periodic else 2):
        condition = {str(rng.choice(["dirichlet", "neumann", "robin"])): float(rng.normal())}
        faces.append(condition | ({"alpha": 10.0 ** rng.uniform(-2.0, 2.0)} if "robin" in condition else {}))
    return Line(table, nodes, widths, (float(marks[0]), float(marks[-1])), periodic, faces)


def solution(lines: list[Line], a: Values, c: Values, f: Values, mean: str) -> Values:
    """The solution of the balances; arrays have x last."""
    numbers = np.arange(a.size).reshape(a.shape)
    matrix, right = np.zeros((a.size, a.size)), np.zeros(a.size)
    for place in np.ndindex(*a.shape):
        row, here = numbers[place], place[::-1]
        held = [
            of.faces[end]["dirichlet"]
            for of, node in zip(lines, here, strict=True)
            for end in range(len(of.faces))
            if "cells" not in of.table and node == (0, of.nodes.size - 1)[end] and "dirichlet" in of.faces[end]
        ]
        if held:
            matrix[row, row], right[row] = 1.0, held[0]
            continue
        matrix[row, row], right[row] = c[place], f[place]
        for axis, (of, node) in enumerate(zip(lines, here, strict=True)):
            for step in (-1, 1):
                link = of.beside(node, step)
                inner = link or of.beside(node, -step)
                assert inner is not None
                other = tuple(inner[0] if which == len(here) - 1 - axis else at for which, at in enumerate(place))
                between = 2.0 / (1.0 / a[place] + 1.0 / a[other]) if mean == "harmonic" else (a[place] + a[other]) / 2.0
                if link:
                    weight = between / link[1] / of.widths[node]
                    matrix[row, row] += weight
                    matrix[row, numbers[other]] -= weight
                    continue
                face = of.faces[step > 0]
                distance = abs(of.ends[step > 0] - of.nodes[node])
                if "dirichlet" in face:
                    conducts, flow = a[place] / distance, a[place] / distance * face["dirichlet"]
                elif "neumann" in face:
                    conducts, flow = 0.0, face["neumann"]
                else:
                    passed = 1.0 / (1.0 + face["alpha"] * distance / a[place])
                    conducts, flow = passed * face["alpha"], passed * face["robin"]
                matrix[row, row] += conducts / of.widths[node]
                right[row] += flow / of.widths[node]
    return np.asarray(np.linalg.solve(matrix, right).reshape(a.shape))


@pytest.mark.parametrize("backend", ["numpy", "openmp", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("seed", range(24))
def test_a_random_problem_has_the_solution_of_its_balances(seed: int, backend: str) -> None:
    real(backend)(np.float64)
    rng = np.random.default_rng(seed)
    dimension = 1 + seed % 3
    lines = [line(rng, {1: 40, 2: 15, 3: 8}[dimension]) for _ in range(dimension)]
    boundary: dict[str, Any] = {}
    for name, of in zip("xyz", lines, strict=False):
        ends = zip(("lower", "upper"), of.faces, strict=False)
        boundary |= {name: "periodic"} if of.periodic else {f"{name}_{end}": face for end, face in ends}
    shape = tuple(of.nodes.size for of in lines)[::-1]
    floating = all(set(face) == {"neumann"} for of in lines for face in of.faces)
    varies, mean = bool(seed % 4), ("harmonic", "arithmetic")[seed % 2]
    a = 10.0 ** (0.5 * rng.normal(size=shape)) if varies else np.full(shape, 2.5)
    c = 10.0 ** rng.uniform(-1.0, 3.0) * rng.random(shape) if floating or seed % 3 == 0 else np.zeros(shape)
    f = rng.normal(size=shape)
    data: dict[str, Any] = {"a": a, "mean": mean} if varies else {"a": 2.5}
    problem = Problem.on_lattice([of.table for of in lines], boundary=boundary, f=f, c=c if c.any() else 0.0, **data)
    wanted = solution(lines, a, c, f, mean if varies else "harmonic")
    for method in ("auto", "cg"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CheckWarning)
            found = poisson.solve(problem, method, backend, rtol=1e-12)  # type: ignore[arg-type]
        assert found.status in (Status.CONVERGED, Status.AT_ROUNDING)
        np.testing.assert_allclose(found.u, wanted, rtol=0.0, atol=1e-8 * np.abs(wanted).max())
