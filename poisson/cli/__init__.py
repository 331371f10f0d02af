# SPDX-License-Identifier: MIT
"""The command line: the table of commands, and how a line of words becomes a request.

Nothing is computed here. Fire calls a command's function with its arguments; that function only checks and collects
them in a request, which is carried out once the whole line is understood. The functions' signatures are the options,
their docstrings the help. Help is printed without Fire, which shows its own in a pager and takes longer to load than
all the rest that help needs.
"""

import difflib
import inspect
import json
import keyword
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from poisson.backends.registry import NAMES, backend_names
from poisson.cli.signals import ending
from poisson.cli.terms import (
    EXIT_ERROR,
    EXIT_OK,
    Invocation,
    SharedInvocation,
    UsageError,
    complain,
    messages,
    say,
    search_for_garbage,
    streams,
)
from poisson.errors import PoissonError
from poisson.parallel.communicator import Communicator, Serial
from poisson.parallel.failures import code_of
from poisson.parallel.launched import launch
from poisson.words import quantity

__all__ = ["COMMANDS", "GROUPS", "Invocation", "UsageError", "help_text", "main"]

GROUPS = {
    "Begin": {"new NAME": "starting:new", "schema": "starting:schema", "completion SHELL": "starting:completion"},
    "Solve": {
        "check CASE": "checking:check",
        "solve CASE": "solving:solve",
        "effective CASE": "averaging:effective",
        "capacitance CASE": "capacitances:capacitance",
        "sweep CASE": "sweeping:sweep",
        "verify CASE": "solving:verify",
    },
    "Look": {
        "info [FILE]": "solving:info",
        "compare A B": "comparing:compare",
        "plot FILE": "pictures:plot",
        "report FILE": "pictures:report",
    },
    "Measure": {
        "tune [CASE]": "measuring:tune",
        "roofline": "measuring:roofline",
        "bench laplacian": "measuring:bench_laplacian",
        "bench derivative": "measuring:bench_derivative",
        "bench jacobi": "measuring:bench_jacobi",
        "bench operations": "measuring:bench_operations",
        "bench solve": "measuring:bench_solve",
        "bench call": "calling:bench_call",
        "bench command": "calling:bench_command",
        "bench scaling": "scaling:bench_scaling",
    },
}
"""The commands as the help lists them: one or two words in small letters, then what they take, and where in this
package their functions are.

The first line of a function's docstring is what the help says of the command."""


class _Commands(Mapping[str, Callable[..., Invocation | SharedInvocation]]):
    """The functions of the commands, by the one or two words that call them; each is loaded when it is asked for."""

    def __init__(self) -> None:
        places = [item for group in GROUPS.values() for item in group.items()]
        self._places = {" ".join(filter(str.islower, usage.split())): place for usage, place in places}

    def __getitem__(self, name: str) -> Callable[..., Invocation | SharedInvocation]:
        module, _, function = self._places[name].partition(":")
        found: Callable[..., Invocation | SharedInvocation]
        found = getattr(import_module(f"poisson.cli.{module}"), function)
        for place, (names, last) in _NAMED.items():
            listed = f"{', '.join(names[:-1])} {last} {names[-1]}"
            found.__doc__ = (found.__doc__ or "").replace(place, listed)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


_NAMED = {"{backends}": (backend_names(), "or"), "{every backend}": (NAMES, "and")}
"""The places in the help for the names of the backends."""

COMMANDS = _Commands()

HELP_WORD = "help"

SHORT = {"-q": "--quiet", "-o": "--output"}
"""Short forms of options, for the commands that have these."""


def help_text() -> str:
    """The help on the whole: each command with the first line of its own help."""
    width = max(len(usage) for group in GROUPS.values() for usage in group)
    lines, functions = [], iter(COMMANDS.values())
    for title, group in GROUPS.items():
        lines += ["", f"{title}:"]
        for usage, function in zip(group, functions, strict=False):
            first = (inspect.getdoc(function) or "").splitlines()[0].rstrip(".")
            lines.append(f"  {usage:<{width}}  {first[0].lower()}{first[1:]}")
    return _HELP.replace("{listed}", "\n".join(lines))


