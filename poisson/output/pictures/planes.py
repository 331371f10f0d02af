# SPDX-License-Identifier: MIT
"""A line or a plane of a field on a pair of axes: curve, contours, arrows, field lines."""

from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, SymLogNorm
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from poisson.output.pictures.labels import counted
from poisson.output.pictures.samples import FieldSample, resampled
from poisson.output.pictures.scales import ROUND, Scale
from poisson.output.pictures.ticks import Numbers, measure_of

WIDEST, TALLEST = 6.0, 4.4
"""Inches of the box in a picture of its own."""

LONGEST = 10.0
"""A box that is longer than so many times its height is not drawn to scale, but as `DRAWN` to 1."""
DRAWN = 4.0

NOTHING = 1e-6
"""The part of the largest difference below which a difference counts as none."""

_HALO: list[patheffects.AbstractPathEffect] = [patheffects.withStroke(linewidth=2.2, foreground="white", alpha=0.7)]
"""Behind black lines and arrows: they are seen on dark colours, too."""

_SEEDS = 30
"""Lines that matplotlib begins along an axis, at density 1."""

_DISTANCE, _ALONG = 0.03, 0.8
"""Inches between two lines that are seen as two, and the part of its way along which a line may have less."""

_DOTS = 110
"""Values on an inch of smooth colours, at least."""
_TICK_INCHES = 0.55


def box_inches(sample: FieldSample, widest: float = WIDEST, tallest: float = TALLEST) -> tuple[float, float]:
    """Width and height of the box of a plane where it is drawn as large as it may be."""
    across, up = (float(np.ptp(along)) for along in sample.coordinates)
    width = min(widest, tallest * across / (up * stretch(sample)))
    return width, width * up * stretch(sample) / across


def stretch(sample: FieldSample) -> float:
    """How many times longer the axis that goes up is drawn than the one across; 1 to scale."""
    across, up = (float(np.ptp(along)) for along in sample.coordinates)
    if max(across / up, up / across) <= LONGEST:
        return 1.0
    wanted = across / (up * DRAWN) if across > up else across * DRAWN / up
    return float(f"{wanted:.1g}")


def not_to_scale(sample: FieldSample) -> str:
    """A note that the axes have different scales; empty where they have one."""
    factor = stretch(sample)
    if factor == 1.0:
        return ""
    across, up = sample.names[:2]
    return f"{up} stretched {factor:g} times" if factor > 1.0 else f"{across} stretched {1.0 / factor:.3g} times"


def draw_curve(axes: Axes, sample: FieldSample, scale: Scale, labels: tuple[str, str], *, fixed: bool) -> None:
    """A field along a line; the axis that goes up has the range of the scale where that is fixed or logarithmic."""
    along, values = sample.coordinates[0], np.ma.masked_invalid(sample.values)
    marker = "." if along.size <= 40 else ""
    axes.plot(along, values, color="C0", marker=marker)
    if isinstance(scale.norm, LogNorm):
        axes.set_yscale("log")
    elif isinstance(scale.norm, SymLogNorm):
        axes.set_yscale("symlog", linthresh=scale.norm.linthresh, linscale=0.5)
    logarithmic = isinstance(scale.norm, (LogNorm, SymLogNorm))
    if scale.low < 0.0 < scale.high:
        axes.axhline(0.0, color="black", linewidth=0.6)
    if fixed or logarithmic or scale.ticks.size == 1:
        # The scale of a constant is not that of its rounding errors.
        axes.set_ylim(scale.low, scale.high)
    if logarithmic:
        axes.set_yticks(scale.ticks)
        axes.minorticks_off()
    axes.yaxis.set_major_formatter(Numbers(scale.measure))
    axes.set_ylabel(counted(labels[1], scale.measure), parse_math=False)
    axes.set_xlim(along[0], along[-1])
    mark(axes.xaxis, along, labels[0], 8)
    axes.grid(alpha=0.3)


