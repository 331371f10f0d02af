# SPDX-License-Identifier: MIT
"""The registry of methods and preconditioners: all that is known of a name follows from its entry.

Covers poisson.solvers.multigrid.entry.
"""

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from support.multigrid import cube
from support.places import ROOT
from support.problems import WALLS, make_case

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.case.combinations import clashes
from poisson.case.mistakes import Mistakes, validate
from poisson.case.schema import SOLVER
from poisson.mesh.boundary import FACE_NAMES
from poisson.mesh.grid import AXES
from poisson.problem.given import Boundary, Mean
from poisson.problem.problem import MEANS, Problem
from poisson.run.request import Precision
from poisson.run.verify import _variants
from poisson.solvers import registry
from poisson.solvers.entries import Given, MethodEntry, so_many
from poisson.solvers.keys import Key, Settings, either, real, whole, word
from poisson.solvers.mixed import in_float32
from poisson.solvers.multigrid import MultigridSettings
from poisson.solvers.registry import arrays_of, describe
from poisson.solvers.settings import PRECISIONS, Relaxation, RunSettings, SolverSettings
from poisson.solvers.stopping import Stopping

BACKEND = NumpyBackend(np.float64)
KEYS = registry.solver_keys()
ENTRIES = [*registry.methods().values(), *registry.preconditioners().values()]
SQUARE = Problem.on_box((17, 17), f="sin(pi*x)*sin(2*pi*y)", boundary={"all": 0.0})
OTHER_VALUES = {int: 3, float: 0.25}
"""A value that is right by itself and no key's default, for a number."""


def other_value(key: Key, default: Any) -> Any:
    """Another value than the default."""
    if key.kind is str:
        return next(word for word in key.words() if word != default)
    return not default if key.kind is bool else OTHER_VALUES[key.kind]


# ---- what there is
def test_the_names_of_the_package() -> None:
    shipped = ["multigrid", "cg", "fft", "jacobi", "chebyshev", "sor"]
    assert [name for name in registry.methods() if name in shipped] == shipped
    assert [name for name in registry.preconditioners() if name in ("none", "jacobi", "multigrid", "fft")] == [
        *("none", "jacobi", "multigrid", "fft")
    ]
    assert registry.users_of("stop")[:2] == ("auto", "multigrid")
    assert set(registry.users_of("omega")) >= {"jacobi", "sor"}


def test_every_key_is_declared_once_and_means_something_to_a_method() -> None:
    used = [*(entry.keys for entry in ENTRIES), registry.COMMON_KEYS, registry.KEYS_OF_AUTO]
    assert frozenset().union(*used) == set(KEYS)
    for entry in ENTRIES:
        declared = {name for part in entry.parts for name in KEYS if KEYS[name].part is part}
        assert not entry.parts or entry.keys & declared, entry.name
    assert all(place.key.doc for place in KEYS.values())


def test_the_schema_is_that_of_the_registry() -> None:
    assert list(SOLVER.keys) == list(KEYS)
    for name, (key, default, _) in KEYS.items():
        assert (SOLVER.keys[name].default, SOLVER.keys[name].allowed) == (default, key.allowed)
        for value in (other_value(key, default), *([] if default is None else [default])):
            assert validate({"solver": {name: value}}, Mistakes())["solver"][name] == value, name
    assert SolverSettings().having(**validate({}, Mistakes())["solver"]) == SolverSettings()


def test_type_checkers_know_every_name() -> None:
    assert get_args(Precision) == PRECISIONS
    assert get_args(Mean) == MEANS
    assert tuple(get_type_hints(Boundary)) == ("all", *AXES, *FACE_NAMES)


@pytest.mark.parametrize("method", registry.methods())
@pytest.mark.parametrize("name", [name for name in KEYS if name not in registry.COMMON_KEYS])
def test_a_key_clashes_with_the_methods_that_do_not_use_it(method: str, name: str) -> None:
    key, default, _ = KEYS[name]
    settings = SolverSettings(method=method).having(**{name: other_value(key, default)})
    found = [clash.path for clash in clashes(settings, RunSettings(), None)]
    assert (("solver", name) in found) == (method not in registry.users_of(name))


