# SPDX-License-Identifier: MIT
"""Variations of a case: every combination of the values that some of its keys are to take."""

import itertools
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poisson.case import toml
from poisson.case.reading import check_keys, value_of
from poisson.errors import CaseError
from poisson.words import quantity

MOST = 10_000
"""Combinations beyond which it is a slip of the hand."""

_LONGEST_VALUE = 32
"""Letters."""
_LONGEST_NAME = 160
"""Bytes; systems take 255, with what distinguishes a checkpoint among them."""
_OPENING, _CLOSING, _QUOTES = "([{", ")]}", "\"'"


@dataclass(frozen=True)
class Variation:
    """One combination."""

    values: dict[str, Any]  # What the keys are set to, by their paths, in the order in which these were given.
    overrides: tuple[str, ...]  # The same as overrides for `poisson.case.load`.
    name: str  # A name for its files: that of the case and the values; the same in every set of variations.


def variations(path: str | Path, settings: Sequence[str]) -> list[Variation]:
    """Every combination of the values of some keys, the last key changing fastest.

    `path`: the case file. `settings`: as overrides, but each with one value or several, separated by commas:
    ``solver.rtol=1e-4,1e-8``. Commas in brackets and in quotes belong to a value. Raises `CaseError` if the file cannot
    be read, a setting has no value or one twice, a key is given twice, or a value may not stand at its key whatever the
    others are.
    """
    axes: dict[str, list[str]] = {}
    for setting in settings:
        key, sign, right = setting.partition("=")
        key = key.strip()
        if not (sign and key):
            raise CaseError(f"--set {toml.shown(setting)}; allowed: KEY=VALUE,VALUE,..., as in solver.rtol=1e-4,1e-8")
        if key in axes:
            raise CaseError(f"--set {key} is given twice; write its values in one, as {key}=VALUE,VALUE")
        axes[key] = _apart(key, right)
    first = [f"{key}={texts[0]}" for key, texts in axes.items()]
    check_keys(path, first)
    for place, (key, texts) in enumerate(axes.items()):
        for text in texts[1:]:
            check_keys(path, [*first[:place], f"{key}={text}", *first[place + 1 :]])
    count = math.prod(map(len, axes.values()))
    if count > MOST:
        raise CaseError(f"{quantity(count, 'combination')}; at most {MOST} in one sweep: take fewer values")
    shorter = _shorter(list(axes))
    found = []
    for combination in itertools.product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True))
        values = {key: value_of(text) for key, text in chosen.items()}
        overrides = tuple(f"{key}={text}" for key, text in chosen.items())
        found.append(Variation(values, overrides, _name(Path(path).stem, shorter, values)))
    return found


def values_of(text: str) -> list[str]:
    """The parts of a text between the commas that are neither in brackets nor in quotes."""
    parts, start, depth, quote, escaped = [], 0, 0, "", False
    for place, character in enumerate(text):
        if quote:
            ends = character == quote and not escaped
            escaped = quote == '"' and character == "\\" and not escaped
            quote = "" if ends else quote
        elif character in _QUOTES:
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:place])
            start = place + 1
    return [part.strip() for part in (*parts, text[start:])]


def _apart(key: str, right: str) -> list[str]:
    """The values of a setting as texts."""
    texts = values_of(right)
    if not all(texts):
        raise CaseError(f"--set {key}={right.strip()}: a value is missing next to a comma or at the end")
    known: dict[str, str] = {}
    for text in texts:
        # A number and a text of the same letters are different.
        written = repr(value_of(text))
        if written in known:
            raise CaseError(f"--set {key}: {toml.shown(value_of(text))} is given twice; give it once")
        known[written] = text
    return texts


def _shorter(keys: Sequence[str]) -> dict[str, str]:
    """The last parts of keys, of those that share them as many as tell them apart."""
    shorter = {}
    for key in keys:
        parts = key.split(".")
        for count in range(1, len(parts) + 1):
            end = ".".join(parts[-count:])
            if sum(f".{other}".endswith(f".{end}") for other in keys) == 1:
                break
        shorter[key] = end
    return shorter


def _name(case: str, shorter: dict[str, str], values: dict[str, Any]) -> str:
    """A name that a file may have, of printable letters, and no two for the same values.

    What a name cannot hold, or not at that length, is told apart by a checksum.
    """
    parts = [f"{shorter[key]}={_spelt(value)}" for key, value in values.items()]
    whole = "_".join([_plain(case), *parts])
    held = whole.encode("utf-8", "replace")
    return whole if len(held) <= _LONGEST_NAME else f"{held[:_LONGEST_NAME].decode(errors='ignore')}-{_checksum(whole)}"


def _spelt(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
        return "x".join(map(str, value))
    whole = value if isinstance(value, str) else toml.written(value)
    plain = re.sub(r"[^\w.+-]+", "-", whole)
    plain = plain.strip("-") if plain != whole else plain
    # Of a text that reads as a number, too, the quotes would be missed.
    if plain == whole and len(plain) <= _LONGEST_VALUE and value_of(plain) == value:
        return plain
    return f"{plain[:_LONGEST_VALUE]}-{_checksum(repr(value))}"


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() and character != "/" else "-" for character in text)


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'replace')):08x}"
