# SPDX-License-Identifier: MIT
"""What the README and docs/ say holds: keys, defaults, options, attributes, examples, links."""

import importlib.util
import inspect
import pkgutil
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.mpi import mpirun
from support.places import ROOT

import poisson
from poisson import cli
from poisson.backends.gpu import overlap
from poisson.case import from_mapping, load
from poisson.case.kinds import ABSENT, Table
from poisson.case.schema import CASE
from poisson.case.tables import AXIS, BODY, FACE, IMAGE, INSIDE, PATCH
from poisson.cli import COMMANDS
from poisson.cli.terms import SharedInvocation
from poisson.output import hdf5, result
from poisson.parallel.distributed import FEWEST_OWNED, GATHERED_NODES
from poisson.parallel.division import FEWEST_NODES
from poisson.perf.usage import appraise
from poisson.run.run import go_on
from poisson.solvers.status import Status

DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TAUGHT = ("index", "tutorial", "how-to-")
"""The pages that begin so have their listings run elsewhere, in test_site.py."""
LISTED = [path for path in DOCUMENTS if not path.name.startswith(TAUGHT)]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS_PAGE = (ROOT / "docs" / "commands.md").read_text("utf-8")
PARALLEL = (ROOT / "docs" / "parallel.md").read_text("utf-8")
CASE_FILE = (ROOT / "docs" / "case-file.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# ---- case files
def defaults(table: Table, path: str = "") -> dict[str, Any]:
    """Every key of a table and of the tables in it, with its default."""
    found: dict[str, Any] = {}
    for name, key in table.keys.items():
        if isinstance(key.kind, Table) and key.default is not None:
            found |= defaults(key.kind, f"{path}{name}.")
        else:
            found[path + name] = key.default
    return found


def documented() -> dict[str, str]:
    """Every key in the tables of docs/case-file.md, with what stands in its column of defaults."""
    rows = re.findall(r"^\| (`.+?) \| .+? \| (.+?) \| .+ \|$", CASE_FILE, re.MULTILINE)
    return {key: default for keys, default in rows for key in re.findall(r"`(.+?)`", keys)}


def test_every_key_of_a_case_is_documented_with_its_default() -> None:
    keys: dict[str, Any] = {}
    for table in (CASE, BODY, INSIDE, FACE, PATCH, AXIS, IMAGE):
        keys |= defaults(table)
    assert "solver.rtol" in keys and "dataset" in keys
    shown = documented()
    assert set(shown) == set(keys)
    for key, default in keys.items():
        if shown[key].startswith("`"):
            assert tomllib.loads(f"value = {shown[key].strip('`')}")["value"] == default, key
        else:
            assert default in (None, ABSENT), key


@pytest.mark.parametrize("document", LISTED, ids=lambda path: path.name)
def test_every_case_in_a_document_is_right(document: Path) -> None:
    examples = blocks(document.read_text("utf-8"), "toml")
    for example in examples:
        from_mapping(tomllib.loads(example), name="example", folder=ROOT)
    assert len(examples) == {"README.md": 1, "case-file.md": 5}.get(document.name, 0)


def test_the_annotated_example_is_the_first_case() -> None:
    assert tomllib.loads(blocks(CASE_FILE, "toml")[0]) == tomllib.loads((ROOT / "cases/unit_square.toml").read_text())


# ---- commands
def test_the_readme_begins_with_the_two_lines() -> None:
    set_up = "python3 -m venv .venv && .venv/bin/pip install"
    assert [block.strip() for block in blocks(README, "")[:2]] == [
        f"{set_up} . && .venv/bin/python -m poisson solve cases/unit_square.toml",
        f"{set_up} '.[test]' && .venv/bin/python -m pytest -n 2",
    ]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 170


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_option_is_in_the_help_and_in_the_row_of_its_command(command: str) -> None:
    """The options that commands share stand in a table of their own, too."""
    help_text = inspect.getdoc(COMMANDS[command]) or ""
    assert f"`python -m poisson {command.split()[0]}" in README
    rows = "".join(re.findall(rf"^\| `{command}[ `].*$", COMMANDS_PAGE, re.MULTILINE))
    of_all = {"--backend", "--json", "--csv"} if command.startswith("bench ") else set()
    assert rows
    for option in cli.options_of(command):
        assert option in help_text
        assert re.search(rf"{option}\b", rows) or option in of_all, option
    assert set(re.findall(r"(?<=`)--[a-z-]+", rows)) <= {*cli.options_of(command), "--backend"}


def test_every_status_is_documented_with_its_exit_code() -> None:
    # No command ends with a checkpoint.
    for status in set(Status) - {Status.UNFINISHED}:
        assert f"| {status.exit_code} | `{status.value}` |" in COMMANDS_PAGE


# ---- examples in Python, those of a document run in order in one folder, as one program

LISTINGS = {path.name: blocks(path.read_text("utf-8"), "python") for path in LISTED if path.name != "parallel.md"}
LISTINGS = {name: texts for name, texts in LISTINGS.items() if texts}


@pytest.mark.parametrize("name", LISTINGS)
def test_the_examples_in_python_run(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cases").symlink_to(ROOT / "cases")
    monkeypatch.chdir(tmp_path)
    every = 'output.fields=["u", "f", "residual", "error", "gradient", "flux", "E"]'
    small = ["domain.shape=[9, 9]", 'run.backend="numpy"', every]
    hdf5.write("unit_square.h5", poisson.solve(load("cases/unit_square.toml", small)))
    names: dict[str, Any] = {}
    for text in LISTINGS[name]:
        if ".plot(" in text and importlib.util.find_spec("matplotlib") is None:
            continue  # nothing that follows needs a picture
        exec(compile(text, name, "exec"), names)


def test_the_documents_have_examples() -> None:
    assert set(LISTINGS) == {"README.md", "output.md", "python.md"} and len(LISTINGS["python.md"]) > 9
    assert len(blocks(PARALLEL, "python")) == 1


def test_the_example_of_several_processes_runs_on_two(tmp_path: Path) -> None:
    [text] = blocks(PARALLEL, "python")
    (tmp_path / "program.py").write_text(text.replace("(129, 129, 129)", "(9, 10, 33)"), "utf-8")
    done = mpirun(2, "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shapes = {line for line in done.stdout.splitlines() if line}
    assert shapes == {"(16, 10, 9) ((0, 16), (0, 10), (0, 9))", "(17, 10, 9) ((16, 33), (0, 10), (0, 9))"}
    assert (tmp_path / "cube.h5").is_file()


def test_the_commands_for_several_processes_are_understood() -> None:
    commands = re.findall(r"^(?:    |srun )(?:mpirun -n \d+ )?python -m poisson (.+)$", PARALLEL, re.MULTILINE)
    assert len(commands) == 4
    for words in (shlex.split(command) for command in commands):
        name = " ".join(words[:2]) if words[0] == "bench" else words[0]
        request = cli._bind(name, words[len(name.split()) :])
        assert isinstance(request, SharedInvocation)
        case = getattr(request, "case", None)
        assert case is None or (ROOT / case).is_file()


COMMAND = r"(?:[A-Z_]+=\S+ )*(?:mpirun -n \d+ |srun )?python -m poisson "
PLACEHOLDER = r"[A-Z]{4}|…|\.\.\.|\[(?![\d-])"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_in_a_document_are_understood(document: Path) -> None:
    text = document.read_text("utf-8")
    commands = re.findall(rf"^(?:    |\$ ){COMMAND}(\S+ .+)$", text, re.MULTILINE)
    commands += re.findall(rf"`{COMMAND}([^\s`]+ [^`]+)`", text.replace("\n", " "))
    for words in (shlex.split(command) for command in commands if not re.search(PLACEHOLDER, command)):
        name = " ".join(words[:2]) if words[0] == "bench" else words[0]
        assert cli._bind(name, words[len(name.split()) :]) is not None
    assert commands or document.name not in ("performance.md", "performance-ranks.md", "kernels.md", "parallel.md")


def test_the_job_script_is_right() -> None:
    [script] = blocks(PARALLEL, "bash")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", script, re.MULTILINE) == [
        ("job-name", "poisson"),
        ("nodes", "2"),
        ("ntasks-per-node", "4"),
        ("gpus-per-node", "4"),
        ("cpus-per-task", "8"),
        ("time", "00:30:00"),
        ("signal", "TERM@120"),
    ]


def test_the_limits_of_a_division_are_those_of_the_program() -> None:
    for number in (GATHERED_NODES, FEWEST_OWNED, FEWEST_NODES):
        assert re.search(rf"fewer than {number}\b", PARALLEL), number
    for name in ("parallel.md", "backends.md"):
        text = (ROOT / "docs" / name).read_text("utf-8").replace("\n", " ")
        assert overlap.FEWEST_NODES == 2**25 and re.search(r"of at least 2²⁵ (\(34 million\) )?nodes", text)


def test_every_object_and_attribute_of_a_result_is_documented(tmp_path: Path) -> None:
    import h5py

    text = (ROOT / "docs" / "output.md").read_text("utf-8")
    overrides = [
        *("domain.shape=[5, 4, 3]", 'run.backend="numpy"', "solver.max_iterations=1"),
        'output.fields=["u", "f", "residual", "error", "gradient", "flux", "E"]',
    ]
    solution = go_on(load(ROOT / "cases/cube.toml", overrides), None, appraise=appraise)
    assert solution.performance is not None
    path, *_ = result.save(tmp_path / "cube.h5", solution)
    names = []
    with h5py.File(path) as file:
        file.visit(names.append)
        for item in [file, *(file[name] for name in names)]:
            names += [f"{item.name}@{name}" for name in item.attrs if name.isidentifier() and name.islower()]
    assert len(names) > 50
    missing = [name for name in names if f"`{re.split('[@/]', name)[-1]}`" not in text.replace("`/", "`")]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_formula_is_an_expression(document: Path) -> None:
    """A text is what an attribute of a file or a message holds."""
    text = " ".join(document.read_text("utf-8").split())
    assert re.findall(r"\bnumbers?, (?:a )?texts?\b|\bnumber or (?:a )?text\b|\bno text uses\b", text) == []


# ---- links, paths and names

TRACKED = [path for part in ("poisson", "native", "tests", "scripts") for path in (ROOT / part).rglob("*.*")]
FILE_NAMES = {path.name for path in TRACKED}


def paths_named(text: str) -> set[str]:
    """Paths from the top of the repository, and names of source files, but for placeholders and what is built."""
    top = r"(?<![\w./*-])(?:poisson|native|tests|scripts|cases|docs|\.ci)/[\w/.*-]*[\w*]"
    alone = r"(?<![\w./*-])\w+\.(?:py|h|cpp|hip)\b"
    return {path for path in re.findall(f"{top}|{alone}", text) if not re.search(r"(?:\b|_)[A-Z]{4}|\.so$", path)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_in_a_document_exists(document: Path) -> None:
    assert paths_named("`poisson/a_b.py`, see tests/x_*.py and `gpu.py`; cases/NAME.toml, poisson/a.so") == {
        *("poisson/a_b.py", "tests/x_*.py", "gpu.py")
    }
    named = paths_named(document.read_text("utf-8"))
    assert [path for path in sorted(named) if path not in FILE_NAMES and not any(ROOT.glob(path))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_name_of_the_package_in_a_document_exists(document: Path) -> None:
    for name in re.findall(r"(?<![\w./-])poisson(?:\.[A-Za-z_]\w*)+(?![\w/])", document.read_text("utf-8")):
        if name not in FILE_NAMES:
            pkgutil.resolve_name(name)


def named_in_files(text: str) -> list[tuple[str, str]]:
    """Names that a document says are in some file of the package, each with that file."""
    name, place = r"`([A-Za-z_]\w*)`", r"`(poisson/[\w/]+\.py)`"
    return [*re.findall(rf"{name}(?: in| of)? {place}", text), *re.findall(rf"{name} \({place}", text)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_name_in_a_file_of_the_package_is_there(document: Path) -> None:
    assert named_in_files("a line in `Options` in `poisson/a.py`, an `Entry` (`poisson/b.py`)") == [
        ("Options", "poisson/a.py"),
        ("Entry", "poisson/b.py"),
    ]
    for name, place in named_in_files(document.read_text("utf-8").replace("\n", " ")):
        defined = rf"^\s*(?:class |def )?{name}\b *[:=(\[]"
        assert re.search(defined, (ROOT / place).read_text("utf-8"), re.MULTILINE), (name, place)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_pictures_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8")):
        if target.startswith("https://"):
            continue
        name, _, heading = target.partition("#")
        path = document.parent / name
        assert path.is_file(), target
        headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE) if heading else []
        slugs = {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
        assert not heading or heading in slugs, target
