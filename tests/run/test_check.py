# SPDX-License-Identifier: MIT
"""What becomes of a case, found out before it is solved."""

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import emulated
from support.emulation import EmulatedRuntime
from support.places import ROOT
from support.ranks import on_ranks

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.case import Case, load
from poisson.discrete.discretisation import Discretisation
from poisson.mesh.axis import plain_rules
from poisson.mesh.lattice import Lattice
from poisson.run import check as module
from poisson.run.check import Findings, check
from poisson.run.sample import Sample
from poisson.solvers.choose import Choice, choose
from poisson.solvers.expected import Outline
from poisson.solvers.multigrid.hierarchy import grids_of, levels_of

NAMES = ["unit_square", "heated_plate", "capacitor", "electrolyte", "rod", "cube", "singular_neumann", "screened"]


def case_of(name: str, *overrides: str) -> Case:
    return load(ROOT / "cases" / f"{name}.toml", ["run.backend=numpy", *overrides])


def checked(name: str, *overrides: str) -> Findings:
    return check(case_of(name, *overrides))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_foretold_is_what_the_solver_does(name: str) -> None:
    case = case_of(name)
    found, solver = check(case), poisson.Solver.of(case)
    assert found.mistakes == () and found.plan is not None
    solution = solver.solve()
    assert (found.plan.method, found.plan.precision) == (solver.method, solution.provenance["precision"])
    assert found.plan.reason == solution.provenance["reason"]
    assert found.singular == solver.operator.singular
    assert found.plan.backend == "numpy" and len(found.plan.needs) == 1
    levels = levels_of(solver._setup.operations)
    assert found.grids == tuple(level.operator.shape[: case.problem.lattice.dimension] for level in levels)


def chosen_twice(case: Case) -> tuple[Choice, Choice]:
    """The choice from arrays, and that from an outline."""
    backend, facts = NumpyBackend(np.float64), Sample(case.problem)
    operations = backend.bind(Discretisation(case.problem).operator_on(backend))
    outline = Outline(backend, facts.operator, facts.mean_reaction)
    return choose(operations, case.solver, "float64"), choose(outline, case.solver, "float64")


@pytest.mark.parametrize("jump", [2.0, 1e3])
@pytest.mark.parametrize("nodes", [65, 700])
def test_the_choice_from_an_outline_is_that_from_arrays(jump: float, nodes: int) -> None:
    case = case_of("unit_square", f"equation.a=1 + {jump - 1}*x", f"domain.shape=[{nodes}, {nodes}]", "equation.c=y")
    wanted, found = chosen_twice(case)
    assert (found.settings, found.precision, found.reason) == (wanted.settings, wanted.precision, wanted.reason)


@pytest.mark.parametrize("faces", ["all={robin=0.0, alpha=1e-6}", "all={robin=0.0, alpha=100.0}"])
def test_robin_faces_alone_count_by_the_mean_of_c(faces: str) -> None:
    name, _, value = faces.partition("=")
    case = case_of("pressure_projection", "domain.shape=[700, 700]", f"boundary.{name}={value}")
    wanted, found = chosen_twice(case)
    assert found.precision == wanted.precision


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cube", [4097, 4097, 4097]),
        ("capacitor", [10**6, 10**6]),
        ("rod", [10**11]),
        ("pressure_projection", [10**6] * 2),
    ],
)
def test_nothing_of_the_size_of_the_grid_is_allocated(name: str, shape: list[int]) -> None:
    case = case_of(name, f"domain.shape={shape}", "output.fields=['u']")
    tracemalloc.start()
    try:
        found = check(case)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1 << 26
    [line] = found.mistakes
    assert line.startswith(f"domain.shape = {shape} needs ") and found.plan is not None
    assert found.plan.needs[0].short and found.plan.needs[0].size > 8 * math.prod(shape)
    assert found.result_bytes > 8 * math.prod(shape)
    assert found.grids[0] == tuple(shape) and math.prod(found.grids[-1]) <= 300


def test_the_defect_of_a_singular_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    shifted = ["equation.f=-pi*cos(pi*x)*cos(2*pi*y) - pi*x*cos(pi*y) + 0.001"]
    found = checked("pressure_projection", *shifted).compatibility
    assert found is not None and not found.estimated
    assert math.isclose(found.shift, 1e-3, rel_tol=1e-6)
    assert math.isclose(found.relative, found.balance.defect / found.balance.scale)
    large = checked("pressure_projection", *shifted, "domain.shape=[2001, 2001]")
    estimated = large.compatibility
    assert estimated is not None and estimated.estimated and math.isclose(estimated.shift, 1e-3, rel_tol=1e-3)
    for shape in ("[65, 65]", "[2001, 2001]"):
        [line] = checked("pressure_projection", "equation.f=1", f"domain.shape={shape}").mistakes
        assert line.startswith("no face is dirichlet and c = 0, so ∫f + ∮g must be zero, but ")
        assert "subtract 1 from equation.f" in line
    assert checked("unit_square").compatibility is None


