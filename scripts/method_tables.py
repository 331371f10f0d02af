# SPDX-License-Identifier: MIT
"""Write the tables of methods, preconditioners, keys and operations in the documents from their entries.

The prototypes of the operations in native/poisson.h, the options of a solver in poisson/run/request.py, the tables in
poisson/problem/given.py and the schema of case files are written too.

    python scripts/method_tables.py

The entries and the documents are those of the checkout that this file is in, whatever is installed and wherever it is
run. A test compares the documents with what this writes.
"""

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from poisson.backends.base import Backend, Operations
from poisson.backends.inverses import DividedInverseOperations, InverseOperations
from poisson.backends.operations import ALL, OperationSpec, Role
from poisson.backends.registry import AUTO, NAMES, backend_names
from poisson.backends.rows import RowOperations
from poisson.backends.stencils import ClusterOperations, StencilOperations, StencilTransferOperations
from poisson.backends.transfers import DifferenceOperations, InterpolationOperations, TransferOperations
from poisson.case import json_schema
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.inverse import DividedInverse, Inverse
from poisson.discrete.operator import Operator
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.boundary import CONDITIONS
from poisson.mesh.differences import Differences
from poisson.mesh.placement import PLACEMENTS
from poisson.solvers import registry
from poisson.solvers.keys import Key, either
from poisson.solvers.settings import PRECISIONS, SolverSettings

ROOT = Path(__file__).resolve().parent.parent


def methods(text: str) -> str:
    """docs/methods.md with its four tables as the registry has them."""
    rows = [(f"`{name}`", entry.use, entry.iteration) for name, entry in registry.methods().items()]
    text = _replaced(text, ("method", "for", "an iteration is"), rows)
    rows = [(f"`{name}`", entry.use) for name, entry in registry.preconditioners().items()]
    text = _replaced(text, ("preconditioner", "what it is"), rows)
    text = _replaced(text, ("method", "backends", *PRECISIONS, "several processes"), _places())
    return _replaced(text, ("keys", "methods"), _users())


def case_file(text: str) -> str:
    """docs/case-file.md with the rows of ``[solver]`` and all that lists names as the registry has it."""
    rows = [_row(name, place) for name, place in registry.solver_keys().items()]
    first, last = text.index("| `solver."), text.rindex("| `solver.")
    text = text[:first] + "".join(rows) + text[text.index("\n", last) + 1 :]
    for name, words in (("backend", backend_names()), ("precision", PRECISIONS)):
        text = _substituted(rf"(?<=^\| `run\.{name}` \| ).*?(?= \| )", _coded(either(words)), text)
    words, with_alpha = (
        [f"`{kind.value}`" for kind in kinds] for kinds in (CONDITIONS, [k for k in CONDITIONS if k.takes_alpha])
    )
    allowed = f"one of {_listed(words)}, and `alpha` beside {_listed(with_alpha)}"
    text = _substituted(r"(?<=^A face table holds exactly )one of .*(?=, with the outward normal n:$)", allowed, text)
    given = 'number, expression, field file or `"exact"`'
    rows = "".join(f"| `{kind.value}` | {given} | none | {_in_symbols(kind.meaning)} |\n" for kind in CONDITIONS)
    text = _substituted(rf"(^\| `\w+` \| {given} .*\n)+", rows, text)
    text = _substituted(r"(?<=solver\.rtoll: unknown key; allowed: ).*?(?=;)", ", ".join(registry.solver_keys()), text)
    return _in_example("backend", NAMES, _in_example("method", registry.methods(), text))


def backends(text: str) -> str:
    """docs/backends.md with the operations as their entries and the methods of `poisson.backends.base` have them."""
    rows = []
    for spec in ALL.values():
        kind = Backend if spec.subject is None else BOUND[spec.subject]
        bound_to = "the backend" if spec.subject is None else _words(spec.subject.__name__)
        meaning = (
            (inspect.getdoc(getattr(kind, spec.method)) or "").partition("\n")[0].partition(". ")[0].removesuffix(".")
        )
        rows.append((f"`{spec.method}({', '.join(spec.names)})`", bound_to, meaning.replace("|", r"\|")))
    return _replaced(text, ("operation", "bound to", "computes"), rows)


