"""Write ``source.h5``, the source of ``cases/source_from_file.toml``: two charges of opposite sign.

    python scripts/make_source.py [FOLDER]

FOLDER is where the case file is; by default the folder ``cases`` of this repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np

CASES = Path(__file__).resolve().parent.parent / "cases"


def main(folder: Path) -> Path:
    """Write the source and return the path of the file.

    The grid is that of the case: 65 nodes in x, both ends counted, and 49 in y, which is periodic, on [-1, 1]².
    """
    x = np.linspace(-1.0, 1.0, 65)
    y = np.linspace(-1.0, 1.0, 49, endpoint=False)[:, np.newaxis]
    charges = [np.exp(-((x - centre) ** 2 + y**2) / 0.02) for centre in (-0.4, 0.4)]
    path = folder / "source.h5"
    with h5py.File(path, "w") as file:
        file["f"] = charges[0] - charges[1]
        file["f"].attrs["about"] = "source of source_from_file.toml, shape (ny, nx)"
    return path


if __name__ == "__main__":
    print(main(Path(sys.argv[1]) if len(sys.argv) > 1 else CASES))
