# SPDX-License-Identifier: MIT
"""The JSON schema of case files, which editors use: what it takes and refuses, beside what `load` takes and refuses."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from support.case_texts import GOOD_3D, mistakes_of
from support.places import ROOT

from poisson.backends.registry import backend_names
from poisson.case import examples, json_schema
from poisson.case.schema import CASE
from poisson.case.tables import FACE, FILE
from poisson.cli import main

CASES = sorted((ROOT / "cases").glob("*.toml"))
SCHEMA = json_schema.schema()


def complaints(tables: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft7Validator(SCHEMA).iter_errors(tables)]


def test_the_file_is_a_schema() -> None:
    """`scripts/method_tables.py` writes it."""
    assert examples.SCHEMA == ROOT / "poisson" / "case" / "schema.json"
    Draft7Validator.check_schema(SCHEMA)


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr() == (json_schema.text(), "")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_case_names_the_schema_and_fulfils_it(path: Path) -> None:
    first, _, _ = path.read_text("utf-8").partition("\n")
    assert first == f"{examples.DIRECTIVE} ../poisson/case/schema.json"
    assert (path.parent / first.split()[1]).samefile(examples.SCHEMA)
    assert complaints(tomllib.loads(path.read_text("utf-8"))) == []


def keys(schema: dict[str, Any], path: str = "") -> dict[str, dict[str, Any]]:
    found = {}
    for name, part in schema.get("properties", {}).items():
        found[path + name] = part
        found |= keys(part, f"{path}{name}.")
    return found


def test_every_key_has_a_meaning_what_is_allowed_and_its_default() -> None:
    shown = keys(SCHEMA)
    for name, table in {"FaceTable": FACE, "FileTable": FILE}.items():
        part = SCHEMA["definitions"][name]
        assert set(part["properties"]) == set(table.keys)
        shown |= keys(part, f"{name}.")
    tables = set(CASE.keys) - {"title", "parameters"}
    assert len(shown) > 50 and tables <= set(shown)
    for name, part in shown.items():
        meaning, _, allowed = part["description"].partition(". Allowed: ")
        assert len(meaning) > 5 and allowed and "](" not in meaning, name
        assert part.get("default", "") is not None
    assert shown["solver.rtol"]["default"] == 1e-8
    assert shown["solver.method"]["enum"][0] == shown["solver.method"]["default"] == "auto"
    assert shown["run.backend"]["enum"] == list(backend_names())
    assert "null" not in json.dumps(SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("equation.f", None),
        ("equation.f", [1]),
        ("equation.a", 0),
        ("equation.c", -1.0),
        ("equation.f", {"file": "f.h5", "name": "f"}),
        ("equation.f", {"dataset": "f"}),
        ("domain.shape", [2, 9, 9]),
        ("domain.lower", []),
        ("domain.uper", [1, 1, 1]),
        ("boundary.x_lower", {}),
        ("boundary.x_lower", {"dirichlet": 1, "neumann": 1}),
        ("boundary.x_lower", {"neumann": 1, "alpha": 1}),
        ("boundary.x_lower", {"robin": 1}),
        ("boundary.z", "opened"),
        ("solver.method", "multigird"),
        ("solver.rtol", "small"),
        ("run.threads", -1),
        ("run.ranks", [1, 1, 1, 1]),
        ("output.fields", ["v"]),
        ("output.file", "u.nc"),
        ("parameters.k", "1"),
        ("title", 3),
    ],
)
def test_what_the_schema_refuses_is_a_mistake(path: str, value: Any) -> None:
    tables = tomllib.loads(GOOD_3D)
    assert complaints(tables) == []
    table, _, key = path.rpartition(".")
    place = tables.setdefault(table, {}) if table else tables
    if value is None:
        del place[key]
    else:
        place[key] = value
    assert complaints(tables) != []
    import tomli_w

    assert mistakes_of(tomli_w.dumps(tables)) != ()
