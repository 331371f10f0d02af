# SPDX-License-Identifier: MIT
"""Whole pictures of a solution: a field, how its residual fell, and a small one for a notebook."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d import Axes3D

from poisson.case.schema import UNIT, unit
from poisson.case.settings import VECTORS, Units
from poisson.errors import CaseError
from poisson.mesh.grid import AXES
from poisson.output.pictures import labels, planes
from poisson.output.pictures.picture import Picture
from poisson.output.pictures.samples import Sample, component_names, middle, names, places_of, sample
from poisson.output.pictures.scales import ROUND, scale_of
from poisson.output.pictures.surfaces import draw_surfaces, levels_of
from poisson.output.record import Record
from poisson.words import quantity

CURVE_NODES, PLANE_NODES, PANEL_NODES, BOX_NODES = 2000, 400, 160, 36
"""The most nodes along an axis that are drawn: of a line, of a plane, of one of three planes, of surfaces."""

THUMBNAIL_INCHES, THUMBNAIL_DOTS = (2.6, 1.9), 90

_ALONG = {"flux": "−a∇u", "E": "−∇u", "gradient": "−∇u"}
"""The vectors that arrows and lines of other fields go along, the first one that there is, and what they are then."""

_PLANES = ((0, 1), (0, 2), (1, 2))
_MARGINS, _MARGINS_BELOW, _LEAST_WIDTH = (1.9, 1.2), (0.9, 2.1), 4.6
"""Inches for what stands beside and above the box of a plane, with its colours beside or below it; for a title."""


@np.errstate(all="ignore")
def draw(
    record: Record,
    field: str = "u",
    *,
    ax: Axes | None = None,
    cmap: str | Colormap | None = None,
    levels: int | Sequence[float] | None = None,
    slice: str | Mapping[str, float] | None = None,
    vectors: bool = False,
    lines: bool = False,
    length: str | None = None,
    value: str | None = None,
) -> Picture | Axes:
    """Draw a field; `poisson.Solution.plot` says how."""
    grid = record.problem.grid
    _require_field(record, field)
    at = {} if slice is None else places_of(slice, grid)
    units = _units(record, length, value)
    dimension = grid.dimension - len(at)
    if dimension == 1:
        _refuse(
            "a curve has none", {"cmap": cmap, "levels": levels, "vectors": vectors or None, "lines": lines or None}
        )
    if dimension == 3:
        if ax is not None:
            raise CaseError(["ax: a field in 3D takes several; give slice, too, such as slice='z=0.5'"])
        return _box(record, field, units, cmap, levels, vectors, lines)
    shown = _scalar(record, field, at, CURVE_NODES if dimension == 1 else PLANE_NODES)
    # On a line a vector is its one component, which has a sign.
    named = f"{field}_{AXES[0]}" if field in VECTORS and grid.dimension == 1 else field
    subtitle = [_subject(named), *_cuts(at, units)]
    if dimension == 1:
        figure, axes = _with_axes(ax, 5.6, 3.8)
        planes.draw_curve(axes, shown, (labels.of_axis(AXES[shown.axes[0]], units), labels.of_field(named, units)))
    else:
        inches = _cell(ax, shown) if ax is not None else planes.box_inches(shown)
        margins = _MARGINS_BELOW if planes.bar_lies_below(inches) else _MARGINS
        figure, axes = _with_axes(ax, max(_LEAST_WIDTH, inches[0] + margins[0]), inches[1] + margins[1])
        scale = scale_of(shown.values, cmap, levels)
        filled = planes.draw_plane(axes, shown, scale, _axis_labels(shown, units), inches)
        planes.draw_bar(axes, filled, scale, labels.of_field(field, units), inches)
        drawn = _draw_vectors(axes, record, field, at, PLANE_NODES, inches, vectors=vectors, lines=lines)
        subtitle += [drawn, planes.not_to_scale(shown)]
    _titled(axes, record.problem.title, "; ".join(part for part in subtitle if part))
    return figure if figure is not None else axes


@np.errstate(all="ignore")
def draw_history(record: Record, *, ax: Axes | None = None) -> Picture | Axes:
    """Draw the residual norm over the iterations, and the norm to reach."""
    figure, axes = _with_axes(ax, 5.6, 3.8)
    points = [(sweep, norm) for sweep, norm in record.history if 0.0 < norm < np.inf]
    if points:
        sweeps, norms = zip(*points, strict=True)
        axes.semilogy(sweeps, norms, color="C0", marker="." if len(points) <= 60 else "", label="residual")
        if 0.0 < record.target < np.inf:
            axes.axhline(record.target, color="C3", linestyle="--", linewidth=1.0, label=f"target {record.target:.2g}")
            axes.legend(loc="best", fontsize="small")
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=ROUND, integer=True))
        if sweeps[0] == sweeps[-1]:
            axes.set_xlim(sweeps[0] - 1, sweeps[0] + 1)
        axes.grid(alpha=0.3)
    else:
        axes.text(0.5, 0.5, "no norm was read", transform=axes.transAxes, ha="center", va="center")
    name = labels.of_field("residual", record.units).replace("residual", f"{record.norm} norm of", 1)
    axes.set_xlabel("iterations")
    axes.set_ylabel(name, parse_math=False)
    ending = f"{record.status.value} after {quantity(record.iterations, 'iteration')}"
    _titled(axes, record.problem.title, ending)
    return figure if figure is not None else axes


@np.errstate(all="ignore")
def thumbnail(record: Record) -> str:
    """A small picture of u for a page of HTML: an ``img`` element that holds it; empty for a part of a solution.

    In three dimensions it is the plane z in the middle.
    """
    grid = record.problem.grid
    if record.share is not None and tuple(record.u.shape) != grid.array_shape:
        return ""
    at = {2: middle(grid, 2)} if grid.dimension == 3 else {}
    shown = sample(record, "u", at, 120)
    figure = Picture(*THUMBNAIL_INCHES)
    axes = figure.subplots()
    if grid.dimension == 1:
        planes.draw_curve(axes, shown, ("x", "u"))
    else:
        inches = planes.box_inches(shown, THUMBNAIL_INCHES[0] - 1.0, THUMBNAIL_INCHES[1] - 0.6)
        scale = scale_of(shown.values)
        filled = planes.draw_plane(axes, shown, scale, _axis_labels(shown, Units()), inches)
        planes.draw_bar(axes, filled, scale, "", inches)
    axes.tick_params(labelsize="x-small")
    picture = base64.b64encode(figure.png(THUMBNAIL_DOTS)).decode("ascii")
    return f'<img alt="u" src="data:image/png;base64,{picture}">'


def _box(
    record: Record,
    field: str,
    units: Units,
    cmap: str | Colormap | None,
    levels: int | Sequence[float] | None,
    vectors: bool,
    lines: bool,
) -> Picture:
    """Three planes through the middle and surfaces, each plane beside the ones that it shares an axis with."""
    grid = record.problem.grid
    whole = _scalar(record, field, {}, BOX_NODES)
    centre = _centre(whole)
    cuts = [{axis: centre[axis] for axis in range(3) if axis not in plane} for plane in _PLANES]
    shown = [_scalar(record, field, at, PANEL_NODES) for at in cuts]
    scale = scale_of(np.concatenate([part.values.ravel() for part in (*shown, whole)]), cmap, levels)
    extent = np.maximum(grid.extent, max(grid.extent) / planes.DRAWN)
    per = 7.0 / max(extent[0] + extent[1], extent[1] + extent[2])
    across, up = (extent[0] * per, extent[1] * per), (extent[1] * per, extent[2] * per)
    figure = Picture(sum(across) + 2.9, sum(up) + 1.9)
    ratios = {"width_ratios": across, "height_ratios": up}
    every = figure.subplots(2, 2, gridspec_kw=ratios, subplot_kw={}, squeeze=False)
    every[0, 1].remove()
    notes: list[str] = []
    filled: Any = None
    for axes, part, at in zip((every[0, 0], every[1, 0], every[1, 1]), shown, cuts, strict=True):
        column = 1 if axes is every[1, 1] else 0
        inches = (across[column], up[0 if axes is every[0, 0] else 1])
        filled = planes.draw_plane(axes, part, scale, _axis_labels(part, units), inches)
        axes.set_aspect("auto" if planes.stretch(part) != 1.0 else "equal")
        notes.append(_draw_vectors(axes, record, field, at, PANEL_NODES, inches, vectors=vectors, lines=lines))
        axes.set_title(*_cuts(at, units), fontsize="small", parse_math=False)
    solid = cast(Axes3D, figure.add_subplot(2, 2, 2, projection="3d"))
    chosen = levels_of(scale, whole.values)
    draw_surfaces(solid, whole, scale, chosen)
    label = labels.of_field(field, units)
    solid.set_title(f"{field} = " + ", ".join(f"{level:.4g}" for level in chosen) if chosen else "", fontsize="small")
    for name in AXES:
        getattr(solid, f"set_{name}label")(name)
        getattr(solid, f"{name}axis").set_major_locator(MaxNLocator(3, steps=ROUND))
    solid.tick_params(labelsize="x-small")
    bar = figure.colorbar(filled, ax=figure.axes, ticks=scale.ticks, shrink=0.9, aspect=35)
    bar.set_label(label, parse_math=False)
    subject = "; ".join(dict.fromkeys(part for part in (_subject(field), *notes) if part))
    figure.suptitle(record.problem.title + (f"\n{subject}" if subject else ""), parse_math=False, fontsize="medium")
    return figure


def _centre(whole: Sample) -> list[float]:
    """Where planes show most: in the inner half of the box, near its middle, at the value farthest from the usual one.

    The usual one is that of the whole box: a bump in the middle of it may fill its inner half.
    """
    inner = tuple(slice(count // 4, count - count // 4) for count in whole.values.shape)
    values = np.nan_to_num(whole.values, nan=0.0, posinf=0.0, neginf=0.0)
    usual, values = np.median(values), values[inner]
    distance = np.abs(values - usual)
    extreme = np.argwhere(distance >= 0.99 * distance.max())
    nodes = extreme[np.abs(extreme - (np.array(values.shape) - 1) / 2).sum(axis=1).argmin()]
    return [
        float(along[cut][node])
        for along, cut, node in zip(whole.coordinates, reversed(inner), reversed(nodes), strict=True)
    ]


def _draw_vectors(
    axes: Axes,
    record: Record,
    field: str,
    at: Mapping[int, float],
    most: int,
    inches: tuple[float, float],
    *,
    vectors: bool,
    lines: bool,
) -> str:
    """Arrows and field lines; returns what they are along."""
    if field in VECTORS:
        vectors = vectors or not lines
    if not (vectors or lines):
        return ""
    along, components, least = _vectors(record, field, at, most)
    if lines:
        planes.draw_lines(axes, components, inches, least)
    if vectors:
        planes.draw_arrows(axes, components, inches, least)
    kinds = " and ".join(kind for kind, asked in (("arrows", vectors), ("lines", lines)) if asked)
    return f"{kinds} along {along}"


def _vectors(record: Record, field: str, at: Mapping[int, float], most: int) -> tuple[str, Sample, float]:
    """What arrows and lines go along, the components of that in a plane, and the length below which there is nothing.

    A vector goes along itself.
    """
    name = field if field in VECTORS else next((name for name in _ALONG if name in record.fields), "u")
    found = sample(record, name, at, most)
    if name == "u":
        whole = found.values if not at else sample(record, "u", {}, BOX_NODES).values
        finite = whole[np.isfinite(whole)]
        least = float(np.ptp(finite)) / max(record.problem.grid.extent) if finite.size else 0.0
        slopes = np.gradient(found.values, *reversed(found.coordinates))
        return "−∇u", replace(found, values=-np.stack(slopes[::-1], axis=-1)), planes.NOTHING * least
    least = planes.NOTHING * float(np.abs(found.values).max(initial=0.0, where=np.isfinite(found.values)))
    components = replace(found, values=found.values[..., list(found.axes)])
    if field == "gradient":
        return "∇u", components, least
    if name == "gradient":
        components = replace(components, values=-components.values)
    return "E" if field == "E" else _ALONG[name], components, least


def _units(record: Record, length: str | None, value: str | None) -> Units:
    """The names of the units; those that are given come before the solution's own."""
    given = {name: text for name, text in (("length", length), ("value", value)) if text is not None}
    for name, text in given.items():
        try:
            unit(text)
        except (AttributeError, TypeError, ValueError):
            raise CaseError([f"{name}: {text!r}; allowed: {UNIT}"]) from None
    return replace(record.units, **given)


