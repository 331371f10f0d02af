# SPDX-License-Identifier: MIT
"""The shapes of kernels: which one is taken, and the search for them."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from support.emulation import EmulatedRuntime
from support.operators import operator
from support.places import ROOT

import poisson
from poisson.backends.gpu import tuned
from poisson.backends.gpu.backend import GpuBackend, GpuOperations
from poisson.backends.gpu.choice import ShapeChoice
from poisson.backends.gpu.runtime import Kernel
from poisson.backends.gpu.shapes import (
    DEFAULTS,
    ENOUGH_BLOCKS,
    KINDS,
    MAX_BLOCKS,
    MULTIPROCESSORS,
    SHORTEST_MARCH,
    UNTUNED,
    Shape,
    nearest,
)
from poisson.backends.gpu.tuned import Device, Measured, Setting, read
from poisson.case import load
from poisson.cli import main
from poisson.discrete.discretisation import Operator
from poisson.errors import ResourceError
from poisson.mesh.boundary import Rule
from poisson.perf import autotune
from poisson.perf.autotune import Search, Trials, tune_device, tune_operator
from poisson.perf.candidates import coordinates, fits, neighbours

FIXED = (Rule.FIXED,) * 4
OPERATOR = operator((20, 13), FIXED)
DEVICE = Device("a GPU, HIP 6", "1.2", "0123")
CHOSEN = {"sweep": Shape(64, 2, 8, 2), "laplacian": Shape(32, 8, 1)}
TABLE = {
    Setting("float64", 2, "2^9"): Measured("2026-03-04", CHOSEN),
    Setting("float32", 3, "2^27"): Measured("2026-03-05", {"sweeps": Shape(32, 6, 64, depth=3, rows=2, strip=4 << 20)}),
}


def on_cube(shape: tuple[int, ...]) -> Operator:
    return Operator.uniform(shape, (1.0,) * len(shape), 0.0, (Rule.FIXED,) * (2 * len(shape)))


# ---- which shape is taken
def test_every_architecture_has_a_shape_of_every_kind() -> None:
    for shapes in DEFAULTS.values():
        assert set(shapes) == {(kind, dimension) for kind in (*KINDS, *UNTUNED) for dimension in (2, 3)}
        for (kind, dimension), shape in shapes.items():
            assert fits(shape, kind, dimension, 2) and fits(shape, kind, dimension, 4)


@pytest.mark.parametrize(
    ("architecture", "found"),
    [("sm_90", "sm_90"), ("sm_80", "sm_80"), ("gfx90a", "gfx90a"), ("gfx942", "gfx90a"), ("sm_120", "sm_90")],
)
def test_an_unknown_architecture_takes_the_defaults_of_its_vendor(architecture: str, found: str) -> None:
    assert nearest(architecture) == found
    choice = ShapeChoice(architecture, "float64", {})
    large = on_cube((20_000, 20_000))
    assert choice.of("sweep", large) == DEFAULTS[found]["sweep", 2]
    note = "" if architecture == found else f", none for {architecture}"
    assert choice.origin(large) == f"defaults for {found}{note}"


def test_the_blocks_of_amd_are_those_of_the_lab_notes() -> None:
    for architecture, threads, march in (("gfx90a", 256, 8), ("gfx908", 128, 4), ("gfx906", 256, 4)):
        shape = DEFAULTS[architecture]["laplacian", 3]
        assert (shape.block_x, shape.block_y, shape.march) == (threads, 1, march)


def test_a_measured_shape_comes_before_the_default() -> None:
    choice = ShapeChoice("sm_90", "float64", TABLE)
    assert choice.of("sweep", OPERATOR) == CHOSEN["sweep"]
    assert choice.of("laplacian", OPERATOR) == CHOSEN["laplacian"]
    assert choice.of("sweep_norm", OPERATOR) == choice.default("sweep_norm", OPERATOR)
    assert choice.origin(OPERATOR) == "measured on 2026-03-04"
    for other in (ShapeChoice("sm_90", "float32", TABLE), ShapeChoice("sm_90", "float64", {})):
        assert other.of("sweep", OPERATOR) == other.default("sweep", OPERATOR)
        assert other.origin(OPERATOR) == "defaults for sm_90"


def test_a_small_grid_has_short_marches_by_default() -> None:
    choice = ShapeChoice("sm_90", "float64", {})
    full = DEFAULTS["sm_90"]["interpolate", 2]
    assert choice.of("interpolate", on_cube((2000, 2000))) == full
    assert choice.of("interpolate", on_cube((100, 100))) == dataclasses.replace(full, march=1, unroll=1, resident=1)


def test_a_norm_has_as_many_blocks_as_a_device_holds_at_once() -> None:
    """More would pay for their part of the reduction, fewer leave multiprocessors idle."""
    choice, full = ShapeChoice("sm_90", "float64", {}), DEFAULTS["sm_90"]["sweep_norm", 3]
    for n, march in ((65, 4), (129, 20), (513, full.march)):
        shape = choice.of("sweep_norm", on_cube((n,) * 3))
        assert shape == dataclasses.replace(full, march=march)
        blocks = math.ceil(n / 64) * math.ceil(n / shape.block_y) * math.ceil(n / march)
        assert (blocks <= MULTIPROCESSORS * full.resident) == (n < 513)


@pytest.mark.parametrize("kind", ["laplacian", "sweep"])
def test_a_march_is_shorter_where_blocks_are_few(kind: str) -> None:
    choice = ShapeChoice("sm_90", "float64", {})
    full = DEFAULTS["sm_90"][kind, 3]
    nodes = full.block_x * full.block_y * full.march * 2
    marches = {}
    for blocks in (2 * ENOUGH_BLOCKS, ENOUGH_BLOCKS, ENOUGH_BLOCKS // 2, ENOUGH_BLOCKS // 8):
        a = Operator.uniform((nodes, blocks // 4, 4), (1.0,) * 3, 0.0, (Rule.WRAP,) * 6)
        marches[blocks] = choice.of(kind, a).march
        assert choice.of(kind, a) == dataclasses.replace(full, march=marches[blocks])
    assert list(marches.values()) == [full.march, full.march, full.march // 2, SHORTEST_MARCH]


def test_a_long_thin_grid_has_a_long_march_whatever_was_measured() -> None:
    thin = on_cube((3, 8 * MAX_BLOCKS))
    setting = ShapeChoice("sm_90", "float64", {}).setting(thin)
    choice = ShapeChoice("sm_90", "float64", {setting: Measured("2026-01-01", {"sweep": Shape(64, 2, 1)})})
    assert choice.of("sweep", thin).march == 4


def test_a_shape_on_trial_comes_first_and_only_for_its_kind() -> None:
    choice = ShapeChoice("sm_90", "float64", TABLE)
    first, second = Shape(128, 1, 2), Shape(256, 1, 2)
    with choice.trying("sweep", first):
        with choice.trying("sweep", second):
            assert choice.of("sweep", OPERATOR) == second
        assert choice.of("sweep", OPERATOR) == first
        assert choice.of("laplacian", OPERATOR) == CHOSEN["laplacian"]
    assert choice.of("sweep", OPERATOR) == CHOSEN["sweep"]


# ---- the search
class Scripted(GpuBackend):
    """A device whose kernels take a time that depends on their shapes: `cost` of that on trial, in seconds."""

    def __init__(self, cost: Callable[[Shape], float], dtype: Any = np.float64) -> None:
        super().__init__(dtype, EmulatedRuntime())
        self.cost = cost
        self.kind = "sweep"

    def seconds(self, call: Callable[[], None]) -> float:
        return self.cost(self.shapes.of(self.kind, OPERATOR))


def search(backend: Scripted, kind: str = "sweep") -> Search:
    backend.kind = kind
    return Trials(backend, OPERATOR).search(kind)


START = Shape(64, 2, 1)
"""The default for a small grid."""


def few(kind: str, dimension: int) -> tuple[tuple[str, tuple[dict[str, int], ...]], ...]:
    return (
        ("block", ({"block_x": 32, "block_y": 4}, {"block_x": 128, "block_y": 1})),
        ("march", ({"march": 2}, {"march": 4})),
    )


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotune, "coordinates", few)


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("kind", ["laplacian", "sweep", "sweep_norm"])
def test_the_fastest_shape_wins(kind: str) -> None:
    # Fast with one row of 128 threads, and then with a march of 2.
    backend = Scripted(
        lambda shape: 0.5 + abs(shape.block_x / 128 - 1) + (shape.block_y - 1 + abs(shape.march - 2)) / 8
    )
    start = backend.shapes.of(kind, OPERATOR)
    found = search(backend, kind)
    assert found.start == start
    assert found.best == dataclasses.replace(start, block_x=128, block_y=1, march=2)
    assert (found.before, found.after) == (backend.cost(start), 0.5)
    assert found.skipped == 0


@pytest.mark.usefixtures("few_candidates")
def test_the_start_stays_unless_another_is_clearly_faster() -> None:
    found = search(Scripted(lambda shape: 1.0 if shape == START else 0.995))
    assert (found.best, found.before, found.after) == (START, 1.0, 1.0)
    found = search(Scripted(lambda shape: 1.0 if shape == START else 0.98))
    assert found.best not in (None, START)


class RefusedSweep(GpuOperations):
    def sweep(self, *arguments: Any) -> None:
        if self.backend.shapes.of("sweep", OPERATOR).block_x == 32:
            raise OSError("too many resources requested for launch")
        super().sweep(*arguments)


class Refusing(Scripted):
    """Does not compile blocks of 128 threads, and does not launch blocks of 32."""

    bound = MappingProxyType({**GpuBackend.bound, Operator: RefusedSweep})

    def kernel(
        self,
        source: str,
        name: str,
        shape: Shape,
        operator: Operator | None,
        defines: tuple[str, ...] = (),
        shared_bytes: int = 0,
    ) -> Kernel:
        if shape.block_x == 128:
            raise SyntaxError("no")
        return super().kernel(source, name, shape, operator, defines, shared_bytes)


@pytest.mark.usefixtures("few_candidates")
def test_what_does_not_compile_or_launch_is_skipped() -> None:
    found = search(Refusing(lambda shape: float(shape.march)))
    assert found.best == START
    assert found.skipped == 2
    assert {shape.block_x for shape, seconds in found.seconds.items() if np.isinf(seconds)} == {32, 128}


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("error", [1e-6, np.nan])
def test_a_shape_that_gives_other_values_does_not_win(error: float) -> None:
    class WrongSweep(GpuOperations):
        def sweep(self, u: Any, f: Any, out: Any, *rest: Any) -> None:
            super().sweep(u, f, out, *rest)
            if self.backend.shapes.of("sweep", self.operator).march == 4:
                out[5, 7] += error

    class Wrong(Scripted):
        bound = MappingProxyType({**GpuBackend.bound, Operator: WrongSweep})

    found = search(Wrong(lambda shape: 1.0 / shape.march))
    assert found.best is not None and found.best.march == 2
    assert {shape.march for shape, seconds in found.seconds.items() if np.isinf(seconds)} == {4}


@pytest.mark.usefixtures("few_candidates")
def test_a_shape_that_gives_another_norm_does_not_win() -> None:
    class Wrong(Scripted):
        def read(self, result: Any) -> tuple[float, float]:
            total, largest = super().read(result)
            on_trial = self.shapes.of("sweep_norm", OPERATOR).march == 4
            return (total * (1.0 + 1e-6) if on_trial else total), largest

    found = search(Wrong(lambda shape: 1.0 / shape.march), "sweep_norm")
    assert found.best is not None and found.best.march == 2


def test_passes_of_several_sweeps_are_compared_by_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    depths = (("depth", ({"depth": 2}, {"depth": 3})),)
    monkeypatch.setattr(autotune, "coordinates", lambda kind, dimension: depths)
    # A pass takes the same time whatever its depth, so the deepest wins.
    backend = Scripted(lambda shape: 6.0)
    found = search(backend, "sweeps")
    depth = found.start.depth
    assert found.best is not None and found.best.depth == max(depth, 3)
    assert found.after == 6.0 / max(depth, 3)
    assert found.skipped == 0


def test_a_grid_too_large_to_tune_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Scripted(lambda shape: 1.0)
    monkeypatch.setattr(backend, "memory", lambda: (5 * 8 * 20 * 13 - 1, 1 << 40))
    with pytest.raises(ResourceError, match=r"5 arrays of 20 x 13 nodes need 1\.04e-05 GB, .*: choose a smaller grid"):
        tune_operator(backend, OPERATOR)


# ---- the candidates
def reachable(kind: str, dimension: int, width: int) -> Iterator[Shape]:
    start = DEFAULTS["sm_90"][kind, dimension]
    for _, values in coordinates(kind, dimension):
        yield from neighbours(start, values, kind, dimension, width)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [2, 3])
def test_the_candidates_are_few_and_possible(kind: str, dimension: int) -> None:
    for width in (2, 4):
        shapes = list(reachable(kind, dimension, width))
        assert 8 <= len(set(shapes)) <= 30
        assert all(fits(shape, kind, dimension, width) for shape in shapes)


IMPOSSIBLE = [
    ("sweep", Shape(512, 4, 4)),
    ("sweep", Shape(24, 1, 4)),
    ("sweep", Shape(256, 2, 4, 1, 5)),
    ("sweep", Shape(64, 2, 2, 4)),
    ("sweeps", Shape(64, 2, 64, depth=2)),
    ("sweeps", Shape(32, 2, 64, depth=32)),
]


@pytest.mark.parametrize(("kind", "shape"), IMPOSSIBLE)
def test_what_no_kernel_can_have_is_left_out(kind: str, shape: Shape) -> None:
    assert not fits(shape, kind, 2, 2)
    possible = DEFAULTS["sm_90"][kind, 2]
    assert list(neighbours(possible, (dataclasses.asdict(shape),), kind, 2, 2)) == []


@pytest.mark.parametrize(
    ("threads", "rows", "depth", "possible"), [(24, 1, 2, True), (24, 1, 5, False), (6, 1, 3, False)]
)
def test_a_block_in_3d_owns_lines_and_has_room_for_what_its_threads_show(
    threads: int, rows: int, depth: int, possible: bool
) -> None:
    assert fits(Shape(32, threads, 16, depth=depth, rows=rows), "sweeps", 3, 2) is possible


# ---- from the command to the next solve
@pytest.mark.usefixtures("few_candidates", "short_measurements")
def test_a_solve_takes_what_tune_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotune, "KINDS", ("laplacian", "sweep"))
    overrides = ["domain.shape=[20, 13]", "solver.max_iterations=4", 'run.backend="gpu"']
    case = load(ROOT / "cases/unit_square.toml", overrides)

    def create(name: str, dtype: Any, threads: int = 0) -> GpuBackend:
        runtime = EmulatedRuntime()
        return GpuBackend(dtype, runtime, read(Device.of(runtime)))

    monkeypatch.setattr("poisson.backends.create", create)
    before = poisson.solve(case)
    assert before.provenance["tuning"] == "defaults for sm_90, none for emulated"
    backend = Scripted(lambda shape: 1.0 / shape.march)
    backend.kind = "sweep"
    report = tune_device(backend, [OPERATOR])
    rows = {row["kernel"]: row for row in report.rows}
    assert set(rows) == {"laplacian", "sweep"}
    assert (rows["sweep"]["before"], rows["sweep"]["chosen"]) == ("64x2 m1 u1 r1", "64x2 m4 u1 r1")
    assert rows["sweep"]["gain"] == pytest.approx(4.0)
    assert (rows["sweep"]["type"], rows["sweep"]["dimension"], rows["sweep"]["size"]) == ("float64", 2, "2^9")
    assert f"written to {backend.identity.path}" in report.notes
    assert create("gpu", np.float64).shapes.of("sweep", OPERATOR) == Shape(64, 2, 4)
    after = poisson.solve(case)
    assert after.provenance["tuning"] == f"measured on {date.today().isoformat()}"
    assert np.array_equal(before.u, after.u)


@pytest.mark.parametrize("words", [[], ["--shape=20x13"], ["cases/unit_square.toml"]])
def test_a_cpu_has_nothing_to_tune(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *words, "--backend=numpy"]) == 0
    assert "nothing to tune: the kernels of the numpy backend have no block shapes" in capsys.readouterr().out
    assert not tuned.folder().exists()


def test_the_command_says_what_to_tune(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.toml"
    mixed.write_text((ROOT / "cases/cube.toml").read_text("utf-8") + '\n[run]\nprecision = "mixed"\n', "utf-8")
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(autotune, "tune", lambda *arguments: asked.append(arguments))
    for words in (
        [],
        ["--shape=20x13", "--precision=float32", "--backend=gpu"],
        [str(ROOT / "cases/cube.toml"), "--backend=numpy"],
        [str(mixed)],
    ):
        with pytest.raises(AttributeError):
            main(["tune", *words])
    assert asked[0] == ("auto", "float64", None)
    assert asked[1][:2] == ("gpu", "float32")
    assert [each.shape for each in asked[1][2]] == [(20, 13)]
    assert asked[2][:2] == ("numpy", "float64")
    assert [each.dimension for each in asked[2][2]] == [3]
    assert asked[3][:2] == ("auto", "float64")
