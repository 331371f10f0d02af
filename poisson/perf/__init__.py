# SPDX-License-Identifier: MIT
"""How fast it is: bytes and flops of every operation, the times of them, the roofline, the tuner and the benchmarks."""
