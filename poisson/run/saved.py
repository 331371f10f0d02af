# SPDX-License-Identifier: MIT
"""A solution from the file that holds it."""

import logging
from collections.abc import Collection
from pathlib import Path

import numpy as np

from poisson.backends.host import host_memory
from poisson.case.stored import problem_of
from poisson.errors import CaseError
from poisson.mesh.axis import Axis, plain_rules
from poisson.mesh.boundary import Kind
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes
from poisson.mesh.system import SYSTEMS
from poisson.output.reading import EDITED, Placed, Stored, one_line, read
from poisson.output.record import POTENTIAL
from poisson.problem.faces import Face
from poisson.problem.fields import FieldFile
from poisson.problem.problem import Problem
from poisson.run.solution import Solution

log = logging.getLogger(__name__)


def load(path: str | Path, fields: Collection[str] | None = None, *, lazy: bool = False) -> Solution:
    """The solution in a result file.

    The file may come from anyone: it is refused in one line where it is damaged, leads into other files or needs more
    memory than there is. (The HDF5 library may crash on a file that was made to do that; ``python -m poisson info``
    reads in a process of its own.)

    Parameters
    ----------
    path : str or Path
        A file written by `Solution.save` or the command ``solve``.
    fields : collection of str, optional
        The fields wanted beside u; by default all that the file has.
    lazy : bool
        Whether u and the fields stay in the file, which is open only while a part of them is read: ``u[40]`` reads one
        plane, ``solution.host_u`` all.

    Returns
    -------
    Solution
        As it was saved. Its problem is that of the case in the file; where data of that are in another file, in an
        array or in a function, and not in the result, they are looked for when they are needed, relative to the folder
        of the result.

    Raises
    ------
    OutputError
        If the file is missing, locked, no result, damaged, or larger than the memory.
    CaseError
        If it has not all of the fields that are asked for.

    Examples
    --------
    >>> solution = poisson.solve(poisson.Problem.on_box((33, 33), f=1.0), fields=("residual", "f"))
    >>> path = solution.save("square.h5", overwrite=True)
    >>> poisson.load(path).problem == solution.problem
    True
    >>> poisson.load(path, ["residual"], lazy=True).fields["residual"][16, 4:8].shape
    (4,)
    """
    path = Path(path)
    if isinstance(fields, str):
        raise CaseError(f"fields: {fields!r}; allowed: a list of names, such as [{fields!r}]")
    stored = read(path, fields, free=_free, lazy=lazy)
    if stored.edited:
        log.warning("%s: %s", path, EDITED)
    problem = _problem(path, stored)
    if any(body.floating for body in problem.bodies):
        from poisson.run.conductors import held

        told = {name.removeprefix(POTENTIAL): value for name, value in stored.provenance.items()}
        problem = held(problem, {body.name: float(told.get(body.name, 0.0)) for body in problem.bodies})
    return Solution(
        problem=problem,
        u=stored.u,
        status=stored.status,
        iterations=stored.iterations,
        norm=stored.norm,
        residual=stored.residual,
        target=stored.target,
        history=stored.history,
        fields=stored.fields,
        error=stored.error,
        times=stored.times,
        provenance=stored.provenance,
        case_text=stored.case_text,
        performance=stored.performance,
        error_bar=stored.error_bar,
        units=stored.units,
    )


def _free() -> int:
    return host_memory()[0]


def _axis(uniform: Axis, placed: Placed | None, power: int) -> Axis:
    """The axis on the interval of a uniform one whose nodes are placed as a file says."""
    if placed is None:
        return uniform
    kind, points = placed
    kinds = (Kind.PERIODIC if uniform.wraps else Kind.NEUMANN,) * 2
    if kind == "nodes":
        points = np.append(points, uniform.interval[1:]) if uniform.wraps else points
        return Axis.placed(Nodes(points, kinds, power=power))
    marks = [uniform.interval[0]]
    for point in points:
        marks.append(2.0 * float(point) - marks[-1])
    marks[-1] = uniform.interval[1]  # but for rounding
    return Axis.placed({"cells": Cells}[kind](marks, kinds, power=power))


def _same(one: Lattice, other: Lattice) -> bool:
    """Whether the nodes are the same, where they are tabulated but for rounding: a file has no walls of cells."""
    return one == other or (
        (one.shape, one.rules, one.lower, one.upper) == (other.shape, other.rules, other.lower, other.upper)
        and all(
            type(a.placement) is type(b.placement)
            and np.allclose(a.coordinates, b.coordinates, rtol=0.0, atol=1e-6 * float(a.gaps.min()))
            for a, b in zip(one.axes, other.axes, strict=True)
        )
    )


def _problem(path: Path, stored: Stored) -> Problem:
    """The problem of the case in the file; where there is none, what the file says of it."""
    instead: dict[str, FieldFile] = {name: FieldFile(path, name) for name in ("f", "a", "c") if name in stored.datasets}
    try:
        box = Lattice.box(stored.lower, stored.upper, stored.shape, plain_rules(*stored.periodic))
        powers = (SYSTEMS[stored.system][box.dimension].power, 0, 0)
        grid = Lattice(tuple(map(_axis, box.axes, stored.placements, powers)), stored.system)
    except (KeyError, ValueError) as error:
        raise CaseError(f"{path}: {one_line(error)}") from None
    if not stored.case_text:
        reason = "the file has no case"
    else:
        try:
            problem = problem_of(stored.case_text, stored.title, path.parent, instead, grid)
            if _same(problem.lattice, grid.facing([face.kind for face in problem.faces])):
                return problem
            reason = "the case in the file has another grid"
        except CaseError as error:
            reason = f"the case in the file cannot be read: {one_line(error.mistakes[0])}"
    log.warning("%s: %s; only the grid of the problem is known", path, reason)

    def given(name: str) -> FieldFile:
        return FieldFile(path, name)

    faces = tuple(
        Face(Kind.PERIODIC)
        if grid.periodic[face // 2]
        else Face(Kind.AXIS)
        if grid.centred and not face
        else Face(Kind.DIRICHLET, given(name))
        for face, name in enumerate(grid.faces)
    )
    return Problem(grid, faces, given("f"), title=stored.title, a=given("a"), c=given("c"))
