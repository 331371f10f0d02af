"""The command line: `solve`, `verify`, `info`.

Nothing is computed here. Fire calls a command's function before it looks at what is left of the line, so these
functions only collect their arguments in a request, which is carried out once the whole line is understood. Their
docstrings are the help.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from poisson.errors import PoissonError

EXIT_OK = 0
EXIT_OFF = 1
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

HELP = """poisson: finite-difference solution of Poisson problems on a box, in 2D and 3D

    -div(a grad u) + c u = f,  a = 1,  c >= 0

Usage: python -m poisson COMMAND ...

Commands:
  solve CASE     solve a case file and write the result (HDF5, with an XDMF file for ParaView)
  verify CASE    compare every backend with a direct solution, or measure the order of accuracy
  info [FILE]    describe a result file, or what is installed here

  COMMAND --help   more on a command
  --version        the version

Examples:
  python -m poisson solve cases/unit_square.toml
  python -m poisson solve cases/unit_square.toml --set domain.shape=[513,513] --backend openmp
  python -m poisson info unit_square.h5

Exit codes:
  0    converged; verified
  1    not converged (the result is still written, marked so); a comparison is off
  2    bad input, or a file that cannot be read or written
  130  interrupted by Ctrl-C (solve still writes the last complete iterate)

Messages and progress go to standard error, results to standard output."""


class UsageError(PoissonError):
    """The command line is not one of those in the help."""


class Request(Protocol):
    """A command with its arguments, ready to be carried out."""

    def execute(self) -> int:
        """Carry it out and return the exit code."""


@dataclass(frozen=True)
class Solve:
    case: str
    overrides: tuple[str, ...]
    quiet: bool

    def execute(self) -> int:
        import numpy as np

        from poisson import run
        from poisson.case import load
        from poisson.output import hdf5, xdmf
        from poisson.perf.traffic import sweep_bytes
        from poisson.terminal import Progress, summary

        case = load(self.case, self.overrides)
        hdf5.check_writable(case.output.file, run.result_bytes(case))
        traffic = sweep_bytes(case.problem, np.dtype(case.run.precision).itemsize, case.solver.loop)
        with Progress(traffic, quiet=self.quiet) as progress:
            solution = run.solve(case, observer=progress)
        if not self.quiet:
            _say(summary(solution, traffic))
        elif solution.status.exit_code != EXIT_OK:
            _complain(f"warning: {solution.status.value}: {solution.status.advice}")
        path = hdf5.write_safely(case.output.file, solution)
        beside = xdmf.write(path, solution)
        if not self.quiet:
            _say(f"output      {path} (ParaView: {beside})")
        return solution.status.exit_code


@dataclass(frozen=True)
class Verify:
    case: str
    overrides: tuple[str, ...]
    refine: int | None
    quiet: bool

    def execute(self) -> int:
        from poisson import verify as verification
        from poisson.case import load
        from poisson.terminal import table

        report = verification.verify(load(self.case, self.overrides), self.refine)
        if not (self.quiet and report.passed):
            _say("\n".join([report.title, "", table(report.headers, report.rows), *report.notes]))
        return EXIT_OK if report.passed else EXIT_OFF


@dataclass(frozen=True)
class Info:
    file: str | None

    def execute(self) -> int:
        if self.file is not None:
            from poisson.output import hdf5

            _say(hdf5.describe(self.file))
            return EXIT_OK
        from poisson import backends
        from poisson.terminal import installation

        _say(installation(backends.describe()))
        return EXIT_OK


def solve(
    case: str,
    *,
    set: Sequence[str] = (),
    output: str | None = None,
    backend: str | None = None,
    quiet: bool = False,
) -> Solve:
    """Solve a case file and write the result.

    Usage: python -m poisson solve CASE [--set KEY=VALUE ...] [--output FILE] [--backend NAME] [--quiet]

      CASE             the case file (TOML)
      --set KEY=VALUE  override a key of the case file; may be given several times
      --output FILE    where to write the result; the same as --set output.file=FILE
      --backend NAME   auto, gpu, openmp or numpy; the same as --set run.backend=NAME
      --quiet          show nothing but warnings and errors

    Beside the result, FILE.h5, stands FILE.xmf, which ParaView opens. Ctrl-C stops the solve after the current sweep
    and writes the result so far.

    Examples:
      python -m poisson solve cases/unit_square.toml
      python -m poisson solve cases/unit_square.toml --set solver.rtol=1e-6 --set domain.shape=[257,257]
      python -m poisson solve cases/unit_square.toml --output run1.h5 --backend numpy --quiet

    Exit codes: 0 converged, 1 not converged (the result is still written), 2 bad input, 130 interrupted."""
    return Solve(case, _overrides(set, output=output, backend=backend), quiet)


def verify(
    case: str,
    *,
    refine: str | None = None,
    set: Sequence[str] = (),
    backend: str | None = None,
    quiet: bool = False,
) -> Verify:
    """Compare every backend with a direct solution, or measure the order of accuracy.

    Usage: python -m poisson verify CASE [--refine N [--backend NAME]] [--set KEY=VALUE ...] [--quiet]

      CASE             the case file (TOML)
      --refine N       instead, solve on N grids, each with half the spacing of the one before and the case's own the
                       last, and show the observed order of accuracy; the case must give the exact solution
      --set KEY=VALUE  override a key of the case file; may be given several times
      --backend NAME   the backend for --refine: auto, gpu, openmp or numpy; the same as --set run.backend=NAME
      --quiet          show nothing unless something is off

    Examples:
      python -m poisson verify cases/unit_square.toml
      python -m poisson verify cases/unit_square.toml --refine 4 --backend numpy

    Exit codes: 0 all agree, 1 something is off, 2 bad input, 130 interrupted."""
    if refine is None and backend is not None:
        raise UsageError("--backend needs --refine: without it, verify compares every backend")
    return Verify(case, _overrides(set, backend=backend), None if refine is None else _grids(refine), quiet)


def info(file: str | None = None) -> Info:
    """Describe a result file, or what is installed here.

    Usage: python -m poisson info [FILE]

      FILE   a result of 'solve'; without it: the backends, their devices, and what to install for a missing one

    Examples:
      python -m poisson info
      python -m poisson info unit_square.h5

    Exit codes: 0 done, 2 the file cannot be read."""
    return Info(file)


COMMANDS: dict[str, Callable[..., Request]] = {"solve": solve, "verify": verify, "info": info}


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the program's name; those of the process by default.

    Returns
    -------
    int
        The exit code: 0 converged or verified, 1 not, 2 for what a user can mend, 130 interrupted. An exception that
        leaves this function is a defect of the package.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A title that the terminal's encoding lacks must not end a run.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except PoissonError as error:
        for line in str(error).splitlines():
            _complain(f"error: {line}")
        return EXIT_ERROR
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        _complain(f'error: not enough memory{detail}; make domain.shape smaller or set run.precision = "float32"')
        return EXIT_ERROR
    except KeyboardInterrupt:
        _complain("interrupted")
        return EXIT_INTERRUPTED


def _dispatch(argv: list[str]) -> int:
    command = argv[0] if argv else "--help"
    if command in COMMANDS:
        if _asks_for_help(argv[1:]):
            _say(inspect.getdoc(COMMANDS[command]) or "")
            return EXIT_OK
        request = _bind(command, argv[1:])
        with _messages(quiet=getattr(request, "quiet", False)):
            return request.execute()
    if command in ("--help", "-h"):
        _say(HELP)
        return EXIT_OK
    if command == "--version":
        from poisson import __version__

        _say(f"poisson {__version__}")
        return EXIT_OK
    raise UsageError(_unknown_command(command))


def _bind(command: str, words: Sequence[str]) -> Request:
    """Let Fire call the command's function with its arguments as text, by name."""
    import fire

    # Fire would read 1e3 or [a] as Python; only what we wrote ourselves may be read.
    as_text, as_data = fire.decorators.SetParseFn(str), fire.decorators.SetParseFn(json.loads, "set", "quiet")
    table = {name: as_data(as_text(function)) for name, function in COMMANDS.items()}
    line = [command, *_arrange(command, words)]
    request: Request = fire.Fire(table, command=line, name="poisson", serialize=lambda _: None)
    return request


