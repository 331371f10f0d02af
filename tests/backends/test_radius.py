# SPDX-License-Identifier: MIT
"""The radius and the sources of every operation are what its entry says: NaN beyond so many layers gets no further.

On a part of a grid every array that is read has NaN in its halo beyond some layers, one array after the other. How many
layers of what is written then are those of the whole grid is observed on the specification.
"""

from typing import Any

import numpy as np
import pytest
from support.operators import random_array
from support.parts import Division, valid_within

from poisson.backends.numpy import NumpyBackend
from poisson.backends.operations import OPERATIONS, Argument, OperationSpec, Role
from poisson.discrete.operator import Coefficients, Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.boundary import Rule
from poisson.mesh.differences import Differences
from poisson.mesh.lattice import Lattice

BACKEND = NumpyBackend(np.float64)
WIDTH = 8
EVERYWHERE = 1 << 30
VALUES: dict[Role, Any] = {Role.NUMBER: 0.7, Role.COLOR: 0, Role.FLAG: True}


def varying(rows: int) -> Operator:
    lattice = Lattice.uniform((9, rows), (0.1, 0.2), (Rule.MIRROR, Rule.FIXED, Rule.FIXED, Rule.FIXED))
    a = np.exp(random_array(lattice.array_shape, np.float64, 21))
    links = tuple(np.empty_like(a) for _ in lattice.axes)
    for axis, out in enumerate(links):
        BACKEND.bind(Operator(lattice)).links(axis, a, True, out)
    return Operator(lattice, 0.0, 1.0, Coefficients(links, None, (float(a.min()), float(a.max())), (0.0, 0.0)))


def coarser(operator: Operator) -> Operator:
    return Operator(Lattice(tuple(axis.coarser or axis for axis in operator.lattice.axes)))


def subject_on(kind: type | None, operator: Operator) -> Any:
    """The subject of an operation on the whole grid, or on a part of it."""
    if kind is Transfer:
        return Transfer(operator, coarser(operator))
    if kind is Interpolation:
        return Interpolation(coarser(operator), operator)
    return Differences(operator.lattice, 4) if kind is Differences else operator


def lattice_of(argument: Argument, subject: Any) -> Lattice:
    lattice: Lattice = (getattr(subject, argument.grid) if argument.grid else subject).lattice
    return lattice


def right_layers(values: Any, whole: Any, lattice: Lattice) -> int:
    """The layers of the halo along y, on either side the same, that have the values of the whole; -1 for none owned."""
    line = lattice.axes[1]
    right = np.isclose(values, whole[line.index], rtol=1e-12, atol=1e-12).all(axis=1)
    below, above = line.halo
    for layers in range(-1, min(below, above)):
        if not right[below - layers - 1 : line.nodes - above + layers + 1].all():
            return layers
    return min(below, above)


def observed(spec: OperationSpec, rows: int, late: str, layers: int, sweeps: int) -> dict[str, int]:
    """Right layers of each array that is written, where the array `late` has NaN beyond so many layers.

    An operation along one axis is observed along each.
    """
    along = [along_axis(axis, spec, rows, late, layers, sweeps) for axis in range(1 + ("axis" in spec.names))]
    return {name: min(found[name] for found in along) for name in along[0]}


def along_axis(axis: int, spec: OperationSpec, rows: int, late: str, layers: int, sweeps: int) -> dict[str, int]:
    whole = varying(rows)
    division = Division.of(whole, {1: (0, rows // 2 - 4, rows // 2 + 4)}, WIDTH)
    part = division.operator(division.parts[1])
    outs = []
    for operator in (whole, part):
        subject, arrays = subject_on(spec.subject, operator), {}
        for seed, argument in enumerate(spec.arguments):
            if argument.role is Role.RESULT:
                arrays[argument.name] = None if argument.optional else BACKEND.reduction()
            elif argument.role is Role.OMEGAS:
                arrays[argument.name] = (0.7, 0.9, 0.8)[:sweeps]
            elif argument.role is Role.AXIS:
                arrays[argument.name] = axis
            elif argument.role in VALUES:
                arrays[argument.name] = VALUES[argument.role]
            else:
                of_whole = lattice_of(argument, subject_on(spec.subject, whole))
                values = random_array(of_whole.array_shape, np.float64, seed)
                values = np.exp(values) if argument.positive else values
                if operator is part:
                    wanted = layers if argument.name == late else EVERYWHERE
                    values = valid_within(values, lattice_of(argument, subject), wanted)
                arrays[argument.name] = [values.copy() for _ in range(2)] if argument.role is Role.OUTPUTS else values
        bound = BACKEND if spec.subject is None else BACKEND.bind(subject)
        getattr(bound, spec.method)(**arrays)
        outs.append(arrays)
    found = {}
    for argument in spec.arguments:
        if argument.written:
            several = argument.role is Role.OUTPUTS
            pairs = zip(
                *(arrays[argument.name] if several else [arrays[argument.name]] for arrays in outs), strict=True
            )
            lattice = lattice_of(argument, subject)
            found[argument.name] = min(right_layers(mine, all_, lattice) for all_, mine in pairs)
    return found


SPECS = [
    pytest.param(spec, sweeps, id=f"{spec.name}-{sweeps}")
    for spec in OPERATIONS.values()
    if spec.subject in (Operator, Transfer, Interpolation, Differences) and any(each.written for each in spec.arguments)
    for sweeps in ((1, 2, 3) if "omegas" in spec.names else (1,))
]


@pytest.mark.parametrize(("spec", "sweeps"), SPECS)
def test_the_radius_is_how_far_an_operation_looks(spec: OperationSpec, sweeps: int) -> None:
    radius = spec.radius_of(subject_on(spec.subject, varying(41)))
    between_grids = any(argument.grid for argument in spec.arguments)
    for read in (argument for argument in spec.arguments if argument.read):
        for layers in range(WIDTH // 2 if between_grids else WIDTH + 1):
            found = observed(spec, 41, read.name, layers, sweeps)
            for written in (argument for argument in spec.arguments if argument.written):
                reach, least = (radius * (sweeps - 1 + spec.looks(each, written)) for each in (read, None))
                used_up = reach if read in spec.sources(written) else layers - WIDTH
                expected = min(layers - used_up, WIDTH - least)
                if between_grids:
                    # How many layers of another grid these are is not what the entry says.
                    assert (found[written.name] >= 0) == (expected >= 0), (read.name, written.name, layers)
                else:
                    assert found[written.name] == max(-1, expected), (read.name, written.name, layers)


@pytest.mark.parametrize("name", ["restrict", "coarsen_links"])
def test_between_grids_whose_nodes_do_not_coincide_the_radius_is_enough(name: str) -> None:
    spec = OPERATIONS[name]
    assert spec.radius_of(subject_on(Transfer, varying(40))) == 2
    assert observed(spec, 40, "fine", 2, 1)["coarse"] >= 0
