"""Runs the GPU kernels on the CPU: the runtime that the gpu backend needs, for tests on a machine without a GPU."""

from tests.emulation.errors import ArgumentError, CompilationError, EmulationError, GuardError, LaunchError
from tests.emulation.kernels import EmulatedKernel, EmulatedModule, Order
from tests.emulation.runtime import EmulatedRuntime

__all__ = [
    "ArgumentError",
    "CompilationError",
    "EmulatedKernel",
    "EmulatedModule",
    "EmulatedRuntime",
    "EmulationError",
    "GuardError",
    "LaunchError",
    "Order",
]
