# SPDX-License-Identifier: MIT
"""From a problem to the arrays and constants that a backend needs.

The operator is that of `poisson.discrete.operator`; a between two nodes is the harmonic or the arithmetic mean of its
values at them. What the faces add stands in three places:

- a Dirichlet condition in the initial guess, whose fixed nodes have the boundary values; where no node lies on the
  face, in the source, with the conductance of the wall before it, which the operator has,
- a ∂u/∂n = g in the source, as g over the control width at the face: 2 g / h where that is half a cell, whose inner
  side the mirror rule has,
- a ∂u/∂n + αu = g in the source and in c, as g and α over that width; where the face lies at a distance d from the
  nodes, both with the factor 1 / (1 + α d / a) that the part of a cell before it leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.mask import insulated
from poisson.discrete.operator import Coefficients, Operator
from poisson.discrete.samples import Range, Samples, Slab
from poisson.discrete.share import Share, known_to_all, numbers_of, on_blocks, pieces_of
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import slabs
from poisson.mesh.lattice import Lattice
from poisson.problem import sampling
from poisson.problem.expressions import Expression
from poisson.problem.faces import may_absorb
from poisson.problem.problem import Coefficient, Problem, number
from poisson.problem.sampling import Block

if TYPE_CHECKING:
    from poisson.discrete.surface import Surface

__all__ = ["Coefficients", "Discretisation", "Operator", "Slab"]

OnBlock = Callable[[ModuleType, Block], Any]


class Linking(Protocol):
    """The part of an operator's operations that makes the coefficients of links."""

    def links(self, axis: int, a: Any, harmonic: bool, out: Any) -> None: ...


class Maker(Protocol):
    """The part of a backend that makes the arrays of coefficients."""

    dtype: np.dtype[Any]

    def empty(self, array_shape: tuple[int, ...]) -> Any: ...

    def assemble(self, array_shape: tuple[int, ...], slab: Slab) -> Any: ...

    def to_host(self, array: Any) -> Any: ...

    def from_host(self, array: Any) -> Any: ...

    def bind(self, subject: Operator, /) -> Linking: ...


