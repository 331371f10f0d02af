# SPDX-License-Identifier: MIT
"""What a run of the tests says at its end."""

from types import SimpleNamespace
from typing import Any

from conftest import pytest_terminal_summary


class Terminal:
    """Stands in for the reporter of pytest."""

    def __init__(self, *reasons: str) -> None:
        skipped = [SimpleNamespace(longrepr=("a.py", number, f"Skipped: {why}")) for number, why in enumerate(reasons)]
        self.stats: dict[str, Any] = {"skipped": skipped} if skipped else {}
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(title)

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def test_skips_are_counted_by_reason() -> None:
    terminal = Terminal("no GPU", "no hipcc", "no GPU")
    pytest_terminal_summary(terminal)
    assert terminal.lines == ["tests skipped, by reason", "     2  no GPU", "     1  no hipcc"]
    none = Terminal()
    pytest_terminal_summary(none)
    assert none.lines == []
