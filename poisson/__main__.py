"""``python -m poisson``."""

import sys

from poisson.cli import main

if __name__ == "__main__":
    sys.exit(main())
