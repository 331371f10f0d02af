# SPDX-License-Identifier: MIT
"""Graphs of clusters that a device makes, and the cycle on them, beside those of the specification.

Covers poisson.backends.gpu.graphs.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, emulated
from support.agreement import FEW_RULES, grid_operator
from support.composites import composite, operator_of, solved
from support.emulation import Order
from support.full_stencils import along_axes, stencil_on
from support.operators import AXIS_RULES, random_array

from poisson.backends.base import Backend
from poisson.backends.gpu import graphs
from poisson.backends.gpu.clusters import on_host
from poisson.backends.numpy import NumpyBackend
from poisson.discrete import contracted
from poisson.discrete.clusters import Clusters
from poisson.discrete.contracted import GraphCycle
from poisson.discrete.full_stencil import FullStencil, star
from poisson.solvers.multigrid.galerkin import galerkin_levels

EVERY = [partial(emulated, order=order) for order in Order]
ON_DEVICES = pytest.mark.parametrize("makes", [EVERY, pytest.param([BACKENDS["gpu"]] * 2, marks=pytest.mark.gpu)])
GRIDS = [
    *(((41, 38), rules) for rules in FEW_RULES[2]),
    *(((12, 9, 8), rules) for rules in FEW_RULES[3]),
    ((2, 3), (*AXIS_RULES[3], *AXIS_RULES[3])),
    ((13, 2, 9), (*AXIS_RULES[3], *AXIS_RULES[4], *AXIS_RULES[3])),
]
LINKS = 1e-9
"""The error from links that are rounded to float32 one way or the other, from sums in another order."""


def require_the_same(found: Clusters, expected: Clusters, backend: Backend) -> None:
    """Groups and numbers exactly; links, excess and sweeps to rounding."""
    for name in ("nodes", "starts"):
        assert np.array_equal(on_host(backend, getattr(found, name)), getattr(expected, name))
    there, here = found.cycle, expected.cycle
    assert there is not None and here is not None and there.levels == here.levels
    for name in (field.name for field in fields(GraphCycle)[1:]):
        values, wanted = getattr(there, name), getattr(here, name)
        if wanted is None:
            assert values is None
            continue
        values = on_host(backend, values)
        assert values.shape == wanted.shape and values.dtype == wanted.dtype
        if wanted.dtype.kind == "i":
            assert np.array_equal(values, wanted)
        else:
            np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max(initial=0.0))


def solve_directly(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of so many nodes, so that small ones have several behind them."""
    for module in (contracted, graphs):
        monkeypatch.setattr(module, "DENSE", nodes)


def corrected(backend: Backend, clusters: Clusters, dtype: Any) -> Any:
    u, r = (random_array(clusters.lattice.array_shape, dtype, seed) for seed in (1, 2))
    out = backend.from_host(u)
    backend.bind(clusters).correct_clusters(backend.from_host(r), out)
    return backend.to_host(out)


def both(make: Callable[[Any], Any], stencil: FullStencil, dtype: Any) -> tuple[Any, Any, Any]:
    """The operations of a stencil by the specification, those of a device, and its backend."""
    backend, values = make(dtype), np.asarray(stencil.coefficients, dtype)
    there = backend.bind(replace(stencil, coefficients=backend.from_host(values)))
    return NumpyBackend(dtype).bind(replace(stencil, coefficients=values)), there, backend


