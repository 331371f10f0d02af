# SPDX-License-Identifier: MIT
"""Benchmarks that asv follows over commits: rows of `python -m poisson bench`."""
