# SPDX-License-Identifier: MIT
"""The effective conductivity of a periodic cell: one solve along each axis, and the energies of the three fields.

With the periodic solution χ_k of −∇·(a ∇(χ_k + x_k)) = 0 the tensor is the mean of a ∇(χ_j + x_j) · ∇(χ_k + x_k), here
over the links of the operator. For exact χ these are the mean fluxes; for others the error is quadratic in theirs.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations_with_replacement
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from poisson import __version__, backends
from poisson.backends.base import Backend
from poisson.backends.processors import default_threads
from poisson.backends.registry import AUTO
from poisson.case import Case
from poisson.discrete.discretisation import Discretisation
from poisson.errors import BackendFailed, CaseError, PoissonError, ResourceError
from poisson.mesh.grid import AXES, Value
from poisson.output import hdf5
from poisson.output.files import drafted
from poisson.problem import arrays
from poisson.problem.fields import ArrayField, FieldFile
from poisson.problem.images import NO_PHASES, Phases, in_phases, phases_of
from poisson.problem.problem import MEANS, Problem
from poisson.problem.sampling import link_mean
from poisson.run.notices import Watching, judged, observer_of
from poisson.run.request import Arguments, BackendName, Method, Precision
from poisson.run.solution import Solution
from poisson.run.solver import Solver
from poisson.run.voxels import conducting_of, counts_of, over, paths_through
from poisson.solvers.stopping import Observer

log = logging.getLogger(__name__)

FORMAT = f"{hdf5.FORMAT}: effective 1"
ORIGIN = ("method", "backend", "device", "precision")

RTOL, LEAST_RTOL = 1e-5, 1e-8
"""The tolerance of the solves, unless it is given: the first number over √(largest a / least a > 0), and the second at
least. The error of the tensor is about the square of that of χ, in the energy, and where a is small much of χ leaves
little residual. In 112 random media of contrasts from 1 to 10⁶ the error was up to 3e-9 of the largest component."""


@dataclass(frozen=True, eq=False)
class Effective:
    """The effective conductivity of a periodic cell.

    Attributes
    ----------
    tensor : array of shape (d, d)
        Symmetric, rows and columns in the order x, y(, z), in the unit of a.
    bounds : mapping
        ``reuss`` and ``voigt``, between which every eigenvalue lies, and ``lower`` and ``upper``, the bounds of Hashin
        and Shtrikman, which hold for isotropic media.
    fractions : mapping
        The volume fraction of each conductivity; empty without phases.
    islands : int
        Conducting voxels without a connection through the periodic cell, which contribute nothing.
    solutions : mapping
        The solutions χ along each axis, by its name: one for each connected part with a path through the cell along it.
    seconds : float
        Wall time.

    Examples
    --------
    >>> layers = np.repeat([[0], [1]], 4, axis=0) * np.ones((8, 8), dtype=int)
    >>> found = poisson.effective(layers, {0: 1.0, 1: 3.0})
    >>> [round(float(value), 6) for value in np.diag(found.tensor)], found.fractions
    ([2.0, 1.5], {1.0: 0.5, 3.0: 0.5})
    """

    tensor: NDArray[np.float64]
    bounds: Mapping[str, float]
    fractions: Mapping[float, float]
    islands: int
    solutions: Mapping[str, tuple[Solution, ...]] = field(repr=False)
    seconds: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether every solve converged.

        Examples
        --------
        >>> poisson.effective(np.eye(4) + 1.0).converged
        True
        """
        return all(solution.status.success for solution in chain(*self.solutions.values()))

    @property
    def iterations(self) -> dict[str, int]:
        """Iterations of the solves along each axis, by its name.

        Examples
        --------
        >>> poisson.effective(np.eye(4) + 1.0, method="jacobi", rtol=0.5).iterations
        {'x': 2, 'y': 2}
        """
        return {name: sum(part.iterations for part in parts) for name, parts in self.solutions.items()}

    def save(self, path: str | Path, *, potentials: bool = False, overwrite: bool = False) -> Path:
        """Write an HDF5 file.

        Parameters
        ----------
        path : str or Path
            The file to write or replace.
        potentials : bool
            Whether χ along each axis is written, too.
        overwrite : bool
            Whether a file that this package did not write may be replaced.

        Raises
        ------
        OutputError
            If the file cannot be written.

        Examples
        --------
        >>> poisson.effective(np.eye(4) + 1.0).save("eye.h5").name
        'eye.h5'
        """
        import h5py

        hdf5.check_replaceable(path, overwrite=overwrite)
        with drafted(Path(path)) as draft:
            with h5py.File(draft.temporary, "w", locking=False) as file:
                file.attrs["format"] = FORMAT
                file.attrs["version"] = __version__
                file.attrs["converged"] = int(self.converged)
                file.attrs["islands"] = self.islands
                file["tensor"] = self.tensor
                file["tensor"].attrs["axes"] = list(AXES[: len(self.tensor)])
                file["conductivities"], file["fractions"] = list(self.fractions), list(self.fractions.values())
                file.create_group("bounds").attrs.update(self.bounds)
                for name, parts in self.solutions.items():
                    group = file.create_group(name)
                    group.attrs["iterations"] = [solution.iterations for solution in parts]
                    group.attrs["status"] = [solution.status.value for solution in parts]
                    if parts:
                        group.attrs.update({key: parts[0].provenance[key] for key in ORIGIN})
                    if parts and potentials:
                        group["potential"] = sum(solution.host_u for solution in parts)
            draft.put()
        return Path(path)


