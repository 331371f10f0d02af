# SPDX-License-Identifier: MIT
"""The measurements behind the commands of `bench`, one a module."""
