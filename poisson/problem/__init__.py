# SPDX-License-Identifier: MIT
"""What is to be solved: equation, faces and data, as a user gives them."""