@pytest.mark.parametrize("method", registry.methods())
def test_mixed_precision_clashes_with_the_methods_that_have_none(method: str) -> None:
    found = [*clashes(SolverSettings(method=method), RunSettings(precision="mixed"), SQUARE)]
    assert (("run", "precision") in [clash.path for clash in found]) != registry.methods()[method].mixed
    if not registry.methods()[method].mixed:
        operations = BACKEND.bind(cube((33, 33)))
        inner = BACKEND.companion(np.float32).bind(in_float32(operations))
        with pytest.raises(ValueError, match="no mixed precision"):
            registry.make_method(Given(operations, SolverSettings(method=method), inner=inner))


@pytest.mark.parametrize(
    ("method", "preconditioner"),
    [*((name, None) for name in registry.methods()), *(("cg", name) for name in registry.preconditioners())],
)
def test_everything_that_has_an_entry_solves(method: str, preconditioner: str | None) -> None:
    options: Any = {} if preconditioner is None else {"preconditioner": preconditioner}
    solver = poisson.Solver(SQUARE, method, "numpy", rtol=1e-10, **options)
    solution = solver.solve()
    assert solution.status.success
    assert solution.provenance["method"] == describe(solver.settings, "float64")
    x = np.linspace(0.0, 1.0, 17)
    mode, h = np.multiply.outer(np.sin(2 * np.pi * x), np.sin(np.pi * x)), 1 / 16
    eigenvalue = sum((2 - 2 * math.cos(k * np.pi * h)) / h**2 for k in (1, 2))
    np.testing.assert_allclose(solution.u, mode / eigenvalue, rtol=0, atol=1e-9)
    assert 3.0 <= arrays_of(solver.settings, "float64", 2) < arrays_of(solver.settings, "float64", 2, varies=True)


def test_verify_compares_what_auto_may_choose() -> None:
    case = make_case({"f": 1.0}, WALLS, (9, 9), overrides=("solver.method=auto",))
    assert [name for name, _ in _variants(case)] == [name for name, entry in registry.methods().items() if entry.offer]
    least = min(
        arrays_of(SolverSettings(method=name), "float64", 2)
        for name, entry in registry.methods().items()
        if entry.offer
    )
    assert arrays_of(SolverSettings(), "float64", 2) == least


def test_the_memory_of_a_diagonal_that_varies_on_a_device() -> None:
    def arrays(precision: str, varies: bool) -> list[float]:
        settings = SolverSettings(method="cg", preconditioner="multigrid")
        return [arrays_of(settings, precision, 3, varies=varies, on_device=there) for there in (False, True)]

    for precision, more in (("float64", 1.0), ("mixed", 0.5)):
        host, device = arrays(precision, varies=True)
        assert device - host == pytest.approx(more)
        assert len({*arrays(precision, varies=False)}) == 1


def test_memory_of_stopping_at_the_discretisation_error() -> None:
    """The grids of half and a quarter of the intervals have levels of their own."""
    settings = SolverSettings(method="multigrid").having(stop="discretisation")
    assert arrays_of(settings, "float64", 2) == pytest.approx(4.0 + 1.3125 * 4.25 / 3.0 + 6.0 * 0.3125)


# ---- an unknown name is an error everywhere
@pytest.mark.parametrize("name", [name for name, place in KEYS.items() if place.key.kind is str])
def test_a_word_that_is_not_one(name: str) -> None:
    allowed = re.escape(either(KEYS[name].key.words()))
    with pytest.raises(poisson.PoissonError, match=f'^solver.{name}: "no such"; allowed: {allowed}$'):
        poisson.Solver(SQUARE, **{"backend": "numpy", name: "no such"})


