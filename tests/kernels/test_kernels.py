# SPDX-License-Identifier: MIT
"""Every kernel that the gpu backend launches, compiled to machine code for NVIDIA and AMD GPUs without one.

The backend runs all its operations on a runtime that only takes notes, so the launches are those that a device would
see, in their shapes, with their options. ``pytest -s tests/kernels/test_kernels.py`` prints the registers of each
kernel.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray
from support import hip, nvrtc
from support.emulation import EmulatedRuntime
from support.instructions import has_maximum_of_three
from support.operators import name_of, operator

from poisson import kernels
from poisson.backends.gpu import backend as gpu
from poisson.backends.gpu import graphs
from poisson.backends.gpu.overlap import FEWEST_NODES
from poisson.backends.gpu.passes import Pass
from poisson.backends.gpu.runtime import Kernel
from poisson.backends.gpu.shapes import SHARED_BY_NORMS
from poisson.backends.operations import OPERATIONS, Role
from poisson.discrete.clusters import Clusters
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.full_stencil import FullStencil, StencilTransfer, offsets_of
from poisson.discrete.inverse import DividedInverse, Inverse
from poisson.discrete.operator import Coefficients, Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.boundary import Rule
from poisson.mesh.differences import Differences
from poisson.mesh.lattice import Lattice
from poisson.mesh.staggered import Staggered
from poisson.perf.workload import MEASURED, Workload, some_rows
from poisson.problem.problem import Problem
from poisson.solvers.multigrid.hierarchy import coarser

_KERNEL = re.compile(r"^KERNEL (\w+)\(", re.MULTILINE)
UNUSED = "static __device__ void"
"""What stands in the place of KERNEL for a function that is not to be compiled."""

REGISTERS_OF_A_BLOCK = 65536
"""The registers that the threads of a block share, on sm_80 and sm_90."""

MANY_SCALARS = {f"poisson_{name}{norm}" for name in ("sweeps", "smooth") for norm in ("", "_norm")} | {
    *("poisson_tridiagonal", "poisson_face_charges", "poisson_stencil_galerkin", "poisson_stencil_interpolation")
}
"""Kernels whose conditions take more scalar registers than AMD GPUs have; the rest lie in lanes of vector registers."""

LIKE_SWEEP = ("sweeps", "residual")
"""Operations whose kernels read coefficients as that of a sweep does, and take long to compile."""

MIXED = (Rule.MIRROR, Rule.FIXED, Rule.FIXED, Rule.MIRROR, Rule.WRAP, Rule.WRAP)
RULES = {
    2: ((Rule.FIXED,) * 4, (Rule.WRAP, Rule.WRAP, Rule.FIXED, Rule.MIRROR)),
    3: ((Rule.FIXED,) * 6, (Rule.WRAP,) * 6, MIXED),
}
"""Rules of one kind, and at the end of every kind, with x among the axes that wrap in one dimension or the other."""
SIZES = {2: ((65, 33), (1200, 1000)), 3: ((17, 9, 13), (120, 110, 100))}
"""A grid that does not fill a device, and one that does: the backend cuts them up in different ways."""


@dataclass(frozen=True)
class Launch:
    """A kernel, the module it is in, and the threads of its blocks."""

    text: str
    options: tuple[str, ...]
    name: str
    threads: int


@dataclass
class _Module:
    text: str
    options: tuple[str, ...]
    launches: set[Launch]

    def get_function(self, name: str, shared_bytes: int = 0) -> Kernel:
        def launch(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            self.launches.add(Launch(self.text, self.options, name, block[0] * block[1] * block[2]))

        return launch


class NotingRuntime(EmulatedRuntime):
    """A device that runs nothing and notes every launch."""

    shared_bytes = 227 << 10

    def __init__(self, architecture: str = "sm_90") -> None:
        super().__init__()
        self.architecture = architecture
        self.launches: set[Launch] = set()

    def compile(self, source: str, options: tuple[str, ...] = ()) -> Any:
        return _Module(source, options, self.launches)

    def holds(self, array: Any) -> bool:
        return True

    def allocate(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        return np.ones(count, dtype=dtype)  # numbers that later steps of a set-up can go on with

    def allocate_shared(self, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        values = np.zeros(count)
        return values, values

    def upload(self, host_array: NDArray[Any], device_array: NDArray[Any]) -> None:
        device_array[...] = host_array

    def download(self, device_array: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        # No kernel counts here, and what is done with none would launch nothing.
        return np.ones_like(device_array) if device_array.dtype == np.uint64 else device_array.copy()

    def copy(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        target[...] = source

    def fourier(self, lines: NDArray[Any]) -> Callable[[], None]:
        return lambda: None

    def memory(self) -> tuple[int, int]:
        return 1 << 40, 1 << 40


def run_every_operation(backend: gpu.GpuBackend, fine: Operator, *, along_axes: bool = True) -> None:
    """Launch every kernel there is on the arrays of a grid, those that know one axis where they are asked for."""
    workload = Workload(backend, fine)
    for name in (name for name in OPERATIONS if name in MEASURED):
        for call in workload.calls(name, without=True):
            call()
    for call in workload.calls("direction"):
        call(beta=0.0)
    transfer = workload.bound(Transfer).transfer
    coarse, u, out = (backend.empty(a.array_shape) for a in (transfer.coarse, fine, fine))
    backend.bind(Interpolation(fine, transfer.coarse)).interpolate(u, coarse)
    smooth_between_grids_that_halve(backend, fine)
    given: Any = backend.in_place(np.empty(fine.array_shape), lambda: None)
    backend.bind(fine).take(given, u, backend.reduction())
    backend.bind(fine).integrate(given, None, backend.reduction())
    backend.bind(fine).certify(u, given, out, backend.reduction())
    ends = 2 * fine.dimension
    cube = operator((9,) * fine.dimension, (Rule.FIXED,) * ends)
    faces = backend.face_fields(cube, (True,) * ends, cube.lattice)
    faces.take(u, out, True)
    faces.correct(u)
    lengths = tuple(np.ones(n) for n in fine.shape)
    cells = Staggered(fine.shape, (True,) * fine.dimension, lengths, lengths)
    for given in ((), (u,) * fine.dimension):
        backend.staggered(cells).divergence(1.0, (u,) * fine.dimension, out, (1 << ends) - 1)
        backend.staggered(cells).subtract_gradient(1.0, out, (u,) * fine.dimension, given, backend.reduction())
    if not along_axes:
        return
    direct_solutions(backend, fine)
    for axis in range(fine.dimension):
        for derivative in backend.probe().derivatives(workload.bound(Differences)).values():
            derivative(axis, u, out)


def direct_solutions(backend: gpu.GpuBackend, like: Operator) -> None:
    """Launch the kernels of fast transforms: by factors, convolutions, and around the vendor's for longer lines."""
    for shape in ((513, 65, 49)[: like.dimension], (30001, 3, 3)[: like.dimension], (18, 3, 3)[: like.dimension]):
        a = operator(shape, like.rules)
        u, f = (backend.empty(a.array_shape) for _ in range(2))
        backend.bind(Inverse(a)).solve(f, u)
    faces: Any = {"phi": "periodic", "r_upper": 0.0}
    open_above: Any = {"all": 0.0, "x_lower": {"neumann": 0.0}}
    for problem in (
        Problem.on_box((9, 16), upper=(1.0, 2.0 * np.pi), boundary=faces, system="polar"),
        Problem.on_box((512, 24), boundary=open_above, centring="cell"),
        Problem.on_box((1 << 15, 3), y=np.linspace(0.0, 1.0, 3) ** 2, boundary=open_above, centring={"x": "cell"}),
    ):
        separable = Discretisation(problem).operator_on(backend).separable
        assert separable is not None
        u, f = (backend.empty(separable.array_shape) for _ in range(2))
        backend.bind(Inverse(separable)).solve(f, u)
        given, norms = backend.in_place(f, lambda: None), backend.reduction()
        backend.bind(Inverse(separable, held=False)).solve_from(given, f, u, norms, norms)
    for planes in (2, 5000):  # the chains of the latter do not fit registers
        a = operator((*(18, 3, 3)[: like.dimension - 1], planes + 1), like.rules)
        part = replace(a, lattice=a.lattice.part(like.dimension - 1, 0, planes, 1))
        slab = backend.bind(DividedInverse(part))
        u, f = (backend.empty(part.array_shape) for _ in range(2))
        plane = backend.empty((1, slab.eigenvalues.size))
        slab.condense(f, u, None, plane, None)
        slab.expand(f, u, None, plane, None)