@ON_DEVICES
def test_groups_and_nodes_together_are_those_of_the_specification(
    makes: list[Callable[[Any], Any]], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With links of either sign, or none, and groups that nothing holds; with a launch a step, and with one for many.

    In every order of threads the correction has the same bits.
    """
    if dtype == np.float32:
        monkeypatch.setattr(graphs, "TAIL", 20)
    solve_directly(20, monkeypatch)
    graphs_of, solved_directly = set(), set()
    for number, (shape, rules) in enumerate(GRIDS):
        full = stencil_on(grid_operator(shape, rules).lattice, jump=1.0 + number % 3, holes=-0.8, negative=-0.7)
        loose, bare = np.array(full.coefficients), np.array(full.coefficients)
        loose[0], bare[1:] = 0.0, 0.0
        for stencil in (full, along_axes(full), *(replace(full, coefficients=each) for each in (loose, bare))):
            asked = (0.05, 1.0), (0.4, 0.5)
            for threshold, part in asked if number == 0 else asked[number % 2 :][:1]:
                outs = []
                for make in makes if number == 0 else makes[:1]:
                    host, device, backend = both(make, stencil, dtype)
                    expected = host.contracted_clusters(threshold, part)
                    found = device.contracted_clusters(threshold, part)
                    if expected.count:
                        require_the_same(found, expected, backend)
                    outs.append(corrected(backend, found, dtype))
                wanted = corrected(NumpyBackend(dtype), expected, dtype)
                assert all(np.array_equal(out, outs[0]) for out in outs)
                room = max(64 * np.finfo(dtype).eps, LINKS) * max(1.0, np.abs(wanted).max(initial=0.0))
                np.testing.assert_allclose(outs[0], wanted, rtol=0, atol=room)
                graphs_of.add(len(expected.cycle.levels) - 1)
                solved_directly.add(expected.cycle.inverse is not None)
    assert {1, 2, 3} <= graphs_of and solved_directly == {True, False}


@ON_DEVICES
@pytest.mark.parametrize("fewest", [2, 30])
@pytest.mark.parametrize(("shape", "part"), [((37, 41), 0.4), ((13, 12, 11), 0.3)])
def test_nodes_of_large_groups_are_those_of_the_specification(
    makes: list[Callable[[Any], Any]],
    shape: tuple[int, ...],
    part: float,
    fewest: int,
    dtype: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Winding paths of a phase: how many nodes they have and beside each, and the cycle of all of them."""
    solve_directly(3, monkeypatch)
    a = composite(f"spots {part}", max(shape), len(shape), 1e5)[tuple(slice(n) for n in shape[::-1])]
    plain = NumpyBackend(np.float64)
    stencil = star(plain, operator_of(a, backend=plain).operator)
    host, device, backend = both(makes[0], stencil, dtype)
    for asked in (((0.05, 0.2), 0.1, fewest), ((0.2,), 1.0, fewest)):
        expected, found = host.clusters_at(*asked), device.clusters_at(*asked)
        assert [each.large for each in found] == [each.large for each in expected]
        assert [each.size for each in found] == [each.size for each in expected]
    wanted, made = (each[0].apart_together(each[1], fewest) for each in ((host, expected[0]), (device, found[0])))
    assert wanted.count == expected[0].large[0] > 0
    require_the_same(made, wanted, backend)
    assert wanted.cycle is not None and len(wanted.cycle.levels) > 4
    out = corrected(NumpyBackend(dtype), wanted, dtype)
    atol = max(64 * np.finfo(dtype).eps, LINKS) * np.abs(out).max()
    np.testing.assert_allclose(corrected(backend, made, dtype), out, rtol=0, atol=atol)


@pytest.mark.parametrize("make", [emulated, pytest.param(BACKENDS["gpu"], marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("name", "nodes", "dimension"), [("spots 0.33", 21, 3), ("spots 0.6", 65, 2)])
def test_solves_take_the_iterations_of_the_specification(
    make: Callable[[Any], Any], name: str, nodes: int, dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a host would correct all groups together."""
    monkeypatch.setattr("poisson.solvers.multigrid.galerkin.SPANS", 1.0)
    a, found = composite(name, nodes, dimension, 1e6), []
    for backend in (NumpyBackend(np.float64), make(np.float64)):
        operations = operator_of(a, backend=backend)
        cycles = [each.clusters.cycle for level in galerkin_levels(operations)[:-1] for each in level.clusters]
        found.append(([each.levels for each in cycles if each], solved(operations).iterations))
    assert found[0][0] and found[0] == found[1]
