# SPDX-License-Identifier: MIT
"""The weight of Jacobi: 1, but on grids where that leaves a mode undamped."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.operators import operator, random_array
from support.problems import SINE, WALLS, discretise, make_case

from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.mesh.boundary import Rule
from poisson.run import run
from poisson.solvers.jacobi import damping
from poisson.solvers.status import Status

F, M, W = Rule.FIXED, Rule.MIRROR, Rule.WRAP

BACKEND = NumpyBackend(np.float64)


@pytest.mark.parametrize(
    ("shape", "rules", "c", "undamped"),
    [
        ((9, 9), (F,) * 4, 0.0, True),
        ((9, 8), (F, F, M, M), 0.0, True),
        ((8, 9), (W, W, W, W), 0.0, True),
        ((9, 9), (W, W, M, M), 0.0, True),
        ((8, 8), (W, W, W, W), 0.5, True),
        ((8, 8), (W, W, W, W), 0.0, False),
        ((9, 6), (M,) * 4, 0.0, False),
        ((8, 5), (W, W, M, M), 0.0, False),
        ((8, 5, 4), (W, W, M, M, W, W), 0.0, False),
    ],
)
def test_damping_only_where_a_mode_would_not_decay(
    shape: tuple[int, ...], rules: tuple[Rule, ...], c: float, undamped: bool
) -> None:
    a = operator(shape, rules, c)
    free = ~reference.fixed_nodes(a).ravel()
    scaled = np.linalg.eigvals(reference.matrix(a).toarray()[np.ix_(free, free)]).real / a.diagonal
    factors = np.abs(1.0 - damping(BACKEND.bind(a)) * scaled[np.abs(scaled) > 1e-10])
    assert factors.max() < 1.0 - 1e-3
    assert (damping(BACKEND.bind(a)) == 1.0) == undamped
    if not undamped:
        lowest, highest = (value / a.diagonal for value in a.eigenvalues())
        assert highest == pytest.approx(2.0, rel=1e-14)
        # The smoothest and the roughest mode decay alike.
        assert factors.max() == pytest.approx((highest - lowest) / (highest + lowest), rel=1e-12)


SINGULAR = [
    ({"x": "periodic", "y": "periodic"}, (8, 6)),
    ({"x": "periodic", "y": "periodic"}, (9, 7)),
    ({"x": "periodic", "all": {"neumann": 0.0}}, (8, 6)),
    ({"x": "periodic", "all": {"neumann": 0.0}}, (7, 9)),
    ({"all": {"neumann": 0.0}}, (9, 8)),
    ({"all": {"neumann": 0.0}}, (5, 4, 6)),
    ({"x": "periodic", "y": "periodic", "z": "periodic"}, (4, 6, 5)),
]


@pytest.mark.parametrize(("boundary", "shape"), SINGULAR)
def test_singular_problems_with_a_rough_source_converge(
    boundary: dict[str, Any], shape: tuple[int, ...], tmp_path: Path
) -> None:
    f = random_array(shape[::-1], np.float64, 3)
    # The checkerboard is the mode that plain Jacobi would not damp.
    f += np.indices(f.shape).sum(axis=0) % 2
    weights = np.ones_like(f)
    for axis, name in enumerate("xyz"[: len(shape)]):
        if name not in boundary:
            place = len(shape) - 1 - axis
            weights[(slice(None),) * place + (0,)] *= 0.5
            weights[(slice(None),) * place + (-1,)] *= 0.5
    f -= (weights * f).sum() / weights.sum()
    np.save(tmp_path / "f.npy", f)
    case = make_case({"f": {"file": "f.npy"}}, boundary, shape, folder=tmp_path)
    solution = run.solve(case)
    assert solution.status is Status.CONVERGED
    direct = reference.solve(discretise(case))
    np.testing.assert_allclose(solution.u, direct, rtol=0, atol=1e-6 * np.abs(direct).max())


def test_a_weight_that_leaves_a_mode_undamped_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    boundary = {"x": "periodic", "y": "periodic"}
    checkerboard = {"f": "cos(4*pi*x)*cos(4*pi*y)"}
    overrides = ("solver.omega=1.0", "solver.max_iterations=300")
    solution = run.solve(make_case(checkerboard, boundary, (4, 4), overrides=overrides))
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage() == (
        "solver.omega = 1 does not damp the mode that alternates from node to node on this grid without Dirichlet "
        "faces; 0.8 damps every mode"
    )
    assert solution.status is Status.MAX_ITERATIONS
    assert solution.history[-1][1] == pytest.approx(solution.history[0][1], rel=1e-12)
    caplog.clear()
    assert run.solve(make_case(checkerboard, boundary, (4, 4))).status is Status.CONVERGED
    assert run.solve(make_case(SINE, WALLS, (9, 9), overrides=("solver.omega=1.0",))).status is Status.CONVERGED
    # With a c that is next to nothing no other weight is better.
    nearly = checkerboard | {"c": 1e-9}
    run.solve(make_case(nearly, boundary, (4, 4), overrides=("solver.max_iterations=10",)))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
