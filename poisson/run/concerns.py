# SPDX-License-Identifier: MIT
"""Concerns about a case that can be solved: each names its key, says what may go wrong, and gives a remedy."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from poisson.backends.processors import processors
from poisson.backends.registry import AUTO
from poisson.errors import CheckWarning
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import AXES
from poisson.problem.expressions import Expression
from poisson.problem.fields import FunctionField, PartField
from poisson.run.request import Request
from poisson.run.sample import Sample, Values
from poisson.solvers.settings import RunSettings, SolverSettings
from poisson.solvers.spectrum import smoothest
from poisson.solvers.stopping import Stopping
from poisson.words import quantity

JUMP = 1e-3
"""Values that should be the same may differ by this part of their range."""

ROUGH = 0.2
"""A function that goes up and down by more from node to node (`Sample.roughness`) is not resolved: waves of five nodes,
or a bell that falls to 1/e within a node or so."""

MISSED = 2.0
"""The factor by which a source may be larger between nodes than at any node."""

ROUNDING = 0.1
"""Rounding leaves at least about so much of a residual, in the precision times the diagonal times u: by experiments,
in which it was 0.02 to 0.6."""

CERTAIN = 10.0
"""A tolerance so many times larger can be reached."""

LOST = 3e-3
"""With ε² κ above this, of float32, mixed precision may stagnate: a box of 10⁸ on 129² nodes, with 9e-3, does."""

UNTRUSTED, AMPLIFIED = 1e-2, 1e3
"""A residual at the tolerance may leave this part of u as an error, so many times more than the tolerance itself."""

STANDS_IN, CONDUCTS = 1e3, 1e4
"""A c of so many times a/h², or an α of so many times a/h, does for a Dirichlet value, and an a of so many times that
around it for a conductor: by experiments, in which no more than 1e-4 of u and of the flow was then missing."""

SMALL_TOLERANCE = 1e-300

LEAST_TOLERANCE = 1e-13
"""No smaller one is worth a try."""

SWEEPS = {"jacobi": (1.0, 1.0), "chebyshev": (0.5, 0.5)}
"""Methods whose sweeps can be foretold: a factor on ln(1/rtol), and the power of the smallest eigenvalue of D⁻¹A."""

MANY = 2.0
"""The factor by which the expected sweeps may exceed the limit."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Concern:
    """Something that may go wrong."""

    key: str  # The key of the case that it is about.
    text: str  # What is so.
    fix: str  # What to do about it.

    @property
    def line(self) -> str:
        """All of it."""
        return f"{self.key}: {self.text}; {self.fix}"


class Subject(NamedTuple):
    """A problem by its sample, how it is solved, and where."""

    sample: Sample
    settings: SolverSettings
    run: RunSettings


def concerns_of(subject: Subject) -> tuple[Concern, ...]:
    """The concerns about a problem that is solved with some settings; none where its sample has mistakes."""
    if subject.sample.mistakes:
        return ()
    with np.errstate(all="ignore"):
        return tuple(concern for look in LOOKS for concern in look(subject))


def warn_of_concerns(request: Request) -> None:
    """One warning of all that `check` is concerned about, which names the line that called the caller of this function.

    Where a process has its own part of an array alone, nothing is known.
    """
    problem = request.problem
    of_faces = (data for face in problem.faces for data in (face.value, face.alpha))
    given = (problem.f, problem.a, problem.c, problem.initial, *of_faces)
    if any(isinstance(field, PartField) for field in given):
        return
    try:
        with np.errstate(all="ignore"):
            concerns = concerns_of(Subject(Sample(problem), request.settings, request.run))
    except Exception as error:
        if not any(isinstance(field, FunctionField) for field in given):
            raise
        # A user's function may take the arrays of a device alone.
        log.debug("the problem was not checked: %s", error)
        return
    if concerns:
        warnings.warn(CheckWarning("\n".join(concern.line for concern in concerns)), stacklevel=3)


def _without_effect(subject: Subject) -> Iterator[Concern]:
    """Bodies that reach no node and no link, and bodies that leave nothing to solve for."""
    problem = subject.sample.problem
    if not problem.bodies:
        return
    from poisson.problem.bodies import CONDITIONS, DIELECTRIC, HELD, keys_of
    from poisson.problem.surfaces import cuts_of

    held, others = problem.cuts, [kind for kind in CONDITIONS if kind not in HELD]
    assert held is not None
    cuts = [held]
    if any(body.kind in others for body in problem.bodies):
        cuts.append(cuts_of(problem.lattice, problem.bodies, others, exact=False))
    for number, body in enumerate(problem.bodies, start=1):
        if not any((each.inside == number).any() or (each.body == number).any() for each in cuts):
            yield Concern(
                keys_of(body, number)[0],
                f"no node is inside of {body.name or f'body{number}'}, and no link between nodes is cut",
                "correct the condition, use more nodes, or put the body before one that covers it",
            )
    solid = [number for number, body in enumerate(problem.bodies, start=1) if body.kind != DIELECTRIC]
    free = problem.lattice.of_arrays.free
    if np.any([np.isin(each.inside[free], solid) for each in cuts], axis=0).all():
        yield Concern("body", "every node lies in a body or has the value of a face", "make room between the bodies")


