# SPDX-License-Identifier: MIT
"""The field on open faces of what is inside: the charges that it leaves on them, and where these make u there.

`poisson.discrete.face_products` has the way from the charges to the field in a box, and where a radius goes on outwards
`poisson.discrete.radial_fields`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from poisson.discrete.angular_fields import AngularFields
from poisson.discrete.face_products import Closed, FaceProducts, Open, image, other_axes
from poisson.discrete.green import Times
from poisson.discrete.operator import Operator
from poisson.discrete.radial_fields import RadialFields, goes_outwards
from poisson.mesh.axis import Axis, array_axis
from poisson.mesh.boundary import Rule


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
        self._radial: RadialFields | AngularFields | None = None
        if goes_outwards(far, self._faces):
            ends = [[face % 2 == 1 for face in self._faces if face // 2 == axis] for axis in range(lattice.dimension)]
            self.own = tuple(map(_free, lattice.axes, ends))
            if lattice.angle is not None:
                self._radial = AngularFields(far, self.own, xp)
            else:
                self._radial = RadialFields(far, self._faces, self.own, xp)
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
            if other == far.lattice.angle:
                coupling /= far.lattice.axes[0].coordinates[-1] ** 2
            turned, out = (self._xp.moveaxis(each, place, 0) for each in (values, found))
            weights = [self._xp.asarray(each).reshape(-1, *(1,) * (values.ndim - 1)) for each in line.couplings]
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
    sign, between = image(line, 0 if ends[0] else 1)
    return Open(line.nodes, free, (sign,), not ends[0], between, coupling)


def _free(line: Axis, ends: Sequence[bool]) -> slice:
    """The nodes of an axis that no data fix; `ends` are those that are open, upper or not."""
    lower, upper = (Rule.MIRROR if end in ends else rule for end, rule in zip((False, True), line.rules, strict=True))
    return replace(line, rules=(lower, upper)).free