_HELP = f"""poisson: finite-difference solution of Poisson problems in 1D, 2D and 3D

    -div(a grad u) + c u = f,  a > 0,  c >= 0

on boxes, cylinders, discs and balls, with bodies inside and faces open to empty space

Usage: python -m poisson COMMAND ...
{{listed}}

Help:
  COMMAND --help    more on a command; the same as {HELP_WORD} COMMAND
  --version, -V     the version

Examples:
  python -m poisson check cases/unit_square.toml
  python -m poisson solve cases/unit_square.toml
  python -m poisson solve cases/unit_square.toml --set domain.shape=[513,513] --backend openmp
  python -m poisson info unit_square.h5

Exit codes:
  0    converged; verified; the case can run
  1    not converged (the result is still written, marked as not converged); a comparison fails
  2    bad input, or a file that cannot be read or written
  130  interrupted by Ctrl-C (solve still writes the last complete iterate; a second one aborts)
  143  ended by SIGTERM, which batch systems send; 129 by SIGHUP

Messages and progress go to standard error, results to standard output."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line.

    `argv`: the arguments after the program's name; those of the process by default. Returns: the exit code: 0 converged
    or verified, 1 not, 2 for what a user can mend, 130 interrupted, 143 and 129 by SIGTERM and SIGHUP. An exception
    that leaves this function is a defect of the package.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    with streams():
        launched = launch()
        if launched is None:
            with ending():
                return _main(words)
        from poisson.cli.ranks import carry_out

        return carry_out(launched, partial(_dispatch, words))


def _main(argv: list[str]) -> int:
    try:
        return _dispatch(argv, Serial())
    except PoissonError as error:
        for line in str(error).splitlines():
            complain(f"error: {line}")
        return EXIT_ERROR
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        complain(f"error: not enough memory{detail}; use fewer nodes (domain.shape)")
        return EXIT_ERROR
    except KeyboardInterrupt as interrupt:
        complain(str(interrupt) or "interrupted")
        return code_of(interrupt)


def _dispatch(argv: list[str], communicator: Communicator) -> int:
    if argv[:1] == [HELP_WORD]:
        argv = [*(word for word in argv if word != HELP_WORD), "--help"]
    words = 2 if " ".join(argv[:2]) in COMMANDS else 1
    command, rest = " ".join(argv[:words]) or "--help", argv[words:]
    if command in COMMANDS:
        if _asks_for_help(rest):
            say(inspect.getdoc(COMMANDS[command]) or "")
            return EXIT_OK
        request = _bind(command, rest)
        if command not in ("solve", "info"):
            search_for_garbage()
        with messages(quiet=getattr(request, "quiet", False)):
            if not isinstance(request, SharedInvocation):
                if communicator.size > 1:
                    raise UsageError(f"{command} runs in one process; start {command} without mpirun")
                return request.execute()
            if request.ranks in (None, communicator.size):
                return request.execute(communicator)
            if communicator.size > 1:
                raise UsageError(
                    f"--ranks {request.ranks}: started with {quantity(communicator.size, 'process')} already; "
                    "leave --ranks out"
                )
            from poisson.cli.launcher import start

            return start(argv, request.ranks)
    if command in ("--help", "-h"):
        say(help_text())
        return EXIT_OK
    if _second_words(command) and _asks_for_help(rest[:1]):
        say("\n".join(f"python -m poisson {command} {word} --help" for word in _second_words(command)))
        return EXIT_OK
    if command in ("--version", "-V"):
        from poisson import __version__

        say(f"poisson {__version__}")
        return EXIT_OK
    raise UsageError(_unknown_command(command, rest))


class _Asyncio(ModuleType):
    """Fire loads asyncio, which takes long, for nothing but this one question."""

    iscoroutinefunction = staticmethod(inspect.iscoroutinefunction)

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("asyncio"), name)


def _bind(command: str, words: Sequence[str]) -> Invocation | SharedInvocation:
    """Let Fire call the command's function with the words after the command."""
    if "asyncio" not in sys.modules:
        sys.modules["asyncio"] = _Asyncio("asyncio")
    try:
        import fire
    finally:
        if isinstance(sys.modules["asyncio"], _Asyncio):
            del sys.modules["asyncio"]

    function = COMMANDS[command]
    # An argument is the text that was typed: Fire would read 1e3 or [a] as Python. Switches it may read itself.
    fire.decorators.SetParseFn(str)(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.default, bool):
            fire.decorators.SetParseFn(fire.parser.DefaultParseValue, name)(function)
        elif isinstance(parameter.default, tuple):
            fire.decorators.SetParseFn(json.loads, name)(function)
    line = _unmistakable(command, words)
    request: Invocation | SharedInvocation = fire.Fire(function, command=line, name="poisson", serialize=lambda _: None)
    return request


