# SPDX-License-Identifier: MIT
"""What asv follows over commits: rows of `python -m poisson bench`."""
