# SPDX-License-Identifier: MIT
"""Bounds of expressions over boxes, and the surfaces that are looked for where these say."""

from typing import Any

import numpy as np
import pytest

import poisson
from poisson.problem import surfaces
from poisson.problem.expressions import parse
from poisson.problem.expressions.ranges import bounds

TEXTS = (
    "x*y - 3*y/(x**2 + 1)",
    "min(x**3, abs(y)) - max(x, y, 0.3)",
    "hypot(x - 0.2, y) - 0.7 - 0.2*cos(5*atan2(y, x - 0.2))",
    "exp(-x) + sinh(y) - sqrt(x**2 + 0.1) + log(y**2 + 0.1) + (x**2 + 0.5)**-1.5",
    "where(x < y, sin(7*x), floor(3*y)) + acos(x/9) + tanh(y) + atan(x) - abs(y)**0.5 + (x + 9)**-3",
    "atan2(y, x)",
    "1/x + y",
    "1/x + sqrt(y) + cosh(x) + log(x*y)",
)


@pytest.mark.parametrize("text", TEXTS)
def test_values_in_boxes_are_within_the_bounds(text: str) -> None:
    """Bounds are there wherever there are values, but for the last two texts, which have no values at some places."""
    rng, level = np.random.default_rng(5), parse(text, 2)
    ends = np.sort(rng.uniform(-3.0, 3.0, (2, 400, 2)) * rng.choice([0.01, 1.0], (400, 1)), axis=2)
    least, most = bounds(level.program, ends[..., 0], ends[..., 1])
    known = ~np.isnan(least)
    assert known.all() or text in TEXTS[-2:]
    for part in rng.uniform(0.0, 1.0, (50, 2, 1)):
        values = level(np, *((1.0 - part) * ends[..., 0] + part * ends[..., 1]))
        assert (known <= np.isfinite(values)).all()
        assert (least[known] <= values[known]).all() and (values[known] <= most[known]).all()


@pytest.mark.parametrize(
    "text",
    [
        "hypot(x - 0.2, y) < 0.3 + 0.1*cos(5*atan2(y, x - 0.2))",
        "abs(x + 0.513) < 0.0013 and y < 0.2",
        "hypot(x + 1, y - 0.3) < 0.1",
        "x > 2",
    ],
)
def test_surfaces_are_those_that_all_nodes_have(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A star, a plate between nodes, a disc at a periodic face, and nothing."""
    looked: list[Any] = []
    found = surfaces.Level.nodes
    monkeypatch.setattr(surfaces.Level, "nodes", lambda level, block: looked.append(found(level, block)) or looked[-1])
    cuts = []
    for many in (1 << 6, 1 << 20):
        monkeypatch.setattr(surfaces, "MANY", many)
        problem = poisson.Problem.on_box(
            (65, 81),
            lower=(-1, -1),
            upper=(1, 1),
            boundary={"x": "periodic", "all": 0},
            bodies=[poisson.Body(text, dirichlet=0)],
        )
        cuts.append(problem.cuts)
    fewer = sum(each.size for each in looked[:-1])
    assert fewer < 0.8 * looked[-1].size
    for name in ("inside", "node", "axis", "side", "theta", "body"):
        assert np.array_equal(*(getattr(each, name) for each in cuts))
