# SPDX-License-Identifier: MIT
"""Solutions read back from their files.

Covers poisson.output.reading.
"""

import logging
import os
import pickle
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.places import ROOT
from support.results import make_solution

import poisson
from poisson.errors import CaseError, OutputError
from poisson.output import hdf5, reading
from poisson.output.record import OperationUse, Performance

PERFORMANCE = Performance((OperationUse("sweep", 3, 0.1, 1e9, 1e9, "5x4"),), 1e10, 1000)


def require_equal(found: poisson.Solution, wanted: poisson.Solution) -> None:
    for part in fields(wanted):
        one, other = getattr(found, part.name), getattr(wanted, part.name)
        if part.name in ("u", "fields"):
            one, other = ({"u": it} if part.name == "u" else it for it in (one, other))
            assert set(one) == set(other)
            for name, values in other.items():
                assert one[name].dtype == values.dtype
                np.testing.assert_array_equal(one[name], values)
        else:
            assert one == other, part.name


@pytest.mark.parametrize("lazy", [False, True])
def test_what_was_saved_is_loaded_and_saved_again(tmp_path: Path, lazy: bool) -> None:
    case = poisson.load_case(
        ROOT / "cases/unit_square.toml",
        ['run.backend="numpy"', "domain.shape=[9, 7]", 'output.fields=["u", "f", "error", "gradient"]'],
    )
    solved = replace(poisson.solve(case), performance=PERFORMANCE, error_bar=0.5)
    loaded = poisson.load(solved.save(tmp_path / "a.h5"), lazy=lazy)
    require_equal(replace(loaded, u=np.asarray(loaded.u)), solved)
    assert loaded.problem == case.problem
    loaded.save(tmp_path / "b.h5")
    again = poisson.load(tmp_path / "b.h5")
    require_equal(again, solved)


def test_the_problem_of_a_solve_from_python_comes_back(tmp_path: Path) -> None:
    problem = poisson.Problem.on_box((9, 5), f="x", a="1 + y", boundary={"y": "periodic", "all": 0.0}, title="mine")
    solution = poisson.solve(problem, "jacobi", "numpy", rtol=1e-3)
    loaded = poisson.load(str(solution.save(tmp_path / "a.h5")))
    assert loaded.problem == problem
    assert loaded.case_text.startswith("[equation]")
    require_equal(replace(loaded, case_text=""), solution)


def test_only_the_fields_that_are_asked_for_are_read(tmp_path: Path) -> None:
    path = make_solution(2).save(tmp_path / "a.h5")
    assert list(poisson.load(path, ["error"]).fields) == ["error"]
    assert poisson.load(path, ("u",)).fields == {}
    with pytest.raises(CaseError, match=rf"fields: 'flux'; allowed: the fields in {path}, error, f, u"):
        poisson.load(path, ["flux"])
    with pytest.raises(CaseError, match=r"fields: 'error'; allowed: a list of names, such as \['error'\]"):
        poisson.load(path, "error")


def test_a_lazy_field_is_read_by_parts_and_the_file_is_closed(tmp_path: Path) -> None:
    solution = make_solution(3)
    path = solution.save(tmp_path / "a.h5")
    loaded = poisson.load(path, lazy=True)
    u: Any = pickle.loads(pickle.dumps(loaded.u))
    assert isinstance(u, reading.StoredArray)
    assert (u.shape, u.ndim, u.size, u.nbytes, len(u)) == ((3, 4, 5), 3, 60, 480, 3)
    np.testing.assert_array_equal(u[1, :, ::2], solution.u[1, :, ::2])
    np.testing.assert_array_equal(loaded.host_u, solution.u)
    assert np.asarray(u, np.float32).dtype == np.float32
    assert repr(u) == f"<u (3, 4, 5) float64 in {str(path)!r}>"
    with pytest.raises(IndexError, match=r"u of the shape \(3, 4, 5\): .*out of range"):
        u[3]
    with h5py.File(path, "a"):
        pass  # nobody has it open
    os.utime(path, ns=(1, 1))
    with pytest.raises(OutputError, match=f"{path}: changed since it was loaded; load it again"):
        u[0]


def test_a_field_that_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_solution(3).save(tmp_path / "a.h5")
    monkeypatch.setattr("poisson.run.saved.host_memory", lambda: (100, 200))
    with pytest.raises(OutputError, match=r"u takes .* GiB, and .* GiB are free; with lazy=True the values"):
        poisson.load(path, ["f"])
    lazy = poisson.load(path, [], lazy=True)
    assert lazy.u[1].shape == (4, 5)
    with pytest.raises(OutputError, match="stay in the file and are read in parts"):
        _ = lazy.host_u


