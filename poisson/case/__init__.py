# SPDX-License-Identifier: MIT
"""Case files: TOML, validated as a whole, to a `Case`.

Each mistake is one line: the path of the key, the value found, what is allowed, and the nearest right name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poisson.case.reading import from_mapping, load, regrid
    from poisson.case.settings import Case, OutputSettings
    from poisson.solvers.settings import RunSettings, SolverSettings

_PLACES = {
    "Case": "poisson.case.settings",
    "OutputSettings": "poisson.case.settings",
    "RunSettings": "poisson.solvers.settings",
    "SolverSettings": "poisson.solvers.settings",
    "from_mapping": "poisson.case.reading",
    "load": "poisson.case.reading",
    "regrid": "poisson.case.reading",
}

__all__ = ["Case", "OutputSettings", "RunSettings", "SolverSettings", "from_mapping", "load", "regrid"]


def __getattr__(name: str) -> Any:
    # Problems stated in Python need no parser of TOML, and the words of a command no NumPy.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
