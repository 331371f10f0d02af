# SPDX-License-Identifier: MIT
"""Finite-difference solution of Poisson problems on a box: −∇·(a∇u) + c u = f.

What to call for what:

    State a problem
      Problem.on_box(shape, f=…, a=…, c=…, boundary=…)  from numbers, texts, functions and arrays
      Body("x**2 + y**2 < 0.1**2", dirichlet=1.0)       an electrode or obstacle in the box, for bodies=[…]
      load_case("case.toml")                            from a case file, with its settings
    Solve it
      solve(problem, "multigrid", rtol=1e-10)           once
      Solver(problem).solve(f=…)                        for many sources, with all set up once
      LinearOperator(problem)                           as a matrix, for the solvers of SciPy
      capacitance(problem)                              of conductors in the box: a Capacitance
      effective(image, phases)                          the effective conductivity of voxels: an Effective
    What comes back: a Solution
      .u  .status  .residual  .error  .history          the values, and how it ended
      .E  .gradient  .flux  .at(x, y)  .fluxes()        derivatives, between the nodes, through the faces
      .plot()  .to_xarray()  .save("u.h5")              pictures and files
      load("u.h5")                                      a Solution again
    What can go wrong
      PoissonError                                      what a caller can mend, in one line
      NotConverged                                      a warning; with strict=True an error
      CheckWarning                                      what `python -m poisson check` is concerned about
      Interrupted                                       Ctrl-C; its .solution is the last iterate

>>> import poisson
>>> problem = poisson.Problem.on_box((33, 33), f="2*pi*pi*sin(pi*x)*sin(pi*y)", boundary=0.0)
>>> solution = poisson.solve(problem)
>>> print(solution.status, round(solution.at(0.5, 0.5), 3))
converged 1.001
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
    from poisson.errors import CheckWarning as CheckWarning
    from poisson.errors import NotConverged as NotConverged
    from poisson.errors import PoissonError as PoissonError
    from poisson.problem.bodies import Body as Body
    from poisson.problem.problem import Problem as Problem
    from poisson.run.conductors import Capacitance as Capacitance
    from poisson.run.conductors import capacitance as capacitance
    from poisson.run.effective import Effective as Effective
    from poisson.run.effective import effective as effective
    from poisson.run.run import solve as solve
    from poisson.run.saved import load as load
    from poisson.run.scipy_operator import LinearOperator as LinearOperator
    from poisson.run.solution import Interrupted as Interrupted
    from poisson.run.solution import Solution as Solution
    from poisson.run.solver import Solver as Solver
    from poisson.solvers.status import Status as Status

_PLACES = {
    "Body": ("poisson.problem.bodies", "Body"),
    "Case": ("poisson.case", "Case"),
    "load_case": ("poisson.case", "load"),
    "Capacitance": ("poisson.run.conductors", "Capacitance"),
    "CheckWarning": ("poisson.errors", "CheckWarning"),
    "NotConverged": ("poisson.errors", "NotConverged"),
    "PoissonError": ("poisson.errors", "PoissonError"),
    "capacitance": ("poisson.run.conductors", "capacitance"),
    "Effective": ("poisson.run.effective", "Effective"),
    "effective": ("poisson.run.effective", "effective"),
    "Interrupted": ("poisson.run.solution", "Interrupted"),
    "LinearOperator": ("poisson.run.scipy_operator", "LinearOperator"),
    "Problem": ("poisson.problem.problem", "Problem"),
    "load": ("poisson.run.saved", "load"),
    "solve": ("poisson.run.run", "solve"),
    "Solution": ("poisson.run.solution", "Solution"),
    "Solver": ("poisson.run.solver", "Solver"),
    "Status": ("poisson.solvers.status", "Status"),
}

__all__ = [
    "Body",
    "Capacitance",
    "Case",
    "CheckWarning",
    "Effective",
    "Interrupted",
    "LinearOperator",
    "NotConverged",
    "PoissonError",
    "Problem",
    "Solution",
    "Solver",
    "Status",
    "capacitance",
    "effective",
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


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__version__"]
