# SPDX-License-Identifier: MIT
"""How the package is put together: who imports whom, who knows a backend, what an import costs, how long files are.

Covers poisson.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module, metadata
from pathlib import Path

import pytest
from support.places import ROOT

import poisson
from poisson.backends import NAMES
from poisson.backends.openmp.library import DISTRIBUTION

RECIPE = ROOT / "scripts" / "conda" / "recipe.yaml"

PACKAGE = ROOT / "poisson"

LAYERS = (
    ("apart", "errors", "kernels", "plain", "words"),
    ("mesh",),
    ("problem",),
    ("discrete",),
    ("backends",),
    ("parallel", "solvers"),
    ("case",),
    ("output",),
    ("run",),
    ("mac",),
    ("perf",),
    ("cli",),
    ("__main__",),
)
"""A module imports only from layers above its own line, and from its own unit (a file or a folder of the package)."""

LAYER = {unit: height for height, units in enumerate(LAYERS) for unit in units}

MAX_LINES = 550

MAX_CHAIN = 18
"""Files, each of which imports the next one when it is imported itself."""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def unit_of(module: str) -> str:
    """The file or folder of the package that a module belongs to; empty for the package itself."""
    return module.partition(".")[2].partition(".")[0]


# ---- the direction of imports
def imported(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """The modules of the package that a source imports, with the lines, wherever they stand in it.

    A name that the package offers lazily counts as the module that it comes from.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "poisson")
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                folder = module.split(".") if SOURCES[module].name == "__init__.py" else module.split(".")[:-1]
                source = ".".join([*folder[: len(folder) - node.level + 1], *filter(None, [node.module])])
            if source == "poisson":
                yield from ((node.lineno, _place(alias.name)) for alias in node.names)
            elif source.startswith("poisson."):
                yield node.lineno, source
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "poisson":
            yield node.lineno, _place(node.attr)


def _place(name: str) -> str:
    """The module that ``poisson.name`` is, or comes from."""
    if f"poisson.{name}" in SOURCES:
        return f"poisson.{name}"
    return poisson._PLACES[name][0] if name in poisson._PLACES else "poisson"


def upward_imports(source: str, module: str) -> list[str]:
    """One line for each import of a module from a layer that does not lie below its own."""
    own = unit_of(module)
    found = []
    for line, target in sorted(set(imported(ast.parse(source), module))):
        other = unit_of(target)
        if other not in ("", own) and LAYER[other] >= LAYER[own]:
            found.append(f"{SOURCES[module].relative_to(ROOT)}:{line}: {own} imports {target}, which is not below it")
    return found


def test_every_unit_has_its_layer() -> None:
    assert {unit_of(module) for module in SOURCES} - {""} == set(LAYER)


def test_imports_run_downwards() -> None:
    for module, path in SOURCES.items():
        assert module == "poisson" or upward_imports(path.read_text("utf-8"), module) == []


PLANTED = [
    ("poisson.mesh.grid", "import os\nfrom poisson.run.run import solve", 2, "poisson.run.run"),
    ("poisson.mesh.grid", "def f():\n    def g():\n        import poisson.cli", 3, "poisson.cli"),
    ("poisson.output.xdmf", "from poisson import solve", 1, "poisson.run.run"),
    ("poisson.solvers.jacobi", "from poisson import load_case", 1, "poisson.case"),
    ("poisson.solvers.jacobi", "import poisson\n\npoisson.solve(1)", 3, "poisson.run.run"),
    ("poisson.mesh.boundary", "from ..problem import fields", 1, "poisson.problem"),
    ("poisson.backends.base", "from ..solvers.jacobi import jacobi", 1, "poisson.solvers.jacobi"),
    ("poisson.case", "from ..run.run import solve", 1, "poisson.run.run"),
    ("poisson.discrete.operator", "from poisson.case import Case", 1, "poisson.case"),
    ("poisson.errors", "if TYPE_CHECKING:\n    from poisson.mesh.grid import Grid", 2, "poisson.mesh.grid"),
]


@pytest.mark.parametrize(("module", "source", "line", "target"), PLANTED)
def test_an_upward_import_is_found_with_its_file_and_line(module: str, source: str, line: int, target: str) -> None:
    place = SOURCES[module].relative_to(ROOT)
    assert upward_imports(source, module) == [
        f"{place}:{line}: {unit_of(module)} imports {target}, which is not below it"
    ]


