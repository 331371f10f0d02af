# SPDX-License-Identifier: MIT
"""The rows of ``python -m poisson bench`` as benchmarks of asv: a history of the speed over commits.

    pip install asv virtualenv
    cd scripts/asv && asv run --quick && asv publish && asv preview

Each commit is built in an environment of its own; what is measured, and how, is the command's own affair. A row that a
commit does not have is missing in its history.
"""

import json
import math
import subprocess
import sys
from typing import Any

Rows = dict[tuple[str, str], dict[str, Any]]


def rows(key: str, *words: str) -> Rows:
    """The values of a measurement, by a column of its rows and the size."""
    command = [sys.executable, "-P", "-m", "poisson", "bench", *words, "--json"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {(row[key], row["size"]): row for row in json.loads(printed)}


class Solves:
    """Seconds of a whole solve on the threads of a CPU, without the set-up."""

    params = (["multigrid", "mixed", "fft", "fmg"], ["513x513", "65x65x65"])
    param_names = ("method", "size")
    unit = "s"
    timeout = 600

    def setup_cache(self) -> Rows:
        return rows("method", "solve", "--n=" + ",".join(self.params[1]), "--backend=openmp", "--repeats=5")

    def track_seconds(self, found: Rows, method: str, size: str) -> float:
        return float(found.get((method, size), {}).get("seconds", math.nan))

    def track_seconds_with_setup(self, found: Rows, method: str, size: str) -> float:
        return float(found.get((method, size), {}).get("with_setup", math.nan))


class Commands:
    """Seconds of whole commands on the threads of a CPU and of each of their parts, beside the disk's own."""

    params = (
        ["129x129", "1025x1025"],
        ["seconds", "start", "setup", "solve", "finish", "file", "exit", "disk"],
        ["first", "later"],
    )
    param_names = ("size", "part", "run")
    unit = "s"
    timeout = 600

    def setup_cache(self) -> Rows:
        return rows("run", "command", "--n=" + ",".join(self.params[0]), "--backend=openmp", "--repeats=9")

    def track_seconds(self, found: Rows, size: str, part: str, run: str) -> float:
        return float(found.get((run, size), {}).get(part, math.nan))


class Operations:
    """Seconds of single operations on the threads of a CPU."""

    params = (["sweep", "residual + norm", "restrict", "prolong_add", "axpby", "dot"], ["1025x1025"])
    param_names = ("operation", "size")
    unit = "s"
    timeout = 600

    def setup_cache(self) -> Rows:
        return rows("operation", "operations", "--sizes=" + ",".join(self.params[1]), "--backend=openmp")

    def track_seconds(self, found: Rows, operation: str, size: str) -> float:
        return float(found.get((operation, size), {}).get("seconds", math.nan))
