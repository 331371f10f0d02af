# SPDX-License-Identifier: MIT
"""``--ranks``: processes on this machine, started by mpirun for the user.

What launchers print around a program, and what they make of signals, differs and is of no use to a user. So the ranks
are given the streams of the command itself, over a socket, by which the first of them also says how all ended; only
where it cannot, what the launcher has printed counts.
"""

import contextlib
import importlib.util
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from poisson.cli.terms import EXIT_ERROR, EXIT_INTERRUPTED, complain, murmur
from poisson.errors import PackageMissing, PoissonError
from poisson.parallel.launched import INSTALL
from poisson.words import quantity

VARIABLE = "POISSON_CONSOLE"
"""In the environment of the ranks: the socket."""

ROOT_VARIABLES = ("OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT")
"""With ``_CONFIRM`` beside each: what Open MPI asks of root, who is the only user in many containers."""

OPEN_MPI = ("--map-by", ":OVERSUBSCRIBE", "--bind-to", "none")
"""More ranks than cores are allowed; each takes its share of the cores itself."""

MOST_KEPT = 1 << 16
"""Bytes of what the launcher prints that are kept."""


class LauncherFailed(PoissonError):
    """The processes could not be started, or did not come to their end."""


class Console:
    """On a rank: the way to the command that has started it; of no effect where a user's mpirun has.

    `way`: to that command.
    """

    def __init__(self, way: socket.socket | None) -> None:
        self._way = way

    @classmethod
    @contextlib.contextmanager
    def connected(cls) -> "Iterator[Console]":
        """Within, standard output and standard error are those of the command."""
        place = os.environ.pop(VARIABLE, None)
        way = None if place is None else _connection(place)
        if way is None:
            yield cls(None)
            return
        with way:
            yield cls(way)

    def report(self, code: int) -> None:
        """Say how all end."""
        if self._way is not None:
            with contextlib.suppress(OSError):
                self._way.sendall(f"{code}\n".encode())


def _connection(place: str) -> socket.socket | None:
    way = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        way.connect(place)
        _, streams, _, _ = socket.recv_fds(way, 1, 2)
    except OSError:
        way.close()
        return None
    for number, stream in enumerate(streams, start=1):
        os.dup2(stream, number)
        os.close(stream)
    return way