def _jumps_at_edges(subject: Subject) -> Iterator[Concern]:
    """Dirichlet faces whose values differ where they meet."""
    sample, problem, ends = subject.sample, subject.sample.problem, subject.sample.fixed
    if ends is None or ends[0] == ends[1]:
        return
    allowed = JUMP * (ends[1] - ends[0])
    worst: tuple[float, int, int] | None = None
    pairs = 0
    held = [
        face for face in range(len(problem.faces)) if face in sample.value and problem.lattice.rules[face] is Rule.FIXED
    ]
    for first in held:
        for second in held:
            if second // 2 <= first // 2:
                continue
            jump = float(np.max(np.abs(_on_edge(sample, first, second) - _on_edge(sample, second, first))))
            pairs += jump > allowed
            if jump > allowed and (worst is None or jump > worst[0]):
                worst = jump, first, second
    if worst is None:
        return
    jump, first, second = worst
    faces = problem.lattice.faces
    where = "an edge" if problem.lattice.dimension == 3 else "a corner"
    others = f"; the same holds for {quantity(pairs - 1, 'other pair')} of faces" * (pairs > 1)
    yield Concern(
        f"boundary.{faces[second]}",
        f"the values of {faces[second]} and {faces[first]} differ by {jump:.3g} at {where}{others}: u jumps "
        f"there, the node has the value of {faces[first]}, and the error nearby stays large on every grid",
        "give both faces the same value there, or let one of the values rise over several spacings",
    )


