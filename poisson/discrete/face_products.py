# SPDX-License-Identifier: MIT
"""From charges on open faces and one spacing beyond to the field on them, by products of matrices.

An axis with an open end is half of a lattice that is symmetric about the wall at its other end, or, if both are open,
about its middle. So what is even and what is odd along each axis have nothing to do with one another, and each of these
classes has one face an axis, with half of its nodes. The heat kernels of `poisson.discrete.green` are products of one
factor for each axis: the field on a face across another axis is a sum over the times of outer products. That on the
face itself is a convolution in its plane, diagonal in the cosines or sines of twice the length (R. W. Hockney and J. W.
Eastwood, "Computer simulation using particles", 1988, section 6.5). All of it are products of matrices.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.green import Times, on_a_line
from poisson.mesh.axis import Axis
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
        multiply(left, right, self.out)
        for left, right in more:
            multiply(left, right, part := np.empty_like(self.out))
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


def multiply(left: Values, right: Values, out: Values) -> None:
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


def image(line: Axis, wall: int) -> tuple[int, int]:
    """The sign of images in the wall at an end of an axis, and 1 if it lies between two nodes of the lattice."""
    sign = -1 if line.rules[wall] is Rule.FIXED or line.walls[wall] > 0.0 else 1
    return sign, int(line.offsets[wall] > 0.0)


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
