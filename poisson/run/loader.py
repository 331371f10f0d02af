# SPDX-License-Identifier: MIT
"""From the data of a problem to the arrays of a solver, for one solve after another."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Reduction, Slab
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.share import Share
from poisson.errors import CaseError, IncompatibleSource
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import slabs
from poisson.problem import sampling
from poisson.problem.arrays import brought, is_array, shape_of
from poisson.problem.expressions import Expression
from poisson.problem.faces import Face
from poisson.problem.fields import ArrayField, PartField
from poisson.problem.problem import Problem
from poisson.run.result_fields import FEW_NODES
from poisson.run.setup import Setup, on_host
from poisson.solvers.spectrum import fill_free, weighted_mean
from poisson.words import article

if TYPE_CHECKING:
    from poisson.problem.bodies import Body

MANY_NODES = 1 << 25
"""A device fills an array of fewer nodes in less time than it takes to be asked for each of its faces."""

Terms = list[tuple[Any, Any]]
"""Values, and the nodes of an array that they belong to."""


class Loader:
    """Fills the arrays of a setup; what the faces add is kept until they change.

    `setup`: with the arrays. `share`: the part of the grid that they are on; without it the whole. `blank`: whether the
    iterate is set at fixed nodes alone, and `source`: the place of the norms of the source, if they have been asked for
    (`poisson.solvers.iteration.Task`).
    """

    blank = False
    source: Reduction | None = None

    def __init__(self, setup: Setup, share: Share | None) -> None:
        self._setup = setup
        # Arrays that are written by rows of a whole grid, and not by slabs.
        self._whole = share is None and setup.backend.views
        self._faces: _Known | None = None
        self._start: tuple[FaceTerms, Array] | None = None
        self._cleared: Array | None = None  # The iterate, if a solve has left zeros at fixed nodes in it.
        self._unread: list[tuple[Reduction, Callable[[], None]]] = []
        self._norms: list[tuple[float, float]] = []
        self._places: dict[str, Reduction] = {}

    def fill(self, discretisation: Discretisation) -> Discretisation:
        """Set the iterate and the source of a problem that has the operator of the setup; the problem, balanced.

        Raises IncompatibleSource if a singular problem has no solution, and CaseError if a value is not finite. Of what
        is read where it lies the pass that reads it first finds that, and on a device `solved`.
        """
        setup = self._setup
        backend = setup.backend
        setup.follow_faces()
        masked = setup.operator.fixed > 0
        given = None if masked or discretisation.problem.open_faces else self.in_place(discretisation)
        if setup.operator.singular and (not masked or discretisation.surface):
            sums = self._sums(given, discretisation)
            discretisation = balanced(discretisation, backend.array_module, sums)
        if given is not None:
            given.shift = discretisation.shift
        setup.renew()
        self._unread.clear()
        setup.given = self.source = None
        if self._whole:
            faces = self._terms(discretisation)
            setup.given = None if faces.adds else given
            # Also what the caller still does with an iterate that was handed over comes first.
            with backend.ordered():
                # A device works on the source, which takes longer, while it is asked for the rest.
                self._load_source(discretisation, faces, given)
                self._load_initial(discretisation, faces)
        else:
            shape = discretisation.array_shape
            setup.source = setup.f
            self.blank = not (discretisation.problem.guess or setup.boundary or setup.method.reads_guess)
            with discretisation.agreed():
                backend.assemble(shape, discretisation.initial, setup.u)
                backend.assemble(shape, discretisation.source, setup.f)
        if masked:
            _clear_mask(setup)
        if setup.coarser:
            setup.coarser.load(discretisation, None if self.source is None else setup.f)
        return discretisation

    def wait(self) -> None:
        """Wait until the method has done all that it has asked for."""
        if self._unread:
            # What a device tells of the values that it has read where they lie, it tells by then.
            self._norms = self._setup.backend.read_all([place for place, _ in self._unread])
        else:
            self._setup.backend.synchronize()

    def solved(self, u: Array) -> None:
        """Note the iterate that the method has left, and look at what `wait` has heard of values that were read.

        Raises CaseError with the first value that is not finite.
        """
        self._cleared = u if self.blank and u is self._setup.u else None
        unread, self._unread = self._unread, []
        for (_, look), (squares, _) in zip(unread, self._norms if unread else (), strict=True):
            if not math.isfinite(squares):
                look()

    def start(self, discretisation: Discretisation) -> Array | None:
        """An array with the boundary values and zeros, for several sources; None where faces add to the sources."""
        if not self._whole or discretisation.problem.open_faces or (faces := self._terms(discretisation)).adds:
            return None
        if self._start is None or self._start[0] is not faces:
            backend = self._setup.backend
            start = backend.empty(self._setup.operator.array_shape)
            backend.fill(start, 0.0)
            if faces.held:
                faces.hold(backend.view(start))
            self._start = faces, start
        return self._start[1]

    def in_place(self, discretisation: Discretisation) -> Array | None:
        """The source of a problem in the memory of the caller; None where it is not."""
        return self._in_place(discretisation.problem.f, discretisation.source)

    def _in_place(self, field: Any, function: Slab) -> Array | None:
        """The values of a field in the memory of the caller, by which the problem has a function of its nodes."""
        backend = self._setup.backend
        if not self._whole or not isinstance(field, ArrayField) or isinstance(field, PartField):
            return None
        values = field.values
        if type(values) is not np.ndarray and field.on_device:
            if backend.on_host:
                return None
            values = brought(values, backend.array_module)
        if values.ndim == 1:
            values = values[np.newaxis]
        return backend.in_place(values, self._looking(function))

    def _sums(self, given: Array | None, discretisation: Discretisation) -> tuple[float, float] | None:
        """The sums that `balance_of` takes, of a source in the memory of the caller."""
        setup, backend = self._setup, self._setup.backend
        if given is None or not given.exact:
            return None
        with backend.ordered():
            setup.operations.integrate(given, None if given.stays else setup.f, setup.norms)
        sums = backend.read(setup.norms)
        if not math.isfinite(sums[0]):
            self._looking(discretisation.source)()
        return sums

    def _looking(self, function: Slab) -> Callable[[], None]:
        """A call that evaluates a function of the problem everywhere, which tells of a value that is not finite.

        The setup keeps it, so that it must not hold the setup: the memory of both would stay until cycles are looked
        for.
        """
        return partial(_look, function, self._setup.backend.array_module, self._setup.operator.array_shape)

    def _take(self, name: str, given: Array, function: Slab, out: Array) -> None:
        """Copy what is in the memory of the caller; on the host all values have been looked at then."""
        setup = self._setup
        if name not in self._places:
            self._places[name] = setup.backend.reduction()
        setup.operations.take(given, out, self._places[name])
        if not setup.backend.on_host:
            self._unread.append((self._places[name], self._looking(function)))

    def _evaluate(self, field: Any, function: Slab, out: Array) -> None:
        """Fill an array with what a problem has a function of its nodes for."""
        shape = self._setup.operator.array_shape
        by_numpy = isinstance(field, Expression) and math.prod(shape) <= FEW_NODES
        self._setup.backend.assemble(shape, on_host(function) if by_numpy else function, out)

    def _load_initial(self, discretisation: Discretisation, faces: FaceTerms) -> None:
        setup, problem = self._setup, discretisation.problem
        backend, cleared, self._cleared = setup.backend, self._cleared, None
        self.blank = not (problem.guess or faces.held or setup.method.reads_guess)
        if self.blank:
            if setup.u is not cleared and (backend.on_host or problem.lattice.nodes > MANY_NODES):
                faces.hold(backend.view(setup.u))
            elif setup.u is not cleared:
                backend.fill(setup.u, 0.0)
            return
        if not problem.guess:
            backend.fill(setup.u, 0.0)
        elif (given := self._in_place(problem.initial, discretisation.initial)) is not None:
            self._take("initial", given, discretisation.initial, setup.u)
        else:
            self._evaluate(problem.initial, discretisation.initial, setup.u)
            return
        if faces.held:
            faces.hold(backend.view(setup.u))

    def _load_source(self, discretisation: Discretisation, faces: FaceTerms, given: Array | None) -> None:
        setup, backend = self._setup, self._setup.backend
        if setup.given is not None and setup.given.stays and setup.reads_in_place:
            setup.source = setup.given
            return
        setup.source = setup.f
        if given is None:
            self._evaluate(discretisation.problem.f, discretisation.source, setup.f)
            return
        self._take("f", given, discretisation.source, setup.f)
        if faces.adds:
            faces.add(backend.view(setup.f))
        else:
            self.source = self._places["f"]
            backend.mark(self.source)

    def _terms(self, discretisation: Discretisation) -> FaceTerms:
        """The terms of the faces; data that may have changed since they were read are read again."""
        problem, known = discretisation.problem, self._faces
        if not (known and known.lasts and known.faces is problem.faces and known.bodies is problem.bodies):
            terms = FaceTerms(problem).on(self._setup.backend.array_module)
            lasts = all(face.lasts for face in problem.faces)
            known = self._faces = _Known(problem.faces, problem.bodies, terms, lasts)
        return known.terms


class _Known(NamedTuple):
    """The terms of some faces and bodies, and whether these have the same data at every time."""

    faces: tuple[Face, ...]
    bodies: tuple[Body, ...]
    terms: FaceTerms
    lasts: bool


def _look(function: Slab, xp: ModuleType, shape: tuple[int, ...]) -> None:
    for start, stop in slabs(shape):
        function(xp, start, stop)


def _clear_mask(setup: Setup) -> None:
    """Set the source to 0 at the nodes of the mask, and remove its mean elsewhere if the problem is singular.

    Raises `IncompatibleSource` if that mean is larger than the discretisation explains.
    """
    backend, operator, operations = setup.backend, setup.operator, setup.operations
    c, f = (backend.view(each) if backend.views else backend.to_host(each) for each in (operator.reaction, setup.f))
    shape = operator.array_shape
    backend.assemble(shape, lambda xp, start, stop: xp.where(c[start:stop] < 0.0, 0.0, f[start:stop]), setup.f)
    if not operator.singular:
        return
    ones = setup.workspace()
    fill_free(operations, ones)
    mean = weighted_mean(operations, setup.f, ones, setup.norms)
    operations.norm(setup.f, setup.norms)
    largest = backend.read(setup.norms)[1]
    if abs(mean) > operator.lattice.tolerance * largest:
        raise IncompatibleSource(
            f"no face is dirichlet and c = 0, so f must have the mean 0 where a > 0, but it is {mean:.6g}, and |f| at "
            f"most {largest:.3g}: subtract it from equation.f there"
        )
    backend.axpby(-mean, ones, 1.0, setup.f)


def sources_of(given: Any, shape: tuple[int, ...]) -> Iterable[Any]:
    """The sources that a user gives together, on a grid with arrays of this shape: an array as it is, or a list.

    Raises CaseError if it is one source, or nothing that can be gone through.
    """
    allowed = f"an array of the shape (k, {', '.join(map(str, shape))}), or a sequence of sources"
    if is_array(given):
        try:
            found = shape_of(given)
        except CaseError as error:
            raise CaseError(f"fs: {error}") from error
        if len(found) != len(shape) + 1:
            raise CaseError(f"fs: an array of the shape {found}; allowed: {allowed}")
        sources: Iterable[Any] = given
        return sources
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise CaseError(f"fs: {article(type(given).__name__)}; allowed: {allowed}")
    return list(given)


class FaceTerms:
    """The boundary values and the source terms of the faces, on the arrays of a whole grid.

    `problem`: with the data of the faces. `held`: whether a boundary value is not 0. Raises `CaseError` if a value is
    not finite; the line names the key and the place.
    """

    def __init__(self, problem: Problem) -> None:
        shape = problem.lattice.of_arrays.array_shape
        block = tuple((0, count) for count in shape)
        fixed = list(sampling.held_faces(problem, block))
        # The face that stands first has the nodes that it shares: it comes last.
        self._fixed: Terms = [
            (where, _on(shape, where, sampling.face_value(problem, np, face, block))) for face, where in fixed[::-1]
        ]
        self.held = any(values.any() for _, values in self._fixed)
        self._terms: Terms = []
        self._scales: Terms = []
        surface = None
        if problem.bodies:
            from poisson.discrete.surface import surface_of

            surface = surface_of(problem)
            # Faces come after bodies: they have the nodes that both reach.
            self._fixed.insert(0, surface.held.within(block))
            self._terms.append(surface.source.within(block))
            self.held = True
            if surface.obstacles:
                self._scales.append(surface.volumes.within(block))
        for face, where in sampling.faces(problem.lattice, Rule.MIRROR, block):
            term = sampling.face_source(problem, np, face, block, surface.dielectrics if surface else None)
            values = _on(shape, where, term * surface.on_face(face, block) if surface else term)
            for other, there in fixed:
                if other // 2 != face // 2:
                    values[_within(there, where)] = 0.0
            if values.any():
                self._terms.append((where, values))

    def on(self, xp: ModuleType) -> FaceTerms:
        """The same for arrays of a module, numpy or that of a device."""
        if xp is np:
            return self
        there = copy.copy(self)
        there._fixed, there._terms, there._scales = (
            [(_index(xp, where), xp.asarray(values)) for where, values in terms]
            for terms in (self._fixed, self._terms, self._scales)
        )
        return there

    @property
    def adds(self) -> bool:
        """Whether the source has terms of the faces."""
        return bool(self._terms or self._scales)

    def hold(self, u: Any) -> None:
        """Write the boundary values into an array."""
        for where, values in self._fixed:
            u[where] = values

    def add(self, f: Any) -> None:
        """Add the terms of the faces to a source, of which the open part of each control volume counts."""
        for where, values in self._scales:
            f[where] *= values
        for where, values in self._terms:
            f[where] += values


def _index(xp: ModuleType, where: sampling.Index) -> sampling.Index:
    """An index, whose arrays are those of a module."""
    return tuple(xp.asarray(part) if isinstance(part, np.ndarray) else part for part in where)


def _on(shape: tuple[int, ...], where: sampling.Index, values: Any) -> NDArray[np.float64]:
    """Values at each node of a face."""
    along = tuple(count for count, place in zip(shape, where, strict=True) if isinstance(place, slice))
    return np.array(np.broadcast_to(values, along), dtype=np.float64)


def _within(other: sampling.Index, where: sampling.Index) -> sampling.Index:
    """The nodes of another face, as an index of an array on a face."""
    return tuple(there for there, here in zip(other, where, strict=True) if isinstance(here, slice))
