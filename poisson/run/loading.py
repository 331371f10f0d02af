# SPDX-License-Identifier: MIT
"""From the data of a problem to the arrays of a solver, for one solve after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.faces import FaceTerms
from poisson.discrete.share import Share
from poisson.errors import CaseError
from poisson.mesh.grid import slabs
from poisson.problem.arrays import is_array, shape_of
from poisson.problem.expressions import Expression
from poisson.problem.faces import Face
from poisson.problem.fields import ArrayField, PartField
from poisson.problem.problem import Problem
from poisson.run.setup import Setup


class Loader:
    """Fills the arrays of a setup; what the faces add is kept until they change.

    Parameters
    ----------
    setup : Setup
        With the arrays.
    share : Share, optional
        The part of the grid that they are on; without it the whole.
    """

    def __init__(self, setup: Setup, share: Share | None) -> None:
        self._setup = setup
        self._share = share
        # Arrays that are written by rows of a whole grid, and not by slabs where they are.
        self._whole = share is None and setup.backend.on_host
        self._faces: tuple[tuple[Face, ...], FaceTerms] | None = None

    def load(self, problem: Problem) -> Discretisation:
        """Set the iterate and the source; the operator must be that of the problem.

        Raises
        ------
        CaseError
            If a value is not finite. Of a source that is read where it lies the pass that reads it first finds that.
        IncompatibleSource
            If a singular problem has no solution.
        """
        setup = self._setup
        backend = setup.backend
        discretisation = Discretisation(problem, share=self._share)
        if setup.operator.singular:
            discretisation = discretisation.balanced(backend.array_module)
        setup.renew()
        if self._whole:
            faces = self._terms(problem)
            self._load_initial(discretisation, faces)
            self._load_source(discretisation, faces)
        else:
            shape = discretisation.array_shape
            setup.source = setup.f
            with discretisation.agreed():
                backend.assemble(shape, discretisation.initial, setup.u)
                backend.assemble(shape, discretisation.source, setup.f)
        if setup.coarser:
            setup.coarser.load(discretisation)
        return discretisation

    def start(self, problem: Problem) -> Array | None:
        """A new array with the boundary values and zeros, for several sources; None where faces add to the sources."""
        if not self._whole or (faces := self._terms(problem)).adds:
            return None
        backend, shape = self._setup.backend, self._setup.operator.array_shape
        start = backend.empty(shape)
        backend.fill(start, 0.0)
        faces.hold(backend.view(start))
        return start

    def in_place(self, discretisation: Discretisation) -> Array | None:
        """The source of a problem in the memory of the caller; None where it is not."""
        values = _rows(discretisation.problem.f, discretisation)
        if values is None:
            return None
        return self._setup.backend.in_place(
            values, discretisation.shift, lambda: _look(discretisation, discretisation.source)
        )

    def _load_initial(self, discretisation: Discretisation, faces: FaceTerms) -> None:
        setup, problem = self._setup, discretisation.problem
        backend = setup.backend
        if not problem.guess:
            backend.fill(setup.u, 0.0)
        elif (values := _rows(problem.initial, discretisation)) is None or (
            given := backend.in_place(values, 0.0, lambda: _look(discretisation, discretisation.initial))
        ) is None:
            backend.assemble(discretisation.array_shape, discretisation.initial, setup.u)
            return
        else:
            setup.operations.take(given, setup.u, setup.norms)
        faces.hold(backend.view(setup.u))

    def _load_source(self, discretisation: Discretisation, faces: FaceTerms) -> None:
        setup, backend = self._setup, self._setup.backend
        given = self.in_place(discretisation)
        if given is not None and setup.reads_in_place and not faces.adds:
            setup.source = given
            return
        setup.source = setup.f
        if given is None:
            backend.assemble(discretisation.array_shape, discretisation.source, setup.f)
            return
        setup.operations.take(given, setup.f, setup.norms)
        faces.add(backend.view(setup.f))

    def _terms(self, problem: Problem) -> FaceTerms:
        """Those of the faces; data that may have changed since they were read are read again."""
        if self._faces is None or self._faces[0] is not problem.faces or not all(map(_lasts, problem.faces)):
            self._faces = problem.faces, FaceTerms(problem)
        return self._faces[1]


def sources_of(given: Any, shape: tuple[int, ...]) -> list[Any]:
    """The sources that a user gives together, on a grid with arrays of this shape.

    Raises
    ------
    CaseError
        If it is one source, or nothing that can be gone through.
    """
    allowed = f"an array of the shape (k, {', '.join(map(str, shape))}), or a sequence of sources"
    if is_array(given):
        found = shape_of(given)
        if len(found) != len(shape) + 1:
            raise CaseError([f"fs: an array of the shape {found}; allowed: {allowed}"])
    elif isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise CaseError([f"fs: a {type(given).__name__}; allowed: {allowed}"])
    return list(given)


def _lasts(face: Face) -> bool:
    """Whether the data of a face are the same at every time."""
    return face.value is None or isinstance(face.value, Expression)


def _rows(field: Any, discretisation: Discretisation) -> NDArray[Any] | None:
    """The values of a field that is an array on the host, in the shape of the backend's arrays."""
    if not isinstance(field, ArrayField) or isinstance(field, PartField) or field.on_device:
        return None
    values: NDArray[Any] = field.values
    return values[np.newaxis] if values.ndim == 1 else values


def _look(discretisation: Discretisation, function: Any) -> None:
    """Evaluate a function of the problem everywhere, which tells of a value that is not finite."""
    for start, stop in slabs(discretisation.array_shape):
        function(np, start, stop)
