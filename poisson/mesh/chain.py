# SPDX-License-Identifier: MIT
"""The equations along an axis for one mode of the others, as a chain: nodes that are linked, and lose to the ground.

With an eigenvalue s of the other axes, in units of the coupling a/h², and the rows times the control widths W, they are

    Σ_neighbours k (x_i − x_j) + W_i (extra_i + s) x_i = W_i g_i

with the same k from both ends of a link. Eliminating a node that has links k₁ and k₂ and a loss l leaves a link
k₁ k₂ / t between its neighbours and losses k₁ l / t and k₂ l / t there, t = k₁ + k₂ + l. Nothing is subtracted, so all
digits are kept where s is small and there are many nodes (W. K. Grassmann, M. I. Taksar and D. P. Heyman,
"Regenerative analysis and steady state distributions for Markov chains", Operations Research 33, 1985).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from poisson.mesh.axis import Axis, Values
from poisson.mesh.boundary import Rule

DECAY = 45.0
"""e to the minus this is nothing beside 1."""

LEAST_ANGLE = 1e-150
"""For modes of no eigenvalue: what follows from it is exact, and nothing under- or overflows."""


@dataclass(frozen=True)
class Replacement:
    """The effect of a run of nodes on the two nodes beside it, for each mode: a link, and a loss at each.

    Where an end of the run is a mirror there is one node beside it only; a fixed node is one of the two.
    """

    link: Values
    below: Values
    above: Values


def links_of(axis: Axis) -> Values:
    """k between every node of a whole axis and the next; the last is that to the first one, and 0 without it."""
    if axis.tabulated:
        lower, upper, _ = axis.couplings
        links = np.where(np.arange(axis.nodes) < axis.free.start, np.roll(lower * axis.widths, -1), upper * axis.widths)
    else:
        links = np.ones(axis.nodes)
    if not axis.wraps:
        links[-1] = 0.0
    return links


def losses_of(axis: Axis, node: int, shifts: Values) -> Values:
    """The loss of one node of a whole axis, for the eigenvalues s of the modes."""
    loss: Values = axis.widths[node] * (shifts + axis.couplings[2][node])
    return loss


def chain_of(axis: Axis, coupling: float) -> Values:
    """The whole axis as the library reads it: the link below the first node that is not fixed, and of each such node
    the link above it, the control width and the loss for s = 0; links and losses times a/h².
    """
    free, links = axis.free, coupling * links_of(axis)
    rows = np.stack([links, axis.widths, coupling * axis.widths * axis.couplings[2]], axis=1)[free]
    return np.append(links[0] if free.start else 0.0, rows)


def replacement(axis: Axis, start: int, stop: int, shifts: Values) -> Replacement:
    """The effect of the nodes ``[start, stop)`` of a whole axis, none of them fixed, on the nodes beside them.

    `start`, `stop`: the run; it may be empty. `shifts` (array): the eigenvalue s of every mode, in a/h².
    """
    lower = axis.rules[0] is Rule.MIRROR and start == 0
    upper = axis.rules[1] is Rule.MIRROR and stop == axis.nodes
    if axis.tabulated:
        return _eliminated(axis, start, stop, shifts)
    rows = stop - start
    # Of a run without an end: 1 − e^−θ with 2 cosh θ = 2 + s.
    far = (shifts + np.sqrt(shifts * (shifts + 4.0))) / 2.0
    link, loss = np.zeros_like(far), far / (1.0 + far)
    # Where e^(−m θ) is something beside 1.
    near = shifts < 4.0 * math.sinh(min(DECAY / (2 * rows), 300.0)) ** 2 if rows else np.ones(shifts.shape, bool)
    angle = np.maximum(2.0 * np.arcsinh(np.sqrt(shifts[near]) / 2.0), LEAST_ANGLE)
    if lower or upper:
        none = np.zeros_like(loss)
        # 1 − cosh((m − 1) θ) / cosh(m θ)
        of_mirror = np.expm1(-(2 * rows - 1) * angle) * np.expm1(-angle) / (1.0 + np.exp(-2 * rows * angle))
        loss[near] = of_mirror if rows else 0.0
        return Replacement(link, none if lower else loss, none if upper else loss)
    # sinh θ / sinh((m + 1) θ), and 1 − (sinh(m θ) + sinh θ) / sinh((m + 1) θ)
    link[near] = np.exp(-rows * angle) * np.expm1(-2.0 * angle) / np.expm1(-2.0 * (rows + 1) * angle)
    loss[near] = np.expm1(-rows * angle) * np.expm1(-angle) / (1.0 + np.exp(-(rows + 1) * angle))
    return Replacement(link, loss, loss)


def _eliminated(axis: Axis, start: int, stop: int, shifts: Values) -> Replacement:
    """The same, node by node."""
    links = links_of(axis)
    link = np.full_like(shifts, links[start - 1])
    below, carried = np.zeros_like(shifts), np.zeros_like(shifts)
    for node in range(start, stop):
        loss = carried + losses_of(axis, node, shifts)
        total = link + links[node] + loss
        below += link * loss / total
        carried = links[node] * loss / total
        link = link * links[node] / total
    return Replacement(link, below, carried)


class OfConstants:
    """Solves for the mode of the other axes to which s = 0 belongs, where no end of the axis holds it.

    The solution has no mean, and is that for f less its mean.

    `axis`: a whole axis between mirrors, or one that wraps. `coupling`: a/h². `asarray`: makes the arrays that are
    kept, from NumPy arrays.
    """

    def __init__(self, axis: Axis, coupling: float, asarray: Callable[[Values], Any] = np.asarray) -> None:
        resistances = 1.0 / links_of(axis)[: axis.nodes if axis.wraps else -1]
        self._wraps = axis.wraps
        self._resistances = asarray(resistances)
        self._total = float(resistances.sum())
        self._widths = asarray(axis.widths)
        self._weights = asarray(axis.widths / axis.widths.sum())
        self._u = asarray(np.zeros(axis.nodes))
        self._coupling = coupling

    def solve(self, f: Any) -> Any:
        """The solution at all nodes in float64, which the next call overwrites."""
        flows = (self._widths * (f - (self._weights * f).sum()) / self._coupling).cumsum()
        steps = self._resistances * flows[: self._resistances.size]
        if self._wraps:
            # The same flow around the axis is added everywhere, by which u comes back to where it began.
            steps -= self._resistances * (steps.sum() / self._total)
        u = self._u
        u[0] = 0.0
        u[1:] = -steps[: u.size - 1].cumsum()
        u -= (self._weights * u).sum()
        return u
