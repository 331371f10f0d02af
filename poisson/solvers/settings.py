# SPDX-License-Identifier: MIT
"""How to solve and where to run: the settings, with their defaults."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from poisson.backends.registry import AUTO, threaded
from poisson.solvers.keys import Settings, real, word
from poisson.solvers.stopping import Stopping

PRECISIONS = ("float64", "float32", "mixed")
MAX_THREADS = 4096

S = TypeVar("S", bound=Settings)


def method_names() -> Sequence[str]:
    """The names that a case may give for a method."""
    from poisson.solvers import registry

    return (AUTO, *registry.methods())


def preconditioner_names() -> Sequence[str]:
    """The names that a case may give for a preconditioner."""
    from poisson.solvers import registry

    return tuple(registry.preconditioners())


@dataclass(frozen=True)
class Relaxation(Settings):
    """The weight of sweeps.

    `omega`: dimensionless; None: the solver chooses.
    """

    omega: float | None = real(
        None,
        "the relaxation weight of a sweep; for Jacobi at most 1, by default 1, or less where 1 would not converge "
        "([numerics](numerics.md#weighted-jacobi)), for SOR by default the optimal weight",
        rank=1,
        gt=0.0,
        lt=2.0,
    )


@dataclass(frozen=True)
class SolverSettings(Settings):
    """The table ``[solver]``: one record, which goes from the case to the method as it is.

    Each part of it is a record of its own, declared once where it is used, with its defaults; `of` gives that of a
    class, and `having` changes keys by their names, whichever part they stand in.

    `method`: the name of a method (`registry.methods`), or ``auto``. `preconditioner`: of ``cg``: the name of a
    preconditioner (`registry.preconditioners`). `stopping`: tolerances and limits. `parts`: the further parts that are
    not at their defaults, each of another class. Raises `ValueError` if two parts are of one class.
    """

    method: str = word(
        AUTO, method_names, 'the method; `"auto"` chooses one and says why ([methods](methods.md))', rank=0
    )
    preconditioner: str = word(
        "multigrid",
        preconditioner_names,
        "the approximate inverse of A ([methods](methods.md#preconditioners))",
        rank=13,
    )
    stopping: Stopping = field(default_factory=Stopping)
    parts: tuple[Settings, ...] = ()

    def __post_init__(self) -> None:
        if len({type(part) for part in self.parts}) < len(self.parts):
            raise ValueError("two parts of the settings are of one class")
        # In one form, so that equal settings are equal.
        parts = sorted((part for part in self.parts if part != type(part)()), key=lambda part: type(part).__name__)
        object.__setattr__(self, "parts", tuple(parts))

    def of(self, kind: type[S]) -> S:
        """The part of a class; where it is not among `parts`, its defaults."""
        return next((part for part in self.parts if isinstance(part, kind)), kind())

    def having(self, **values: Any) -> "SolverSettings":
        """The same settings with other values of some keys.

        Raises `ValueError` if there is no such key.
        """
        from poisson.solvers import registry

        places = registry.solver_keys()
        if unknown := set(values) - set(places):
            raise ValueError(f"unknown settings: {', '.join(sorted(unknown))}")
        changes: dict[type[Settings], dict[str, Any]] = {}
        for name, value in values.items():
            changes.setdefault(places[name].part, {})[name] = value
        own, stopping = changes.pop(SolverSettings, {}), replace(self.stopping, **changes.pop(Stopping, {}))
        parts = {type(part): part for part in self.parts}
        parts |= {kind: replace(self.of(kind), **given) for kind, given in changes.items()}
        return replace(self, **own, stopping=stopping, parts=tuple(parts.values()))

    def changed(self) -> dict[str, Any]:
        """The keys that are not at their defaults, in the order in which they are listed."""
        from poisson.solvers import registry

        found = {
            field.name: value
            for part in (self, self.stopping, *self.parts)
            for field in fields(part)
            if "key" in field.metadata and (value := getattr(part, field.name)) != field.default
        }
        return {name: found[name] for name in registry.solver_keys() if name in found} if len(found) > 1 else found

    def value(self, name: str) -> Any:
        """The value of a key.

        Raises `ValueError` if there is no such key.
        """
        from poisson.solvers import registry

        if name not in registry.solver_keys():
            raise ValueError(f"unknown setting: {name}")
        return self.changed().get(name, registry.solver_keys()[name].default)


@dataclass(frozen=True)
class RunSettings:
    """The table ``[run]``.

    `backend`: ``auto``, or one of `poisson.backends.NAMES`. `precision`: ``float64``, ``float32``, or ``mixed``:
    float32 inside, float64 outside. `threads`: threads of the CPU in each process; 0: all of them. `ranks`: the
    processes that there must be, or the blocks along x, y(, z) that the grid is divided into, one a process.
    """

    backend: str = AUTO
    precision: str = PRECISIONS[0]
    threads: int = 0
    ranks: int | tuple[int, ...] | None = None

    @property
    def threaded(self) -> bool:
        """Whether the backend runs on threads of the CPU, or may."""
        return threaded(self.backend)

    @property
    def blocks(self) -> tuple[int, ...] | None:
        """The blocks along x, y(, z), if they are given."""
        return self.ranks if isinstance(self.ranks, tuple) else None

    @property
    def dtype(self) -> str:
        """The type of u: that of the outer iteration."""
        return "float32" if self.precision == "float32" else "float64"
