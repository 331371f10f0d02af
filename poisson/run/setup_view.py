# SPDX-License-Identifier: MIT
"""The set-up of a solver, as the solver shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poisson.solvers import registry

if TYPE_CHECKING:
    from poisson.backends.base import Backend
    from poisson.backends.ledger import Ledger
    from poisson.discrete.operator import Operator
    from poisson.run.setup import Setup


class SetupView:
    """The backend, the operator and the method of a set-up."""

    _setup: Setup

    @property
    def backend(self) -> Backend:
        """Where it solves.

        Examples
        --------
        >>> poisson.Solver(poisson.Problem.on_box((33, 33)), backend="numpy").backend.name
        'numpy'
        """
        return self._setup.backend

    @property
    def local_backend(self) -> Backend:
        """The backend of this process where others have parts of the grid; else the same as `backend`.

        Examples
        --------
        >>> solver = poisson.Solver(poisson.Problem.on_box((33, 33)))
        >>> solver.local_backend is solver.backend
        True
        """
        return self._setup.local

    @property
    def operator(self) -> Operator:
        """The discrete operator on the backend.

        Examples
        --------
        >>> poisson.Solver(poisson.Problem.on_box((33, 33))).operator.unknowns
        961
        """
        return self._setup.operator

    @property
    def ledger(self) -> Ledger | None:
        """The operations so far, if they are counted.

        Examples
        --------
        >>> poisson.Solver(poisson.Problem.on_box((33, 33))).ledger is None
        True
        """
        return self._setup.ledger

    @property
    def method(self) -> str:
        """The method that runs, with its main settings.

        Examples
        --------
        >>> poisson.Solver(poisson.Problem.on_box((33, 33)), "multigrid").method
        'multigrid (V(2,1), chebyshev)'
        """
        return self._setup.described

    @property
    def direct(self) -> bool:
        """Whether the method solves the problem but for rounding at once.

        Examples
        --------
        >>> poisson.Solver(poisson.Problem.on_box((33, 33))).direct
        True
        """
        return registry.method_of(self._setup.settings).direct