def needed(source: str, module: str) -> set[str]:
    """The files that one imports when it is imported itself: not for types alone, and not within functions."""

    class AtOnce(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        visit_Lambda = visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

        def visit_If(self, node: ast.If) -> ast.AST:
            typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            return ast.Module(node.orelse, []) if typing else self.generic_visit(node)

    found = set()
    for node in ast.walk(AtOnce().visit(ast.parse(source))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            files = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in SOURCES else node.module for name in files}
    return (found & set(SOURCES)) - {module, "poisson"}


def longest_chain(graph: dict[str, set[str]]) -> tuple[str, ...]:
    """The longest chain of files that import each other; a circle is refused by the sorter."""
    chains: dict[str, tuple[str, ...]] = {}
    for module in TopologicalSorter(graph).static_order():
        chains[module] = (module, *max((chains[other] for other in graph.get(module, ())), key=len, default=()))
    return max(chains.values(), key=len)


def test_files_import_each_other_in_short_chains_and_no_circle() -> None:
    chain = longest_chain({module: needed(path.read_text("utf-8"), module) for module, path in SOURCES.items()})
    assert len(chain) <= MAX_CHAIN, " -> ".join(chain)


def test_chains_and_circles_of_files_are_found() -> None:
    typing = "if TYPE_CHECKING:\n    from poisson.run import run\nelse:\n    import poisson.words\n"
    typing += "def f():\n    import poisson.cli"
    assert needed(f"{typing}\nfrom poisson.run.run import solve\nfrom poisson.mesh import grid", "poisson.errors") == {
        "poisson.words",
        "poisson.run.run",
        "poisson.mesh.grid",
    }
    assert longest_chain({"a": {"b", "d"}, "b": {"c"}, "c": {"d"}}) == ("a", "b", "c", "d")
    with pytest.raises(CycleError):
        longest_chain({"a": {"b"}, "b": {"c"}, "c": {"a"}})


def test_imports_that_run_downwards_are_not_found() -> None:
    source = "import poisson\nfrom poisson import __version__, grid\nfrom . import base\nfrom .. import grid\npoisson.x"
    assert upward_imports(source, "poisson.backends.numpy") == []


def test_the_package_itself_imports_nothing_before_it_is_asked() -> None:
    statements = ast.parse(SOURCES["poisson"].read_text("utf-8")).body
    at_once = [item for item in statements if isinstance(item, (ast.Import, ast.ImportFrom))]
    assert [name for item in at_once for _, name in imported(item, "poisson")] == []


# ---- who knows the backends

BACKEND_UNITS = {"backends", "run", "perf", "cli"}
"""The units that may name a backend."""

IMPLEMENTATION = re.compile("gpu|openmp|cupy", re.IGNORECASE)

NO_BACKENDS = "base|inverses|operations|processors|registry|probe|rows|stencils|transfers"


def backends_named(source: str, module: str) -> list[str]:
    """One line for each place in a source that knows a backend, its docstrings apart."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found = []
    for node in ast.walk(tree):
        words: list[str] = []
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            text = node.value
            words = [name for name in NAMES if (text == name if name == "numpy" else re.search(rf"\b{name}\b", text))]
        elif isinstance(node, ast.Name):
            words = IMPLEMENTATION.findall(node.id)
        elif isinstance(node, ast.Attribute):
            words = IMPLEMENTATION.findall(node.attr)
        elif isinstance(node, ast.Import):
            words = [word for alias in node.names for word in IMPLEMENTATION.findall(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            named = {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
            kinds = rf"poisson\.backends\.(?!({NO_BACKENDS})$)"
            words = [name for name in named & set(SOURCES) if re.match(kinds, name)]
            words += IMPLEMENTATION.findall(str(node.module))
        found += [f"{module}:{node.lineno}: {word}" for word in words]
    return found


def test_no_other_module_names_a_backend() -> None:
    for module, path in SOURCES.items():
        assert unit_of(module) in BACKEND_UNITS or backends_named(path.read_text("utf-8"), module) == []


@pytest.mark.parametrize(
    "source",
    [
        'if backend.name == "numpy": pass',
        'log.info("slow: use the gpu backend")',
        "import cupy",
        "from poisson.backends.numpy import NumpyBackend",
        "from poisson.backends import openmp",
        "isinstance(backend, base.GpuBackend)",
    ],
)
def test_a_module_that_names_a_backend_is_found(source: str) -> None:
    assert backends_named(source, "poisson.solvers.jacobi") != []
    assert backends_named(f'"""{source}"""'.replace('"numpy"', "numpy"), "poisson.solvers.jacobi") == []


def test_no_solver_asks_which_backend_it_has() -> None:
    for module in (module for module in SOURCES if unit_of(module) == "solvers"):
        tree = ast.parse(SOURCES[module].read_text("utf-8"))
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        asked = [node.lineno for node in attributes if node.attr == "device"]
        names = [node.lineno for node in attributes if node.attr == "name" and "backend" in ast.unparse(node.value)]
        assert (module, asked, names) == (module, [], [])


# ---- who knows the command line
def options_named(source: str) -> list[str]:
    """The options of the command line that the texts of a source name."""
    texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return [option for text in texts if isinstance(text, str) for option in re.findall(r"(?<!\S)--[a-z]+", text)]


def test_what_writes_files_names_no_option_of_the_command_line() -> None:
    assert options_named('raise OutputError("choose another place with --output")') == ["--output"]
    for module in (module for module in SOURCES if unit_of(module) == "output"):
        assert (module, options_named(SOURCES[module].read_text("utf-8"))) == (module, [])


# ---- what an import costs

NEWLY_LOADED = """
import json, sys
before = set(sys.modules)
{code}
print(json.dumps(sorted({{name.partition(".")[0] for name in set(sys.modules) - before}})))
"""


def packages_loaded_by(code: str, folder: Path) -> set[str]:
    """The packages outside the standard library that a program loads."""
    command = [sys.executable, "-c", NEWLY_LOADED.format(code=code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, cwd=folder)
    return set(json.loads(done.stdout.splitlines()[-1])) - set(sys.stdlib_module_names)


def test_importing_the_package_loads_nothing_else() -> None:
    assert packages_loaded_by("import poisson", ROOT) == {"poisson"}


def test_solving_loads_only_what_it_needs() -> None:
    code = (
        "import poisson\n"
        "settings = ['run.backend=numpy', 'solver.method=multigrid', 'domain.shape=[9, 9, 9]']\n"
        "case = poisson.load_case('cases/cube.toml', settings)\n"
        "assert poisson.solve(case).status is poisson.Status.CONVERGED"
    )
    assert packages_loaded_by(code, ROOT) == {"poisson", "numpy", "tomli_w"}


def test_a_command_loads_only_what_it_needs(tmp_path: Path) -> None:
    words = [
        "solve",
        "cases/cube.toml",
        "--backend=numpy",
        "--set=solver.method=multigrid",
        f"--output={tmp_path}/u.h5",
    ]
    loaded = packages_loaded_by(f"from poisson.cli import main\nassert main({words}) == 0", ROOT)
    own = {name for name in loaded if "cython" not in name}  # in which h5py is written
    # fire loads colorama where it is installed.
    assert own - {"colorama"} == {"poisson", "numpy", "tomli_w", "fire", "termcolor", "h5py"}


# ---- the tests

TESTS = {path: ast.parse(path.read_text("utf-8")) for path in sorted((ROOT / "tests").rglob("test_*.py"))}


def test_no_two_tests_have_one_name() -> None:
    """A name says what is tested; two tests of one name say the same thing, or one of them says too little."""
    names = [
        (node.name, str(path.relative_to(ROOT)))
        for path, tree in TESTS.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert len(names) > 500
    counts = Counter(name for name, _ in names)
    assert [(name, place) for name, place in names if counts[name] > 1] == []


def modules_covered(path: Path, tree: ast.Module) -> set[str]:
    """The modules that a file of tests is for: by its name or imports, in the folder of their room, or as it says."""
    room, name = path.relative_to(ROOT / "tests").parts[0], path.stem.removeprefix("test_")
    imported = {
        f"{node.module}.{alias.name}".removesuffix(".")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in (*node.names, ast.alias(""))
    }
    own = {
        module
        for module in SOURCES
        if (unit_of(module) == room and (module in imported or module.rpartition(".")[2] == name))
        or module == f"poisson.{name}"
    }
    said = re.search(r"^Covers ([^;]*)\.$", ast.get_docstring(tree) or "", re.MULTILINE | re.DOTALL)
    return own | set(re.split(r",\s+|\s+and\s+", said[1]) if said else [])


def test_every_module_has_a_file_of_tests_that_is_named_after_it_or_imports_it_or_says_so() -> None:
    """To say so: a last line of the docstring such as "Covers poisson.mesh.grid and poisson.mesh.axis."."""
    tested = set().union(*(modules_covered(path, tree) for path, tree in TESTS.items()))
    assert tested - set(SOURCES) == set()
    with_code = {
        module
        for module, path in SOURCES.items()
        if any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in ast.parse(path.read_text("utf-8")).body)
    }
    assert with_code - tested == set()


# ---- the project
def test_what_files_of_tests_import_comes_with_the_extra_of_tests() -> None:
    """README installs `.[test]` before it runs them: a package that is missing there ends the run at once."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    words = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    named = {re.split(r"[^\w.-]", word)[0].lower().replace("_", "-") for word in words}
    ours = {path.stem for part in ("tests", "scripts") for path in (ROOT / part).rglob("*.py")}
    ours |= {"poisson", "scripts", "support"}
    distributions = metadata.packages_distributions()
    missing = set()
    for path in (ROOT / "tests").rglob("*.py"):
        # What a function imports may skip its test where it is not there.
        body = ast.parse(path.read_text("utf-8")).body
        names = [alias.name for item in body if isinstance(item, ast.Import) for alias in item.names]
        names += [item.module or "" for item in body if isinstance(item, ast.ImportFrom)]
        for name in {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - ours:
            if named.isdisjoint(each.lower().replace("_", "-") for each in distributions.get(name, ())):
                missing.add(f"{path.relative_to(ROOT)} imports {name}")
    assert missing == set()


def test_no_file_is_longer_than_a_person_reads() -> None:
    suffixes = {".py", ".h", ".cpp", ".hip", ".txt"}
    files = [path for part in ("poisson", "native", "tests", "scripts") for path in (ROOT / part).rglob("*")]
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in files if path.suffix in suffixes}
    assert len(lengths) > 80
    assert {str(path.relative_to(ROOT)): count for path, count in lengths.items() if count > MAX_LINES} == {}


def test_every_source_names_its_licence_in_its_first_line() -> None:
    """Or in the second, if the first says what runs it."""
    suffixes = {".py", ".h", ".cpp", ".hip", ".sh"}
    files = [path for part in ("poisson", "native", "tests", "scripts") for path in (ROOT / part).rglob("*")]
    sources = [path for path in files if path.suffix in suffixes or path.name in ("CMakeLists.txt", "build_wheel")]
    assert len(sources) > 400
    for path in (*sources, ROOT / ".ci" / "run"):
        lines = path.read_text("utf-8").split("\n", 2)
        first = lines[1] if lines[0].startswith("#!") else lines[0]
        assert first in ("# SPDX-License-Identifier: MIT", "// SPDX-License-Identifier: MIT"), path


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == poisson.__version__
    assert f"\n## [{poisson.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\nversion: {poisson.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f'\n  version: "{poisson.__version__}"\n' in RECIPE.read_text("utf-8")


def test_packages_of_other_kinds_have_its_name_and_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    recipe = RECIPE.read_text("utf-8")
    assert project["name"] == DISTRIBUTION and f"\n  name: {DISTRIBUTION}\n" in recipe
    needed = re.findall(r"- (\S+) (>=\S+)", recipe[recipe.index("\n  run:\n") : recipe.index("\ntests:")])
    packages = [re.findall(r"^(.*)(>=.*)$", item)[0] for item in project["dependencies"]]
    assert needed == [("python", project["requires-python"]), *packages]


def test_the_command_that_an_installation_makes_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [place] = project["scripts"].values()
    module, _, name = place.partition(":")
    assert callable(getattr(import_module(module), name))


def test_every_public_name_exists() -> None:
    assert set(poisson.__all__) == set(poisson._PLACES)
    for name in poisson.__all__:
        assert getattr(poisson, name) is getattr(import_module(poisson._PLACES[name][0]), poisson._PLACES[name][1])
    with pytest.raises(AttributeError, match="'poisson' has no attribute 'no_such_name'"):
        _ = poisson.no_such_name


def test_every_file_of_tests_has_a_name_of_its_own() -> None:
    """Without packages, pytest imports only one of two files of one name, and another order of files finds it out."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
