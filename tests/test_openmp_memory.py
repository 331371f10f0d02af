"""Memory of the openmp backend: large arrays that were released make room for the next ones of their size."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from conftest import BACKENDS

from poisson.backends.openmp import DeviceArray, OpenmpBackend

SHAPE = (700, 601)
"""Of rows with padding behind them, and more than two huge pages in all."""


@pytest.fixture
def backend() -> OpenmpBackend:
    made = BACKENDS["openmp"](np.float64)
    assert isinstance(made, OpenmpBackend)
    return made


def whole(array: DeviceArray) -> list[float]:
    """The values of an array, padding and all, as the library sees them."""
    values = (ctypes.c_double * (array.rows * array.pitch)).from_address(array.pointer)
    return list(values)


def test_a_released_array_makes_room_for_one_of_its_size(backend: OpenmpBackend) -> None:
    first, other = backend.empty(SHAPE), backend.empty(SHAPE)
    places = {first.pointer, other.pointer}
    assert len(places) == 2
    del first, other
    smaller = backend.empty((300, 601))
    assert smaller.pointer not in places
    assert {backend.empty(SHAPE).pointer for _ in range(3)} <= places
    kept = [backend.empty(SHAPE) for _ in range(3)]
    assert len({array.pointer for array in kept}) == 3


def test_an_array_in_the_place_of_another_is_empty(backend: OpenmpBackend) -> None:
    array = backend.empty(SHAPE)
    place = array.pointer
    backend.fill(array, np.nan)
    del array
    again = backend.empty(SHAPE)
    assert again.pointer == place
    assert not any(whole(again))


def test_arrays_of_any_size_do_not_overlap(backend: OpenmpBackend) -> None:
    # Around the size of a huge page, with and without what was released.
    sizes = [2**18 - 1024, 2**18 - 520, 2**18 - 512, 2**18 - 8, 2**18, 2**18 + 16]
    for _ in range(3):
        arrays = [backend.empty((1, size)) for size in sizes + sizes]
        for value, array in enumerate(arrays):
            backend.fill(array, float(value))
        spans = sorted((array.pointer, array.pointer + 8 * array.pitch) for array in arrays)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        for value, array in enumerate(arrays):
            np.testing.assert_array_equal(backend.to_host(array), float(value))
        del arrays, array
