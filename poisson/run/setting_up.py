# SPDX-License-Identifier: MIT
"""The set-up of a solver: the backend, the division of the grid, the operator, the method, and room for all of it."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from poisson import backends
from poisson.backends import registry as backend_registry
from poisson.backends.base import Backend
from poisson.backends.ledger import counted
from poisson.backends.registry import AUTO
from poisson.case.settings import VECTORS
from poisson.discrete.discretisation import Discretisation, Operator
from poisson.discrete.samples import Samples
from poisson.errors import BackendFailed, BackendUnavailable, ResourceError
from poisson.mesh.differences import Differences
from poisson.mesh.lattice import Lattice
from poisson.problem.expressions import Expression
from poisson.problem.problem import Problem
from poisson.run.devices import communicator_for, take_place
from poisson.run.memory import require_memory
from poisson.run.ranks import Ranks
from poisson.run.setup import Setup
from poisson.solvers import registry
from poisson.solvers.choose import choose
from poisson.solvers.entries import Given
from poisson.solvers.mixed import in_float32
from poisson.solvers.multigrid import CoarserProblems
from poisson.solvers.settings import RunSettings, SolverSettings
from poisson.solvers.spectrum import nearly_singular

DTYPES: Mapping[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}

log = logging.getLogger(__name__)


def set_up(
    problem: Problem,
    settings: SolverSettings,
    run: RunSettings,
    ranks: Ranks,
    fields: tuple[str, ...],
    order: int,
    *,
    count: bool,
    divided: Callable[[], Problem],
    failed: Mapping[str, str] = MappingProxyType({}),
) -> Setup:
    """Everything that does not depend on the source.

    Parameters
    ----------
    problem : Problem
        What to solve; the values of its arrays are not read yet.
    settings, run : SolverSettings, RunSettings
        How, and where.
    ranks : Ranks
        Which get their parts of the grid here.
    fields : tuple of str
        What a solution is to hold beside u.
    order : int
        Of the differences of vectors.
    count : bool
        Whether operations are counted.
    divided : callable
        Called when every rank knows its part: the problem with the values of its arrays there.
    failed : mapping
        The backends that ``auto`` has tried, with what they failed by.

    Raises
    ------
    NextBackend
        If the backend that ``auto`` has taken fails, and another one may not.
    """
    local = local_backend(ranks, run, failed)
    vectors = any(name in VECTORS for name in fields)
    with falling_back(local, run, ranks):
        divide(problem, settings, ranks, local, order if vectors else 0)
        problem = divided()
        return _on(local, problem, settings, run, ranks, fields, order, count=count)


class NextBackend(Exception):
    """The backend that ``auto`` has taken has failed.

    Parameters
    ----------
    name : str
        The backend.
    reason : str
        By what it failed. Not the error, which would hold the memory of the device.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


@contextlib.contextmanager
def falling_back(local: Backend, run: RunSettings, ranks: Ranks) -> Iterator[None]:
    """Within, what a backend fails by has one line; where ``auto`` has taken it and there is another, it is tried next.

    Several ranks have one backend, and end with the error: not all of them may have failed. Where memory is short on
    the host, no other backend of the host has more.

    Raises
    ------
    NextBackend
        If there is another one.
    """
    try:
        with backends.reported():
            yield
    except (BackendFailed, BackendUnavailable, ResourceError, MemoryError) as error:
        short = isinstance(error, (ResourceError, MemoryError)) and local.on_host
        if run.backend != AUTO or ranks.size > 1 or short or local.name == tuple(backend_registry.BACKENDS)[-1]:
            raise
        raise NextBackend(local.name, str(error) or "too little memory") from None


def set_up_on(
    before: Setup,
    problem: Problem,
    settings: SolverSettings,
    run: RunSettings,
    ranks: Ranks,
    fields: tuple[str, ...],
    order: int,
) -> Setup:
    """The same for a problem with another operator on the same grid; arguments are as for `set_up`.

    Parameters
    ----------
    before : Setup
        Of the problem before, whose backend and part of the grid stay.
    """
    return _on(before.local, problem, settings, run, ranks, fields, order, count=before.ledger is not None)


def renewed(
    setup: Setup, problem: Problem, before: Problem, settings: SolverSettings, run: RunSettings, ranks: Ranks
) -> bool:
    """Give a setup the coefficients of another problem on the same grid, in the arrays and with all else that it has.

    Parameters
    ----------
    setup : Setup
        Of the problem before.
    problem, before : Problem
        The other problem and the one before.
    settings, run, ranks : SolverSettings, RunSettings, Ranks
        As for `set_up`.

    Returns
    -------
    bool
        Whether it could. Otherwise the setup is of no use any more, and `set_up_on` makes another one: where a or c is
        now a number and was none, or the other way round, the problem has become singular or is so no longer, the grids
        of multigrid are other ones, ``auto`` chooses another method, or the solve stops at the discretisation error.
    """
    old, samples = setup.operator, setup.samples or Samples(setup.backend, setup.operator)
    if setup.coarser is not None or not samples.fit(problem):
        return False
    setup.samples, samples.changed = samples, False
    discretisation = Discretisation(problem, share=ranks.share)
    operator = discretisation.operator_on(setup.backend, samples, unchanged(problem, before))
    if samples.changed or _numbers(operator) != _numbers(old):
        if (operator.singular, nearly_singular(operator)) != (old.singular, nearly_singular(old)):
            return False
        setup.rebind(operator)
        if setup.choice is not None:
            choice = ranks.of_first(choose(setup.operations, settings, run.precision, setup.choice))
            if (choice.settings, choice.precision) != (setup.settings, setup.precision):
                return False
            setup.choice, setup.origin = choice, {}
        if not setup.refresh():
            return False
    setup.take_boundary(discretisation)
    return True


