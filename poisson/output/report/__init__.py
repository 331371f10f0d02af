# SPDX-License-Identifier: MIT
"""A page of HTML about a result, for people and for archives: it holds its pictures and asks no network."""

import base64
import math
from functools import partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from poisson.case.settings import VECTORS
from poisson.output import summary
from poisson.output.convergence import log_slope
from poisson.output.pictures.figures import curve_of, draw, draw_history
from poisson.output.pictures.picture import Picture
from poisson.output.pictures.samples import ERROR, names
from poisson.output.record import Record, field_note, unit_of

DOTS_PER_INCH = 96


def page(record: Record) -> str:
    """The page.

    `record`: the whole of a result. Texts in it may be anyone's: they are shown as they are, and never as HTML.
    Returns: a document of HTML that names no other file.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files(__package__).joinpath("page.html").read_text("utf-8"))
    drawn = [(_caption(record, name), partial(draw, record, name)) for name in names(record) if name != ERROR]
    if record.problem.lattice.dimension > 1:
        drawn.append((f"{_caption(record, 'u')}, with field lines", partial(draw, record, lines=True)))
    unit = unit_of("u", record.units)
    return template.render(
        title=record.problem.title or "A result of poisson",
        success=record.status.success,
        advice=record.advice,
        summary=list(summary.lines(record)),
        pictures=[(caption, _image(drawing)) for caption, drawing in drawn],
        history=_image(partial(draw_history, record)) if curve_of(record) else "",
        history_caption=f"{record.norm} norm of the residual over the iterations{_unit(record, 'residual')}",
        rate=_rate(record),
        error=_image(partial(draw, record, ERROR)) if ERROR in names(record) else "",
        error_caption=_caption(record, ERROR),
        unit=f" {unit}" if unit else "",
        norms=record.error,
        error_bar=record.error_bar,
        performance=record.performance,
        times=record.times,
        provenance={name.replace("_", " "): value for name, value in record.provenance.items() if value != ""},
        case=record.case_text,
    )


def _caption(record: Record, name: str) -> str:
    """The words below the picture of a field: what it is, its unit, and how it is drawn."""
    dimension = record.problem.lattice.dimension
    note, _ = field_note(name, record.units)
    vector = "the length of the " if name in VECTORS and dimension > 1 else ""
    views = ", on three planes and as surfaces of one value" if dimension == 3 else ""
    return f"{vector}{note}{_unit(record, name)}{views}"


def _unit(record: Record, name: str) -> str:
    unit = unit_of(name, record.units)
    return f", in {unit}" if unit else ""


def _image(drawing: Any) -> str:
    """A picture as an address that holds it."""
    picture: Picture = drawing()
    return f"data:image/png;base64,{base64.b64encode(picture.png(DOTS_PER_INCH)).decode('ascii')}"


def _rate(record: Record) -> str:
    """How fast the residual fell over the second half of its history."""
    slope = log_slope(record.history[len(record.history) // 2 :])
    if slope is None:
        last = f"; its {record.norm} norm at the end is {record.residual:.3g} {unit_of('residual', record.units)}"
        return f"too few residual norms to tell how fast the residual fell{last.rstrip()}"
    if slope >= 0.0:
        return "the residual does not fall"
    return f"a factor of {math.exp(slope):.3g} per iteration at the end"
