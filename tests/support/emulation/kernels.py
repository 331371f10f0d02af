# SPDX-License-Identifier: MIT
"""Compiled kernels: their signatures, and launches with checked arguments."""

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from support.emulation.build import CHOSEN, Unit
from support.emulation.errors import ArgumentError, LaunchError
from support.emulation.memory import Allocation, Memory

MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)


class Order(IntEnum):
    """In which the threads of a block run between two barriers, and the blocks of a grid; values as in C++."""

    FORWARD = 0
    REVERSED = 1
    SHUFFLED = 2


class _Launch(ctypes.Structure):
    """`emulation::Launch`."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("order", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
        ("chosen", ctypes.c_int32 * len(CHOSEN)),
    )


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel as the compiler sees it."""

    pointer: bool
    constant: bool
    dtype: np.dtype[Any]

    @classmethod
    def parse(cls, code: str) -> "Parameter":
        """From ``*f8`` (double*), ``+f8`` (const double*) or ``=f8`` (double)."""
        return cls(code[0] != "=", code[0] == "+", np.dtype(code[1:]))

    def __str__(self) -> str:
        return f"{'const ' if self.constant else ''}{self.dtype}{'*' if self.pointer else ''}"


class EmulatedModule:
    """The kernels of one source, and the values of `CHOSEN`.

    `schedule` tells order and seed at each launch, and `submit` is given its work.
    """

    def __init__(
        self,
        unit: Unit,
        chosen: tuple[int, ...],
        memory: Memory,
        schedule: Callable[[], tuple[Order, int]],
        submit: Callable[[Callable[[], None]], None],
    ) -> None:
        self._unit = unit
        self._chosen = chosen
        self._memory = memory
        self._schedule = schedule
        self._submit = submit

    def get_function(self, name: str, shared_bytes: int = 0) -> "EmulatedKernel":
        """The kernel `name`, compiled. Shared memory of a size given at launch is an array of that size here.

        Raises `ArgumentError` if the module has no kernel of this name with C linkage; `CompilationError` with the
        compiler's text, if it refuses the source.
        """
        library = ctypes.CDLL(str(self._unit.library(name)))
        if not hasattr(library, f"emulation_launch_{name}"):
            raise ArgumentError(f"the module has no kernel {name}")
        if not hasattr(library, name):
            raise ArgumentError(f'{name} is not declared extern "C", so a GPU module would not find it')
        return EmulatedKernel(library, name, self._chosen, self._memory, self._schedule, self._submit)


ONE_AT_A_TIME = threading.Lock()
"""Held by a launch: the libraries have one state, and ranks that are played by threads share it."""


class EmulatedKernel:
    """A kernel; a call launches it and waits for its end."""

    resources = None

    def __init__(
        self,
        library: ctypes.CDLL,
        name: str,
        chosen: tuple[int, ...],
        memory: Memory,
        schedule: Callable[[], tuple[Order, int]],
        submit: Callable[[Callable[[], None]], None],
    ) -> None:
        self.name = name
        self._chosen = (ctypes.c_int32 * len(chosen))(*chosen)
        self._memory = memory
        self._schedule = schedule
        self._submit = submit
        signature = library[f"emulation_signature_{name}"]
        signature.restype = ctypes.c_char_p
        self.parameters = tuple(Parameter.parse(code) for code in signature().decode().split())
        bound = library[f"emulation_bound_{name}"]
        bound.restype = ctypes.c_uint
        self.max_threads = bound() or MAX_THREADS
        self._launch = library[f"emulation_launch_{name}"]
        self._launch.argtypes = (ctypes.POINTER(_Launch), ctypes.POINTER(ctypes.c_uint64))
        self._error = library["emulation_error"]
        self._error.restype = ctypes.c_char_p

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[object]) -> None:
        """Run the kernel.

        `grid`, `block`: blocks in the grid and threads in a block along x(, y, z). `args`: for a pointer, an array in
        device memory (a view passes the address of its first element); for a number, a NumPy scalar of exactly its
        type. Raises `ArgumentError` if the sizes, the number or a type is wrong, or an array is host memory. Nothing
        has run then. Raises `LaunchError` if the kernel fails. Raises `GuardError` if the kernel writes outside an
        array that it is given.
        """
        slots, allocations = self._pack(args)
        order, seed = self._schedule()
        sizes = self._sizes("grid", grid, MAX_GRID), self._sizes("block", block, MAX_BLOCK)
        launch = _Launch(*sizes, order, seed, self._chosen)
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        if threads > self.max_threads:
            raise ArgumentError(f"{self.name}: a block of {threads} threads; at most {self.max_threads} are allowed")

        def run() -> None:
            with ONE_AT_A_TIME:
                if self._launch(ctypes.byref(launch), slots) != 0:
                    raise LaunchError(self._error().decode())
            for allocation in allocations:
                allocation.check(f"kernel {self.name}")

        self._submit(run)

    def _sizes(self, what: str, sizes: Sequence[int], limits: tuple[int, ...]) -> ctypes.Array[ctypes.c_uint32]:
        full = (*sizes, 1, 1, 1)[:3] if 1 <= len(sizes) <= 3 else ()
        if not full or not all(1 <= size <= limit for size, limit in zip(full, limits, strict=True)):
            raise ArgumentError(f"{self.name}: a {what} of {tuple(sizes)}; the sizes are 1 to {limits}")
        return (ctypes.c_uint32 * 3)(*full)

    def _pack(self, args: Sequence[object]) -> tuple[ctypes.Array[ctypes.c_uint64], list[Allocation]]:
        """One slot of 8 bytes an argument, and the allocations that the kernel can reach."""
        if len(args) != len(self.parameters):
            raise ArgumentError(f"{self.name}: {len(args)} arguments for {len(self.parameters)} parameters")
        slots = (ctypes.c_uint64 * len(args))()
        allocations = []
        for position, (argument, parameter) in enumerate(zip(args, self.parameters, strict=True)):
            place = f"{self.name}: argument {position}"
            if parameter.pointer:
                if isinstance(argument, np.uint64) and argument == 0:
                    continue  # a null pointer
                if not isinstance(argument, np.ndarray) or argument.dtype != parameter.dtype:
                    raise ArgumentError(f"{place} is {_describe(argument)}; the kernel takes {parameter}")
                allocation = self._memory.find(argument)
                if allocation is None:
                    raise ArgumentError(f"{place} is host memory: the runtime did not allocate it")
                allocations.append(allocation)
                slots[position] = argument.__array_interface__["data"][0]
            else:
                if not isinstance(argument, np.generic) or argument.dtype != parameter.dtype:
                    raise ArgumentError(f"{place} is {_describe(argument)}; the kernel takes {parameter}")
                ctypes.memmove(ctypes.byref(slots, 8 * position), argument.tobytes(), parameter.dtype.itemsize)
        return slots, allocations


def _describe(argument: object) -> str:
    if isinstance(argument, np.ndarray):
        return f"an array of {argument.dtype}"
    if isinstance(argument, np.generic):
        return f"a scalar of {argument.dtype}"
    return f"a Python {type(argument).__name__}"
