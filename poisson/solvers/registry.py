# SPDX-License-Identifier: MIT
"""The methods and preconditioners by their names: everything that a name and settings lead to.

A method or a preconditioner is known by its entry, which stands in a file of this folder, usually its own. Nothing else
names it: the schema of a case file, the messages, `verify`, ``auto``, the estimate of memory and the tables of the
documentation follow from the entries. docs/extending.md says how to add one.
"""

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from poisson import solvers
from poisson.backends.registry import AUTO
from poisson.solvers.balanced import BalancedMethod
from poisson.solvers.entries import Given, MethodEntry, PreconditionerEntry, Sizes
from poisson.solvers.iteration import Method, Preconditioner
from poisson.solvers.keys import Key, Settings, keys_of
from poisson.solvers.multigrid.smoothers import SmootherEntry
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import nearly_singular, without_reaction
from poisson.solvers.stopping import Stopping
from poisson.solvers.surface import BiConjugateGradients, SurfaceMethod, SurfaceOperations

COMMON_KEYS = frozenset(("method", "rtol", "atol", "norm", "max_iterations"))
"""The keys of ``[solver]`` that mean something to every method."""

KEYS_OF_AUTO = frozenset(("stop",))
"""The keys that also mean something to ``auto``."""

OF_GRADIENTS, OF_ROUNDS = 9.0, 2.0
"""Arrays of `BiConjugateGradients` with u and f, the preconditioner's apart, and those that `SurfaceMethod` adds."""

Entry = TypeVar("Entry", MethodEntry, PreconditionerEntry, SmootherEntry)


class Place(NamedTuple):
    """A key of ``[solver]``: what is known of it, its default, and the record that it stands in."""

    key: Key
    default: Any
    part: type[Settings]


@cache
def methods() -> Mapping[str, MethodEntry]:
    """The methods by their names, the most useful first."""
    return _entries(MethodEntry)


@cache
def preconditioners() -> Mapping[str, PreconditionerEntry]:
    """The preconditioners of ``cg`` by their names."""
    return _entries(PreconditionerEntry)


@cache
def smoothers() -> Mapping[str, SmootherEntry]:
    """The smoothers of multigrid by their names, the first of which takes every operator."""
    return _entries(SmootherEntry)


@cache
def parts() -> tuple[type[Settings], ...]:
    """The records of settings that the entries declare."""
    entries: list[MethodEntry | PreconditionerEntry] = [*methods().values(), *preconditioners().values()]
    return tuple(dict.fromkeys(part for entry in entries for part in entry.parts))


@cache
def solver_keys() -> Mapping[str, Place]:
    """Every key of ``[solver]``, in the order in which they are listed."""
    found: dict[str, Place] = {}
    for part in (SolverSettings, Stopping, *parts()):
        defaults = SolverSettings() if part is SolverSettings else part()
        for name, key in keys_of(part).items():
            if name in found:
                raise ValueError(f"the key {name} is declared in {found[name].part.__name__} and in {part.__name__}")
            found[name] = Place(key, getattr(defaults, name), part)
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: (item[1].key.rank, item[0]))))


def users_of(name: str) -> tuple[str, ...]:
    """The methods that a key means something to, beside all."""
    of_auto = (AUTO,) if name in KEYS_OF_AUTO else ()
    return *of_auto, *(method for method, entry in methods().items() if name in keys_used(entry))


def keys_used(entry: MethodEntry) -> frozenset[str]:
    """The keys that mean something to a method, whatever its preconditioner is."""
    return entry.keys | (keys_of_preconditioners() if "preconditioner" in entry.keys else frozenset())


def keys_of_preconditioners() -> frozenset[str]:
    """The keys that mean something to one preconditioner or another."""
    return frozenset[str]().union(*(entry.keys for entry in preconditioners().values()))


def method_of(settings: SolverSettings) -> MethodEntry:
    """The entry of the method that settings name, which is not ``auto``.

    Raises `ValueError` if there is none of that name.
    """
    if settings.method not in methods():
        raise ValueError(f"method = {settings.method!r}; it must be one of {tuple(methods())}")
    return methods()[settings.method]


def preconditioner_of(settings: SolverSettings) -> PreconditionerEntry:
    """The entry of the preconditioner that settings name."""
    return preconditioners()[settings.preconditioner]


def standing_by() -> tuple[tuple[str, str], ...]:
    """The methods and preconditioners that go on, one after the other, where a method that was chosen stalls."""
    places = {name: entry.stands_by for name, entry in preconditioners().items() if entry.stands_by is not None}
    takers = [name for name, entry in methods().items() if "preconditioner" in entry.keys]
    return tuple((method, name) for method in takers for name in sorted(places, key=places.__getitem__))


def sweep_of(settings: SolverSettings) -> tuple[str, ...]:
    """The operations of an iteration that is a sweep: `MethodEntry.sweep`; ``auto`` chooses no such method."""
    return () if settings.method == AUTO else method_of(settings).sweep(settings)


