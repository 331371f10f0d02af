# SPDX-License-Identifier: MIT
"""From a problem to its discrete equations, and their direct solution as a reference."""
