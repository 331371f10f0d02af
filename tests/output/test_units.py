# SPDX-License-Identifier: MIT
"""The names of units: from the case into the result, its XDMF file and xarray."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import h5py
import pytest
from support.case_texts import GOOD, case_of
from support.results import make_solution

import poisson
from poisson.case.settings import Units
from poisson.output import hdf5, xdmf
from poisson.output.record import field_note

WANTED = {
    "u": "V",
    "f": "V/m^2",
    "a": "1",
    "c": "1/m^2",
    "residual": "V/m^2",
    "error": "V",
    "gradient": "V/m",
    "E": "V/m",
}


def test_the_unit_of_a_field_follows_from_those_of_length_and_value() -> None:
    assert {name: field_note(name, Units("m", "V"))[1] for name in WANTED} == WANTED
    assert field_note("f", Units()) == ("source f", "U/L^2")
    assert field_note("flux", Units("kV/mm", "kV/mm"))[1] == "kV/mm/(kV/mm)"
    assert field_note("no such field", Units("m", "V")) == ("no such field", "1")


def test_a_unit_is_named_where_all_its_parts_are() -> None:
    assert Units("m", "U").named(0, -2) and Units("L", "V").named(1, 0)
    assert not Units("m", "U").named(1, -2) and not Units("L", "V").named(1, -2)


def test_units_of_a_case_reach_the_solution() -> None:
    case = case_of(GOOD, overrides=('output.units={ length = "m" }', 'output.units.value="K"'))
    assert case.output.units == Units("m", "K")
    solution = poisson.solve(case_of(case.text, overrides=('run.backend="numpy"',)))
    assert solution.units == Units("m", "K")


def test_units_in_files_and_in_xarray(tmp_path: Path) -> None:
    solution = make_solution(2, units=Units("m", "V"))
    path = tmp_path / "a.h5"
    hdf5.write(path, solution)
    with h5py.File(path) as file:
        places = {"x": "m", "y": "m", "u": "V", "f": "V/m^2", "error": "V", "convergence/residual": "V/m^2"}
        assert {name: file[name].attrs["units"] for name in places} == places
    assert poisson.load(path).units == Units("m", "V")
    root = ElementTree.fromstring(xdmf.content(path, solution))
    shown = {item.get("Name"): item.find("Information").get("Value") for item in root.iter("Attribute")}  # type: ignore[union-attr]
    assert shown == {"u": "V", "f": "V/m^2", "error": "V"}
    assert list(ElementTree.fromstring(xdmf.content(path, replace(solution, units=Units()))).iter("Information")) == []
    pytest.importorskip("xarray")
    data = solution.to_xarray()
    assert (data.x.attrs["units"], data.f.attrs["units"]) == ("m", "V/m^2")
