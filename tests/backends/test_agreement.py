# SPDX-License-Identifier: MIT
"""Every operation of the table on every backend against the specification, with what its entry says of its arguments.

The data are random, the sizes odd, and optional arguments are given and left out. An operation that gets an entry in
poisson/backends/operations.py is compared here without a line of its own. What an operation must not read, such as the
old direction where beta is zero, stands in the tests of its kind.

Covers poisson.backends.openmp.tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.agreement import PLACED, SHAPES, grid_operator, kinds_of, rules_for, with_coefficients
from support.operators import random_array

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.backends.operations import ALL, Argument, OperationSpec, Role
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.differences import Differences
from poisson.solvers.multigrid.hierarchy import coarser
from poisson.solvers.spectrum import red_black

NUMBERS = {2: (0.7, 0.0), 1: (0.7,)}
"""Values of numbers: zero as well where there are two, of which one may multiply what then is not read."""
OMEGAS = (0.8, 1.3, 0.6)
NODES_OF_MATRIX = 60

Values = dict[str, Any]


def subjects(spec: OperationSpec, backend: Backend, a: Operator) -> Iterator[Any]:
    """What the operation is bound to, on the grid of an operator."""
    if spec.subject is None:
        yield None
    elif spec.subject is Operator:
        yield a
    elif spec.subject is Differences:
        if not a.lattice.tabulated and min(nodes for nodes in a.shape if nodes > 1) > 4:
            yield Differences(a.lattice, 4)
    else:
        axes = [axis for axis in range(a.dimension) if a.shape[axis] > 1]
        below = coarser(backend, a, axes)
        if spec.subject is Transfer:
            yield Transfer(a, below)
        else:
            yield from (Interpolation(below, a, everywhere) for everywhere in (False, True))
            yield Interpolation(a, below)


def choices(backend: Backend, spec: OperationSpec, argument: Argument, a: Operator) -> tuple[Any, ...]:
    """What stands for an argument: for an array whether there is one, else its values."""
    axes = tuple(axis for axis in range(a.dimension) if a.shape[axis] > 1)
    numbers = sum(other.role is Role.NUMBER for other in spec.arguments)
    values: dict[Role, tuple[Any, ...]] = {
        Role.NUMBER: NUMBERS[max(1, min(2, numbers))] if argument.name in ("b", "beta") else (0.7,),
        Role.OMEGAS: (OMEGAS[: backend.bind(a).depth()],),
        Role.AXIS: axes,
        Role.COLOR: (0, 1),
        Role.FLAG: (False, True),
    }
    if argument.role in values:
        return values[argument.role]
    return (True, False) if argument.optional else (True,)


def run(backend: Backend, spec: OperationSpec, a: Operator, subject: Any, chosen: Values) -> list[NDArray[Any]]:
    """What an operation leaves in the arrays that it writes, and in its result."""
    single = backend.companion(np.float32)
    result = backend.reduction()
    arguments: list[Any] = []
    written: list[tuple[Backend, Any]] = []
    for seed, argument in enumerate(spec.arguments):
        shape = getattr(subject, argument.grid).array_shape if argument.grid else a.array_shape
        on = single if argument.single else backend
        value = chosen[argument.name]
        if argument.role in (Role.READ, Role.WRITTEN, Role.BOTH):
            values = random_array(shape, on.dtype, seed)
            value = on.from_host(10.0**values if argument.positive else values) if value else None
            if argument.role is not Role.READ and value is not None:
                written.append((on, value))
        elif argument.role is Role.OUTPUTS:
            value = [backend.from_host(random_array(shape, on.dtype, seed)) for _ in range(subject.dimension)]
            written += [(backend, out) for out in value]
        elif argument.role is Role.MATRIX:
            value = backend.from_host(random_array((int(np.prod(shape)),) * 2, on.dtype, seed))
        elif argument.role is Role.RESULT:
            value = result if value else None
        arguments.append(value)
    bound = backend if subject is None else backend.bind(subject)
    getattr(bound, spec.name)(*arguments)
    found = [on.to_host(array) for on, array in written]
    return [*found, np.array(backend.read(result))] if chosen.get("result") else found


def compare(backend: Backend, spec: OperationSpec, plain: Operator, kind: str) -> int:
    """All calls on one grid; returns how many there were."""
    specification, shape, calls = NumpyBackend(backend.dtype), plain.shape, 0
    colors = any(argument.role is Role.COLOR for argument in spec.arguments)
    matrix = any(argument.role is Role.MATRIX for argument in spec.arguments)
    if (colors and not red_black(plain)) or (matrix and np.prod(shape) > NODES_OF_MATRIX):
        return 0
    on = {each: with_coefficients(each, plain, kind) for each in (specification, backend)}
    names = spec.names
    for values in itertools.product(*(choices(backend, spec, argument, on[backend]) for argument in spec.arguments)):
        chosen = dict(zip(names, values, strict=True))
        places = [list(subjects(spec, each, a)) for each, a in on.items()]
        for pair in zip(*places, strict=True):
            expected, got = (run(each, spec, a, of, chosen) for (each, a), of in zip(on.items(), pair, strict=True))
            nodes = int(np.prod(shape))
            agree(expected, got, backend, nodes, f"{spec.name} on {plain.lattice}, {kind} varies: {chosen}")
            calls += 1
    return calls


def agree(expected: list[NDArray[Any]], got: list[NDArray[Any]], backend: Backend, nodes: int, what: str) -> None:
    """To a few units of rounding: of the largest value of an array, and of the terms of a sum."""
    eps = float(np.finfo(backend.dtype).eps)
    largest = max([1.0, *(float(np.abs(values if values.ndim > 1 else values[1]).max()) for values in expected)])
    for wanted, found in zip(expected, got, strict=True):
        assert wanted.dtype == found.dtype
        unit = max(eps, float(np.finfo(wanted.dtype).eps)) if wanted.ndim > 1 else eps
        atol = 16 * unit * (largest if wanted.ndim > 1 else np.array([nodes * largest**2, largest]))
        assert (np.abs(found.astype(np.float64) - wanted) <= atol).all(), what


TABLE = [name for name, spec in ALL.items() if not any(it.role is Role.COARSER for it in spec.arguments)]
"""All but half a level of multigrid, whose passes have tests of their own (test_smooth.py)."""


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("name", TABLE)
def test_every_entry_agrees_with_the_specification(backend: Backend, name: str, dimension: int) -> None:
    spec, calls = ALL[name], 0
    emulated = backend.name == "gpu"
    for kind in kinds_of(backend) if spec.coefficients else [k for k in kinds_of(backend) if k in ("none", "masked")]:
        faces = rules_for(backend, dimension, kind)
        for rules in faces[:1] if emulated else faces[:: max(1, len(faces) // 5)]:
            shapes = (SHAPES[dimension][1], SHAPES[dimension][-1]) if emulated else SHAPES[dimension]
            calls += sum(compare(backend, spec, grid_operator(shape, rules), kind) for shape in shapes)
        if backend.tabulated:
            calls += sum(compare(backend, spec, a, kind) for a in PLACED[dimension])
    assert calls or spec.subject is Differences
