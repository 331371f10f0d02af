# SPDX-License-Identifier: MIT
"""The form of a case file as a JSON schema, by which editors complete and check case files."""

import json
import re
from collections.abc import Iterable
from typing import Any

from poisson.case.kinds import ABSENT, Either, Key, Kind, List, Number, Numbers, Table, Tables, Word
from poisson.case.schema import CASE
from poisson.case.tables import AXIS, FACE, FILE, MAX_TITLE, PATCH
from poisson.mesh.boundary import CONDITIONS
from poisson.problem.fields import HDF5_SUFFIXES

NAME = "a case file of poisson"

WIDTH = 120
"""The columns of the file."""

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""The draft that editors know best. A reference has no keys beside it there."""

_TYPES: dict[type, str] = {str: "string", float: "number", int: "integer", bool: "boolean"}
_BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}

_SHARED = {"FaceTable": FACE, "PatchTable": PATCH, "FileTable": FILE, "AxisTable": AXIS}
"""The tables that stand in several places, and so are defined once."""

_REQUIRED = {(): ["equation", "domain", "boundary"], ("equation",): ["f"]}
"""Keys that every case needs. That they have defaults serves the messages."""

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
    made = _table(CASE, ())
    made["properties"]["title"]["maxLength"] = MAX_TITLE
    made["properties"]["output"]["properties"]["file"]["pattern"] = _ending(HDF5_SUFFIXES)
    shared = {name: _table(table, (name,)) for name, table in _SHARED.items()}
    for name in ("FaceTable", "PatchTable"):
        shared[name] |= _ONE_CONDITION
    return {"$schema": _DRAFT, "title": NAME, **made, "definitions": shared}


def _table(table: Table, path: tuple[str, ...]) -> dict[str, Any]:
    """A table with its keys."""
    required = _REQUIRED.get(path) or [name for name, key in table.keys.items() if key.default is ABSENT]
    return {
        "type": "object",
        "properties": {name: _key(key, (*path, name)) for name, key in table.keys.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _key(key: Key, path: tuple[str, ...]) -> dict[str, Any]:
    """A key with its meaning and its allowed values, in one line without links, and its default."""
    meaning = re.sub(r" ?\(\[[^]]*\]\([^)]*\)\)|\[([^]]*)\]\([^)]*\)", r"\1", key.meaning)
    default = {} if key.default in (None, ABSENT, {}) else {"default": key.default}
    made = _kind(key.kind, path)
    return {
        "description": f"{meaning}. Allowed: {key.allowed}.",
        **default,
        **({"allOf": [made]} if "$ref" in made else made),
    }


def _kind(kind: Kind, path: tuple[str, ...]) -> dict[str, Any]:
    """The schema of a kind of values; tables that stand in several places are referred to."""
    for name, table in _SHARED.items():
        if kind is table:
            return {"$ref": f"#/definitions/{name}"}
    match kind:
        case Table():
            return _table(kind, path)
        case Either():
            return {"anyOf": [_kind(each, path) for each in kind.kinds]}
        case Numbers():
            return {"additionalProperties": _kind(kind.entry.kind, path), "type": "object"}
        case Tables() | List():
            most = {"maxItems": kind.most} if isinstance(kind, List) and kind.most else {}
            least = {"minItems": kind.least} if kind.least else {}
            return {"items": _kind(kind.of, path), **most, **least, "type": "array"}
        case Word():
            words = {"enum": [*kind.choices]} if len(kind.choices) > 1 else {"const": kind.choices[0]}
            return {**words, "type": _TYPES[kind.types[0]]}
        case Number():
            bounds = sorted((_BOUNDS[name], kind.of(bound)) for name, bound in kind.bounds.items())
            return {**dict(bounds), "type": _TYPES[kind.of]}
    return {"type": _TYPES[kind.types[0]]}


def _ending(suffixes: Iterable[str]) -> str:
    """The pattern of texts that end in one of the suffixes, in letters of either case."""
    spelt = ("".join(f"[{c}{c.upper()}]" if c.isalpha() else f"[{c}]" for c in suffix) for suffix in suffixes)
    return f"({'|'.join(spelt)})$"