def draw_plane(
    axes: Axes, sample: FieldSample, scale: Scale, labels: tuple[str, str], inches: tuple[float, float]
) -> Any:
    """The colours of a field on a plane, with lines at the ticks of its scale; returns what has the colours."""
    x, y = sample.coordinates
    values = scale.clipped(sample.values)
    if scale.bands is None:
        filled: Any = _smooth_colours(axes, sample, scale, inches)
    else:
        filled = axes.contourf(
            x, y, sample.values, levels=scale.bands, cmap=scale.colours, norm=scale.norm, extend=scale.extend
        )
    if values.count():
        # A line next to an extreme is a dot with corners.
        low, high = (
            float(scale.norm.inverse(scale.norm(end) + by)) for end, by in ((values.min(), 0.02), (values.max(), -0.02))
        )
        inside = scale.ticks[(scale.ticks > low) & (scale.ticks < high)]
        # Of a plane on which the field vanishes there are rounding errors, of which no lines are drawn.
        if inside.size and np.ptp(values) > NOTHING * (scale.high - scale.low) and _smooth(sample.values):
            axes.contour(x, y, values, levels=inside, colors="black", linewidths=0.5, alpha=0.5, linestyles="solid")
    else:
        axes.text(0.5, 0.5, "no finite value", transform=axes.transAxes, ha="center", va="center")
    axes.set_aspect(stretch(sample))
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])
    for ruler, along, label, length in zip((axes.xaxis, axes.yaxis), (x, y), labels, inches, strict=True):
        mark(ruler, along, label, int(np.clip(length / _TICK_INCHES, 2, 8)))
    return filled


def mark(ruler: Any, along: NDArray[np.float64], label: str, most: int) -> None:
    """The name of an axis and at most so many numbers along it."""
    measure = measure_of(float(along[0]), float(along[-1]))
    ruler.set_label_text(counted(label, measure), parse_math=False)
    ruler.set_major_locator(MaxNLocator(most, steps=ROUND, min_n_ticks=2))
    ruler.set_major_formatter(Numbers(measure))


def _smooth_colours(axes: Axes, sample: FieldSample, scale: Scale, inches: tuple[float, float]) -> Any:
    """An image of the field, linear between its nodes, with as many values as there are dots."""
    counts = [
        max(2, along.size, round(_DOTS * length)) for along, length in zip(sample.coordinates, inches, strict=True)
    ]
    even = [np.linspace(along[0], along[-1], count) for along, count in zip(sample.coordinates, counts, strict=True)]
    # Values stand in the middle of the dots, those of the border half outside.
    sides = [side for along in even for side in (1.5 * along[0] - 0.5 * along[1], 1.5 * along[-1] - 0.5 * along[-2])]
    return axes.imshow(
        scale.clipped(resampled(sample, (even[0], even[1]))),
        extent=(sides[0], sides[1], sides[2], sides[3]),
        origin="lower",
        interpolation="bilinear",
        cmap=scale.colours,
        norm=scale.norm,
    )


def bar_lies_below(inches: tuple[float, float]) -> bool:
    """Whether a box is so thin that its colours stand below it."""
    return inches[1] < 0.3 * inches[0]


def draw_bar(axes: Axes, filled: Any, scale: Scale, label: str, inches: tuple[float, float]) -> None:
    """The colours beside a plane, as high as it is; below a thin one, as long."""
    width, height = inches
    below = bar_lies_below(inches)
    # The marks of the axis below, and its name, take a part of an inch.
    place = (0.0, -0.85 / height, 1.0, 0.14 / height) if below else (1.0 + 0.12 / width, 0.0, 0.16 / width, 1.0)
    bar = colour_bar(axes, filled, scale, label, cax=axes.inset_axes(place), below=below)
    (bar.ax.xaxis if below else bar.ax.yaxis).set_tick_params(labelsize="small")


def colour_bar(axes: Any, filled: Any, scale: Scale, label: str, *, below: bool = False, **place: Any) -> Any:
    """The colours of a scale with its ticks, pointed at the ends beyond which there are values."""
    bar = axes.figure.colorbar(
        filled,
        ticks=scale.ticks,
        format=Numbers(scale.measure),
        orientation="horizontal" if below else "vertical",
        **({} if scale.bands is not None else {"extend": scale.extend}),
        **place,
    )
    bar.minorticks_off()
    bar.set_label(counted(label, scale.measure), parse_math=False)
    for tick in scale.ticks[(scale.ticks > scale.low) & (scale.ticks < scale.high)]:
        (bar.ax.axvline if below else bar.ax.axhline)(tick, color="black", linewidth=0.5, alpha=0.5)
    return bar


