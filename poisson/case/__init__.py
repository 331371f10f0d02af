# SPDX-License-Identifier: MIT
"""Case files: TOML, validated as a whole, to a `Case`.

Each mistake is one line: the path of the key, the value found, what is allowed, and the nearest right name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from poisson.case.settings import Case, OutputSettings
from poisson.solvers.settings import RunSettings, SolverSettings

if TYPE_CHECKING:
    from poisson.case.reading import from_mapping, load, regrid

__all__ = ["Case", "OutputSettings", "RunSettings", "SolverSettings", "from_mapping", "load", "regrid"]


def __getattr__(name: str) -> Any:
    # Problems stated in Python need no parser of TOML.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("poisson.case.reading"), name)
