# SPDX-License-Identifier: MIT
"""A failure of a device, a driver or a compiler, as CuPy raises it, is one line that says what to do."""

import pytest

from poisson import backends
from poisson.backends.gpu.failures import failure
from poisson.errors import BackendFailed, PoissonError, ResourceError


def of_cupy(name: str, text: str, parent: type[Exception] = Exception, module: str = "cupy_backends.api") -> Exception:
    """An exception as CuPy has them."""
    kind = type(name, (parent,), {"__module__": module})
    error: Exception = kind(text)
    return error


LOG = 'kernel.cu(3): warning: x is not used\n\nkernel.cu(7): error: identifier   "y" is undefined\n1 error detected\n'

FAILURES = [
    (
        of_cupy("OutOfMemoryError", "Out of memory allocating 8,000 bytes", MemoryError, "cupy.cuda.memory"),
        ResourceError,
        "the GPU has too little memory (Out of memory allocating 8,000 bytes): reduce domain.shape",
    ),
    (
        of_cupy("CompileException", LOG, module="cupy.cuda.compiler"),
        BackendFailed,
        'a kernel does not compile for this GPU (kernel.cu(7): error: identifier "y" is undefined): update CuPy, or '
        "use run.backend = 'openmp'",
    ),
    (
        of_cupy("CUDARuntimeError", "cudaErrorIllegalAddress: an illegal memory access was encountered", RuntimeError),
        BackendFailed,
        "the GPU has failed (CUDARuntimeError: cudaErrorIllegalAddress: an illegal memory access was encountered): see "
        "the log of the driver, or use run.backend = 'openmp'",
    ),
    (
        RuntimeError("CuPy failed to load libnvrtc.so.12: OSError: no such file"),
        BackendFailed,
        "CuPy failed to load libnvrtc.so.12: OSError: no such file: install CuPy again for this driver, or use "
        "run.backend = 'openmp'",
    ),
    (
        of_cupy("CuFFTError", ""),
        BackendFailed,
        "the GPU has failed (CuFFTError: CuFFTError): see the log of the driver, or use run.backend = 'openmp'",
    ),
]


@pytest.mark.parametrize(("error", "kind", "line"), FAILURES, ids=[type(error).__name__ for error, _, _ in FAILURES])
def test_a_failure_is_one_line(error: Exception, kind: type[PoissonError], line: str) -> None:
    with pytest.raises(PoissonError) as caught, backends.reported():
        raise error
    assert (type(caught.value), str(caught.value)) == (kind, line)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [RuntimeError("a defect"), MemoryError("of the host"), KeyError("cupy")])
def test_what_is_not_the_devices_stays_as_it_is(error: Exception) -> None:
    assert failure(error) is None
    with pytest.raises(type(error)) as caught, backends.reported():
        raise error
    assert caught.value is error
