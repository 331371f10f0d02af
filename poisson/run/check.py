# SPDX-License-Identifier: MIT
"""Whether a case can be solved here, how, and at what cost: found out without an array of the grid's size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from poisson.backends.registry import AUTO
from poisson.case import Case
from poisson.discrete.balance import Balance, balance_of, balanced
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.surface import surface_of
from poisson.errors import IncompatibleSource, PoissonError
from poisson.problem.fields import ArrayField, FieldFile
from poisson.problem.problem import Problem
from poisson.run.backend import local_backend
from poisson.run.concerns import Concern, Subject, concerns_of
from poisson.run.memory import Free, Need, Room, needs, require_memory, result_bytes
from poisson.run.operator import divide
from poisson.run.ranks import communicator_of
from poisson.run.request import Request
from poisson.run.sample import Sample
from poisson.solvers import registry
from poisson.solvers.choose import Choice, choose
from poisson.solvers.expected import Offer, Outline, Question
from poisson.solvers.multigrid.coarser import no_coarser
from poisson.solvers.multigrid.hierarchy import grids_of
from poisson.solvers.registry import describe

MOST_BALANCED = 1 << 20
"""A grid of more nodes has its balance estimated on …"""

BALANCE_NODES = {1: 1 << 16, 2: 513, 3: 65}
"""… one of no more along each axis."""

CLEARLY = 0.1
"""A defect of this part of the data is one on any grid."""

SLOW, NEAR = 2.5, 64
"""A number of nodes is a concern where another, larger by so many at most, makes transforms so many times as fast."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Compatibility:
    """The defect by which a singular problem lacks a solution."""

    balance: Balance  # ∫f and ∮g.
    shift: float  # What is subtracted from f, in U/L².
    estimated: bool  # Whether they were integrated on a coarser grid.

    @property
    def relative(self) -> float:
        """The defect by what the data amount to."""
        return self.balance.defect / self.balance.scale if self.balance.scale else 0.0


@dataclass(frozen=True)
class Plan:
    """How a case would be solved here."""

    backend: str
    device: str
    # By what, and why.
    method: str
    reason: str
    precision: str
    seconds: float | None  # The time that the loop should take; None where it is not known.
    expectation: str  # The same in words, with the reason where it is not known.
    needs: tuple[Need, ...]  # Memory where the arrays are, if that is not the host's, and on the host.
    concerns: tuple[Concern, ...] = ()  # Sizes of the grid that make it slow.


@dataclass(frozen=True)
class Findings:
    """The findings about a case before it is solved."""

    case: Case
    singular: bool  # Whether u is determined up to a constant only.
    compatibility: Compatibility | None  # Of a singular problem.
    grids: tuple[tuple[int, ...], ...]  # The nodes along x(, y(, z)) of the grids of multigrid, the finest first.
    plan: Plan | None  # How it would be solved; None where there is no backend or no room for any method.
    result_bytes: int  # The size of the result.
    ranks: int  # Processes.
    concerns: tuple[Concern, ...]  # What may go wrong.
    mistakes: tuple[str, ...]  # Why it cannot be solved: a line each; none if it can.


@np.errstate(all="ignore")
def check(case: Case, *, comm: Any = None) -> Findings:
    """Find out what would become of a case, on the processes of a communicator, which all call this.

    No array of the size of the grid is made, and no file is written.
    """
    problem = case.problem
    if any(body.floating for body in problem.bodies):
        from poisson.run.conductors import held

        problem = held(problem, {})
    mistakes: list[str] = []

    def tried(work: Callable[[], Value]) -> Value | None:
        try:
            return work()
        except PoissonError as error:
            mistakes.extend(str(error).splitlines())
            return None

    sample = Sample(problem)
    mistakes += sample.mistakes
    if problem.bodies and problem.lattice.nodes <= MOST_BALANCED:
        tried(lambda: surface_of(problem).require())
    operator = sample.operator
    singular = operator.singular and not sample.mistakes
    compatibility = tried(lambda: _compatibility(problem)) if singular else None
    communicator = communicator_of(comm)
    request = tried(lambda: Request.of_case(case, communicator))
    plan = None if request is None else tried(lambda: _planned(request, sample, mistakes))
    return Findings(
        case=case,
        singular=singular,
        compatibility=compatibility,
        grids=tuple(shape[: problem.lattice.dimension] for shape in grids_of(operator)),
        plan=plan,
        result_bytes=result_bytes(problem.lattice, case.run.dtype, case.output.fields),
        ranks=communicator.size,
        concerns=(*concerns_of(Subject(sample, case.solver, case.run)), *(plan.concerns if plan else ())),
        mistakes=tuple(dict.fromkeys(mistakes)),
    )


