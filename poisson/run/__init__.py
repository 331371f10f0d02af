# SPDX-License-Identifier: MIT
"""From a problem to its solution: the solver that keeps its set-up, a run, and what it leaves."""
