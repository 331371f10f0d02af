# SPDX-License-Identifier: MIT
"""A page of HTML about a result, for people and for archives: it holds its pictures and asks no network."""

from __future__ import annotations

import base64
import math
from functools import partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from poisson.output import summary
from poisson.output.convergence import log_slope
from poisson.output.pictures.figures import draw, draw_history
from poisson.output.pictures.picture import Picture
from poisson.output.pictures.samples import ERROR, names
from poisson.output.record import FIELD_NOTES, Record

DOTS_PER_INCH = 96


def page(record: Record) -> str:
    """The page.

    Parameters
    ----------
    record : Record
        The whole of a result. Texts in it may be anyone's: they are shown as they are, and never as HTML.

    Returns
    -------
    str
        A document of HTML that names no other file.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files(__package__).joinpath("page.html").read_text("utf-8"))
    drawn = [name for name in names(record) if name != ERROR]
    lines = [("field lines", _image(partial(draw, record, lines=True)))] if record.problem.grid.dimension > 1 else []
    return template.render(
        title=record.problem.title or "A result of poisson",
        success=record.status.success,
        advice=record.advice,
        summary=list(summary.lines(record)),
        pictures=[(_caption(name), _image(partial(draw, record, name))) for name in drawn] + lines,
        history=_image(partial(draw_history, record)),
        rate=_rate(record),
        error=_image(partial(draw, record, ERROR)) if ERROR in names(record) else "",
        norms=record.error,
        error_bar=record.error_bar,
        performance=record.performance,
        times=record.times,
        provenance={name.replace("_", " "): value for name, value in record.provenance.items() if value != ""},
        case=record.case_text,
    )


def _caption(name: str) -> str:
    return FIELD_NOTES.get(name, name)


def _image(drawing: Any) -> str:
    """A picture as an address that holds it."""
    picture: Picture = drawing()
    return f"data:image/png;base64,{base64.b64encode(picture.png(DOTS_PER_INCH)).decode('ascii')}"


def _rate(record: Record) -> str:
    """How fast the residual fell over the second half of its history."""
    slope = log_slope(record.history[len(record.history) // 2 :])
    if slope is None:
        return "too few reads of the residual to tell how fast it fell"
    if slope >= 0.0:
        return "the residual does not fall"
    return f"a factor of {math.exp(slope):.3g} each iteration at the end"
