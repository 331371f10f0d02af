"""Fields that stand in a file: one real value for each node, read by rows so that a file may be larger than memory."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError

HDF5_SUFFIXES = (".h5", ".hdf5")
SUFFIXES = (".npy", *HDF5_SUFFIXES)


@dataclass(frozen=True)
class FieldFile:
    """A field in a ``.npy`` or HDF5 file, with the ``array_shape`` of the grid: ``(ny, nx)`` or ``(nz, ny, nx)``.

    Parameters
    ----------
    path : Path
        The file.
    dataset : str, optional
        The dataset in an HDF5 file, such as ``f`` or ``group/f``; None for a ``.npy`` file.
    """

    path: Path
    dataset: str | None = None

    def check(self, array_shape: tuple[int, ...]) -> None:
        """Make sure that the file can be read as a field on a grid, without reading its values.

        Raises
        ------
        CaseError
            With one line that says what is wrong with the file or its shape or type.
        """
        with self._open() as array:
            if array.shape != array_shape:
                order = "(nz, ny, nx)" if len(array_shape) == 3 else "(ny, nx)"
                raise CaseError(
                    [f"{self} has the shape {array.shape}; the grid needs {array_shape}, as arrays are {order}"]
                )
            if array.dtype.kind not in "fiu":
                raise CaseError([f"{self} holds values of type {array.dtype}; real numbers are needed"])

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rows (planes in 3D) `start` to `stop`, without `stop`, of the first array axis, as float64.

        Raises
        ------
        CaseError
            If the file cannot be read.
        """
        with self._open() as array:
            return np.ascontiguousarray(array[start:stop], dtype=np.float64)

    def __str__(self) -> str:
        return f"{str(self.path)!r}" if self.dataset is None else f"{self.dataset!r} in {str(self.path)!r}"

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """The array in the file, not yet read: a memory map or an h5py dataset."""
        suffix = self.path.suffix.lower()
        name = str(self.path)
        if suffix not in SUFFIXES:
            raise CaseError([f"{name!r} must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"])
        if suffix == ".npy" and self.dataset is not None:
            raise CaseError([f"{name!r} is a .npy file and has no datasets; leave 'dataset' out"])
        if suffix != ".npy" and self.dataset is None:
            raise CaseError([f'{name!r} is an HDF5 file; say which dataset, as in dataset = "f"'])
        try:
            with self.path.open("rb"):
                pass
            if suffix == ".npy":
                yield np.lib.format.open_memmap(self.path, mode="r")
            else:
                with self._open_dataset() as dataset:
                    yield dataset
        except (CaseError, MemoryError):
            raise
        except FileNotFoundError:
            raise CaseError([f"there is no file {name!r}"]) from None
        except IsADirectoryError:
            raise CaseError([f"{name!r} is a directory"]) from None
        except PermissionError:
            raise CaseError([f"{name!r} may not be read"]) from None
        except Exception as error:  # the readers of a damaged file let through whatever their parsers raise
            kind = "a .npy" if suffix == ".npy" else "an HDF5"
            raise CaseError([f"{name!r} cannot be read as {kind} file: {_one_line(error)}"]) from error

    @contextmanager
    def _open_dataset(self) -> Iterator[Any]:
        import h5py

        with h5py.File(self.path, "r") as file:
            found = file.get(self.dataset)
            if isinstance(found, h5py.Dataset):
                yield found
                return
            if isinstance(found, h5py.Group):
                raise CaseError([f"{self.dataset!r} in {str(self.path)!r} is a group; name a dataset in it"])
            names: list[str] = []
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            near = difflib.get_close_matches(str(self.dataset), names, n=1)
            suggestion = f"; did you mean {near[0]!r}?" if near else ""
            raise CaseError([f"there is no dataset {self.dataset!r} in {str(self.path)!r}{suggestion}"])


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
