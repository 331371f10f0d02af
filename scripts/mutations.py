# SPDX-License-Identifier: MIT
"""Change one line at a time, and see whether a test notices.

    python scripts/mutations.py --list
    python scripts/mutations.py --workers=2
    python scripts/mutations.py --only='grid.py' --verbose

`mutations.toml` names for each file the tests that should notice, and the changes: a text that stands in the file once,
and what takes its place. The tree is copied to a temporary folder for each worker, so the checkout is not touched; a
change of native code is compiled there. A change that no test notices survives: either a test is missing, or the line.
"""

import contextlib
import importlib
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")
COPIED = ("poisson", "tests", "native", "scripts", "cases", "docs")
LIBRARY = Path("poisson/backends/openmp/libpoisson.so")
PRELOADED = ("numpy", "scipy.sparse.linalg", "scipy.fft", "h5py", "hypothesis", "fire", "rich", "_pytest")
"""Modules that take longest to import are imported once, and inherited by the processes that run the tests."""
BY_DEFAULT = "not emulated"
"""The tests that run by default: a change of Python code shows without the emulation of a GPU, which compiles for each
test."""
KILLED, SURVIVED, SLOW, BROKEN = "killed", "SURVIVED", "killed by time", "BROKEN"


@dataclass(frozen=True)
class Mutation:
    """A change.

    Parameters
    ----------
    file : str
        From the root of the checkout.
    old, new : str
        A text that stands in the file once, and what takes its place.
    tests : tuple of str
        Files in ``tests``, or tests in them, that should notice, in the order in which they run.
    chosen : str
        Which of their tests: pytest's option ``-k``.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    chosen: str = ""

    @property
    def name(self) -> str:
        """File and change on one line."""
        return f"{self.file}: {_one_line(self.old)}  ->  {_one_line(self.new) or '(nothing)'}"

    def applied(self, text: str) -> str:
        """The text of the file with the change.

        Raises
        ------
        ValueError
            If the old text does not stand in it exactly once.
        """
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: the old text stands {count} times in the file, not once")
        return text.replace(self.old, self.new)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def mutations(pattern: str = "") -> list[Mutation]:
    """The changes of the list whose name a regular expression finds."""
    found = []
    for entry in tomllib.loads(LIST.read_text("utf-8"))["file"]:
        for old, new, *own in entry["changes"]:
            found.append(Mutation(entry["path"], old, new, tuple(own or entry["tests"]), entry.get("k", BY_DEFAULT)))
    return [mutation for mutation in found if re.search(pattern, mutation.name)]


class Tree:
    """A copy of the checkout to change and to test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (*ROOT.glob("*.toml"), *ROOT.glob("*.md")):
            shutil.copy(path, folder)
        # Compiled Python files are known by the times of their sources, to the second.
        self._now = int(time.time())

    @contextlib.contextmanager
    def changed(self, mutation: Mutation) -> Iterator[None]:
        """Within, the tree has a change, and a library with it where it is one of native code."""
        path = self.folder / mutation.file
        before, library = path.read_text("utf-8"), self.folder / LIBRARY
        native = mutation.file.startswith("native/") or mutation.file.endswith("formulas.h")
        kept = library.read_bytes() if native and library.exists() else None
        self._write(path, mutation.applied(before))
        try:
            if native:
                self.build()
            yield
        finally:
            self._write(path, before)
            if kept is not None:
                library.write_bytes(kept)

    def build(self) -> None:
        """Compile the library.

        Raises
        ------
        CalledProcessError
            If it cannot be compiled.
        """
        build = self.folder / "build"
        if not build.exists():
            command = ["cmake", "-S", str(self.folder / "native"), "-B", str(build)]
            subprocess.run(command, check=True, capture_output=True)
        subprocess.run(["cmake", "--build", str(build)], check=True, capture_output=True)
        library = self.folder / LIBRARY
        library.unlink(missing_ok=True)
        shutil.copy(build / LIBRARY.name, library)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        self._now += 1
        if path.suffix == ".py":
            os.utime(path, (self._now, self._now))

    def test(self, tests: Iterable[str], chosen: str, limit: float) -> tuple[str, str]:
        """Run tests until one fails; what came of it, and what pytest said."""
        log = self.folder / "log.txt"
        child = os.fork()
        if child == 0:
            self._run(tests, chosen, log)
        end = time.monotonic() + limit
        while True:
            finished, status = os.waitpid(child, os.WNOHANG)
            if finished:
                break
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return SLOW, log.read_text("utf-8", "replace")
            time.sleep(0.05)
        # pytest's own codes: all passed, some failed, or none could be imported. A crash is noticed, too.
        code = os.waitstatus_to_exitcode(status)
        outcome = {0: SURVIVED, 3: BROKEN, 4: BROKEN, 5: BROKEN}.get(code, KILLED)
        return outcome, log.read_text("utf-8", "replace")

    def _run(self, tests: Iterable[str], chosen: str, log: Path) -> None:
        """In the child: run pytest on the copy, and end with its code."""
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(self.folder)
        os.environ["PYTHONPATH"] = str(self.folder)
        os.environ.pop("POISSON_LIBRARY", None)
        sys.path[:] = [str(self.folder), *(place for place in sys.path if Path(place or ".").resolve() != ROOT)]
        code = 3
        try:
            import pytest

            plugins = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "xdist.looponfail", "hypothesispytest")]
            options = ["-x", "-q", *plugins, "-o", "addopts=", "-k", chosen]
            code = int(pytest.main([*options, *(f"tests/{name}" for name in tests)]))
        finally:
            sys.stdout.flush()
            os._exit(code)


