# SPDX-License-Identifier: MIT
"""The completion of command lines, tried in bash itself, and the scripts of the other shells where these are."""

import shutil
import subprocess
from pathlib import Path

import pytest

from poisson.backends.registry import backend_names
from poisson.case import examples
from poisson.cli import COMMANDS, main, options_of
from poisson.cli.completion import commands, keys, script

FIRSTS = [*dict.fromkeys(name.split()[0] for name in COMMANDS), "help"]

TRY = """
{script}
while read -r line; do
    COMP_WORDS=($line)
    [[ $line == *' ' || $line == *'|' ]] && COMP_WORDS=(${{line%|}} '')
    COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
    _poisson 2>/dev/null
    printf '%s\\t' "${{COMPREPLY[@]}}"
    echo
done
"""


def completed(lines: dict[str, set[str]], folder: Path) -> dict[str, set[str]]:
    """What bash offers at the end of each line; a bar stands for a blank at the end, and a sign is a word."""
    text = "\n".join(lines) + "\n"
    done = subprocess.run(
        ["bash", "--norc", "-c", TRY.format(script=script("bash"))],
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=folder,
    )
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines) and done.stderr == ""
    return {line: set(filter(None, answer.split("\t"))) for line, answer in zip(lines, answers, strict=True)}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_options_names_and_files(tmp_path: Path) -> None:
    for name in ("a.toml", "b c.toml", "a.h5", "a.txt"):
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    cases = set(examples.cases())
    expected = {
        "poisson |": {*FIRSTS, "--help", "--version"},
        "poisson so": {"solve"},
        "poisson solve |": {"a.toml", "b c.toml", "sub"},
        "poisson solve b": {"b c.toml"},
        "poisson info |": {"a.h5", "sub"},
        "poisson solve --": {*options_of("solve"), "--help"},
        "poisson solve a.toml --over": {"--overwrite"},
        "poisson solve --backend |": set(backend_names()),
        "poisson solve --backend n": {"numpy"},
        "poisson solve --backend = n": {"numpy"},
        "poisson solve --backend =": set(backend_names()),
        "poisson solve --set solver.me": {"solver.method="},
        "poisson solve --set = solver.rt": {"solver.rtol="},
        "poisson solve --set solver.method = jac": {"jacobi"},
        "poisson solve --set = run.precision =": {"float64", "float32", "mixed"},
        "poisson solve --set |": {f"{key}=" for key in keys()},
        "poisson solve -o |": {"a.h5", "sub"},
        "poisson bench |": {name.split()[1] for name in COMMANDS if name.startswith("bench ")},
        "poisson bench la": {"laplacian"},
        "poisson bench laplacian --prof": {"--profile"},
        "poisson bench laplacian --backend g": {"gpu"},
        "poisson new x --from |": cases,
        "poisson new x --from ca": {"capacitor"},
        "poisson completion |": {"bash", "zsh", "fish"},
        "poisson help |": set(FIRSTS) - {"help"},
        "poisson nonsense |": set(),
    }
    assert completed(expected, tmp_path) == expected


def test_every_command_and_option_is_in_every_script(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        text = capsys.readouterr().out
        assert text == script(shell)
        for name in COMMANDS:
            for option in options_of(name):
                shown = f"-l {option[2:]} " if shell == "fish" else option
                assert shown in text, (shell, name, option)


def test_the_notes_of_options_are_those_of_the_help() -> None:
    for command in commands():
        for option in command.options:
            assert option.note, (command.name, option.name)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_in_the_grammar_of_its_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "script").write_text(script(shell), "utf-8")
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=300, capture_output=True)
