# SPDX-License-Identifier: MIT
"""The OpenMP library: the threads of a CPU, or a GPU where an offloading compiler built it."""
