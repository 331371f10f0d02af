# SPDX-License-Identifier: MIT
"""Plain files and plain data sets: all that is read of what others have written.

An HDF5 file can refer to other files in several ways. Followed without looking, such a reference may lead to a pipe
that never answers, to any file of the machine, to nothing at all, which reads as zeros, or back to itself, which ends
the process. So nothing is followed but hard links and symbolic links within the file.
"""

from __future__ import annotations

import difflib
import itertools
import math
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py

MOST_NAMES = 10_000
"""Files of a folder that are looked at for a name that may have been meant."""

MOST_DATASETS = 1000
"""Data sets of a file among which one of a similar name is looked for."""

MOST_LINKS = 16
"""Symbolic links on the way to a data set."""

ROOMY_CHUNK, MOST_CHUNK = 1 << 24, 1 << 28
"""Bytes up to which a chunk may be larger than the data themselves, and those of the largest that is read: a chunk is
in memory as a whole."""

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_INTERNAL = re.compile(r"->|==|\bH5[A-Z]|\w_\w|\w\(\)| = |%")
"""The pattern of the library's own names in its messages."""

_COPY = 'copy the values into a plain data set, in h5py as new["f"] = old["f"][...]'


class NotPlain(Exception):
    """A file or a data set is not one that is read; the text says what it is and what to do, without its name."""


def require_file(path: Path) -> None:
    """Make sure that `path` is a file, before anything opens it: opening a pipe would wait for ever.

    Raises `NotPlain` if it is something else; `OSError` if there is nothing, or it cannot be looked at.
    """
    mode = os.stat(path).st_mode
    for test, kind in _KINDS:
        if test(mode):
            raise NotPlain(f"is {kind}" + ("" if test is stat.S_ISDIR else ", not a file; copy the data into one"))


def of_library(error: object) -> str:
    """The HDF5 library's message about a file, without the names of its own functions and variables."""
    text = str(error)
    if found := re.search(r"truncated file: eof = (\d+).*stored_eof = (\d+)", text):
        return f"truncated: {found[1]} of {found[2]} bytes are left"
    if found := re.fullmatch(r"(?:Unable to|Can't|Error|Object) [^(]*\((.*)\)", text, re.DOTALL):
        return "its structure is not that of HDF5" if _INTERNAL.search(found[1]) else found[1]
    return text


def nearest(path: Path) -> str:
    """The addition to the message that a file is missing: the file of the folder with the most similar name, if any."""
    try:
        with os.scandir(path.parent) as entries:
            found = (Path(entry.name) for entry in itertools.islice(entries, MOST_NAMES))
            stems = [each.stem for each in found if each.suffix == path.suffix]
    except (OSError, ValueError):
        return ""
    near = difflib.get_close_matches(path.stem, stems, n=1)
    return f"; did you mean {str(path.with_name(near[0] + path.suffix))!r}?" if near else ""


def find(file: h5py.File, path: str) -> h5py.Dataset | h5py.Group | None:
    """The group or data set at a path of an HDF5 file; None where there is none.

    A data set that is returned holds its values itself and can be read.

    Raises `NotPlain` if the way there leaves the file, or the data set is not plain.
    """
    return _find(file, path, MOST_LINKS)


def _find(file: h5py.File, path: str, links: int) -> h5py.Dataset | h5py.Group | None:
    import h5py

    parts = [part for part in path.split("/") if part not in ("", ".")]
    found: h5py.Dataset | h5py.Group = file["/"]
    for place, part in enumerate(parts):
        link = found.get(part, getlink=True) if isinstance(found, h5py.Group) else None
        if link is None:
            return None
        if isinstance(link, h5py.ExternalLink):
            raise NotPlain(f"is a link to another file, {link.filename!r}; name that file")
        if isinstance(link, h5py.SoftLink):
            if links == 0:
                raise NotPlain("is a loop of links")
            above = [] if link.path.startswith("/") else parts[:place]
            return _find(file, "/".join((*above, link.path, *parts[place + 1 :])), links - 1)
        found = found[part]
    if isinstance(found, h5py.Dataset):
        _require_plain(found)
    return found


def _require_plain(dataset: h5py.Dataset) -> None:
    from h5py import h5d, h5z

    properties = dataset.id.get_create_plist()
    layout = properties.get_layout()
    if layout == h5d.VIRTUAL:
        raise NotPlain(f"is a virtual data set, whose values are in other files; {_COPY}")
    if properties.get_external_count():
        raise NotPlain(f"has its values in another file, as external storage; {_COPY}")
    for index in range(properties.get_nfilters()):
        number, _, _, name = properties.get_filter(index)
        if not h5z.filter_avail(number):
            known = f" ({name.decode('ascii', 'replace')})" if name else ""
            raise NotPlain(f"needs the HDF5 filter {number}{known}, which is not installed; write it with gzip or none")
    if layout != h5d.CHUNKED:
        return
    itemsize = dataset.id.get_type().get_size()
    chunk, whole = math.prod(properties.get_chunk()) * itemsize, dataset.id.get_space().get_simple_extent_npoints()
    if chunk > MOST_CHUNK or chunk > max(ROOMY_CHUNK, whole * itemsize):
        size = f"{chunk / 2**20:.4g} MiB"
        raise NotPlain(
            f"is stored in chunks of {size}, and a chunk is read as a whole; write the data set with smaller chunks"
        )


def datasets(file: h5py.File) -> list[str]:
    """The names of the first data sets in an HDF5 file."""
    import h5py

    names: list[str] = []

    def visit(name: str, item: object) -> bool | None:
        if isinstance(item, h5py.Dataset):
            names.append(name)
        return True if len(names) == MOST_DATASETS else None

    file.visititems(visit)
    return names