def start(words: Sequence[str], ranks: int) -> int:
    """Carry out a command line in so many processes.

    `words`: the command line after the program's name. `ranks`: processes. Returns: the exit code. Raises
    `PackageMissing` if there is no mpi4py or no mpirun; `LauncherFailed` if the processes ended without a word.
    """
    launcher = find_launcher()
    with tempfile.TemporaryDirectory(prefix="poisson-") as folder:
        place = os.path.join(folder, "console")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.bind(place)
            server.listen(ranks)
            # In a session of its own, so that an interrupt from the keyboard comes here and not to the launcher.
            process = subprocess.Popen(
                [launcher, "-n", str(ranks), *_options(launcher), sys.executable, "-P", "-m", "poisson", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(place),
            )
            ending = _Watch(process, server, ranks).until_the_end()
    return _verdict(launcher, ranks, *ending)


class _Watch:
    """Waits for the end of the processes, gives each the streams, and hands interrupts on."""

    def __init__(self, process: subprocess.Popen[bytes], server: socket.socket, ranks: int) -> None:
        self._process = process
        self._server = server
        self._ranks = ranks
        self._ways: list[socket.socket] = []
        self._pressed: list[int] = []
        self._code: int | None = None
        self._printed = b""

    def until_the_end(self) -> tuple[int, int | None, int, str]:
        """The exit code of the launcher, that which the ranks have told, the signal that has interrupted, or 0, and
        what the launcher has printed."""
        output = self._process.stdout
        assert output is not None
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        # A shell ignores Ctrl-C for a command in the background, and nohup the end of the terminal: so does this.
        before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
        for number in before:
            signal.signal(number, self._interrupt)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._server, selectors.EVENT_READ)
                selector.register(output, selectors.EVENT_READ)
                open_ = True
                while open_:
                    for key, _ in selector.select():
                        if key.fileobj is self._server:
                            selector.register(self._accept(), selectors.EVENT_READ)
                        elif key.fileobj is output:
                            chunk = os.read(output.fileno(), MOST_KEPT)
                            self._printed = (self._printed + chunk)[-MOST_KEPT:]
                            open_ = bool(chunk)
                        elif isinstance(key.fileobj, socket.socket) and not self._listen(key.fileobj):
                            selector.unregister(key.fileobj)
            launched = self._process.wait()
            for way in self._ways:
                # What has come since the last look.
                way.setblocking(False)
                self._listen(way)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for way in self._ways:
                way.close()
        first = self._pressed[0] if self._pressed else 0
        return launched, self._code, first, self._printed.decode(errors="replace")

    def _accept(self) -> socket.socket:
        way, _ = self._server.accept()
        socket.send_fds(way, [b"."], [1, 2])
        self._ways.append(way)
        if len(self._ways) == self._ranks and self._pressed:
            self._process.send_signal(signal.SIGUSR1)
        return way

    def _listen(self, way: socket.socket) -> bool:
        """Take note of an exit code; false at the end of the rank."""
        try:
            told = way.recv(64)
        except OSError:
            # It has ended before it took all that it was sent.
            return False
        if told:
            self._code = int(told.split()[0])
        return bool(told)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Hand an interrupt on as the signal that launchers pass to their processes, once these have come."""
        self._pressed.append(number)
        if len(self._ways) >= self._ranks:
            self._process.send_signal(signal.SIGUSR1)
        elif len(self._pressed) > 1:
            self._process.terminate()


def _verdict(launcher: str, ranks: int, launched: int, code: int | None, signalled: int, printed: str) -> int:
    """The exit code of the command, from all that is known at the end."""
    if code is not None:
        # To the ranks every signal is handed on as the same one.
        return 128 + signalled if signalled and code == EXIT_INTERRUPTED else code
    if signalled:
        complain("interrupted")
        return 128 + signalled
    # Only what a rank has printed for itself begins so.
    own = [line for line in printed.splitlines() if line.startswith("poisson: ")]
    if own:
        murmur("\n".join(own))
        return launched if launched > 0 else EXIT_ERROR
    number = launched - 128 if launched > 128 else -launched
    if number > 0:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        fix = "; possibly out of memory: use fewer nodes" if number == signal.SIGKILL else ""
        raise LauncherFailed(f"one of the {quantity(ranks, 'process')} was ended by {name}{fix}")
    said = " ".join(re.sub(r"^-+$", "", printed, flags=re.MULTILINE).split())
    raise LauncherFailed(f"{launcher} could not run {quantity(ranks, 'process')}: {said or f'exit code {launched}'}")


def find_launcher() -> str:
    """The mpirun of the MPI that mpi4py loads; where that is not known, the one on the PATH.

    Raises PackageMissing if there is no mpi4py or no mpirun.
    """
    if importlib.util.find_spec("mpi4py") is None:
        raise PackageMissing(f"--ranks needs mpi4py: {INSTALL}")
    folders = [*_library_folders(), os.path.dirname(sys.executable), *os.environ.get("PATH", "").split(os.pathsep)]
    for name in ("mpirun", "mpiexec"):
        if found := shutil.which(name, path=os.pathsep.join(folders)):
            return found
    raise PackageMissing(f"--ranks needs mpirun: {INSTALL}, or load the module of an MPI")


def _library_folders() -> list[str]:
    """Where the programs of the MPI should be that mpi4py loads, which it does without starting it."""
    look = (
        "import mpi4py; mpi4py.rc.initialize = mpi4py.rc.finalize = False\n"
        "from mpi4py import MPI\n"
        "print(open('/proc/self/maps').read())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", look], capture_output=True, text=True, check=False)
    libraries = dict.fromkeys(re.findall(r"\s(/\S*/libmpi[^/\s]*\.so[^/\s]*)$", done.stdout, re.MULTILINE))
    return [str(Path(library).parents[1] / "bin") for library in libraries]


def _options(launcher: str) -> tuple[str, ...]:
    done = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False)
    return OPEN_MPI if "Open MPI" in done.stdout or "open-mpi" in done.stdout else ()


def _environment(place: str) -> dict[str, str]:
    """The environment of the processes: they find this package and this command, and root has Open MPI's consent."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = os.environ | {VARIABLE: place, "PYTHONPATH": os.pathsep.join(paths)}
    if os.geteuid() == 0:
        variables |= {f"{name}{end}": "1" for name in ROOT_VARIABLES for end in ("", "_CONFIRM")}
    return variables
