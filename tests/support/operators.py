# SPDX-License-Identifier: MIT
"""Code that the tests of operations share: operators with every kind of face, and random arrays."""

import itertools
from functools import lru_cache
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


def pairs_of_rules(dimension: int) -> list[tuple[Rule, ...]]:
    """Combinations of rules among which any two axes have every combination of theirs, and all axes the same."""
    if dimension < 3:
        return rules_of(dimension)
    return [(*AXIS_RULES[n], *AXIS_RULES[m], *AXIS_RULES[3 * (n + m) % 5]) for n in range(5) for m in range(5)]


def name_of(rules: tuple[Rule, ...]) -> str:
    return "".join(rule.name[0] for rule in rules)


def operator(shape: tuple[int, ...], rules: tuple[Rule, ...], c: float = 0.7) -> Operator:
    return Operator.uniform(shape, SPACING[: len(shape)], c, rules)


def random_array(shape: tuple[int, ...], dtype: Any, seed: int) -> NDArray[Any]:
    return _random(tuple(shape), seed).astype(dtype)


@lru_cache(maxsize=64)
def _random(shape: tuple[int, ...], seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape)
