# SPDX-License-Identifier: MIT
"""The tables that `scripts/method_tables.py` writes stand in the documents, and say what the registry does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.places import ROOT

from poisson.solvers import registry
from scripts import method_tables
from scripts.method_tables import DOCUMENTS


@pytest.mark.parametrize(("name", "made"), DOCUMENTS.items(), ids=list(DOCUMENTS))
def test_the_documents_have_the_tables_of_the_registry(name: str, made: Callable[[str], str]) -> None:
    """Where this fails, run ``python -m scripts.method_tables``."""
    text = (ROOT / name).read_text("utf-8")
    assert made(text) == text


def test_an_entry_changes_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    sor = registry.methods()["sor"]
    other = replace(sor, name="other", use="an example", keys=frozenset(("stop",)), mixed=True)
    monkeypatch.setattr(registry, "methods", lambda: {"other": other})
    text = method_tables.methods((ROOT / "docs/methods.md").read_text("utf-8"))
    assert "| `other` | an example | a sweep of both colours |" in text
    assert "| `stop` | `auto`, `other` |" in text
    assert '| `run.precision = "mixed"` | `auto`, `other`, and `cg` with' in text
    assert "| `other` | `gpu`, `openmp`, `numpy` | yes | yes | yes | blocks |\n\n" in text
    assert "`jacobi` | comparison" not in text
    text = method_tables.case_file((ROOT / "docs/case-file.md").read_text("utf-8"))
    assert '| `"auto"` or `"other"` | `"auto"` | the method;' in text
    assert '| of `"auto"` and `"other"`: end at the tolerances, or' in text


def test_the_entries_of_an_installed_package_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """``python scripts/method_tables.py`` imports the installed package, which may be older than the sources."""
    monkeypatch.setattr("poisson.__file__", "/elsewhere/poisson/__init__.py")
    with pytest.raises(SystemExit, match=r"run python -m scripts\.method_tables"):
        method_tables.main()


def test_a_document_without_the_table_is_refused() -> None:
    with pytest.raises(SystemExit, match="0 places in the document match"):
        method_tables.methods("nothing")
