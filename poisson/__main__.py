# SPDX-License-Identifier: MIT
"""``python -m poisson``."""

import os
import sys

WATCHED = ("LD_PRELOAD", "CUDA_INJECTION64_PATH", "HSA_TOOLS_LIB")
"""Variables of tools that look into a process, and write what they have found when the interpreter has ended."""


def command() -> int:
    """`main` as the only work of a process, which ends when nothing is left to be done.

    To load modules leaves no garbage; `poisson.cli` turns the search for it on again. What has been registered for the
    end, and threads, have their turn; but the interpreter does not take down object by object what the system takes
    back at once, which takes a tenth of a second, and more with a GPU.
    """
    import atexit
    import gc

    code: list[int] = []
    if not any(map(os.environ.get, WATCHED)):
        atexit.register(_prepare_end, code)
    gc.disable()
    code.append(main())
    return code[0]


class _End:
    """The end of the process, at once, when nobody refers to this any more."""

    def __init__(self, code: int) -> None:
        self._code = code

    def __del__(self) -> None:
        os._exit(self._code)


def _prepare_end(code: list[int]) -> None:
    # MPI waits for the interpreter's own end.
    if code and "mpi4py.MPI" not in sys.modules:
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            return
        import builtins
        import gc

        # What others registered before comes next. Then the interpreter looks for garbage a last time, and forgets this
        # name before it takes down the first module.
        gc.freeze()
        vars(builtins)["_"] = _End(code[0])


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
    sys.exit(command())
