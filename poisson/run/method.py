# SPDX-License-Identifier: MIT
"""The method of a solver, set up on its operator, and set up again for other coefficients."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from poisson.backends.base import Backend
from poisson.backends.ledger import counted
from poisson.backends.registry import AUTO
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.samples import Samples
from poisson.errors import CaseError
from poisson.mesh.differences import ORDERS, Differences
from poisson.problem.problem import Problem
from poisson.run.backend import local_backend, next_backend
from poisson.run.certificate import with_surfaces
from poisson.run.memory import Free, Room, require_memory
from poisson.run.operator import divide, numbers_of, unchanged
from poisson.run.request import Request
from poisson.run.setup import Setup
from poisson.solvers import registry
from poisson.solvers.choose import choose
from poisson.solvers.entries import Given
from poisson.solvers.mixed import in_float32
from poisson.solvers.multigrid import CoarserProblems
from poisson.solvers.spectrum import nearly_singular

log = logging.getLogger(__name__)


def set_up(request: Request, divided: Callable[[], Problem], failed: Mapping[str, str] = MappingProxyType({})) -> Setup:
    """Everything that does not depend on the source.

    `request`: the values of the problem's arrays are not read yet; the ranks get their parts of the grid here.
    `divided`: called when every rank knows its part: the problem with the values of its arrays there. `failed`: the
    backends that ``auto`` has tried, with what they failed by. Raises `NextBackend` if the backend that ``auto`` has
    taken fails, and another one may not.
    """
    local = local_backend(request, failed)
    try:
        divide(request, local)
        return set_up_on(local, replace(request, problem=divided()))
    except Exception as error:
        raise next_backend(error, local, request) from None


def set_up_on(local: Backend, request: Request) -> Setup:
    """The same on the backend and on the parts of the grid that there are."""
    problem, settings, precision, ranks = request.problem, request.settings, request.run.precision, request.ranks
    backend, discretisation = ranks.over(local), Discretisation(problem, share=ranks.share)
    room, free = Room.of(request), Free(local)
    with ranks.agreed():
        require_memory(local, room, free)
    operations = with_surfaces(backend.bind(discretisation.operator_on(backend)), discretisation)
    choice = None
    if settings.method == AUTO:
        choice = ranks.of_first(choose(operations, settings, precision))
        log.info("%s", choice.line)
        settings, precision = choice.settings, choice.precision
        with ranks.agreed():
            require_memory(local, replace(room, settings=settings, precision=precision), free)
    local_counting, ledger = counted(local) if request.count else (local, None)
    counting = ranks.over(local_counting) if request.count else backend
    if problem.open_faces:
        settings = registry.method_of(settings).resuming(settings)  # there will be an initial guess
    stand_in = with_surfaces(counting.bind(operations.operator), discretisation) if request.count else operations
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
        discretisation=discretisation,
        differences=_differences(discretisation, request.order) if request.vectors else None,
        inner=inner,
        coarser=coarser,
    )
    setup.make_ready()
    setup.take_boundary(discretisation)
    setup.method = setup.with_others(method)
    if problem.open_faces:
        from poisson.run.open_space import opened

        setup.method = opened(setup)
    return setup


def renewed(setup: Setup, request: Request, before: Problem) -> bool:
    """Give a setup the coefficients of another problem on the same grid, in the arrays and with all else that it has.

    `setup`: of the problem before. `request`: with the other problem. `before`: the one before. Returns: whether it
    could. Otherwise the setup is of no use any more, and `set_up_on` makes another one: where a or c is now a number
    and was none, or the other way round, the problem has become singular or is so no longer, the grids of multigrid are
    other ones, ``auto`` chooses another method, or the solve stops at the discretisation error.
    """
    problem, old, samples = request.problem, setup.operator, setup.samples or Samples(setup.backend, setup.operator)
    discretisation = Discretisation(problem, share=request.ranks.share)
    if setup.coarser is not None or old.fixed or problem.bodies or not samples.fit(discretisation.varying):
        return False
    setup.samples, samples.changed = samples, False
    operator = discretisation.operator_on(setup.backend, samples, unchanged(problem, before))
    if operator.fixed:
        return False
    if samples.changed or numbers_of(operator) != numbers_of(old):
        if (operator.singular, nearly_singular(operator)) != (old.singular, nearly_singular(old)):
            return False
        setup.rebind(operator)
        if setup.choice is not None:
            choice = request.ranks.of_first(
                choose(setup.operations, request.settings, request.run.precision, setup.choice)
            )
            if (choice.settings, choice.precision) != (setup.settings, setup.precision):
                return False
            setup.choice, setup.origin = choice, {}
        if not setup.refresh():
            return False
    setup.take_boundary(discretisation)
    return True


def _differences(discretisation: Discretisation, order: int) -> Differences:
    if discretisation.problem.bodies and order != ORDERS[0]:
        raise CaseError(f"order: {order}; allowed: {ORDERS[0]} with bodies in the box")
    if discretisation.share is None:
        return Differences(discretisation.whole_lattice, order)
    return Differences(discretisation.share.lattice, order)
