# SPDX-License-Identifier: MIT
"""The keys at which two cases differ, from their texts with every default filled in."""

from collections.abc import Collection, Mapping
from typing import Any

from poisson.case import toml
from poisson.case.reading import parsed


def differences(first: str, second: str, beside: Collection[str] = ()) -> dict[str, tuple[str | None, str | None]]:
    """Where two cases differ.

    `first`, `second`: TOML, as `Case.text`. `beside`: keys that do not count, such as ``output.file``. Returns: by the
    paths of the keys, in their order, what stands there in the one and in the other, as TOML writes it; None where the
    key is missing. Raises `CaseError` if a text is no TOML.
    """
    one, other = _keys(parsed(first, "the first case")), _keys(parsed(second, "the second case"))
    return {
        key: (_shown(one, key), _shown(other, key))
        for key in dict.fromkeys((*one, *other))
        if key not in beside and (key not in one or key not in other or one[key] != other[key])
    }


def _shown(keys: Mapping[str, Any], key: str) -> str | None:
    return toml.shown(keys[key]) if key in keys else None


def _keys(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a case with their values: those of its tables, at whose places further tables are values."""
    found: dict[str, Any] = {}
    for name, entry in tables.items():
        if isinstance(entry, Mapping):
            found |= {toml.dotted((name, key)): value for key, value in entry.items()}
        else:
            found[toml.dotted((name,))] = entry
    return found
