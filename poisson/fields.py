"""Fields that are not formulas: in a file, in an array, or a Python function; one real value for each node.

Files are read by rows, so that one may be larger than memory. Arrays may be NumPy's, or on a device: any object with
``__cuda_array_interface__`` or DLPack is used where it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError

HDF5_SUFFIXES = (".h5", ".hdf5")
SUFFIXES = (".npy", *HDF5_SUFFIXES)


@dataclass(frozen=True)
class FieldFile:
    """A field in a ``.npy`` or HDF5 file, with the ``array_shape`` of the grid, such as ``(nz, ny, nx)``.

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
                order = ("(nx,)", "(ny, nx)", "(nz, ny, nx)")[len(array_shape) - 1]
                raise CaseError(
                    [f"{self} has the shape {array.shape}; the grid needs {array_shape}, as arrays are {order}"]
                )
            if array.dtype.kind not in "fiu":
                raise CaseError([f"{self} holds values of type {array.dtype}; real numbers are needed"])

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rows (planes in 3D, nodes in 1D) `start` to `stop`, without `stop`, of the first array axis, as float64.

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


@dataclass(frozen=True, eq=False)
class ArrayField:
    """A field in an array of the grid's ``array_shape``, which is not copied. Compared by identity.

    Parameters
    ----------
    values : array
        Of NumPy, or of any library whose arrays have ``__cuda_array_interface__`` or DLPack.
    """

    values: Any

    @property
    def on_device(self) -> bool:
        """Whether the values are where NumPy cannot read them."""
        return _on_device(self.values)

    def check(self, array_shape: tuple[int, ...]) -> None:
        """Make sure that the array can be used as a field on a grid.

        Raises
        ------
        CaseError
            With one line that says what is wrong with its shape or type.
        """
        shape = tuple(self.values.shape)
        if shape != array_shape:
            raise CaseError([f"an array of the shape {shape}; the grid needs {array_shape}, as x is the last axis"])
        interface = getattr(self.values, "__cuda_array_interface__", None) if self.on_device else None
        if self.on_device and interface is None:
            return
        kind = np.dtype(interface["typestr"]).kind if interface else _host(self.values).dtype.kind
        if kind not in "fiu":
            raise CaseError(["an array that holds no real numbers; float, integer or unsigned values are needed"])

    def read(self, xp: ModuleType, start: int, stop: int) -> Any:
        """Rows (planes in 3D) `start` to `stop`, without `stop`, as an array of the module xp; a view if it can be."""
        part = self.values[start:stop]
        if xp is np:
            return _host(part)
        if hasattr(part, "__cuda_array_interface__") or not self.on_device:
            return xp.asarray(part if self.on_device else _host(part))
        return xp.from_dlpack(part)


@dataclass(frozen=True)
class FunctionField:
    """A field by a Python function of the coordinates.

    Parameters
    ----------
    function : callable
        Called with arrays x, y(, z) that broadcast against each other, of NumPy or of CuPy; its result must broadcast
        to the shape of them all.
    """

    function: Callable[..., Any]

    def __call__(self, xp: ModuleType, *coordinates: Any) -> Any:
        """The values at points, as an array of the module xp."""
        return xp.asarray(self.function(*coordinates))


def at_nodes(field: Any, xp: ModuleType, coordinates: Sequence[Any], start: int, stop: int) -> Any:
    """The values of a field of any kind on a slab, broadcastable to its shape.

    Parameters
    ----------
    field : Expression, FunctionField, ArrayField or FieldFile
        The field.
    xp : module
        numpy or cupy: where the values are wanted.
    coordinates : sequence of array
        x, y(, z) of the slab.
    start, stop : int
        Its range of the first array axis.
    """
    if isinstance(field, ArrayField):
        return field.read(xp, start, stop)
    if isinstance(field, FieldFile):
        return xp.asarray(field.read(start, stop))
    return field(xp, *coordinates)


def _on_device(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return False
    if hasattr(values, "__cuda_array_interface__"):
        return True
    # 1 is memory of the host in DLPack, 3 memory of the host that a device reaches too.
    return hasattr(values, "__dlpack_device__") and int(values.__dlpack_device__()[0]) not in (1, 3)


def _host(values: Any) -> NDArray[Any]:
    """An array that NumPy can use; a copy only of what is on a device."""
    if isinstance(values, np.ndarray):
        return values
    if not _on_device(values):
        return np.from_dlpack(values) if hasattr(values, "__dlpack__") else np.asarray(values)
    if hasattr(values, "get"):
        return np.asarray(values.get())
    return np.from_dlpack(values, device="cpu")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
