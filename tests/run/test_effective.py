# SPDX-License-Identifier: MIT
"""The effective conductivity of periodic cells: against exact tensors, bounds, and another computation.

Covers poisson.cli.averaging, poisson.run.voxels, poisson.backends.own_ways and poisson.backends.gpu.cells.
"""

import json
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import BACKENDS, emulated
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve
from support.places import ROOT

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.case.examples import blobs, write_source
from poisson.cli import main
from poisson.errors import CaseError, OutputError, ResourceError
from poisson.run.effective import HostCell

PAIR = {0: 1.0, 1: 30.0}
TIGHT: dict[str, Any] = {"rtol": 1e-9, "backend": "numpy"}


def by_fluxes(a: NDArray[Any], spacing: tuple[float, ...]) -> NDArray[Any]:
    """The tensor of the mean fluxes, from a sparse matrix of the links that a direct solver takes.

    Nodes without a link, and one node of every connected part, are held at 0.
    """
    number = np.arange(a.size).reshape(a.shape)
    links, rows, columns, values = [], [], [], []
    for place, h in enumerate(spacing[::-1]):
        ends = number.ravel(), np.roll(number, -1, axis=place).ravel()
        one, other = (a.ravel()[end] for end in ends)
        g = np.divide(2.0 * one * other, one + other, out=np.zeros(a.size), where=one * other > 0.0)
        links.append((*ends, g, h))
        for here, there in (ends, ends[::-1]):
            rows += [here, here]
            columns += [here, there]
            values += [g / h**2, -g / h**2]
    matrix = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(a.size, a.size)
    ).tocsr()
    matrix.eliminate_zeros()
    part = connected_components(matrix, directed=False)[1]
    free = np.setdiff1d(np.arange(a.size), np.unique(part, return_index=True)[1])
    dimension, found = len(spacing), np.zeros((len(spacing),) * 2)
    for k, (low, high, g, h) in enumerate(links[::-1]):
        f, chi = np.zeros(a.size), np.zeros(a.size)
        np.add.at(f, low, g / h)
        np.add.at(f, high, -g / h)
        chi[free] = spsolve(matrix[free][:, free].tocsc(), f[free])
        for j, (low_j, high_j, g_j, h_j) in enumerate(links[::-1]):
            found[j, k] = np.mean(g_j * ((chi[high_j] - chi[low_j]) / h_j + (j == k)))
    assert found.shape == (dimension, dimension)
    return found


@pytest.mark.parametrize("dimension", [2, 3])
def test_layers_have_the_arithmetic_and_the_harmonic_mean(dimension: int) -> None:
    values = np.array([1.0, 1.0, 7.0, 0.5, 7.0, 100.0])
    for axis in range(dimension):
        shape = [4, 5, 6][:dimension]
        place = dimension - 1 - axis
        shape[place] = values.size
        a = np.broadcast_to(values.reshape((-1,) + (1,) * axis), shape)
        expected = np.diag([values.mean()] * dimension)
        expected[axis, axis] = 1.0 / (1.0 / values).mean()
        found = poisson.effective(a, spacing=(0.5, 2.0, 3.0)[:dimension], **TIGHT)
        np.testing.assert_allclose(found.tensor, expected, rtol=1e-13, atol=1e-13)
        assert found.bounds["reuss"] == pytest.approx(expected.min(initial=9.0, where=expected > 0.0), rel=1e-14)
        assert found.bounds["voigt"] == pytest.approx(expected.max(), rel=1e-14) and found.converged
        distinct, labels, counts = np.unique(a, return_inverse=True, return_counts=True)
        again = poisson.effective(labels.reshape(a.shape), dict(enumerate(distinct)), backend="numpy")
        assert dict(again.bounds) == pytest.approx(dict(found.bounds), rel=1e-14)
        assert dict(again.fractions) == dict(zip(distinct, counts / a.size, strict=True)) and not found.fractions


