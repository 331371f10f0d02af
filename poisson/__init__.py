"""Finite-difference solution of Poisson problems on a box: −∇·(a∇u) + c u = f.

>>> import poisson
>>> case = poisson.load_case("cases/unit_square.toml")     # doctest: +SKIP
>>> solution = poisson.solve(case)                          # doctest: +SKIP
>>> solution.status, solution.residual, solution.u.shape    # doctest: +SKIP
"""

from __future__ import annotations

__version__ = "0.1.0"

# Nothing is imported here, not even from Python's library: with `python -m poisson` this module runs first, and until
# `poisson.__main__` has put that right, a typing.py in the current folder would be taken for Python's.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from poisson.case import Case as Case
    from poisson.case import load as load_case
    from poisson.errors import PoissonError as PoissonError
    from poisson.problem.problem import Problem as Problem
    from poisson.run.load import load as load
    from poisson.run.run import solve as solve
    from poisson.run.scipy_operator import LinearOperator as LinearOperator
    from poisson.run.solution import Interrupted as Interrupted
    from poisson.run.solution import Solution as Solution
    from poisson.run.solver import Solver as Solver
    from poisson.solvers.status import Status as Status

_PLACES = {
    "Case": ("poisson.case", "Case"),
    "load_case": ("poisson.case", "load"),
    "PoissonError": ("poisson.errors", "PoissonError"),
    "Interrupted": ("poisson.run.solution", "Interrupted"),
    "LinearOperator": ("poisson.run.scipy_operator", "LinearOperator"),
    "Problem": ("poisson.problem.problem", "Problem"),
    "load": ("poisson.run.load", "load"),
    "solve": ("poisson.run.run", "solve"),
    "Solution": ("poisson.run.solution", "Solution"),
    "Solver": ("poisson.run.solver", "Solver"),
    "Status": ("poisson.solvers.status", "Status"),
}

__all__ = [
    "Case",
    "Interrupted",
    "LinearOperator",
    "PoissonError",
    "Problem",
    "Solution",
    "Solver",
    "Status",
    "load",
    "load_case",
    "solve",
]


def __getattr__(name: str) -> Any:
    # The parts are imported when they are asked for, so that `import poisson` stays fast.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _PLACES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