def _unmistakable(command: str, words: Sequence[str]) -> list[str]:
    """The words after a command as Fire can only take them for what they are; what nobody can mean is refused.

    What Fire does with them as they were typed: a word after a switch is its value (``--quiet CASE``), and an option
    without one gets the text "True"; of several ``--set`` only the last counts, which is passed on here as one list;
    any option may be shortened or negated (``-b``, ``--noquiet``), where only those of `SHORT` are meant to be, and a
    switch takes any value (``--quiet=no``); a value that begins with a dash is an option; a word too much is looked up
    in what the function has returned (``solve a case`` prints the case). Mistakes it answers with a screen of usage,
    where one line names the cause and the fix.
    """
    options = options_of(command)
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
        name = SHORT.get(name, name) if SHORT.get(name) in options else name
        if name not in options:
            raise UsageError(_unknown_option(command, name, list(options)))
        if isinstance(options[name], bool):
            if equals:
                raise UsageError(f"{name} takes no value; write {name} alone")
            given[name] = name
            continue
        if not equals:
            value = next(rest, "--")
            if value.startswith("--") or value in SHORT:
                raise UsageError(f"{name} needs a value: {name}=VALUE; see 'python -m poisson {command} --help'")
        if isinstance(options[name], tuple):
            several.setdefault(name, []).append(value)
        elif name in given:
            raise UsageError(f"{name} is given twice; give it once")
        else:
            # A parameter cannot have the name of a word of Python.
            given[name] = f"{name}{'_' * keyword.iskeyword(name.lstrip('-'))}={value}"
    missing = [p.name.upper() for p in places[len(positional) :] if p.default is p.empty]
    if missing:
        raise UsageError(f"{command} needs {missing[0]}; see 'python -m poisson {command} --help'")
    if len(positional) > len(places):
        takes = "options only, as --NAME=VALUE" if options_of(command) else "no arguments"
        if places:
            takes = f"one {places[0].name.upper()}" if len(places) == 1 else _and([p.name.upper() for p in places])
        raise UsageError(f"unexpected argument {positional[len(places)]!r}; {command} takes {takes}")
    lists = (f"{name}={json.dumps(values)}" for name, values in several.items())
    return [*positional, *given.values(), *lists]


def options_of(command: str) -> dict[str, object]:
    """The options of a command with their defaults: the keyword-only parameters of its function."""
    parameters = inspect.signature(COMMANDS[command]).parameters.values()
    return {f"--{p.name.strip('_').replace('_', '-')}": p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def _asks_for_help(words: Sequence[str]) -> bool:
    return "--help" in words or "-h" in words


def _second_words(word: str) -> list[str]:
    """The second words of commands that have two."""
    return [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{word} ")]


def _unknown_command(word: str, rest: Sequence[str]) -> str:
    if second := _second_words(word):
        if rest and not rest[0].startswith("-"):
            return f"unknown command '{word} {rest[0]}'; {_nearest(rest[0], second)}"
        return (
            f"{word} needs the name of a measurement, such as python -m poisson {word} {second[0]}; {_one_of(second)}"
        )
    if word.startswith("-"):
        name = word.partition("=")[0]
        if any(SHORT.get(name, name) in options_of(command) for command in COMMANDS):
            return f"{name} before the command; write the command first: python -m poisson COMMAND ... {name}"
        return _unknown_option("", name, ["--version"])
    if word.endswith(".toml"):
        return f"unknown command {word!r}; to solve that case: python -m poisson solve {word}"
    if word.endswith(".h5"):
        return f"unknown command {word!r}; to describe that result: python -m poisson info {word}"
    return f"unknown command {word!r}; {_nearest(word, [*COMMANDS, HELP_WORD])}"


def _unknown_option(command: str, name: str, options: Sequence[str]) -> str:
    where = f" for {command}" if command else ""
    return f"unknown option {name}{where}; {_nearest(name, [*options, '--help'])}"


def _nearest(word: str, names: Sequence[str]) -> str:
    """The name that was probably meant, or all there are. The dashes, which all options share, do not count."""
    bare = {name.lstrip("-"): name for name in names}
    found = difflib.get_close_matches(word.lstrip("-"), bare, n=1)
    return f"did you mean {bare[found[0]]}?" if found else _one_of(names)


def _one_of(names: Sequence[str]) -> str:
    return f"choose from {_and(names)}" if len(names) > 1 else f"the only one is {names[0]}"


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
