# SPDX-License-Identifier: MIT
"""Entries of the registry for multigrid: the method, and the preconditioner that one of its cycles is."""

from collections.abc import Iterator
from dataclasses import replace

from poisson.problem.problem import Problem
from poisson.solvers.entries import ARRAYS_OF_LEVEL, Clash, Given, MethodEntry, PreconditionerEntry, Sizes, clash
from poisson.solvers.expected import STRONG_ANGLE, Offer, Question
from poisson.solvers.iteration import Method
from poisson.solvers.mixed import DefectCorrection
from poisson.solvers.multigrid.polynomial import MORE_ON_THE_FINEST
from poisson.solvers.multigrid.settings import MultigridSettings
from poisson.solvers.multigrid.solver import Multigrid
from poisson.solvers.settings import SolverSettings
from poisson.solvers.sor import colors_clash
from poisson.solvers.stopping import Patience

KEYS_OF_CYCLE = frozenset(("cycle", "smoother", "pre", "post", "coarse"))

ARRAYS = 4.0
"""On the finest grid, with u and the source, in either precision."""

OF_COMPARISON = 6.0
"""Arrays of each of the two coarser grids on which ``stop = "discretisation"`` solves as well, their levels apart."""

OF_CLUSTERS = 1.0
"""Arrays in float32 of the numbers of the nodes in strong clusters: at three thresholds, rarely so many."""

GAINED_BY_FULL = 3.0
"""Cycles that a start on the coarsest grid saves."""


def _make(given: Given) -> Method:
    settings = given.settings.of(MultigridSettings)
    if given.inner is None:
        return Multigrid(given.operations, settings, given.coarser)
    return DefectCorrection(given.operations, Multigrid(given.inner, settings))


def _levels(sizes: Sizes) -> float:
    """Arrays of the levels below the finest, and on a device of a diagonal that varies; of Galerkin levels with those
    that their set-up takes at once.
    """
    diagonal = float(sizes.on_device and sizes.coefficients > 0.0)
    if sizes.settings.of(MultigridSettings).coarse != "galerkin":
        return sizes.levels + diagonal
    part = 2.0**-sizes.dimension
    single = 1.0 if sizes.precision == "float32" else 0.5
    stencils = (3.0**sizes.dimension - 1.0) * part
    kept = single * (1.5 * stencils + part) / (1.0 - part) + OF_CLUSTERS * single
    of_set_up = 2.0 * single * stencils + single * (1.0 + sizes.dimension)
    return ARRAYS_OF_LEVEL * part / (1.0 - part) + kept + of_set_up + diagonal


def _arrays(sizes: Sizes) -> float:
    part = 2.0**-sizes.dimension
    if sizes.settings.stopping.stop == "discretisation":
        compared = part + part**2
        return ARRAYS + (1.0 + compared) * (sizes.coefficients + _levels(sizes)) + OF_COMPARISON * compared
    if sizes.precision != "mixed":
        return ARRAYS + sizes.coefficients + _levels(sizes)
    start = part if sizes.settings.of(MultigridSettings).full else 0.0
    return start + sizes.mixed(ARRAYS + _levels(sizes))


def _wrong_cycle(settings: SolverSettings, precision: str) -> Iterator[Clash]:
    cycle = settings.of(MultigridSettings)
    if cycle.pre + cycle.post == 0:
        yield clash("post", 0, "at least 1 where solver.pre is 0: a cycle needs a smoothing sweep")


def _wrong(settings: SolverSettings, precision: str) -> Iterator[Clash]:
    yield from _wrong_cycle(settings, precision)
    if settings.stopping.stop == "discretisation" and not settings.of(MultigridSettings).full:
        reason = 'true with solver.stop "discretisation", which compares the levels of full multigrid'
        yield clash("full", False, reason)


def _refused(settings: SolverSettings, problem: Problem) -> Iterator[Clash]:
    from poisson.solvers.registry import smoothers  # which imports this

    smoother = settings.of(MultigridSettings).smoother
    if smoothers()[smoother].colors:
        yield from colors_clash("smoother", smoother, problem)


def _refused_alone(settings: SolverSettings, problem: Problem) -> Iterator[Clash]:
    yield from _refused(settings, problem)
    if (stronger := problem.lattice.angular) > STRONG_ANGLE:
        reason = f"only where links along phi vary by a factor of {STRONG_ANGLE:g} at most, not {stronger:.3g}"
        yield clash("method", "multigrid", f'{reason}; use "auto" or "cg"')


def _offer(question: Question) -> Offer | None:
    operator, stop = question.operator, question.to_discretisation
    if (question.hard or question.rough) and not stop:
        return None
    because = ""
    if stop:
        because = "solver.stop asks for the discretisation error"
    elif operator.varies:
        varies = f"a varies by a factor of {question.jump:.3g} only"
        because = varies if question.jump > 1.0 else "a is constant and c varies"
    full = question.settings.of(MultigridSettings).full
    count = 2.0 if stop else question.cycles_to_tolerance() - (GAINED_BY_FULL if full else 0.0)
    return Offer(
        settings=replace(question.settings, method="multigrid"),
        precision=question.mixed,
        usual=question.usual.cycles(count),
        seconds=question.measured.cycles(count),
        noun="cycles",
        because=because,
    )


def _halo(settings: SolverSettings, dimension: int, depth: int) -> int:
    """The sweeps after one correction and before the next restriction, the residual, and what that gathers."""
    more = MORE_ON_THE_FINEST[dimension] if settings.method == "multigrid" else 0
    cycle = settings.of(MultigridSettings)
    wanted = cycle.pre + cycle.post + more + 2
    return wanted + wanted % 2


def _label(settings: SolverSettings) -> str:
    return f"multigrid ({settings.of(MultigridSettings).label})"


METHOD = MethodEntry(
    name="multigrid",
    rank=0,
    use="constant or mildly varying coefficients, with any faces",
    iteration="a cycle through all levels",
    make=_make,
    arrays=_arrays,
    keys=KEYS_OF_CYCLE | {"full", "stop"},
    parts=(MultigridSettings,),
    mixed=True,
    wrong=_wrong,
    refused=_refused_alone,
    offer=_offer,
    patience=Patience(reads=8, factor=4.0),
    resuming=lambda settings: settings.having(full=False),
    label=_label,
    halo=_halo,
)

PRECONDITIONER = PreconditionerEntry(
    name="multigrid",
    rank=2,
    use="a symmetric cycle: the iterations hardly grow with the grid, unless a jumps from node to node",
    make=lambda given: Multigrid(given.operations, given.settings.of(MultigridSettings).self_adjoint()),
    arrays=_levels,
    keys=KEYS_OF_CYCLE,
    parts=(MultigridSettings,),
    mixed=True,
    stands_by=0,
    wrong=_wrong_cycle,
    refused=_refused,
    label=lambda settings: f" with preconditioner {_label(settings)}",
    halo=_halo,
)
