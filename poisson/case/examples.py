# SPDX-License-Identifier: MIT
"""The case files that come with the package, and a commented one to start from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from poisson.case import toml
from poisson.errors import OutputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PACKAGE = Path(__file__).resolve().parents[1]

SCHEMA = _PACKAGE / "case" / "schema.json"
"""The form of a case file, as `poisson.case.json_schema` makes it."""

DIRECTIVE = "#:schema"
"""The words before the address of the schema in the first line of a case file: a comment that editors understand."""

EDITORS = (
    f"# For completion in an editor: python -m poisson schema > schema.json, and {DIRECTIVE} schema.json in this place"
)
"""The first line of a case that `poisson new` writes."""

SOURCE = "source.h5"
"""The field file that two of the cases read, which is made and not shipped."""

_TEMPLATE = """\
title = {title}

[equation]                          # -div(a grad u) + c u = f
f = "exp(-((x - x0)**2 + (y - y0)**2)/w**2)"    # a number, an expression in x, y(, z), or {{ file = "f.npy" }}
a = 1.0                             # > 0, in the same ways; it may jump
c = 0.0                             # >= 0, in the same ways
# exact = "sin(pi*x)*sin(pi*y)"     # if it is known: the error is then reported, and f = "exact" derives f

[parameters]                        # names for the expressions
x0 = 0.3
y0 = 0.5
w = 0.1

[domain]
lower = [0.0, 0.0]                  # in the order x(, y(, z)); one entry makes a 1D case, three entries a 3D case
upper = [1.0, 1.0]
shape = [129, 129]                  # nodes, including those on the boundary
# y = {{ stretch = "tanh", ratio = 10.0 }}    # nodes that crowd at both ends
# centring = "cell"                 # as many cells instead of nodes

[boundary]
all = {{ dirichlet = 0.0 }}           # u = 0 on every face without its own condition
x_upper = {{ neumann = 0.0 }}         # a du/dn = 0, outward; or {{ robin = 1.0, alpha = 2.0 }}: a du/dn + 2 u = 1
# y = "periodic"                    # both faces of an axis; or "open": empty space beyond them

# [[body]]                          # an electrode; neumann = 0.0 makes an insulator of it, a = 80.0 a dielectric
# inside = "hypot(x - 0.7, y - 0.5) < 0.1"
# dirichlet = 1.0

[solver]
method = "auto"                     # or "multigrid", "cg", "fft", "jacobi", "chebyshev", "sor"
rtol = 1e-8                         # on the residual, relative to f with its face terms

[run]
backend = "auto"                    # where to compute; python -m poisson info lists the backends
precision = "float64"               # or "float32", or "mixed"

[output]
file = {output}
fields = ["u", "f"]                 # also "a", "c", "residual", "error", "gradient" (grad u),
                                   # "flux" (-a grad u), "E" (-grad u)
"""


def folder() -> Path:
    """Where the cases stand: in the package where it is installed, else in the checkout."""
    inside = _PACKAGE / "cases"
    return inside if inside.is_dir() else _PACKAGE.parent / "cases"


def cases() -> dict[str, Path]:
    """The cases by their names, in the order of these."""
    return {path.stem: path for path in sorted(folder().glob("*.toml"))}


def template(name: str) -> str:
    """A commented case of that name, which can be solved as it is."""
    return _for_editors(_TEMPLATE.format(title=toml.string(name), output=toml.string(f"{name}.h5")))


def copy(original: str, name: str) -> str:
    """The text of one of the `cases` under another name, after which its result is named as well.

    Raises OutputError if it cannot be read.
    """
    try:
        text = cases()[original].read_text("utf-8")
    except OSError as error:
        raise OutputError(f"{folder() / original}.toml: {error.strerror}; install poisson again") from error
    result = f"\nfile = {toml.string(f'{original}.h5')}\n"
    return _for_editors(text.replace(result, f"\nfile = {toml.string(f'{name}.h5')}\n"))


def _for_editors(text: str) -> str:
    """A case whose first line says how an editor gets the schema: the path of this machine is of no use elsewhere."""
    body = re.sub(rf"\A{DIRECTIVE} .*\n", "", text)
    return f"{EDITORS}\n{body}"


def reads_source(text: str) -> bool:
    """Whether a case reads the field file that `write_source` makes."""
    return f'file = "{SOURCE}"' in text


def write_source(place: Path) -> None:
    """Write the source of ``source_from_file.toml`` and the image of ``voxels.toml`` into a new HDF5 file.

    Two charges of opposite sign, on the grid of the case: 65 nodes in x, both ends counted, and 49 in y, which is
    periodic, on [-1, 1]²; and 32³ voxels of two phases, each half of the volume: random blobs of some 4 voxels.
    """
    import h5py
    import numpy as np

    x = np.linspace(-1.0, 1.0, 65)
    y = np.linspace(-1.0, 1.0, 49, endpoint=False)[:, np.newaxis]
    charges = [np.exp(-((x - centre) ** 2 + y**2) / 0.02) for centre in (-0.4, 0.4)]
    # A file that is being written under another name may have a lock already.
    with h5py.File(place, "w", locking=False) as file:
        file["f"] = charges[0] - charges[1]
        file["f"].attrs["about"] = "source of source_from_file.toml, shape (ny, nx)"
        file["voxels"] = blobs((32, 32, 32), 4.0)
        file["voxels"].attrs["about"] = "labels of voxels.toml, shape (nz, ny, nx)"


def blobs(shape: tuple[int, ...], size: float, seed: int = 0) -> NDArray[np.uint8]:
    """Labels 0 and 1 of random periodic blobs of about `size` voxels, half of the volume each."""
    import numpy as np

    waves = np.meshgrid(*(np.fft.fftfreq(nodes) for nodes in shape), indexing="ij")
    smooth = np.exp(-((np.pi * size) ** 2) * sum(wave**2 for wave in waves) / 2.0)
    noise = np.random.default_rng(seed).standard_normal(shape)
    values = np.fft.ifftn(smooth * np.fft.fftn(noise)).real
    return (values > np.median(values)).astype(np.uint8)