def test_names_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="unknown settings: rtoll"):
        SolverSettings().having(rtoll=1.0)
    with pytest.raises(ValueError, match="unknown setting: rtoll"):
        SolverSettings().value("rtoll")
    with pytest.raises(ValueError, match="method = 'auto'; it must be one of"):
        registry.method_of(SolverSettings())


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("omega", 0.0),
        ("omega", 2.0),
        ("omega", math.nan),
        ("rtol", 1.0),
        ("rtol", -1e-9),
        ("rtol", math.nan),
        ("atol", -1e-9),
        ("max_iterations", 0),
        ("check_every", -1),
        ("pre", 65),
        ("pre", -1),
    ],
)
def test_a_number_out_of_its_bounds(name: str, wrong: float) -> None:
    with pytest.raises(poisson.PoissonError, match=f"^solver.{name}: .*; allowed: {re.escape(KEYS[name].key.allowed)}"):
        poisson.Solver(SQUARE, **{name: wrong})  # type: ignore[arg-type]


# ---- one record of settings
def test_settings_are_one_record_with_parts() -> None:
    plain = SolverSettings()
    assert plain.having(full=True, omega=None) == plain == replace(plain, parts=(MultigridSettings(), Relaxation()))
    changed = plain.having(method="cg", rtol=1e-3, full=False, omega=0.5)
    assert changed == SolverSettings(
        method="cg", stopping=Stopping(rtol=1e-3), parts=(Relaxation(omega=0.5), MultigridSettings(full=False))
    )
    assert (changed.of(Relaxation).omega, changed.value("full"), changed.value("rtol")) == (0.5, False, 1e-3)
    assert hash(changed) == hash(changed.having(omega=0.5)) and changed.having(omega=None, full=True).parts == ()
    with pytest.raises(ValueError, match="two parts of the settings are of one class"):
        SolverSettings(parts=(Relaxation(omega=0.5), Relaxation(omega=0.4)))


def test_what_may_stand_at_a_key_in_words() -> None:
    assert (either(("V", "W", "F")), either(("a", "b")), either(("a",))) == ('"V", "W" or "F"', '"a" or "b"', '"a"')
    assert KEYS["omega"].key.allowed == "a number > 0 and < 2"
    assert KEYS["max_iterations"].key.allowed == "an integer >= 1 and <= 2**53"
    assert KEYS["check_every"].key.allowed == "an integer >= 0 and <= 2**53; 0 lets the solver choose"
    assert KEYS["full"].key.allowed == "true or false"


# ---- entries are found
@dataclass(frozen=True)
class Shift(Settings):
    shift: float = real(0.5, "an example", ge=0.0, le=1.0)


def entry(name: str = "example", **changes: Any) -> MethodEntry:
    return replace(
        MethodEntry(
            name, 99, "nothing", "nothing", lambda given: registry.methods()["jacobi"].make(given), so_many(3.0)
        ),
        **changes,
    )


