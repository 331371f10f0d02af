# SPDX-License-Identifier: MIT
"""The form of an operation on ranks, made from its entry: what it needs of halos, and what it leaves right of them.

An array that is read is exchanged where fewer layers are right than the radius of the operation says; of one that is
written as many layers fewer are right.
"""

from collections.abc import Callable
from functools import partial

from poisson.backends.operations import OPERATIONS, Argument, Class, OperationSpec, Role, with_methods
from poisson.parallel.arrays import EVERYWHERE


def operations_on_ranks(subject: type | None, field: str = "") -> Callable[[Class], Class]:
    """A decorator of a class: it gets a method for each operation of a subject that it has none for itself.

    The class has the exchanges of its lattice in ``_lattice``, the operations of this process in ``_local``, and in
    `field` the subject. Without a subject it is the backend.
    """

    specs = [spec for spec in OPERATIONS.values() if spec.subject is subject]
    lines = _of_vectors if subject is None else partial(_on_lattice, field)
    return lambda cls: with_methods(cls, specs, lines, {"EVERYWHERE": EVERYWHERE})


def _of_vectors(spec: OperationSpec) -> list[str]:
    """On vectors nothing is exchanged: as many layers are right as of what is read."""
    arrays = [argument for argument in spec.arguments if argument.read or argument.written]
    [written] = [argument for argument in arrays if argument.written]
    whole = any(argument.role is Role.MATRIX for argument in spec.arguments)
    valid = [] if whole else [_unless_zero(read, f"{read.name}.valid") for read in spec.sources(written)]
    passed = ", ".join(map(_passed, spec.arguments))
    return [
        f"self.note({', '.join(argument.name for argument in arrays)})",
        f"self.local.{spec.method}({passed})",
        f"{written.name}.valid = {_least(valid or ['EVERYWHERE'])}",
    ]


def _on_lattice(field: str, spec: OperationSpec) -> list[str]:
    written = [argument for argument in spec.arguments if argument.written]
    lines = ["lattice = self._lattice"]
    for read in (argument for argument in spec.arguments if argument.read):
        looking = [target for target in written if read in spec.sources(target)]
        target = next((each for each in looking if spec.looks(read, each)), looking[0] if looking else None)
        layers = _reach(spec, read, target, field) if target else "0"
        lines.append(f"of_{read.name} = " + _unless_zero(read, f"lattice.need({read.name}, {layers})"))
    lines.append(f"self._local.{spec.method}({', '.join(map(_passed, spec.arguments))})")
    lines += [
        f"if {spare.name} is not None: lattice.leave({spare.name}, 0)"
        for spare in spec.arguments
        if spare.role is Role.SPARE
    ]
    for target in written:
        least = _least(_right(spec, target, field))
        several = target.role is Role.OUTPUTS
        lines += [f"for each in {target.name}:", f"    lattice.leave(each, {least})"] if several else []
        lines += [] if several else [f"lattice.leave({target.name}, {least})"]
    if _goes_on_beside(spec):
        return [lines[0], "with lattice.beside():", *(f"    {line}" for line in lines[1:])]
    return lines


def _reach(spec: OperationSpec, read: Argument | None, target: Argument, field: str) -> str:
    """How many layers fewer are right of what is written than of what is read, or of the halo."""
    looks = spec.looks(read, target)
    radius = str(spec.radius) if isinstance(spec.radius, int) else f"radius_of(self.{field})"
    if "omegas" in spec.names:
        return f"{radius} * {'len(omegas)' if looks else '(len(omegas) - 1)'}"
    return radius if looks else "0"


def _right(spec: OperationSpec, target: Argument, field: str) -> list[str]:
    """The layers that are right of what is written, of which the fewest count."""
    own, found, within = _reach(spec, None, target, field), [], False
    for read in spec.sources(target):
        reach = _reach(spec, read, target, field)
        found.append(f"of_{read.name}" if reach == "0" else f"of_{read.name} - {reach}")
        # Of no array more layers are right than there are.
        within |= reach == own and not (read.optional or read.factor)
    return found if within else [*found, f"lattice.width - {own}"]


def _goes_on_beside(spec: OperationSpec) -> bool:
    """Whether its exchanges may go on beside it: a pass through the grid that writes other arrays than it reads."""
    return "f" in spec.optional and not any(argument.role is Role.BOTH for argument in spec.arguments)


def _unless_zero(read: Argument, text: str) -> str:
    return f"{text} if {read.factor} else EVERYWHERE" if read.factor else text


def _least(numbers: list[str]) -> str:
    return f"min({', '.join(numbers)})" if len(numbers) > 1 else numbers[0]


def _passed(argument: Argument) -> str:
    """The text of what the operation of this process gets for an argument."""
    name, role = argument.name, argument.role
    if argument.read or argument.written or role in (Role.MATRIX, Role.SPARE):
        if role is Role.OUTPUTS:
            return f"[each.values for each in {name}]"
        return f"None if {name} is None else {name}.values" if argument.optional else f"{name}.values"
    if role is Role.RESULT:
        return f"lattice.result({name}{', sums=True' * argument.sums})"
    return f"self._color({name})" if role is Role.COLOR else name