def _scalar(record: Record, field: str, at: Mapping[int, float], most: int) -> Sample:
    """A field, or the length of a vector."""
    found = sample(record, field, at, most)
    if found.values.ndim == len(found.axes):
        return found
    one = found.values.shape[-1] == 1
    return replace(found, values=found.values[..., 0] if one else np.linalg.norm(found.values, axis=-1))


def _require_field(record: Record, field: str) -> None:
    grid = record.problem.grid
    if tuple(record.u.shape) != grid.array_shape:
        line = "plot: this is a part of a solution; draw the whole on one rank, from the file that save writes"
        raise CaseError([line])
    if field not in (known := [*names(record), *component_names(record)]):
        raise CaseError([f"there is no field {field!r} in this solution; there is {', '.join(known)}"])


def _refuse(reason: str, given: Mapping[str, Any]) -> None:
    wrong = [name for name, argument in given.items() if argument is not None]
    if wrong:
        raise CaseError([f"{wrong[0]}: {reason}; leave it out"])


def _with_axes(ax: Axes | None, width: float, height: float) -> tuple[Picture | None, Axes]:
    """The axes to draw on, and the picture that they are in where that is a new one."""
    if ax is not None:
        return None, ax
    figure = Picture(width, height)
    return figure, figure.subplots()


def _cell(ax: Axes, shown: Sample) -> tuple[float, float]:
    """Width and height, in inches, that a plane has in given axes."""
    place, figure = ax.get_position(), ax.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches()
    return planes.box_inches(shown, place.width * width, place.height * height)


def _axis_labels(shown: Sample, units: Units) -> tuple[str, str]:
    across, up = (labels.of_axis(AXES[axis], units) for axis in shown.axes)
    return across, up


def _subject(field: str) -> str:
    """What is drawn, where it is not the solution."""
    return "" if field == "u" else labels.of_field(field, Units())


def _cuts(at: Mapping[int, float], units: Units) -> list[str]:
    unit = f" {units.length}" if units.named(0, 1) else ""
    return [f"{AXES[axis]} = {place:.4g}{unit}" for axis, place in at.items()]


def _titled(axes: Axes, title: str, subtitle: str) -> None:
    """A title of the user's, and below it what is to be seen."""
    axes.set_title(title + ("\n" if subtitle else ""), fontsize="medium", parse_math=False, y=1.0)
    if subtitle:
        axes.annotate(
            subtitle,
            (0.5, 1.0),
            (0.0, 5.0),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize="small",
            parse_math=False,
        )
