# SPDX-License-Identifier: MIT
"""Whole pictures of a solution: a field, how its residual fell, and a small one for a notebook."""

import base64
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d import Axes3D
from numpy.typing import NDArray

from poisson.case.schema import UNIT, unit
from poisson.case.settings import VECTORS, Units
from poisson.errors import CaseError
from poisson.mesh.grid import AXES
from poisson.output.pictures import labels, planes, ticks
from poisson.output.pictures.outlines import draw_outlines
from poisson.output.pictures.picture import Picture
from poisson.output.pictures.samples import FieldSample, component_names, middle, names, places_of, sample
from poisson.output.pictures.scales import FULL, ROUND, Colouring, limits_of, scale_of
from poisson.output.pictures.surfaces import draw_surfaces, levels_of
from poisson.output.record import Record
from poisson.words import quantity

CURVE_NODES, PLANE_NODES, PANEL_NODES, BOX_NODES = 2000, 400, 160, 36
"""The most nodes along an axis that are drawn: of a line, of a plane, of one of three planes, of surfaces."""

THUMBNAIL_INCHES, THUMBNAIL_DOTS = (2.6, 1.9), 90

_ALONG = {"flux": "−a∇u", "E": "−∇u", "gradient": "−∇u"}
"""The vectors that arrows and lines of other fields go along, the first one that there is, and what they are then."""

_QUIET = 1e-4
"""Vectors shorter than this part of the usual length have no arrows and lines, such as those inside a conductor."""

_FLATTEST = 2.5
"""The longest side of a box is drawn at most so many times as long as the others."""

_PLANES = ((0, 1), (0, 2), (1, 2))
_MARGIN = 0.1
"""Inches on each side of a plane with all that stands beside it."""


@np.errstate(all="ignore")
def draw(
    record: Record,
    field: str = "u",
    *,
    ax: Axes | None = None,
    cmap: str | Colormap | None = None,
    levels: int | Sequence[float] | None = None,
    log: bool = False,
    range: str | Sequence[float] | None = None,
    slice: str | Mapping[str, float] | None = None,
    vectors: bool = False,
    lines: bool = False,
    length: str | None = None,
    value: str | None = None,
) -> Picture | Axes:
    """Draw a field; `poisson.Solution.plot` says how."""
    grid = record.problem.lattice
    _require_field(record, field)
    at = {} if slice is None else places_of(slice, grid)
    units = _units(record, length, value)
    wanted = Colouring(cmap, levels, log, range)
    dimension = grid.dimension - len(at)
    if dimension == 1:
        _refuse(
            "not possible for a curve",
            {"cmap": cmap, "levels": levels, "vectors": vectors or None, "lines": lines or None},
        )
    if dimension == 3:
        if ax is not None:
            raise CaseError("ax: a picture of a 3D field has several axes; give a slice as well, such as slice='z=0.5'")
        if grid.angle is not None:
            raise CaseError("slice: missing; allowed: a plane of r, phi, z to draw, such as slice='z=0.5'")
        return _box(record, field, units, wanted, vectors, lines)
    shown = _scalar(record, field, at, CURVE_NODES if dimension == 1 else PLANE_NODES)
    # On a line a vector is its one component, which has a sign.
    named = f"{field}_{grid.names[0]}" if field in VECTORS and grid.dimension == 1 else field
    subtitle = [_subject(named), _cut(at, units, dimension, grid.names)]
    name = labels.of_field(named, units)
    if dimension == 1:
        # A line has room for a peak.
        scale = scale_of(shown.values, replace(wanted, range=FULL if range is None else range), shown.rounding)
        figure, axes = _with_axes(ax, 5.6, 3.8)
        names = (labels.of_axis(shown.names[0], units), name)
        planes.draw_curve(axes, shown, scale, names, fixed=limits_of(range) is not None)
    else:
        scale = scale_of(shown.values, wanted, shown.rounding)
        inches = _cell(ax, shown) if ax is not None else planes.box_inches(shown)
        figure, axes = _with_axes(ax, inches[0] + 2.0, inches[1] + 2.0)
        filled = planes.draw_plane(axes, shown, scale, _axis_labels(shown, units), inches)
        planes.draw_bar(axes, filled, scale, name, inches)
        drawn = _draw_vectors(axes, record, field, at, PLANE_NODES, inches, vectors=vectors, lines=lines)
        draw_outlines(axes, record.problem, at, shown)
        subtitle += [drawn, planes.not_to_scale(shown)]
    _titled(axes, record.problem.title, subtitle, scale.beyond)
    if figure is not None and dimension == 2:
        _fit(figure, axes, inches)
    return figure if figure is not None else axes


