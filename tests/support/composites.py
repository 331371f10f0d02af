# SPDX-License-Identifier: MIT
"""Coefficients that jump from node to node, their operators, and solves of these with Galerkin coarse grids."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from poisson.backends.base import Backend, Operations
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Coefficients, Operator
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.solvers.cg import ConjugateGradients
from poisson.solvers.multigrid import Multigrid, MultigridSettings
from poisson.solvers.stopping import SolveResult, Stopping

EXACT = NumpyBackend(np.float64)
GALERKIN = MultigridSettings(coarse="galerkin")
TINY = Stopping(rtol=1e-8, max_iterations=99)
WALLS = (Rule.FIXED, Rule.FIXED)
KINDS = {
    "walls": (Rule.FIXED, Rule.FIXED),
    "mixed": (Rule.FIXED, Rule.MIRROR),
    "mirrors": (Rule.MIRROR, Rule.MIRROR),
    "wraps": (Rule.WRAP, Rule.WRAP),
}


def composite(name: str, nodes: int, dimension: int, jump: float = 1e6) -> NDArray[np.float64]:
    """a at the nodes."""
    random, shape = np.random.default_rng(0), (nodes,) * dimension
    i = np.indices(shape)
    if name == "constant":
        return np.ones(shape)
    if name == "normal":
        return np.exp(4 * random.standard_normal(shape))
    if name == "network":
        return np.where((i % 9 == 4).any(0), 1 / jump, 1.0)
    if name == "box":
        a = np.ones(shape)
        a[(slice(nodes // 4 + 1, 3 * nodes // 4),) * dimension] = jump
        return a
    if name == "shell":
        distance = np.abs(i - nodes // 2).max(0)
        return np.where(distance < nodes // 4, jump, np.where(distance == nodes // 4, np.sqrt(jump), 1.0))
    if name == "strip":
        return np.where(abs(i[0] + i[1] - nodes + 1) < 0.1 * nodes, jump, 1.0)
    if name == "layers":
        return np.where(i[0] // 4 % 2 == 0, jump, 1.0)
    kind, size = name.split()
    if kind == "spots":
        return np.where(random.random(shape) < float(size), jump, 1.0)
    if kind == "phases":
        share = random.random(shape)
        return np.where(share < float(size), jump, np.where(share < 2.5 * float(size), np.sqrt(jump), 1.0))
    if kind == "checkers":
        return np.where((i // int(size)).sum(0) % 2 == 0, jump, 1.0)
    noise = gaussian_filter(random.standard_normal(shape), 2.0)
    return np.where(noise > float(size) * noise.std(), jump, 1.0)


def operator_of(
    a: NDArray[Any],
    rules: tuple[Rule, ...] = WALLS,
    spacing: tuple[float, ...] | None = None,
    c: NDArray[Any] | float = 0.0,
    backend: Backend = EXACT,
) -> Operations:
    """The operations for a at the nodes, by harmonic means, and the same rules along every axis."""
    lattice = Lattice.uniform(a.shape[::-1], spacing or (1.0,) * a.ndim, rules * a.ndim)
    plain, links = backend.bind(Operator(lattice)), []
    for axis in range(a.ndim):
        links.append(backend.empty(a.shape))
        plain.links(axis, backend.from_host(a), True, links[-1])
    varies = isinstance(c, np.ndarray)
    reaction = backend.from_host(c) if isinstance(c, np.ndarray) else None
    ends = (float(np.min(c)), float(np.max(c)))
    coefficients = Coefficients(tuple(links), reaction, (float(a.min()), float(a.max())), ends)
    return backend.bind(Operator(lattice, 0.0 if varies else float(c), 1.0, coefficients))  # type: ignore[arg-type]


def porous(backend: Backend) -> Operations:
    """Pores of a = 0, whose nodes have no equation, between one phase with c and one without."""
    a = composite("blobs 0", 65, 2, 2.0)
    pores = (a == 2.0) & ~np.pad(np.zeros((63, 63), dtype=bool), 1, constant_values=True)
    operator = operator_of(np.where(pores, 1.0, a), (Rule.MIRROR, Rule.FIXED)).operator
    assert operator.coefficients is not None and operator.links is not None
    links = []
    for axis, link in enumerate(operator.links):
        beyond = np.roll(pores, -1, axis=1 - axis)
        links.append(backend.from_host(np.where(pores | beyond, 0.0, link)))
    held = backend.from_host(np.where(pores, -1.0, 1e-3 * (a == 1.0)))
    coefficients = replace(
        operator.coefficients, links=tuple(links), c=held, c_range=(0.0, 1e-3), fixed=int(pores.sum()), holds=True
    )
    return backend.bind(replace(operator, c=0.0, coefficients=coefficients))


def source_of(operator: Operator) -> NDArray[np.float64]:
    f = np.random.default_rng(3).standard_normal(operator.array_shape)
    f[~free_nodes(operator)] = 0.0
    if operator.singular:
        volumes = np.broadcast_to(operator.lattice.volumes(), f.shape)
        f -= np.sum(volumes * f) / volumes.sum()
    return f


def free_nodes(operator: Operator) -> NDArray[np.bool_]:
    free = np.zeros(operator.array_shape, dtype=bool)
    free[operator.lattice.free] = True
    return free


def solved(operations: Operations, settings: MultigridSettings = GALERKIN, stopping: Stopping = TINY) -> SolveResult:
    backend, f = operations.backend, source_of(operations.operator)
    method = ConjugateGradients(operations, Multigrid(operations, settings.self_adjoint()))
    return method.solve(backend.from_host(np.zeros_like(f)), backend.from_host(f), stopping=stopping)
