# SPDX-License-Identifier: MIT
"""Collecting the mistakes in the data of a problem, so that all of them are named at once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from poisson.errors import CaseError

Path = tuple[str, ...]
"""The keys that lead to a value."""


class Mistakes:
    """The mistakes in arguments of Python so far, each with the path of its key."""

    def __init__(self) -> None:
        self._found: list[tuple[Path, str]] = []
        self._paths: set[Path] = set()
        self._inside: set[Path] = set()  # the tables and keys with a mistake at them or further inside

    def __bool__(self) -> bool:
        return bool(self._found)

    def dotted(self, path: Path) -> str:
        """A path as messages have it."""
        return ".".join(map(str, path))

    def shown(self, item: Any) -> str:
        """A value as messages have it, on one line."""
        return shown(item)

    def add(self, path: Path, message: str) -> None:
        self._found.append((path, f"{self.dotted(path)}: {message}"))
        self._paths.add(path)
        self._inside.update(path[:depth] for depth in range(len(path) + 1))

    def wrong(self, path: Path, item: Any, allowed: str, near: str | None = None) -> None:
        """`item` stands at `path`, where only `allowed` may; `near` is what may have been meant."""
        self.add(path, f"{self.shown(item)}; allowed: {allowed}{_question(near)}")

    def unknown(self, path: Path, keys: Sequence[str], near: str | None) -> None:
        """There is no key `path`, but `keys` in its table; `near` is what may have been meant."""
        self.add(path, f"unknown key; allowed: {', '.join(keys)}{_question(near)}")

    def missing(self, path: Path) -> None:
        """Nothing stands at `path`; no second mistake where a wrong value does."""
        if not self.touch(path):
            self.add(path, f"missing; allowed: {self.allowed(path)}")

    def allowed(self, path: Path) -> str:
        """The allowed values of a face, or of its α, in words."""
        face = 'a condition here, under "all", or a periodic axis'
        return face if len(path) == 2 else "a number >= 0, an expression, a function of x(, y, z) or an array"

    def replacing(self, path: Path, table: Mapping[str, Any] | None) -> str:
        """How to replace the condition of a face, or those of all faces where there is none for it, if not plainly."""
        return ""

    def touch(self, path: Path) -> bool:
        """Whether a mistake is known at this key, inside it, or in a table around it."""
        return path in self._inside or any(path[:depth] in self._paths for depth in range(len(path)))

    @contextmanager
    def at(self, path: Path) -> Iterator[None]:
        """Within, an error about a value, which says what is wrong, is a mistake at this key."""
        try:
            yield
        except CaseError as error:
            self.add(path, str(error))

    def lines(self) -> list[str]:
        """A line for each mistake."""
        return [line for _, line in self._found]

    def refuse(self) -> None:
        """Raise a CaseError with the lines, if there is one."""
        if self._found:
            raise CaseError(self.lines())


def shown(given: Any) -> str:
    """A value of Python on one line, and not long unless it is an expression."""
    text = " ".join(repr(given).split())
    return text if len(text) <= 60 or isinstance(given, str) else f"{text[:57]}..."


def _question(near: str | None) -> str:
    return f"; did you mean {near!r}?" if near else ""
