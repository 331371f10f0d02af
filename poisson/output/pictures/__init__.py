# SPDX-License-Identifier: MIT
"""Pictures of solutions. Matplotlib is imported where something is drawn, so only by the modules in here."""

import contextlib
from collections.abc import Iterator

from poisson.errors import PackageMissing


@contextlib.contextmanager
def drawing(what: str, *packages: str) -> Iterator[None]:
    """Within, what draws is imported.

    `what`: the call or command that needs it. `*packages`: those it needs. Raises `PackageMissing` if one of them is
    not installed, or cannot be loaded.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise PackageMissing(f"{what} needs {' and '.join(packages)}: pip install {' '.join(packages)}") from error
    except (ImportError, ValueError) as error:  # the second where MPLBACKEND names no backend
        reason = " ".join(str(error).split())[:200]
        raise PackageMissing(f"{what}: {' or '.join(packages)} cannot be loaded: {reason}") from error
