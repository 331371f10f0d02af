# SPDX-License-Identifier: MIT
"""Labels of axes and of colour bars."""

from poisson.case.settings import Units
from poisson.mesh.system import ANGLE
from poisson.output.pictures.ticks import Measure
from poisson.output.record import unit_of

_SHOWN = {"residual": "residual f − Au", "error": "error u − exact", "gradient": "|∇u|", "flux": "|a∇u|", "E": "|E|"}
_COMPONENTS = {"gradient": "∂u/∂{}", "flux": "−a ∂u/∂{}", "E": "E_{}"}
_SUPERSCRIPTS = {"^2": "²", "^3": "³"}


def of_field(name: str, units: Units) -> str:
    """A field with its unit, where somebody has named it; of a vector its length, or a component such as ``E_x``."""
    vector, _, axis = name.rpartition("_")
    shown = _COMPONENTS[vector].format(axis) if vector in _COMPONENTS else _SHOWN.get(name, name)
    unit = unit_of(vector or name, units)
    return shown + (_bracketed(unit) if unit else "")


def counted(label: str, measure: Measure) -> str:
    """A name beside numbers that are counted from a base and in a power of ten."""
    name, _, unit = label.partition(" [")
    unit = " ".join(part for part in (measure.factor, unit.removesuffix("]")) if part)
    if measure.base:
        name += f" {'−' if measure.base > 0.0 else '+'} {abs(measure.base):.15g}"
    return f"{name} [{unit}]" if unit else name


def of_axis(name: str, units: Units) -> str:
    """A coordinate with its unit, where somebody has named it."""
    return name + (_bracketed("rad" if name == ANGLE else units.length) if units.named(0, 1) else "")


def _bracketed(text: str) -> str:
    for plain, raised in _SUPERSCRIPTS.items():
        text = text.replace(plain, raised)
    return f" [{text}]"