def _arrange(command: str, words: Sequence[str]) -> list[str]:
    """The words after a command in the one form that Fire cannot misread: ``--name=value``, each name once.

    Fire takes the word after a switch for its value, keeps the last of several options of a name, and matches shortened
    names; so the words are sorted out before, by the signature of the command's function.
    """
    options = _options(command)
    places = [p for p in inspect.signature(COMMANDS[command]).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    given: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    positional: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            positional.append(word)
            continue
        name, equals, value = word.partition("=")
        if name not in options:
            raise UsageError(_unknown_option(command, name, list(options)))
        if isinstance(options[name], bool):
            if equals:
                raise UsageError(f"{name} takes no value; write {name} alone or leave it out")
            given[name] = "true"
            continue
        if not equals:
            value = next(rest, "--")
            if value.startswith("--"):
                raise UsageError(f"{name} needs a value: {name}=VALUE; see 'python -m poisson {command} --help'")
        if isinstance(options[name], tuple):
            several.setdefault(name, []).append(value)
        elif name in given:
            raise UsageError(f"{name} is given twice; give it once")
        else:
            given[name] = value
    missing = [p.name.upper() for p in places[len(positional) :] if p.default is p.empty]
    if missing:
        raise UsageError(f"{command} needs {missing[0]}; see 'python -m poisson {command} --help'")
    if len(positional) > len(places):
        raise UsageError(f"{command} takes one {places[0].name.upper()}; {positional[len(places)]!r} is too much")
    given.update({f"--{p.name}": word for p, word in zip(places, positional, strict=False)})
    given.update({name: json.dumps(values) for name, values in several.items()})
    return [f"{name}={value}" for name, value in given.items()]


def _options(command: str) -> dict[str, object]:
    """The options of a command with their defaults: the keyword-only parameters of its function."""
    parameters = inspect.signature(COMMANDS[command]).parameters.values()
    return {f"--{p.name}": p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def _overrides(pairs: Sequence[str], *, output: str | None = None, backend: str | None = None) -> tuple[str, ...]:
    """The overrides for the case file; the options come last, so that they win."""
    for pair in pairs:
        key, equals, _ = pair.partition("=")
        if not (key.strip() and equals):
            raise UsageError(f"--set {pair}: KEY=VALUE is needed, for example --set solver.rtol=1e-6")
    named = (("output.file", output), ("run.backend", backend))
    return (*pairs, *(f"{key}={_toml_string(value)}" for key, value in named if value is not None))


def _toml_string(text: str) -> str:
    # A JSON string is a TOML string but for this one character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _grids(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) >= 2):
        raise UsageError(f"--refine {text}: a whole number of grids is needed, at least 2")
    return int(text)


def _asks_for_help(words: Sequence[str]) -> bool:
    return "--help" in words or "-h" in words


def _unknown_command(word: str) -> str:
    if word.startswith("-"):
        name = word.partition("=")[0]
        if any(name in _options(command) for command in COMMANDS):
            return f"{name} stands before the command; write the command first: python -m poisson COMMAND ... {name}"
        return _unknown_option("", name, ["--version"])
    if word.endswith(".toml"):
        return f"unknown command {word!r}; to solve that case: python -m poisson solve {word}"
    if word.endswith(".h5"):
        return f"unknown command {word!r}; to describe that result: python -m poisson info {word}"
    return f"unknown command {word!r}; {_nearest(word, list(COMMANDS))}"


def _unknown_option(command: str, name: str, options: Sequence[str]) -> str:
    where = f" for {command}" if command else ""
    return f"unknown option {name}{where}; {_nearest(name, [*options, '--help'])}"


def _nearest(word: str, names: Sequence[str]) -> str:
    """The name that was probably meant, or all there are. The dashes, which all options share, do not count."""
    bare = {name.lstrip("-"): name for name in names}
    found = difflib.get_close_matches(word.lstrip("-"), bare, n=1)
    return f"did you mean {bare[found[0]]}?" if found else _one_of(names)


def _one_of(names: Sequence[str]) -> str:
    return f"there is {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else f"there is only {names[0]}"


@contextlib.contextmanager
def _messages(*, quiet: bool) -> Iterator[None]:
    """Show the package's log on standard error while the block runs; only warnings and errors if `quiet`."""
    logger = logging.getLogger("poisson")
    handler = _Messages()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


class _Messages(logging.Handler):
    """Writes to what is standard error at the moment: the progress line puts its own in place while it stands."""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        # A message from a signal handler can meet a write that is under way; the stream then refuses it.
        with contextlib.suppress(RuntimeError):
            if record.levelno < logging.WARNING:
                _print(text, sys.stderr)
            else:
                _complain(f"{record.levelname.lower()}: {text}")


def _say(text: str) -> None:
    _print(text, sys.stdout)


def _complain(text: str) -> None:
    _print(f"poisson: {text}", sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        # The reader has gone, as `head` does: nobody waits for the rest, and the exit code stays what it is.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
