# SPDX-License-Identifier: MIT
"""Completion of command lines in a shell, made from the table of commands."""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from poisson.backends.registry import backend_names
from poisson.case import examples
from poisson.cli.measuring import PRECISIONS
from poisson.cli.pictures import COLOUR_MAPS
from poisson.cli.starting import SHELLS

FILES = {"case": "*.toml", "file": "*.h5", "a": "*.h5", "b": "*.h5", "output": "*.h5", "csv": "*.csv"}
"""The files that a word may be, by the name of the parameter that takes it."""

FOLDER = "/"
"""In the place of a pattern of files: only folders."""


@dataclass(frozen=True)
class Word:
    """A word that may come next on a command line."""

    name: str  # An option with its dashes, or the name of an argument.
    note: str  # What it does.
    takes: bool  # Whether a value follows it; true of an argument.
    words: tuple[str, ...] = ()  # What the value may be, where that is known.
    files: str = ""  # The pattern of the files that it may be; empty where it is no file.
    goes_on: bool = False  # Whether more follows a word without a blank.


@dataclass(frozen=True)
class Command:
    """A command, by one word or two, with its arguments and options."""

    name: str
    note: str
    arguments: tuple[Word, ...]
    options: tuple[Word, ...]


def script(shell: str) -> str:
    """The script that makes one of `SHELLS` complete the words after ``poisson``."""
    made = dict(zip(SHELLS, (_bash, _zsh, _fish), strict=True))
    return made[shell](commands())


def commands() -> list[Command]:
    """Every command of the table, and the one for help."""
    from poisson.cli import COMMANDS, HELP_WORD, SHORT, options_of

    found = []
    for name, function in COMMANDS.items():
        text = inspect.getdoc(function) or ""
        notes = dict(re.findall(r"^  (--[a-z-]+)(?: \S+)?  +(?:\(or -\w\) )?(.+)$", text, re.MULTILINE))
        options = [
            _word(option, notes.get(option, ""), takes=not isinstance(default, bool))
            for option, default in options_of(name).items()
        ]
        for short, long in SHORT.items():
            options += [replace(option, name=short) for option in options if option.name == long]
        options.append(Word("--help", "more on the command", False))
        arguments = tuple(
            _word(parameter.name, "", takes=True)
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind is not parameter.KEYWORD_ONLY
        )
        found.append(Command(name, text.splitlines()[0].rstrip("."), arguments, tuple(options)))
    return [*found, Command(HELP_WORD, "More on a command", (Word("", "", True, tuple(_firsts(found))),), ())]


def _word(name: str, note: str, *, takes: bool) -> Word:
    bare = name.lstrip("-")
    words = {
        "backend": backend_names(),
        "precision": PRECISIONS,
        "from": tuple(examples.cases()),
        "shell": SHELLS,
        "cmap": COLOUR_MAPS,
        "set": tuple(f"{key}=" for key in keys()),
    }
    files = FILES.get(bare, FOLDER if bare == "folder" else "*" if bare in ("plot", "save", "log") else "")
    return Word(name, note, takes, words.get(bare, ()), files if takes else "", bare == "set")


def keys() -> dict[str, tuple[str, ...]]:
    """The keys of a case file, as ``--set`` takes them, with the words that may stand there."""
    schema = json.loads(examples.SCHEMA.read_text("utf-8"))
    return {key: tuple(map(str, part.get("enum", ()))) for key, part in _keys(schema, "")}