def full_stencils(backend: gpu.GpuBackend, lattice: Lattice) -> None:
    """Launch the kernels of full stencils in float32, of transfers by weights along all axes, and of clusters."""
    single, norms = backend.companion(np.float32), backend.reduction()
    plain = FullStencil(lattice, offsets_of(lattice.dimension))
    stencil = replace(plain, coefficients=single.empty(plain.stack.array_shape))
    bare = StencilTransfer(stencil, (True,) * lattice.dimension)
    transfer = replace(bare, weights=single.empty(bare.table.array_shape))
    u, f, out = (backend.empty(lattice.array_shape) for _ in range(3))
    coarse, operations, between = backend.empty(bare.coarse.array_shape), backend.bind(stencil), backend.bind(transfer)
    for result in (None, norms):
        operations.residual(u, f, out, result)
        operations.sweep(u, f, out, 0.8, result)
        operations.diagonal_solve(u, out, 0.8, result)
    operations.color_sweep(u, f, 0, 0.8)
    operations.direction(u, 0.5, f, out, u, norms)
    between.restrict(u, coarse)
    between.prolong_add(coarse, u)
    between.interpolation(transfer.weights, False)
    between.galerkin(single.empty(bare.product.array_shape))
    clusters = Clusters(lattice, np.arange(9, dtype=np.int32), np.array([0, 9]), np.ones(1))
    backend.bind(clusters).correct_clusters(u, out)
    backend.bind(clusters).residual(operations, u, f, out)
    backend.bind(clusters).residual(backend.bind(Operator(lattice)), u, f, out)
    backend.bind(some_rows(lattice)).replace_rows(u, u, u)
    operations.clusters_at((0.1,), large=30)
    many = Clusters(lattice, np.arange(3000, dtype=np.int32), np.array([0, 3000]), np.ones(1), large=(3000, 1, 1))
    with patch.object(graphs, "inverse_of", lambda graph: np.ones((1, 1))):  # the last graph has no numbers here
        backend.bind(operations.apart_together(many, 30)).correct_clusters(u, out)
    operations.median_links((0,))
    operations.mean_links((0,))
    links = Coefficients((u,) * lattice.dimension, None, (1.0, 1.0), (0.0, 0.0))
    backend.parts(Operator(lattice, coefficients=links), f)
    backend.star(Operator(lattice, coefficients=links), stencil.coefficients)
    backend.rough(lattice.array_shape)
    cell = backend.cell(u, True, lattice.spacing)
    cell.energies({0: cell.source(0)})


