"""What a user of the package meets in Python: names, help, types, equality, copies.

Covers poisson.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.results import make_solution, part_of

import poisson
from poisson.errors import CaseError
from poisson.parallel.communicator import Serial
from poisson.problem.fields import ArrayField, PartField
from poisson.solvers.status import Status

VALUES = np.linspace(1.0, 2.0, 20).reshape(4, 5)


def problem(**changes: Any) -> poisson.Problem:
    given: dict[str, Any] = {"f": VALUES, "a": "1 + x", "c": 1, "boundary": {"x_lower": VALUES[:, 0], "all": 0.0}}
    return poisson.Problem.on_box((5, 4), **given | changes)


def test_problems_are_compared_by_what_they_say() -> None:
    one = problem()
    assert one == problem(f=VALUES.copy()) and hash(one) == hash(problem(f=VALUES.copy()))
    assert one == pickle.loads(pickle.dumps(one)) == copy.deepcopy(one)
    others = [problem(f=VALUES + 1e-9), problem(f=1.0), problem(c=2), problem(boundary=0.0), problem(title="other")]
    assert all(one != other for other in others) and len({one, *others, problem()}) == 6
    assert one != 3 and problem(f=VALUES.astype(np.float32)) != one
    part = PartField(VALUES[:2], (0, 0), (4, 5))
    assert part == PartField(VALUES[:2].copy(), (0, 0), (4, 5)) and hash(part) == hash(part)
    assert part != PartField(VALUES[:2], (2, 0), (4, 5)) and part != ArrayField(VALUES[:2])


def test_arrays_on_a_device_are_equal_to_themselves_alone() -> None:
    class OnDevice:
        __cuda_array_interface__ = {"shape": (4, 5), "typestr": "<f8", "data": (0, False), "version": 3}  # noqa: RUF012

    array = OnDevice()
    assert ArrayField(array) == ArrayField(array) != ArrayField(OnDevice())
    assert ArrayField(array) != ArrayField(VALUES)


def test_a_status_is_a_text() -> None:
    assert Status.CONVERGED == "converged" and Status("diverged") is Status.DIVERGED
    assert f"{Status.CONVERGED}" == str(Status.CONVERGED) == "converged"
    assert repr(Status.CONVERGED) == "<Status.CONVERGED: 'converged'>"
    assert {Status.CONVERGED: 1}["converged"] == 1


def test_solutions_are_pickled_with_u_on_the_host_and_copied_as_they_are() -> None:
    solution = make_solution(2)
    assert solution != make_solution(2) and solution == solution and len({solution, solution}) == 1
    for again in (pickle.loads(pickle.dumps(solution)), copy.deepcopy(solution), copy.copy(solution)):
        assert type(again) is poisson.Solution and repr(again) == repr(solution)
        np.testing.assert_array_equal(again.u, solution.u)
        assert again.problem == solution.problem
    assert copy.copy(solution).u is solution.u and copy.deepcopy(solution).u is not solution.u

    class Device:
        __cuda_array_interface__: Any = {}  # noqa: RUF012

        def get(self) -> Any:
            return solution.u

    on_device = replace(solution, u=Device())
    assert copy.copy(on_device).u is on_device.u
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(on_device)).u, solution.u)
    with pytest.raises(CaseError, match="a part of a solution cannot be pickled: gather it, or save it and load"):
        pickle.dumps(part_of(solution, Serial(), (1, 1)))
