"""``python -m poisson``."""

import signal
import sys

if __name__ == "__main__":
    try:
        from poisson.cli import main

        code = main()
    except KeyboardInterrupt:
        # While modules are loaded, or for the second time: there is nothing to lose.
        code = 130
    # The interpreter has nothing to say about an interrupt while it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
