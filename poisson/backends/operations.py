"""The table of operations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.differences import Differences

OPERATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "laplacian": ("u", "out"),
        "boundary_conditions": ("u", "out"),
        "update": ("f", "au", "r", "u", "omega"),
        "norm": ("r", "result"),
        "sweep": ("u", "f", "out", "omega", "result"),
        "sweeps": ("u", "f", "out", "omegas", "result"),
        "residual": ("u", "f", "r", "result"),
        "fill": ("x", "value"),
        "axpby": ("a", "x", "b", "y"),
        "dot": ("x", "y", "result"),
        "restrict": ("fine", "coarse"),
        "prolong_add": ("coarse", "fine"),
        "interpolate": ("source", "out"),
        "color_sweep": ("u", "f", "color", "omega"),
        "diagonal_solve": ("r", "z", "omega", "result"),
        "direction": ("z", "beta", "p", "out", "q", "result"),
        "advance": ("alpha", "p", "q", "u", "r", "result"),
        "defect": ("u", "f", "factor", "r", "result"),
        "correct": ("factor", "x", "y"),
        "dense": ("matrix", "x", "y"),
        "edges": ("axis", "a", "harmonic", "out"),
        "coarsen_edges": ("axis", "fine", "coarse"),
        "derivative": ("axis", "u", "out"),
        "gradient": ("u", "outs"),
    }
)
"""The operations and the arguments of their methods, in order."""

COMPOSITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"smooth": ("u", "f", "out", "work", "omegas", "correction", "restriction", "result")}
)
"""Operations that are put together from others here; a backend may have them in fewer passes over memory."""

SUBJECTS: Mapping[str, type] = MappingProxyType(
    {
        **dict.fromkeys((*OPERATIONS, *COMPOSITES), Operator),
        **dict.fromkeys(("restrict", "prolong_add", "coarsen_edges"), Transfer),
        "interpolate": Interpolation,
        **dict.fromkeys(("derivative", "gradient"), Differences),
        **dict.fromkeys(("fill", "axpby", "correct", "dense"), type(None)),
    }
)
"""What `Backend.bind` takes for each; None for those that are methods of the backend."""
