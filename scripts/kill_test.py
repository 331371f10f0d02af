# SPDX-License-Identifier: MIT
"""Kill a checkpointed solve at random moments, and see that nothing is lost.

Usage: python scripts/kill_test.py [--moments N] [--seed S] [--every K] [KEY=VALUE ...]

A solve that writes checkpoints is killed by SIGKILL at a moment chosen at random, and resumed, and killed again, until
it ends; then another one begins, until there were N moments (50). After each, whatever stands beside the result must be
whole; what is reached at the end must have the bits, the iterations and the history of the solve that nobody has
killed, and nothing else may be left in the folder. K (20) is how many iterations lie between two checkpoints; keys of
the case may be set, such as domain.shape=[65,65]. The case is one for jacobi, by default on numpy.

Each solve is the command itself, in a process that is forked from this one, where all is loaded: so most moments lie in
the loop and in the writing of checkpoints. Exit code 0 if all is well.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

CASE = """
[equation]
f = "sin(pi*x)*exp(y)"
[domain]
lower = [0, 0]
upper = [1, 1]
shape = [21, 17]
[boundary]
all = { dirichlet = "x" }
[solver]
method = "jacobi"
[run]
backend = "numpy"
"""

LOADED = ("fire", "h5py", "poisson.case.build", "poisson.cli.terminal", "poisson.cli.summary", "poisson.cli.journal",
          "poisson.output.result", "poisson.perf.traffic", "poisson.perf.usage", "poisson.run.run",
          "poisson.backends.numpy")  # fmt: skip


def begin(words: Sequence[str]) -> int:
    """Begin the command in a process of its own; its number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        from poisson.cli import main

        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        code = main(words)
    finally:
        os._exit(code)


def ended(child: int, patience: float) -> int | None:
    """The exit code of a process, negative by a signal; None where it runs on after so many seconds."""
    until = time.monotonic() + patience
    while True:
        number, status = os.waitpid(child, os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.002)


def require_whole(file: Path) -> int:
    """Make sure that every result and checkpoint can be read; how many checkpoints there are."""
    from poisson.output import checkpoint
    from poisson.output.description import describe

    kept = checkpoint.beside(file)
    for path in [*kept, *filter(Path.exists, [file])]:
        describe(path)  # reads every value, and raises an error of a file that is not whole
    if len(kept) > checkpoint.MOST_KEPT + 1:
        raise AssertionError(f"{len(kept)} checkpoints are kept")
    return len(kept)


def run(folder: Path, moments: int, seed: int, every: int, settings: Sequence[str]) -> list[str]:
    """Kill at so many moments; what was wrong."""
    import numpy as np

    import poisson

    for module in LOADED:
        import_module(module)
    case = folder / "case.toml"
    case.write_text(CASE)
    file, whole = folder / "out" / "a.h5", folder / "whole" / "a.h5"
    words = ["solve", str(case), "--quiet", "--resume", *(word for each in settings for word in ("--set", each))]
    keeping = [*words, f"--output={file}", "--set", f"output.checkpoint_every={every}"]
    for each in (file, whole):
        each.parent.mkdir()
    if (code := ended(begin([*words, f"--output={whole}"]), 600.0)) != 0:
        return [f"the solve that nobody kills ends with {code}"]
    start = time.monotonic()
    # With its checkpoints, so that moments lie anywhere in it.
    if (code := ended(begin(keeping), 600.0)) != 0:
        return [f"the solve that writes checkpoints ends with {code}"]
    seconds = time.monotonic() - start
    expected = poisson.load(whole)
    chance, wrong, killed, resumed, finished = random.Random(seed), [], 0, 0, 0
    while killed < moments or not finished:
        for path in file.parent.iterdir():
            path.unlink()
        while True:
            child = begin(keeping)
            code = ended(child, chance.uniform(0.0, seconds) if killed < moments else 600.0)
            if code is not None:
                break
            os.kill(child, signal.SIGKILL)
            if ended(child, 60.0) == -signal.SIGKILL:
                killed += 1
            resumed += require_whole(file) > 0
        if code != 0:
            return [f"after {killed} moments a solve that was resumed ends with {code}"]
        finished += 1
        found = poisson.load(file)
        if np.asarray(found.u).tobytes() != np.asarray(expected.u).tobytes():
            wrong.append(f"after {killed} moments: u has other bits")
        if (found.iterations, found.history) != (expected.iterations, expected.history):
            wrong.append(f"after {killed} moments: {found.iterations} iterations, or another history")
        if left := sorted(path.name for path in file.parent.iterdir() if path.name not in ("a.h5", "a.xmf")):
            wrong.append(f"after {killed} moments: {', '.join(left)} is left")
    print(f"{killed} moments, {resumed} of them with checkpoints; {finished} solves ended, {len(wrong)} wrong")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = run(Path(folder), given.moments, given.seed, given.every, given.settings)
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