def header(text: str) -> str:
    """native/poisson.h with the prototypes of the operations."""
    lines = []
    for name, spec in ALL.items():
        if spec.subject not in _C_SUBJECTS:
            continue
        opening = f"    poisson_status poisson_{name}_##suffix("
        kept_together = [argument.replace(" ", "~") for argument in _c_arguments(spec)]
        wrapped = textwrap.wrap(", ".join(kept_together) + ");", 118 - 8, break_long_words=False)
        lines += [opening, *(f"        {line}".replace("~", " ") for line in wrapped)]
    block = "".join(f"{line:<119}\\\n" for line in lines)
    first = "#define POISSON_OPERATIONS(real, suffix)"
    return _substituted(
        rf"^{re.escape(first)} +\\\n(    .*\\\n)+?(?=    int32_t poisson_depth_)", f"{first:<119}\\\n{block}", text
    )


def options(text: str) -> str:
    """poisson/run/request.py with the names and keys of the registries, as type checkers know them."""
    for kind, names in (("Method", (AUTO, *registry.methods())), ("BackendName", backend_names())):
        text = _substituted(rf"(?<=^{kind} = )Literal\[.*\]", _literal(names), text)
    lines = [f"    {name}: {_hint(place)}\n" for name, place in registry.solver_keys().items() if name != "method"]
    return _substituted(
        r"(?<=`poisson\.case\.SolverSettings` describes them\.\"\"\"\n\n)(    .*\n)+", "".join(lines), text
    )


def given(text: str) -> str:
    """poisson/problem/given.py with the tables of conditions and of axes."""
    conditions = {
        kind.value.title(): (kind.meaning, [kind.value, *["alpha"] * kind.takes_alpha], "Data") for kind in CONDITIONS
    }
    axes = {
        f"Placed{word.title()}": (f"The {word} of an axis: {kind.meaning}", [word], "Sequence[float] | HostArray")
        for word, kind in PLACEMENTS.items()
    }
    lines = ["", ""]
    for name, (meaning, fields, kind) in {**conditions, **axes}.items():
        lines += [
            f"class {name}(TypedDict):",
            f'    """{meaning}."""',
            "",
            *(f"    {field}: {kind}" for field in fields),
        ]
        lines += ["", ""]
    lines += [f"Condition = {' | '.join(('Data', *conditions, 'Face', 'Sequence[Mapping[str, float | str]]'))}"]
    lines += ['"""A face: the value of u there, a condition, or a list of these with ``where`` each counts."""', ""]
    lines += [f"AxisTable = {' | '.join((*axes, 'UniformNodes'))}", '"""The nodes along an axis."""', "", ""]
    return _substituted(r"(?<= of axes\.\n)(.*\n)+(?=class Boundary)", "\n".join(lines) + "\n", text)


def _hint(place: registry.Place) -> str:
    words = tuple(place.key.words())
    kind = _literal(words) if words else place.key.kind.__name__
    return kind if place.default is not None else f"{kind} | None"


def _literal(words: Iterable[str]) -> str:
    return f"Literal[{', '.join(map(_toml, words))}]"


def _c_arguments(spec: OperationSpec) -> list[str]:
    """The arguments of an operation's function in C: `poisson.backends.openmp.library.signature` has their types."""
    found = list(_C_SUBJECTS[spec.subject])
    matrix = any(argument.role is Role.MATRIX for argument in spec.arguments)
    for argument in spec.arguments:
        found += [
            kind.replace("REAL", "float" if argument.single else "real").replace("NAME", argument.name)
            for kind in _C_ARGUMENTS[argument.role]
        ]
        if spec.subject is None and argument.role in (Role.WRITTEN, Role.BOTH):
            found += [f"int64_t {size}" for size in (*["columns"] * matrix, "rows", "pitch")]
    return [*found, "int32_t threads"] if spec.subject is None else found


