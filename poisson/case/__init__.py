# SPDX-License-Identifier: MIT
"""Case files: TOML, validated as a whole, to a `Case`.

Each mistake is one line: the path of the key, the value found, what is allowed, and the nearest right name.
"""

from poisson.case.reading import from_mapping, load, regrid
from poisson.case.settings import Case, OutputSettings
from poisson.solvers.settings import RunSettings, SolverSettings

__all__ = ["Case", "OutputSettings", "RunSettings", "SolverSettings", "from_mapping", "load", "regrid"]
