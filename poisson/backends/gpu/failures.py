# SPDX-License-Identifier: MIT
"""Errors of one line for the exceptions that CuPy raises where a device, a driver or a compiler fails.

CuPy need not be there: its exceptions are known by their names.
"""

from poisson.errors import BackendFailed, PoissonError, ResourceError

PACKAGES = ("cupy", "cupy_backends")

COMPILERS = ("CompileException", "NVRTCError", "HIPRTCError")

UNLOADED = "CuPy failed to load"
"""With it begins what CuPy says of a library of the vendor's that is missing or of another version."""

INSTEAD = "or use run.backend = 'openmp'"


def failure(error: BaseException) -> PoissonError | None:
    """The error of one line for an exception of CuPy; None for any other."""
    kind = type(error)
    if isinstance(error, (RuntimeError, ImportError)) and UNLOADED in str(error):
        return BackendFailed(f"{_line(error)}: install CuPy again for this driver, {INSTEAD}")
    if kind.__module__.partition(".")[0] not in PACKAGES:
        return None
    if isinstance(error, MemoryError):
        fix = "reduce domain.shape"
        return ResourceError(f"the GPU has too little memory ({_line(error)}): {fix}")
    if kind.__name__ in COMPILERS:
        return BackendFailed(f"a kernel does not compile for this GPU ({_line(error)}): update CuPy, {INSTEAD}")
    return BackendFailed(f"the GPU has failed ({kind.__name__}: {_line(error)}): see the log of the driver, {INSTEAD}")


def _line(error: BaseException) -> str:
    """The first line that tells of an error, or the first of all."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else type(error).__name__)