def _compatibility(problem: Problem) -> Compatibility | None:
    """The balance of a singular problem; None where it takes too long to find.

    Raises IncompatibleSource if there is no solution.
    """
    volume = problem.lattice.volume
    if problem.lattice.nodes <= MOST_BALANCED:
        discretisation = Discretisation(problem)
        shift = balanced(discretisation, np).shift
        return Compatibility(balance_of(discretisation, np), shift, estimated=False)
    fields = (problem.f, *(face.value for face in problem.faces))
    if any(isinstance(field, (FieldFile, ArrayField)) for field in fields):
        return None
    grid, most = problem.lattice, BALANCE_NODES[problem.lattice.dimension]
    coarse = grid.resized([min(nodes, most) for nodes in grid.shape])
    balance = balance_of(Discretisation(replace(problem, lattice=coarse, c=0.0, a=1.0)), np)
    found = Compatibility(balance, balance.defect / volume, estimated=True)
    if abs(found.relative) > CLEARLY:
        raise IncompatibleSource(
            f"no face is dirichlet and c = 0, so ∫f + ∮g must be zero, but it is about {balance.defect:.3g}, "
            f"{abs(found.relative):.2g} of ∫|f| + ∮|g|: subtract {found.shift:.6g} from equation.f, or correct the "
            "boundary"
        )
    return found


def _planned(request: Request, sample: Sample, mistakes: list[str]) -> Plan | None:
    """How a case would be solved; adds what memory lacks to the mistakes.

    Raises PoissonError if there is no backend for it, or the grid cannot be divided.
    """
    problem, settings, precision = request.problem, request.settings, request.run.precision
    ranks = request.ranks
    local = local_backend(request)
    divide(request, local)
    lattice = None if ranks.share is None else ranks.share.lattice
    operator = sample.operator if lattice is None else replace(sample.operator, lattice=lattice)
    outline = Outline(ranks.over(local), operator, sample.mean_reaction, sample.roughness_of_links)
    question = Question(outline, settings, precision)
    if question.to_discretisation and problem.coarser() is None:
        raise no_coarser(problem.lattice.shape)
    if settings.method == AUTO:
        choice: Choice = ranks.of_first(choose(outline, settings, precision))
        settings, precision = choice.settings, choice.precision
        reason, seconds, expectation = choice.reason, choice.seconds if choice.steady else None, choice.expectation
    else:
        reason, (seconds, expectation) = "asked for", _asked(question)
    short: list[str] = []
    free = Free(local)
    try:
        room = replace(Room.of(request), settings=settings, precision=precision)
        require_memory(local, room, free)
    except PoissonError as error:
        short.append(str(error))
    for lines in ranks.everyone(short):
        mistakes.extend(lines)
    return Plan(
        backend=local.name,
        device=local.device,
        method=describe(settings, precision),
        reason=reason,
        precision=precision,
        seconds=seconds,
        expectation=expectation,
        # Where both are the host's memory, the second has all.
        needs=needs(local, room, free)[1 if local.on_host else 0 :],
        concerns=tuple(_slow_sizes(question)) if registry.method_of(settings).direct else (),
    )


def _slow_sizes(question: Question) -> Iterator[Concern]:
    """Axes whose number of nodes makes transforms much slower than a slightly larger one would."""
    slowdown = question.backend.probe().slowdown
    for name, axis in zip(question.operator.lattice.names, question.operator.lattice.whole.axes, strict=False):
        slow = slowdown(axis.intervals)
        more = next((n for n in range(1, NEAR + 1) if slow > SLOW * slowdown(axis.intervals + n)), None)
        if more:
            better = axis.nodes + more
            yield Concern(
                "domain.shape",
                f"transforms along {name} take about {slow:.2g} times as long as with {better} nodes there",
                f"take {better} nodes along {name}, if the grid may have them",
            )


def _asked(question: Question) -> tuple[float | None, str]:
    """The time of a method that was asked for, where it is known."""
    entry = registry.method_of(question.settings)
    offer = entry.offer(question) if entry.offer else None
    if not isinstance(offer, Offer):
        return None, "not known for this method"
    same = replace(offer.settings, method=question.settings.method) == question.settings
    if not same or offer.precision != question.precision:
        return None, "not known for these settings"
    found = Choice(offer.settings, offer.precision, "", offer.seconds, question.steady)
    return (found.seconds if found.steady else None), found.expectation
