"""The settings of a multigrid cycle."""

from __future__ import annotations

from dataclasses import dataclass

CYCLES = ("V", "W", "F")
SMOOTHERS = ("chebyshev", "jacobi", "red-black")


@dataclass(frozen=True)
class MultigridSettings:
    """How to cycle through the levels.

    Parameters
    ----------
    cycle : str
        ``V``: one visit of the next coarser grid; ``W``: two; ``F``: an F and a V cycle.
    full : bool
        Whether to start with full multigrid: from the coarsest grid up, instead of from the initial guess.
    smoother : str
        ``chebyshev``: Jacobi sweeps with the weights of a Chebyshev polynomial that is spread over some cycles.
        ``jacobi``: with the same weights in each cycle. ``red-black``: Gauss–Seidel sweeps in red–black order.
    pre, post : int
        Sweeps before the restriction of the residual and after the correction.
    symmetric : bool
        Whether a cycle is to be self-adjoint, as a preconditioner of conjugate gradients must be; then pre = post.
    """

    cycle: str = "V"
    full: bool = False
    smoother: str = "chebyshev"
    pre: int = 2
    post: int = 1
    symmetric: bool = False

    def __post_init__(self) -> None:
        if self.cycle not in CYCLES:
            raise ValueError(f"cycle = {self.cycle!r}; it must be one of {CYCLES}")
        if self.smoother not in SMOOTHERS:
            raise ValueError(f"smoother = {self.smoother!r}; it must be one of {SMOOTHERS}")
        if self.pre < 0 or self.post < 0 or self.pre + self.post < 1:
            raise ValueError("pre and post must be >= 0, and one of them positive")
        if self.symmetric and self.pre != self.post:
            raise ValueError("a self-adjoint cycle has as many sweeps before the restriction as after the correction")