def test_data_that_are_in_the_result_take_the_place_of_files(tmp_path: Path) -> None:
    values = np.linspace(1.0, 2.0, 45).reshape(5, 9)
    problem = poisson.Problem.on_box((9, 5), f=values, a=lambda x, y: 1.0 + x)
    first = poisson.solve(problem, "multigrid", "numpy", fields=("f", "a"), rtol=1e-12)
    loaded = poisson.load(first.save(tmp_path / "a.h5"))
    second = poisson.solve(loaded.problem, "multigrid", "numpy", rtol=1e-12)
    np.testing.assert_allclose(second.u, first.u, rtol=1e-12, atol=1e-14)


def test_without_a_case_only_the_grid_is_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = make_solution(3).save(tmp_path / "a.h5")
    with caplog.at_level(logging.WARNING):
        loaded = poisson.load(path)
    assert loaded.problem.lattice == make_solution(3).problem.lattice
    assert "the case in the file cannot be read: equation.f: missing" in caplog.text
    with pytest.raises(poisson.PoissonError, match="no dataset 'a' in"):
        poisson.solve(loaded.problem, backend="numpy")
    with h5py.File(path, "a") as file:
        file["provenance"].attrs["case"] = ""
        file["mine"] = np.ones(3)
    with caplog.at_level(logging.WARNING):
        assert set(poisson.load(path).fields) == {"f", "error"}
    assert reading.EDITED in caplog.text and "the file has no case" in caplog.text


def edit(path: Path, what: str) -> None:
    with h5py.File(path, "a") as file:
        if what == "status":
            file.attrs["status"] = "\x1b[31mfine"
        elif what == "u":
            del file["u"]
        elif what == "link":
            del file["f"]
            file["f"] = h5py.ExternalLink("other.h5", "/f")
        elif what == "bomb":
            del file["u"]
            file.create_dataset("u", (10**6, 10**6), "f8", chunks=(1000, 1000), compression="gzip")
        elif what == "shape":
            del file["u"]
            file["u"] = np.ones(7)
        elif what == "history":
            del file["convergence/residual"]
            file["convergence/residual"] = np.ones(2)
        elif what == "target":
            del file["provenance"].attrs["target"]
        else:
            file.attrs["format"] = "poisson result 99"


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (
            "status",
            r"damaged \('\ufffd\[31mfine' is not a valid Status\)|damaged \('.x1b\[31mfine' is not a valid Stat",
        ),
        ("u", r"damaged \(u is missing\); solve the case again"),
        ("link", r"damaged \(f is a link to another file, 'other\.h5'"),
        ("bomb", r"damaged \(the values of u are missing\)"),
        ("shape", r"damaged \(u has the shape \(7,\) and the type float64\)"),
        ("history", r"damaged \(the history is incomplete\)"),
        ("target", "damaged "),
        ("format", r"written by a newer poisson \(format 99, this one reads 2\); upgrade poisson"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, what: str, reason: str) -> None:
    path = make_solution(2).save(tmp_path / "a.h5")
    edit(path, what)
    with pytest.raises(OutputError, match=reason) as caught:
        poisson.load(path)
    assert "\n" not in str(caught.value) and str(caught.value).isprintable()


def test_a_changed_bit_is_noticed_in_every_form(tmp_path: Path) -> None:
    path = make_solution(2).save(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        values = file["u"][...]
        del file["u"]
        file["u"] = values
        file["u"].attrs[hdf5.DATA_CHECKSUM] = 1
    with pytest.raises(OutputError, match=reading.WRONG_VALUES):
        poisson.load(path)


def test_what_is_no_result_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_text("nothing")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["u"] = np.ones(3)
    for path, reason in [
        (tmp_path / "a.h5", "not an HDF5 file; give a result of 'poisson solve'"),
        (tmp_path / "b.h5", "an HDF5 file, but not a result of 'poisson solve'"),
        (tmp_path / "c.h5", "no such file; check the name"),
        (tmp_path, "it is a directory; give the name of a file in it"),
    ]:
        with pytest.raises(OutputError) as caught:
            poisson.load(path)
        assert str(caught.value) == f"{path}: {reason}"
