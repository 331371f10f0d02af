"""The HIP kernel sources, as package data."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

SOURCES = ("stencil", "krylov", "blocked", "smooth", "vectors", "transfer", "grids", "transform", "derivative")
"""The kernel sources; each file ``<name>.hip`` is one module."""

BENCH_SOURCES = ("variants", "peak")
"""Sources of kernels that are there to be measured, and that no operation launches."""

HEADERS = {
    **dict.fromkeys(("stencil", "krylov"), ("operator.h", "march.h")),
    "vectors": ("operator.h",),
    **dict.fromkeys(("transfer", "grids"), ("operator.h", "window.h")),
    **dict.fromkeys(("blocked", "smooth"), ("operator.h", "passes.h", "lines.h", "planes.h")),
    "transform": ("complex.h", "transform_lines.h"),
}
"""What some sources need besides the prelude and the formulas."""


@cache
def digest() -> str:
    """A digest of the sources of all operations: what was measured with one may not hold with another."""
    return hashlib.sha256("\0".join(source(name) for name in SOURCES).encode()).hexdigest()[:16]


@cache
def source(name: str) -> str:
    """The whole text of a module: prelude, formulas and kernels.

    The parts are joined here and not by ``#include``, because a compiler cache that hashes the text would miss a change
    in an included file.
    """
    folder = files(__package__)
    parts = ("prelude.h", "formulas.h", *HEADERS.get(name, ()), f"{name}.hip")
    return "\n".join(folder.joinpath(part).read_text("utf-8") for part in parts)
