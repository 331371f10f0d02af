"""What asv follows over commits: rows of `python -m poisson bench`."""
