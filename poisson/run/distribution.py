# SPDX-License-Identifier: MIT
"""Data that not every rank has: an array or a problem of the first one, or an array of which each has its part."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np

from poisson.backends.base import Backend
from poisson.discrete.share import agreed
from poisson.errors import CaseError
from poisson.mesh.lattice import Lattice
from poisson.parallel.communicator import Communicator
from poisson.problem.arrays import brought, host, is_array, on_device, shape_of
from poisson.problem.fields import ArrayField, PartField
from poisson.problem.problem import Problem
from poisson.run.ranks import Ranks

_NOTHING, _WHOLE, _PART, _ON_DEVICE, _OTHER = range(5)

FIELDS = ("f", "a", "c", "initial")
"""The parts of a problem that have a value at every node."""


def array(ranks: Ranks, name: str, given: Any, shape: tuple[int, ...], backend: Backend) -> Any:
    """Agree on a value that all ranks were given: the value itself, or an array of which each rank has a part or
    nothing.

    `ranks`: which all call this. `name`: the name of the value, for the message. `given`: on the first rank an array
    with the shape of the grid, and None on the others: each gets its part. Or on every one an array of its own part.
    All else is on every rank what it is in a single process. `shape`: of an array on the grid. `backend`: that of the
    ranks. Raises `CaseError` if it is given on some ranks only.
    """
    held = ranks.held(shape)
    if held is None:
        return given
    own = tuple(stop - start for start, stop in held.ranges)
    kind = _NOTHING if given is None else _OTHER
    if is_array(given):
        part = _ON_DEVICE if on_device(given) else _PART
        # Where the grid is not divided, the part of each rank is the whole.
        kind = {own: part, shape: _WHOLE}.get(shape_of(given), _OTHER)
    kinds = [int(each) for (each,) in ranks.communicator.allgather([kind])]
    if ranks.share and set(kinds) <= {_PART, _ON_DEVICE}:
        on_devices = set(kinds) == {_ON_DEVICE} and backend.views and not backend.on_host
        return _with_halo(ranks.share.lattice, given, shape, backend, on_devices)
    if kinds[0] == _WHOLE and set(kinds[1:]) == {_NOTHING}:
        return _from_first(ranks, given, shape)
    if _NOTHING in kinds and set(kinds) != {_NOTHING}:
        allowed = "on all, or an array of the whole grid on the first only"
        raise CaseError(f"{name}: given on only some processes; allowed: {allowed}")
    return given


def without_arrays(communicator: Communicator, given: Problem | None) -> tuple[Problem | None, tuple[str, ...]]:
    """The problem of the first rank on every one, where the others are given none; its arrays stay where they are.

    Returns: `problem`: with nothing in the place of its arrays at the nodes; without ranks to send it to what was
    given. `names`: of these arrays. Raises `CaseError` if it cannot be sent, as it has functions, or only some of the
    others are given one.
    """
    have = [bool(each) for (each,) in communicator.allgather([given is not None])]
    if all(have) or not any(have):
        return given, ()
    names: tuple[str, ...] = ()
    sent = b""
    with agreed(communicator):
        if have != [True] + [False] * (communicator.size - 1):
            allowed = "on all, or on the first with None on the others"
            raise CaseError(f"problem: given on only some processes; allowed: {allowed}")
        if given is not None:
            names = tuple(name for name in FIELDS if isinstance(getattr(given, name), ArrayField))
            nothing: dict[str, Any] = dict.fromkeys(names, _nowhere(given))
            sent = _packed(replace(given, **nothing))
    problem, names = pickle.loads(communicator.broadcast(sent)), communicator.broadcast(names)
    return problem, names


def with_arrays(ranks: Ranks, problem: Problem, given: Problem | None, names: tuple[str, ...]) -> Problem:
    """The problem of `without_arrays` with each rank's parts of the arrays that the first one has."""
    shape = problem.lattice.array_shape
    found: dict[str, Any] = {}
    for name in names:
        values = getattr(given, name).values if given else None
        # Surfaces are found on the whole grid by every rank.
        whole = name == "a" and problem.bodies
        found[name] = (
            ranks.of_first(host(values) if ranks.speaks else None) if whole else _from_first(ranks, values, shape)
        )
    fields: dict[str, Any] = {name: it if isinstance(it, ArrayField) else ArrayField(it) for name, it in found.items()}
    return replace(problem, **fields)


def _packed(problem: Problem) -> bytes:
    try:
        return pickle.dumps(problem)
    except Exception as error:  # whatever the parts of another library raise
        reason = "functions of the problem cannot be sent to the other processes"
        raise CaseError(f"problem: {reason} ({error}); make the problem on each process") from error


def _nowhere(problem: Problem) -> PartField:
    """An array of the grid of which nothing is here."""
    shape = problem.lattice.array_shape
    return PartField(np.zeros((0,) * len(shape)), (0,) * len(shape), shape)


def _with_halo(lattice: Lattice, given: Any, shape: tuple[int, ...], backend: Backend, on_devices: bool) -> PartField:
    """The part of an array with its halo, from parts without; with `on_devices` it stays where it is."""
    from poisson.parallel.distributed import DistributedBackend

    double = backend.companion(np.float64)
    assert isinstance(double, DistributedBackend)
    halo = double.halo_of(lattice)
    assert halo is not None
    if on_devices:
        found = double.empty(lattice.array_shape)
        with double.ordered():
            double.view(found)[lattice.owned] = brought(given, double.array_module)
        halo.fill(found)
        return PartField(double.view(found), _firsts(lattice), shape, on_devices=True)
    here = np.zeros(lattice.array_shape)
    here[lattice.owned] = host(given)
    found = double.from_host(here)
    halo.fill(found)
    return PartField(double.to_host(found), _firsts(lattice), shape)


def _from_first(ranks: Ranks, given: Any, shape: tuple[int, ...]) -> Any:
    """The part of an array that the first rank has, or all of it where every rank has the whole grid."""
    whole = host(given) if ranks.speaks else None
    if ranks.share is None:
        return ranks.of_first(whole)
    lattice, found = ranks.share.lattice, None
    for rank, index in enumerate(ranks.everyone(ranks.share.index)):
        part = ranks.of_first(None if whole is None else whole[np.ix_(*index)])
        found = part if rank == ranks.communicator.rank else found
    return PartField(found, _firsts(lattice), shape)


def _firsts(lattice: Lattice) -> tuple[int, ...]:
    return tuple(axis.first for axis in reversed(lattice.axes))
