"""A figure that shows itself, in a notebook and in a window."""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any

from matplotlib.figure import Figure

from poisson.errors import OutputError

DOTS_PER_INCH = 110


class Picture(Figure):
    """A figure of matplotlib that is shown where it is the value of a cell, and by `show`.

    Pyplot does not know it before it is shown in a window, so a notebook shows it once.
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")

    def show(self, warn: bool = True) -> None:
        """Show it in the notebook, or in a window until that is closed.

        Parameters
        ----------
        warn : bool
            Whether it is an error that there is nothing to show it on.

        Raises
        ------
        OutputError
            If there is no display.
        """
        if _in_notebook():
            from IPython.display import display

            display(self)
        elif not self._shown_in_window() and warn:
            raise OutputError('there is no display to show the picture on; savefig("u.png") writes it to a file')

    def png(self, dots_per_inch: float = DOTS_PER_INCH) -> bytes:
        """The picture as a PNG file."""
        stream = io.BytesIO()
        with warnings.catch_warnings():
            # A title may have characters that the font has not.
            warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
            self.savefig(stream, format="png", dpi=dots_per_inch)
        return stream.getvalue()

    def _repr_png_(self) -> bytes:
        return self.png()

    def _shown_in_window(self) -> bool:
        """Show it by pyplot, if that has windows; whether it has."""
        from matplotlib import pyplot

        def adopted(**_: Any) -> Picture:
            return self

        number = getattr(self, "number", None)
        if number is None or not pyplot.fignum_exists(number):
            # Pyplot makes its manager for the figure that this gives it.
            pyplot.figure(FigureClass=adopted)  # type: ignore[arg-type]
        if self.canvas.required_interactive_framework is None:
            pyplot.close(self)
            return False
        pyplot.show()
        return True


def _in_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None