def judged(tree: Tree, mutation: Mutation, limit: float) -> tuple[str, str]:
    """The outcome of a change: `KILLED`, `SURVIVED`, `SLOW` or `BROKEN`, and what was said."""
    try:
        with tree.changed(mutation):
            return tree.test(mutation.tests, mutation.chosen, limit)
    except subprocess.CalledProcessError as error:
        return KILLED, error.stderr.decode("utf-8", "replace")
    except ValueError as error:
        return BROKEN, str(error)


def _work(number: int, parts: list[Mutation], limit: float, results: Any) -> None:
    with tempfile.TemporaryDirectory(prefix=f"mutations-{number}-") as name:
        tree = Tree(Path(name))
        for mutation in parts:
            start = time.monotonic()
            outcome, said = judged(tree, mutation, limit)
            results.put((mutation, outcome, said, time.monotonic() - start))


class Commands:
    """See the top of this file."""

    def __call__(
        self,
        only: str = "",
        workers: int = 1,
        limit: float = 300.0,
        list: bool = False,
        verbose: bool = False,
        trust: bool = False,
    ) -> None:
        """Make the changes and run their tests.

        Parameters
        ----------
        only : str
            A regular expression for the names of the changes, which have the file first.
        workers : int
            Processes, each with its own copy of the tree.
        limit : float
            Seconds for the tests of a change; one that takes longer is noticed, too.
        list : bool
            Show the changes and do nothing.
        verbose : bool
            Show what pytest said of those that were not killed.
        trust : bool
            The tests are known to pass without a change; otherwise they run once before.
        """
        chosen = mutations(only)
        if list:
            print("\n".join(mutation.name for mutation in chosen), f"\n{len(chosen)} changes")
            return
        for name in PRELOADED:
            importlib.import_module(name)
        if not trust:
            self._require_tests_to_pass(chosen, limit)
        results: Any = multiprocessing.get_context("fork").Queue()
        # Native changes together, so that only one worker compiles the library.
        parts = [chosen[number::workers] for number in range(workers)]
        processes = [
            multiprocessing.get_context("fork").Process(target=_work, args=(number, part, limit, results))
            for number, part in enumerate(parts)
        ]
        for process in processes:
            process.start()
        counts: dict[str, int] = {}
        for _ in chosen:
            mutation, outcome, said, seconds = results.get()
            counts[outcome] = counts.get(outcome, 0) + 1
            print(f"{outcome:>14} {seconds:6.1f} s  {mutation.name}", flush=True)
            if outcome == BROKEN or (verbose and outcome != KILLED):
                print(said, flush=True)
        for process in processes:
            process.join()
        print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
        if set(counts) - {KILLED, SLOW}:
            raise SystemExit(1)

    @staticmethod
    def _require_tests_to_pass(chosen: Iterable[Mutation], limit: float) -> None:
        """A change is not noticed by a test that fails without it."""
        sets: dict[str, dict[str, None]] = {}
        for mutation in chosen:
            sets.setdefault(mutation.chosen, {}).update(dict.fromkeys(mutation.tests))
        with tempfile.TemporaryDirectory(prefix="mutations-") as name:
            tree = Tree(Path(name))
            for keyword, tests in sets.items():
                outcome, said = tree.test(tests, keyword, limit * len(tests))
                if outcome != SURVIVED:
                    raise SystemExit(f"the tests do not pass without a change:\n{said}")


if __name__ == "__main__":
    import fire

    fire.Fire(Commands())
