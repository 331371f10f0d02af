# SPDX-License-Identifier: MIT
"""The command `check`: what would become of a case, before anything is computed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from poisson.cli.terms import EXIT_ERROR, EXIT_OK, as_json, complain, naming, overrides, rank_count, say
from poisson.parallel.communicator import Communicator
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.run.check import Findings as Found

LONGEST_TEXT = 60
"""The most characters of a value in a table."""

MOST_GRIDS = 4

MEANINGS = {
    "dirichlet": "dirichlet: u = value",
    "neumann": "neumann: a du/dn = value",
    "robin": "robin: a du/dn + alpha u = value",
    "a": "a: inside it is value",
    "floating": "floating: its charge is value",
}
"""The kinds of conditions as equations, with their signs; n points out of the box, and into bodies."""


@dataclass(frozen=True)
class Check:
    case: str
    overrides: tuple[str, ...]
    brief: bool = False
    json: bool = False
    ranks: int | None = None

    @property
    def quiet(self) -> bool:
        """Silence the log of the solver's parts, whose findings the report has."""
        return True

    def execute(self, communicator: Communicator) -> int:
        from poisson.case import load
        from poisson.cli.solving import OPTIONS
        from poisson.discrete.share import agreed
        from poisson.errors import OutputError
        from poisson.output import result
        from poisson.run.check import check as found_of

        with agreed(communicator):
            case = load(self.case, self.overrides)
        found = found_of(case, comm=communicator)
        mistakes = list(found.mistakes)
        if communicator.rank == 0:
            try:
                with naming(OPTIONS):
                    result.check(case.output.file, found.result_bytes)
            except OutputError as error:
                mistakes.append(str(error))
        code = EXIT_ERROR if mistakes else EXIT_OK
        if self.json:
            say(as_json(record_of(found, mistakes, code)))
        elif not self.brief:
            say(report(found, mistakes))
        for concern in found.concerns if self.brief or self.json else ():
            complain(f"warning: {concern.line}")
        for line in mistakes:
            complain(f"error: {line}")
        return code


