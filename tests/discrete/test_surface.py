# SPDX-License-Identifier: MIT
"""Bodies in the operator: against assembled matrices, exact solutions and orders.

Covers poisson.discrete.surface.
"""

from __future__ import annotations

import numpy as np
import pytest

import poisson


@pytest.mark.parametrize("backend", ["openmp", "numpy"])
def test_a_linear_function_is_exact_beside_any_surface(backend: str) -> None:
    """On stretched nodes, with a that varies along the other axis, and links cut at both ends."""
    exact = "1 + 2*x"
    bodies = [
        poisson.Body("hypot(x - 0.4, y - 0.5) < 0.21", dirichlet=exact),
        poisson.Body("abs(x - 0.713) < 0.001", dirichlet=exact),
    ]
    axes = ({"nodes": np.linspace(0.0, 1.0, 19) ** 1.3}, {"uniform": (0.0, 1.0, 17)})
    problem = poisson.Problem.on_lattice(
        axes,
        a="1 + y",
        boundary={"x_lower": 1.0, "x_upper": 3.0, "y_lower": {"neumann": 0.0}, "y_upper": {"neumann": 0.0}},
        bodies=bodies,
    )
    solution = poisson.solve(problem, backend=backend, rtol=1e-12)
    x = problem.lattice.coordinates(0)
    assert np.abs(solution.u - (1.0 + 2.0 * x)).max() < 1e-10
