# SPDX-License-Identifier: MIT
"""The solution that a solve returns: its record, with ways to save it, show it and hand it on."""

from __future__ import annotations

import copy
import logging
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError, PackageMissing
from poisson.mesh.boundary import FaceName
from poisson.output.pictures import drawing
from poisson.output.record import Record, field_note
from poisson.problem.arrays import on_device
from poisson.run import derived
from poisson.run.ranks import Held

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from xarray import Dataset

    from poisson.output.pictures.picture import Picture


log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Record):
    """The result of a solve: see `poisson.output.record.Record` for what it holds.

    Examples
    --------
    >>> solution = poisson.solve(poisson.Problem.on_box((33, 33), f="2*pi*pi*sin(pi*x)*sin(pi*y)"), "fft", "numpy")
    >>> solution
    Solution
      equation  -div(a grad u) + c u = f, a = 1
      grid      33 x 33 nodes on [0, 1] x [0, 1]
      method    fft on numpy, float64
      status    converged after 1 iteration
      residual  ... (rms), target 1.02e-07
      u         0 to 1.0008, float64
      time      ... s, ... s of them in the loop
    """

    def __repr__(self) -> str:
        from poisson.output import summary

        return summary.text(self)

    def _repr_html_(self) -> str | None:
        # A notebook goes on to the text where this gives nothing, and must not end with an error.
        try:
            from poisson.output import summary

            return summary.html(self)
        except Exception as error:
            log.debug("no table of a solution: %s", error)
            return None

    def __getstate__(self) -> dict[str, Any]:
        if self.share is not None:
            line = "a part of a solution cannot be pickled: gather the solution, or save it and load the file"
            raise CaseError(f"pickle: {line}")
        # Where it is read again there may be no device.
        return self.__dict__ | ({"u": self.host_u} if on_device(self.u) else {})

    def __copy__(self) -> Solution:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Solution:
        return replace(self, **{part.name: copy.deepcopy(getattr(self, part.name), memo) for part in fields(self)})

    @cached_property
    def gradient(self) -> NDArray[Any]:
        """∇u at the nodes, the components x(, y(, z)) last, in U/L.

        That of `fields` if it was asked for before the solve; else by differences of second order, computed when it is
        asked for first, with the threads of this machine.

        Examples
        --------
        >>> poisson.solve(poisson.Problem.on_box((9, 9), boundary="3*x + y")).gradient[4, 4].round(6)
        array([3., 1.])
        """
        return self._vector("gradient")

    @cached_property
    def flux(self) -> NDArray[Any]:
        """−a∇u at the nodes, as `gradient`; where a varies by the fluxes through the links (docs/numerics.md).

        Examples
        --------
        >>> poisson.solve(poisson.Problem.on_box((9, 9), a=2.0, boundary="3*x + y")).flux[4, 4].round(6)
        array([-6., -2.])
        """
        return self._vector("flux")

    @cached_property
    def E(self) -> NDArray[Any]:  # noqa: N802 - the name in physics
        """−∇u at the nodes, as `gradient`: the electric field, where u is a potential.

        Examples
        --------
        >>> solution = poisson.solve(poisson.Problem.on_box((9, 17, 5), boundary="3*x + y - z"))
        >>> solution.E.shape, solution.E[2, 3, 4].round(6)
        ((5, 17, 9, 3), array([-3., -1.,  1.]))
        """
        return self._vector("E")

    def at(self, *points: Any, field: str = "u") -> Any:
        """u, or a field, at points between the nodes, by cubics: to the order of the scheme and better.

        Parameters
        ----------
        *points : float or array
            x(, y(, z)) in L; arrays broadcast against each other. Periodic axes wrap around. Where all outer faces are
            open, u, the gradient and E are known beyond a box of two axes or three too, by the charges on its faces.
        field : str
            ``u``, one of `fields`, ``gradient``, ``flux`` or ``E``.

        Returns
        -------
        float or array
            Of the shape of the points, for a vector with the components behind that.

        Raises
        ------
        GridError
            If a point is outside of the box and an outer face is not open, or the coordinates do not fit.
        CaseError
            If there is no such field, or this process has a part of it only.

        Examples
        --------
        >>> solution = poisson.solve(poisson.Problem.on_box((9, 9), boundary="3*x + y"))
        >>> round(solution.at(0.3, 0.77), 6)
        1.67
        >>> solution.at([0.1, 0.2, 0.3], 0.5, field="E").shape
        (3, 2)
        """
        return derived.at(self, points, field)

    def face_flux(self, face: FaceName) -> float:
        """∫ −a ∂u/∂n over a face, outward normal: what leaves the box there, in U·L^(d−2) in d dimensions.

        It is the flux that the discrete equations balance: those of all faces add up to ∫(f − c u) less the integral of
        the residual, to rounding. It is of second order.

        Parameters
        ----------
        face : str
            Such as ``x_lower``; not of a periodic axis.

        Raises
        ------
        CaseError
            If there is no such face, or this process has a part of u only.

        Examples
        --------
        >>> solution = poisson.solve(poisson.Problem.on_box((9, 9), boundary="3*x + y"))
        >>> round(solution.face_flux("x_lower"), 6)
        3.0
        """
        return derived.face_flux(self, face)

    def fluxes(self) -> dict[str, float]:
        """`face_flux` of every face that is not periodic, by name.

        Examples
        --------
        >>> solution = poisson.solve(poisson.Problem.on_box((33, 33), f=1.0), rtol=1e-12)
        >>> {face: round(flux, 6) for face, flux in solution.fluxes().items()}
        {'x_lower': 0.25, 'x_upper': 0.25, 'y_lower': 0.25, 'y_upper': 0.25}
        """
        return {face: derived.face_flux(self, face) for face in derived.faces(self)}

    def _vector(self, name: str) -> NDArray[Any]:
        if (found := self.fields.get(name)) is not None:
            return found
        # Where the file has one of the two, the other one has the same order of accuracy.
        opposite = self.fields.get({"gradient": "E", "E": "gradient"}.get(name, ""))
        if opposite is not None:
            return -np.asarray(opposite)
        return -self.gradient if name == "E" else derived.vector(self, name)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the result in HDF5, and beside it the XDMF file by which ParaView opens it.

        Where several processes have a part each, all of them call this, and each writes its own.

        Parameters
        ----------
        path : str or Path
            The HDF5 file; it appears whole or not at all.
        overwrite : bool
            Whether files of these names that are no results may be replaced; older results always are.

        Returns
        -------
        Path
            The HDF5 file.

        Raises
        ------
        OutputError
            If it cannot be written; the line says where the result was saved instead.

        Examples
        --------
        >>> solution = poisson.solve(poisson.Problem.on_box((33, 33), f=1.0))
        >>> path = solution.save("square.h5", overwrite=True)  # and square.xmf
        >>> poisson.load(path).u.shape
        (33, 33)
        """
        from poisson.output import result

        return result.save(path, self, overwrite=overwrite).path

    def gather(self, field: str = "u", *, all: bool = False) -> NDArray[Any] | None:
        """The whole of u or of a field, where several processes have a part each, which all call this.

        Parameters
        ----------
        field : str
            ``u`` or one of `fields`.
        all : bool
            Whether every process gets it, or only the first.

        Returns
        -------
        array or None
            A NumPy array with the grid's ``array_shape``; None on the other processes. In a single process u, or the
            field, itself.

        Raises
        ------
        CaseError
            If there is no such field.

        Examples
        --------
        >>> solution = poisson.solve(poisson.Problem.on_box((33, 33), f=1.0))  # with comm=…, on every process
        >>> solution.gather().shape
        (33, 33)
        """
        known = {"u": self.host_u, **self.fields}
        if field not in known:
            raise CaseError(f"the solution has no field {field!r}; its fields are {', '.join(known)}")
        if self.share is None:
            return known[field]
        held = Held(self.share.communicator, self.share.ranges, self.problem.lattice.array_shape)
        return held.gather(known[field], everywhere=all)

    def to_xarray(self) -> Dataset:
        """u and the fields on their coordinates, as xarray opens them from a file of `save`.

        Returns
        -------
        xarray.Dataset
            With the dimensions z, y, x (those there are), ``component`` for vectors, and how the solve ended among the
            attributes. NumPy arrays, not copied where u is one. Where several processes have a part each, of this one.

        Raises
        ------
        PackageMissing
            If xarray is not installed.

        Examples
        --------
        >>> data = poisson.solve(poisson.Problem.on_box((33, 33), boundary="x")).to_xarray()
        >>> round(float(data.u.sel(x=0.5, y=0.25)), 6)
        0.5
        """
        try:
            import xarray
        except ModuleNotFoundError as error:
            raise PackageMissing("to_xarray needs xarray: pip install xarray") from error

        grid = self.problem.lattice
        names = grid.names
        ranges = self.share.ranges[::-1] if self.share else tuple((0, nodes) for nodes in grid.shape)
        coordinates: dict[str, Any] = {
            name: (name, grid.coordinates(axis)[slice(*ranges[axis])], {"units": self.units.length})
            for axis, name in enumerate(names)
        }
        variables = {}
        for name, values in {"u": self.host_u, **self.fields}.items():
            vector = values.ndim > grid.dimension
            dimensions = (*reversed(names), *(("component",) if vector else ()))
            long_name, units = field_note(name, self.units)
            variables[name] = (dimensions, values, {"long_name": long_name, "units": units})
            if vector:
                coordinates["component"] = ("component", list(names), {})
        attributes: dict[str, Any] = {
            "title": self.problem.title,
            "status": self.status.value,
            "iterations": self.iterations,
            "residual": self.residual,
        }
        return xarray.Dataset(variables, coordinates, attributes)

    @overload
    def plot(
        self,
        field: str = "u",
        *,
        ax: None = None,
        cmap: str | Colormap | None = None,
        levels: int | Sequence[float] | None = None,
        log: bool = False,
        range: str | Sequence[float] | None = None,
        slice: str | Mapping[str, float] | None = None,
        vectors: bool = False,
        lines: bool = False,
        length: str | None = None,
        value: str | None = None,
    ) -> Picture: ...

    @overload
    def plot(
        self,
        field: str = "u",
        *,
        ax: Axes,
        cmap: str | Colormap | None = None,
        levels: int | Sequence[float] | None = None,
        log: bool = False,
        range: str | Sequence[float] | None = None,
        slice: str | Mapping[str, float] | None = None,
        vectors: bool = False,
        lines: bool = False,
        length: str | None = None,
        value: str | None = None,
    ) -> Axes: ...

    def plot(
        self,
        field: str = "u",
        *,
        ax: Axes | None = None,
        cmap: str | Colormap | None = None,
        levels: int | Sequence[float] | None = None,
        log: bool = False,
        range: str | Sequence[float] | None = None,
        slice: str | Mapping[str, float] | None = None,
        vectors: bool = False,
        lines: bool = False,
        length: str | None = None,
        value: str | None = None,
    ) -> Picture | Axes:
        """Draw a field: a curve in 1D, colours in 2D, three planes and surfaces of one value in 3D.

        The planes go through the place where the field is farthest from its median, near the middle of the box. A large
        grid is drawn on some of its nodes.

        Parameters
        ----------
        field : str
            ``u``, one of `fields` (of a vector the length is drawn, with arrows), or ``error`` where the exact solution
            is known.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a figure of its own. A field in 3D takes several, so it needs `slice`, too.
        cmap : str or Colormap, optional
            The colours; by default those that diverge from zero where the field has both signs.
        levels : int or sequence of float, optional
            How many levels there are, about, or which ones: one colour between two of them. By default the colours are
            smooth.
        log : bool
            Whether the colours, or the axis of a curve, are logarithmic. Zeros count as less than the smallest other
            value. Of a field with both signs it is the size that is logarithmic, down to a linear part around zero.
        range : str or pair of float, optional
            The values at both ends of the colours, or of the axis of a curve, also as ``"0,1.5"``; ``"full"`` for all
            values. By default it is all values, but in a plane or a box with a peak, where 96% of them span less than a
            quarter of it, the range of these. The picture names values that lie beyond.
        slice : str or mapping, optional
            Where to cut through the box: ``"z=0.5"``, or ``"x=0,y=1"`` for a line.
        vectors : bool
            Whether to draw arrows along −a∇u, or −∇u if the flux is no field of the solution. All have one length.
        lines : bool
            Whether to draw the lines of that field.
        length, value : str, optional
            Names of the units of length and of u, such as ``"m"`` and ``"V"``; by default those of ``[output] units``.

        Returns
        -------
        Picture or Axes
            A figure of matplotlib: a notebook shows it, ``figure.show()`` opens a window, ``figure.savefig("u.png")``
            writes it. With `ax`, that.

        Raises
        ------
        CaseError
            If there is no such field, an option does not fit, or this is a part of a solution.
        PackageMissing
            If matplotlib is not installed.

        Examples
        --------
        >>> solution = poisson.solve(poisson.Problem.on_box((33, 33), f=1.0))
        >>> solution.plot(lines=True, length="m", value="V").savefig("u.png")
        """
        with drawing("plot", "matplotlib"):
            from poisson.output.pictures.figures import draw
        options: dict[str, Any] = {"cmap": cmap, "levels": levels, "slice": slice, "vectors": vectors, "lines": lines}
        return draw(self, field, ax=ax, log=log, range=range, length=length, value=value, **options)

    @overload
    def plot_history(self, *, ax: None = None) -> Picture: ...

    @overload
    def plot_history(self, *, ax: Axes) -> Axes: ...

    def plot_history(self, *, ax: Axes | None = None) -> Picture | Axes:
        """Draw the residual norm over the iterations, and the target.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a figure of its own.

        Returns
        -------
        Picture or Axes
            As `plot`.

        Raises
        ------
        PackageMissing
            If matplotlib is not installed.

        Examples
        --------
        >>> solution = poisson.solve(poisson.Problem.on_box((33, 33), f=1.0), "multigrid")
        >>> solution.plot_history().savefig("history.png")
        """
        with drawing("plot", "matplotlib"):
            from poisson.output.pictures.figures import draw_history
        return draw_history(self, ax=ax)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a solve.

    Parameters
    ----------
    solution : Solution
        The last complete iterate, with the status ``interrupted``; where the loop had ended before, its result.
    number : int
        The signal, that of Ctrl-C or one that the caller has made count as such.

    Examples
    --------
    >>> problem = poisson.Problem.on_box((33, 33), f=1.0)
    >>> try:
    ...     solution = poisson.solve(problem)
    ... except poisson.Interrupted as stopped:  # Ctrl-C
    ...     solution = stopped.solution
    """

    def __init__(self, solution: Solution, number: int = signal.SIGINT) -> None:
        super().__init__("the solve was interrupted; the last complete iterate is the solution of this exception")
        self.solution = solution
        self.number = number