def check(
    case: str,
    *,
    set: Sequence[str] = (),
    backend: str | None = None,
    ranks: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> Check:
    """Check a case without solving it: how it would run here, and what may go wrong.

    Usage: python -m poisson check CASE [--set KEY=VALUE ...] [--backend NAME] [--ranks N] [--json] [--quiet]

      CASE             the case file (TOML)
      --set KEY=VALUE  override a key of the case file; may be given several times
      --backend NAME   {backends}; the same as --set run.backend=NAME
      --ranks N        check what N processes on this machine would do; leave it out under mpirun or srun
      --json           print one JSON object instead of the report
      --quiet          (or -q) show nothing but warnings and errors

    Nothing is solved or written, and no array of the size of the grid is made: expressions are evaluated at some of the
    nodes. docs/running.md explains the report and every warning. 'solve' makes the same checks first.

    Examples:
      python -m poisson check cases/unit_square.toml
      python -m poisson check cases/cube.toml --set domain.shape=[2049,2049,2049] --backend gpu

    Exit codes: 0 the case can run (perhaps with warnings), 2 it cannot, for the reasons shown, 130 interrupted."""
    return Check(case, overrides(set, backend=backend), quiet, json, rank_count(ranks))


def report(found: Found, mistakes: Sequence[str]) -> str:
    """A check for people."""
    from poisson.cli.terminal import aligned, table

    problem = found.case.problem
    tables = tomllib.loads(found.case.text)
    equation = tables["equation"]
    lines = [("equation", problem.equation)]
    lines += [(name, _shown(equation[name])) for name in ("f", "a", "c") if name in equation]
    if parameters := tables.get("parameters"):
        lines.append(("parameters", ", ".join(f"{name} = {value:g}" for name, value in parameters.items())))
    lines.append(("grid", _grid(found)))
    parts = [problem.title or "case", "", aligned(lines), ""]
    rows = [(face, MEANINGS.get(kind, kind), value, alpha) for face, kind, value, alpha in _faces(tables["boundary"])]
    parts += [table(("face", "condition", "value", "alpha"), rows), ""]
    if bodies := tables.get("body"):
        parts += [table(("body", "condition", "value", "alpha"), _bodies(bodies)), ""]
    lines = [("singular", _singular(found)), ("coarsening", _grids(found.grids))]
    plan = found.plan
    if plan is not None:
        why = ", asked for" if plan.reason == "asked for" else f", as {plan.reason}"
        lines += [
            ("method", plan.method + why),
            ("precision", plan.precision),
            (
                "backend",
                f"{plan.backend}: {plan.device}" + (f", {quantity(found.ranks, 'rank')}" if found.ranks > 1 else ""),
            ),
            *(("memory", line) for line in _memory(found)),
            ("time", plan.expectation),
        ]
    lines.append(("output", f"{found.case.output.file}, about {_size(found.result_bytes)}"))
    parts += [aligned(lines), ""]
    parts += [f"warning: {concern.line}" for concern in found.concerns]
    if mistakes:
        some = "the reason" if len(mistakes) == 1 else f"{len(mistakes)} reasons"
        parts.append(f"the case cannot run, for {some} below")
    else:
        count = len(found.concerns)
        parts.append("the case can run" + (f", with {quantity(count, 'warning')}" if count else ""))
    return "\n".join(parts)


def record_of(found: Found, mistakes: Sequence[str], code: int) -> dict[str, Any]:
    """A check for programs, as docs/running.md describes it."""
    case, plan, compatibility = found.case, found.plan, found.compatibility
    grid, tables = case.problem.lattice, tomllib.loads(case.text)
    names = ("face", "condition", "value", "alpha")
    record: dict[str, Any] = {
        "command": "check",
        "title": case.problem.title,
        "runs": not mistakes,
        "exit_code": code,
        "equation": case.problem.equation,
        "shape": grid.shape,
        "lower": grid.lower,
        "upper": grid.upper,
        "spacing": grid.spacing,
        "periodic": grid.periodic,
        "faces": [dict(zip(names, (cell or None for cell in row), strict=True)) for row in _faces(tables["boundary"])],
        "bodies": [
            dict(zip(("body", *names[1:]), (cell or None for cell in row), strict=True))
            for row in _bodies(tables.get("body", ()))
        ],
        "singular": found.singular,
        "defect": compatibility.relative if compatibility else None,
        "subtracted": compatibility.shift if compatibility else None,
        "grids": found.grids,
        "method": plan.method if plan else None,
        "reason": plan.reason if plan else None,
        "precision": plan.precision if plan else None,
        "backend": plan.backend if plan else None,
        "device": plan.device if plan else None,
        "ranks": found.ranks,
        "expected_seconds": plan.seconds if plan else None,
        "memory": [
            {"place": need.place, "needed": need.size, "free": need.free} for need in (plan.needs if plan else ())
        ],
        "file": case.output.file,
        "result_bytes": found.result_bytes,
        "warnings": [asdict(concern) for concern in found.concerns],
        "errors": list(mistakes),
    }
    return record


def _grid(found: Found) -> str:
    grid = found.case.problem.lattice
    nodes = " x ".join(map(str, grid.shape))
    box = " x ".join(f"[{low:g}, {high:g}]" for low, high in zip(grid.lower, grid.upper, strict=True))
    spacing = " x ".join(f"{h:.4g}" for h in grid.spacing)
    total = f" ({grid.nodes:.4g} in all)" if grid.dimension > 1 else ""
    return f"{nodes} nodes{total} on {box}, spacing {spacing}"


def _faces(boundary: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """A row for each face, or patch of one, or for both of a periodic axis: where, what, its value and α, as given."""
    rows = []
    for name, condition in boundary.items():
        if isinstance(condition, str):
            rows.append((name, condition, "", ""))
            continue
        for part in condition if isinstance(condition, list) else [condition]:
            alpha, where = part.get("alpha"), part.get("where", "the rest")
            kind, value = next(item for item in part.items() if item[0] not in ("alpha", "where"))
            face = name if part is condition else f"{name}: {_shown(where)}"
            rows.append((face, kind, _shown(value), "" if alpha is None else _shown(alpha)))
    return rows


def _bodies(bodies: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """A row for each body, as the case has it."""
    rows = []
    for number, body in enumerate(bodies, start=1):
        kind = next(key for key in MEANINGS if not (body.get(key) is None or body[key] is False))
        alpha, value = body.get("alpha"), body.get("charge", 0.0) if kind == "floating" else body[kind]
        shown = "" if alpha is None else _shown(alpha)
        rows.append((body.get("name") or f"body{number}", MEANINGS[kind], _shown(value), shown))
    return rows


def _shown(value: Any) -> str:
    """A value as it stands in the case, on one line."""
    if isinstance(value, Mapping):
        within = f" ({value['dataset']})" if "dataset" in value else ""
        return f"{value['file']}{within}"
    text = " ".join(f"{value:g}".split()) if isinstance(value, float) else " ".join(str(value).split())
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def _singular(found: Found) -> str:
    if not found.singular:
        return "no"
    begin = "yes, the mean of u is set to zero"
    compatibility = found.compatibility
    if compatibility is None:
        return begin
    if compatibility.shift == 0.0:
        return f"{begin}; f and the fluxes balance"
    about = "about " if compatibility.estimated else ""
    return (
        f"{begin}; ∫f + ∮g is {about}{abs(compatibility.relative):.2g} of ∫|f| + ∮|g|, and {compatibility.shift:.3g} "
        "is subtracted from f"
    )


def _grids(grids: Sequence[Sequence[int]]) -> str:
    """How deep the grid coarsens: the finest grids, and the last one."""
    names = ["x".join(map(str, shape)) for shape in grids]
    if len(names) > MOST_GRIDS:
        names = [*names[: MOST_GRIDS - 1], "...", names[-1]]
    return f"{quantity(len(grids), 'grid')}: {', '.join(names)}"


def _memory(found: Found) -> list[str]:
    if found.plan is None:
        return []
    lines = []
    for need in found.plan.needs:
        free = "" if need.free is None else f" of {_size(need.free)} free"
        place = need.place if found.ranks == 1 else need.place.replace("this process", "each process")
        lines.append(f"{_size(need.size)}{free} for {place}: {need.what}")
    return lines


def _size(count: int) -> str:
    from poisson.output.files import size

    return size(count)
