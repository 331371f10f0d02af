# SPDX-License-Identifier: MIT
"""Runs the GPU kernels on the CPU: the runtime that the gpu backend needs, for tests on a machine without a GPU."""

from support.emulation.errors import ArgumentError, CompilationError, EmulationError, GuardError, LaunchError
from support.emulation.kernels import EmulatedKernel, EmulatedModule, Order
from support.emulation.runtime import EmulatedRuntime

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
