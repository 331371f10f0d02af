# SPDX-License-Identifier: MIT
"""Arrays of any library: what is one, where it is, and how it is read.

An array is what has one of the `PROTOCOLS`, or is a buffer of Python's. One in the memory of the host is read by NumPy,
without a copy as a rule; one on a device stays there until the library of that device, or NumPy, is to read it.
"""

from array import array
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError
from poisson.words import article

CUDA = "__cuda_array_interface__"
NUMPY = ("__array__", "__array_interface__", "__array_struct__")
REAL = "fiu"
"""Kinds of types of NumPy: float, integer and unsigned."""
PROTOCOLS = (CUDA, *NUMPY, "__dlpack__")

_HOST = (1, 3, 11)
"""The device types of DLPack for memory of the host, and for host memory that a device reaches too (CUDA, ROCm)."""


PLAIN: set[type] = {np.ndarray}
"""The types of arrays of NumPy, and of the modules that `brought` was asked for: an array of these types, and of no
subclass, has all its values, and to ask one for its interface takes longer than to launch a kernel."""


def is_array(given: object) -> bool:
    """Whether it is an array; a number of NumPy is one, of no axes."""
    if type(given) in PLAIN:
        return True
    buffer = isinstance(given, (memoryview, array))
    return buffer or (not isinstance(given, type) and any(_has(given, name) for name in PROTOCOLS))


def of_device(error: Exception) -> bool:
    """Whether CuPy raised an exception, which the backend puts into words."""
    return type(error).__module__.partition(".")[0] in ("cupy", "cupy_backends")


def on_device(given: Any) -> bool:
    """Whether an array is where NumPy cannot read it."""
    if isinstance(given, np.ndarray):
        return False
    if type(given) in PLAIN or _has(given, CUDA):
        return True
    return _has(given, "__dlpack_device__") and int(given.__dlpack_device__()[0]) not in _HOST


def shape_of(given: Any) -> tuple[int, ...]:
    """The shape of an array; one on a device that does not tell it is copied to the host for that."""
    if not on_device(given):
        return host(given).shape
    if hasattr(given, "shape"):
        return tuple(given.shape)
    return tuple(given.__cuda_array_interface__["shape"]) if _has(given, CUDA) else host(given).shape


def host(given: Any) -> NDArray[Any]:
    """An array as one of NumPy itself; a copy only of what is on a device.

    Raises CaseError if a value is masked, or the array cannot be read; the line says what was given, and not where.
    """
    require_readable(given)
    if isinstance(given, np.ndarray):
        return np.asarray(given)
    try:
        if on_device(given):
            return np.asarray(given.get()) if hasattr(given, "get") else np.from_dlpack(given, device="cpu")
        if _has(given, "__dlpack__") and not any(_has(given, name) for name in NUMPY):
            return np.from_dlpack(given)
        return np.asarray(given)
    except MemoryError:
        raise
    except Exception as error:  # other libraries raise whatever they like
        raise _unread(given, "NumPy", error) from error


def brought(given: Any, xp: ModuleType) -> Any:
    """An array of any library as one of the module xp, numpy or that of a device; a copy only where it must be.

    Raises CaseError as `host` does.
    """
    if type(given) is xp.ndarray:
        PLAIN.add(xp.ndarray)
        return given
    if xp is np or not on_device(given):
        values = host(given)
        return values if xp is np else xp.asarray(values)
    require_readable(given)
    try:
        return xp.asarray(given) if _has(given, CUDA) else xp.from_dlpack(given)
    except (BufferError, TypeError, ValueError) as error:
        # What a device, its driver or a compiler raises is said by the backend.
        raise _unread(given, "CuPy", error) from error


def _unread(given: Any, reader: str, error: Exception) -> CaseError:
    kind, place = type(given).__name__, " on a device" if on_device(given) else ""
    reason = " ".join(str(error).split()) or type(error).__name__
    return CaseError(f"{article(kind)}{place} that {reader} cannot read ({reason}); give a copy in {reader}")


def require_readable(given: Any) -> None:
    """Refuse an array whose values cannot be taken as they are.

    Masked ones are no part of the data, and nothing would leave them out. Of a tensor that requires a gradient the
    library would have to follow the values through the solve, and lets nobody read them.

    Raises CaseError with one line that says what was given, and not where.
    """
    if type(given) in PLAIN:
        return
    interfaces = (getattr(given, name) for name in (CUDA, "__array_interface__") if _has(given, name))
    masks = any(isinstance(found, dict) and found.get("mask") is not None for found in interfaces)
    if masks or (isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given)):
        raise CaseError("an array with masked values; fill them, for example with numpy.ma.filled")
    if _has(given, "requires_grad") and given.requires_grad is True:
        kind = article(type(given).__name__)
        raise CaseError(f"{kind} that requires a gradient; a solve has none to give: pass its values by .detach()")


def require_real(dtype: Any) -> None:
    """Refuse an array whose values, of this type, are not float, integer or unsigned.

    Raises CaseError with one line that says what was given, and not where.
    """
    if dtype.kind not in REAL:
        raise CaseError("an array without real numbers; allowed: float, integer or unsigned values")


def _has(given: object, name: str) -> bool:
    try:
        return hasattr(given, name)
    except Exception:  # such as that of a tensor which waits for its derivatives
        return False
