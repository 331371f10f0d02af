# SPDX-License-Identifier: MIT
"""How A u = f is solved: the methods, written in the operations of a backend, and when and how a solve ends."""
