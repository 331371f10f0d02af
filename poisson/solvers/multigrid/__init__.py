# SPDX-License-Identifier: MIT
"""Multigrid on nodes, for any number of nodes, any mix of faces and any ratio of spacings."""

from poisson.solvers.multigrid.coarser import CoarserProblems
from poisson.solvers.multigrid.settings import MultigridSettings
from poisson.solvers.multigrid.solver import Multigrid

__all__ = ["CoarserProblems", "Multigrid", "MultigridSettings"]
