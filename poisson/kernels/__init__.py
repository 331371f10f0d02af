# SPDX-License-Identifier: MIT
"""The HIP kernel sources, as package data."""

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

_PASSES = ("operator/operator.h", "multigrid/passes.h", "multigrid/lines.h", "multigrid/planes.h")
_STENCILS = ("operator/operator.h", "stencils/stencil.h")

PARTS = {
    "stencil": ("operator/operator.h", "operator/march.h", "operator/stencil.hip"),
    "cells": ("operator/cells.hip",),
    "krylov": ("operator/operator.h", "operator/march.h", "operator/krylov.hip"),
    "blocked": (*_PASSES, "multigrid/blocked.hip"),
    "smooth": (*_PASSES, "multigrid/smooth.hip"),
    "vectors": ("operator/operator.h", "operator/vectors.hip"),
    "rows": ("operator/rows.hip",),
    "transfer": ("operator/operator.h", "multigrid/window.h", "multigrid/transfer.hip"),
    "grids": ("operator/operator.h", "multigrid/window.h", "multigrid/grids.hip"),
    "full": (*_STENCILS, "stencils/full.hip"),
    "weights": (*_STENCILS, "stencils/weights.h", "stencils/weights.hip"),
    "galerkin": (*_STENCILS, "stencils/links.h", "stencils/weights.h", "stencils/galerkin.hip"),
    "star": (*_STENCILS, "stencils/links.h", "stencils/star.hip"),
    "medians": (*_STENCILS, "stencils/links.h", "stencils/medians.hip"),
    "clusters": (*_STENCILS, "stencils/links.h", "stencils/labels.h", "stencils/lists.h", "stencils/clusters.hip"),
    "graphs": ("stencils/lists.h", "stencils/graphs.hip"),
    "parts": (*_STENCILS, "stencils/links.h", "stencils/labels.h", "stencils/parts.hip"),
    "transform": (
        "transforms/complex.h",
        "transforms/transform_lines.h",
        "transforms/factors.h",
        "transforms/transform.hip",
    ),
    "tridiagonal": ("transforms/tridiagonal.hip",),
    "slab": ("transforms/slab.hip",),
    "radius": ("transforms/radius.hip",),
    "faces": ("transforms/faces.hip",),
    "derivative": ("derivatives/derivative.hip",),
    "staggered": ("derivatives/staggered.hip",),
    "variants": ("studies/variants.hip",),
    "peak": ("studies/peak.hip",),
}
"""The files of each module behind the common ones: what its kernels need, and the kernels."""

COMMON = ("common/prelude.h", "common/formulas.h", "common/tables.h")
"""The parts with which every module begins."""

SOURCES = tuple(name for name, parts in PARTS.items() if not parts[-1].startswith("studies/"))
"""The modules of operations."""

STUDIES = tuple(name for name in PARTS if name not in SOURCES)
"""Modules of kernels that are there to be measured, and that no operation launches."""

LANGUAGE = "-std=c++17"
"""The option of every compiler; all others of a kernel are macros."""


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
    return "\n".join(folder.joinpath(part).read_text("utf-8") for part in (*COMMON, *PARTS[name]))


@cache
def alone(text: str, kernel: str) -> str:
    """The text of a module without its other kernels, which would take most of the time to compile; lines stay."""
    others = rf"^KERNEL (?!{kernel}\()\w+\(.*?^}}\n"
    return re.sub(others, lambda match: "\n" * match[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)


def defined(text: str, options: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The text behind the macros that options ``-DNAME=VALUE`` define, and the other options.

    CuPy compiles an empty text for every set of options that it has not seen in a process, even where the kernel is in
    its cache, and the compilers do that one at a time.
    """
    macros = [option.removeprefix("-D").partition("=") for option in options if option.startswith("-D")]
    lines = [f"#define {name} {value if equals else 1}\n" for name, equals, value in macros]
    others = tuple(option for option in options if not option.startswith("-D"))
    return "".join((*lines, "#line 1\n", text)), others
