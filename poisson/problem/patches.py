# SPDX-License-Identifier: MIT
"""Faces in patches: different conditions on parts of one face.

The flows of all patches are one condition: a Robin condition with α = 0 on the Neumann patches, whose data are pieces.
A patch with given values beside others is a body that has the nodes of the face there, so that its edge cuts the links
along the face where it is; half a cell away from the nodes the patch is a Robin condition with an α beyond all others,
which leaves the conductance of that half of the cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from poisson.errors import ExpressionError
from poisson.mesh.boundary import ONE_CONDITION, Kind
from poisson.problem.expressions import parse, parse_inside

if TYPE_CHECKING:
    from poisson.mesh.lattice import Lattice
    from poisson.problem.mistakes import Path
    from poisson.problem.user_data import Condition, Conditions, Reader

WHERE = "where"

CONDUCTANCE = 1e30
"""α of a face with a given value, in 1/L: that of half a cell is lost beside it."""


def condition_of(reader: Reader, path: Path, entries: Sequence[Any]) -> Condition | None:
    """The condition of a face in patches, as if its nodes lay on it; None where there is a mistake.

    `path`: the key of the face. `entries`: tables of conditions, all but the last one with ``where``, of which the
    first that holds counts.
    """
    from poisson.problem.user_data import ALPHA, Condition

    mistakes, found = reader.mistakes, []
    if path[-1] not in reader.faces:
        mistakes.wrong(path, entries, "a condition; only a single face has patches")
        return None
    for number, entry in enumerate(entries, start=1):
        here, last = (*path, str(number)), number == len(entries)
        if not isinstance(entry, Mapping):
            mistakes.wrong(here, entry, f"a table with {WHERE} and {ONE_CONDITION}")
            continue
        table = {key: item for key, item in entry.items() if key != WHERE}
        where = entry.get(WHERE)
        if last and where is not None:
            mistakes.wrong((*here, WHERE), where, "nothing in the last table, which is for the rest of the face")
        elif not last and where is not None and not isinstance(where, str):
            mistakes.wrong((*here, WHERE), where, "a condition such as abs(x) < 0.2")
        elif not last and where is None:
            mistakes.add((*here, WHERE), "missing; allowed: a condition such as abs(x) < 0.2")
        elif not last:
            reader.uses(str(where))
            try:
                parse_inside(str(where), reader.axes, reader.parameters)
            except ExpressionError as error:
                mistakes.add((*here, WHERE), f"{mistakes.shown(where)}; {error}")
        for key, item in table.items():
            if not isinstance(item, (int, float, str)) or item == "exact":
                mistakes.wrong((*here, key), item, "a number or an expression")
        condition = reader.condition(path[-1], table, here)
        if condition is not None:
            found.append((where, condition))
    if mistakes.touch(path) or not found:
        return None
    kinds = {condition.kind for _, condition in found}
    flows = Kind.ROBIN if Kind.ROBIN in kinds else Kind.NEUMANN
    kind = Kind.DIRICHLET if kinds == {Kind.DIRICHLET} else flows
    pieces = Condition(path, kind, entries, None, None, kind.value, tuple(found), patched=True)
    value = _pieces(reader, pieces, lambda part: "0" if part.kind.fixes is not kind.fixes else _data(part))
    alpha = _pieces(reader, pieces, lambda part: str(part.table.get(ALPHA, 0.0))) if kind.takes_alpha else None
    return pieces._replace(value=value, alpha=alpha)


def on_lattice(
    conditions: Conditions, lattice: Lattice, reader: Reader
) -> tuple[dict[str, Condition], list[dict[str, str]]]:
    """The conditions with what their patches are on a lattice, and the tables of the bodies that these are."""
    settled, bodies = dict(conditions), []
    for name, condition in conditions.items():
        fixed = [part.kind.fixes for _, part in condition.patches]
        if not any(fixed) or all(fixed):
            continue
        face = lattice.faces.index(name)
        axis, end = lattice.axes[face // 2], face % 2
        if axis.offsets[end]:
            value = _pieces(
                reader, condition, lambda part: f"{CONDUCTANCE}*({_data(part)})" if part.kind.fixes else _data(part)
            )
            alpha = _pieces(
                reader,
                condition,
                lambda part: str(CONDUCTANCE) if part.kind.fixes else str(part.table.get("alpha", 0.0)),
            )
            settled[name] = condition._replace(kind=Kind.ROBIN, value=value, alpha=alpha)
            continue
        before = [f"{lattice.names[face // 2]} {'>=' if end else '<='} {axis.interval[end]!r}"]
        for number, (where, part) in enumerate(condition.patches, start=1):
            here = [] if where is None else [f"({where})"]
            if part.kind.fixes:
                inside = " and ".join([*here, *before])
                bodies.append({"name": f"{name}.{number}", "inside": inside, "dirichlet": _data(part)})
            before += [f"not {each}" for each in here]
    return settled, bodies


def _data(part: Condition) -> str:
    return f"({part.table[part.kind.value]})"


def _pieces(reader: Reader, condition: Condition, text_of: Any) -> Any:
    """One expression from the texts of all patches."""
    *parts, (_, rest) = condition.patches
    text = text_of(rest)
    for where, part in reversed(parts):
        text = f"where({where}, {text_of(part)}, {text})"
    return parse(text, reader.axes, reader.parameters)
