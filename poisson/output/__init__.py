# SPDX-License-Identifier: MIT
"""The record of a solve, and the files that hold it."""
