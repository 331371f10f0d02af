# SPDX-License-Identifier: MIT
"""Where the nodes are: grids on a box, its faces, differences along axes."""