def _between(one: str, other: str) -> tuple[str, ...]:
    operators = tuple(f"const poisson_operator* {name}_operator" for name in (one, other))
    return (*operators, "const poisson_transfer* tables")


_C_SUBJECTS: Mapping[type | None, tuple[str, ...]] = MappingProxyType(
    {
        Operator: ("const poisson_operator* operator_",),
        Transfer: _between("fine", "coarse"),
        Interpolation: (*_between("source", "target"), "int32_t everywhere"),
        Differences: ("const poisson_differences* differences",),
        FullStencil: ("const poisson_stencil* stencil",),
        StencilTransfer: ("const poisson_weighted* transfer",),
        Clusters: ("const poisson_clusters* clusters",),
        SparseRows: ("const poisson_rows* rows",),
        None: (),
    }
)
_C_ARGUMENTS: Mapping[Role, tuple[str, ...]] = MappingProxyType(
    {
        Role.READ: ("const REAL* NAME",),
        Role.GIVEN: ("const void* NAME", "int64_t NAME_pitch", "double NAME_shift", "int32_t NAME_double"),
        Role.SPARE: (),
        Role.COARSER: (
            *("const poisson_operator* NAME_operator", "const poisson_transfer* NAME_tables", "REAL* NAME"),
        ),
        **dict.fromkeys((Role.WRITTEN, Role.BOTH), ("REAL* NAME",)),
        Role.OUTPUTS: ("REAL* const* NAME",),
        Role.COEFFICIENTS: ("void* NAME", "int32_t NAME_single"),
        Role.MATRIX: ("const REAL* NAME", "int64_t NAME_pitch"),
        Role.RESULT: ("double* NAME",),
        Role.NUMBER: ("double NAME",),
        Role.OMEGAS: ("const double* NAME", "int32_t count"),
        **dict.fromkeys((Role.AXIS, Role.COLOR, Role.FLAG), ("int32_t NAME",)),
    }
)

DOCUMENTS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "docs/backends.md": backends,
        "docs/methods.md": methods,
        "docs/case-file.md": case_file,
        "native/poisson.h": header,
        "poisson/run/request.py": options,
        "poisson/problem/given.py": given,
        "poisson/case/schema.json": lambda text: json_schema.text(),
    }
)

BOUND: Mapping[type, type] = MappingProxyType(
    {
        Operator: Operations,
        Transfer: TransferOperations,
        Interpolation: InterpolationOperations,
        Differences: DifferenceOperations,
        FullStencil: StencilOperations,
        StencilTransfer: StencilTransferOperations,
        Clusters: ClusterOperations,
        SparseRows: RowOperations,
        Inverse: InverseOperations,
        DividedInverse: DividedInverseOperations,
    }
)
"""The class with the operations of a subject."""


def _row(name: str, place: registry.Place) -> str:
    """The row of a key: what may stand there, its default, what it means and to which methods."""
    default = "chosen" if place.default is None else f"`{_toml(place.default)}`"
    users = [f'`"{user}"`' for user in registry.users_of(name)]
    meaning = (f"of {_listed(users)}: " if users else "") + place.key.doc
    return f"| `solver.{name}` | {_type(place.key)} | {default} | {meaning} |\n"


def _type(key: Key) -> str:
    """The allowed values of a key, as the tables show them."""
    if key.kind in (str, bool):
        return _coded(key.allowed)
    ge, le = key.bounds.get("ge"), key.bounds.get("le")
    if key.kind is int:
        return f"integer from {ge} to {le}" if le and le < 2**53 else f"integer ≥ {ge}"
    return key.allowed.removeprefix("a ").replace(">=", "≥").replace("<=", "≤")