@np.errstate(all="ignore")
def draw_history(record: Record, *, ax: Axes | None = None) -> Picture | Axes:
    """Draw the residual norm over the iterations, and the norm to reach; in words where there are less than two."""
    figure, axes = _with_axes(ax, 5.6, 3.8)
    if points := curve_of(record):
        sweeps, norms = zip(*points, strict=True)
        axes.semilogy(sweeps, norms, color="C0", marker="." if len(points) <= 60 else "", label="residual")
        if 0.0 < record.target < np.inf:
            axes.axhline(record.target, color="C3", linestyle="--", linewidth=1.0, label=f"target {record.target:.2g}")
            axes.legend(loc="best", fontsize="small")
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=ROUND, integer=True))
        axes.grid(alpha=0.3)
        name = labels.of_field("residual", record.units).replace("residual", f"{record.norm} norm of", 1)
        axes.set_xlabel("iterations")
        axes.set_ylabel(name, parse_math=False)
    else:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, _read_once(record), transform=axes.transAxes, ha="center", va="center", parse_math=False)
    ending = f"{record.status.value} after {quantity(record.iterations, 'iteration')}"
    _titled(axes, record.problem.title, [ending])
    return figure if figure is not None else axes


def curve_of(record: Record) -> list[tuple[int, float]]:
    """The history as far as a logarithmic axis can show it; empty where that is no curve."""
    points = [(sweep, norm) for sweep, norm in record.history if 0.0 < norm < np.inf]
    return points if len({sweep for sweep, _ in points}) > 1 else []


def _read_once(record: Record) -> str:
    """The last residual in words, where the history is no curve."""
    if not record.history:
        return "no residual norm was computed"
    sweep, norm = record.history[-1]
    after = quantity(sweep, "iteration")
    return f"{record.norm} norm of the residual after {after}:\n{norm:.3g}, target {record.target:.3g}"


@np.errstate(all="ignore")
def thumbnail(record: Record) -> str:
    """A small picture of u for a page of HTML: an ``img`` element that holds it; empty for a part of a solution.

    In three dimensions it is the plane z in the middle.
    """
    grid = record.problem.lattice
    if record.share is not None and tuple(record.u.shape) != grid.array_shape:
        return ""
    at = {2: middle(grid, 2)} if grid.dimension == 3 else {}
    shown = sample(record, "u", at, 120)
    scale = scale_of(shown.values, Colouring(range=FULL if grid.dimension == 1 else None), shown.rounding)
    name = labels.of_field("u", record.units)
    figure = Picture(*THUMBNAIL_INCHES)
    axes = figure.subplots()
    if grid.dimension == 1:
        planes.draw_curve(axes, shown, scale, (labels.of_axis(shown.names[0], record.units), name), fixed=False)
    else:
        inches = planes.box_inches(shown, THUMBNAIL_INCHES[0] - 1.3, THUMBNAIL_INCHES[1] - 0.6)
        filled = planes.draw_plane(axes, shown, scale, _axis_labels(shown, record.units), inches)
        draw_outlines(axes, record.problem, at, shown)
        planes.draw_bar(axes, filled, scale, name, inches)
        axes.set_title(_cut(at, record.units, 2, grid.names), fontsize="x-small", parse_math=False)
    for each in (axes, *axes.child_axes):
        each.tick_params(labelsize="x-small")
        each.xaxis.label.set_fontsize("x-small")
        each.yaxis.label.set_fontsize("x-small")
    if grid.dimension > 1:
        _fit(figure, axes, inches)
    picture = base64.b64encode(figure.png(THUMBNAIL_DOTS)).decode("ascii")
    return f'<img alt="u" src="data:image/png;base64,{picture}">'


