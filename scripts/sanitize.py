# SPDX-License-Identifier: MIT
"""Run the code that is compiled under everything that looks over its shoulder.

    python scripts/sanitize.py [--only=addresses,threads,kernels,device] [--folder=DIR] [--tests="ARGUMENTS OF PYTEST"]

addresses  the OpenMP library under AddressSanitizer and UndefinedBehaviorSanitizer (g++)
threads    the OpenMP library under ThreadSanitizer, with clang and its OpenMP run time, of which Archer tells it
kernels    the GPU kernels on the emulated device under ThreadSanitizer (g++): a GPU thread is a thread to it
device     the GPU kernels on a GPU under NVIDIA's compute-sanitizer: memcheck, racecheck, synccheck

Those for threads first show on something small that they would notice. Without --only all run that can here, and what
is missing for the others is said. The exit code is 1 if anything was found. The tests are those of the operations and
of what calls them in threads; --tests takes others.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

OPERATIONS = [
    *(f"tests/backends/test_{name}.py" for name in ("agreement", "parts", "smooth", "blocked", "fast_transforms")),
    "tests/backends/test_groups.py",
    *("tests/backends/test_gpu_stencils.py", "tests/run/test_insulators.py"),
    *("tests/backends/test_derivative.py", "tests/backends/test_single_nodes.py"),
    *("tests/discrete/test_coefficients.py", "tests/solvers/test_fast_method.py"),
]
# In three dimensions one type is enough.
OF_LIBRARY = (
    "(openmp or every_count or any_shape or beyond or test_groups) and "
    "(not float32 or test_groups or float32-2 and (agreement or smooth))"
)
OF_THREADS = ["tests/run/test_threads.py", "tests/run/test_same_bits.py"]
OF_KERNELS = [*OPERATIONS[:2], "tests/backends/test_smooth_gpu.py", "tests/backends/test_blocked_gpu.py"]

KNOWN = {
    "poisson_color_sweep": "a pack is stored whole: nodes of the other color get the value that they have",
    "poisson_boundary_conditions": "on an axis of one node both faces are that node, and get the same value",
    "poisson_smooth": "without a stage u is changed in place, and what a lane beyond a face reads of it is not used",
}
"""Kernels in which two threads use one number of the device's memory without an order, and why that does no harm.

No race on memory that a block shares is known, and none is let pass.
"""

REPORT = re.compile(r"^WARNING: ThreadSanitizer: (.*?)^SUMMARY: ([^\n]*)", re.MULTILINE | re.DOTALL)

CONTROL = """
extern "C" long race(long n, int wrong) {
    long sum = 0;
    if (wrong) {
#pragma omp parallel num_threads(3)
        for (long i = 0; i < n; ++i) sum++;
    } else {
#pragma omp parallel num_threads(3)
        for (long i = 0; i < n; ++i) {
#pragma omp critical
            sum++;
#pragma omp barrier
#pragma omp single
            sum++;
        }
    }
    return sum;
}
"""
CALL_CONTROL = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).race(1000, int(sys.argv[2]))"
KERNEL_CONTROL = """
import sys, tempfile
from pathlib import Path
import numpy as np
from support.emulation import EmulatedRuntime
source = '''
extern "C" __global__ void k(const double* x, double* y) {
    __shared__ double part[128];
    part[threadIdx.x] = x[threadIdx.x];
    WAIT
    y[threadIdx.x] = part[127 - threadIdx.x];
}
'''
with tempfile.TemporaryDirectory() as folder:
    runtime = EmulatedRuntime(cache=Path(folder))
    x, y = (runtime.allocate(128, np.float64) for _ in range(2))
    runtime.upload(np.arange(128.0), x)
    wait = "" if int(sys.argv[1]) else "__syncthreads();"
    runtime.compile(source, (f"-DWAIT={wait}",)).get_function("k")((1,), (128,), (x, y))
