# SPDX-License-Identifier: MIT
"""Kernel source -> shared libraries for the CPU, kept under a digest of all that they depend on."""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from support.emulation.errors import CompilationError

HEADER = Path(__file__).with_name("emulation.h")
RUNTIME = Path(__file__).with_name("emulation.cpp")

CHOSEN = {
    **dict.fromkeys((f"RULE_{face}" for face in ("XL", "XU", "YL", "YU", "ZL", "ZU")), -1),
    **dict.fromkeys(("HALO_YL", "HALO_YU", "HALO_ZL", "HALO_ZU", "MARCH", "HARMONIC", "EVERYWHERE", "ADD"), -1),
    **dict.fromkeys(("AXIS", "KIND", "REVERSED", "DIVIDE", "SECOND_SUM"), -1),
    "SOURCE": 1,
    "KEPT": 1,
}
"""Macros whose values a launch gives, each of which would be a compilation more, where a source has numbers for them
only; and the values of those that are not given."""

_NO_NUMBER = r"^\s*#\s*(?:if|elif)\b.*\b{0}\b|\[(?:(?!\w\()[^\]\n])*\b{0}\b|<[^<>;\n]*\b{0}\b[^<>;\n]*>\s*\("
"""A condition of the preprocessor, the length of an array or the argument of a template with a macro. What calls a
function is no length but an index."""

RACES = "EMULATION_RACES"
"""An environment variable: where it is set, kernels are compiled for ThreadSanitizer, which must then be preloaded."""

_COMMON = ("-std=c++17", "-DPOISSON_EMULATION", f"-DEMULATION_CHOSEN={len(CHOSEN)}")
# No contraction: results are NumPy's, bit for bit, for the same order of operations. A frame fits the stack of a fiber.
# The handlers of -fsanitize are in the header, so no libubsan. Without weak symbols, the shared arrays of inline
# functions may lie in one section with those of kernels. To compile takes longer than to run, so nothing is optimised.
_COMPILE = (
    *("-O0", "-fPIC", "-fvisibility=hidden", "-fno-weak", "-fno-exceptions", "-ffp-contract=off"),
    *("-fsanitize=bounds,alignment", "-Wno-attributes", "-Werror=frame-larger-than=16384"),
)
_LINK = ("-shared", "-Wl,-Bsymbolic", "-nostdlib")  # the interpreter has the libraries of C
if os.environ.get(RACES):
    _COMPILE += ("-fsanitize=thread", "-g")
# Fortified longjmp forbids jumps between stacks.
_COMPILE_RUNTIME = (*_COMMON, "-O2", "-fPIC", "-fvisibility=hidden", "-U_FORTIFY_SOURCE", "-shared")
if os.environ.get(RACES):
    _COMPILE_RUNTIME += (f"-D{RACES}",)

# What the marks of emulation.h look like once preprocessed.
_BOUND = (
    r"__attribute__\s*\(\(\s*emulation_bounds\s*\("
    r"(?P<{name}>(?:(?!emulation_bounds).)*)"
    r"\)\s*,\s*emulation_bounds_end\s*\)\)"
)
_KERNEL = re.compile(
    r'(?P<mark>__attribute__\s*\(\(\s*emulation_kernel\s*,\s*visibility\s*\(\s*"default"\s*\)\s*\)\))\s*'
    rf"(?:{_BOUND.format(name='before')})?\s*\bvoid\s*(?:{_BOUND.format(name='after')})?\s*"
    r"(?P<kernel>[A-Za-z_]\w*)\s*\(",
    re.DOTALL,
)

# What Python calls for a kernel: its signature, its launch bound (0: none), and a launch with one slot an argument.
_ENTRY = """
extern "C" __attribute__((visibility("default"))) const char* emulation_signature_{name}() {{
    return emulation::Entry<{name}>::signature();
}}
extern "C" __attribute__((visibility("default"))) unsigned emulation_bound_{name}() {{ return {bound}; }}
extern "C" __attribute__((visibility("default"))) int emulation_launch_{name}(const emulation::Launch* geometry,
                                                                              const emulation::Slot* arguments) {{
    return emulation::launch(*geometry,
                             {{"{name}", emulation::Entry<{name}>::body, __start_emulation_shared,
                              __stop_emulation_shared}},
                             arguments);
}}
"""


@cache
def _compiler() -> tuple[str, str]:
    """Path and version of g++."""
    path = shutil.which("g++")
    if path is None:
        raise CompilationError("there is no g++; install one to run the kernels on the CPU")
    return path, subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout


