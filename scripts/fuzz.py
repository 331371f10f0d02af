# SPDX-License-Identifier: MIT
"""Give the package random inputs, most of them nearly right: no traceback, no halt, no growth of memory.

    python scripts/fuzz.py [--inputs=100000] [--first=0] [--targets=NAME,...] [--patience=60]
    python scripts/fuzz.py --again=NAME:SEED

What is read, and what must hold: fuzz_targets.py; the inputs, each of which is one seed: fuzz_inputs.py. Every target
has a process of its own, which is watched from here: it may crash, or come to no end, and goes on with the next seed.
At the end a table counts what became of the inputs; the exit code is 1 if one is a defect.
"""

import os
import select
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

PATIENCE = 60.0
"""Seconds that one input may take on a busy machine; the HDF5 library is given 30 before it has come to a halt."""

ADDRESSES = 2 << 30
"""Bytes of addresses that a process may take beside those of the modules it has loaded."""

GROWTH = 32 << 20
"""Bytes by which the memory of a process may grow, once it has seen a third of its inputs."""

SHOWN = 5
"""Defects of a target that are shown whole."""


@dataclass
class Found:
    """The outcome of the inputs of one target: their number, the seconds, the growth in bytes, and the defects."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    grown: int = 0
    defects: list[tuple[int, str]] = field(default_factory=list)


def watch(name: str, seeds: range, patience: float = PATIENCE) -> Found:
    """Try the inputs of a target in a process of its own, and in another one after each that it does not survive.

    Several targets, with commas between them, take turns.
    """
    found, begin = Found(), time.monotonic()
    while seeds:
        seeds = _watch(name, seeds, patience, found)
    found.seconds = time.monotonic() - begin
    if found.grown > GROWTH:
        found.defects.append((seeds.start, f"the memory of the process has grown by {found.grown >> 20} MiB"))
    return found


def _watch(name: str, seeds: range, patience: float, found: Found) -> range:
    """Watch one process; what is left of the seeds when it has ended."""
    command = [sys.executable, __file__, "--work", name, str(seeds.start), str(seeds.stop)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    at, rest, memory = seeds.start, b"", [0]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, env=environment) as process,
    ):
        assert process.stdout is not None
        started = False
        # Loading the modules may take longer than an input.
        while select.select([process.stdout], [], [], patience if started else 10 * patience)[0]:
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                break
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                started = True
                kind, _, text = line.decode().partition(" ")
                if kind == "begin":
                    at = int(text)
                elif kind == "memory":
                    memory.append(int(text))
                elif kind == "defect":
                    found.outcomes["defect"] += 1
                    found.defects.append((at, text.replace("\t", "\n")))
                else:
                    found.outcomes[kind] += 1
        else:
            process.kill()
            found.outcomes["halt"] += 1
            found.defects.append((at, f"no end within {patience:g} s"))
            return range(at + 1, seeds.stop)
        code = process.wait()
        said.seek(0)
        if code:
            found.outcomes["crash"] += 1
            found.defects.append((at, f"the process ended with {code}\n{said.read().decode(errors='replace')[-2000:]}"))
            return range(at + 1, seeds.stop)
    found.grown = max(found.grown, memory[-1] - memory[1 + (len(memory) - 1) // 3] if len(memory) > 3 else 0)
    return range(0)


def work(name: str, first: int, stop: int) -> None:
    """Try inputs, and say to standard output what becomes of each; the process that `watch` starts."""
    import resource
    import warnings

    from fuzz_targets import attempt

    warnings.simplefilter("ignore")
    names = name.split(",")
    out = os.dup(1)
    os.dup2(2, 1)
    page = resource.getpagesize()

    def pages(column: int) -> int:
        return int(Path("/proc/self/statm").read_text().split()[column]) * page

    with tempfile.TemporaryDirectory() as folder:
        limit = pages(0) + ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        every = max(1, (stop - first) // 30)
        for seed in range(first, stop):
            os.write(out, b"begin %d\n" % seed)
            try:
                outcome = attempt(names[seed % len(names)], seed, Path(folder))
            except Exception:
                outcome = "defect " + traceback.format_exc().replace("\n", "\t").encode("ascii", "replace").decode()
            os.write(out, outcome.encode() + b"\n")
            if (seed - first) % every == every - 1:
                os.write(out, b"memory %d\n" % pages(1))


def main(inputs: int = 100_000, first: int = 0, targets: str = "", patience: float = PATIENCE) -> dict[str, Found]:
    """Try inputs on targets, and print what became of them.

    Parameters
    ----------
    inputs : int
        How many, of all targets together.
    first : int
        The first seed.
    targets : str
        Names of targets with commas between them; by default all.
    patience : float
        Seconds after which an input has come to no end.

    Returns
    -------
    dict
        What became of the inputs of each target.
    """
    from fuzz_targets import TARGETS

    names = targets.split(",") if targets else list(TARGETS)
    parts = sum(TARGETS[name][1] for name in names)
    every = {}
    for name in names:
        count = max(1, round(inputs * TARGETS[name][1] / parts))
        every[name] = found = watch(name, range(first, first + count), patience)
        total = sum(found.outcomes.values())
        outcomes = ", ".join(f"{number} {kind}" for kind, number in found.outcomes.most_common())
        print(
            f"{name:13s} {total:7d} inputs in {found.seconds:6.1f} s ({total / found.seconds:6.0f} /s), "
            f"grew by {found.grown / 2**20:5.1f} MiB: {outcomes}",
            flush=True,
        )
        for seed, text in found.defects[:SHOWN]:
            print(f"  {name}:{seed}\n    " + "\n    ".join(text.rstrip().splitlines()[-12:]), flush=True)
        if len(found.defects) > SHOWN:
            print(f"  and {', '.join(str(seed) for seed, _ in found.defects[SHOWN:50])}")
    total = sum(sum(found.outcomes.values()) for found in every.values())
    print(f"{total} inputs, {sum(len(found.defects) for found in every.values())} defects")
    return every


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        raise SystemExit(0)
    import fire

    def command(
        inputs: int = 100_000, first: int = 0, targets: str = "", patience: float = PATIENCE, again: str = ""
    ) -> None:
        if again:
            from fuzz_targets import attempt

            name, _, seed = again.partition(":")
            folder = Path(tempfile.mkdtemp())
            print(f"the files of this input are in {folder}", flush=True)
            print(attempt(name, int(seed), folder))
            return
        chosen = targets if isinstance(targets, str) else ",".join(targets)
        raise SystemExit(1 if any(found.defects for found in main(inputs, first, chosen, patience).values()) else 0)

    command.__doc__ = __doc__
    fire.Fire(command)
