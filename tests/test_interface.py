# SPDX-License-Identifier: MIT
"""What a user of the package meets in Python: names, help, types, equality, copies.

Covers poisson and poisson.problem.given.
"""

import copy
import doctest
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.places import ROOT
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
    with pytest.raises(CaseError, match="a part of a solution cannot be pickled: gather the solution, or save it"):
        pickle.dumps(part_of(solution, Serial(), (1, 1)))


# ---- names and help
def test_what_can_be_completed_is_the_interface_and_nothing_else() -> None:
    import poisson.cli

    assert dir(poisson) == sorted([*poisson.__all__, "__doc__", "__version__"])
    assert all(hasattr(poisson, name) for name in dir(poisson))


def test_the_help_begins_with_a_map_of_every_name() -> None:
    shown = pydoc.plain(pydoc.render_doc(poisson)).splitlines()
    begin = next(number for number, line in enumerate(shown) if "What to call for what:" in line)
    first = "\n".join(shown[begin : begin + 27])
    assert begin < 10 and ">>> import poisson" in first
    for name in set(poisson.__all__) - {"Case", "Status"}:
        assert re.search(rf"\b{name}\b", first), name


# ---- examples
def members(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class of the interface offers by a name without underscore, with its docstring."""
    for owner in kind.__mro__:
        if owner.__module__.startswith("poisson"):
            for name, member in vars(owner).items():
                for holder in ("fget", "func", "__func__"):
                    member = getattr(member, holder, member)
                if inspect.isfunction(member) and not name.startswith("_"):
                    yield f"{kind.__name__}.{name}", member


PUBLIC = {name: getattr(poisson, name) for name in poisson.__all__}
PUBLIC |= {name: member for kind in PUBLIC.values() if inspect.isclass(kind) for name, member in members(kind)}


def test_every_public_docstring_has_an_example() -> None:
    assert "Solution.at" in PUBLIC and "Solver.solve" in PUBLIC
    assert [name for name, item in PUBLIC.items() if ">>> " not in (item.__doc__ or "")] == []
    assert [name for name, item in PUBLIC.items() if "+SKIP" in (item.__doc__ or "")] == []


@pytest.mark.parametrize("name", ["poisson", *PUBLIC])
def test_the_examples_of_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases").symlink_to(ROOT / "cases")
    item = PUBLIC.get(name, poisson)
    if ".plot" in item.__doc__.partition("Examples")[2]:
        pytest.importorskip("matplotlib")
    names = {"poisson": poisson, "np": np}
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    test = doctest.DocTestParser().get_doctest(item.__doc__, names, name, inspect.getsourcefile(item), 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert test.examples and not said, "".join(said)


# ---- types

CORRECT = """
import numpy as np
import poisson
from poisson.problem.given import Boundary
from poisson.run.request import Method

problem = poisson.Problem.on_box((33, 33), f=np.ones((33, 33)), a="1 + x", boundary={"x": "periodic", "all": 0.0})
solution: poisson.Solution = poisson.solve(problem, "multigrid", rtol=1e-10, fields=("gradient",))
assert solution.status is poisson.Status.CONVERGED
field = solution.E[0, 0].sum() + solution.at(0.5, 0.5) + solution.fluxes()["y_lower"]
again: poisson.Solution = poisson.load(solution.save("u.h5"), lazy=True)
mean: float = solution.u[1:-1, 1:-1].mean().item()
lists = poisson.Problem.on_box((3, 3), f=[[0.0, 1.0, 2.0]] * 3, a=[[1.0] * 3] * 3, exact=0.0, mean="arithmetic")
faces: Boundary = {"x_lower": {"robin": 1.0, "alpha": "1 + y"}, "x_upper": [0.0, 1.0, 0.0]}
faces["y"] = "periodic"
faces["all"] = lambda x, y: x
poisson.Problem.on_box((3, 3), boundary=faces).having(f=1, boundary={"x_lower": np.zeros(3)})
method: Method = "fft"
poisson.solve(problem, method, "openmp", "float32", order=4, fields=["E", "flux"])
solver = poisson.Solver(problem, backend="numpy", cycle="W")
try:
    solver.solve(f=lambda x, y: x * y)
except poisson.PoissonError as error:
    print(str(error), poisson.__version__)
"""

WRONG = """
import poisson

problem = poisson.Problem.on_box((33, 33))
poisson.solve(problem, rtoll=3)
poisson.Solver(problem, rtoll=3)
poisson.solve(problem).statuss
poisson.solve(3)
poisson.solve(problem, "mutligrid")
poisson.solve(problem, "cg", "cuda")
poisson.solve(problem, precision="double")
poisson.Solver(problem, "mutligrid", preconditioner="fft")
poisson.Solver(problem, preconditioner="multgrid")
poisson.Solver(problem, backend="gup")
poisson.Problem.on_box((33, 33), boundary={"x_lowr": 1.0, "all": 0.0})
poisson.Problem.on_box((33, 33), boundary={"x_lower": {"neuman": 1.0}, "all": 0.0})
poisson.Problem.on_box((33, 33), boundary={"x": "opened"})
poisson.Problem.on_box((33, 33), mean="geometric")
poisson.solve(problem).u.shap
poisson.solve(problem, fields=("gradent",))
poisson.solve(problem, "cg", smoother="chebychev", stop="residual")
poisson.solve(problem).face_flux("x_lowr")
"""


def test_a_type_checker_knows_the_interface(tmp_path: Path) -> None:
    """With the settings and the cache of this project's own check, which has read the package before."""
    pytest.importorskip("mypy")
    assert (ROOT / "poisson" / "py.typed").is_file()
    (tmp_path / "correct.py").write_text(CORRECT)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-error-summary",
        str(tmp_path / "correct.py"),
        str(tmp_path / "wrong.py"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    found = [line.partition("wrong.py:")[2] for line in done.stdout.splitlines() if ": error:" in line]
    assert done.stderr == ""
    lines = WRONG.count("\n")
    assert [int(line.split(":")[0]) for line in found] == [*range(5, lines + 1)], done.stdout
