# SPDX-License-Identifier: MIT
"""Contributions of the faces of a problem to whole arrays, evaluated once for many sources."""

import copy
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.boundary import Rule
from poisson.problem import sampling
from poisson.problem.problem import Problem

Terms = list[tuple[Any, Any]]
"""Values, and the nodes of an array that they belong to."""


class FaceTerms:
    """The boundary values and the source terms of the faces, on the arrays of a whole grid.

    `problem`: with the data of the faces. Raises `CaseError` if a value is not finite; the line names the key and the
    place.
    """

    def __init__(self, problem: Problem) -> None:
        shape = problem.lattice.of_arrays.array_shape
        block = tuple((0, count) for count in shape)
        fixed = list(sampling.held_faces(problem, block))
        # The face that stands first has the nodes that it shares: it comes last.
        self._fixed: Terms = [
            (where, _on(shape, where, sampling.face_value(problem, np, face, block))) for face, where in fixed[::-1]
        ]
        self._held = any(values.any() for _, values in self._fixed)
        self._terms: Terms = []
        self._scales: Terms = []
        surface = None
        if problem.bodies:
            from poisson.discrete.surface import surface_of

            surface = surface_of(problem)
            # Faces come after bodies: they have the nodes that both reach.
            self._fixed.insert(0, surface.held.within(block))
            self._terms.append(surface.source.within(block))
            self._held = True
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

    def on(self, xp: ModuleType) -> "FaceTerms":
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
        """Write the boundary values into an array that is zero at fixed nodes."""
        if self._held:
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
