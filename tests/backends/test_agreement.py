# SPDX-License-Identifier: MIT
"""Every operation of the table on every backend against the specification, with what its entry says of its arguments.

The data are random, the sizes odd, every kind of face stands on every axis, coefficients are constant or vary, optional
arguments are given and left out. An operation that gets an entry in poisson/backends/operations.py is compared here
without a line of its own.

Covers poisson.backends.openmp.operations, poisson.backends.openmp.tables, poisson.backends.gpu.krylov and
poisson.backends.gpu.tables.
"""

import itertools
import math

import numpy as np
import pytest
from conftest import BACKENDS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.agreement import FEW_RULES, KINDS, PLACED, SHAPES, TABLE, agree, grid_operator, has, rules_for
from support.operators import AXIS_RULES, SPACING, rules_of

from poisson.backends.base import Backend
from poisson.backends.operations import ALL, Role
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.operator import Operator
from poisson.discrete.sparse_rows import SparseRows
from poisson.mesh.boundary import Rule

FULL = (FullStencil, StencilTransfer, Clusters, SparseRows)
LINKS = [name for name in TABLE if ALL[name].subject not in FULL]


def collapsed(dimension: int) -> list[Operator]:
    """Grids of multigrid with one node along some axes, which then wrap and have an infinite spacing."""
    choices = [(0,)] if dimension == 2 else [axes for n in (1, 2) for axes in itertools.combinations(range(3), n)]
    found = []
    for number, axes in enumerate(choices if dimension > 1 else []):
        for turn in range(5):
            shape = ((28, 18, 14), (5, 4, 38))[(turn + number) % 2]
            lines = [
                (1, math.inf, (Rule.WRAP,) * 2) if n in axes else (shape[n], SPACING[n], AXIS_RULES[(turn + 2 * n) % 5])
                for n in range(dimension)
            ]
            nodes, spacing, rules = zip(*lines, strict=True)
            found.append(Operator.uniform(nodes, spacing, 0.7, tuple(itertools.chain(*rules))))
    return found


def is_emulated(backend: Backend) -> bool:
    """Whether each kernel takes a tenth of a second to be compiled: two dimensions share the kinds then."""
    return getattr(backend, "architecture", "") == "emulated"


def cases(backend: Backend, name: str, dimension: int, kind: str) -> list[Operator]:
    """The grids for an operation: all kinds of faces with each shape in turn, every fifth with all shapes.

    Full stencils, whose specification takes long, have no large grids in 3D, nor do emulated devices; those have a
    sample of shapes.
    """
    full = ALL[name].subject in FULL
    colors = any(argument.role is Role.COLOR for argument in ALL[name].arguments)
    shapes = [*SHAPES[dimension], *[(38, 18, 6)[:dimension]] * colors]  # colors need even numbers where axes wrap
    if full and dimension == 3:
        shapes = [*SHAPES[3][:2], (38, 4, 6) if colors else (37, 5, 6)]
    faces = rules_for(backend, dimension, kind)
    if backend.name == "gpu":
        if ALL[name].subject in (FullStencil, StencilTransfer):
            faces = rules_for(backend, dimension)
        if any(argument.role is Role.AXIS for argument in ALL[name].arguments):
            # All that these kernels ask of the faces is which axes wrap.
            faces = list({tuple(rule is Rule.WRAP for rule in rules): rules for rules in faces}.values())
        number = KINDS.index(kind)
        # With a mask both arrays vary, which is compiled for its own sake and takes the others' place here.
        several = ("none", "masked") if backend.dtype == np.float64 else ("masked",)
        if is_emulated(backend):
            several = (several[-1] if dimension == 3 else "none",)
        tabulated = PLACED[dimension][number : number + 1] if kind in several else []
        singles = collapsed(dimension)[1::5][-2:] if backend.dtype == np.float64 and kind == "both" else []
        pair = (shapes[1], shapes[-1])
        found = [
            grid_operator(shape, rules)
            for number, rules in enumerate(faces)
            for shape in (pair if not full or colors or len(faces) == 1 else pair[number % 2 :: 2])
        ]
        return found + singles + tabulated
    if full:
        faces = FEW_RULES.get(dimension, faces)  # all that the library asks is which nodes there are
    found = [
        grid_operator(shape, rules)
        for number, rules in enumerate(faces)
        for shape in (shapes if number % 5 == 0 else [shapes[number % len(shapes)]])
    ]
    if full and dimension == 3:
        found.append(grid_operator((38, 18, 12) if colors else SHAPES[3][2], faces[-1]))  # enough for several threads
    if backend.dtype == np.float32 and any(argument.role is Role.COEFFICIENTS for argument in ALL[name].arguments):
        return found[
            :4
        ]  # coefficients have types of their own, and all that a backend's changes is the function's name
    # One of the kinds has every turn of single nodes, and so have the others together.
    turn = slice(None) if kind == "both" else slice(KINDS.index(kind), None, 5)
    return found + collapsed(dimension)[turn] + PLACED[dimension][2 if full else 0 :: 3 if full else 1]


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("name", TABLE)
def test_every_entry_agrees_with_the_specification(backend: Backend, name: str, dimension: int) -> None:
    spec, calls = ALL[name], 0
    kinds: tuple[str, ...] = KINDS if spec.coefficients else ("none", "masked")
    if is_emulated(backend):
        # One array alone in the dimensions in turn: both of them, and with a mask, are in each.
        kinds = tuple(kind for kind in kinds if kind != ("a" if dimension == 3 else "c"))
    if backend.name == "gpu" and backend.dtype == np.float32:
        if dimension == 1 and is_emulated(backend):
            pytest.skip("a line of nodes takes the kernels of two dimensions, which are compiled in either type")
        kinds = ("none", "masked")  # the others are compiled in one type
        if is_emulated(backend):
            kinds = kinds[dimension - 2 :][:1]
    for kind in ("none",) if spec.subject in FULL else kinds:
        calls += sum(agree(backend, a, [name], kind) for a in cases(backend, name, dimension, kind))
    assert calls or not has(backend, spec)


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_shape_faces_and_coefficients(data: st.DataObject) -> None:
    dimension = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(st.tuples(*[st.integers(3, 200 if dimension == 2 else 40)] * dimension))
    a = grid_operator(shape, data.draw(st.sampled_from(rules_of(dimension))), data.draw(st.sampled_from([0.0, 50.0])))
    names = data.draw(st.lists(st.sampled_from(LINKS), min_size=3, max_size=6, unique=True))
    backend = BACKENDS["openmp"](data.draw(st.sampled_from([np.float64, np.float32])))
    agree(backend, a, names, data.draw(st.sampled_from(KINDS)))


def test_few_rules_hold_every_pair_on_every_axis() -> None:
    for dimension, combinations in FEW_RULES.items():
        for axis in range(dimension):
            assert {rules[2 * axis : 2 * axis + 2] for rules in combinations} == set(AXIS_RULES)
        assert set(combinations[-1]) == {Rule.FIXED, Rule.MIRROR, Rule.WRAP}
