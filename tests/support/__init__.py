# SPDX-License-Identifier: MIT
"""Code that the tests share: problems, operators, comparisons, the emulation of a GPU, compilers."""
