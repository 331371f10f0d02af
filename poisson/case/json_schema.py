# SPDX-License-Identifier: MIT
"""The form of a case file as a JSON schema, by which editors complete and check case files."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from poisson.case.schema import CaseFile
from poisson.case.tables import MAX_TITLE
from poisson.mesh.boundary import CONDITIONS
from poisson.problem.fields import HDF5_SUFFIXES

NAME = "a case file of poisson"

WIDTH = 120
"""The columns of the file."""

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""The draft that editors know best. A reference has no keys beside it there."""

_SHARED = ("FaceTable", "PatchTable", "FileTable", "AxisTable")
"""The tables that stand in several places, and so are defined once."""

_REQUIRED = {(): ["equation", "domain", "boundary"], ("equation",): ["f"]}
"""Keys that every case needs. That they may be None in the models serves its messages."""

_ONE_CONDITION = {
    "oneOf": [{"required": [kind.value, *["alpha"] * kind.takes_alpha]} for kind in CONDITIONS],
    "dependencies": {"alpha": [kind.value for kind in CONDITIONS if kind.takes_alpha]},
}


def text() -> str:
    """The schema as it stands in the file: the tables and keys with what they mean, what may stand there, and the
    defaults. What depends on several keys at once is left to `poisson.case.load`, but for the conditions on a face."""
    return f"{_in_lines(schema(), '')}\n"


def _in_lines(value: Any, indent: str, key: str = "") -> str:
    """JSON in which what fits a line stands in one, but for tables with a description."""
    line = f"{indent}{key}{json.dumps(value)}"
    described = isinstance(value, dict) and "description" in value
    if not (isinstance(value, dict | list) and value) or (len(line) < WIDTH and not described):
        return line
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    entries = value.values() if isinstance(value, dict) else value
    parts = (_in_lines(entry, f"{indent}  ", name) for name, entry in zip(names, entries, strict=True))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join((f"{indent}{key}{opening}", ",\n".join(parts), f"{indent}{closing}"))


def schema() -> dict[str, Any]:
    """The schema as JSON's values."""
    model = CaseFile.model_json_schema()
    tables = model.pop("$defs")
    made = _table(model, tables, ())
    made["properties"]["title"]["maxLength"] = MAX_TITLE
    made["properties"]["output"]["properties"]["file"]["pattern"] = _ending(HDF5_SUFFIXES)
    shared = {name: _table(tables[name], tables, (name,)) for name in _SHARED}
    for name in ("FaceTable", "PatchTable"):
        shared[name] |= _ONE_CONDITION
    return {"$schema": _DRAFT, "title": NAME, **made, "definitions": shared}


def _table(model: Mapping[str, Any], tables: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """A table with its keys."""
    properties = {
        name: {"description": _description(field), **_plain(field, tables, (*path, name))}
        for name, field in model["properties"].items()
    }
    required = _REQUIRED.get(path) or model.get("required")
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _plain(item: Mapping[str, Any], tables: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The schema of a key, without nulls and without references to tables that are used only once."""
    kept: dict[str, Any] = {}
    for key, entry in item.items():
        if key == "$ref":
            name = entry.rpartition("/")[2]
            alone = {"$ref": f"#/definitions/{name}"}
            kept |= (
                _table(tables[name], tables, path)
                if name not in _SHARED
                else alone
                if len(item) == 1
                else {"allOf": [alone]}
            )
        elif key in ("anyOf", "oneOf"):
            branches = [_plain(branch, tables, path) for branch in entry if branch != {"type": "null"}]
            # A key that may be left out may be None in the models.
            alone = branches[0]
            if len(branches) > 1:
                kept["anyOf"] = branches
            elif "$ref" in alone:
                kept["allOf"] = branches
            else:
                kept |= alone
        elif key == "items":
            kept[key] = _plain(entry, tables, path)
        elif key not in ("title", "description", "discriminator") and not (key == "default" and entry is None):
            kept[key] = entry
    return kept


def _description(field: Mapping[str, Any]) -> str:
    """The meaning of a key and its allowed values, in one line without links."""
    meaning = re.sub(r" ?\(\[[^]]*\]\([^)]*\)\)|\[([^]]*)\]\([^)]*\)", r"\1", field["title"])
    return f"{meaning}. Allowed: {field['description']}."


def _ending(suffixes: Iterable[str]) -> str:
    """The pattern of texts that end in one of the suffixes, in letters of either case."""
    spelt = ("".join(f"[{c}{c.upper()}]" if c.isalpha() else f"[{c}]" for c in suffix) for suffix in suffixes)
    return f"({'|'.join(spelt)})$"
