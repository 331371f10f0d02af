# SPDX-License-Identifier: MIT
"""Code that the tests of operations share: operators with every kind of face, and random arrays."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.discretisation import Operator
from poisson.mesh.boundary import Rule

AXIS_RULES = (
    (Rule.FIXED, Rule.FIXED),
    (Rule.FIXED, Rule.MIRROR),
    (Rule.MIRROR, Rule.FIXED),
    (Rule.MIRROR, Rule.MIRROR),
    (Rule.WRAP, Rule.WRAP),
)
"""Every pair of rules that an axis can have."""

SPACING = (0.1, 0.17, 0.23)


def rules_of(dimension: int) -> list[tuple[Rule, ...]]:
    """Every combination of rules of a grid."""
    return [tuple(itertools.chain(*axes)) for axes in itertools.product(AXIS_RULES, repeat=dimension)]


def name_of(rules: tuple[Rule, ...]) -> str:
    return "".join(rule.name[0] for rule in rules)


def operator(shape: tuple[int, ...], rules: tuple[Rule, ...], c: float = 0.7) -> Operator:
    return Operator.uniform(shape, SPACING[: len(shape)], c, rules)


def random_array(shape: tuple[int, ...], dtype: Any, seed: int) -> NDArray[Any]:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape).astype(dtype)
