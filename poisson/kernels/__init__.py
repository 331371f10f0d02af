"""The HIP kernel sources, as package data."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

SOURCES = ("stencil", "vectors", "transfer")
"""The kernel sources; each file ``<name>.hip`` is one module."""


@cache
def source(name: str) -> str:
    """The whole text of a module: prelude, formulas and kernels.

    The parts are joined here and not by ``#include``, because a compiler cache that hashes the text would miss a change
    in an included file.
    """
    folder = files(__package__)
    return "\n".join(folder.joinpath(part).read_text("utf-8") for part in ("prelude.h", "formulas.h", f"{name}.hip"))
