# SPDX-License-Identifier: MIT
"""Keys and values as TOML writes them, for messages: on one line, and not long; and overrides by options.

Documents are written by tomli-w. It spreads lists over several lines, leaves characters that could steer a terminal as
they are, and refuses what TOML does not have; a message must show whatever was given, on its one line.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_SHOWN = 60
_LONG = 256  # bits: Python refuses to write very long integers in decimal


def written(item: Any) -> str:
    """A value on one line, whole. What TOML does not have is written as Python shows it."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return string(item)
    if isinstance(item, Mapping):
        inside = ", ".join(f"{_key(name)} = {written(entry)}" for name, entry in item.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(item, (list, tuple)):
        return f"[{', '.join(written(entry) for entry in item)}]"
    if isinstance(item, float):
        return repr(float(item))
    if isinstance(item, int) and item.bit_length() > _LONG:
        return hex(item)
    return " ".join(str(item).split())


def string(text: str) -> str:
    """A basic string with its escapes."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _code(c)) for c in text) + '"'


def _key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else string(name)


def dotted(path: Iterable[str]) -> str:
    """The path to a key, as ``solver.rtol``."""
    return ".".join(_shorten(_key(name)) for name in path)


def shown(item: Any) -> str:
    """A value as an error message shows it: on one line, and not long."""
    return _shorten(written(item))


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"


class ByOption(str):
    """An override that was given by an option of its own on the command line, such as ``--backend``.

    `text`: the path to the key and its value, as of every override. `option`: the option, which messages about the
    value name.
    """

    option: str

    def __new__(cls, text: str, option: str) -> "ByOption":
        made = super().__new__(cls, text)
        made.option = option
        return made
