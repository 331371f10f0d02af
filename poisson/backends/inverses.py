# SPDX-License-Identifier: MIT
"""Direct solutions, as `Backend.bind` gives them for an `Inverse`, and for the part of a rank in one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.inverse import FaceValues

Array = Any
Reduction = Any
Norms = tuple[float, float]


class InverseOperations(ABC):
    """A direct solution by fast transforms, whose set-up is done.

    Raises `ValueError` if the coefficients of the operator vary.
    """

    @abstractmethod
    def solve(self, f: Array, u: Array) -> None:
        """u = A⁻¹ f where nodes are not fixed; if A is singular, of zero mean, for f less its mean. f may change.

        Where fixed nodes hold nothing (`Inverse.held`), u has zeros there, which need not be read. Without fixed nodes
        f may be u.
        """

    def solve_from(self, f: Array, work: Array, u: Array, source: Reduction, left: Reduction) -> bool:
        """The same where fixed nodes hold nothing, for f in the memory of the caller, which keeps its values.

        `work` (array): loses its values. `source`, `left`: get the norms of f and of f − A u, as `Operations.take` and
        `certify`. Returns: false where this solution reads no such f; then nothing has changed.
        """
        return False


class CertifyingInverse(InverseOperations):
    """A direct solution that certifies u at once, of sources that may be in the memory of the caller."""

    @property
    @abstractmethod
    def together(self) -> bool:
        """Whether it solves for several at once."""

    @abstractmethod
    def solve_many(self, fs: Sequence[Array], start: Array) -> tuple[Sequence[Array], Sequence[Sequence[float]]]:
        """us = A⁻¹ fs for sources in the memory of the caller; `start` has the values at fixed nodes.

        Returns: new arrays, and for each the norms of the source, and those of the residual of the solution: (Σ f²,
        max |f|, Σ r², max |r|).
        """

    @abstractmethod
    def solve_certified(self, f: Array, u: Array, values: FaceValues | None = None) -> tuple[Norms, Norms] | None:
        """u = A⁻¹ f for a source that keeps its values.

        Where there is no result f is zero, and u at the nodes that are not fixed, too, or this operator goes another
        way, and u is as it was. `values`: on some faces, where u has zeros; left alone by an operator that does not
        have the layers next to them before it has u.

        Returns: the norms of f and of f − A u, as (sum of squares, maximum).
        """


class DividedInverseOperations(ABC):
    """The part of a rank in a direct solution where the slowest axis is divided; `poisson.parallel.fast` has the whole.

    Planes are arrays of the backend of shape (1, values), with a value for each mode of the axes that are whole.

    `eigenvalues` (array): at each value of a plane that of the other axes, with c added, in 1/L². At values that are no
    mode, positive. Raises `ValueError` if the coefficients vary, or another axis is divided.
    """

    eigenvalues: NDArray[np.float64]

    @abstractmethod
    def condense(self, f: Array, u: Array, first: Array | None, last: Array | None, line: Array | None) -> None:
        """Transform f, with the boundary data in u, and find what flows into the separators while they are zero.

        `f`, `u` (array): as for `InverseOperations.solve`; f becomes its modes. `first` (array): a plane: what the run
        has for the separator below, if there is one. `last` (array): a plane: what it has for its own separator, with
        the equation there, if it has one. `line` (array): shape (1, unknown rows): the first mode of f along the run,
        if the whole problem is singular.
        """

    @abstractmethod
    def expand(self, f: Array, u: Array, below: Array | None, above: Array | None, line: Array | None) -> None:
        """u = A⁻¹ f on the unknown rows that the rank owns, from what `condense` left in f.

        `f`, `u` (array): as for `condense`. `below`, `above` (array): the values at the separator below and at the
        run's own, where there are such. `line` (array): the first mode of u along the run, if the whole problem is
        singular.
        """
