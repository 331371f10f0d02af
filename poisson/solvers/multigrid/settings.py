# SPDX-License-Identifier: MIT
"""The settings of a multigrid cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from poisson.solvers.keys import Settings, flag, whole, word

VISITS: Mapping[str, tuple[str, ...]] = MappingProxyType({"V": ("V",), "W": ("W", "W"), "F": ("F", "V")})
"""The cycles that a cycle makes on the next coarser grid."""

COARSE = ("auto", "geometric", "galerkin")
"""The kinds of coarse grids."""

MAX_SWEEPS = 64


def smoother_names() -> tuple[str, ...]:
    """The smoothers, in the order in which they are listed."""
    from poisson.solvers.registry import smoothers  # which imports what imports this

    return tuple(smoothers())


@dataclass(frozen=True)
class MultigridSettings(Settings):
    """How to cycle through the levels.

    `cycle`: ``V``: one visit of the next coarser grid; ``W``: two; ``F``: an F and a V cycle.
    `full`: whether to start with full multigrid: from the coarsest grid up, instead of from the initial guess.
    `smoother`: ``chebyshev``: Jacobi sweeps with the weights of a Chebyshev polynomial that is spread over some cycles.
    ``jacobi``: with the same weights in each cycle. ``red-black``: Gauss–Seidel sweeps in red–black order.
    `pre`, `post`: sweeps before the restriction of the residual and after the correction.
    `coarse`: ``geometric``: operators of links on every level, averaged from the finest. ``galerkin``: full stencils
    below it, interpolation that follows the operator, and corrections of strong clusters. ``auto``: the latter where a
    jumps from node to node (`poisson.solvers.roughness`).
    `symmetric`: whether a cycle is to be self-adjoint, as a preconditioner of conjugate gradients must be; then pre =
    post. `few`: whether a cycle or two are expected to do, of which each is to take little time.

    Raises `ValueError` if a value may not stand there, or the sweeps of a self-adjoint cycle differ.
    """

    cycle: str = word("V", tuple(VISITS), "how often a cycle visits the coarser grids", rank=8)
    full: bool = flag(
        True,
        "start on the coarsest grid (full multigrid); a solve with an initial guess starts from the guess instead",
        rank=9,
    )
    smoother: str = word("chebyshev", smoother_names, "the kind of sweeps on every level but the coarsest", rank=10)
    pre: int = whole(2, "the number of sweeps before the coarse correction", rank=11, le=MAX_SWEEPS)
    post: int = whole(1, "the number of sweeps after the coarse correction", rank=12, le=MAX_SWEEPS)
    coarse: str = word(
        "auto",
        COARSE,
        'the coarse grids: `"geometric"` averages, `"galerkin"` products that no jump of a slows down '
        "([methods](methods.md#coarse-grids))",
        rank=12.5,
    )
    symmetric: bool = False
    few: bool = False

    def __post_init__(self) -> None:
        if self.symmetric and self.pre != self.post:
            raise ValueError("a self-adjoint cycle has as many sweeps before the restriction as after the correction")

    @property
    def label(self) -> str:
        """The cycle for people: ``V(2,1), chebyshev``."""
        galerkin = ", galerkin" if self.coarse == "galerkin" else ""
        return f"{self.cycle}({self.pre},{self.post}), {self.smoother}{galerkin}"

    def self_adjoint(self) -> "MultigridSettings":
        """As many sweeps before the restriction as after the correction: the larger of both numbers."""
        sweeps = max(self.pre, self.post)
        return replace(self, pre=sweeps, post=sweeps, symmetric=True, full=False)