def halo_of(settings: SolverSettings, dimension: int, depth: int) -> int:
    """How wide the halos of a divided grid are to be: `MethodEntry.halo`; of ``auto`` the widest that it may choose.

    `settings`: with any method. `dimension`: of the grid. `depth`: sweeps that the backend makes best in one pass over
    memory.
    """
    if settings.method != AUTO:
        return method_of(settings).halo(settings, dimension, depth)
    able = ((name, entry) for name, entry in methods().items() if entry.offer)
    return max(entry.halo(replace(settings, method=name), dimension, depth) for name, entry in able)


def needs_planes(settings: SolverSettings) -> bool:
    """Whether each rank must have whole rows, or planes in 3D, where the grid is divided; ``auto`` has no wish."""
    return settings.method != AUTO and method_of(settings).planes(settings)


def make_method(given: Given) -> Method:
    """The method that the settings name, with its set-up done.

    Raises `PoissonError` if the method cannot solve this problem; `ValueError` if mixed precision is asked for and it
    has none with these settings.
    """
    entry = method_of(given.settings)
    if given.inner is not None and not entry.mixed:
        raise ValueError(f"method = {entry.name!r} has no mixed precision")
    operations = given.operations
    if given.coarser is not None and any(each.surface for each in given.coarser.problems):
        from poisson.solvers.comparison import Compared

        settings = entry.resuming(given.settings)
        settings = replace(settings, stopping=replace(settings.stopping, stop="residual"))
        alone = replace(given, settings=settings, coarser=None)
        return Compared(operations, given.coarser, lambda each: make_method(replace(alone, operations=each)))
    if isinstance(operations, SurfaceOperations):
        within = replace(given, operations=operations.symmetric)
        name = beside_surfaces(entry, given.settings)
        if operations.corrects and name and given.inner is None:
            settings = given.settings.having(preconditioner=name)
            return BiConjugateGradients(operations, make_preconditioner(replace(within, settings=settings)))
        return SurfaceMethod(operations, make_method(within))
    if given.coarser is not None or not nearly_singular(operations.operator):
        return entry.make(given)
    plain = operations.backend.bind(without_reaction(operations.operator))
    return BalancedMethod(operations, entry.make(replace(given, operations=plain, coarser=None)), plain)


def beside_surfaces(entry: MethodEntry, settings: SolverSettings) -> str:
    """The preconditioner of `BiConjugateGradients` where a method is asked for; empty: rounds of the method itself."""
    if "preconditioner" in entry.keys:
        return settings.preconditioner
    return entry.name if entry.name in preconditioners() and preconditioners()[entry.name].keys else ""


def make_preconditioner(given: Given) -> Preconditioner | None:
    """The preconditioner that the settings name, with its set-up done; None: none."""
    return preconditioner_of(given.settings).make(given)


def _entries(kind: type[Entry]) -> Mapping[str, Entry]:
    """The entries of a kind in the modules of this folder, in the order of their ranks.

    Raises `ValueError` if two have one name.
    """
    found: dict[str, Entry] = {}
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, kind) and found.setdefault(value.name, value) is not value:
                raise ValueError(f"two entries have the name {value.name!r}; the second is in {module.__name__}")
    return MappingProxyType({entry.name: entry for entry in sorted(found.values(), key=lambda it: (it.rank, it.name))})


def _modules() -> Iterator[Any]:
    for info in pkgutil.walk_packages(solvers.__path__, f"{solvers.__name__}."):
        yield import_module(info.name)


def arrays_of(
    settings: SolverSettings,
    precision: str,
    dimension: int,
    *,
    varies: bool = False,
    surface: str = "",
    half_open: int = 0,
    on_device: bool = False,
) -> float:
    """Arrays of the grid's size, in the type of u, that a solve takes at once.

    `settings`: of ``method = "auto"`` it is what the method that takes least would take. `precision`: mixed precision
    has the cycles, with a source and a correction, and the directions of ``cg`` in float32. `dimension`: of the grid:
    each coarser one has 2^−dimension of its nodes. `varies`: whether the coefficients vary: they take an array for each
    axis and one more. `surface`: the form beside bodies with given values; empty without any. `half_open`: axes with an
    open end and a wall. `on_device`: whether the arrays are not in the host's memory.
    """
    sizes = Sizes(settings, precision, dimension, dimension + 1.0 if varies else 0.0, half_open, on_device)
    if settings.method == AUTO:
        return min(_arrays(entry, sizes, surface) for entry in methods().values() if entry.offer)
    return _arrays(method_of(settings), sizes, surface)


def _arrays(entry: MethodEntry, sizes: Sizes, surface: str) -> float:
    name, settings = beside_surfaces(entry, sizes.settings), sizes.settings
    if surface and settings.stopping.stop == "discretisation":
        one = replace(sizes, settings=replace(settings, stopping=replace(settings.stopping, stop="residual")))
        return (1.0 + 2.0**-sizes.dimension + 4.0**-sizes.dimension) * (_arrays(entry, one, surface) + 1.0)
    if surface in ("", "symmetric") or not name or sizes.precision == "mixed":
        return entry.arrays(sizes) + OF_ROUNDS * bool(surface)
    return OF_GRADIENTS + sizes.coefficients + preconditioners()[name].arrays(sizes)


def describe(settings: SolverSettings, precision: str) -> str:
    """A method with its main settings, for people."""
    label = method_of(settings).label(settings)
    return label + (", mixed precision" if precision == "mixed" else "")