def effective(
    image: Any,
    phases: Mapping[Any, float] | None = None,
    method: Method = "auto",
    backend: BackendName = "auto",
    precision: Precision = "float64",
    *,
    spacing: float | tuple[float, ...] = 1.0,
    dataset: str | None = None,
    observer: Watching | None = None,
    strict: bool = False,
    **options: Unpack[Arguments],
) -> Effective:
    """The effective conductivity of a periodic voxel image.

    Parameters
    ----------
    image : array, str or Path
        ``(ny, nx)`` or ``(nz, ny, nx)`` labels, or without phases values of a; or a file with them: ``.npy``, HDF5,
        ``.png``, ``.tif``, or a pattern such as ``slices/*.png`` for the pages of a stack.
    phases : mapping, optional
        The conductivity >= 0 of every label.
    method, backend, precision, **options
        As of `poisson.Solver`. Without ``rtol`` it is 1e-5 / √(largest a / least a > 0), or 1e-8 where that is less.
        The error of the tensor is about the square of that of the solves: it was up to 3e-9 of the largest component.
    spacing : float or tuple of float
        The size of a voxel, or its sizes along x, y(, z).
    dataset : str, optional
        The dataset of an HDF5 file.
    observer, strict
        As of `poisson.solve`.

    Raises
    ------
    CaseError
        If the image, its phases or a setting is wrong.
    PoissonError
        As of `poisson.Solver`.

    Examples
    --------
    >>> board = np.indices((32, 32)).sum(axis=0) // 8 % 2  # not a checkerboard, but stripes along a diagonal
    >>> tensor = poisson.effective(board, {0: 1.0, 1: 4.0}, rtol=1e-6).tensor
    >>> bool(tensor[0, 1] < 0.0)
    True
    """
    try:
        known = phases_of(phases) if phases is not None else ()
    except (TypeError, ValueError, AttributeError):
        raise CaseError(f"phases: {phases!r}; allowed: {NO_PHASES}") from None

    def make(problem: Problem, contrast: float) -> Solver:
        given: Arguments = {**options}
        given.setdefault("rtol", max(LEAST_RTOL, RTOL / math.sqrt(contrast)))
        return Solver(problem, method, backend, precision, **given)

    threads = options.get("threads")
    threads = threads if isinstance(threads, int) and threads > 0 else None  # a wrong one the solver refuses

    def find(device: Backend | None) -> Effective:
        problem = _problem(image, known, spacing, dataset, device)
        return _effective(problem, known, make, observer_of(observer), threads, device)

    found = _somewhere(backend, find)
    for solution in chain(*found.solutions.values()):
        judged(solution, strict=strict, speaks=True)
    return found