@pytest.fixture
def found_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Entries in this module are found as those of the package are."""
    module, cached = ModuleType("example"), (registry.methods, registry.preconditioners, registry.parts, KEYS_OF)
    modules = [*registry._modules(), module]
    monkeypatch.setattr(registry, "_modules", lambda: modules)
    for function in cached:
        function.cache_clear()
    yield module
    monkeypatch.undo()
    for function in cached:
        function.cache_clear()


KEYS_OF = registry.solver_keys


def test_an_entry_is_enough(found_anew: ModuleType) -> None:
    found_anew.METHOD = entry(keys=frozenset(("shift",)), parts=(Shift,))  # type: ignore[attr-defined]
    assert list(registry.methods())[-1] == "example"
    assert set(registry.solver_keys()) == {*KEYS, "shift"}
    settings = SolverSettings(method="example").having(shift=0.25)
    assert (settings.of(Shift).shift, settings.value("shift"), settings.having(shift=0.5).parts) == (0.25, 0.25, ())
    assert registry.users_of("shift") == ("example",)
    assert [*clashes(settings, RunSettings(), SQUARE)] == []
    assert [clash.allowed for clash in clashes(replace(settings, method="sor"), RunSettings(), SQUARE)] == [
        'only its default with method "sor"; the key belongs to example'
    ]
    assert arrays_of(settings, "float64", 3) == 3.0
    solver = registry.make_method(Given(BACKEND.bind(cube((9, 9))), settings))
    u, f = np.zeros((9, 9)), np.zeros((9, 9))
    f[1:-1, 1:-1] = 1.0
    assert solver.solve(u, f, stopping=settings.stopping).status is poisson.Status.CONVERGED


def test_two_of_one_name_are_refused(found_anew: ModuleType) -> None:
    found_anew.METHOD = entry("sor")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="two entries have the name 'sor'; the second is in example"):
        registry.methods()


def test_a_key_that_is_declared_twice_is_refused(found_anew: ModuleType) -> None:
    @dataclass(frozen=True)
    class Twice(Settings):
        omega: int = whole(1, "again")
        kind: str = word("a", ("a",), "an example")

    found_anew.METHOD = entry(parts=(Twice,))  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="the key omega is declared in Relaxation and in Twice"):
        registry.solver_keys()


# ---- a file is enough

FILE = """
from dataclasses import dataclass
from poisson.solvers.cg import Diagonal
from poisson.solvers.entries import MethodEntry, PreconditionerEntry, so_many
from poisson.solvers.expected import Offer
from poisson.solvers.jacobi import Jacobi
from poisson.solvers.keys import Settings, real


@dataclass(frozen=True)
class DampedSettings(Settings):
    damping: float = real(0.9, "the weight", gt=0.0, le=1.0)


METHOD = MethodEntry(
    name="damped",
    rank=9,
    use="nothing",
    iteration="a sweep",
    make=lambda given: Jacobi(given.operations, given.settings.of(DampedSettings).damping),
    arrays=so_many(3.0),
    keys=frozenset(("damping",)),
    parts=(DampedSettings,),
)

PRECONDITIONER = PreconditionerEntry(
    name="diagonal",
    rank=9,
    use="nothing",
    make=lambda given: Diagonal(given.operations),
)
"""

USE = """
import numpy as np, poisson
from poisson.case import from_mapping
from poisson.errors import CaseError
from poisson.run.verify import verify
from poisson.solvers.registry import arrays_of

tables = {
    "equation": {"f": 1.0},
    "domain": {"lower": [0, 0], "upper": [1, 1], "shape": [9, 9]},
    "boundary": {"all": {"dirichlet": 0.0}},
    "solver": {"method": "damped", "damping": 0.8},
    "run": {"backend": "numpy"},
}
case = from_mapping(tables, name="case", folder=".")
assert "damping = 0.8" in case.text and arrays_of(case.solver, "float64", 2) == 3.0
solution = poisson.solve(case)
assert solution.status is poisson.Status.CONVERGED and solution.provenance["method"] == "damped"
assert verify(case).passed
problem = poisson.Problem.on_box((9, 9), f=1.0)
again = poisson.Solver(problem, "damped", "numpy", damping=0.8).solve()
np.testing.assert_array_equal(again.u, solution.u)
other = poisson.Solver(problem, "cg", "numpy", preconditioner="diagonal").solve()
assert other.provenance["method"] == "cg with preconditioner diagonal"
np.testing.assert_allclose(other.u, solution.u, atol=1e-8)
for solver, line in (
    ({"method": "damped", "damping": 0}, "solver.damping: 0; allowed: a number > 0 and <= 1"),
    ({"method": "sor", "damping": 0.8}, 'only its default with method "sor"; the key belongs to damped'),
    ({"method": "damp"}, "or \\"damped\\"; did you mean 'damped'?"),
):
    try:
        from_mapping(tables | {"solver": solver}, name="case", folder=".")
    except CaseError as error:
        assert line in str(error), error
    else:
        raise AssertionError(solver)
"""


def test_a_method_and_a_preconditioner_need_a_file_and_nothing_else(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "poisson", tmp_path / "poisson", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (tmp_path / "poisson" / "solvers" / "damped.py").write_text(FILE)
    command = [sys.executable, "-c", USE]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
