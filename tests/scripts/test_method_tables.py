# SPDX-License-Identifier: MIT
"""The tables that `scripts/method_tables.py` writes stand in the documents, and say what the registry does."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.places import ROOT

from poisson.backends.registry import NAMES
from poisson.solvers import registry
from scripts import method_tables
from scripts.method_tables import DOCUMENTS


@pytest.mark.parametrize(("name", "made"), DOCUMENTS.items(), ids=list(DOCUMENTS))
def test_the_documents_have_the_tables_of_the_registry(name: str, made: Callable[[str], str]) -> None:
    """Where this fails, run ``python scripts/method_tables.py``."""
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
    backends = ", ".join(f"`{name}`" for name in NAMES)
    assert f"| `other` | {backends} | yes | yes | yes | blocks |\n\n" in text
    assert "`jacobi` | comparison" not in text
    text = method_tables.case_file((ROOT / "docs/case-file.md").read_text("utf-8"))
    assert '| `"auto"` or `"other"` | `"auto"` | the method;' in text
    assert '| of `"auto"` and `"other"`: end at the tolerances, or' in text


def test_the_entries_are_those_of_the_checkout_with_the_script(tmp_path: Path) -> None:
    """Another checkout comes first on the path of modules, as an installed package would."""
    copied = ("poisson", "scripts/method_tables.py", *DOCUMENTS)
    for name in copied:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    use = registry.methods()["sor"].use
    [entry] = [path for path in (tmp_path / "poisson").rglob("*.py") if f'"{use}"' in path.read_text("utf-8")]
    entry.write_text(entry.read_text("utf-8").replace(f'"{use}"', '"an example"'), "utf-8")
    command = [sys.executable, str(tmp_path / "scripts" / "method_tables.py")]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    before, after = ((place / "docs/methods.md").read_text("utf-8") for place in (ROOT, tmp_path))
    assert after != before
    assert after == before.replace(f"| `sor` | {use} |", "| `sor` | an example |")


def test_a_document_without_the_table_is_refused() -> None:
    with pytest.raises(SystemExit, match="0 places in the document match"):
        method_tables.methods("nothing")
