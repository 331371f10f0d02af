# SPDX-License-Identifier: MIT
"""The lattice Green's function around an axis or a centre, on nodes along r that go on outwards without end.

For each mode along z the nodes of r are a chain of conductors: a link carries a r^p/gap for a unit of difference, and a
control volume w takes (c + λ) w to the ground. Put together from both ends, such conductors are sums and quotients of
positive numbers, so that nothing is lost to rounding and nothing overflows, however far or fast the function decays.

The conductance of all nodes beyond one of a cylinder has a closed form. With μ = (c + λ) h²/a and the radius ρ in
spacings the equations (ρ + ½) u(ρ+1) + (ρ − ½) u(ρ−1) = ρ (2 + μ) u(ρ) are those between Legendre functions of
successive degrees, and the solution that decays is Q of the degree ρ − ½ at 1 + μ/2 = cosh η, by Heine's integral

    Q = ∫ (cosh η + sinh η cosh t)^(−ρ−½) dt,   t from 0 to ∞

(NIST Digital Library of Mathematical Functions, sections 14.10 and 14.12), which is a sum over equal steps of t to
rounding.

Along a z that goes on without end as well the modes are waves of all angles θ from one node to the next. Where nothing
else makes u decay the function of an angle has a logarithm at θ = 0. So the integral is one over panels that halve
towards 0, by Gauss and Legendre.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.face_products import multiply
from poisson.mesh.axis import Axis

Values = NDArray[np.float64]

POINTS, SPAN = 24, 12.0
"""Points of a panel; half a panel may turn the phase by so much over the longest distance, which leaves 1e-19."""
HALVINGS = 60
"""How often panels halve, for the whole length: what is left is of the size of 2^−HALVINGS."""
FARTHEST = 100_000
"""Nodes beyond a sphere after which it is taken to go on continuously."""
LOST = 1e-14
"""The part of the conductance beyond a node that the end of a chain may leave wrong where an angle turns."""
BLOCK = 24
"""Nodes of which sums over modes are products of matrices."""


@dataclass(frozen=True, eq=False)
class Ladder:
    """The chain of conductors along r, for some modes.

    `alone` (array of shape (nodes, modes)): u at a node, for a unit of flow by angle into it, which is w f. `passed`
    (same shape): u at a node for a unit of u at the next one, without any flow further inside.
    """

    alone: Values
    passed: Values

    @staticmethod
    def of(radius: Axis, a: float, rest: Values, of_angle: Values | None = None) -> "Ladder":
        """The chain on an axis that ends one node too late, for each c + λ, in 1/L².

        `of_angle`: a times the eigenvalue of each mode of an angle, which leaks by 1/r² beside c + λ. A radius around
        an axis from which nothing decays has u = −ln(r) / a far away, for a unit of flow by angle.
        """
        placed = radius.placement
        assert placed is not None
        links, volumes = a * placed.sections / placed.gaps, placed.widths
        held, nodes, h = radius.free.start, radius.nodes - 1, radius.spacing
        places = placed.points[:nodes] / h
        inner, passed = np.zeros((nodes, rest.size)), np.zeros((nodes, rest.size))

        def leak(node: int) -> Values:
            turning = 0.0 if of_angle is None else of_angle / placed.points[node] ** 2
            return np.asarray((rest + turning) * volumes[node])

        inner[held] = links[0] if held else a * placed.walls[0] * placed.areas[0]
        for node in range(held, nodes - 1):
            beside = inner[node] + leak(node)
            passed[node] = links[node] / (links[node] + beside)
            inner[node + 1] = passed[node] * beside
        outer = np.empty_like(inner)
        outer[-1] = _beyond(places[-1], placed.power, a, h, rest)
        if of_angle is not None and (turns := of_angle > 0.0).any():
            outer[-1, turns] = _beyond_turning(places[-1], a, h, rest[turns], of_angle[turns])
        for node in range(nodes - 2, -1, -1):
            beside = outer[node + 1] + leak(node + 1)
            outer[node] = beside * (links[node] / (links[node] + beside))
        whole = inner + outer + np.array([leak(node) for node in range(nodes)])
        floats = whole[-1] == 0.0
        with np.errstate(divide="ignore"):
            alone = 1.0 / whole
        if floats.any():
            from scipy.special import digamma

            alone[:, floats] = -(digamma(places + 0.5) + math.log(h))[:, np.newaxis] / a
        return Ladder(alone, passed)

    def column(self, node: int, first: int = 0) -> Values:
        """u at the nodes from the first to one, for a unit of flow into the latter; shape (nodes, modes)."""
        found = np.empty((node - first + 1, self.alone.shape[1]))
        found[-1] = self.alone[node]
        for other in range(node - 1, first - 1, -1):
            np.multiply(self.passed[other], found[other - first + 1], out=found[other - first])
        return found

    def sums(self, nodes: int, weights: Values) -> Values:
        """u at a node for a unit of flow into another one, summed over the modes by weights, shape (sums, modes).

        Returns: of shape (sums, nodes, nodes), symmetric.
        """
        found = np.empty((len(weights), nodes, nodes))
        below = np.empty((nodes, self.alone.shape[1]))  # u at the nodes below a block for a unit at its first
        for start in range(0, nodes, BLOCK):
            stop = min(start + BLOCK, nodes)
            columns = [self.column(node, start) for node in range(start, stop)]
            for node, column in enumerate(columns, start):
                found[:, start : node + 1, node] = weights @ column.T
            first = np.array([column[0] for column in columns]).T
            for each, out in zip(weights, found, strict=True):
                multiply(below[:start], each[:, np.newaxis] * first, out[:start, start:stop])
            below[start:stop] = np.cumprod(self.passed[start:stop][::-1], axis=0)[::-1]
            below[:start] *= below[start]
        upper = np.triu_indices(nodes, 1)
        found[:, upper[1], upper[0]] = found[:, upper[0], upper[1]]
        return found


def _beyond(place: float, power: int, a: float, h: float, rest: Values) -> Values:
    """The conductance by angle of all that lies beyond a node, for each c + λ; `place` is its r in spacings."""
    half_angles = np.arcsinh(np.sqrt(rest) * (h / (2.0 * math.sqrt(a))))
    if power == 2:
        pairs = zip(rest.tolist(), half_angles.tolist(), strict=True)
        return np.array([_beyond_sphere(place, a, h, *pair) for pair in pairs])
    # (cosh η + sinh η cosh t) / e^η = 1 + part sinh²(t/2)
    part = -np.expm1(-4.0 * half_angles)
    found = np.zeros_like(rest)
    some = part > 0.0
    part, exponent = part[some], place + 0.5
    steps = np.minimum(0.2, 0.9 / np.sqrt(exponent * part))
    ends = 2.0 * np.arcsinh(np.sqrt(np.expm1(40.0 / exponent) / part))
    count = math.ceil(float((ends / steps).max(initial=0.0))) + 1
    total, change = np.zeros_like(part), np.zeros_like(part)
    for number in range(count):
        logarithm = np.log1p(part * np.sinh(number / 2.0 * steps) ** 2)
        term = np.exp(-exponent * logarithm) * (0.5 if number == 0 else 1.0)
        total += term
        change -= term * np.expm1(-logarithm - 2.0 * half_angles[some])
    found[some] = a * exponent * change / total
    return found


def _beyond_sphere(place: float, a: float, h: float, rest: float, half_angle: float) -> float:
    """The same around a centre, from far away where the sphere goes on continuously, or all has decayed."""
    nodes = int(min(FARTHEST, 20.0 / max(half_angle, 1e-9))) + 1
    far = place + nodes
    found = a * h * far * (1.0 + 2.0 * half_angle * far)
    for number in range(nodes, 0, -1):
        here = place + number
        found += rest * h**3 * (here * here + 1.0 / 12.0)
        link = a * h * (here - 0.5) ** 2
        found *= link / (found + link)
    return found


def _beyond_turning(place: float, a: float, h: float, rest: Values, of_angle: Values) -> Values:
    """The same of modes of an angle, from far away where u goes on as a Bessel function K, or from where it decayed.

    The chain differs from that function by 1/ρ², of which so much comes back as a mode falls off there and back.
    """
    from scipy.special import kve

    orders, half_angles = np.sqrt(of_angle / a), np.arcsinh(np.sqrt(rest) * (h / (2.0 * math.sqrt(a))))
    count = np.exp(np.minimum((math.log(1.0 / LOST) + 2.0 * orders * math.log(place)) / (2.0 * orders + 2.0), 40.0))
    count = np.minimum(np.minimum(count, 20.0 / np.maximum(half_angles, 1e-9)), FARTHEST).astype(np.int64) + 1
    order = np.argsort(-count)
    far, leaks, turning = place + count[order], (rest * h * h)[order], of_angle[order]
    x, s = np.sqrt(leaks / a) * (far + 0.5), orders[order]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        # −x K′/K at the outer edge of a node, where u is a little less than at the node.
        slope = s + np.nan_to_num(x * kve(s - 1.0, x) / kve(s, x), posinf=0.0)
    found = a * slope * np.exp(-slope / (2.0 * far))
    active, starts = 0, count[order]
    for number in range(int(starts[0]), 0, -1):
        while active < starts.size and starts[active] >= number:
            active += 1
        here, some = place + number, found[:active]
        some += leaks[:active] * here + turning[:active] / here
        link = a * (here - 0.5)
        some *= link / (some + link)
    result = np.empty(found.size)
    result[order] = found
    return result


def waves(reach: int, near: float) -> tuple[Values, Values]:
    """Angles from 0 to π and their weights in the mean over all angles, for distances up to some nodes.

    `near`: the angle below which the function is smooth; 0 where it has a logarithm.
    """
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    least, longest = max(near / 4.0, math.pi / reach * 2.0**-HALVINGS), 2.0 * SPAN / reach
    ends = [math.pi]
    while ends[-1] > 0.0:
        top = ends[-1]
        ends.append(max(0.0, top - min(longest, top / 2.0 if top > least else top)))
    upper, lower = np.array(ends[:-1])[:, np.newaxis], np.array(ends[1:])[:, np.newaxis]
    half = (upper - lower) / 2.0
    return (lower + half * (points + 1.0)).ravel(), (half * weights / math.pi).ravel()
