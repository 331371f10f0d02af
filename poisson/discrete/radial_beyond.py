# SPDX-License-Identifier: MIT
"""The field of the charges on open faces at the nodes beyond them, around an axis along which z goes on both ways.

The charges are a sum of waves along z. For each wave the nodes along r are the chain of conductors of
`poisson.discrete.radial_green`: what flows in further inside is brought outwards from node to node, and u then follows
inwards from the last node.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Operator
from poisson.discrete.radial_fields import CHUNK
from poisson.discrete.radial_green import Ladder, waves
from poisson.mesh.axis import Axis

Values = NDArray[np.float64]
Places = NDArray[np.int64]


def field_beyond(
    far: Operator, charges: Mapping[tuple[int, bool], Any], own: Sequence[slice], radii: Places, heights: Places
) -> Values:
    """The field at nodes of the lattice that goes on, whose upper end of r and both ends of z are open.

    `far`: the operator beyond. `charges`: by the face, and whether they are one spacing beyond it, as those of
    `FaceFields.charges`, on the nodes `own` along r and z. `radii`, `heights`: the numbers of nodes along r, from 0,
    and along z, of any sign, both of shape (n, 4). Returns: of shape (n, 4, 4), first by r.
    """
    line, (_, rows) = far.lattice.axes[0], far.lattice.axes
    placed, last, top = line.placement, line.nodes - 1, rows.nodes - 1
    assert placed is not None
    nodes = max(int(radii.max()), last + 1) + 1
    radius = Axis.placed(placed.extended(nodes + 1 - line.nodes))
    lengths, along = radius.lengths, np.arange(rows.nodes)[own[1]]
    reach = int(max(np.abs(heights).max(), np.abs(heights - top).max())) + 2
    angles, weights = waves(reach, 2.0 * float(np.arcsinh(np.sqrt(far.c / far.couplings[1]) / 2.0)))
    used, numbers = np.unique(radii, return_inverse=True)
    numbers = numbers.reshape(radii.shape)
    links = far.a * radius.sections[:nodes] / radius.gaps[:nodes]
    found = np.zeros((*radii.shape, heights.shape[1]))
    for start in range(0, angles.size, CHUNK):
        some = angles[start : start + CHUNK]
        ladder = Ladder.of(radius, far.a, far.c + far.couplings[1] * 4.0 * np.sin(some / 2.0) ** 2)
        u = np.zeros((nodes, some.size), dtype=np.complex128)
        for (face, beyond), values in charges.items():
            if face == 1:
                turns = np.exp(1j * np.outer(some, along))
                u[last + beyond] += lengths[last + beyond] * (turns @ values.ravel())
            else:
                end = top + beyond if face == 3 else -beyond
                u[own[0]] += np.outer(lengths[own[0]] * values.ravel(), np.exp(1j * end * some))
        for node in range(nodes - 1):
            u[node + 1] += ladder.passed[node] * u[node]
        u[-1] *= ladder.alone[nodes - 1]
        for node in range(nodes - 2, -1, -1):
            u[node] = ladder.passed[node] * (u[node + 1] + u[node] / links[node])
        u *= weights[start : start + CHUNK]
        for point, (place, height) in enumerate(zip(numbers, heights, strict=True)):
            back = np.exp(-1j * np.outer(some, height))
            found[point] += (u[used[place]] @ back).real
    return found
