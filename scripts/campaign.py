# SPDX-License-Identifier: MIT
"""Solve random problems and judge every solution against an independent reference.

    python scripts/campaign.py --seeds=0:2000 [--backend=openmp|numpy|gpu] [--workers=2] [--only=KIND] [--verbose]

Each seed is a problem and a way to solve it (campaign_problems.py), judged with a matrix that shares no code with the
package (campaign_reference.py, campaign_judge.py). At the end a table counts what became of them; the exit code is 1 if
any is a defect. To repeat one: ``--seeds=N:N+1 --verbose``.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from campaign_judge import DEFECTS, OUTCOMES, Verdict, judge
from campaign_problems import KINDS, TURNS, Trial, draw

BLOCK = 20
"""Seeds that a worker takes at a time."""
SHOWN = 12
"""Seeds of a defect that the table names."""


def campaign(seeds: range, backend: str = "auto") -> list[tuple[int, list[Verdict]]]:
    """The verdicts of some seeds, one after the other."""
    return [(seed, judge(draw(seed), backend)) for seed in seeds]


def main(
    seeds: str = "0:300", backend: str = "auto", workers: int = 1, only: str = "", verbose: bool = False
) -> dict[str, list[int]]:
    """Solve and judge the problems of seeds.

    Parameters
    ----------
    seeds : str
        ``FIRST:LAST+1``, or one number.
    backend : str
        ``auto``, ``gpu``, ``openmp`` or ``numpy``.
    workers : int
        Processes.
    only : str
        A kind of problem, to leave out the others.
    verbose : bool
        Whether to show each problem and each verdict.

    Returns
    -------
    dict
        The seeds by what became of them.
    """
    # Threads that wait for work by turning would take the cores from the other workers, and so do those of NumPy.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    first, _, last = str(seeds).replace(" ", "").partition(":")
    chosen = range(int(first), int(last) if last else int(first) + 1)
    if only and only not in KINDS:
        raise SystemExit(f"only: {only!r}; allowed: {', '.join(KINDS)}")
    wanted = [seed for seed in chosen if not only or TURNS[seed % len(TURNS)] == only]
    found: dict[str, list[int]] = defaultdict(list)
    for seed, verdicts in _verdicts(wanted, backend, workers):
        if verbose:
            print(describe(draw(seed), backend), flush=True)
        for name in dict.fromkeys(verdict.name for verdict in verdicts):
            found[name].append(seed)
        for verdict in verdicts:
            if verbose or verdict.bad:
                print(f"{seed:8d}  {TURNS[seed % len(TURNS)]:9s} {verdict.name:16s} {verdict.detail}", flush=True)
    print(table(found, len(wanted)), flush=True)
    return dict(found)


def _verdicts(seeds: list[int], backend: str, workers: int) -> Iterator[tuple[int, list[Verdict]]]:
    blocks = [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]
    if workers <= 1:
        for seed in seeds:
            yield from campaign(range(seed, seed + 1), backend)
        return
    # A child by fork would share threads that do not live in it.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    futures: list[Future[Any]] = [pool.submit(_block, block, backend) for block in blocks]
    for block, future in zip(blocks, futures, strict=True):
        try:
            yield from future.result()
        except BrokenProcessPool:
            yield block[0], [Verdict("crash", f"a process died in the seeds {block[0]} to {block[-1]} or later")]
            return


def _block(seeds: list[int], backend: str) -> list[tuple[int, list[Verdict]]]:
    return [pair for seed in seeds for pair in campaign(range(seed, seed + 1), backend)]


def describe(trial: Trial, backend: str) -> str:
    """A problem, and how to make it again."""
    box = trial.box
    lines = [f"seed {trial.seed}, {trial.kind}: {box.shape} nodes on {box.lower} to {box.upper}"]
    for name in ("a", "c"):
        values = box.values(getattr(box, name))
        given = getattr(box, name)
        shown = repr(given) if not hasattr(given, "shape") else "array"
        lines.append(f"  {name} = {shown}, from {values.min():.4g} to {values.max():.4g}, {box.mean} mean")
    lines += [f"  {face}: {condition}" for face, condition in trial.boundary().items()]
    for solve in trial.solves:
        values = box.values(solve.f)
        shown = repr(solve.f) if not hasattr(solve.f, "shape") else "array"
        lines.append(f"  f = {shown}, up to {abs(values).max():.4g}; guess {solve.guess}")
    lines.append(f"  options {trial.options}")
    lines += [
        "  again, in the folder scripts/:",
        f"    trial = campaign_problems.draw({trial.seed})",
        "    problem = poisson.Problem.on_box(**trial.arguments(trial.solves[0].f))",
        f"    poisson.Solver(problem, backend={backend!r}, **trial.options_on({backend!r})).solve()",
    ]
    return "\n".join(lines)


def table(found: dict[str, list[int]], total: int) -> str:
    """How many seeds ended in which way, and which of them are defects."""
    lines = [f"{total} problems"]
    for name, meaning in {**OUTCOMES, **DEFECTS}.items():
        seeds = found.get(name, [])
        if not seeds and name in OUTCOMES:
            continue
        shown = ", ".join(map(str, seeds[:SHOWN])) + (", …" if len(seeds) > SHOWN else "") if name in DEFECTS else ""
        lines.append(f"{name:16s} {len(seeds):6d}  {shown or meaning}")
    bad = sorted({seed for name in DEFECTS for seed in found.get(name, [])})
    lines.append(f"{len(bad)} with a defect")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        import fire
    except ModuleNotFoundError:
        raise SystemExit(
            "the command line needs fire: pip install fire; or call campaign.main(seeds='0:300')"
        ) from None

    def command(
        seeds: str = "0:300", backend: str = "auto", workers: int = 1, only: str = "", verbose: bool = False
    ) -> None:
        results = main(seeds, backend, workers, only, verbose)
        raise SystemExit(1 if any(results.get(name) for name in DEFECTS) else 0)

    command.__doc__ = main.__doc__
    fire.Fire(command)
