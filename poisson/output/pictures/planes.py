# SPDX-License-Identifier: MIT
"""A line or a plane of a field on a pair of axes: curve, contours, arrows, field lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from numpy.typing import NDArray

from poisson.mesh.grid import AXES
from poisson.output.pictures.samples import Sample, resampled
from poisson.output.pictures.scales import ROUND, Scale

WIDEST, TALLEST = 6.0, 4.4
"""Inches of the box in a picture of its own."""

LONGEST = 10.0
"""A box that is longer than so many times its height is not drawn to scale, but as `DRAWN` to 1."""
DRAWN = 4.0

NOTHING = 1e-6
"""Of what there is elsewhere: differences that are none."""

_HALO: list[patheffects.AbstractPathEffect] = [patheffects.withStroke(linewidth=2.2, foreground="white", alpha=0.7)]
_TICK_INCHES = 0.55


def box_inches(sample: Sample, widest: float = WIDEST, tallest: float = TALLEST) -> tuple[float, float]:
    """Width and height of the box of a plane where it is drawn as large as it may be."""
    across, up = (float(np.ptp(along)) for along in sample.coordinates)
    width = min(widest, tallest * across / (up * stretch(sample)))
    return width, width * up * stretch(sample) / across


def stretch(sample: Sample) -> float:
    """How many times longer the axis that goes up is drawn than the one across; 1 to scale."""
    across, up = (float(np.ptp(along)) for along in sample.coordinates)
    if max(across / up, up / across) <= LONGEST:
        return 1.0
    wanted = across / (up * DRAWN) if across > up else across * DRAWN / up
    return float(f"{wanted:.1g}")


def not_to_scale(sample: Sample) -> str:
    """That the axes have different scales, in words; empty where they have one."""
    factor = stretch(sample)
    if factor == 1.0:
        return ""
    across, up = (AXES[axis] for axis in sample.axes)
    return f"{up} stretched {factor:g} times" if factor > 1.0 else f"{across} stretched {1.0 / factor:.3g} times"


def draw_curve(axes: Axes, sample: Sample, labels: tuple[str, str]) -> None:
    """A field along a line."""
    along, values = sample.coordinates[0], np.ma.masked_invalid(sample.values)
    marker = "." if along.size <= 40 else ""
    axes.plot(along, values, color="C0", marker=marker)
    low, high = (float(values.min()), float(values.max())) if values.count() else (0.0, 0.0)
    if low < 0.0 < high:
        axes.axhline(0.0, color="black", linewidth=0.6)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        # The scale of a constant is not that of its rounding errors.
        axes.set_ylim(low - (0.1 * abs(low) or 1.0), low + (0.1 * abs(low) or 1.0))
    axes.set_xlim(along[0], along[-1])
    axes.set_xlabel(labels[0], parse_math=False)
    axes.set_ylabel(labels[1], parse_math=False)
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=ROUND))
    axes.grid(alpha=0.3)


def draw_plane(axes: Axes, sample: Sample, scale: Scale, labels: tuple[str, str], inches: tuple[float, float]) -> Any:
    """Filled contours of a field on a plane, with lines at the ticks of its scale; returns what has the colours."""
    x, y = sample.coordinates
    values = scale.clipped(sample.values)
    filled = axes.contourf(x, y, values, levels=scale.levels, cmap=scale.colours, norm=scale.norm)
    if values.count():
        inside = scale.ticks[(scale.ticks > values.min()) & (scale.ticks < values.max())]
        # Of a plane on which the field vanishes there are rounding errors, of which no lines are drawn.
        if inside.size and np.ptp(values) > NOTHING * np.ptp(scale.levels) and _smooth(sample.values):
            axes.contour(x, y, values, levels=inside, colors="black", linewidths=0.5, alpha=0.5, linestyles="solid")
    else:
        axes.text(0.5, 0.5, "no finite value", transform=axes.transAxes, ha="center", va="center")
    axes.set_aspect(stretch(sample))
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])
    axes.set_xlabel(labels[0], parse_math=False)
    axes.set_ylabel(labels[1], parse_math=False)
    for ruler, length in ((axes.xaxis, inches[0]), (axes.yaxis, inches[1])):
        count = int(np.clip(length / _TICK_INCHES, 2, 8))
        ruler.set_major_locator(MaxNLocator(count, steps=ROUND, min_n_ticks=2))
    return filled


def bar_lies_below(inches: tuple[float, float]) -> bool:
    """Whether a box is so thin that its colours stand below it."""
    return inches[1] < 0.3 * inches[0]


def draw_bar(axes: Axes, filled: Any, scale: Scale, label: str, inches: tuple[float, float]) -> None:
    """The colours beside a plane, as high as it is; below a thin one, as long."""
    width, height = inches
    below = bar_lies_below(inches)
    # The marks of the axis below, and its name, take a part of an inch.
    place = (0.0, -0.85 / height, 1.0, 0.14 / height) if below else (1.0 + 0.12 / width, 0.0, 0.16 / width, 1.0)
    formatter = ScalarFormatter(useMathText=True)
    formatter.set_powerlimits((-3, 4))
    bar = axes.figure.colorbar(
        filled,
        cax=axes.inset_axes(place),
        ticks=scale.ticks,
        format=formatter,
        orientation="horizontal" if below else "vertical",
    )
    ruler = bar.ax.xaxis if below else bar.ax.yaxis
    (bar.ax.set_xlabel if below else bar.ax.set_ylabel)(label, parse_math=False)
    for tick in scale.ticks[(scale.ticks > scale.levels[0]) & (scale.ticks < scale.levels[-1])]:
        (bar.ax.axvline if below else bar.ax.axhline)(tick, color="black", linewidth=0.5, alpha=0.5)
    ruler.set_tick_params(labelsize="small")


def draw_arrows(axes: Axes, vectors: Sample, inches: tuple[float, float], least: float) -> None:
    """Arrows of one length in the direction of a vector field longer than `least`: they are seen where it is weak."""
    counts = [max(3, round(length / 0.3)) for length in inches]
    centres = [
        along[0] + (np.arange(count) + 0.5) / count * (along[-1] - along[0])
        for along, count in zip(vectors.coordinates, counts, strict=True)
    ]
    shown = _finite(resampled(vectors, (centres[0], centres[1])))
    length = np.linalg.norm(shown, axis=-1)
    there = length > least
    directions = shown[there] / length[there][:, None]
    x, y = (grid[there] for grid in np.meshgrid(*centres))
    if x.size == 0:
        return
    # Angles of the picture are those of the axes, also where these are not to scale.
    axes.quiver(
        x,
        y,
        directions[:, 0],
        directions[:, 1],
        angles="xy",
        pivot="mid",
        units="inches",
        scale=1.0 / 0.2,
        scale_units="inches",
        width=0.02,
        headwidth=4.5,
        headlength=4.5,
        headaxislength=4.0,
        color="black",
        edgecolor="white",
        linewidth=0.4,
        zorder=3,
    )


def draw_lines(axes: Axes, vectors: Sample, inches: tuple[float, float], least: float) -> None:
    """The lines along a vector field, where it is longer than `least`."""
    counts = [max(16, round(40 * length)) for length in inches]
    even = tuple(
        np.linspace(along[0], along[-1], count) for along, count in zip(vectors.coordinates, counts, strict=True)
    )
    field = _finite(resampled(vectors, (even[0], even[1])))
    if not (np.linalg.norm(field, axis=-1) > least).any():
        return
    density = (max(0.2, inches[0] / 9.0), max(0.2, inches[1] / 9.0))
    drawn = axes.streamplot(
        even[0],
        even[1],
        field[..., 0],
        field[..., 1],
        density=density,
        color="black",
        linewidth=0.8,
        arrowsize=0.9,
        zorder=3,
        broken_streamlines=False,
    )
    drawn.lines.set_path_effects(_HALO)
    axes.set_xlim(even[0][0], even[0][-1])
    axes.set_ylim(even[1][0], even[1][-1])


def _smooth(values: NDArray[np.float64]) -> bool:
    """Whether lines of one value say something: not where the values are others at every node, or have jumps alone."""
    steps = [np.diff(values, axis=axis) for axis in (0, 1)]
    bends = [np.diff(step, axis=axis) for axis, step in enumerate(steps)]
    return sum(float(np.nansum(np.abs(bend))) for bend in bends) < sum(float(np.nansum(np.abs(step))) for step in steps)


def _finite(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(vectors).all(axis=-1, keepdims=True), vectors, 0.0)
