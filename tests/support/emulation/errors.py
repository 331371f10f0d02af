# SPDX-License-Identifier: MIT
"""Errors that the emulation finds in a kernel or in a call of one."""


class EmulationError(Exception):
    """The parent of the errors below."""


class CompilationError(EmulationError):
    """The compiler refuses the kernel source, or there is no compiler."""


class ArgumentError(EmulationError):
    """A launch does not fit the kernel: number, type or memory of the arguments, or the sizes of grid and block."""


class LaunchError(EmulationError):
    """A kernel failed while it ran: barriers that do not meet, an index out of its array, a wild address."""


class GuardError(EmulationError):
    """A kernel wrote before or behind an array."""
