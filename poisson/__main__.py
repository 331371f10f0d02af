"""``python -m poisson``."""

import os
import signal
import sys


def main() -> int:
    """Carry out the command line; returns the exit code."""
    # `python -m` puts the current folder before all others, so that an h5py.py in it would be run in the place of the
    # package. This package needs no entry of the path any more: it is loaded, and knows its own folder. The modules
    # above were loaded before that folder counted.
    if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]
    try:
        from poisson.cli import main as carry_out

        code = carry_out()
    except KeyboardInterrupt:
        # While modules are loaded, or a second one: there is nothing to lose.
        code = 130
    # The interpreter has nothing to say about an interrupt while it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(main())
