# SPDX-License-Identifier: MIT
"""Methods on lattices of stretched nodes and cells: they are written in operations, and ask the axes the rest."""

import numpy as np
import pytest
from support.axes import D, N, P, R
from support.multigrid import solver_of, source

from poisson.backends import create
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes
from poisson.solvers.multigrid.smoothers import Phase
from poisson.solvers.settings import SolverSettings
from poisson.solvers.status import Status
from poisson.solvers.stopping import Stopping


def stretched(count: int) -> np.ndarray:
    """Marks on [0, 1] that lie up to about twice as close together at one end as at the other."""
    place = np.linspace(0.0, 1.0, count)
    return np.asarray(place + 0.3 * place * (1.0 - place))


LATTICES = {
    "walls": Lattice((Axis.placed(Nodes(stretched(33), (D, D))), Axis.placed(Cells(stretched(33), (D, N))))),
    "cells": Lattice(
        (Axis.placed(Cells(stretched(33), (R, D), (3.0, 0.0))), Axis.placed(Cells(stretched(41), (P, P))))
    ),
    "free": Lattice((Axis.placed(Cells(stretched(33), (N, N))), Axis.placed(Nodes(stretched(33), (N, N))))),
    "box": Lattice(
        (
            Axis.placed(Nodes(stretched(17), (D, N))),
            Axis.between(0.0, 1.0, 16, (P.rule, P.rule)),
            Axis.placed(Cells(stretched(17), (N, D))),
        )
    ),
}


@pytest.mark.parametrize("name", LATTICES)
@pytest.mark.parametrize("method", ["multigrid", "cg", "fft", "chebyshev"])
@pytest.mark.parametrize("backend_name", ["numpy", "openmp"])
def test_methods_solve_on_placed_axes(name: str, method: str, backend_name: str) -> None:
    backend, operator = create(backend_name, np.float64), Operator(LATTICES[name])
    assert operator.singular == (name == "free")
    operations, f = backend.bind(operator), source(backend, operator)
    u, expected = (backend.from_host(np.zeros(operator.array_shape)) for _ in range(2))
    backend.bind(Inverse(operations.operator)).solve(backend.from_host(backend.to_host(f)), expected)
    settings = SolverSettings().having(method=method)
    result = solver_of(operations, settings).solve(u, f, stopping=Stopping(rtol=1e-9))
    assert result.status is Status.CONVERGED
    if method == "multigrid":
        assert result.iterations <= 16
    expected = backend.to_host(expected)
    error = backend.to_host(result.u) - expected
    if operator.singular:
        error -= np.average(error, weights=operator.lattice.volumes())
    assert np.abs(error).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize(("upper", "cycles"), [((1.0, 1.0, 1.0), 6), ((1.0, 4.0, 1.0), 6)])
@pytest.mark.parametrize("backend_name", ["numpy", "openmp"])
def test_cells_have_a_sweep_more_where_several_axes_are_coarsened(
    backend_name: str, upper: tuple[float, ...], cycles: int
) -> None:
    lines = tuple(Axis.placed(Cells(np.linspace(0.0, end, 33), (D, D))) for end in upper)
    backend, operator = create(backend_name, np.float64), Operator(Lattice(lines))
    u, f = backend.from_host(np.zeros(operator.array_shape)), source(backend, operator)
    solver = solver_of(backend.bind(operator), SolverSettings().having(method="multigrid"))
    sweeps = [len(solver.cycle.smoother.omegas(Phase(0, up=up, down=not up))) for up in (False, True)]
    assert sweeps == [3 if upper[1] == 1.0 else 4, 1]
    result = solver.solve(u, f, stopping=Stopping(rtol=1e-8))
    assert (result.status, result.iterations) == (Status.CONVERGED, cycles)
