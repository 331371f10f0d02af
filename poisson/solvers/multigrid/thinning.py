# SPDX-License-Identifier: MIT
"""Coarser grids of axes whose spacings differ much: nodes are left out where they are closest, whatever the axis.

A point smoother reduces the modes that alternate along the strongest couplings, which are those of the least spacings;
where an axis is stretched these are along one axis here and along another there. Each coarser grid has about twice the
least spacing, and all spacings that are wider already, but for those below the spacings of all other axes: the
semicoarsening of every place at once, and still a product of axes.
"""

import math
from dataclasses import replace

import numpy as np

from poisson.mesh.axis import MIN_NODES, Axis, Values
from poisson.mesh.lattice import Lattice
from poisson.mesh.system import CARTESIAN

UNEVEN = 2.0
"""Axes whose spacings differ by less than this factor are coarsened as a whole."""

ALIKE = 1.5
"""Spacings up to so many times the least one are doubled together with it. Found by search on contraction factors."""


def is_uneven(lattice: Lattice) -> bool:
    """Whether an axis has spacings that differ much. Parts of an axis are coarsened as a whole, and so are others than
    Cartesian axes, whose couplings say more than their spacings.
    """
    if lattice.divided or lattice.system != CARTESIAN:
        return False
    return any(
        axis.placement is not None and not axis.wraps and axis.placement.gaps.max() > UNEVEN * axis.placement.gaps.min()
        for axis in lattice.axes
    )


def thinned(lattice: Lattice) -> tuple[Lattice, float] | None:
    """The next coarser grid, and a bound from below on the eigenvalues of D⁻¹A of the modes that it cannot represent.

    None where no node can be left out.
    """
    narrowest = [float(_steps(axis).min()) for axis in lattice.axes]
    others = [min(narrowest[:axis] + narrowest[axis + 1 :], default=math.inf) for axis in range(lattice.dimension)]
    able = [axis for axis, line in enumerate(lattice.axes) if _thinned(line, math.inf) is not line]
    while able:
        least = min(narrowest[axis] for axis in able)
        # Where spacings are below all of the other axes the couplings are strong enough, however much they differ.
        narrow = [max(ALIKE * least, other) for other in others]
        axes = tuple(_thinned(line, narrow[axis]) if axis in able else line for axis, line in enumerate(lattice.axes))
        changed = [axis for axis in able if axes[axis] is not lattice.axes[axis]]
        if changed:
            strengths = [spacing**-2.0 for spacing in narrowest]
            weakest = [min(strength, spacing**-2.0) for strength, spacing in zip(strengths, narrow, strict=True)]
            lowest = min(weakest[axis] / (weakest[axis] + sum(strengths) - strengths[axis]) for axis in changed)
            return replace(lattice, axes=axes), lowest
        able.remove(min(able, key=narrowest.__getitem__))
    return None


def _steps(axis: Axis) -> Values:
    """The distances of neighbouring nodes or, of cells, of their faces."""
    return np.diff(axis.placement.marks) if axis.placement is not None else np.array([axis.spacing])


def _thinned(axis: Axis, narrow: float) -> Axis:
    """The axis without marks beside a distance below `narrow`, no two neighbours, from both ends to the widest one."""
    placed = axis.placement
    if placed is None or axis.wraps:
        coarser = axis.coarser if axis.spacing < narrow else None
        return axis if coarser is None else coarser
    marks = placed.marks
    widest = int(np.argmax(np.diff(marks)))
    middle = widest + (2 * widest + 2 > marks.size)
    kept = [0]
    while kept[-1] < middle:
        kept.append(kept[-1] + 1 + _leaves_out(marks, kept[-1] + 1, 1, middle, narrow))
    above = [marks.size - 1]
    while above[-1] > kept[-1]:
        above.append(above[-1] - 1 - _leaves_out(marks, above[-1] - 1, -1, kept[-1], narrow))
    chosen = np.array(kept + above[-2::-1])
    nodes = chosen.size if placed.on_faces else chosen.size - 1
    if nodes < MIN_NODES or chosen.size == marks.size:
        return axis
    return Axis.placed(type(placed)(marks[chosen], placed.kinds, placed.alpha, placed.power))


def _leaves_out(marks: Values, mark: int, step: int, stop: int, narrow: float) -> bool:
    """Whether a mark is left out, if there is one before the last that is kept."""
    if (stop - mark) * step <= 0:
        return False
    return bool(min(abs(marks[mark] - marks[mark - step]), abs(marks[mark + step] - marks[mark])) < narrow)