def _keys(table: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, part in table["properties"].items():
        if "properties" in part:
            yield from _keys(part, f"{path}{name}.")
        else:
            yield f"{path}{name}", part


def _firsts(found: Iterable[Command]) -> list[str]:
    """The first words of commands, each once."""
    return list(dict.fromkeys(command.name.partition(" ")[0] for command in found))


def _seconds(found: Iterable[Command]) -> dict[str, list[str]]:
    """The second words of commands that have two, by their first words."""
    pairs = [command.name.split() for command in found if " " in command.name]
    return {first: [second for other, second in pairs if other == first] for first, _ in pairs}


# ---- bash

_BASH = """\
# Completion of poisson in bash, as 'poisson completion bash' prints it.
_poisson_words() {
    COMPREPLY=($(compgen -W "$1" -- "$current"))
}

_poisson_folders() {
    local IFS=$'\\n'
    COMPREPLY=($(compgen -d -- "$current"))
    compopt -o filenames 2>/dev/null
}

_poisson_files() {
    # Files of a pattern, and the folders on the way to them.
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -X "!$1" -- "$current"; compgen -d -- "$current"))
    compopt -o filenames 2>/dev/null
}

_poisson() {
    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
    COMPREPLY=()
    # The sign in --option=value is a word of its own.
    if [[ $current == = ]]; then
        current=
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if ((COMP_CWORD == 1)); then
        _poisson_words "%(firsts)s --help --version"
        return
    fi
    case $command in
%(pairs)s    esac
    case $option in
%(keys)s    esac
    case "$command $option" in
%(values)s    esac
    case $command in
%(commands)s    esac
}

complete -F _poisson poisson
"""


def _bash(found: list[Command]) -> str:
    pairs = [
        f"        {first})\n"
        f"            if ((COMP_CWORD == 2)); then _poisson_words {_quoted(seconds)}; return; fi\n"
        '            command="$command ${COMP_WORDS[2]}" ;;\n'
        for first, seconds in _seconds(found).items()
    ]
    values, cases = [], []
    for command in found:
        values += [
            f"        '{command.name} {option.name}') {_bash_value(option)}; return ;;\n"
            for option in command.options
            if option.takes
        ]
        names = f"_poisson_words {_quoted(option.name for option in command.options)}"
        value = _bash_value(command.arguments[0]) if command.arguments else ":"
        cases.append(f"        '{command.name}') if [[ $current == -* ]]; then {names}; else {value}; fi ;;\n")
    known = [f"        {key}) _poisson_words {_quoted(words)}; return ;;\n" for key, words in keys().items() if words]
    parts = {"pairs": pairs, "keys": known, "values": values, "commands": cases}
    return _BASH % {"firsts": " ".join(_firsts(found)), **{name: "".join(lines) for name, lines in parts.items()}}


def _quoted(words: Iterable[str]) -> str:
    return f"'{' '.join(words)}'"


def _bash_value(word: Word) -> str:
    if word.words:
        more = "; compopt -o nospace 2>/dev/null" if word.goes_on else ""
        return f"_poisson_words {_quoted(word.words)}{more}"
    if word.files == FOLDER:
        return "_poisson_folders"
    return f"_poisson_files '{word.files}'" if word.files else ":"


# ---- zsh

_ZSH = """\
#compdef poisson
# Completion of poisson in zsh, as 'poisson completion zsh' prints it.
_poisson() {
    local -a commands
    if ((CURRENT == 2)); then
        commands=(
%(firsts)s        )
        _describe command commands
        return
    fi
    shift words
    ((CURRENT--))
    case $words[1] in
%(pairs)s    esac
    case $words[1] in
%(commands)s    esac
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _poisson "$@"; else compdef _poisson poisson; fi
"""


def _zsh(found: list[Command]) -> str:
    notes = {command.name.partition(" ")[0]: command.note for command in reversed(found)}
    seconds = _seconds(found)
    firsts = [
        f"            {_zsh_text(first, 'Measure' if first in seconds else notes[first])}\n" for first in _firsts(found)
    ]
    pairs = [
        f"        {first})\n"
        "            if ((CURRENT == 2)); then\n"
        f"                compadd -- {' '.join(words)}\n"
        "                return\n"
        "            fi\n"
        '            words[2]="$words[1] $words[2]"\n'
        "            shift words\n"
        "            ((CURRENT--)) ;;\n"
        for first, words in seconds.items()
    ]
    cases = []
    for command in found:
        specs = [
            _zsh_quoted(
                f"*{option.name}{'=' * (option.takes and option.name.startswith('--'))}[{_zsh_note(option.note)}]"
                + (f":{option.name.lstrip('-')}:{_zsh_value(option)}" if option.takes else "")
            )
            for option in command.options
        ]
        specs += [
            _zsh_quoted(f"{place}:{each.name}:{_zsh_value(each)}")
            for place, each in enumerate(command.arguments, start=1)
        ]
        cases.append(f"        '{command.name}') _arguments {' '.join(specs)} ;;\n")
    parts = {"firsts": firsts, "pairs": pairs, "commands": cases}
    return _ZSH % {name: "".join(lines) for name, lines in parts.items()}


def _zsh_text(name: str, note: str) -> str:
    return _zsh_quoted(f"{name}:{note}")


def _zsh_note(note: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", note)


def _zsh_quoted(text: str) -> str:
    apostrophe = "'\\''"
    return f"'{text.replace(chr(39), apostrophe)}'"


def _zsh_value(word: Word) -> str:
    if word.goes_on:
        return f'{{compadd -S "" -- {" ".join(word.words)}}}'
    if word.words:
        return f"({' '.join(word.words)})"
    if word.files == FOLDER:
        return "_files -/"
    return f'_files -g "{word.files}"' if word.files else " "


# ---- fish


def _fish(found: list[Command]) -> str:
    lines = [
        "# Completion of poisson in fish, as 'poisson completion fish' prints it.",
        "complete -c poisson -f",
        f"complete -c poisson -n __fish_use_subcommand -a {_quoted(_firsts(found))}",
    ]
    seconds = _seconds(found)
    for first, words in seconds.items():
        lines.append(
            f"complete -c poisson -n '__fish_seen_subcommand_from {first}; and "
            f"not __fish_seen_subcommand_from {' '.join(words)}' -a {_quoted(words)}"
        )
    for command in found:
        # A second word may be a command, too.
        first, _, second = command.name.partition(" ")
        apart = f"; and not __fish_seen_subcommand_from {' '.join(seconds)}" if seconds and not second else ""
        when = f"-n '{'; and '.join(f'__fish_seen_subcommand_from {word}' for word in command.name.split())}{apart}'"
        for option in command.options:
            dashed = f"-l {option.name[2:]}" if option.name.startswith("--") else f"-s {option.name[1:]}"
            value = f" -x{_fish_value(option)}" if option.takes else ""
            lines.append(f"complete -c poisson {when} {dashed}{value} -d {_fish_quoted(option.note)}")
        lines += [f"complete -c poisson {when}{_fish_value(each)}" for each in command.arguments if _fish_value(each)]
    return "\n".join(lines) + "\n"


def _fish_value(word: Word) -> str:
    if word.words:
        return f" -a {_quoted(word.words)}"
    if word.files == FOLDER:
        return " -a '(__fish_complete_directories)'"
    return f" -a '(__fish_complete_suffix {word.files.lstrip('*')})'" if word.files else ""


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
