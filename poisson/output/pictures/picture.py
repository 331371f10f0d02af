# SPDX-License-Identifier: MIT
"""A figure that shows itself, in a notebook and in a window."""

import io
import sys
import warnings
from importlib import import_module
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from poisson.errors import OutputError

DOTS_PER_INCH = 110


class Picture(Figure):
    """A figure of matplotlib that is shown where it is the value of a cell, and by `show`.

    Pyplot does not know it before it is shown in a window, so a notebook shows it once.
    """

    def __init__(
        self, width: float, height: float, layout: Literal["constrained", "compressed"] = "constrained"
    ) -> None:
        super().__init__(figsize=(width, height), dpi=DOTS_PER_INCH, layout=layout)

    def show(self, warn: bool = True) -> None:
        """Show it in the notebook, or in a window until that is closed.

        `warn`: whether it is an error that there is nothing to show it on. Raises `OutputError` if there is no display.
        """
        if not self.shown() and warn:
            raise OutputError('no display to show the picture on; savefig("u.png") writes the picture to a file')

    def shown(self) -> bool:
        """Show it as `show`, and say whether there was a notebook or a display to show it on."""
        if _in_notebook():
            import_module("IPython.display").display(self)
            return True
        from matplotlib import pyplot

        def adopted(**_: Any) -> Picture:
            return self

        number = getattr(self, "number", None)
        if number is None or not pyplot.fignum_exists(number):
            try:
                # Pyplot makes its manager for the figure that this gives it.
                pyplot.figure(FigureClass=adopted)  # type: ignore[arg-type]
            except ImportError:  # windows are asked for, of a kind that cannot be had here
                return False
        if self.canvas.required_interactive_framework is None:
            pyplot.close(self)
            return False
        pyplot.show()
        return True

    def png(self, dots_per_inch: float = DOTS_PER_INCH) -> bytes:
        """The picture as a PNG file."""
        return self.file("png", dots_per_inch)

    def file(self, form: str, dots_per_inch: float = DOTS_PER_INCH) -> bytes:
        """The picture as a file of a form that matplotlib knows, such as ``svg``."""
        stream = io.BytesIO()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # A title may have characters that the font has not.
            warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
            self.savefig(stream, format=form, dpi=dots_per_inch)
        return stream.getvalue()

    def _repr_png_(self) -> bytes:
        return self.png()


def _in_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None
