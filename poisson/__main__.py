# SPDX-License-Identifier: MIT
"""``python -m poisson``."""

import os
import sys


def main() -> int:
    """Carry out the command line; returns the exit code."""
    if not sys.flags.safe_path and _begins_with_the_current_folder(sys.path):
        # `python -m` puts it before all others, so that an h5py.py in it would be run in the place of the package. This
        # package needs no entry of the path any more: it is loaded, and knows its own folder. The modules above were
        # loaded before that folder counted.
        del sys.path[0]
    import signal

    try:
        from poisson.cli import main as carry_out

        code = carry_out()
    except KeyboardInterrupt:
        # While modules are loaded, or a second one: there is nothing to lose.
        code = 130
    # The interpreter has nothing to say about an interrupt while it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def _begins_with_the_current_folder(path: list[str]) -> bool:
    try:
        return path[:1] in ([""], [os.getcwd()])
    except OSError:  # it has been removed
        return False


if __name__ == "__main__":
    sys.exit(main())
