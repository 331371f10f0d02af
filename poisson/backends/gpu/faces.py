# SPDX-License-Identifier: MIT
"""The field on open faces by kernels: a launch for all charges, one for each stage of products, one for all values.

All tables and all room for products are parts of one array of doubles, and a table of integers tells where
(kernels/transforms/faces.hip).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.shapes import Shape
from poisson.discrete.face_fields import FaceFields
from poisson.discrete.face_products import Closed, FaceProducts, Product, other_axes
from poisson.discrete.operator import Operator

FACE_SHAPE, PRODUCT_SHAPE = Shape(256, 1, 1), Shape(256, 1, 1, resident=2)
"""Threads of a block."""

TILE = 64
"""Rows and columns of a block of a product."""


class GpuFaces(FaceFields):
    """The field on the open faces of arrays of a backend; `far`, `faces`: as for `FaceFields`."""

    def __init__(self, backend: Launcher, far: Operator, faces: Sequence[bool]) -> None:
        super().__init__(far, faces, backend.array_module)
        self._backend = backend
        self._on_device: dict[int, GpuProducts] = {}
        self.products(0)
        backend.prepare(lambda: self.take(None, None, True), lambda: self.correct(None))

    def products(self, beyond: int) -> Any:
        if beyond not in self._on_device:
            products = FaceProducts(self.lines, self._times, self._far.c, beyond)
            self._on_device[beyond] = GpuProducts(self._backend, self._far, self._faces, self.lines, products)
        return self._on_device[beyond]

    def take(self, u: Any, f: Any, empty: bool) -> bool:
        products = self.products(0)
        products.launch("face_take", u, f, np.int32(empty))
        self._given = products.given
        return empty or not any(self.layer(u, face)[self.own_of(face)].any() for face in self._faces)

    def correct(self, u: Any) -> None:
        products = self.products(0)
        products.launch("face_charges", u, np.int32(0))
        products.run()
        products.launch("face_fields", u)


class GpuProducts:
    """Products on the device: `planes` as those of `FaceProducts`, and the charges `given` on each face."""

    def __init__(
        self, backend: Launcher, far: Operator, faces: Sequence[int], lines: Sequence[Any], products: FaceProducts
    ) -> None:
        self._backend = backend
        self._size, self._tables = 0, {}  # type: int, dict[int, tuple[int, NDArray[np.float64]]]
        strides = (1, backend.pitch_of(far.shape[0]), backend.pitch_of(far.shape[0]) * far.shape[1], 0)
        counts = [far.shape[axis] if axis < far.dimension else 1 for axis in range(3)]
        class_strides = [int(np.prod([line.shape[0] for line in lines[:axis]])) for axis in range(3)]
        first = 3 * 11 + 7 * len(products.planes)
        head: list[int] = []
        neighbours: list[int] = []
        for axis, line in enumerate(lines):
            weights, nearest = np.zeros((3, 1)), np.zeros((2, 1), dtype=int)
            if axis < far.dimension:
                weights = far.couplings[axis] * np.stack(far.lattice.axes[axis].couplings)
                nearest = np.stack(far.lattice.axes[axis].neighbours)
                for end in (0, 1):
                    if 2 * axis + end in faces:
                        nearest[end, -end] = -1
            kind = 0 if isinstance(line, Closed) else 1 if line.upper is None else 2 + line.upper
            classes, _, half = line.shape
            between = 0 if isinstance(line, Closed) else line.between
            head += [counts[axis], line.own.start, line.own.stop, classes, half, between, kind]
            head += [
                strides[axis if axis < far.dimension else 3],
                class_strides[axis],
                self._origin(weights),
                first + len(neighbours),
            ]
            neighbours += nearest.ravel().tolist()
        self._blocks, places = 0, {}
        for axis, plane in products.planes.items():
            slow, fast = other_axes(axis)
            given = np.zeros((2, counts[slow], counts[fast]))
            origin = self._origin(given)
            places.update({2 * axis + end: (origin + end * given[0].size, given[0].size) for end in (0, 1)})
            head += [self._blocks, axis, slow, fast, self._origin(plane), origin, origin + given[0].size]
            self._blocks += blocks_for(given[0].size, FACE_SHAPE.block_x)
        head += neighbours
        self._stages = []
        for stage in products.stages:
            begin, blocks = len(head), 0
            for product in stage:
                record, count = self._record(product, blocks)
                head += record
                blocks += count
            self._stages.append((np.int64(begin), np.int32(len(stage)), blocks))
        values, numbers = np.empty(self._size), np.array(head)
        for start, base in self._tables.values():
            values[start : start + base.size] = base.ravel(order="K")
        self._values, self._numbers = (backend.runtime.allocate(each.size, each.dtype) for each in (values, numbers))
        backend.runtime.upload(values, self._values)
        backend.runtime.upload(numbers, self._numbers)
        self._arguments = self._values, self._numbers, np.int32(len(products.planes)), np.float64(far.c)
        self.planes = {
            axis: self._values[start : start + plane.size].reshape(plane.shape)
            for axis, plane in products.planes.items()
            for start in [self._tables[id(plane)][0]]
        }
        self.given = {
            face: self._values[start : start + size].reshape(
                [counts[axis] for axis in other_axes(face // 2) if axis < far.dimension]
            )
            for face, (start, size) in places.items()
            if face in faces
        }

    def launch(self, name: str, *arguments: Any) -> None:
        """Launch a kernel for all faces."""
        arguments += self._arguments
        self._backend.launch("faces", name, FACE_SHAPE, None, (self._blocks, 1, 1), arguments)

    def run(self) -> None:
        """From the charges in `planes` to the fields."""
        for begin, count, blocks in self._stages:
            arguments = self._values, self._numbers, begin, count
            self._backend.launch("faces", "face_products", PRODUCT_SHAPE, None, (blocks, 1, 1), arguments)

    def _origin(self, values: NDArray[np.float64]) -> int:
        """Where the first value of an array stands, whose memory gets room at first sight."""
        base = values
        while isinstance(base.base, np.ndarray):
            base = base.base
        if id(base) not in self._tables:
            self._tables[id(base)] = self._size, base
            self._size += base.size
        return self._tables[id(base)][0] + (values.ctypes.data - base.ctypes.data) // values.itemsize

    def _record(self, product: Product, first: int) -> tuple[list[int], int]:
        """The numbers of a product, and its blocks, of which the first is given."""
        *classes, rows, columns = product.out.shape
        across, down = blocks_for(columns, TILE), blocks_for(rows, TILE)
        depths = [left.shape[-1] for left, _ in product.terms]
        scale = product.out if product.scale is None else product.scale
        record = [first, across, down, *classes, rows, columns, len(depths), int(product.scale is not None)]
        record += [depths[0], depths[-1]]
        for array in (product.out, scale, *product.terms[0], *product.terms[-1]):
            steps = (
                0 if count == 1 else stride // array.itemsize
                for count, stride in zip(array.shape, array.strides, strict=True)
            )
            padding = [0] * (5 - array.ndim)
            record += [self._origin(array), *padding, *steps]
        return record, across * down * int(np.prod(classes))