def _box(record: Record, field: str, units: Units, wanted: Colouring, vectors: bool, lines: bool) -> Picture:
    """Three planes through the middle and surfaces, each plane beside the ones that it shares an axis with."""
    grid = record.problem.lattice
    whole = _scalar(record, field, {}, BOX_NODES)
    centre = _centre(whole)
    cuts = [{axis: centre[axis] for axis in range(3) if axis not in plane} for plane in _PLANES]
    shown = [_scalar(record, field, at, PANEL_NODES) for at in cuts]
    scale = scale_of(np.concatenate([part.values.ravel() for part in (*shown, whole)]), wanted, whole.rounding)
    extent = np.maximum(grid.extent, max(grid.extent) / _FLATTEST)
    per = 7.0 / max(extent[0] + extent[1], extent[1] + extent[2])
    across, up = (extent[0] * per, extent[1] * per), (extent[1] * per, extent[2] * per)
    figure = Picture(sum(across) + 2.9, sum(up) + 1.9, "compressed")
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
        draw_outlines(axes, record.problem, at, part)
        axes.set_title(_cut(at, units, 2, grid.names), fontsize="small", parse_math=False)
    solid = cast(Axes3D, figure.add_subplot(2, 2, 2, projection="3d"))
    chosen = levels_of(scale, whole.values)
    draw_surfaces(solid, whole, scale, chosen)
    solid.set_title(_surfaces(field, chosen), fontsize="small", parse_math=False)
    for name, along in zip(AXES, whole.coordinates, strict=True):
        short = np.ptp(along) < 0.5 * max(grid.extent)
        planes.mark(getattr(solid, f"{name}axis"), along, labels.of_axis(name, units), 2 if short else 3)
    solid.tick_params(labelsize="x-small")
    planes.colour_bar(solid, filled, scale, labels.of_field(field, units), ax=figure.axes, shrink=0.9, aspect=35)
    if any(planes.stretch(part) != 1.0 for part in shown):
        notes.append("axes not to scale")
    notes = [*dict.fromkeys(part for part in (_subject(field), *notes, scale.beyond) if part)]
    title = _wrapped(record.problem.title, figure.get_figwidth())
    figure.suptitle("\n".join(part for part in (title, "; ".join(notes)) if part), parse_math=False, fontsize="medium")
    return figure


def _surfaces(field: str, levels: Sequence[float]) -> str:
    """The values that the surfaces stand for."""
    name = labels.of_field(field, Units()) if field in VECTORS else field
    return f"surfaces {name} = {' and '.join(ticks.alone(level) for level in sorted(levels))}" if levels else ""


def _centre(whole: FieldSample) -> list[float]:
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
    along, components = _vectors(record, field, at, most)
    if lines:
        planes.draw_lines(axes, components, inches)
    if vectors:
        planes.draw_arrows(axes, components, inches)
    kinds = " and ".join(kind for kind, asked in (("arrows", vectors), ("lines", lines)) if asked)
    return f"{kinds} along {along}"


def _vectors(record: Record, field: str, at: Mapping[int, float], most: int) -> tuple[str, FieldSample]:
    """The vector that arrows and lines follow, by name, and its components in a plane: zero where nothing is drawn.

    The arrows of a vector field follow the field itself. Nothing is drawn where ∇u is next to zero, as in a conductor:
    its direction there is one of rounding errors.
    """
    name = field if field in VECTORS else next((name for name in _ALONG if name in record.fields), "u")
    u = sample(record, "u", at, most)
    slopes = np.stack(np.gradient(u.values, *reversed(u.coordinates))[::-1], axis=-1)
    whole = u.values if not at else sample(record, "u", {}, BOX_NODES).values
    finite = whole[np.isfinite(whole)]
    mean = float(np.ptp(finite)) / max(record.problem.lattice.extent) if finite.size else 0.0
    quiet = _without(slopes, mean)
    if name == "u":
        return "−∇u", replace(u, values=np.where(quiet, 0.0, -slopes))
    found = sample(record, name, at, most)
    vectors = np.where(quiet, 0.0, found.values[..., list(found.axes)])
    vectors = np.where(_without(vectors, float(np.abs(vectors).max(initial=0.0))), 0.0, vectors)
    if name == "gradient" and field != "gradient":
        vectors = -vectors
    return {"gradient": "∇u", "E": "E"}.get(field, _ALONG[name]), replace(found, values=vectors)


def _without(vectors: NDArray[np.float64], size: float) -> NDArray[np.bool_]:
    """The places where vectors are not finite, or next to zero by their usual length and a given one."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    finite = length[np.isfinite(length)]
    usual = float(np.percentile(finite, 90.0)) if finite.size else 0.0
    return np.asarray(~(length > max(planes.NOTHING * size, _QUIET * min(usual, size))))


def _units(record: Record, length: str | None, value: str | None) -> Units:
    """The names of the units; those that are given come before the solution's own."""
    given = {name: text for name, text in (("length", length), ("value", value)) if text is not None}
    for name, text in given.items():
        try:
            unit(text)
        except (AttributeError, TypeError, ValueError):
            raise CaseError(f"{name}: {text!r}; allowed: {UNIT}") from None
    return replace(record.units, **given)


