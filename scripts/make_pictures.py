"""Draw the picture of the README from result files.

    python scripts/make_pictures.py [RESULTS [IMAGES]]

RESULTS is the folder with ``heated_square.h5`` and ``source_from_file.h5``, by default the current one; IMAGES is where
the picture goes, by default ``docs/images``. The results come from

    python -m poisson solve cases/heated_square.toml
    python scripts/make_source.py && python -m poisson solve cases/source_from_file.toml
"""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
LEVELS = 25
DOTS_PER_INCH = 100


def name_of(file: h5py.File) -> str:
    """The first words of a title."""
    return str(file.attrs["title"]).partition(",")[0]


def draw_field(axes: Axes, file: h5py.File, colours: str, *, symmetric: bool = False) -> None:
    """Filled contours of u with its lines of equal value."""
    u, x, y = (file[name][...] for name in ("u", "x", "y"))
    if file["y"].attrs["periodic"]:
        # The last node of a periodic axis is not stored.
        u, y = np.vstack([u, u[:1]]), np.append(y, file["y"].attrs["upper"])
    low, high = float(u.min()), float(u.max())
    if symmetric:
        high = max(abs(low), high)
        low = -high
    levels = np.linspace(low, high, LEVELS)
    filled = axes.contourf(x, y, u, levels=levels, cmap=colours)
    axes.contour(x, y, u, levels=levels[2:-2:3], colors="black", linewidths=0.4, alpha=0.5)
    axes.set(title=name_of(file), xlabel="x", ylabel="y", aspect="equal")
    axes.locator_params(nbins=5)
    axes.figure.colorbar(filled, ax=axes, label="u", ticks=np.linspace(low, high, 5), format="%.3g")


def draw_history(axes: Axes, files: list[h5py.File]) -> None:
    """The residual norm against the sweeps, relative to its first value."""
    for file in files:
        sweeps, norms = (file["convergence"][name][...] for name in ("iteration", "residual"))
        axes.semilogy(sweeps, norms / norms[0], label=name_of(file))
    axes.set(title="Residual norms", xlabel="sweeps", ylabel="residual / first residual", box_aspect=1.0)
    axes.locator_params(axis="x", nbins=5)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper right")


def main(results: Path, images: Path) -> Path:
    """Draw the picture and return the path of the file."""
    names = ("heated_square.h5", "source_from_file.h5")
    missing = [name for name in names if not (results / name).exists()]
    if missing:
        sys.exit(f"{' and '.join(missing)} not in {results}: see the top of this file for the commands that make them")
    figure = Figure(figsize=(11.5, 3.2), layout="constrained")
    axes = figure.subplots(1, 3)
    with h5py.File(results / names[0]) as heated, h5py.File(results / names[1]) as charges:
        draw_field(axes[0], heated, "inferno")
        draw_field(axes[1], charges, "RdBu_r", symmetric=True)
        draw_history(axes[2], [heated, charges])
    images.mkdir(parents=True, exist_ok=True)
    path = images / "solutions.png"
    figure.savefig(path, dpi=DOTS_PER_INCH, pil_kwargs={"optimize": True})
    return path


if __name__ == "__main__":
    folders = [Path(word) for word in sys.argv[1:3]]
    print(main(*(folders + [Path(), IMAGES][len(folders) :])))