@dataclass(frozen=True)
class Discretisation:
    """A problem on its grid, with arrays of at least two axes: those of a 1D problem have the shape ``(1, nx)``.

    `problem`: what to discretise. `shift`: subtracted from the source at every node: the defect of a singular problem,
    spread evenly, in U/L². `share`: the part of one of several processes: arrays and slabs are those of its nodes,
    while what is said of the problem as a whole is that of all ranks, which ask for it together. Without it the whole.
    """

    problem: Problem
    shift: float = 0.0
    share: Share | None = None

    def coarser(self, chosen: Callable[[Lattice], Lattice] = lambda lattice: lattice) -> Discretisation | None:
        """The same problem discretised on a grid of half the intervals, with what `Problem.coarser` leaves out.

        Where the grid is divided `chosen` is asked for the part of that grid, given what follows from the finer one:
        the same, or all nodes (`poisson.backends.base.Backend.coarse_lattice`).
        """
        problem = self.problem.coarser()
        if problem is None:
            return None
        if self.share is None:
            return Discretisation(problem)
        axes = tuple(axis.coarser or axis for axis in self.share.lattice.axes)
        lattice = chosen(replace(self.share.lattice, axes=axes))
        return Discretisation(problem, share=replace(self.share, lattice=lattice) if lattice.divided else None)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of the arrays."""
        return self.whole_lattice.array_shape if self.share is None else self.share.array_shape

    @property
    def owned(self) -> Discretisation:
        """The same with arrays of the nodes that are this process's own, without its halo: each node is one rank's."""
        return self if self.share is None else replace(self, share=replace(self.share, with_halo=False))

    def agreed(self) -> AbstractContextManager[None]:
        """Within, data are evaluated without a word to the other ranks; a mistake on one of them is raised on all."""
        return nullcontext() if self.share is None else self.share.agreed()

    @property
    def surface(self) -> Surface | None:
        """The surfaces of the bodies of the problem; None without a body."""
        if not self.problem.bodies:
            return None
        from poisson.discrete.surface import surface_of

        return surface_of(self.problem)

    @property
    def laplacian(self) -> Operator:
        """−∇² on the nodes, with the rules of the faces: what does not depend on the coefficients.

        The second axis of a 1D problem has one node and no coupling.
        """
        return Operator(self.whole_lattice if self.share is None else self.share.lattice)

    @property
    def whole_lattice(self) -> Lattice:
        """The nodes of the problem as arrays have them, whatever part of them this process has."""
        return self.problem.lattice.of_arrays

    @property
    def operator(self) -> Operator:
        """The operator of a problem whose coefficients do not vary; `operator_on` makes that of any problem.

        Raises `ValueError` if they vary: their arrays need a backend.
        """
        a, c = number(self.problem.a), number(self.problem.c)
        if self.problem.varies or a is None or c is None:
            raise ValueError("the coefficients vary, so that the operator needs arrays: use operator_on(backend)")
        return replace(self.laplacian, a=a, c=c)

    def operator_on(self, backend: Maker, into: Samples | None = None, known: Collection[str] = ()) -> Operator:
        """The operator, with its coefficients on a backend where they vary.

        `backend`: what makes the arrays of the coefficients. `into`: the arrays of another operator on the same nodes,
        which get the values of this one; they must `Samples.fit`. `known`: which of ``a`` and ``c``, with the terms of
        Robin faces, need not be sampled again: `into` has their values. Raises `CaseError` if a is not positive
        somewhere, or c or α negative, or one of them not finite; the line names the key and the place. The values in
        `into` have no meaning then.
        """
        if not self.problem.varies:
            return self.operator
        return self._with_coefficients(backend, self.laplacian, into, known)

    def part_on(self, backend: Maker, whole: Operator, start: int, stop: int) -> Operator:
        """The operator on the rows (planes in 3D) ``[start, stop)`` of the grid and a halo of one row beside them.

        Where the grid is divided, they are rows of this process, and along the other axes the part is its own.

        `backend`: what makes the coefficients of these rows, where they vary. `whole`: the operator, on any backend:
        the ranges of the coefficients are its. `start`, `stop`: at least two rows, or all. Raises `CaseError` as
        `operator_on` does.
        """
        lattice = _some_rows(whole.lattice, start, stop)
        if whole.coefficients is None:
            return replace(whole, lattice=lattice)
        if self.surface is not None:
            links, reaction = self.surface.rows(lattice, whole, lambda: self.operator_on(backend), backend)
            return replace(whole, lattice=lattice, coefficients=replace(whole.coefficients, links=links, c=reaction))
        # Not a word to the other ranks, which may have more or fewer such parts.
        found = replace(self, share=None)._coefficients(backend, Operator(lattice))
        own = replace(whole.coefficients, links=found.links, c=found.c)
        return replace(whole, lattice=lattice, coefficients=own)

    @property
    def absorbs_nowhere(self) -> bool:
        """Whether A of a constant is zero at all nodes that are not next to a fixed one: c = 0 and α = 0, as given."""
        return number(self.problem.c) == 0.0 and not self._absorbs

    @known_to_all
    def singular(self) -> bool:
        """Whether u is determined only up to a constant: no Dirichlet face anywhere, and c = 0 and α = 0 everywhere."""
        if self.whole_lattice.holds or ((cuts := self.problem.cuts) and cuts.node.size):
            return False
        c = number(self.problem.c)
        if c is not None and not self._absorbs:
            return c == 0.0
        own, largest = self.owned, 0.0
        with self.agreed():
            for slab in slabs(own.array_shape):
                largest = max(largest, float(own.reaction(np, *slab).max()))
                if largest > 0.0:
                    break
        return self.largest(largest)[0] == 0.0

    def source(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The source with its face terms, zero at fixed nodes, in U/L²; on open faces f by the part of a cell inside.

        `xp`: numpy or cupy: where to evaluate. `start`, `stop`: the range of the first array axis. Returns: float64
        array of the slab's shape. Raises `CaseError` if a value is not finite; the line names the key and the place.
        """
        return self._slab(self._source, xp, start, stop)

    def f(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The right-hand side of the equation that is solved: f, less `shift`. As `source` otherwise."""
        return self._slab(self._f, xp, start, stop)

    def initial(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The initial guess, with the boundary values at fixed nodes, in U. As `source` otherwise."""
        return self._slab(self._initial, xp, start, stop)

    def boundary(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The boundary values at fixed nodes and zeros elsewhere, in U. As `source` otherwise."""
        return self._slab(self._boundary, xp, start, stop)

    def boundary_values(self) -> list[NDArray[np.float64]]:
        """Copies of what Dirichlet faces hold here, block by block and in U; a constant stands once."""
        found, known = [], set[int]()
        with self.agreed():
            for block in self.blocks():
                for face, _ in sampling.held_faces(self.problem, block):
                    data = self.problem.faces[face].value
                    if face not in known:
                        found.append(np.array(sampling.face_value(self.problem, np, face, block)))
                    if isinstance(data, Expression) and data.is_constant:
                        known.add(face)
        return found

    def exact(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The exact solution, in U. As `source` otherwise."""
        return self._slab(self._exact, xp, start, stop)

    def a(self, xp: ModuleType, start: int, stop: int) -> Any:
        """a at the nodes. As `source` otherwise; every value must be positive."""
        return self._slab(self._a, xp, start, stop)

    def c(self, xp: ModuleType, start: int, stop: int) -> Any:
        """c at the nodes, in 1/L². As `source` otherwise; no value may be negative."""
        return self._slab(self._c, xp, start, stop)

    def leave_out(self, xp: ModuleType, values: Any, start: int, stop: int) -> None:
        """Write 0 into the values of a slab where bodies give u, or it has no meaning."""
        if surface := self.surface:
            index = self.share.index if self.share else tuple(map(np.arange, self.array_shape))
            for block, here in pieces_of((index[0][start:stop], *index[1:])):
                surface.leave_out(xp, values[here], block)

    def reaction(self, xp: ModuleType, start: int, stop: int) -> Any:
        """c with the Robin terms, as the operator has it. As `c` otherwise; no α may be negative either."""
        return self._slab(self._reaction, xp, start, stop)

    def volumes(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The control volumes over the product of the spacings. Shape of the slab."""
        return self._slab(self._volumes, xp, start, stop)

    # ---- on blocks of the grid

    def _source(self, xp: ModuleType, block: Block) -> Any:
        values, surface = self._f(xp, block), self.surface
        if surface:
            surface.open(xp, values, block)
        for face, where in sampling.faces(self.problem.lattice, Rule.MIRROR, block):
            values[where] += self.through(xp, face, block, sampling.face_source)
        if surface:
            surface.source.add(xp, values, block)
            surface.held.write(xp, values, block, 0.0)
        for face, where in sampling.open_faces(self.problem, block):
            values[where] *= self.problem.lattice.axes[face // 2].inside[face % 2]
        for _, where in sampling.held_faces(self.problem, block):
            values[where] = 0.0
        return values

    def _f(self, xp: ModuleType, block: Block) -> Any:
        values = sampling.nodes(self.problem, xp, "equation.f", self.problem.f, block)
        return values - self.shift if self.shift else values

    def _initial(self, xp: ModuleType, block: Block) -> Any:
        return self._with_boundary(
            sampling.nodes(self.problem, xp, "run.initial", self.problem.initial, block), xp, block
        )

    def _boundary(self, xp: ModuleType, block: Block) -> Any:
        return self._with_boundary(xp.zeros(sampling.shape_of(block)), xp, block)

    def _with_boundary(self, values: Any, xp: ModuleType, block: Block) -> Any:
        if surface := self.surface:
            surface.held.write(xp, values, block)
        for face, where in reversed(list(sampling.held_faces(self.problem, block))):
            values[where] = sampling.face_value(self.problem, xp, face, block)
        return values

    def _exact(self, xp: ModuleType, block: Block) -> Any:
        assert self.problem.exact is not None
        return sampling.nodes(self.problem, xp, "equation.exact", self.problem.exact, block)

    def _a(self, xp: ModuleType, block: Block) -> Any:
        found = self._coefficient(
            xp, "equation.a", self.problem.a, block, sampling.limit_of_a(self.problem.mean, self.problem.a)
        )
        if (surface := self.surface) and surface.dielectrics:
            surface.dielectrics(xp, found, block)
        return found

    def _a_by_angle(self, xp: ModuleType, block: Block) -> Any:
        return self._a(xp, block) / xp.asarray(self.whole_lattice.scale(1, block)) ** 2

    def _c(self, xp: ModuleType, block: Block) -> Any:
        return self._coefficient(xp, "equation.c", self.problem.c, block, sampling.NOT_NEGATIVE)

    def _reaction(self, xp: ModuleType, block: Block) -> Any:
        values, surface = self._c(xp, block), self.surface
        if surface and surface.obstacles:
            surface.open(xp, values, block)
            surface.absorbed.add(xp, values, block)
        for face, where in sampling.faces(self.problem.lattice, Rule.MIRROR, block):
            kind = self.problem.faces[face].kind
            if kind.takes_alpha or (kind.fixes and self._walls_vary):
                values[where] += self.through(xp, face, block, sampling.face_reaction)
        return values

    def through(self, xp: ModuleType, face: int, block: Block, term: Callable[..., Any]) -> Any:
        """A term of the data of a face, for the part of it that bodies leave open."""
        surface = self.surface
        found = term(self.problem, xp, face, block, surface.dielectrics if surface else None)
        return found * xp.asarray(surface.on_face(face, block)) if surface else found

    def _volumes(self, xp: ModuleType, block: Block) -> Any:
        return self.whole_lattice.volumes_in(block, xp)

    def _coefficient(
        self, xp: ModuleType, key: str, coefficient: Coefficient, block: Block, limit: sampling.Limit
    ) -> Any:
        if isinstance(coefficient, (int, float)):
            return xp.full(sampling.shape_of(block), float(coefficient))
        return sampling.nodes(self.problem, xp, key, coefficient, block, limit)

    def _slab(self, function: OnBlock, xp: ModuleType, start: int, stop: int) -> Any:
        """The values of a function on some rows of this process's arrays."""
        if self.share is not None:
            return on_blocks(self.share.index, function)(xp, start, stop)
        return function(xp, ((start, stop), *((0, count) for count in self.array_shape[1:])))

    @property
    def ranges(self) -> Block:
        """The nodes that are this process's own."""
        return tuple((0, count) for count in self.array_shape) if self.share is None else tuple(self.share.ranges)

    def blocks(self) -> Iterator[Block]:
        """The same, some rows at a time."""
        first, *others = self.ranges
        for start, stop in slabs(self.owned.array_shape):
            yield (first[0] + start, first[0] + stop), *others

    # ---- known to all ranks

    def total(self, *values: float) -> tuple[float, ...]:
        """Sums over this process's own nodes as those over all."""
        return values if self.share is None else self.share.total(*values)

    def largest(self, *values: float) -> tuple[float, ...]:
        """Maxima over this process's own nodes as those over all."""
        return values if self.share is None else self.share.largest(*values)

    # ---- the coefficients

    @known_to_all
    def _least_alpha(self) -> tuple[float, ...]:
        """The least α on each face, 0 where it has no Robin condition, and on the faces of an axis added in 1D."""
        least = [math.inf if face.absorbs else 0.0 for face in self.problem.faces]
        with self.agreed():
            for block in self.blocks():
                for face, _ in sampling.faces(self.problem.lattice, Rule.MIRROR, block):
                    if self.problem.faces[face].absorbs:
                        alpha = sampling.face_alpha(self.problem, np, face, block)
                        least[face] = min(least[face], float(alpha.min()))
        found = (-value for value in self.largest(*(-value for value in least)))
        return (*found, *(0.0,) * (2 * len(self.array_shape) - len(least)))

    @property
    def _absorbs(self) -> bool:
        alphas = [face.alpha for face in self.problem.faces] + [body.alpha for body in self.problem.bodies]
        return any(map(may_absorb, alphas))

    @property
    def varying(self) -> tuple[bool, bool]:
        """Whether the operator has arrays for a and for c, with the terms of faces; bodies may add them."""
        a_varies = not self.problem.even or self.constant_a is None
        return a_varies, number(self.problem.c) is None or self._absorbs or self._walls_vary

    @property
    def _walls_vary(self) -> bool:
        """Whether a Dirichlet face lies half a cell before the nodes, and a or the open part of the face varies."""
        if self.constant_a is not None and not (self.surface and self.surface.obstacles):
            return False
        return any(line.walls[end] for line, end in self._before_faces(fixes=True))

    @property
    def _depends_on_a(self) -> bool:
        """Whether a has a part in the terms that faces add to c."""
        return self._walls_vary or any(line.offsets[end] for line, end in self._before_faces(fixes=False))

    def _before_faces(self, fixes: bool) -> Iterator[tuple[Axis, int]]:
        """The axis and the end of each face with a Dirichlet condition, or with a Robin condition."""
        for face, given in enumerate(self.problem.faces):
            if given.kind.fixes if fixes else given.kind.takes_alpha:
                yield self.problem.lattice.axes[face // 2], face % 2

    @property
    def constant_a(self) -> float | None:
        """a where it is the same everywhere, in dielectrics, too."""
        return None if self.surface and self.surface.media else number(self.problem.a)

    def _with_coefficients(
        self, backend: Maker, operator: Operator, into: Samples | None, known: Collection[str]
    ) -> Operator:
        """The operator with its coefficients on the same nodes."""
        a, c = self.constant_a if self.problem.even else None, number(self.problem.c)
        found = replace(self._coefficients(backend, operator, into, known), alpha=self._least_alpha)
        if into is not None:
            into.coefficients = found
        constant = 0.0 if found.c is not None or c is None else c
        whole = replace(operator, a=1.0 if a is None else a, c=constant, coefficients=found)
        if surface := self.surface:
            from poisson.discrete.surface_operator import with_bodies

            return with_bodies(surface, whole, backend, self.largest)
        return whole if found.a_range[0] > 0.0 else insulated(whole, backend)

    def _coefficients(
        self, backend: Maker, operator: Operator, into: Samples | None = None, known: Collection[str] = ()
    ) -> Coefficients:
        """The coefficients of A on a block of nodes, or on all of them, without the least α of each face.

        The arguments are as for `operator_on`.
        """
        shape, angle = operator.array_shape, operator.lattice.angle
        (a_varies, c_varies), before = self.varying, into and into.coefficients
        a, c = None if a_varies else self.constant_a, number(self.problem.c)
        links, reaction = (before.links, before.c) if before else (None, None)
        a_ends, c_ends = ((value, value) if value is not None else (0.0, 0.0) for value in (a, c))
        if a is None and before and "a" in known:
            a_ends = before.a_range
        elif a is None:
            a_range, nodes = self._sampled(backend, operator, self._a, into, into and into.nodes)
            a_range.require_fit(backend.dtype, "equation.a", from_zero=a_range.ends[0] == 0.0)
            if a_range.changed:
                links = links or tuple(backend.empty(shape) for _ in operator.shape)
                operations = backend.bind(operator)
                for axis, out in enumerate(links):
                    each = nodes if axis != angle else self._sampled(backend, operator, self._a_by_angle)[1]
                    operations.links(axis, each, self.problem.mean == "harmonic", out)
            a_ends = a_range.ends
            if into is not None:
                into.nodes, into.changed = nodes, into.changed or a_range.changed
        if c_varies and before and "c" in known and not ("a" not in known and self._depends_on_a):
            c_ends = before.c_range
        elif c_varies:
            c_range, reaction = self._sampled(backend, operator, self._reaction, into, reaction)
            c_range.require_fit(backend.dtype, "equation.c with the robin terms", from_zero=True)
            if c is None or self._absorbs:
                c_ends = c_range.ends
            if into is not None:
                into.changed = into.changed or c_range.changed
        return Coefficients(links, reaction, a_ends, c_ends, walls=self._walls_vary)

    def _sampled(
        self, backend: Maker, operator: Operator, function: OnBlock, into: Samples | None = None, out: Any = None
    ) -> tuple[Range, Any]:
        """The range of a function at the nodes of an operator, and its values, in an array of `into` if it has one."""
        found, shape = Range(), operator.array_shape
        before = into and into.values(out)
        with self.agreed():
            slab = found.noted(on_blocks(numbers_of(operator.lattice), function), before)
            array = into.assemble(shape, slab, out) if into else backend.assemble(shape, slab)
        found.join(self.largest)
        return found, array


def _some_rows(lattice: Lattice, start: int, stop: int) -> Lattice:
    """Rows (planes in 3D) of a lattice, or of a part of one that has them, with a halo of one row beside them."""
    slowest = lattice.dimension - 1
    return lattice.replaced(slowest, lattice.axes[slowest].undivided.part(start, stop, 1))


def carry(problem: Problem, before: Problem) -> None:
    """Give a problem the surfaces of one that differs from it in f, and in data of faces and bodies, alone."""
    if "_surface" not in problem.__dict__ and (surface := Discretisation(before).surface):
        surface.carry(problem)