def _scalar(record: Record, field: str, at: Mapping[int, float], most: int) -> FieldSample:
    """A field, or the length of a vector."""
    found = sample(record, field, at, most)
    if found.values.ndim == len(found.axes):
        return found
    one = found.values.shape[-1] == 1
    return replace(found, values=found.values[..., 0] if one else np.linalg.norm(found.values, axis=-1))


def _require_field(record: Record, field: str) -> None:
    grid = record.problem.lattice
    if tuple(record.u.shape) != grid.array_shape:
        line = "plot: this rank has only a part of the solution; save the solution and plot the file on one rank"
        raise CaseError(line)
    if field not in (known := [*names(record), *component_names(record)]):
        raise CaseError(f"the solution has no field {field!r}; its fields are {', '.join(known)}")


def _refuse(reason: str, given: Mapping[str, Any]) -> None:
    wrong = [name for name, argument in given.items() if argument is not None]
    if wrong:
        raise CaseError(f"{wrong[0]}: {reason}; leave {wrong[0]} out")


def _with_axes(ax: Axes | None, width: float, height: float) -> tuple[Picture | None, Axes]:
    """The axes to draw on, and the picture that they are in where that is a new one."""
    if ax is not None:
        return None, ax
    figure = Picture(width, height)
    return figure, figure.subplots()


def _fit(figure: Picture, axes: Axes, inches: tuple[float, float]) -> None:
    """Make a picture as large as it takes for a box of a size and all that stands beside it.

    The layout of matplotlib takes the cell of the axes for their box, which is smaller where its shape is fixed.
    """
    figure.set_layout_engine("none")
    _place(figure, axes, inches, (0.0, 0.0), (inches[0], inches[1]))
    figure.draw_without_rendering()
    box, whole = axes.get_window_extent(), axes.get_tightbbox()
    assert whole is not None
    before = (np.array(box.min) - whole.min) / figure.dpi + _MARGIN
    after = (np.array(whole.max) - box.max) / figure.dpi + _MARGIN
    _place(figure, axes, inches, before, before + inches + after)


def _place(figure: Picture, axes: Axes, inches: Any, corner: Any, size: Any) -> None:
    """Put a box of a size at a corner of a picture of a size, all in inches."""
    figure.set_size_inches(*size)
    axes.set_position((corner[0] / size[0], corner[1] / size[1], inches[0] / size[0], inches[1] / size[1]))


def _cell(ax: Axes, shown: FieldSample) -> tuple[float, float]:
    """Width and height, in inches, that a plane has in given axes."""
    place, figure = ax.get_position(), ax.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches()
    return planes.box_inches(shown, place.width * width, place.height * height)


def _axis_labels(shown: FieldSample, units: Units) -> tuple[str, str]:
    across, up = (labels.of_axis(name, units) for name in shown.names[:2])
    return across, up


def _subject(field: str) -> str:
    """The name of the drawn field, where it is not the solution."""
    return "" if field == "u" else labels.of_field(field, Units())


def _cut(at: Mapping[int, float], units: Units, dimension: int, axes: Sequence[str]) -> str:
    """The name of a plane or a line in the box; empty for the whole box."""
    unit = f" {units.length}" if units.named(0, 1) else ""
    places = ", ".join(f"{axes[axis]} = {ticks.alone(place)}{unit}" for axis, place in sorted(at.items()))
    return f"{'plane' if dimension == 2 else 'line'} {places}" if at else ""


def _titled(axes: Axes, title: str, subtitle: Sequence[str], note: str = "") -> None:
    """A title of the user's, and below it what is to be seen, and a note on a line of its own."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    rows = [row for row in ("; ".join(part for part in subtitle if part), note) if row]
    title = _wrapped(title, figure.get_figwidth() * min(1.0, 1.2 * axes.get_position().width))
    axes.set_title(title + "\n" * len(rows), fontsize="medium", parse_math=False, y=1.0)
    if rows:
        axes.annotate(
            "\n".join(rows),
            (0.5, 1.0),
            (0.0, 5.0),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize="small",
            parse_math=False,
        )


def _wrapped(title: str, inches: float) -> str:
    """A title in as many lines as it takes, at most three."""
    return "\n".join(textwrap.wrap(title, max(20, int(12.0 * inches)), max_lines=3, placeholder=" …"))
