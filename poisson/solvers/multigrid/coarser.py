# SPDX-License-Identifier: MIT
"""A problem discretised anew on coarser grids, with what the solution there says about that on the finest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING

from poisson.errors import CaseError, GridError
from poisson.mesh.axis_transfer import common

if TYPE_CHECKING:
    from poisson.backends.base import Array, Backend
    from poisson.discrete.discretisation import Discretisation
    from poisson.discrete.operator import Operator
    from poisson.problem.bodies import Body
    from poisson.problem.faces import Face

MOST = 2
"""Coarser grids: the first shows the size of the error, the second how fast it falls."""


@dataclass(frozen=True)
class CoarserProblem:
    """A u = f on a coarser grid.

    `operator`: A, whose coefficients are sampled on this grid as those of the finest are on its own. `u` (Array): with
    the Dirichlet values at fixed nodes. `f` (Array): the source with its face terms, zero at fixed nodes.
    """

    operator: Operator
    u: Array
    f: Array


class CoarserProblems:
    """A problem on up to `MOST` coarser grids, each with about half the intervals of the one before along every axis.

    They are not the levels of a multigrid cycle, whose operators and sources are averages over finer ones: these would
    carry the error of the finest grid along, and a comparison would not show it.

    `backend`: where the arrays are. `discretisation`: on the finest grid. `grids`: from the finer to the coarser one.
    `problems`: the discretisations there, of the data that were loaded last. `loads`: how often boundary values were.
    Raises `GridError` if an axis has too few nodes; `CaseError` if a coefficient is not finite on a coarser grid, or
    not positive.
    """

    def __init__(self, backend: Backend, discretisation: Discretisation) -> None:
        self._backend = backend
        self.problems: tuple[Discretisation, ...] = tuple(_chain(backend, discretisation))
        grids = []
        for coarser in self.problems:
            with _named(coarser):
                operator = coarser.operator_on(backend)
            shape = operator.array_shape
            grids.append(CoarserProblem(operator, backend.empty(shape), backend.empty(shape)))
        if not grids:
            raise no_coarser(discretisation.problem.lattice.shape)
        self.grids = tuple(grids)
        self._operator = discretisation.laplacian
        self._held: tuple[tuple[Face, ...], tuple[Body, ...]] | None = None
        self.loads = 0

    def load(self, discretisation: Discretisation, f: Array | None = None) -> None:
        """Fill the arrays for a problem that differs from the first one in the source only.

        `f` (Array): the source on the finest grid, if it is known and has no terms of faces or bodies. A coarser grid
        whose nodes are among those of the finer one then takes its own from there. Raises `CaseError` if the data are
        not finite on a coarser grid.
        """
        from poisson.discrete.discretisation import carry

        problem = discretisation.problem
        held = problem.faces, problem.bodies
        # Where these are as they were, so are the values at fixed nodes.
        kept = self._held is not None and all(map(is_, held, self._held)) and all(face.lasts for face in problem.faces)
        self.loads += not kept
        finer = self._operator
        before, self.problems = self.problems, tuple(_chain(self._backend, discretisation))
        for coarser, last, grid in zip(self.problems, before, self.grids, strict=True):
            carry(coarser.problem, last.problem)
            shape = grid.operator.array_shape
            with _named(coarser), coarser.agreed():
                if not kept:
                    self._backend.assemble(shape, coarser.initial, grid.u)
                nodes = f is not None and _common(finer, grid.operator)
                if nodes:
                    with self._backend.ordered():
                        self._backend.view(grid.f)[...] = self._backend.view(f)[nodes]
                else:
                    self._backend.assemble(shape, coarser.source, grid.f)
            finer, f = grid.operator, grid.f if nodes else None
        self._held = held


def no_coarser(shape: Sequence[int]) -> GridError:
    """The error that there is no coarser grid to compare with, for nodes along x(, y(, z))."""
    return GridError(
        "solver.stop = 'discretisation' compares the solution with the solution on a grid of half the intervals, and "
        f"domain.shape = {list(shape)} has no such grid: use at least 4 nodes along every axis (5 where it is "
        "periodic), or solver.stop = 'residual'"
    )


def _chain(backend: Backend, discretisation: Discretisation) -> Iterator[Discretisation]:
    coarser = discretisation.coarser(backend.coarse_lattice)
    for _ in range(MOST):
        if coarser is None:
            return
        yield coarser
        coarser = coarser.coarser(backend.coarse_lattice)


def _common(fine: Operator, coarse: Operator) -> tuple[slice, ...] | None:
    """The index of the nodes of a coarser grid in the arrays of a finer one; None where some lie between nodes."""
    nodes = [common(*axes) for axes in zip(fine.lattice.axes[::-1], coarse.lattice.axes[::-1], strict=True)]
    return tuple(slice(each.start, each.stop, each.step) for each in nodes if each) if all(nodes) else None


@contextmanager
def _named(discretisation: Discretisation) -> Iterator[None]:
    """Say of a mistake in the data on which grid it was found: those of the finest have been read before."""
    try:
        yield
    except CaseError as error:
        shape = list(discretisation.problem.lattice.shape)
        grid = f"on the grid of {shape} nodes that solver.stop = 'discretisation' compares with"
        raise CaseError([f"{mistake}, also {grid}" for mistake in error.mistakes]) from error