def operations_that_read_coefficients(backend: gpu.GpuBackend, like: Operator) -> None:
    """Launch the kernels of an operator that varies, on a grid of the same size.

    With a mask in both coefficients, which takes the most registers; each of them alone is compiled for the emulation.
    """
    u, f = (backend.empty(like.array_shape) for _ in range(2))
    a = replace(like, coefficients=Coefficients((u,) * like.dimension, f, (1.0, 1.0), (1.0, 1.0), fixed=1))
    workload = Workload(backend, a)
    varying = (name for name, spec in OPERATIONS.items() if spec.coefficients and name in MEASURED)
    for name in (name for name in varying if name not in LIKE_SWEEP):
        for call in workload.calls(name):
            call()
    for call in workload.calls("color_sweep"):
        call(f=None)
    for call in workload.calls("direction"):
        call(beta=0.0)
    smooth_between_grids_that_halve(backend, a)


def smooth_between_grids_that_halve(backend: gpu.GpuBackend, like: Operator) -> None:
    """Launch the kernels of multigrid on a grid of about the size of another, with coefficients as it has them."""
    wraps = [like.lattice.axes[axis].rules[0] is Rule.WRAP for axis in range(like.dimension)]
    shape = tuple(n // 2 * 2 + (not along) for n, along in zip(like.shape, wraps, strict=True))
    fine, coarse = operator(shape, like.rules), operator(tuple(-(-n // 2) for n in shape), like.rules)
    u, f, out, work = (backend.empty(fine.array_shape) for _ in range(4))
    if like.coefficients is not None:
        fine, coarse = (
            replace(a, c=0.0, coefficients=replace(like.coefficients, links=(x,) * a.dimension, c=x))
            for a, x in ((fine, u), (coarse, backend.empty(coarse.array_shape)))
        )
    pair = (backend.bind(Transfer(fine, coarse)), backend.empty(coarse.array_shape))
    pair[0].restrict(u, pair[1])
    pair[0].prolong_add(pair[1], u)
    backend.bind(fine).smooth(None, f, out, work, [0.6, 0.9], None, pair)
    backend.bind(fine).two_sweeps(f, out, [0.6, 0.9])
    backend.bind(fine).smooth(u, f, out, work, [0.8], pair)
    for norms in (None, backend.reduction()):
        backend.bind(fine).smooth(u, f, out, work, [0.8, 0.6, 0.9], pair, pair, norms)


def operations_on_a_part(backend: gpu.GpuBackend, like: Operator) -> None:
    """Launch the kernels that leave out halos, and those between parts of grids."""
    shape = tuple(n // 2 * 2 + (not axis.wraps) for n, axis in zip(like.shape, like.lattice.axes, strict=True))
    part = operator(shape, like.rules).lattice
    for axis in range(1, like.dimension):
        part = part.part(axis, 8, 20, (6, 7))
    a, workload = Operator(part), Workload(backend, Operator(part))
    for name, spec in OPERATIONS.items():
        if spec.subject is Operator and any(argument.role is Role.RESULT for argument in spec.arguments):
            for call in workload.calls(name):
                call()
    u, f, out, work = (backend.empty(a.array_shape) for _ in range(4))
    for lattice, fits in ((part, True), (part.replaced(1, part.axes[1].undivided.part(8, 20, 5)), False)):
        fine = Operator(lattice)
        coarse = coarser(backend, fine, range(like.dimension))
        between, error = backend.bind(Transfer(fine, coarse)), backend.empty(coarse.array_shape)
        assert (between.transfer.window is not None) is fits
        between.prolong_add(error, backend.empty(fine.array_shape))
        if fits:
            pair = between, error
            backend.bind(fine).smooth(u, f, out, work, [0.8, 0.6], pair, pair, backend.reduction())
            backend.bind(Interpolation(coarse, fine)).interpolate(error, u)


def passes_in_parts(backend: gpu.GpuBackend, like: Operator) -> None:
    """Launch those that go on beside an exchange, on a part of a grid."""
    shape = tuple(n // 2 * 2 + (not axis.wraps) for n, axis in zip(like.shape, like.lattice.axes, strict=True))
    long = (*shape[:-1], 10 * shape[-1] if like.lattice.axes[-1].wraps else 10 * shape[-1] + 1)
    a = Operator(operator(long, like.rules).lattice.part(like.dimension - 1, shape[-1] // 2 * 2, 8 * shape[-1], (6, 7)))
    u, f, out, work = (backend.empty(a.array_shape) for _ in range(4))
    coarse = coarser(backend, a, range(like.dimension))
    pair = backend.bind(Transfer(a, coarse)), backend.empty(coarse.array_shape)
    single = backend.companion(np.float32).empty(a.array_shape)
    operations, norms = backend.bind(a), backend.reduction()
    calls: tuple[Callable[[], None], ...] = (
        lambda: operations.sweep(u, None, out, 0.8, norms),
        lambda: operations.sweeps(u, None, out, [0.8] * operations.depth(), norms),
        lambda: operations.smooth(u, f, out, work, [0.8], pair),
        lambda: operations.smooth(None, f, out, work, [0.8, 0.6], None, pair, norms),
        lambda: operations.defect(u, f, 0.5, single, norms),
    )
    for call in calls:
        with backend.beside(FEWEST_NODES):
            with backend.exchanging():
                pass
            call()


@cache
def launches_of(dtype: str, rules: tuple[Rule, ...], architecture: str = "sm_90") -> frozenset[Launch]:
    """Every launch on a grid that fills a device; with faces of every kind more, where sm_90 is asked for.

    These are coefficients that vary and, in one type for each dimension, parts of a grid; where kernels take the most
    registers, in float64 and 3D, a grid that does not fill it as well.
    """
    runtime = NotingRuntime(architecture=architecture)
    backend = gpu.GpuBackend(np.dtype(dtype), runtime)
    small, large = SIZES[len(rules) // 2]
    if rules == RULES[3][1]:  # of the kinds of axes, this alone has none that ends
        direct_solutions(backend, operator(large, rules))
        return frozenset(runtime.launches)
    mixed, in_sample = rules == RULES[len(rules) // 2][-1], (dtype, len(rules) // 2) in SAMPLE
    # Transforms and derivatives know one axis, and the grids of mixed faces of the sample have every kind.
    run_every_operation(backend, operator(large, rules), along_axes=in_sample or not mixed)
    # Masks and types are the same for all: one compilation for each dimension, and launches alone elsewhere.
    if in_sample or not mixed:
        full_stencils(backend, operator(large, rules).lattice)
    if mixed and architecture == "sm_90":
        if (dtype, len(rules) // 2) == SAMPLE[-1]:
            run_every_operation(backend, operator(small, rules))
        operations_that_read_coefficients(backend, operator(large, rules))
        if in_sample:
            operations_on_a_part(backend, operator(large, rules))
            passes_in_parts(backend, operator(large, rules))
    return frozenset(runtime.launches)


def test_every_kernel_is_launched() -> None:
    texts = [kernels.source(name) for name in kernels.SOURCES]
    declared = {name for text in texts for name in _KERNEL.findall(text)}
    for dimension, dtype in itertools.product((2, 3), ("float32", "float64")):
        launches = launches_of(dtype, RULES[dimension][0])
        assert {launch.name for launch in launches} == declared
        assert {launch.text for launch in launches} == set(texts)


@pytest.mark.parametrize("source", kernels.PARTS)
def test_a_kernel_alone(source: str) -> None:
    """The rest of its module stays, with the numbers of the lines."""
    text = kernels.source(source)
    names = _KERNEL.findall(text)
    lines = text.splitlines()
    bodies = {}
    for name in names:
        first = next(number for number, line in enumerate(lines) if line.startswith(f"KERNEL {name}("))
        bodies[name] = range(first, lines.index("}", first) + 1)
    for name in names:
        others = {number for other in names if other != name for number in bodies[other]}
        expected = ["" if number in others else line for number, line in enumerate(lines)]
        assert kernels.alone(text, name).splitlines() == expected


def test_macros_from_options() -> None:
    text, options = kernels.defined("int a = B;\n", ("-std=c++17", "-DB=1,2", "-DC", "-O3"))
    assert text == "#define B 1,2\n#define C 1\n#line 1\nint a = B;\n"
    assert options == ("-std=c++17", "-O3")


SAMPLE = (("float32", 2), ("float64", 3))
"""Where one type for each dimension is enough."""

CASES = [
    pytest.param(dtype, rules, architecture, id=f"{dtype}-{name_of(rules)}-{architecture}")
    for dtype, dimension in itertools.product(("float64", "float32"), (2, 3))
    for architecture in ("sm_80" if (dtype, dimension) == ("float64", 2) else "sm_90",)
    for rules in (RULES[dimension][-1], *(RULES[dimension][1:2] if (dtype, dimension) == SAMPLE[-1] else ()))
]
"""Each takes seconds. Faces of every kind in one grid are compiled for both types and dimensions, one of the four for
sm_80, whose shapes are those of sm_90; direct solutions where all axes wrap once.
"""


@cache
def launches_of_cases() -> list[list[Launch]]:
    """Of the launches of each case those that take the most registers.

    A kernel that reads no source, or float32, takes no more than the one that is the same but for that, and what
    several cases launch alike the first of them compiles. The order is the same in every process: what is compiled is
    kept under its text and its options.
    """

    def demand(launch: Launch) -> tuple[Any, ...]:
        source, double = "-DSOURCE=0" not in launch.options, "-DREAL=double" in launch.options
        return source, double, launch.name, launch.options, launch.threads

    seen: set[Launch] = set()
    found: list[list[Launch]] = []
    for case in CASES:
        most = {}
        for launch in sorted(launches_of(*case.values), key=demand):  # type: ignore[arg-type]
            options = ("-DREAL=double" if option == "-DREAL=float" else option for option in launch.options)
            most[replace(launch, options=tuple(option for option in options if option != "-DSOURCE=0"))] = launch
        found.append([launch for like, launch in most.items() if like not in seen])
        seen |= set(most)
    return found


def modules_of(launches: Iterable[Launch]) -> Iterator[tuple[str, tuple[str, ...], list[Launch]]]:
    """The text and the options of each module, and what is launched of it.

    The text has the kernels that are launched and no others, each of which would take as long to compile.
    """
    modules: dict[tuple[str, tuple[str, ...]], list[Launch]] = {}
    for launch in launches:
        modules.setdefault((launch.text, launch.options), []).append(launch)
    for (text, options), launched in modules.items():
        left_out = set(_KERNEL.findall(text)) - {launch.name for launch in launched}
        for name in left_out:
            text = text.replace(f"\nKERNEL {name}(", f"\n{UNUSED} {name}(")
        yield text, options, launched


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.id for case in CASES])
def test_nvidia_code_spills_nothing_and_fits_the_registers(number: int) -> None:
    spilling, too_large, arch = [], [], CASES[number].values[-1]
    for text, options, launches in modules_of(launches_of_cases()[number]):
        compiled = nvrtc.compile(text, options + nvrtc.shorter(), arch)
        kernels_of_module = compiled.kernels
        assert not has_maximum_of_three(compiled.image), [launch.name for launch in launches]
        assert set(kernels_of_module) == {launch.name for launch in launches}
        for launch in launches:
            used = kernels_of_module[launch.name]
            shown = f"{launch.name} for {arch}: {used.registers} registers x {launch.threads} threads, {options}"
            print(shown)
            if used.spills or used.stack_bytes:
                spilling.append(shown)
            if used.registers * launch.threads > REGISTERS_OF_A_BLOCK:
                too_large.append(shown)
    assert (spilling, too_large) == ([], [])


@pytest.mark.parametrize("axes", [(1,), (1, 2), (0, 1)])
def test_shared_memory_is_what_the_choice_of_a_shape_takes_it_for(axes: tuple[int, ...]) -> None:
    """Where not all axes halve, a restriction needs more of it; a kernel refuses to be compiled for less."""
    fine = operator((65, 33, 33), RULES[3][0])
    shape = tuple((n + 1) // 2 if axis in axes else n for axis, n in enumerate(fine.shape))
    transfer, runtime = Transfer(fine, operator(shape, fine.rules)), NotingRuntime()
    backend = gpu.GpuBackend(np.dtype(np.float64), runtime)
    u, f, out = (backend.empty(fine.array_shape) for _ in range(3))
    below = (backend.bind(transfer), backend.empty(transfer.coarse.array_shape))
    operations = backend.bind(fine)
    operations.run(Pass(True, False, 2, True), (None, f, out), [0.6, 0.9], None, below, None)
    operations.run(Pass(False, False, 1, True), (u, f, out), [0.6], None, below, backend.reduction())
    assert len(runtime.launches) == 2
    for text, options, (launch,) in modules_of(runtime.launches):
        used = nvrtc.compile(text, options, "sm_90").kernels[launch.name].shared_bytes
        assert used <= SHARED_BY_NORMS
        given = next(option for option in options if option.startswith("-DSHARED_BYTES="))
        less = [
            f"-DSHARED_BYTES={int(given.partition('=')[2]) - 1}" if option == given else option for option in options
        ]
        with pytest.raises(nvrtc.NvrtcError, match="too little shared memory"):
            nvrtc.compile(text, tuple(less), "sm_90")


@pytest.mark.skipif(hip.missing() is not None, reason=str(hip.missing()))
@pytest.mark.parametrize(("dtype", "dimension"), SAMPLE)
def test_amd_code_spills_nothing(dtype: str, dimension: int) -> None:
    launches = launches_of(dtype, RULES[dimension][-1], "gfx90a")
    # In an order that is the same in every process: what is compiled together is kept under its text.
    modules = list(modules_of(sorted(launches, key=lambda launch: (launch.name, launch.options))))
    names = [{launch.name for launch in launched} for _, _, launched in modules]
    found = hip.compile_together([(text, options) for text, options, _ in modules], names, arch="gfx90a")
    spilling = []
    for (_, options, launched), kernels_of_module in zip(modules, found, strict=True):
        for launch in launched:
            used = kernels_of_module[launch.name]
            shown = f"{launch.name} for gfx90a: {used.vector_registers} vector registers, {options}"
            print(shown)
            many_scalars = used.spilled_scalars and launch.name not in MANY_SCALARS
            if used.spilled_registers or used.scratch_bytes or many_scalars:
                spilling.append(shown)
    assert spilling == []
