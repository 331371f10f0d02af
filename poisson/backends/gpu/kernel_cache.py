# SPDX-License-Identifier: MIT
"""Where CuPy keeps compiled kernels: in its cache folder, or in memory where that folder cannot be written.

CuPy makes the folder when it is imported and writes each kernel there when it is compiled. Where the home folder is
read-only, as on the nodes of many clusters, both end with an error of the file system.
"""

import logging
import os
import sys
from importlib.util import find_spec

FOLDER_VARIABLE = "CUPY_CACHE_DIR"
"""The environment variable that names the folder; CuPy reads it when it is imported."""
MEMORY_VARIABLE = "CUPY_CACHE_IN_MEMORY"
"""With 1 nothing is written; CuPy reads it whenever it compiles."""
DEFAULT_FOLDER = "~/.cupy/kernel_cache"
TRIAL = bytes(1 << 12)
"""The contents of the file that tries the folder: an empty file would fit on a full disk too."""

log = logging.getLogger(__name__)

_tried: set[str] = set()
"""The folders that this process could write to."""


def prepare() -> None:
    """Have CuPy, if it is installed, keep kernels in memory where its folder cannot be written.

    To be called before CuPy is imported.
    """
    if sys.modules.get("cupy") is None and find_spec("cupy") is None:
        return
    folder = _folder()
    if folder in _tried:  # on some disks a trial takes 15 ms
        return
    import tempfile  # on use, as it takes two milliseconds

    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(TRIAL)
        _tried.add(folder)
    except OSError as error:
        keep_in_memory(error)
        if not os.path.isdir(folder):
            # CuPy would try to make it. Nothing is written to the one that is named instead.
            os.environ[FOLDER_VARIABLE] = os.path.abspath(os.sep)


def keep_in_memory(error: OSError) -> None:
    """Have CuPy write no kernel from now on, in this process and those that it starts, and say so once."""
    if os.environ.get(MEMORY_VARIABLE) == "1":
        return
    os.environ[MEMORY_VARIABLE] = "1"
    log.warning(
        "CuPy cannot write compiled kernels to %s (%s), so that every process compiles them again: set %s to a folder "
        "that can be written",
        _folder() or "''",
        error.strerror or error,
        FOLDER_VARIABLE,
    )


def _folder() -> str:
    return os.environ.get(FOLDER_VARIABLE, os.path.expanduser(DEFAULT_FOLDER))
