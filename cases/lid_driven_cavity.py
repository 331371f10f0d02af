# SPDX-License-Identifier: MIT
"""The flow in a square cavity under a lid that moves, beside the values of Ghia, Ghia and Shin.

    python cases/lid_driven_cavity.py [--reynolds 1000] [--cells 64] [--picture cavity.png]

U. Ghia, K. N. Ghia, C. T. Shin, High-Re solutions for incompressible flow using the Navier-Stokes equations and a
multigrid method, Journal of Computational Physics 48, 1982, tables I and II.
"""

from __future__ import annotations

from typing import Any

import fire
import numpy as np

from poisson import mac

PUBLISHED = """
  0.9766   0.84123   0.65928    0.9688  -0.05906  -0.21388
  0.9688   0.78871   0.57492    0.9609  -0.07391  -0.27669
  0.9609   0.73722   0.51117    0.9531  -0.08864  -0.33714
  0.9531   0.68717   0.46604    0.9453  -0.10313  -0.39188
  0.8516   0.23151   0.33304    0.9063  -0.16914  -0.51550
  0.7344   0.00332   0.18719    0.8594  -0.22445  -0.42665
  0.6172  -0.13641   0.05702    0.8047  -0.24533  -0.31966
     0.5  -0.20581  -0.06080       0.5   0.05454   0.02526
  0.4531  -0.21090  -0.10648    0.2344   0.17527   0.32235
  0.2813  -0.15662  -0.27805    0.2266   0.17507   0.33075
  0.1719  -0.10150  -0.38289    0.1563   0.16077   0.37095
  0.1016  -0.06434  -0.29730    0.0938   0.12317   0.32627
  0.0703  -0.04775  -0.22220    0.0781   0.10890   0.30353
  0.0547  -0.03717  -0.18109    0.0625   0.09233   0.27485
"""
"""The heights on the vertical line through the centre, and u there for Re = 100 and 1000; the places on the horizontal
one, and v."""

HEIGHTS, U_100, U_1000, PLACES, V_100, V_1000 = np.array(PUBLISHED.split(), float).reshape(-1, 6).T
U, V = {100: U_100, 1000: U_1000}, {100: V_100, 1000: V_1000}


class Cavity:
    """The unit square in n × n cells, whose lid moves to the right with the speed 1.

    Examples
    --------
    >>> cavity = Cavity(32, reynolds=100)
    >>> cavity.run(until=20.0)
    """

    def __init__(self, n: int, reynolds: float) -> None:
        self.n, self.nu, self.time = n, 1.0 / reynolds, 0.0
        self.projector = mac.Projector((n, n), "wall")
        self.u, self.v = self.projector.velocity()
        self.step = min(0.3 / n, 0.1 / (self.nu * n**2))
        self._before: Any = None

    def rates(self) -> tuple[Any, Any]:
        """The changes by momentum and viscosity of what flows through the faces between cells."""
        u, v, n = self.u, self.v, self.n
        # The values beyond a wall make the mean there that of the wall.
        beyond_u = np.concatenate([-u[:1], u, 2.0 - u[-1:]])
        beyond_v = np.concatenate([-v[:, :1], v, -v[:, -1:]], axis=1)
        uu, vv = ((u[:, 1:] + u[:, :-1]) / 2.0) ** 2, ((v[1:] + v[:-1]) / 2.0) ** 2
        uv = (beyond_u[1:] + beyond_u[:-1]) / 2.0 * (beyond_v[:, 1:] + beyond_v[:, :-1]) / 2.0  # at the corners
        friction_u = np.diff(u, 2, axis=1) + np.diff(beyond_u[:, 1:-1], 2, axis=0)
        friction_v = np.diff(v, 2, axis=0) + np.diff(beyond_v[1:-1], 2, axis=1)
        return (
            self.nu * n**2 * friction_u - n * (np.diff(uu, axis=1) + np.diff(uv[:, 1:-1], axis=0)),
            self.nu * n**2 * friction_v - n * (np.diff(vv, axis=0) + np.diff(uv[1:-1], axis=1)),
        )

    def run(self, until: float) -> None:
        """Steps of second order (Adams and Bashforth), each with a projection."""
        while self.time < until:
            rates = self.rates()
            (du, dv), (old_u, old_v) = rates, self._before or rates
            self.u[:, 1:-1] += self.step * (1.5 * du - 0.5 * old_u)
            self.v[1:-1] += self.step * (1.5 * dv - 0.5 * old_v)
            self.projector.project((self.u, self.v), step=self.step)
            self._before, self.time = rates, self.time + self.step

    def lines(self) -> tuple[Any, Any, Any]:
        """Coordinates, u on the vertical line through the centre and v on the horizontal one; n is even."""
        places = np.concatenate([[0.0], (np.arange(self.n) + 0.5) / self.n, [1.0]])
        middle = self.n // 2
        return places, np.array([0.0, *self.u[:, middle], 1.0]), np.array([0.0, *self.v[middle], 0.0])

    def differences(self, reynolds: int) -> tuple[float, float]:
        """The largest differences of u and of v from the published values."""
        places, u, v = self.lines()
        ends = (u, HEIGHTS, U[reynolds]), (v, PLACES, V[reynolds])
        differ = (float(abs(np.interp(at, places, found) - values).max()) for found, at, values in ends)
        return next(differ), next(differ)


def draw(cavity: Cavity, reynolds: int) -> Any:
    """A matplotlib figure of the speed, and of both profiles beside the published values."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    field, profiles = figure.subplots(1, 2)
    u, v = (cavity.u[:, 1:] + cavity.u[:, :-1]) / 2.0, (cavity.v[1:] + cavity.v[:-1]) / 2.0
    places, along_y, along_x = cavity.lines()
    field.imshow(np.hypot(u, v), origin="lower", extent=(0.0, 1.0, 0.0, 1.0))
    field.streamplot(places[1:-1], places[1:-1], u, v, density=1.2, color="white", linewidth=0.6, arrowsize=0.6)
    field.set(title=f"Speed, Re = {reynolds}", xlabel="x", ylabel="y")
    profiles.plot(places, along_y, "C0", label="u(0.5, y)")
    profiles.plot(places, along_x, "C1", label="v(x, 0.5)")
    profiles.plot(HEIGHTS, U[reynolds], "C0o", PLACES, V[reynolds], "C1o", markersize=4)
    profiles.set(title="Profiles, and points by Ghia et al.", xlabel="y, x")
    profiles.legend()
    return figure


def main(reynolds: int = 100, cells: int = 64, until: float = 60.0, picture: str = "") -> None:
    """Compute the steady flow, and say how far it is from the published values."""
    cavity = Cavity(cells, reynolds)
    cavity.run(until)
    for name, difference in zip("uv", cavity.differences(reynolds), strict=True):
        print(f"{name}: at most {difference:.4f} from the published values")
    print(f"divergence {abs(cavity.projector.divergence(cavity.u, cavity.v)).max():.1e}")
    if picture:
        draw(cavity, reynolds).savefig(picture, dpi=80)


if __name__ == "__main__":
    fire.Fire(main)
