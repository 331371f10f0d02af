# SPDX-License-Identifier: MIT
"""Write the table of Laplacian variants in docs/kernels.md from measurements.

    python -m poisson bench laplacian --n=512 --json > 512.json
    python -m poisson bench laplacian --n=1024 --json > 1024.json
    python scripts/kernel_table.py 512.json 1024.json

Each file is a cube; its columns stand beside one another.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "kernels.md"
PLACE = re.compile(r"(?<=<!-- laplacian -->\n).*?(?=<!-- end -->)", re.DOTALL)
MEASURED = {"milliseconds": "{:.3f} ms", "gigabytes_per_second": "{:.0f} GB/s", "percent_of_copy": "{:.1f} %"}
COMPILED = {"registers": "registers", "shared_bytes": "shared B", "spilled_bytes": "spilled B"}


def table(files: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """The table in Markdown.

    Parameters
    ----------
    files : sequence of sequences of rows
        The rows of `bench laplacian --json`, one sequence for each cube, with the same variants.
    """
    sizes = [rows[0]["nx"] for rows in files]
    headings = ["variant", "parameters", *(f"{n}³" for n in sizes), *COMPILED.values()]
    lines = [headings, ["---"] * len(headings)]
    for same in zip(*files, strict=True):
        if len({row["variant"] for row in same}) != 1:
            raise SystemExit("the files have different variants: measure all sizes with the same --variant")
        cells = [", ".join(text.format(row[key]) for key, text in MEASURED.items()) for row in same]
        compiled = [str(same[0][key]) for key in COMPILED]
        lines.append([f"`{same[0]['variant']}`", same[0]["parameters"], *cells, *compiled])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(paths: Sequence[str]) -> None:
    """See the top of this file."""
    if not paths:
        raise SystemExit("usage: python scripts/kernel_table.py FILE.json ...")
    text = table([json.loads(Path(path).read_text("utf-8")) for path in paths])
    DOCUMENT.write_text(PLACE.sub(lambda _: text, DOCUMENT.read_text("utf-8"), count=1), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
