# SPDX-License-Identifier: MIT
"""The field on open faces of charges on them and one spacing beyond, by the lattice Green's function.

An axis with an open end is half of a lattice that is symmetric about the wall at its other end, or, if both are open,
about its middle. So what is even and what is odd along each axis have nothing to do with one another, and each of these
classes has one face an axis, with half of its nodes. The heat kernels of `poisson.discrete.green` are products of one
factor for each axis: the field on a face across another axis is a sum over the times of outer products. That on the
face itself is a convolution in its plane, diagonal in the cosines or sines of twice the length (R. W. Hockney and J. W.
Eastwood, "Computer simulation using particles", 1988, section 6.5). All of it are products of matrices.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.green import Times, on_a_line
from poisson.discrete.operator import Operator
from poisson.discrete.radial_fields import RadialFields, goes_outwards
from poisson.mesh.axis import Axis, array_axis
from poisson.mesh.boundary import Rule

Values = NDArray[np.float64]
Planes = Sequence[tuple[int, float]]
"""How far beyond an end planes lie, in spacings, with their weights."""

HERE, BEYOND = ((0, 1.0),), ((1, 1.0),)

ALONE, TILE = 1 << 18, 24
"""Multiplications that OpenBLAS makes in one thread. Others would keep it waiting on a machine that is busy, and
then the threads of the library. Rows and columns of a tile of a larger product."""
SHARED = 1 << 26
"""Multiplications, in all products, that several threads share."""


@dataclass(frozen=True)
class Closed:
    """An axis with modes.

    `to_modes`, `from_modes`: the matrices, of one class. `eigenvalues`: in 1/L². `own`: the nodes that no data fix.
    """

    to_modes: Values
    from_modes: Values
    eigenvalues: Values
    own: slice

    @property
    def shape(self) -> tuple[int, int, int]:
        """The classes, their modes and nodes."""
        return self.to_modes.shape

    def factors(self, times: Times) -> Values:
        """The factor of each mode after each time."""
        return times.decay(self.eigenvalues)

    def fold(self, xp: Any, values: Any) -> Any:
        """The classes of values along the first axis of an array."""
        return values[np.newaxis]

    def unfold(self, xp: Any, classes: Any) -> Any:
        """The values of classes."""
        return classes[0]


@dataclass(frozen=True)
class Open:
    """An axis with an open end, or two.

    `nodes`: of the axis. `own`: those but for a fixed one at a wall. `signs`: of the classes, 1 for the even one.
    `upper`: whether the one end that is closed is the upper one; None where both are open. `between`: 1 if the middle
    lies between two nodes. `weight`: a/h².
    """

    nodes: int
    own: slice
    signs: tuple[int, ...]
    upper: bool | None
    between: int
    weight: float

    @property
    def half(self) -> int:
        """The nodes of a class."""
        return self.nodes if self.upper is not None else -(-self.nodes // 2)

    @property
    def reach(self) -> int:
        """The spacings from an open end to its image."""
        return 2 * (self.half - 1) + self.between

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.signs), self.reach + 1, self.half

    @cached_property
    def to_modes(self) -> Values:
        """Cosines for even functions and sines for odd ones, with a period of twice the reach."""
        places = 2 * np.arange(self.half) + self.between
        angles = np.arange(4 * self.reach) * (math.pi / (2 * self.reach))
        waves = [np.cos(angles) if sign > 0 else np.sin(angles) for sign in self.signs]
        found = np.empty(self.shape)
        for mode in range(self.reach + 1):  # in 2D all of them are as large as the grid
            turns = mode * places % (4 * self.reach)
            for number, wave in enumerate(waves):
                found[number, mode] = wave[turns]
        return found

    @property
    def from_modes(self) -> Values:
        return self.to_modes.transpose(0, 2, 1)

    def factors(self, times: Times) -> Values:
        kernels = self.kernels(times)[:, : self.reach + 1]
        found = np.fft.rfft(np.concatenate([kernels, kernels[:, -2:0:-1]], axis=1)).real / self.reach  # of cosines
        found[:, [0, -1]] /= 2.0
        return found

    def kernels(self, times: Times) -> Values:
        """The heat kernels by time and distance."""
        return times.kernels(self.reach + 2, self.weight)

    def to_nodes(self, kernels: Values, planes: Planes) -> Values:
        """The kernels from planes so far beyond an end, by their weights, to the nodes: by class, time and node."""
        inside = np.arange(self.half)[::-1]
        return np.asarray(sum(weight * self._classes(kernels, inside, far) for far, weight in planes))

    def between_planes(self, kernels: Values, sources: Planes, targets: Planes) -> Values:
        """The kernels between planes, by class and time."""
        pairs = [(source, target) for source in sources for target in targets]
        parts = [one[1] * other[1] * self._classes(kernels, -other[0], one[0]) for one, other in pairs]
        return np.asarray(sum(parts))

    def _classes(self, kernels: Values, depth: Any, far: int) -> Values:
        return np.stack(
            [(kernels[:, abs(far + depth)] + sign * kernels[:, self.reach + far - depth]) / 2.0 for sign in self.signs]
        )

    def fold(self, xp: Any, values: Any) -> Any:
        if self.upper is None:
            above, below = values[self.nodes - self.half :], values[: self.half][::-1]
            found = xp.stack([above + below, above - below])
        else:
            found = xp.zeros((1, self.half, *values.shape[1:]))
            found[0, self.half - len(values) :] = 2.0 * (values[::-1] if self.upper else values)
        if not self.between:
            found[:, 0] /= 2.0
        return found

    def unfold(self, xp: Any, classes: Any) -> Any:
        if self.upper is None:
            even, odd = classes
            return xp.concatenate([(even - odd)[::-1][: self.nodes - self.half], even + odd])
        found = classes[0][self.half - (self.own.stop - self.own.start) :]
        return found[::-1] if self.upper else found


@dataclass(frozen=True, eq=False)
class Product:
    """The sum of products of matrices that is written to an array, times a scale if there is one.

    All have five axes, the first three for the classes of z, y and x, along which they broadcast.
    """

    out: Values
    terms: tuple[tuple[Values, Values], ...]
    scale: Values | None = None

    @property
    def multiplications(self) -> int:
        return sum(self.out.size * left.shape[-1] for left, _ in self.terms)

    def parts(self) -> "Iterator[Product]":
        """The products of the classes along z."""
        for number in range(self.out.shape[0]):

            def part(array: Values, number: int = number) -> Values:
                return array[number : number + 1] if len(array) > 1 else array

            terms = tuple((part(left), part(right)) for left, right in self.terms)
            yield Product(part(self.out), terms, None if self.scale is None else part(self.scale))

    def run(self) -> None:
        """Write the sum."""
        (left, right), *more = self.terms
        _multiply(left, right, self.out)
        for left, right in more:
            _multiply(left, right, part := np.empty_like(self.out))
            np.add(self.out, part, out=self.out)
        if self.scale is not None:
            np.multiply(self.out, self.scale, out=self.out)


class FaceProducts:
    """The map from charges in the plane of each open face, or one beyond it, to the field on the faces.

    `lines`: of x, y and z. `c`: of the operator. `beyond`: 1 for charges one beyond, or 0. `stages`: products, of which
    those of a stage are independent of one another. `planes`: for each axis with open faces the array that takes the
    classes of the charges and has those of the field afterwards, shape (classes of z, y and x, nodes of the other two
    axes, the slower one first).
    """

    def __init__(self, lines: Sequence[Closed | Open], times: Times, c: float, beyond: int) -> None:
        self.planes: dict[int, Values] = {}
        opened = {axis: line for axis, line in enumerate(lines) if isinstance(line, Open)}
        kernels = {axis: line.kernels(times) for axis, line in opened.items()}
        factors = [line.factors(times) for line in lines] if len(opened) > 1 else []
        weighted = [times.weights[:, np.newaxis] * each for each in factors]
        rows = {axis: _on(axis, line.to_nodes(kernels[axis], HERE)) for axis, line in opened.items()}
        columns = rows
        if beyond:
            columns = {axis: _on(axis, line.to_nodes(kernels[axis], BEYOND)) for axis, line in opened.items()}
        there = [_on(axis, line.to_modes) for axis, line in enumerate(lines)]
        back = [_on(axis, line.from_modes) for axis, line in enumerate(lines)]
        classes = tuple(line.shape[0] for line in reversed(lines))
        modes, nodes = ([line.shape[place] for line in lines] for place in (1, 2))
        # Of each axis: its charges with one of the other axes transformed, or the other, or both.
        ones: dict[int, Values] = {}
        others: dict[int, Values] = {}
        boths: dict[int, Values] = {}
        # By the axis of a face and that of the modes: from all times to the nodes.
        parts: dict[tuple[int, int], tuple[Values, Values]] = {}
        self.stages: list[list[Product]] = [[], [], [], []]
        first, second, third, last = self.stages
        for axis in opened:
            slow, fast = other_axes(axis)
            plane = self.planes[axis] = np.empty((*classes, nodes[slow], nodes[fast]))
            one, both = (np.empty((*classes, each, modes[fast])) for each in (nodes[slow], modes[slow]))
            ones[axis], boths[axis] = one, both
            first.append(Product(one, ((plane, _turned(there[fast])),)))
            second.append(Product(both, ((there[slow], one),), _on(axis, self._own(lines, axis, times, c, beyond))))
            if slow in opened:
                by_time = np.empty((*classes, times.times.size, modes[fast]))
                second.append(Product(by_time, ((rows[slow], one),), weighted[fast]))
                parts[slow, fast] = _turned(columns[axis]), by_time
            if fast in opened:
                other = others[axis] = np.empty((*classes, modes[slow], nodes[fast]))
                first.append(Product(other, ((there[slow], plane),)))
                by_time = np.empty((*classes, modes[slow], times.times.size))
                second.append(Product(by_time, ((other, _turned(rows[fast])),), weighted[slow].T))
                parts[fast, slow] = _turned(columns[axis]), _turned(by_time)
        for axis in opened:
            slow, fast = other_axes(axis)
            terms = [(back[slow], boths[axis])]
            if (axis, fast) in parts:
                terms.append(parts[axis, fast])
            third.append(Product(ones[axis], tuple(terms)))
            terms = [(ones[axis], _turned(back[fast]))]
            if (axis, slow) in parts:
                matrix, by_time = parts[axis, slow]
                third.append(Product(others[axis], ((_turned(by_time), _turned(matrix)),)))
                terms.append((back[slow], others[axis]))
            last.append(Product(self.planes[axis], tuple(terms)))

    @staticmethod
    def _own(lines: Sequence[Closed | Open], axis: int, times: Times, c: float, beyond: int) -> Values:
        """The factors of the modes of charges in a plane, for the field on its faces; by class."""
        line, (slow, fast) = lines[axis], other_axes(axis)
        assert isinstance(line, Open)
        planes = BEYOND if beyond else HERE
        one, other = lines[slow], lines[fast]
        if isinstance(one, Open) or isinstance(other, Open):
            weights = line.between_planes(line.kernels(times), planes, HERE) * times.weights
            factors = one.factors(times), other.factors(times)
            return np.stack([(factors[0].T * each) @ factors[1] for each in weights])
        rest = c + one.eigenvalues[:, np.newaxis] + other.eigenvalues
        distances = [on_a_line(rest, line.weight, n) for n in range(line.reach + 3)]
        table = np.stack(distances).reshape(len(distances), -1).T
        return line.between_planes(table, planes, HERE).reshape(-1, *rest.shape)

    def run(self, threads: int = 1) -> None:
        """From the charges in `planes` to the fields, by so many threads where there is enough to do for them."""
        whole = sum(product.multiplications for stage in self.stages for product in stage)
        if threads == 1 or whole < SHARED:
            for product in (each for stage in self.stages for each in stage):
                product.run()
            return
        with ThreadPoolExecutor(threads) as pool:
            for stage in self.stages:
                list(pool.map(Product.run, [part for product in stage for part in product.parts()]))


def _multiply(left: Values, right: Values, out: Values) -> None:
    """out = left @ right, by tiles for which NumPy's BLAS wakes no threads, unless they would be too small."""
    *classes, rows, columns = out.shape
    depth = left.shape[-1]
    if rows * columns * depth <= 2 * ALONE or TILE * TILE * depth > ALONE:
        np.matmul(left, right, out=out)
        return
    for down, height in _spans(rows):
        for across, width in _spans(columns):
            tiles = out[..., down, across].reshape(*classes, -1, height, (across.stop - across.start) // width, width)
            above = left[..., down, :].reshape(*left.shape[:-2], -1, 1, height, depth)
            beside = right[..., across].reshape(*right.shape[:-2], 1, depth, -1, width)
            np.matmul(above, beside.swapaxes(-3, -2), out=tiles.swapaxes(-3, -2))


def _spans(count: int) -> list[tuple[slice, int]]:
    """The range that whole tiles cover with their size, and the rest."""
    whole = count - count % TILE
    return [(slice(0, whole), TILE), (slice(whole, count), count - whole)][whole == 0 : 1 + (whole < count)]


def other_axes(axis: int) -> tuple[int, int]:
    """The other two axes, the slower one first."""
    slow, fast = (other for other in (2, 1, 0) if other != axis)
    return slow, fast


def _on(axis: int, tables: Values) -> Values:
    """Tables by the class of an axis, with the five axes of a product."""
    shape = [1, 1, 1]
    shape[2 - axis] = len(tables)
    return tables.reshape(*shape, *tables.shape[1:])


def _turned(matrices: Values) -> Values:
    return matrices.swapaxes(-1, -2)


class FaceFields:
    """The field on the open faces.

    `far`: the operator beyond them, with constant coefficients. `faces`: whether each face is open. `xp`: the module of
    the arrays. `threads`: for products.
    """

    def __init__(self, far: Operator, faces: Sequence[bool], xp: Any, threads: int = 1) -> None:
        self.array_module = self._xp = xp
        self._run = {"threads": threads} if xp is np else {}
        self._far = far
        lattice = far.lattice
        self._faces = [face for face, is_open in enumerate(faces) if is_open]
        self._links = [line.couplings for line in lattice.axes]
        self._radial: RadialFields | None = None
        if goes_outwards(far, self._faces):
            ends = [[face % 2 == 1 for face in self._faces if face // 2 == axis] for axis in range(lattice.dimension)]
            self.own = tuple(map(_free, lattice.axes, ends))
            self._radial = RadialFields(far, self._faces, self.own, xp)
            self._links[0] = self._radial.couplings
            return
        lines: list[Closed | Open] = []
        for axis in range(lattice.dimension):
            line = _line(far, axis, [face % 2 == 1 for face in self._faces if face // 2 == axis])
            lines.append(next((other for other in lines if isinstance(other, Open) and other == line), line))
        single = Closed(np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.zeros(1), slice(0, 1))
        self.lines = lines + [single] * (3 - lattice.dimension)
        self.own = tuple(line.own for line in lines)
        least = far.c + sum(float(line.eigenvalues.min()) for line in lines if isinstance(line, Closed))
        reaches = [(line.reach + 2, line.weight) for line in lines if isinstance(line, Open)]
        self._times = Times.of(reaches, far, least)
        self._products: dict[int, FaceProducts] = {}

    def products(self, beyond: int) -> FaceProducts:
        """The products for charges on the faces, or one beyond."""
        if beyond not in self._products:
            self._products[beyond] = FaceProducts(self.lines, self._times, self._far.c, beyond)
        return self._products[beyond]

    def __call__(self, charges: Mapping[tuple[int, bool], Any]) -> dict[int, Any]:
        """The field on each open face, on the nodes that no data fix.

        `charges`: by the face, and whether they are one spacing beyond it.
        """
        if self._radial:
            return self._radial(charges)
        found: dict[int, Any] = {}
        for beyond in sorted({beyond for _, beyond in charges}):
            products = self.products(beyond)
            for axis, plane in products.planes.items():
                shape = [each.stop - each.start for each in (self.lines[other].own for other in other_axes(axis))]
                empty = self._xp.zeros(shape)
                given = [charges.get((face, beyond), empty).reshape(shape) for face in self._faces if face // 2 == axis]
                plane[...] = self._fold(axis, self._xp.stack(given))
            products.run(**self._run)
            for axis, plane in products.planes.items():
                faces = [face for face in self._faces if face // 2 == axis]
                for face, values in zip(faces, self._unfold(axis, plane), strict=True):
                    found[face] = found.get(face, 0.0) + values.reshape(self.shape_of(face))
        return found

    def _fold(self, axis: int, values: Any) -> Any:
        """The classes of values on the open faces of an axis, the lower face first."""
        xp, (slow, fast) = self._xp, other_axes(axis)
        both = len(values) == 2
        found = xp.stack([values[1] + values[0], values[1] - values[0]]) if both else 2.0 * values
        found = self.lines[slow].fold(xp, xp.moveaxis(found, 1, 0))
        found = self.lines[fast].fold(xp, xp.moveaxis(found, 3, 0))
        place = {fast: 0, slow: 2, axis: 4}
        return found.transpose(place[2], place[1], place[0], 3, 1)

    def _unfold(self, axis: int, classes: Any) -> Any:
        xp, (slow, fast) = self._xp, other_axes(axis)
        found = self.lines[fast].unfold(xp, classes.transpose(2 - fast, 4, 2 - slow, 3, 2 - axis))
        found = self.lines[slow].unfold(xp, xp.moveaxis(found, 0, 3))
        found = xp.moveaxis(found, 1, 0)
        return xp.stack([found[0] - found[1], found[0] + found[1]]) if len(found) == 2 else found

    def _along(self, axis: int) -> list[int]:
        """The axes along a face, in the order of those of its arrays."""
        return [other for other in reversed(range(self._far.dimension)) if other != axis]

    def layer(self, values: Any, face: int, inner: int = 0) -> Any:
        """The nodes of an array on a face, or so many layers inside of it; or what layers have of them."""
        if isinstance(values, dict):
            return values[face, inner]
        place = array_axis(face // 2, values.ndim)
        return self._xp.moveaxis(values, place, 0)[-1 - inner if face % 2 else inner]

    def own_of(self, face: int) -> tuple[slice, ...]:
        """The nodes of an array on a face that no data fix."""
        return tuple(self.own[axis] for axis in reversed(range(self._far.dimension)) if axis != face // 2)

    def take(self, u: Any, f: Any, empty: bool) -> bool:
        """Take the charges on the open faces out of f, where zeros are left, and of u as well if asked to.

        `u`, `f`: as arrays of the module. Returns: whether u is zero on the open faces, fixed nodes aside.
        """
        self._given = {face: self.layer(f, face).astype(np.float64) for face in self._faces}
        for face in self._faces:
            self.layer(f, face)[...] = 0.0
            if empty:
                self.layer(u, face)[self.own_of(face)] = 0.0
        return empty or not any(self.layer(u, face)[self.own_of(face)].any() for face in self._faces)

    def correct(self, u: Any) -> None:
        """Add to u on the open faces, where it is zero, the field of what is inside, as `changes` has it."""
        self.correct_from(u, u)

    def correct_from(self, u: Any, layers: Any) -> None:
        """The same with layers of u, which the array does not have yet."""
        values, fields = self.changes(layers)
        for face in self._faces:
            self.write(u, face, values[face] + fields[face])

    def write(self, u: Any, face: int, values: Any) -> None:
        """Write values to the nodes of an open face that no data fix."""
        self.layer(u, face)[self.own_of(face)] = values

    def changes(self, u: Any) -> tuple[dict[int, Any], dict[int, Any]]:
        """The values on each open face, and by how much the field of what is inside differs from them."""
        values, charges = self.charges(u)
        return values, self(charges)

    def shape_of(self, face: int) -> tuple[int, ...]:
        """The shape of the array of those nodes."""
        return tuple(each.stop - each.start for each in self.own_of(face))

    def charges(self, view: Any) -> tuple[dict[int, Any], dict[tuple[int, bool], Any]]:
        """The values on the open faces, and the charges that u in the box, continued by zeros, has too few there.

        `view`: u, as an array of the module.
        """
        values = {face: self.layer(view, face).astype(np.float64) for face in self._faces}
        charges: dict[tuple[int, bool], Any] = {}
        for face in self._faces:
            charges[face, False] = (self._given[face] - self._applied(view, face, values[face]))[self.own_of(face)]
            self._once(charges[face, False], face)
            values[face] = values[face][self.own_of(face)]
            if values[face].any():
                weight = self._far.couplings[face // 2] * self._across(face)[2]
                charges[face, True] = self._xp.ascontiguousarray(weight * values[face])
        return values, charges

    def _applied(self, view: Any, face: int, values: Any) -> Any:
        """The constant operator on a face, of u that is zero beyond."""
        far, axis = self._far, face // 2
        inwards, outwards, _ = self._across(face)
        inner = inwards * far.couplings[axis] * self.layer(view, face, 1).astype(np.float64)
        if not values.any():
            return -inner
        found = (far.c + (inwards + outwards) * far.couplings[axis]) * values - inner
        for place, other in enumerate(self._along(axis)):
            line, coupling = far.lattice.axes[other], far.couplings[other]
            turned, out = (self._xp.moveaxis(each, place, 0) for each in (values, found))
            weights = [self._xp.asarray(each).reshape(-1, *(1,) * (values.ndim - 1)) for each in self._links[other]]
            for end, nodes in enumerate(line.neighbours):
                neighbours = turned[self._xp.asarray(nodes)]
                if 2 * other + end in self._faces:
                    neighbours[-end] = 0.0
                out += coupling * weights[end] * (turned - neighbours)
            out += coupling * weights[2] * turned
        return found

    def _across(self, face: int) -> tuple[float, float, float]:
        """The weights, over a/h², of a node on a face: of its neighbours inside and beyond in its equation, and its own
        in that of the latter.
        """
        return self._radial.across if self._radial and face == 1 else (1.0, 1.0, 1.0)

    def _once(self, charges: Any, face: int) -> None:
        """Leave out the nodes of a face that lie on one before it too."""
        along = self._along(face // 2)
        for before in self._faces:
            if before < face and before // 2 != face // 2:
                self._xp.moveaxis(charges, along.index(before // 2), 0)[-(before % 2)] = 0.0


def _line(far: Operator, axis: int, ends: Sequence[bool]) -> Closed | Open:
    line, coupling = far.lattice.axes[axis], far.couplings[axis]
    if not ends:
        if not coupling:
            return Closed(np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.zeros(1), slice(0, 1))
        values, columns, rows = line.eigenvectors
        to_modes, from_modes = np.ascontiguousarray(rows[:, line.free]), np.ascontiguousarray(columns[line.free])
        return Closed(to_modes[np.newaxis], from_modes[np.newaxis], coupling * values, line.free)
    free = _free(line, ends)
    if len(ends) == 2:
        return Open(line.nodes, free, (1, -1), None, 1 - line.nodes % 2, coupling)
    wall = 0 if ends[0] else 1
    sign = -1 if line.rules[wall] is Rule.FIXED or line.walls[wall] > 0.0 else 1
    return Open(line.nodes, free, (sign,), not ends[0], int(line.offsets[wall] > 0.0), coupling)


def _free(line: Axis, ends: Sequence[bool]) -> slice:
    """The nodes of an axis that no data fix; `ends` are those that are open, upper or not."""
    lower, upper = (Rule.MIRROR if end in ends else rule for end, rule in zip((False, True), line.rules, strict=True))
    return replace(line, rules=(lower, upper)).free
