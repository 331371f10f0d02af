"""Draw the pictures of the README and the gallery from the case files.

    python scripts/make_pictures.py [IMAGES]

IMAGES is where the pictures go, by default ``docs/images``. It needs matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from make_source import main as make_source
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import poisson
from poisson.problem.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
LEVELS = 25
DOTS_PER_INCH = 80

GALLERY = (
    ("point_charge", "A smeared charge, z = 0"),
    ("dipole", "A dipole and its field"),
    ("capacitor", "A capacitor with dielectric"),
    ("pressure_projection", "Pressure and its gradient"),
    ("heated_plate", "A heated plate that air cools"),
    ("electrolyte", "Screened charges"),
    ("grounded_box", "A charge in a grounded box"),
    ("anisotropic_channel", "A long channel"),
)
"""The cases of the gallery with their titles."""

METHODS = ("jacobi", "chebyshev", "sor", "cg", "multigrid")


def solve(name: str, *overrides: str) -> poisson.Solution:
    """The solution of one of the case files."""
    with TemporaryDirectory() as folder:
        case = Path(folder) / f"{name}.toml"
        case.write_bytes((ROOT / "cases" / case.name).read_bytes())
        make_source(Path(folder))
        return poisson.solve(poisson.load_case(case, overrides))


def plane(solution: poisson.Solution) -> tuple[list[NDArray[np.float64]], NDArray[Any]]:
    """x, y and u in 2D, and in the plane z of the largest u in 3D; with the nodes that a period repeats."""
    grid, u = solution.problem.grid, solution.host_u
    if grid.dimension == 3:
        u = u[np.unravel_index(np.abs(u).argmax(), u.shape)[0]]
    coordinates = [grid.coordinates(axis) for axis in (0, 1)]
    for axis in (0, 1):
        if grid.periodic[axis]:
            coordinates[axis] = np.append(coordinates[axis], grid.upper[axis])
            u = np.concatenate([u, np.take(u, [0], axis=1 - axis)], axis=1 - axis)
    return coordinates, u


def draw_field(axes: Axes, solution: poisson.Solution, title: str) -> None:
    """Filled contours of u with lines of equal value, and arrows of a vector field if there is one."""
    (x, y), u = plane(solution)
    low, high = float(u.min()), float(u.max())
    signed = low < 0.0 < high and min(-low, high) > 0.1 * max(-low, high)
    if signed:
        high = max(-low, high)
        low = -high
    levels = np.linspace(low, high, LEVELS)
    filled = axes.contourf(x, y, u, levels=levels, cmap="RdBu_r" if signed else "inferno")
    axes.contour(x, y, u, levels=levels[2:-2:3], colors="black", linewidths=0.4, alpha=0.5)
    vectors = [name for name in ("flux", "gradient") if name in solution.fields]
    if vectors and u.ndim == 2:
        draw_arrows(axes, solution, vectors[0])
    axes.set(title=title, xlabel="x", ylabel="y")
    # A long channel would be a line if its axes had one scale.
    axes.set_aspect("equal" if np.ptp(x) < 4 * np.ptp(y) else "auto")
    axes.locator_params(nbins=5)
    axes.figure.colorbar(filled, ax=axes, ticks=np.linspace(low, high, 5), format="%.3g")


def draw_arrows(axes: Axes, solution: poisson.Solution, name: str) -> None:
    """Arrows of one length along a vector field; against it for the gradient, so that all point downhill."""
    grid, vectors = solution.problem.grid, solution.fields[name]
    step = max(1, min(grid.shape) // 12)
    rows, columns = (slice(step // 2, None, step),) * 2
    shown = vectors[rows, columns] * (-1.0 if name == "gradient" else 1.0)
    length = np.linalg.norm(shown, axis=-1, keepdims=True)
    shown = shown / np.where(length > 1e-12 * length.max(), length, np.inf)
    x, y = (grid.coordinates(axis) for axis in (0, 1))
    axes.quiver(x[columns], y[rows], shown[..., 0], shown[..., 1], scale=28, width=0.003, color="black", alpha=0.6)


def draw_histories(axes: Axes) -> None:
    """The residual norm of each method against its iterations, on the heated square."""
    problem: Problem = poisson.load_case(ROOT / "cases" / "heated_square.toml").problem
    for method in METHODS:
        options: Any = {"preconditioner": "none"} if method == "cg" else {}
        solution = poisson.Solver(problem, method, rtol=1e-10, **options).solve()
        iterations, norms = np.array(solution.history).T
        marker = "." if iterations.size < 20 else ""
        axes.loglog(np.maximum(iterations, 0.5), norms / norms[0], marker=marker, label=method)
    axes.set(title="Residual norms", xlabel="iterations", ylabel="residual / first residual", box_aspect=1.0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def save(figure: Figure, path: Path) -> Path:
    """Write a picture with few colours: they are small."""
    from PIL import Image

    figure.savefig(path, dpi=DOTS_PER_INCH)
    with Image.open(path) as image:
        image.convert("RGB").quantize(256).save(path, optimize=True)
    return path


def main(images: Path) -> list[Path]:
    """Draw the pictures and return the paths of the files."""
    images.mkdir(parents=True, exist_ok=True)
    front = Figure(figsize=(12.0, 3.2), layout="constrained")
    axes = front.subplots(1, 3)
    draw_field(axes[0], solve("heated_square"), "Heated square")
    draw_field(axes[1], solve("source_from_file"), "Two charges")
    draw_histories(axes[2])
    gallery = Figure(figsize=(15.0, 6.4), layout="constrained")
    for panel, (name, title) in zip(gallery.subplots(2, 4).flat, GALLERY, strict=True):
        draw_field(panel, solve(name), title)
    return [save(front, images / "solutions.png"), save(gallery, images / "gallery.png")]


if __name__ == "__main__":
    print(*main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES), sep="\n")
