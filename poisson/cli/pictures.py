# SPDX-License-Identifier: MIT
"""The commands that draw results: `plot`, `report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poisson.cli.terms import EXIT_OK, UsageError, naming, say
from poisson.errors import FileChoice
from poisson.output.pictures import drawing

FORMS = (".png", ".svg", ".pdf")
PAGE = ".html"

COLOUR_MAPS = ("viridis", "cividis", "inferno", "magma", "plasma", "turbo", "gray", "RdBu_r", "coolwarm", "seismic")
"""Colour maps that a shell completes; any other of matplotlib will do."""

LARGE = 1 << 28
"""Bytes of a file of which a report does not read every value."""


@dataclass(frozen=True)
class Plot:
    file: str
    field: str
    slice: str | None
    vectors: bool
    lines: bool
    log: bool
    range: str | None
    cmap: str | None
    history: bool
    save: str | None

    def execute(self) -> int:
        from poisson.run.saved import load

        solution = load(self.file, lazy=True)
        if self.history:
            picture = solution.plot_history()
        else:
            colours: dict[str, Any] = {"log": self.log, "range": self.range, "cmap": self.cmap}
            picture = solution.plot(self.field, slice=self.slice, vectors=self.vectors, lines=self.lines, **colours)
        if self.save is None and picture.shown():
            return EXIT_OK
        what = "history" if self.history else self.field
        path = Path(self.save) if self.save is not None else _beside(self.file, f"_{what}.png")
        _write(path, picture.file(path.suffix[1:].lower()))
        say(f"no display; picture written to {path}" if self.save is None else f"picture written to {path}")
        return EXIT_OK


@dataclass(frozen=True)
class Page:
    file: str
    save: str | None

    def execute(self) -> int:
        with drawing("report", "jinja2", "matplotlib"):
            from poisson.output.report import page
        from poisson.run.saved import load

        solution = load(self.file, lazy=Path(self.file).is_file() and Path(self.file).stat().st_size > LARGE)
        path = Path(self.save) if self.save is not None else _beside(self.file, PAGE)
        _write(path, page(solution).encode("utf-8", "replace"))
        say(f"report written to {path}")
        return EXIT_OK


def plot(
    file: str,
    *,
    field: str | None = None,
    slice: str | None = None,
    vectors: bool = False,
    lines: bool = False,
    log: bool = False,
    range: str | None = None,
    cmap: str | None = None,
    history: bool = False,
    error: bool = False,
    save: str | None = None,
) -> Plot:
    """Draw a result: a field, its error, or the history of the residual.

    Usage: python -m poisson plot FILE [--field NAME | --error | --history] [--slice AXIS=PLACE] [--vectors] [--lines]
                                       [--log] [--range LO,HI] [--cmap NAME] [--save PICTURE]

      FILE                a result of 'solve'
      --field NAME        what to draw: u, the default, or a field of the file; of a vector its length, with arrows, or
                          a component such as E_x
      --error             u less the exact solution, if the case gives that
      --history           draw the residual norm over the iterations instead of a field
      --slice AXIS=PLACE  where to cut through the box, such as z=0.5, or x=0,y=1 for a line; without it a result in 3D
                          is drawn as three planes and surfaces
      --vectors           arrows along the flux -a grad u
      --lines             field lines along the flux
      --log               logarithmic colours; of a field with both signs, of its size, and linear around zero
      --range LO,HI       the values at the ends of the colours, or 'full' for all; without it all, but for a peak
      --cmap NAME         the colours, by the name of a colour map of matplotlib
      --save PICTURE      where to write it, as .png, .svg or .pdf; without it a window opens, or where there is no
                          display, the picture stands beside FILE

    Examples:
      python -m poisson plot unit_square.h5
      python -m poisson plot dipole.h5 --lines --save dipole.png
      python -m poisson plot cube.h5 --slice z=0.5 --range 0,0.02
      python -m poisson plot point_charge.h5 --log --cmap magma

    Exit codes: 0 done, 2 bad input."""
    if sum((field is not None, history, error)) > 1:
        raise UsageError("--field, --error and --history exclude one another; give only one of them")
    if history:
        options = {"--slice": slice, "--vectors": vectors, "--lines": lines}
        for option, given in (options | {"--log": log, "--range": range, "--cmap": cmap}).items():
            if given:
                raise UsageError(f"{option} cannot be combined with --history; leave {option} out")
    if save is not None and Path(save).suffix.lower() not in FORMS:
        raise UsageError(f"--save {save}; allowed: a name that ends in {', '.join(FORMS[:-1])} or {FORMS[-1]}")
    name = "error" if error else field or "u"
    return Plot(file, name, slice, vectors, lines, log, range, cmap, history, save)


def report(file: str, *, save: str | None = None) -> Page:
    """Write a report on a result: case, pictures, convergence, error, machine.

    Usage: python -m poisson report FILE [--save PAGE]

      FILE         a result of 'solve'
      --save PAGE  where to write it, as .html; without it, beside FILE

    The report is one HTML file with the pictures inside. It needs no other file and no network.

    Examples:
      python -m poisson report unit_square.h5
      python -m poisson report unit_square.h5 --save report.html

    Exit codes: 0 done, 2 bad input."""
    if save is not None and Path(save).suffix.lower() not in (PAGE, ".htm"):
        raise UsageError(f"--save {save}; allowed: a name that ends in {PAGE}")
    return Page(file, save)


def _beside(file: str, ending: str) -> Path:
    path = Path(file)
    return path.with_name(path.stem + ending)


def _write(path: Path, content: bytes) -> None:
    from poisson.output.files import replacing

    with naming({FileChoice.PLACE: " with --save"}), replacing(path) as temporary:
        temporary.write_bytes(content)