"""


class Missing(Exception):
    """A program that a mode needs is missing; the message says what to install."""


def main(modes: Sequence[str], folder: Path, tests: Sequence[str], *, strict: bool) -> int:
    """Run modes one after the other; the exit code."""
    failed, missed = [], []
    for name in modes:
        print(f"== {name}", flush=True)
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        try:
            right = MODES[name](place, list(tests))
        except Missing as missing:
            print(f"not run; it needs {missing}")
            missed.append(name)
            continue
        if not right:
            failed.append(name)
    print(f"found something: {', '.join(failed)}" if failed else "nothing was found")
    return 1 if failed or (strict and missed) else 0


def addresses(folder: Path, tests: list[str]) -> bool:
    """The library in a build that ends the process at the first access out of bounds or undefined behaviour.

    What notices them must come into a process before all else, and writes to files, as what pytest captures ends with
    the process.
    """
    library = built(folder, {"POISSON_SANITIZE": "addresses"}, {})
    linked = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=True).stdout
    preloaded = [line.split()[2] for line in linked.splitlines() if re.search(r"asan|stdc\+\+", line)]
    if not any("asan" in path for path in preloaded):
        raise Missing("AddressSanitizer's library (libasan) for the compiler")
    log = f"log_path={folder / 'report'}"
    environment = {
        "POISSON_LIBRARY": str(library),
        "ASAN_OPTIONS": f"detect_leaks=0:{log}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{log}",
        "LD_PRELOAD": " ".join(preloaded),
    }
    require_library(environment)
    right = pytest(tests or [*parallel(), "-k", OF_LIBRARY, *OPERATIONS], environment)
    reports = sorted(folder.glob("report.*"))
    for path in reports:
        print(path.read_text(errors="replace"))
    return right and not reports


def threads(folder: Path, tests: list[str]) -> bool:
    """The library under ThreadSanitizer, which Archer tells what OpenMP orders."""
    compiler = newest_clang()
    if compiler is None:
        raise Missing("clang with its OpenMP run time; on Debian and Ubuntu: apt-get install clang libomp-dev")
    places = [said_by(compiler, "-print-resource-dir"), Path(said_by(compiler, "-print-file-name=libomp.so")).parent]
    found = {}
    for name in ("libclang_rt.tsan*.so", "libarcher.so"):
        paths = [path for place in places for path in sorted(Path(place).resolve().rglob(name))]
        if not paths:
            raise Missing(f"{name} of {compiler}, which its packages of compiler-rt and OpenMP have")
        found[name] = paths[0]
    preloaded, archer = found.values()
    environment = {
        **under_thread_sanitizer(folder, preloaded),
        "OMP_TOOL_LIBRARIES": str(archer),
        "LD_LIBRARY_PATH": os.pathsep.join([str(archer.parent), os.environ.get("LD_LIBRARY_PATH", "")]),
    }
    control = folder / "control.so"
    flags = ["-O1", "-g", "-fopenmp", "-fsanitize=thread", "-shared-libsan", "-fPIC", "-shared", "-x", "c++", "-"]
    subprocess.run([compiler, *flags, "-o", str(control)], input=CONTROL, text=True, check=True)
    require_control(folder, [sys.executable, "-c", CALL_CONTROL, str(control)], environment)
    library = built(folder, {"POISSON_SANITIZE": "threads", "POISSON_NATIVE": "OFF"}, {"CXX": compiler})
    environment["POISSON_LIBRARY"] = str(library)
    require_library(environment)
    right = pytest(tests or ["-k", OF_LIBRARY, *OPERATIONS], environment)
    if not tests:
        right = pytest(["-k", "openmp or different or threads", *OF_THREADS], environment) and right
    found_here = reports_of(folder)
    for text, _ in found_here:
        print(text)
    return right and not found_here


def kernels(folder: Path, tests: list[str]) -> bool:
    """The kernels on the emulated device: races on what a block shares, and on the memory of the device."""
    compiler = shutil.which("g++")
    preloaded = Path(said_by(compiler, "-print-file-name=libtsan.so")) if compiler else Path()
    if not preloaded.is_absolute():
        raise Missing("g++ with ThreadSanitizer; on Debian and Ubuntu: apt-get install g++")
    environment = {**under_thread_sanitizer(folder, preloaded.resolve()), "EMULATION_RACES": "1"}
    require_control(folder, [sys.executable, "-c", KERNEL_CONTROL], environment)
    right = pytest(tests or ["-k", "(emulated or gpu.py) and not float32", *OF_KERNELS], environment)
    unknown, known = [], Counter[str]()
    for text, summary in reports_of(folder):
        names = kernels_of(text, summary)
        shared = "Location is global" in text
        if names and names <= set(KNOWN) and not shared:
            known.update(names)
        else:
            unknown.append((names, text))
    for name, count in known.items():
        print(f"{count} reports of {name}, which are known: {KNOWN[name]}")
    for names, text in unknown:
        print(f"{', '.join(sorted(names)) or 'a kernel'}: {text}")
    return right and not unknown


def device(folder: Path, tests: list[str]) -> bool:
    """The kernels on a GPU, by the tools of compute-sanitizer.

    Not by initcheck: kernels read what lies behind the ends of rows, and use nothing of it. Memory of the emulated
    device is full of NaN, which shows what is used before it is set.
    """
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        raise Missing("compute-sanitizer, which comes with the CUDA toolkit, and an NVIDIA GPU")
    right = True
    for check in ("memcheck", "racecheck", "synccheck"):
        print(f"-- {check}", flush=True)
        command = [tool, f"--tool={check}", "--error-exitcode=1", "--target-processes=all", sys.executable, "-m"]
        more = tests or ["-m", "gpu", "-k", "gpu and not emulated", *OPERATIONS]
        right = run([*command, "pytest", "-q", "-p", "no:cacheprovider", *more], {}) == 0 and right
    return right


MODES: Mapping[str, Callable[[Path, list[str]], bool]] = {
    "addresses": addresses,
    "threads": threads,
    "kernels": kernels,
    "device": device,
}


def built(folder: Path, defines: Mapping[str, str], environment: Mapping[str, str]) -> Path:
    """The OpenMP library, built and installed in a folder."""
    options = [f"cmake.define.{name}={value}" for name, value in defines.items()]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--upgrade", "--target", str(folder / "installed"), "-C", f"build-dir={folder / 'build'}"]
    for option in options:
        command += ["-C", option]
    subprocess.run([*command, str(ROOT)], env=os.environ | environment, check=True)
    return folder / "installed" / "poisson" / "backends" / "openmp" / "libpoisson.so"


def require_library(environment: Mapping[str, str]) -> None:
    """Make sure that the library is loaded: its tests would be skipped."""
    works = "from poisson import backends; backends.create('openmp', 'float64')"
    if run([*still(), sys.executable, "-c", works], environment) != 0:
        raise SystemExit("the library that was built for this cannot be loaded")


def under_thread_sanitizer(folder: Path, preloaded: Path) -> dict[str, str]:
    """The environment of a process under ThreadSanitizer, which looks at what was compiled for it alone."""
    options = "ignore_noninstrumented_modules=1 halt_on_error=0 history_size=4 exitcode=0 die_after_fork=0"
    return {
        "LD_PRELOAD": str(preloaded),
        "TSAN_OPTIONS": f"{options} log_path={folder / 'report'}",
        # OpenBLAS has threads that are none of this.
        "OPENBLAS_NUM_THREADS": "1",
    }


def require_control(folder: Path, command: list[str], environment: Mapping[str, str]) -> None:
    """Make sure that a race is noticed, and that what is right is not taken for one."""
    for wrong in (0, 1):
        code = run([*still(), *command, str(wrong)], environment)
        reports = reports_of(folder)
        for path in folder.glob("report.*"):
            path.unlink()
        if code != 0 or bool(reports) != bool(wrong):
            raise Missing(
                f"a ThreadSanitizer that works: of a control {'with a' if wrong else 'without a'} race it "
                f"said {len(reports)} times that there is one (exit code {code})"
            )


def reports_of(folder: Path) -> list[tuple[str, str]]:
    """The reports of ThreadSanitizer in a folder: each report, and its last line."""
    texts = [path.read_text(errors="replace") for path in sorted(folder.glob("report.*"))]
    return [(found[0], found[2]) for text in texts for found in REPORT.finditer(text)]


def kernels_of(text: str, summary: str) -> set[str]:
    """The kernels that a report is about; its own names are not to be had of libraries that were loaded late."""
    named = set(re.findall(r"#\d+ (poisson_\w+)", text))
    library = re.search(r"\((/\S+\.so)\+0x", summary)
    if library:
        offsets = re.findall(rf"\({re.escape(Path(library[1]).name)}\+(0x[0-9a-f]+)\)", text)
        command = ["addr2line", "-f", "-i", "-C", "-e", library[1], *offsets]
        named |= set(
            re.findall(r"^(poisson_\w+)", subprocess.run(command, capture_output=True, text=True).stdout, re.M)
        )
    return named


def newest_clang() -> str | None:
    """A clang that has its OpenMP run time with it."""
    names = [f"clang++-{version}" for version in range(30, 13, -1)] + ["clang++"]
    for path in filter(None, map(shutil.which, names)):
        if Path(said_by(path, "-print-file-name=libomp.so")).is_absolute():
            return path
    return None


def said_by(compiler: str, option: str) -> str:
    """The answer of a compiler to an option."""
    return subprocess.run([compiler, option], capture_output=True, text=True, check=True).stdout.strip()


def pytest(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Run tests; whether they pass."""
    command = [*still(), sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return run(command, environment) == 0


def parallel() -> list[str]:
    """Options of pytest for the processors of this machine."""
    return ["-n", str(min(2, os.cpu_count() or 1))]


def still() -> list[str]:
    """The command that starts a process whose addresses are not random, as ThreadSanitizer needs on new kernels."""
    found = shutil.which("setarch")
    return [found, "-R"] if found else []


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command in the checkout; its exit code."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    everything = os.environ | {"PYTHONPATH": path} | environment
    return subprocess.run(command, cwd=ROOT, env=everything, check=False).returncode


if __name__ == "__main__":
    import fire

    def command(only: str = "", folder: str = "", tests: str = "") -> None:
        names = only if isinstance(only, (list, tuple)) else [name for name in only.split(",") if name]
        unknown = [name for name in names if name not in MODES]
        if unknown:
            raise SystemExit(f"--only={','.join(unknown)}: there is {', '.join(MODES)}")
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(folder or temporary).resolve()
            raise SystemExit(main(names or list(MODES), place, tests.split(), strict=bool(names)))

    command.__doc__ = __doc__
    fire.Fire(command)
