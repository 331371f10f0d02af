# SPDX-License-Identifier: MIT
"""Keeps the results of the compilers of the GPU vendors, which take minutes for all kernels."""

import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable
from typing import TypeVar

from support.places import ROOT

FOLDER = ROOT / "build" / "kernels"

Made = TypeVar("Made")


def kept(make: Callable[[], Made], *recipe: str) -> Made:
    """Return what `make` makes, or what it has made for the same recipe, which is all that this depends on."""
    path = FOLDER / hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:32]
    if path.exists():
        found: Made = pickle.loads(path.read_bytes())
        return found
    made = make()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=FOLDER, delete=False) as file:
        file.write(pickle.dumps(made))
    os.replace(file.name, path)  # other processes see all of it or nothing
    return made