def _numbers(operator: Operator) -> tuple[Any, ...]:
    """The numbers of an operator that depend on its coefficients, beside their arrays."""
    found = operator.coefficients
    return operator.a, operator.c, *((found.a_range, found.c_range, found.alpha) if found else ())


def _on(
    local: Backend,
    problem: Problem,
    settings: SolverSettings,
    run: RunSettings,
    ranks: Ranks,
    fields: tuple[str, ...],
    order: int,
    *,
    count: bool,
) -> Setup:
    precision, vectors = run.precision, any(name in VECTORS for name in fields)
    backend, discretisation = ranks.over(local), Discretisation(problem, share=ranks.share)
    room = partial(_require_room, ranks, local, discretisation, fields)
    room(settings, precision)
    operations = backend.bind(discretisation.operator_on(backend))
    choice = None
    if settings.method == AUTO:
        choice = ranks.of_first(choose(operations, settings, precision))
        log.info("%s", choice.line)
        settings, precision = choice.settings, choice.precision
        room(settings, precision, coefficients=False)
    local_counting, ledger = counted(local) if count else (local, None)
    counting = ranks.over(local_counting) if count else backend
    stand_in = counting.bind(operations.operator) if count else operations
    inner = None
    if precision == "mixed":
        inner = counting.companion(np.float32).bind(in_float32(operations))
    coarser = CoarserProblems(backend, discretisation) if settings.stopping.stop == "discretisation" else None
    method = registry.make_method(Given(stand_in, settings, inner=inner, coarser=coarser))
    setup = Setup(
        operations=operations,
        stand_in=stand_in,
        ledger=ledger,
        choice=choice,
        settings=settings,
        precision=precision,
        method=method,
        norms=backend.reduction(),
        local=local,
        differences=_differences(discretisation, order) if vectors else None,
        inner=inner,
        coarser=coarser,
    )
    setup.make_ready()
    setup.take_boundary(discretisation)
    setup.method = setup.with_others(method)
    return setup


def local_backend(ranks: Ranks, run: RunSettings, failed: Mapping[str, str] = MappingProxyType({})) -> Backend:
    """The backend of this process; all ranks have the same one. Those that have `failed` are not tried again."""
    threads = take_place(ranks.communicator, run.backend, run.threads)
    with ranks.agreed():
        dtype = DTYPES[run.dtype]
        local = backends.instead_of(failed, dtype, threads) if failed else backends.create(run.backend, dtype, threads)
    names = ranks.everyone(local.name)
    if len(set(names)) > 1:
        places = dict(zip(names, ranks.hosts, strict=True))
        found = ", ".join(f"{name} on {host}" for name, host in places.items())
        raise BackendUnavailable(f"the processes would run on different backends ({found}): set run.backend")
    ranks.communicator = communicator_for(ranks.communicator, local)
    return local


def divide(problem: Problem, settings: SolverSettings, ranks: Ranks, local: Backend, order: int) -> None:
    """Give each rank its part of the grid, with a halo for the method, and for differences of that order."""

    def halo(part: Lattice) -> int:
        return max(registry.halo_of(settings, local.bind(Operator(part)).depth()), order)

    ranks.divide(Discretisation(problem).whole_lattice, halo, planes=registry.needs_planes(settings))


def _differences(discretisation: Discretisation, order: int) -> Differences:
    if discretisation.share is None:
        return Differences(discretisation.whole_lattice, order)
    return Differences(discretisation.share.lattice, order)


def _require_room(
    ranks: Ranks,
    local: Backend,
    discretisation: Discretisation,
    fields: tuple[str, ...],
    settings: SolverSettings,
    precision: str,
    *,
    coefficients: bool = True,
) -> None:
    """`require_memory` on every rank."""
    nodes = None if discretisation.share is None else math.prod(discretisation.array_shape)
    beside = ranks.beside
    with ranks.agreed():
        require_memory(
            *(local, discretisation.problem, settings, precision, fields),
            coefficients=coefficients,
            nodes=nodes,
            beside=beside,
        )


def unchanged(problem: Problem, other: Problem) -> frozenset[str]:
    """The names of `a` and `c`, with α of Robin faces, that are certainly the same in two problems with other data."""
    alphas = ((one.alpha, two.alpha) for one, two in zip(problem.faces, other.faces, strict=True))
    pairs: dict[str, list[tuple[Any, Any]]] = {"a": [(problem.a, other.a)], "c": [(problem.c, other.c), *alphas]}
    return frozenset(name for name, values in pairs.items() if all(_alike(*pair) for pair in values))


def same_operator(problem: Problem, other: Problem) -> bool:
    """Whether two problems that differ in their data have the same operator for certain."""
    identical = problem.a is other.a and problem.c is other.c and problem.faces is other.faces
    return identical or unchanged(problem, other) == {"a", "c"}


def _alike(one: Any, two: Any) -> bool:
    return one is two or (isinstance(one, (int, float, Expression)) and bool(one == two))