def test_a_checkerboard_converges_to_the_geometric_mean_as_its_corners_let_it() -> None:
    """Keller, J. Math. Phys. 5 (1964) 548; u at a corner is r^λ, tan(πλ/4) = sqrt(a1/a2), so the energy has h^2λ."""
    errors = []
    for half in (16, 32, 64):
        board = (np.indices((2 * half, 2 * half)) // half).sum(axis=0) % 2
        tensor = poisson.effective(board, {0: 1.0, 1: 4.0}, **TIGHT).tensor
        assert abs(tensor[0, 1]) < 1e-14 and tensor[0, 0] == pytest.approx(tensor[1, 1], rel=1e-13)
        errors.append(2.0 - tensor[0, 0])
    orders = -np.diff(np.log2(errors))
    assert orders == pytest.approx(8.0 / math.pi * math.atan(0.5), abs=0.008) and errors[-1] < 5e-3


@pytest.mark.parametrize("shape", [(11, 8), (6, 5, 8)])
def test_mean_fluxes_of_a_direct_solver_agree(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """By energies that are summed in several slabs of planes."""
    monkeypatch.setattr("poisson.run.voxels.SLAB_NODES", 48)
    a = np.exp(2.0 * np.random.default_rng(len(shape)).standard_normal(shape))
    spacing = (0.3, 1.0, 2.5)[: len(shape)]
    expected = by_fluxes(a, spacing)
    assert abs(expected - np.diag(np.diag(expected))).max() > 1e-3
    np.testing.assert_allclose(expected, expected.T, atol=1e-12)
    for backend in ("numpy", "openmp"):
        found = poisson.effective(a, spacing=spacing, backend=backend)
        np.testing.assert_allclose(found.tensor, expected, rtol=1e-10, atol=1e-11)
        np.testing.assert_array_equal(found.tensor, found.tensor.T)


@pytest.mark.parametrize("make", [emulated, pytest.param(BACKENDS["gpu"], marks=pytest.mark.gpu)])
@pytest.mark.parametrize("shape", [(41, 7), (5, 9, 37), (3, 6, 4)])
@pytest.mark.parametrize("mean", ["harmonic", "arithmetic"])
def test_sources_and_energies_on_a_device_are_those_on_the_host(make: Any, shape: tuple[int, ...], mean: Any) -> None:
    """The arrays have rows at other distances; the energies are of some potentials or of all; a is 0 at some nodes."""
    backend, rng, spacing = make(np.float64), np.random.default_rng(3), (0.3, 1.0, 2.5)[: len(shape)]
    upper = [h * n for h, n in zip(spacing, shape[::-1], strict=True)]
    a, *fields = rng.random((1 + len(shape), *shape))
    a[a < 0.2] = 0.0
    problem = poisson.Problem.on_box(shape[::-1], a=a, upper=upper, boundary="periodic", mean=mean)
    values, *there = map(backend.from_host, (a, *fields))
    host, device = HostCell(a, problem, 1), backend.cell(values, mean == "harmonic", spacing)
    for axis in range(len(shape)):
        expected = host.source(axis)
        np.testing.assert_allclose(
            backend.to_host(device.source(axis)), expected, rtol=0, atol=1e-14 * abs(expected).max()
        )
    for axes in (range(len(shape)), (1,)):
        wanted = host.energies({axis: fields[axis] for axis in axes})
        found = device.energies({axis: there[axis] for axis in axes})
        assert found == pytest.approx(wanted, rel=1e-13) and list(found) == list(wanted)
        assert device.energies({axis: there[axis] for axis in axes}) == found


@pytest.mark.parametrize("make", [NumpyBackend, emulated, pytest.param(BACKENDS["gpu"], marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
def test_labels_of_any_type_and_layout_are_brought_to_a_device(make: Any, dtype: Any) -> None:
    backend, labels = make(np.float64), np.arange(120).reshape(4, 5, 6).astype(dtype)
    for values in (labels, labels[::2, :, ::-1], np.asfortranarray(labels)):
        found = backend.brought(values)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found if isinstance(found, np.ndarray) else found.get(), values)


def test_errors_of_the_tensor_are_the_squares_of_those_of_the_solves() -> None:
    image = blobs((16, 16, 16), 3.0)
    exact = poisson.effective(image, PAIR, rtol=1e-10, backend="numpy").tensor
    for rtol in (1e-2, 1e-3):
        error = poisson.effective(image, PAIR, rtol=rtol, backend="numpy").tensor - exact
        assert np.linalg.eigvalsh(error)[0] > 0.0 and abs(error).max() < 10.0 * rtol**2  # energies are from above


@pytest.mark.parametrize("pair", [{0: 0.0, 1: 1.0}, {0: 1.0, 1: 10.0}, {0: 1.0, 1: 1e3}, {0: 1.0, 1: 1e6}], ids=str)
def test_the_tensor_has_eight_digits_whatever_the_contrast(pair: dict[int, float]) -> None:
    """Spots that do not touch are the worst: in them most of f lies, and outside of them the energy."""
    for image in (np.random.default_rng(3).random((12, 12, 12)) < 0.3, blobs((64, 64), 3.0)):
        found, exact = (poisson.effective(image, pair, backend="openmp", **given) for given in ({}, {"rtol": 1e-11}))
        np.testing.assert_allclose(found.tensor, exact.tensor, rtol=0, atol=1e-8 * np.abs(exact.tensor).max())


@pytest.mark.parametrize(("shape", "seed"), [((48, 48), 1), ((48, 48), 2), ((24, 24, 24), 3)])
def test_random_media_lie_within_the_bounds_wherever_the_cell_begins(shape: tuple[int, ...], seed: int) -> None:
    image = blobs(shape, 4.0, seed)
    found = poisson.effective(image, PAIR, **TIGHT)
    assert found.fractions == {1.0: 0.5, 30.0: 0.5} and found.islands == 0
    one, other, d = 1.0, 30.0, len(shape)
    hashin = [low + 0.5 / (1.0 / (high - low) + 0.5 / (d * low)) for low, high in ((one, other), (other, one))]
    absent = poisson.effective(image, PAIR | {7: 1000.0}, method="jacobi", rtol=0.9, backend="numpy")
    assert absent.bounds == found.bounds and absent.fractions == found.fractions | {1000.0: 0.0}
    expected = {"reuss": 60.0 / 31.0, "lower": hashin[0], "upper": hashin[1], "voigt": 15.5}
    assert dict(found.bounds) == pytest.approx(expected, rel=1e-13)
    values = np.linalg.eigvalsh(found.tensor)
    assert expected["reuss"] < values[0] and values[-1] < expected["voigt"]
    assert expected["lower"] < values.mean() < expected["upper"]
    shifted = np.roll(image, tuple(range(3, 3 + len(shape))), axis=tuple(range(len(shape))))
    np.testing.assert_allclose(poisson.effective(shifted, PAIR, **TIGHT).tensor, found.tensor, rtol=1e-12, atol=1e-12)
    swapped = poisson.effective(1 - image.T, {0: 30.0, 1: 1.0}, **TIGHT).tensor  # the axes in the other order
    np.testing.assert_allclose(swapped[::-1, ::-1], found.tensor, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("shape", "part"), [((24, 20), 0.68), ((9, 10, 11), 0.5), ((9, 10, 11), 0.35)])
def test_phases_that_do_not_conduct_leave_islands(shape: tuple[int, ...], part: float) -> None:
    rng = np.random.default_rng(7)
    image = (rng.random(shape) < part) * rng.integers(1, 3, shape)
    conductivities = np.array([0.0, 2.0, 5.0])
    spacing = (1.0, 0.5, 2.0)[: len(shape)]
    expected = by_fluxes(conductivities[image], spacing)
    for backend in ("numpy", "openmp"):
        found = poisson.effective(image, dict(enumerate(conductivities)), spacing=spacing, backend=backend, rtol=1e-8)
        np.testing.assert_allclose(found.tensor, expected, rtol=1e-9, atol=1e-10)
    assert found.islands > 0 and expected[0, 0] > 0.01 and found.bounds["reuss"] == 0.0
    turned = np.roll(image, 3, axis=0)
    again = poisson.effective(turned, dict(enumerate(conductivities)), spacing=spacing, backend="numpy")
    assert again.islands == found.islands


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(48, 40), (20, 24, 28)])
def test_a_gpu_takes_parts_as_the_host_does(shape: tuple[int, ...]) -> None:
    """Images with one conducting part and with several, with islands, and one in which every voxel conducts."""
    BACKENDS["gpu"](np.float64)  # or skipped
    rng = np.random.default_rng(4)
    strips = np.zeros(shape, dtype=int)
    strips[..., 2:9, :], strips[..., 20:30, :], strips[..., 13, 4] = 1, 1, 1
    for image, phases in (
        (blobs(shape, 3.0), {0: 0.0, 1: 1.0}),
        (strips, {0: 0.0, 1: 3.0}),
        (rng.integers(0, 3, shape), {0: 0.0, 1: 1.0, 2: 50.0}),
        (rng.integers(0, 2, shape), {0: 1.0, 1: 1000.0}),
    ):
        found, expected = (poisson.effective(image, phases, backend=name, rtol=1e-9) for name in ("gpu", "openmp"))
        np.testing.assert_allclose(found.tensor, expected.tensor, rtol=0, atol=1e-8 * np.abs(expected.tensor).max())
        assert (found.islands, found.fractions, found.bounds) == (expected.islands, expected.fractions, expected.bounds)
        assert {name: len(parts) for name, parts in found.solutions.items()} == {
            name: len(parts) for name, parts in expected.solutions.items()
        }


@pytest.mark.parametrize("phases", [{0: 0.0, 1: 2.0}, None])
def test_nothing_conducts_where_no_voxel_has_a_phase_that_does(phases: dict[int, float] | None) -> None:
    found = poisson.effective(np.zeros((8, 9)), phases, backend="openmp")
    assert not found.tensor.any() and found.islands == 0 and found.converged
    assert found.bounds == {"reuss": 0.0, "lower": 0.0, "upper": 0.0, "voigt": 0.0}


class Full:
    """A backend with a device without memory."""

    def __getattr__(self, name: str) -> Any:
        raise ResourceError("the device has too little memory")


@pytest.mark.parametrize("phases", [PAIR, None])
def test_an_image_that_does_not_fit_on_the_device_is_one_for_the_host(
    phases: dict[int, float] | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where `auto` chooses; a device that was asked for ends in one line."""
    image = blobs((16, 16), 3.0) + (phases is None)
    expected = poisson.effective(image, phases, backend="openmp")
    monkeypatch.setattr("poisson.run.effective._device", lambda backend: Full() if backend != "openmp" else None)
    with pytest.raises(ResourceError, match="too little memory"):
        poisson.effective(image, phases, backend="gpu")
    with caplog.at_level("WARNING"):
        found = poisson.effective(image, phases)
    assert "the image does not fit on the device; going on on the host: the device has too little memory" in caplog.text
    np.testing.assert_allclose(found.tensor, expected.tensor, rtol=1e-7, atol=1e-9)


def test_paths_through_the_cell_are_found_across_its_ends() -> None:
    phases = {0: 0.0, 1: 2.0}

    def found(rows: str) -> poisson.Effective:
        return poisson.effective([[int(label) for label in row] for row in rows.split()], phases, backend="numpy")

    layers = found("1111 0000 1111 1000 0000")  # with a dead end
    np.testing.assert_allclose(layers.tensor, [[0.8, 0.0], [0.0, 0.0]], atol=1e-14)
    assert layers.islands == 0 and [len(parts) for parts in layers.solutions.values()] == [2, 0]
    layers = found("1111 0000 1111 0000 1001 0000")
    np.testing.assert_allclose(layers.tensor, [[2.0 / 3.0, 0.0], [0.0, 0.0]], atol=1e-14)
    assert layers.islands == 2 and [len(parts) for parts in layers.solutions.values()] == [2, 0]
    stairs = found("1100 0110 0011 1001")  # 8 links one after the other, with the drop of both axes
    np.testing.assert_allclose(stairs.tensor, [[0.25, 0.25], [0.25, 0.25]], atol=1e-13)
    nothing = found("1100 1100 0000 0000")
    assert nothing.islands == 4 and not nothing.tensor.any() and nothing.converged
    assert nothing.iterations == {"x": 0, "y": 0} and nothing.fractions == {0.0: 0.75, 2.0: 0.25}


def test_random_images_with_like_phases_have_the_geometric_mean_in_2d() -> None:
    """Dykhne, Sov. Phys. JETP 32 (1971) 63: where nothing but the values tells the phases apart."""
    images = [blobs((256, 256), 16.0, seed) for seed in range(6)]
    tensors = [poisson.effective(image, {0: 1.0, 1: 4.0}, backend="openmp").tensor for image in images]
    assert np.exp(np.mean([np.log(np.linalg.det(tensor)) for tensor in tensors]) / 2.0) == pytest.approx(2.0, rel=0.01)


# ---- what is given, and what comes out
@pytest.mark.parametrize(
    ("image", "given", "line"),
    [
        (np.ones((4, 4)), {"phases": {0: 1.0}}, "image has the value 1, which is no phase; the phases are 0"),
        (np.eye(4), {"phases": {}}, "phases: {}; allowed: the label of every phase with a finite value >= 0, "),
        (np.eye(4), {"phases": {0: 1.0, 1: -2.0}}, "phases: {0: 1.0, 1: -2.0}; allowed: the label of every phase"),
        (np.eye(4), {"phases": {0: 1.0, "b": 2.0}}, "phases: {0: 1.0, 'b': 2.0}; allowed: the label of every"),
        (np.eye(4), {"phases": {0: 0.0, 1: 0.0}}, "phases: {0: 0.0, 1: 0.0}; allowed: the label of every phase"),
        (np.ones(4), {}, "image: the shape (4,); allowed: (ny, nx) or (nz, ny, nx)"),
        (np.ones((4, 4, 4, 3)), {}, "image: the shape (4, 4, 4, 3); allowed: (ny, nx) or (nz, ny, nx)"),
        (np.ones((4, 2)), {}, "x: 2 nodes; at least 3 are needed"),
        (np.ones((4, 4)), {"spacing": (1.0, 1.0, 1.0)}, "spacing: (1.0, 1.0, 1.0); allowed: a number > 0, or one"),
        (np.ones((4, 4)), {"spacing": -1.0}, "spacing: -1.0; allowed: a number > 0, or one for each of x, y(, z)"),
        (-np.ones((4, 4)), {}, "equation.a: -1.0 at x = 0, y = 0; every value must be >= 0"),
        ("no.npy", {}, "no such file: 'no.npy'"),
        ("no/*.png", {"phases": PAIR}, "no such file: 'no/*.png'"),
        ("text.npy", {}, "'text.npy' cannot be read as a .npy file: "),
        ("text.txt", {}, "'text.txt' must end in .npy, .h5, .hdf5, .png, .tif or .tiff"),
    ],
)
def test_a_wrong_image_is_one_line(
    image: Any, given: dict[str, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.npy").write_text("no image")
    with pytest.raises(CaseError) as caught:
        poisson.effective(image, **given)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "voxels.toml").write_bytes((ROOT / "cases" / "voxels.toml").read_bytes())
    write_source(tmp_path / "source.h5")
    return "voxels.toml"


def test_the_command_prints_and_writes_the_tensor(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    image = blobs((32, 32, 32), 4.0)
    expected = poisson.effective(image, PAIR, rtol=1e-6, backend="numpy", spacing=1 / 32)
    assert main(["effective", case, "--backend", "numpy", "--potentials"]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    printed = np.array([[float(word) for word in line[-3:]] for line in lines[:3]])
    np.testing.assert_allclose(printed, expected.tensor, rtol=1e-5)
    assert lines[3] == ["bounds", "1.93548", "(Reuss)", "to", "15.5", "(Voigt)"]
    assert lines[4] == ["isotropic", "3.48571", "to", "12.7152", "(Hashin", "and", "Shtrikman)"]
    assert lines[5] == ["fractions", "0.5", "of", "1,", "0.5", "of", "30"] and lines[-1] == ["output", "voxels.h5"]
    counts = expected.iterations
    assert lines[6] == ["iterations", *", ".join(f"{name} {count}" for name, count in counts.items()).split()]
    with h5py.File("voxels.h5") as file:
        np.testing.assert_array_equal(file["tensor"], expected.tensor)
        assert list(file["tensor"].attrs["axes"]) == ["x", "y", "z"] and file.attrs["converged"] == 1
        assert list(file["conductivities"]) == [1.0, 30.0] and list(file["fractions"]) == [0.5, 0.5]
        assert dict(file["bounds"].attrs) == dict(expected.bounds)
        for name, [solution] in expected.solutions.items():
            np.testing.assert_array_equal(file[name]["potential"], solution.u)
            assert list(file[name].attrs["status"]) == ["converged"] and file[name].attrs["backend"] == "numpy"
    assert main(["effective", case, "--backend", "numpy", "--json", "--quiet"]) == 0  # replaces its own file
    record = json.loads(capsys.readouterr().out)
    assert record["tensor"] == expected.tensor.tolist() and record["iterations"] == counts
    assert record["file"] == "voxels.h5" and record["exit_code"] == 0 and record["islands"] == 0
    with h5py.File("voxels.h5") as file:
        assert "potential" not in file["x"]
    assert err.count("singular problem") == 3
    read = poisson.effective("source.h5", PAIR, dataset="voxels", rtol=1e-6, backend="numpy", spacing=1 / 32)
    np.testing.assert_array_equal(read.tensor, expected.tensor)


def test_the_command_takes_an_expression_and_tells_that_it_did_not_converge(
    case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    formula = ['equation.a="1/(2 + cos(2*pi*x))"', "domain.shape=[16,8,8]", "run.backend=numpy"]
    words = [word for pair in formula for word in ("--set", pair)]
    assert main(["effective", case, "-q", "--json", *words]) == 0
    tensor = np.array(json.loads(capsys.readouterr().out)["tensor"])
    np.testing.assert_allclose(np.diag(tensor), [0.5, *[1.0 / math.sqrt(3.0)] * 2], rtol=1e-8)
    assert main(["effective", case, "-q", "--backend=numpy", "--set", "solver.max_iterations=2"]) == 1
    out, err = capsys.readouterr()
    lines = [f"poisson: warning: {name}: max_iterations: " for name in "xyz"]
    assert out == "" and [line[: len(begin)] for line, begin in zip(err.splitlines(), lines, strict=True)] == lines
    with pytest.warns(poisson.NotConverged, match="max_iterations"):
        found = poisson.effective(blobs((32, 32), 3.0), PAIR, backend="numpy", max_iterations=1)
    assert not found.converged
    with pytest.raises(poisson.NotConverged):
        poisson.effective(blobs((32, 32), 3.0), PAIR, backend="numpy", max_iterations=1, strict=True)
    with h5py.File("voxels.h5") as file:
        assert file.attrs["converged"] == 0 and list(file["x"].attrs["status"]) == ["max_iterations"]


@pytest.mark.parametrize(
    ("pair", "line"),
    [
        ("equation.c=1", "equation.c: a cell has no losses; allowed here: 0"),
        ("boundary={all={dirichlet=0}}", 'boundary: a cell is periodic; allowed here: "periodic" along every axis'),
        ("equation.a.phases={}", "equation.a.phases: {}; allowed: the label of every phase with a finite value >= 0"),
        ("equation.a.phases.1=-1", "equation.a.phases: { 0 = 1.0, 1 = -1 }; allowed: the label of every phase"),
        ("equation.a.phases={0=1.0}", "'voxels' in 'source.h5' has the value 1, which is no phase; the phases are 0"),
        ("equation.a.file='no.h5'", "equation.a: no such file: 'no.h5'"),
        ("domain.shape=[32,32,16]", "equation.a: 'voxels' in 'source.h5' has the shape (32, 32, 32); the grid needs"),
    ],
)
def test_a_wrong_cell_is_one_line(case: str, pair: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["effective", case, "--backend=numpy", "--set", pair]) == 2
    err = capsys.readouterr().err.splitlines()
    assert line in err[-1] and sum("error:" in each for each in err) == 1


def test_the_command_tells_of_islands(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "equation.a.phases={0=0.0, 1=2.0}", "--potentials"]
    assert main(["effective", case, *words]) == 0
    out = capsys.readouterr().out
    expected = poisson.effective(blobs((32, 32, 32), 4.0), {0: 0.0, 1: 2.0}, rtol=1e-6)
    assert expected.islands > 0
    assert f"islands     {expected.islands} conducting voxels without a connection through the cell\n" in out
    with h5py.File("voxels.h5") as file:
        np.testing.assert_allclose(file["tensor"], expected.tensor, rtol=1e-12)
        assert (
            file.attrs["islands"] == expected.islands
            and not file["x"]["potential"][blobs((32, 32, 32), 4.0) == 0].any()
        )


def test_files_of_others_are_replaced_on_request_alone(tmp_path: Path) -> None:
    found = poisson.effective(np.eye(4) + 1.0, backend="numpy")
    other = tmp_path / "other.h5"
    other.write_text("of others")
    with pytest.raises(OutputError, match="overwrite=True"):
        found.save(other)
    assert found.save(other, overwrite=True) == found.save(other) == other
