# SPDX-License-Identifier: MIT
"""What the tests share: problems, operators, comparisons, the emulation of a GPU, compilers."""