def _on_edge(sample: Sample, face: int, other: int) -> Values:
    """The value of a face where another one meets it."""
    problem = sample.problem
    nodes = problem.lattice.shape[other // 2]
    at = {other // 2: (nodes - 1, nodes) if other % 2 else (0, 1)}
    value = problem.faces[face].value
    assert value is not None
    return sample.face(face, f"boundary.{problem.lattice.faces[face]}", value, at=at).reshape(-1)


def _jumps_across(subject: Subject) -> Iterator[Concern]:
    """Formulas that are not the same at both ends of an axis that wraps."""
    sample, problem = subject.sample, subject.sample.problem
    given: list[tuple[str, object, int | None]] = [
        ("equation.f", problem.f, None),
        ("equation.a", problem.a, None),
        ("equation.c", problem.c, None),
    ]
    for face, condition in enumerate(problem.faces):
        given.append((f"boundary.{problem.lattice.faces[face]}", condition.value, face))
    values = {"equation.f": sample.f, "equation.a": sample.a, "equation.c": sample.c}
    for axis, wraps in enumerate(problem.lattice.periodic):
        for key, function, of_face in given:
            if not wraps or not isinstance(function, Expression) or AXES[axis] not in function.names:
                continue
            low, high = (sample.end(axis, upper, function, of_face) for upper in (False, True))
            jump = float(np.max(np.abs(high - low)))
            inside = values[key] if of_face is None else sample.value[of_face]
            if jump > JUMP * max(float(np.ptp(inside)), JUMP * float(np.max(np.abs(inside)))):
                name, (start, stop) = (
                    problem.lattice.names[axis],
                    (problem.lattice.lower[axis], problem.lattice.upper[axis]),
                )
                yield Concern(
                    key,
                    f"the expression differs by {jump:.3g} between {name} = {start:g} and {name} = {stop:g}, "
                    f"the same place on the periodic axis {name}, and so jumps there",
                    f"make the expression periodic, or give boundary.{name}_lower and boundary.{name}_upper conditions",
                )


def _unresolved(subject: Subject) -> Iterator[Concern]:
    """Sources and coefficients that change too fast for the grid."""
    sample, problem = subject.sample, subject.sample.problem
    for key, values in (("equation.f", sample.f), ("equation.a", sample.a), ("equation.c", sample.c)):
        if sample.roughness(values) > ROUGH:
            yield Concern(
                key,
                "the values oscillate from node to node, and the grid does not resolve them",
                "use more nodes (domain.shape), at least eight per wavelength or four per width of a peak, or a "
                "smoother expression",
            )
            if key == "equation.f":
                return
    function, largest = problem.f, float(np.max(np.abs(sample.f)))
    if not isinstance(function, Expression) or function.is_constant:
        return
    wider = "make the peak wider than two spacings, use more nodes (domain.shape), or place a node at the peak"
    if sample.complete and largest == 0.0:
        yield Concern("equation.f", "f is 0 at every node, although its expression is not 0", wider)
        return
    peak = sample.peak(function, sample.f)
    if peak > MISSED * largest:
        size = "not finite" if peak == math.inf else f"{peak / largest:.3g} times as large as at the nodes"
        yield Concern("equation.f", f"between nodes f is {size}, and the grid misses a part of f", wider)


def _source_norm(sample: Sample, norm: str, *, robin: bool = True) -> float:
    """About the norm of f with its face terms, in U/L²."""
    problem = sample.problem
    total, largest = float(np.mean(sample.f * sample.f)), float(np.max(np.abs(sample.f)))
    for face, values in sample.value.items():
        condition = problem.faces[face].kind
        if condition.fixes or (condition.takes_alpha and not robin):
            continue
        axis = face // 2
        terms = values * problem.lattice.axes[axis].inflow[face % 2]
        total += float(np.mean(terms * terms)) / problem.lattice.shape[axis]
        largest = max(largest, float(np.max(np.abs(terms))))
    return largest if norm == "max" else math.sqrt(total)


def _reference(sample: Sample, norm: str, *, robin: bool = True) -> float:
    """About what the tolerance is relative to, in U/L²."""
    least, largest = sample.fixed or (0.0, 0.0)
    if float(sample.c.max()) > 0.0 or sample.alpha:
        least, largest = min(least, 0.0), max(largest, 0.0)
    data = (largest - least) / 2.0 * smoothest(sample.operator) if largest > least else 0.0
    return max(_source_norm(sample, norm, robin=robin), data)


def _largest_fixed(sample: Sample) -> float:
    return max(abs(end) for end in sample.fixed or (0.0,))


def _beyond_rounding(subject: Subject) -> Iterator[Concern]:
    """A tolerance that rounding does not let the residual reach."""
    sample, stopping, run = subject.sample, subject.settings.stopping, subject.run
    reference = _reference(sample, stopping.norm)
    if stopping.stop != "residual" or not 0.0 < reference < math.inf:
        return
    # Of u no more than is sure: what a source of this norm and these waves makes, and what is given.
    wave = sample.wavenumber(sample.f) * float(sample.a.mean())
    source = _source_norm(sample, "rms", robin=False)
    u = max(_largest_fixed(sample), source / max(sample.softest, wave + float(sample.c.mean())))
    eps = float(np.finfo(run.dtype).eps)
    diagonal = float(sample.a.mean()) * sample.laplacian.largest_diagonal
    floor = ROUNDING * eps * diagonal * u
    # A target of zero is to go as far as can be.
    if not 0.0 < stopping.target(reference) < floor < math.inf:
        return
    least = 10.0 ** math.ceil(math.log10(min(max(CERTAIN * floor / reference, SMALL_TOLERANCE), 1.0 / SMALL_TOLERANCE)))
    ways = [f"use {least:.0e} or more"] if least < 1.0 else ["use fewer nodes (domain.shape)"]
    if run.precision == "float32":
        ways.append('run.precision = "float64" or "mixed"')
    yield Concern(
        "solver.rtol",
        f"rounding in {np.dtype(run.dtype).name} leaves a residual of at least about {floor / reference:.1g} of "
        f"the reference of rtol, and {stopping.rtol:g} cannot be reached",
        f"{', or '.join(ways)}; otherwise the solve ends as at_rounding after needless iterations",
    )


def _says_little(subject: Subject) -> Iterator[Concern]:
    """Coefficients so large that a residual at the tolerance may leave a large error."""
    sample, stopping = subject.sample, subject.settings.stopping
    target = stopping.target(_reference(sample, stopping.norm))
    softest = sample.softest
    u = max(_largest_fixed(sample), float(np.max(np.abs(sample.f) / (softest + sample.c))))
    for face, values in sample.value.items():
        kind, extent = sample.problem.faces[face].kind, sample.problem.lattice.extent[face // 2]
        if not kind.fixes:
            lost = sample.alpha.get(face, np.zeros(()))
            u = max(u, float(np.max(np.abs(values) / (lost + float(sample.a.min()) / extent))))
    if not 0.0 < u < math.inf or stopping.stop != "residual":
        return
    left = target / (softest * u)
    if not max(UNTRUSTED, AMPLIFIED * stopping.rtol) < left < math.inf:
        return
    rtol = 10.0 ** math.floor(math.log10(max(stopping.rtol * 1e-3 / left, SMALL_TOLERANCE)))
    key, what, smaller = _largest_coefficient(sample, stopping.norm)
    ways = [smaller] if smaller else []
    if rtol >= LEAST_TOLERANCE or not ways:
        ways.append(f"solver.rtol = {max(rtol, LEAST_TOLERANCE):.0e}")
    yield Concern(
        key,
        f"{what}, and a residual at the tolerance says little: the error may still be "
        f"{'u itself' if left >= 1.0 else f'{100.0 * left:.1g}% of u'}",
        ", or ".join(ways),
    )


def _largest_coefficient(sample: Sample, norm: str) -> tuple[str, str, str]:
    """Key of the coefficient that makes the residual large beside u, its size in words, and a smaller one that does."""
    a, spacing = float(sample.a.max()), sample.problem.lattice.spacing
    if sample.alpha and _reference(sample, norm) > 10.0 * _reference(sample, norm, robin=False):
        face = max(sample.alpha, key=lambda each: float(sample.alpha[each].max()))
        size = float(sample.alpha[face].max())
        key = f"boundary.{sample.problem.lattice.faces[face]}.alpha"
        return key, f"the coefficient is as large as {size:.2g}", _instead(size, STANDS_IN * a / spacing[face // 2])
    contrast = a / float(sample.a.min())
    if contrast > float(sample.c.max()) / sample.softest:
        smaller = f"use a smaller a (for a conductor, {CONDUCTS:.0e} times the surrounding a is enough)"
        return "equation.a", f"a varies by a factor of {contrast:.2g}", smaller * (contrast > CONDUCTS)
    size = float(sample.c.max())
    return "equation.c", f"the coefficient is as large as {size:.2g}", _instead(size, STANDS_IN * a / min(spacing) ** 2)


def _instead(size: float, enough: float) -> str:
    """Advice to take a smaller coefficient, empty where it is no larger than a stand-in for a Dirichlet value needs."""
    return f"use a smaller coefficient (in the place of a Dirichlet value {enough:.1g} is enough)" * (size > enough)


def _lost_in_float32(subject: Subject) -> Iterator[Concern]:
    """Coefficients so large that float32, which mixed precision solves in, loses the softest modes beside them."""
    sample, eps = subject.sample, float(np.finfo(np.float32).eps)
    contrast = float(sample.a.max() / sample.a.min())
    stiffest = 2.0 * float(sample.a.max()) * sample.laplacian.largest_diagonal
    if subject.run.precision == "mixed" and 1.0 < contrast < math.inf and eps**2 * stiffest > LOST * sample.softest:
        yield Concern(
            "run.precision",
            f"a varies by a factor of {contrast:.2g}, and float32 may lose soft corrections beside stiff ones: "
            "many more iterations, or no convergence",
            'use "float64", which takes no longer here',
        )


def _too_many_sweeps(subject: Subject) -> Iterator[Concern]:
    """Sweeps that the limit does not allow."""
    sample, settings, stopping = subject.sample, subject.settings, subject.settings.stopping
    factor, power = SWEEPS.get(settings.method, (0.0, 0.0))
    if not factor or not stopping.rtol > 0.0 or stopping.max_iterations != Stopping().max_iterations:
        # Who sets a limit knows of it.
        return
    diagonal = float(sample.a.max()) * sample.laplacian.largest_diagonal + float(sample.c.max())
    sweeps = factor * math.log(1.0 / stopping.rtol) * (diagonal / sample.softest) ** power
    if sweeps > MANY * stopping.max_iterations:
        yield Concern(
            "solver.method",
            f'"{settings.method}" needs about {sweeps:.1g} sweeps here, and solver.max_iterations is '
            f"{stopping.max_iterations}",
            f'use "{AUTO}" or "multigrid", whose number of cycles hardly grows with the grid',
        )


def _too_many_threads(subject: Subject) -> Iterator[Concern]:
    """More threads than processors."""
    run = subject.run
    if run.threads > 1 and run.threads > (there := processors()):
        yield Concern(
            "run.threads",
            f"{quantity(run.threads, 'thread')} share {quantity(there, 'processor')} and wait for one another",
            f"use {there}, or leave run.threads out",
        )


LOOKS: tuple[Callable[[Subject], Iterator[Concern]], ...] = (
    *(_without_effect, _jumps_at_edges, _jumps_across, _unresolved, _beyond_rounding, _says_little, _lost_in_float32),
    *(_too_many_sweeps, _too_many_threads),
)
"""The questions that `concerns_of` asks, in order."""
