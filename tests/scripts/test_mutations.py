# SPDX-License-Identifier: MIT
"""The changes of `scripts/mutations.py`: the list applies to the sources as they are, and the script can tell."""

import ast
import re
from pathlib import Path

import pytest

from scripts import mutations
from scripts.mutations import ROOT, Mutation, Tree, judged

CHANGES = mutations.mutations()


def test_there_are_enough_changes() -> None:
    assert len(CHANGES) >= 150
    assert len({(change.file, change.old, change.new) for change in CHANGES}) == len(CHANGES)
    native, kernels = ("native/", "poisson/kernels/")
    assert {part for part in (native, kernels) for change in CHANGES if change.file.startswith(part)} == {
        native,
        kernels,
    }


@pytest.mark.parametrize("file", sorted({change.file for change in CHANGES}))
def test_every_change_of_the_list_applies(file: str) -> None:
    source = (ROOT / file).read_text("utf-8")
    for change in CHANGES:
        if change.file != file:
            continue
        changed = change.applied(source)
        assert changed != source
        if file.endswith(".py"):
            ast.parse(changed)
        for test in change.tests:
            path, _, name = test.partition("::")
            text = (ROOT / "tests" / path).read_text("utf-8")
            assert not name or re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE), change.name


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a module of two lines, of which a test notices one."""
    root = tmp_path / "checkout"
    for name, text in (
        ("package/sizes.py", "SMALL = 1\nLARGE = 2\n"),
        ("tests/test_sizes.py", "from package.sizes import SMALL\n\ndef test_small():\n    assert SMALL == 1\n"),
        (
            "tests/test_endless.py",
            "from package.sizes import LARGE\n\ndef test():\n    while LARGE > 2:\n        pass\n",
        ),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    monkeypatch.setattr(mutations, "ROOT", root)
    monkeypatch.setattr(mutations, "COPIED", ("package", "tests"))
    monkeypatch.setenv("PYTHONPATH", "")
    return root


@pytest.mark.parametrize(
    ("old", "new", "test", "outcome"),
    [
        ("SMALL = 1", "SMALL = 3", "test_sizes.py", "killed"),
        ("LARGE = 2", "LARGE = 3", "test_sizes.py", "SURVIVED"),
        ("SMALL = 1", "SMALL = ", "test_sizes.py", "killed"),
        ("LARGE = 2", "LARGE = 3", "test_endless.py", "killed by time"),
        ("SMALL = 1", "SMALL = 3", "test_none.py", "BROKEN"),
        ("= ", "= 3 * ", "test_sizes.py", "BROKEN"),
    ],
)
def test_what_comes_of_a_change(checkout: Path, tmp_path: Path, old: str, new: str, test: str, outcome: str) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    limit = 1.0 if test == "test_endless.py" else 60.0
    assert judged(Tree(folder), Mutation("package/sizes.py", old, new, (test,)), limit)[0] == outcome
    # The checkout is never touched, and the copy is as before.
    for root in (checkout, folder):
        assert (root / "package/sizes.py").read_text("utf-8") == "SMALL = 1\nLARGE = 2\n"
