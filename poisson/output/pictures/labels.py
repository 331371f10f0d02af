# SPDX-License-Identifier: MIT
"""What stands beside the axes and the colours."""

from __future__ import annotations

from poisson.case.settings import Units
from poisson.output.record import FIELD_POWERS

_SHOWN = {
    "residual": "residual f − Au",
    "error": "error u − exact",
    "gradient": "|∇u|",
    "flux": "|a∇u|",
    "E": "|E|",
}
_COMPONENTS = {"gradient": "∂u/∂{}", "flux": "−a ∂u/∂{}", "E": "E_{}"}
_SUPERSCRIPTS = {"^2": "²", "^3": "³"}


def of_field(name: str, units: Units) -> str:
    """A field with its unit, where somebody has named it; of a vector its length, or a component such as ``E_x``."""
    vector, _, axis = name.rpartition("_")
    shown = _COMPONENTS[vector].format(axis) if vector in _COMPONENTS else _SHOWN.get(name, name)
    powers = FIELD_POWERS.get(vector or name, (0, 0))
    return shown + (_unit(units.power(*powers)) if any(powers) and units.named(*powers) else "")


def of_axis(name: str, units: Units) -> str:
    """A coordinate with its unit, where somebody has named it."""
    return name + (_unit(units.length) if units.named(0, 1) else "")


def _unit(text: str) -> str:
    for plain, raised in _SUPERSCRIPTS.items():
        text = text.replace(plain, raised)
    return f" [{text}]"
