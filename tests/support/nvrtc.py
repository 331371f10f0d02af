# SPDX-License-Identifier: MIT
"""Compiles CUDA sources to machine code without a GPU, by NVRTC from the PyPI package nvidia-cuda-nvrtc."""

import ctypes
import re
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from support.kept import kept

PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu13")

_program = ctypes.c_void_p
_strings = ctypes.POINTER(ctypes.c_char_p)
_size = ctypes.POINTER(ctypes.c_size_t)
_SIGNATURES = {
    "nvrtcVersion": (ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)),
    "nvrtcCreateProgram": (
        ctypes.POINTER(_program),
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int,
        _strings,
        _strings,
    ),
    "nvrtcDestroyProgram": (ctypes.POINTER(_program),),
    "nvrtcCompileProgram": (_program, ctypes.c_int, _strings),
    "nvrtcGetProgramLogSize": (_program, _size),
    "nvrtcGetProgramLog": (_program, ctypes.c_char_p),
    "nvrtcGetCUBINSize": (_program, _size),
    "nvrtcGetCUBIN": (_program, ctypes.c_char_p),
}

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


class NvrtcMissing(Exception):
    """There is no NVRTC here; the text says what to install."""


class NvrtcError(Exception):
    """NVRTC refuses a source or an option; the text is its log."""


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel on the device: registers a thread, shared memory a block, the rest in bytes a
    thread.
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int

    @property
    def spills(self) -> bool:
        return self.spill_store_bytes > 0 or self.spill_load_bytes > 0


@dataclass(frozen=True)
class Cubin:
    """Machine code, and the resources of each kernel by its name."""

    image: bytes
    kernels: dict[str, Resources]
    log: str


def _check(status: int, function: Any, arguments: tuple[object, ...]) -> int:
    if status != 0:
        raise NvrtcError(f"{function.__name__} returned the status {status}")
    return status


def _library_files() -> tuple[Path, Path]:
    """libnvrtc and libnvrtc-builtins of the installed package, in whichever folder its version keeps them."""
    for package in PACKAGES:
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        paths = [Path(str(file.locate())) for file in files]
        libraries = [path for path in paths if re.fullmatch(r"libnvrtc\.so\.\d+", path.name)]
        builtins = [path for path in paths if re.fullmatch(r"libnvrtc-builtins\.so\.[\d.]+", path.name)]
        if libraries and builtins:
            return libraries[0], builtins[0]
    raise NvrtcMissing(f"no NVRTC: pip install {PACKAGES[0]}")


@cache
def _load() -> ctypes.CDLL:
    library_file, builtins_file = _library_files()
    # libnvrtc opens its builtins by name when it first compiles, and finds the copy that is loaded.
    ctypes.CDLL(str(builtins_file))
    library = ctypes.CDLL(str(library_file))
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
        if name != "nvrtcCompileProgram":
            function.errcheck = _check
    return library


def version() -> tuple[int, int]:
    """Major and minor version of NVRTC.

    Raises `NvrtcMissing` if it is not installed.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    _load().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def shorter() -> tuple[str, ...]:
    """The option that leaves out the language features that no kernel has, which take longer than a small kernel."""
    return ("-minimal",) if version() >= (12, 4) else ()


def compile(source: str, options: tuple[str, ...] = (), arch: str = "sm_90") -> Cubin:
    """Compile a CUDA source to machine code.

    `source`: the source; only its ``extern "C"`` kernels have resources under the names that it gives them. `options`:
    options of NVRTC, such as ``-DREAL=double``. `arch`: the architecture, such as ``sm_80`` or ``sm_90``. Returns with
    the resources that ptxas reports. Raises `NvrtcMissing` if NVRTC is not installed; `NvrtcError` with the compiler's
    log, if it refuses the source or an option.
    """
    flags = (f"--gpu-architecture={arch}", *options, "--ptxas-options=-v")
    image, log = kept(lambda: _compiled(source, [text.encode() for text in flags]), repr(version()), *flags, source)
    return Cubin(image, parse_resources(log), log)


def _compiled(source: str, flags: list[bytes]) -> tuple[bytes, str]:
    """The machine code and the compiler's log."""
    library = _load()
    program = _program()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels", 0, None, None)
    try:
        status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        log = _read(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program).rstrip(b"\0").decode()
        if status != 0:
            raise NvrtcError(log or f"NVRTC returned the status {status}")
        image = _read(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    return image, log


def _read(size_of: Any, read: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    read(program, buffer)
    return buffer.raw


def parse_resources(log: str) -> dict[str, Resources]:
    """The resources of each kernel in what ``ptxas -v`` prints.

    A function that a kernel calls has a stack frame and spills of its own, which count for each kernel printed with it.

    Raises `NvrtcError` if the text of a kernel lacks its registers or its spills.
    """
    entries = list(_ENTRY.finditer(log))
    ends = [entry.start() for entry in entries[1:]] + [len(log)]
    kernels = {}
    for entry, end in zip(entries, ends, strict=True):
        text = log[entry.end() : end]
        frames = [tuple(map(int, frame)) for frame in _FRAME.findall(text)]
        registers = _USED.search(text)
        if not frames or registers is None:
            raise NvrtcError(f"ptxas tells nothing of the kernel {entry[1]}:\n{log}")
        shared = _SHARED.search(text)
        stack, stores, loads = (sum(column) for column in zip(*frames, strict=True))
        kernels[entry[1]] = Resources(int(registers[1]), int(shared[1]) if shared else 0, stack, stores, loads)
    return kernels