def _run(arguments: list[str], text: str = "", folder: Path | None = None) -> str:
    outcome = subprocess.run(arguments, input=text, cwd=folder, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise CompilationError(outcome.stderr)
    return outcome.stdout


class Unit:
    """A kernel source with its macros. Its kernels are compiled as they are asked for.

    `source`: kernels: functions ``extern "C" __global__ void`` of pointers to numbers and of numbers. `defines`:
    options ``-DNAME=VALUE``; the values of `CHOSEN` are not looked at. `folder`: where libraries are kept; made if it
    does not exist. Processes may share it. Raises `CompilationError` with the preprocessor's text; lines are those of
    `source`.
    """

    def __init__(self, source: str, defines: tuple[str, ...], folder: Path) -> None:
        # By its name alone: what is kept serves a copy of the checkout in another folder, too.
        text = f'#include "{HEADER.name}"\n{_macros(source, defines)}#line 1 "kernels"\n{source}\n'
        self._folder = folder / _digest(text)
        self._shared = folder
        if not self._folder.exists():
            self._preprocess(text, folder)

    def _preprocess(self, text: str, folder: Path) -> None:
        """Keep the text under a digest of its own, and a link to it: many units differ in macros that are not used."""
        folder.mkdir(parents=True, exist_ok=True)
        compiler, _ = _compiler()
        preprocessed = _run([compiler, *_COMMON, "-E", "-x", "c++", "-"], text, HEADER.parent)
        there = folder / _digest(preprocessed)
        there.mkdir(exist_ok=True)
        with _replacing(there / "kernels.ii") as made:
            made.write_text(preprocessed)
        with contextlib.suppress(FileExistsError):  # another process was faster
            self._folder.symlink_to(there.name)

    def library(self, kernel: str) -> Path:
        """A library with a kernel, if the source has it.

        To compile all of them takes twice as long as one, so the first comes alone (but for its form with a norm), and
        the second with all the others. Raises `CompilationError` with the compiler's text; lines are those of the
        source.
        """
        path = self._folder / f"kernel_{kernel}.so"
        with (self._folder / "lock").open("w") as lock:
            # What threads or processes ask for at the same time is compiled once.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                self._compile(kernel, path)
        return path

    def _compile(self, kernel: str, library: Path) -> None:
        text = (self._folder / "kernels.ii").read_text()
        made = {path.stem for path in self._folder.glob("kernel_*.so")}
        of_all = {match["kernel"]: match for match in _KERNEL.finditer(text)}
        wanted = of_all if made else (kernel, f"{kernel}_norm")
        names = {name for name in of_all if name in wanted and f"kernel_{name}" not in made}
        # The compiler makes nothing of an inline function that no entry refers to.
        text = _KERNEL.sub(lambda match: match[0] if match["kernel"] in names else _without_mark(match), text)
        compiler, _ = _compiler()
        unit = [compiler, *_COMMON, *_COMPILE, "-fpreprocessed", "-x", "c++", "-", "-x", "none"]
        with _replacing(library) as made_now:
            options = (str(_runtime(self._shared)), *_LINK, "-o", str(made_now))
            _run([*unit, *options], text + "".join(_entry(of_all[name]) for name in names))
        for name in names - {kernel}:
            (self._folder / f"kernel_{name}.so").symlink_to(library.name)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A path to write to, whose file takes the place of another at the end: nobody sees half of it."""
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        made = Path(name) / path.name
        yield made
        os.replace(made, path)


def _digest(*parts: str) -> str:
    """The digest of the source, the header, the compiler and its options, and the entries."""
    return hashlib.sha256("\0".join((_shared_recipe(), *parts)).encode()).hexdigest()[:32]


@cache
def _shared_recipe() -> str:
    """The part that all sources share of what a library depends on."""
    _, version = _compiler()
    options = (*_COMMON, *_COMPILE, *_LINK, *_COMPILE_RUNTIME)
    return "\0".join((HEADER.read_text(), RUNTIME.read_text(), version, *options, _KERNEL.pattern, _ENTRY))


def _runtime(folder: Path) -> Path:
    """The run time that the libraries share: each is linked to it by its path."""
    there = folder.resolve() / f"{_digest()}.so"
    if not there.exists():
        compiler, _ = _compiler()
        with _replacing(there) as made:
            _run([compiler, *_COMPILE_RUNTIME, str(RUNTIME), "-o", str(made)])
    return there


def _macros(source: str, defines: tuple[str, ...]) -> str:
    """``-DNAME=VALUE`` as lines behind the header, whose own names they then leave alone."""
    values = dict(option.removeprefix("-D").partition("=")[::2] for option in defines)
    values = {**{name: str(CHOSEN[name]) for name in ("SOURCE", "KEPT")}, **values}
    # What a source does not ask for makes no other text of it, which the preprocessor would have to find out.
    values = {name: value for name, value in values.items() if _is_named(name, source)}
    for number, name in enumerate(CHOSEN):
        if name in values and _is_number(name, source):
            values[name] = f"emulation::view.chosen[{number}]"
    return "".join(f"#define {name} {value or 1}\n" for name, value in values.items())


@cache
def _is_named(name: str, source: str) -> bool:
    return re.search(rf"\b{name}\b", source) is not None


@cache
def _is_number(name: str, source: str) -> bool:
    return not re.search(_NO_NUMBER.format(name), source, re.MULTILINE)


def chosen(defines: tuple[str, ...]) -> tuple[int, ...]:
    """The values of `CHOSEN` in options."""
    given = dict(option.removeprefix("-D").split("=", 1) for option in defines if "=" in option)
    return tuple(int(given.get(name, value)) for name, value in CHOSEN.items())


def _without_mark(kernel: re.Match[str]) -> str:
    return "inline " + kernel[0].removeprefix(kernel["mark"])


def _entry(kernel: re.Match[str]) -> str:
    return _ENTRY.format(name=kernel["kernel"], bound=f"({kernel['before'] or kernel['after'] or 0})")
