# SPDX-License-Identifier: MIT
"""Methods that call the functions of the library, made from the entries of the operations.

A method hands its arguments on in the order of the entry, as `poisson.backends.openmp.library.signature` has their
types.
"""

from collections.abc import Callable
from ctypes import c_void_p

from poisson.backends.openmp.library import doubles
from poisson.backends.operations import ALL, Argument, Class, OperationSpec, Role, with_methods

_PLACES = {"doubles": doubles, "c_void_p": c_void_p}
"""The names that the source of a generated method uses beside its arguments."""


def operations_from_entries(subject: type | None) -> Callable[[Class], Class]:
    """A decorator of a class: it gets a method for each operation of a subject that it has none for itself.

    The class has the functions of the library in ``functions``; with a subject, a pointer to its structure in
    ``structure``; without one, ``threads``.
    """

    specs = [spec for spec in ALL.values() if spec.subject is subject]
    return lambda cls: with_methods(cls, specs, _call, _PLACES)


def _call(spec: OperationSpec) -> list[str]:
    plain = spec.subject is None
    passed = [] if plain else ["self.structure"]
    for argument in spec.arguments:
        passed += _passed(argument)
        if plain and argument.role in (Role.WRITTEN, Role.BOTH):
            columns = any(other.role is Role.MATRIX for other in spec.arguments)
            passed += [f"{argument.name}.shape[-1]"] * columns + [f"{argument.name}.rows, {argument.name}.pitch"]
    if plain:
        passed.append("self.threads")
    return [f"self.functions.{spec.name}({', '.join(passed)})"]


def _passed(argument: Argument) -> list[str]:
    """The texts of what the function gets for an argument."""
    name, role = argument.name, argument.role
    if role is Role.OMEGAS:
        return [f"doubles(len({name}))(*{name})", f"len({name})"]
    if role is Role.OUTPUTS:
        return [f"(c_void_p * len({name}))(*[each.pointer for each in {name}])"]
    if role is Role.COEFFICIENTS:
        return [f"{name}.pointer", f"{name}.dtype.itemsize == 4"]
    if role is Role.MATRIX:
        return [f"{name}.pointer", f"{name}.pitch"]
    if role is Role.GIVEN:
        return [f"{name}.{field}" for field in ("pointer", "pitch", "shift", "double")]
    if role is Role.SPARE:
        return []
    if role in (Role.READ, Role.WRITTEN, Role.BOTH, Role.RESULT):
        return [f"None if {name} is None else {name}.pointer" if argument.optional else f"{name}.pointer"]
    return [name]
