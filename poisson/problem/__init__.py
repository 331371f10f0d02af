# SPDX-License-Identifier: MIT
"""The problem to be solved: equation, faces and data, as a user gives them."""
