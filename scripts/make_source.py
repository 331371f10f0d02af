# SPDX-License-Identifier: MIT
"""Write ``source.h5``, the source of ``cases/source_from_file.toml``: two charges of opposite sign.

    python scripts/make_source.py [FOLDER]

FOLDER is where the case file is; by default the folder ``cases`` of this repository.
"""

import sys
from pathlib import Path

from poisson.case.examples import SOURCE, write_source

CASES = Path(__file__).resolve().parent.parent / "cases"


def main(folder: Path) -> Path:
    """Write the source and return the path of the file."""
    path = folder / SOURCE
    write_source(path)
    return path


if __name__ == "__main__":
    print(main(Path(sys.argv[1]) if len(sys.argv) > 1 else CASES))