def draw_arrows(axes: Axes, vectors: FieldSample, inches: tuple[float, float]) -> None:
    """Arrows along a vector field where it is not zero, all of one length: they are seen where it is weak."""
    counts = [max(3, round(length / 0.3)) for length in inches]
    centres = [
        along[0] + (np.arange(count) + 0.5) / count * (along[-1] - along[0])
        for along, count in zip(vectors.coordinates, counts, strict=True)
    ]
    shown = _finite(resampled(vectors, (centres[0], centres[1])))
    length = np.linalg.norm(shown, axis=-1)
    there = length > 0.0
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
        path_effects=_HALO,
        zorder=3,
    )


def draw_lines(axes: Axes, vectors: FieldSample, inches: tuple[float, float]) -> None:
    """The lines along a vector field, where it is not zero."""
    density = (max(0.2, inches[0] / 9.0), max(0.2, inches[1] / 9.0))
    even = [
        _wider(along, max(16, round(40 * length)), int(_SEEDS * dense))
        for along, length, dense in zip(vectors.coordinates, inches, density, strict=True)
    ]
    field = _finite(resampled(vectors, (even[0], even[1])))
    there = np.linalg.norm(field, axis=-1) > 0.0
    if not there.any():
        return
    # Lines end where the field is masked.
    along_x, along_y = (np.ma.masked_where(~there, field[..., component]) for component in (0, 1))
    before = len(axes.patches)
    drawn = axes.streamplot(
        even[0],
        even[1],
        along_x,
        along_y,
        density=density,
        color="black",
        linewidth=0.8,
        arrowsize=0.9,
        zorder=3,
        broken_streamlines=False,
    )
    lines, heads = drawn.lines.get_segments(), axes.patches[before:]
    kept = _apart([np.asarray(line) for line in lines], vectors, inches)
    drawn.lines.set_segments([line for line, keep in zip(lines, kept, strict=True) if keep])
    for head, keep in zip(heads, kept, strict=True):
        if not keep:
            head.remove()
    for artist in (drawn.lines, *axes.patches[before:]):
        artist.set_path_effects(_HALO)
    axes.set_xlim(vectors.coordinates[0][0], vectors.coordinates[0][-1])
    axes.set_ylim(vectors.coordinates[1][0], vectors.coordinates[1][-1])


def _apart(lines: list[NDArray[np.float64]], vectors: FieldSample, inches: tuple[float, float]) -> list[bool]:
    """Whether each line keeps a distance from the ones before it along a part of its way: others are seen as one."""
    counts = np.ceil(np.array(inches) / _DISTANCE).astype(int)
    low, high = (np.array([along[end] for along in vectors.coordinates]) for end in (0, -1))
    near = np.zeros(counts + 3, dtype=bool)
    kept = []
    for line in lines:
        points = _even((line - low) / (high - low) * counts)
        points = points[((points >= 0.0) & (points <= counts)).all(axis=1)]
        places = np.floor(points).astype(int) + 1
        kept.append(bool(len(places) and near[tuple(places.T)].mean() < _ALONG))
        for across, up in np.ndindex(3, 3) if kept[-1] else ():
            near[places[:, 0] + across - 1, places[:, 1] + up - 1] = True
    return kept


def _even(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points on a line at distances of a half, from points that are sparse on straight parts and dense at a charge."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    wanted = np.arange(0.0, along[-1], 0.5)
    return np.stack([np.interp(wanted, along, part) for part in points.T], axis=1)


def _wider(along: NDArray[np.float64], count: int, seeds: int) -> NDArray[np.float64]:
    """Even coordinates that go half the distance of two seeds beyond a box, so that no line runs on its border."""
    beyond = (along[-1] - along[0]) / (2 * (seeds - 2))
    return np.linspace(along[0] - beyond, along[-1] + beyond, count)


def _smooth(values: NDArray[np.float64]) -> bool:
    """Whether lines of one value say something: not where the values are others at every node, or have jumps alone."""
    steps = [np.diff(values, axis=axis) for axis in (0, 1)]
    bends = [np.diff(step, axis=axis) for axis, step in enumerate(steps)]
    return sum(float(np.nansum(np.abs(bend))) for bend in bends) < sum(float(np.nansum(np.abs(step))) for step in steps)


def _finite(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(vectors).all(axis=-1, keepdims=True), vectors, 0.0)
