# SPDX-License-Identifier: MIT
"""What a solve leaves: its record, and the files that hold it."""