def _places() -> list[tuple[str, ...]]:
    """Where each method runs: backends, precisions and how the grid is divided; ``cg`` with each preconditioner."""
    rows = []
    for name, entry in registry.methods().items():
        throughs = registry.preconditioners() if "preconditioner" in entry.keys else (None,)
        for through in throughs:
            settings = SolverSettings(method=name).having(**({"preconditioner": through} if through else {}))
            mixed = entry.mixed and (through is None or registry.preconditioners()[through].mixed)
            precisions = ["yes" if precision != "mixed" or mixed else "no" for precision in PRECISIONS]
            divided = "whole planes (rows in 2D)" if entry.planes(settings) else "blocks"
            shown = f"`{name}` with `{through}`" if through else f"`{name}`"
            rows.append((shown, ", ".join(f"`{backend}`" for backend in NAMES), *precisions, divided))
    return rows


def _users() -> list[tuple[str, str]]:
    """Keys with the methods that they mean something to, keys of the same methods in one row."""
    rows = [(registry.COMMON_KEYS - {"method"}, "all")]
    for name in registry.solver_keys():
        if name in registry.COMMON_KEYS:
            continue
        direct = [AUTO] if name in registry.KEYS_OF_AUTO else []
        direct += [method for method, entry in registry.methods().items() if name in entry.keys]
        through = [which for which, entry in registry.preconditioners().items() if name in entry.keys]
        users = _with_preconditioners(direct, through)
        same = next((number for number, row in enumerate(rows) if row[1] == users), None)
        if same is None:
            rows.append((frozenset((name,)), users))
        else:
            rows[same] = (rows[same][0] | {name}, users)
    direct = [
        AUTO,
        *(name for name, entry in registry.methods().items() if entry.mixed and "preconditioner" not in entry.keys),
    ]
    through = [name for name, entry in registry.preconditioners().items() if entry.mixed]
    mixed = f'{_with_preconditioners(direct, through)}; not with `stop = "discretisation"`'
    order = list(registry.solver_keys())
    listed = [(", ".join(f"`{name}`" for name in sorted(names, key=order.index)), users) for names, users in rows]
    return [*listed, ('`run.precision = "mixed"`', mixed)]


def _with_preconditioners(direct: Sequence[str], through: Sequence[str]) -> str:
    """Methods, and conjugate gradients with some preconditioners."""
    named = [f"`{name}`" for name in direct]
    if not through:
        return ", ".join(named)
    behind = f"`cg` with the preconditioner {_listed([f'`{name}`' for name in through], 'or')}"
    return f"{', '.join(named)}, and {behind}" if named else behind


def _in_example(key: str, names: Iterable[str], text: str) -> str:
    """The text with other names behind a key of the annotated example of a case."""
    listed = ", ".join(f'"{name}"' for name in names)
    before = re.search(rf'^{key} = "auto" *# or ', text, re.MULTILINE)
    return _substituted(rf'^{key} = "auto" *# or .*$', f"{before[0] if before else key}{listed}", text)


def _replaced(text: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The text with other rows in the table that has these headings."""
    lines = [headings, ["---"] * len(headings), *rows]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    return _substituted(rf"^\| {re.escape(' | '.join(headings))} \|\n(\|.*\n)+", table, text)


def _substituted(pattern: str, replacement: str, text: str) -> str:
    changed, count = re.subn(pattern, lambda _: replacement, text, flags=re.MULTILINE)
    if count != 1:
        raise SystemExit(f"{count} places in the document match {pattern!r}; there must be one")
    return changed


def _words(name: str) -> str:
    """The words of a class's name."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _in_symbols(meaning: str) -> str:
    return meaning.replace("du/dn", "∂u/∂n").replace("alpha ", "α")


def _coded(words: str) -> str:
    """``"V" or "W"`` with each word as code; true and false likewise."""
    return re.sub(r'"[^"]+"|true|false', lambda found: f"`{found[0]}`", words)


def _listed(words: Sequence[str], last: str = "and") -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else re.sub(r"e-0*", "e-", repr(value))


def main() -> None:
    """See the top of this file."""
    for name, made in DOCUMENTS.items():
        path = ROOT / name
        path.write_text(made(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
