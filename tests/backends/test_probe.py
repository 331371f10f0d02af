# SPDX-License-Identifier: MIT
"""Measurements of a backend, and the library that only they load."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import BACKENDS

from poisson.backends.gpu.derivative import VARIANTS
from poisson.backends.numpy import NumpyBackend
from poisson.backends.openmp import studies
from poisson.errors import BackendUnavailable
from poisson.mesh.differences import Differences

ALL = {"numpy": NumpyBackend, **BACKENDS}


@pytest.mark.parametrize("name", ["numpy", "openmp", "emulated"])
def test_a_stream_moves_what_it_says(name: str) -> None:
    probe = ALL[name](np.float32).probe()
    call, moved = probe.stream(1000)
    call()
    assert moved == 1000 * 16
    assert probe.pace.cycle > 1 and probe.pace.bandwidth > 1e9


@pytest.mark.parametrize("count", [1, 8, 4097, (1 << 22) + 3])
def test_the_threads_copy_all_values(count: int) -> None:
    # The last of these goes around the caches.
    backend = BACKENDS["openmp"](np.float64)
    values = np.random.default_rng(count).random(count)
    source, target = backend.from_host(values), backend.empty((count,))
    assert studies.load_studies().poisson_copy(target.pointer, source.pointer, count, 2) == 0
    assert np.array_equal(backend.to_host(target), values)


@pytest.mark.parametrize(
    ("name", "expected"), [("numpy", ["numpy"]), ("openmp", ["openmp"]), ("emulated", list(VARIANTS))]
)
def test_the_ways_to_a_derivative(name: str, expected: list[str]) -> None:
    backend = ALL[name](np.float64)
    differences = Differences.uniform((7, 6), (0.5, 0.5), (False, False), 2)
    ways = backend.probe().derivatives(backend.bind(differences))
    assert list(ways) == expected
    u = backend.from_host(np.tile(np.arange(7.0), (6, 1)))
    out = backend.empty((6, 7))
    for derivative in ways.values():
        backend.fill(out, np.nan)
        derivative(0, u, out)
        assert np.array_equal(backend.to_host(out), np.full((6, 7), 2.0))


@pytest.fixture
def reload() -> Iterator[None]:
    """The library is looked for anew, in the test and after it."""
    studies.load_studies.cache_clear()
    yield
    studies.load_studies.cache_clear()


@pytest.mark.usefixtures("reload")
def test_without_its_library_a_measurement_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = BACKENDS["openmp"](np.float64)
    monkeypatch.setattr(studies, "library_path", lambda: tmp_path / "libpoisson.so")
    with pytest.raises(BackendUnavailable, match=r"libpoisson_studies\.so.*or build all targets"):
        backend.probe().stream(100)


@pytest.mark.usefixtures("reload")
def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    BACKENDS["openmp"](np.float64)
    monkeypatch.setattr(studies, "ABI_VERSION", studies.ABI_VERSION + 1)
    with pytest.raises(
        BackendUnavailable, match=r"libpoisson_studies\.so has interface version \d+, this package needs"
    ):
        studies.load_studies()


def test_a_backend_loads_no_library_of_studies() -> None:
    BACKENDS["openmp"](np.float64)
    code = (
        "import numpy as np; from poisson import backends; from poisson.backends.openmp import studies;"
        "backends.create('openmp', np.float64).probe(); assert studies.load_studies.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
