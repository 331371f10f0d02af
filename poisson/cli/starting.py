# SPDX-License-Identifier: MIT
"""The commands to begin with: `new`, `schema`, `completion`."""

import difflib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from poisson.cli.terms import EXIT_OK, UsageError, say
from poisson.errors import OutputError

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True)
class New:
    name: str
    original: str | None

    def execute(self) -> int:
        from poisson.case import examples
        from poisson.output.files import EXISTS, drafted

        path = Path(self.name if self.name.endswith(".toml") else f"{self.name}.toml")
        text = (
            examples.template(path.stem) if self.original is None else examples.copy(_known(self.original), path.stem)
        )
        source = path.with_name(examples.SOURCE)
        wanted = [path, source] if examples.reads_source(text) else [path]
        for each in wanted:
            if os.path.lexists(each):
                raise OutputError(f"{each}: ", *EXISTS)
        with drafted(path) as case:
            case.temporary.write_text(text, "utf-8")
            if source in wanted:
                with drafted(source) as data:
                    examples.write_source(data.temporary)
                    data.add()
            case.add()
        beside = f", with {source}, which the case reads" if source in wanted else ""
        say(f"{path} written{beside}; to solve the case: python -m poisson solve {shlex.quote(str(path))}")
        return EXIT_OK


@dataclass(frozen=True)
class ListCases:
    def execute(self) -> int:
        import tomllib

        from poisson.case import examples
        from poisson.cli.terminal import table

        titles = {name: tomllib.loads(path.read_text("utf-8"))["title"] for name, path in examples.cases().items()}
        say(table(("case", "title"), list(titles.items())))
        return EXIT_OK


@dataclass(frozen=True)
class Schema:
    def execute(self) -> int:
        from poisson.case import json_schema

        say(json_schema.text().rstrip("\n"))
        return EXIT_OK


@dataclass(frozen=True)
class Completion:
    shell: str

    def execute(self) -> int:
        from poisson.cli.completion import script

        say(script(self.shell).rstrip("\n"))
        return EXIT_OK


def _known(name: str) -> str:
    from poisson.case import examples

    known = list(examples.cases())
    if name in known:
        return name
    near = difflib.get_close_matches(name.removesuffix(".toml").rpartition("/")[2], known, n=1)
    raise UsageError(f"--from {name}: " + (f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}"))


def new(name: str | None = None, *, from_: str | None = None, list: bool = False) -> New | ListCases:
    """Write a commented case file to start from, or a copy of a case of the package.

    Usage: python -m poisson new NAME [--from CASE]
           python -m poisson new --list

      NAME         the case file to write, NAME.toml; an existing file is never overwritten
      --from CASE  copy this case of the package, with the field file that it reads
      --list       list the cases of the package instead

    The first line of what is written names the JSON schema of case files, by which editors that know TOML (taplo, Even
    Better TOML) complete keys and check values.

    Examples:
      python -m poisson new first
      python -m poisson new plates --from capacitor

    Exit codes: 0 written, 2 bad input, or the file already exists."""
    if list and (name is not None or from_ is not None):
        raise UsageError("--list takes no other arguments: python -m poisson new --list")
    if list:
        return ListCases()
    if name is None:
        raise UsageError("new needs NAME, such as python -m poisson new first; see 'python -m poisson new --help'")
    if Path(name).name in ("", ".", "..") or Path(name).name == ".toml" or name.endswith("/"):
        raise UsageError(f"new {name}: not a valid file name")
    if not Path(name).name.isprintable():
        raise UsageError(f"new {name}: a file name with characters that cannot be printed; choose another name")
    return New(name, from_)


def schema() -> Schema:
    """Print the JSON schema of case files, for editors.

    Usage: python -m poisson schema

    Editors that know TOML find it by a comment in the first line of a case file, as 'new' writes it:
    #:schema PATH-OR-URL. What depends on several keys at once is left to 'solve'.

    Examples:
      python -m poisson schema > case.schema.json

    Exit codes: 0 printed."""
    return Schema()


def completion(shell: str) -> Completion:
    """Print the completion script of the command poisson for a shell.

    Usage: python -m poisson completion SHELL

      SHELL  bash, zsh or fish

    The script completes commands, options, the names of backends and cases, and case and result files.

    Examples:
      python -m poisson completion bash >> ~/.bashrc
      python -m poisson completion zsh > ~/.zfunc/_poisson
      python -m poisson completion fish > ~/.config/fish/completions/poisson.fish

    Exit codes: 0 printed, 2 bad input."""
    if shell not in SHELLS:
        raise UsageError(f"completion {shell}; allowed: {', '.join(SHELLS)}")
    return Completion(shell)