def effective_of(case: Case, observer: Observer | None = None) -> Effective:
    """The same of a case, without a word of the ends: its box is the cell, and its f plays no part.

    Raises CaseError if the box is not periodic along every axis, or c is not 0.
    """
    problem = case.problem
    if not all(problem.lattice.periodic):
        raise CaseError('boundary: a cell is periodic; allowed here: "periodic" along every axis')
    if problem.c != 0.0:
        raise CaseError("equation.c: a cell has no losses; allowed here: 0")
    phases = problem.a.phases if isinstance(problem.a, FieldFile) else None

    def make(other: Problem, _: float) -> Solver:
        return Solver.of(replace(case, problem=other))

    find = partial(_effective, problem, phases or (), make, observer, case.run.threads)
    return _somewhere(case.run.backend, find)


def _somewhere(backend: str, find: Callable[[Backend | None], Effective]) -> Effective:
    """The conductivity, found on the device of a backend, or on the host where ``auto`` may and the device fails.

    `find`: is given a backend with the device; None for the host.
    """
    device = _device(backend)
    try:
        with backends.reported():
            return find(device)
    except (ResourceError, BackendFailed) as error:
        if device is None or backend != AUTO:
            raise
        log.warning("the image does not fit on the device; going on on the host: %s", error)
    return find(None)


def _device(backend: str) -> Backend | None:
    """A backend with the device that one by this name has; None without."""
    if backend not in (AUTO, "gpu"):
        return None
    try:
        return backends.create("gpu", np.float64)
    except PoissonError:
        return None  # The solver says why.


def _problem(image: Any, known: Phases, spacing: Any, dataset: str | None, device: Backend | None) -> Problem:
    """The problem of a cell."""
    if isinstance(image, (str, Path)):
        a: Any = FieldFile(Path(image), dataset, known or None)
        shape = a.shape
    else:
        if device is None or not arrays.on_device(image):
            labels = arrays.host(image)
            labels = device.brought(labels) if device and known and labels.ndim > 1 else labels
        else:
            labels = device.array_module.asarray(image)
        a = in_phases(labels, known, "image", default_threads()) if known else image
        shape = np.shape(a) if isinstance(a, (list, tuple)) else arrays.shape_of(a)
    if len(shape) not in (2, 3):
        raise CaseError(f"image: the shape {shape}; allowed: (ny, nx) or (nz, ny, nx)")
    try:
        sizes = [float(size) for size in np.broadcast_to(spacing, len(shape))]
        if not min(sizes) > 0.0:
            raise ValueError
    except (TypeError, ValueError):
        raise CaseError(f"spacing: {spacing!r}; allowed: a number > 0, or one for each of x, y(, z)") from None
    nodes = shape[::-1]
    upper = [size * count for size, count in zip(sizes, nodes, strict=True)]
    return Problem.on_box(nodes, a=a, upper=upper, boundary="periodic")


def _effective(
    problem: Problem,
    phases: Phases,
    make: Callable[[Problem, float], Solver],
    observer: Observer | None,
    threads: int | None,
    device: Backend | None,
) -> Effective:
    """The tensor; `make`: makes the solver of a problem, given its largest a over its least one above 0."""
    start = time.perf_counter()
    xp: ModuleType = np if device is None else device.array_module
    threads = (threads or default_threads()) if xp is np else 1
    lattice = problem.lattice
    names = AXES[: lattice.dimension]
    if phases and isinstance(problem.a, ArrayField):
        a = problem.a.values
    else:
        a, sampled = xp.empty(lattice.array_shape), Discretisation(problem).a
        over(a, lambda start, stop: xp.copyto(a[start:stop], sampled(xp, start, stop)), threads)
    tensor = np.zeros((lattice.dimension,) * 2)
    solutions: dict[str, tuple[Solution, ...]] = dict.fromkeys(names, ())
    counts = counts_of(a, sorted({value for _, value in phases}), threads)
    conducting, least, most = conducting_of(a, counts, threads)
    visited, parts = conducting, [(a, list(range(lattice.dimension)))]
    if conducting < a.size:
        through = list(paths_through(a, threads))
        parts = [(part, axes) for part, axes, _ in through]
        visited = sum(voxels for _, _, voxels in through)
    for part, axes in parts:
        solver = make(replace(problem, a=ArrayField(part)), most / least)
        own = solver.backend.array_module
        values = arrays.host(part) if own is np else own.asarray(part)
        cell = solver.backend.cell(values, problem.mean == MEANS[0], lattice.spacing)
        cell = cell or HostCell(values, problem, solver.backend.threads)
        for axis in axes:
            solutions[names[axis]] += (solver.keep_on(None, observer, None, f=cell.source(axis)),)
        potentials = [own.asarray(solutions[names[axis]][-1].u, dtype=float) for axis in axes]
        for (j, k), energy in cell.energies(dict(zip(axes, potentials, strict=True))).items():
            tensor[j, k] += energy / a.size
    tensor += np.triu(tensor, 1).T
    fractions = {value: count / a.size for value, count in counts.items()}
    present = {value: part for value, part in fractions.items() if part > 0.0}
    values, weights = (np.array(list(present)), np.array(list(present.values()))) if present else (a, None)
    bounds = _bounds(values, weights, a.ndim)
    return Effective(tensor, bounds, fractions, conducting - visited, solutions, time.perf_counter() - start)