def test_all_reasons_are_told() -> None:
    found = checked("unit_square", "domain.shape=[1000001, 1000001]", "equation.f=1/x", "run.ranks=3")
    assert [line.split(":")[0] for line in found.mistakes] == ["equation.f", "run.ranks"]
    assert found.plan is None and found.concerns == ()
    found = checked("unit_square", "domain.shape=[1000001, 1000001]", "equation.f=1/x")
    assert [line.split(" ")[0] for line in found.mistakes] == ["equation.f:", "domain.shape"]
    [line] = checked("unit_square", "domain.shape=[3, 5]", "solver.stop=discretisation").mistakes
    assert line.startswith("solver.stop = 'discretisation' compares")


def test_a_backend_that_is_missing_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from poisson.errors import BackendUnavailable

    def refuse(*_: object) -> None:
        raise BackendUnavailable("no device")

    monkeypatch.setattr(module, "local_backend", refuse)
    found = checked("unit_square", "equation.f=1/x")
    assert found.plan is None and found.mistakes[1:] == ("no device",)


def test_the_time_of_a_method_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poisson.solvers.expected.UNSTEADY", math.inf)
    monkeypatch.setattr("poisson.backends.probe.crowded", lambda: False)
    known = checked("unit_square", "solver.method=fft").plan
    assert known is not None and known.seconds is not None and known.reason == "asked for"
    assert known.expectation.startswith("about ") and known.expectation.endswith(" expected")
    for settings in (["solver.method=sor"], ["solver.method=cg"], ["solver.method=multigrid", "run.precision=float32"]):
        plan = checked("unit_square", *settings).plan
        assert plan is not None
        assert (plan.seconds is None) == (settings[0] != "solver.method=multigrid")
    monkeypatch.setattr("poisson.backends.probe.crowded", lambda: True)
    for settings in ([], ["solver.method=fft"]):
        plan = checked("unit_square", *settings).plan
        assert plan is not None and plan.seconds is None
        assert plan.expectation == "no time estimate: the machine is busy"


def test_sizes_that_make_transforms_slow_are_named_with_a_better_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are too long for the shared memory of a GPU; others that have no small factors are slower by less."""
    monkeypatch.setattr(EmulatedRuntime, "shared_bytes", 1 << 14)
    monkeypatch.setattr("poisson.run.check.local_backend", lambda *_: emulated(np.float64))
    sizes = ["domain.shape=[481, 500]", 'solver.method="fft"']
    [concern] = checked("unit_square", *sizes).concerns
    assert concern.line == (
        "domain.shape: transforms along y take about 4 times as long as with 501 nodes there; take 501 nodes along y, "
        "if the grid may have them"
    )
    assert not checked("unit_square", "domain.shape=[401, 400]", 'solver.method="fft"').concerns
    assert not checked("unit_square", sizes[0], 'solver.method="multigrid"').concerns


def test_the_grids_of_a_chain_are_found_without_arrays() -> None:
    problem = case_of("anisotropic_channel").problem
    grid = Lattice.box(problem.lattice.lower, problem.lattice.upper, (512, 33), plain_rules(*problem.lattice.periodic))
    backend: Any = NumpyBackend(np.float64)
    for each in (problem, replace(problem, lattice=grid)):
        operator = Discretisation(each).operator
        levels = levels_of(backend.bind(operator))
        assert grids_of(operator) == tuple(level.operator.shape for level in levels)


def test_ranks_check_together_what_each_has_of_a_grid() -> None:
    shape = ["domain.shape=[65, 129, 65]", "solver.method=multigrid"]
    found = on_ranks(2, lambda comm: check(case_of("cube", *shape), comm=comm))
    assert all(each.mistakes == () and each.ranks == 2 for each in found)
    alone = checked("cube", *shape).plan
    for each in found:
        assert each.plan is not None and alone is not None
        # Half of the nodes, and a halo.
        assert 0.5 < each.plan.needs[0].size / alone.needs[0].size < 0.8
        assert each.plan.needs[0].users == 2
    found = on_ranks(2, lambda comm: check(case_of("cube", "run.ranks=3"), comm=comm))
    assert all(each.mistakes[0].startswith("run.ranks: 3; allowed: ") for each in found)


def test_on_a_device_memory_is_needed_there_and_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poisson.backends.create", lambda name, dtype, threads=0: emulated(dtype))
    plan = checked("unit_square").plan
    assert plan is not None and plan.backend == "gpu"
    device, host = plan.needs
    assert (device.place, device.what) == ("the gpu backend", "3 arrays")
    assert device.size == 3 * 8 * 129 * 129 and host.what == "room for its result"
