# SPDX-License-Identifier: MIT
"""One problem on several processes: each has a part of the nodes, and they exchange what lies beside it."""