@dataclass
class HostCell:
    """Sources and energies of a cell on the host.

    a on the links from the nodes to the next ones along each axis, as the operator has it, is made plane by plane, in
    threads, and not kept.
    """

    a: NDArray[np.float64]
    problem: Problem
    threads: int

    def source(self, axis: int) -> Any:
        """The source of χ along an axis."""
        lattice = self.problem.lattice
        f, place = np.empty(self.a.shape), lattice.array_axis(axis)

        def fill(start: int, stop: int) -> None:
            link = self._links(place, start - (place == 0), stop)
            before = np.roll(link, 1, axis=place) if place else link[:-1]
            f[start:stop] = (link[(not place) :] - before) / lattice.spacing[axis]

        self._over(fill)
        return f

    def energies(self, potentials: Mapping[int, Any]) -> dict[tuple[int, int], float]:
        """The sums of a ∇(χ_j + x_j) · ∇(χ_k + x_k), by j and k."""
        pairs = list(combinations_with_replacement(potentials, 2))

        def sums(start: int, stop: int) -> list[float]:
            found = [0.0] * len(pairs)
            for axis, h in enumerate(self.problem.lattice.spacing):
                place = self.problem.lattice.array_axis(axis)
                ends = {k: self._ends(u, place, start, stop) for k, u in potentials.items()}
                drops = {k: beyond - here for k, (here, beyond) in ends.items()}
                if axis in drops:
                    drops[axis] += h
                link = self._links(place, start, stop) / h**2
                flows = {k: link * drop for k, drop in drops.items()}
                found = [old + float((flows[j] * drops[k]).sum())
                         for old, (j, k) in zip(found, pairs, strict=True)]  # fmt: skip
            return found

        return dict(zip(pairs, map(math.fsum, zip(*self._over(sums), strict=True)), strict=True))

    def _links(self, place: int, first: int, last: int) -> Any:
        with np.errstate(divide="ignore"):
            return link_mean(self.problem.mean, *self._ends(self.a, place, first, last))

    def _ends(self, values: Any, place: int, first: int, last: int) -> tuple[Any, Any]:
        """The values of some planes, and those at the next nodes along an axis of an array."""
        if place:
            return values[first:last], np.roll(values[first:last], -1, axis=place)
        around = [values[-1:]] * (first < 0), [values[max(first, 0) : last + 1]], [values[:1]] * (last == len(values))
        planes = np.concatenate(list(chain(*around)))
        return planes[:-1], planes[1:]

    def _over(self, work: Callable[[int, int], Value]) -> list[Value]:
        return over(self.a, work, self.threads)


def _bounds(a: Any, weights: NDArray[np.float64] | None, dimension: int) -> dict[str, float]:
    """The bounds that follow from the values of a and their volume fractions alone.

    References
    ----------
    Z. Hashin and S. Shtrikman, "A variational approach to the theory of the effective magnetic permeability of
    multiphase materials", Journal of Applied Physics 33 (1962) 3125-3131.
    """

    def average(values: Any) -> float:
        return float(values.mean() if weights is None else np.average(values, weights=weights))

    def mean(other: float) -> float:
        """The harmonic mean of a + (d − 1) other, without that again."""
        rest = (dimension - 1) * other
        with np.errstate(divide="ignore"):
            inverse = average(1.0 / (a + rest))
        return 1.0 / inverse - rest if math.isfinite(inverse) else 0.0

    least, largest = float(a.min()), float(a.max())
    return {"reuss": mean(0.0), "lower": mean(least), "upper": mean(largest), "voigt": average(a)}
