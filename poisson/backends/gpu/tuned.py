# SPDX-License-Identifier: MIT
"""The results of `python -m poisson tune`: shapes of kernels for a device, kept in the user's cache folder.

One JSON file holds all that was measured with one device, one driver and one version of the kernels::

    {"format": 1, "device": …, "driver": …, "kernels": …,
     "measured": [{"type": "float64", "dimension": 2, "size": "2^24", "date": …, "shapes": {"sweep": {…}, …}}, …]}

A file that does not fit, or is damaged, is ignored with a warning.
"""

import hashlib
import json
import logging
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from poisson.backends.gpu.runtime import Runtime
from poisson.backends.gpu.shapes import KINDS, Shape, fits
from poisson.kernels import digest

FORMAT = 1
FOLDER_VARIABLE = "POISSON_CACHE_DIR"
"""An environment variable that names another cache folder."""
MOST = 1 << 24
"""No number in a shape is larger."""
MAY_BE_ZERO = ("strip",)
PACKS = {"float32": 4, "float64": 2}
"""Nodes that 16 bytes hold."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Device:
    """The device that measured shapes hold for, described with its runtime, its driver, and a digest of the kernels."""

    name: str
    driver: str
    kernels: str

    @staticmethod
    def of(runtime: Runtime) -> "Device":
        """The device of a runtime, with the kernels of this package."""
        return Device(runtime.name, runtime.driver, digest())

    @property
    def path(self) -> Path:
        """The file of this device."""
        digest = hashlib.sha256("\n".join((self.name, self.driver, self.kernels)).encode()).hexdigest()
        return folder() / f"tuning-{digest[:16]}.json"


@dataclass(frozen=True, order=True)
class Setting:
    """The setting that a choice of shapes is for.

    `dtype`: ``float32`` or ``float64``. `dimension`: 2 or 3. `size`: the size class, as `size_class` names it.
    """

    dtype: str
    dimension: int
    size: str

    @staticmethod
    def of(dtype: str, dimension: int, nodes: int) -> "Setting":
        """The setting of a grid with so many nodes."""
        return Setting(dtype, dimension, size_class(nodes))


@dataclass(frozen=True)
class Measured:
    """The fastest shapes by kind of kernel, and the day they were measured, in ISO form."""

    date: str
    shapes: Mapping[str, Shape]


Table = Mapping[Setting, Measured]


def size_class(nodes: int) -> str:
    """The class of a grid by its nodes: 2^3k for sizes within a factor of 2^1.5 of it."""
    return f"2^{3 * round(math.log2(nodes) / 3)}"


def folder() -> Path:
    """Where measured shapes are kept."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("poisson")


def read(device: Device) -> Table:
    """Read the shapes measured on a device; empty if there are none, or none that can be used."""
    try:
        text = device.path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("%s: cannot be read (%s), so the built-in defaults are used", device.path, error)
        return {}
    try:
        return parse(text, device)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("%s: ignored (%s); 'python -m poisson tune' makes a new one", device.path, error)
        return {}


@cache
def known(device: Device) -> Table:
    """The same, read once in a process, or again after `known.cache_clear`."""
    return read(device)


def measured_on(runtime: Runtime) -> Table:
    """The shapes measured on the device of a runtime.

    To read all kernels for their digest takes longer than most solves: it is done where anything was measured.
    """
    return known(Device.of(runtime)) if any(folder().glob("tuning-*.json")) else {}


def parse(text: str, device: Device) -> Table:
    """The table in the text of a file.

    Raises `ValueError`, `KeyError`, `TypeError`, `AttributeError`, `RecursionError` if it is not one of this device's,
    or damaged.
    """
    content = json.loads(text)
    found = (content["format"], Device(content["device"], content["driver"], content["kernels"]))
    if found != (FORMAT, device):
        raise ValueError("measured with another device, driver or version")
    return {
        Setting(str(item["type"]), int(item["dimension"]), str(item["size"])): Measured(
            date.fromisoformat(item["date"]).isoformat(),
            {
                kind: _shape(kind, numbers, int(item["dimension"]), PACKS[item["type"]])
                for kind, numbers in item["shapes"].items()
            },
        )
        for item in content["measured"]
    }


def write(table: Table, device: Device) -> str:
    """The text of a file with a table."""
    measured = [
        {
            "type": setting.dtype,
            "dimension": setting.dimension,
            "size": setting.size,
            "date": choice.date,
            "shapes": {kind: asdict(shape) for kind, shape in choice.shapes.items()},
        }
        for setting, choice in sorted(table.items(), key=lambda item: item[0])
    ]
    identity = {"device": device.name, "driver": device.driver, "kernels": device.kernels}
    return json.dumps({"format": FORMAT, **identity, "measured": measured}, indent=2) + "\n"


def _shape(kind: str, numbers: Mapping[str, Any], dimension: int, width: int) -> Shape:
    if kind not in KINDS:
        raise ValueError(f"there is no kernel {kind!r}")
    if set(numbers) != {field.name for field in fields(Shape)}:
        raise ValueError(f"the shape of {kind} is not complete")
    for name, number in numbers.items():
        if type(number) is not int or not (name not in MAY_BE_ZERO) <= number <= MOST:
            raise ValueError(f"{kind}: {name} = {number!r}")
    shape = Shape(**numbers)
    if not fits(shape, kind, dimension, width):
        raise ValueError(f"{kind}: no kernel has the shape {shape}")
    return shape
