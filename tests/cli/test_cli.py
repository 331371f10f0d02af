# SPDX-License-Identifier: MIT
"""The command line: what is refused, what is carried out, and what the user sees.

Covers poisson.cli.solving.
"""

import gc
import inspect
import json
import logging
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fire
import h5py
import numpy as np
import pytest
from support.results import make_solution

import poisson.case
import poisson.run.run
import poisson.run.verify
from poisson import cli
from poisson.backends import NAMES, BackendInfo
from poisson.cli import UsageError, main
from poisson.cli.measuring import Measurement
from poisson.cli.solving import Info, Solve, Verify
from poisson.cli.summary import Ended
from poisson.cli.terminal import installation
from poisson.cli.terms import as_json
from poisson.errors import CaseError, OutputError
from poisson.output.table import Column
from poisson.parallel.communicator import Communicator
from poisson.run.solution import Solution
from poisson.run.verify import Verification
from poisson.solvers.settings import RunSettings, SolverSettings
from poisson.solvers.status import Status

PYTHON = [sys.executable, "-m", "poisson"]
THERE_IS = f"choose from {', '.join(cli.COMMANDS)} and help"
BENCHES = [name.removeprefix("bench ") for name in cli.COMMANDS if name.startswith("bench ")]
OF_SOLVE = "--set, --output, --overwrite, --backend, --ranks, --profile, --log, --json, --quiet, --resume and --help"
OF_VERIFY = "--refine, --set, --backend, --ranks, --json, --quiet and --help"
SEE_SOLVE = "see 'python -m poisson solve --help'"
REFUSED = [
    ("slove a.toml", "unknown command 'slove'; did you mean solve?"),
    ("cook", f"unknown command 'cook'; {THERE_IS}"),
    (
        "bench",
        "bench needs the name of a measurement, such as python -m poisson bench laplacian; "
        f"choose from {', '.join(BENCHES[:-1])} and {BENCHES[-1]}",
    ),
    ("bench lapacian", "unknown command 'bench lapacian'; did you mean laplacian?"),
    ("bench laplacian 512", "unexpected argument '512'; bench laplacian takes options only, as --NAME=VALUE"),
    ("bench laplacian --size=8", "unknown option --size for bench laplacian; did you mean --sizes?"),
    ("a.toml", "unknown command 'a.toml'; to solve that case: python -m poisson solve a.toml"),
    ("a.h5", "unknown command 'a.h5'; to describe that result: python -m poisson info a.h5"),
    ("--verison", "unknown option --verison; did you mean --version?"),
    ("--set a=1 solve", "--set before the command; write the command first: python -m poisson COMMAND ... --set"),
    ("solve", f"solve needs CASE; {SEE_SOLVE}"),
    ("solve --quiet", f"solve needs CASE; {SEE_SOLVE}"),
    ("solve a b", "unexpected argument 'b'; solve takes one CASE"),
    ("solve a case", "unexpected argument 'case'; solve takes one CASE"),
    ("info a b", "unexpected argument 'b'; info takes one FILE"),
    ("solve a --qiuet", "unknown option --qiuet for solve; did you mean --quiet?"),
    ("solve a --noquiet", "unknown option --noquiet for solve; did you mean --quiet?"),
    ("solve a --out=b", "unknown option --out for solve; did you mean --output?"),
    ("solve a -b", f"unknown option -b for solve; choose from {OF_SOLVE}"),
    ("solve a -- --trace", f"unknown option -- for solve; choose from {OF_SOLVE}"),
    ("solve -", f"unknown option - for solve; choose from {OF_SOLVE}"),
    ("solve a --tolerance=4", f"unknown option --tolerance for solve; choose from {OF_SOLVE}"),
    ("verify a --output=b", f"unknown option --output for verify; choose from {OF_VERIFY}"),
    ("info --quiet", "unknown option --quiet for info; choose from --ranks, --json and --help"),
    ("info -q", "unknown option -q for info; choose from --ranks, --json and --help"),
    ("solve a -q=no", "--quiet takes no value; write --quiet alone"),
    ("solve a -o -q", f"--output needs a value: --output=VALUE; {SEE_SOLVE}"),
    ("solve a -o b --output=c", "--output is given twice; give it once"),
    ("-q solve", "-q before the command; write the command first: python -m poisson COMMAND ... -q"),
    ("help slove", "unknown command 'slove'; did you mean solve?"),
    ("hepl", "unknown command 'hepl'; did you mean help?"),
    ("solve a --quiet=no", "--quiet takes no value; write --quiet alone"),
    ("solve a --output", f"--output needs a value: --output=VALUE; {SEE_SOLVE}"),
    ("solve a --set --quiet", f"--set needs a value: --set=VALUE; {SEE_SOLVE}"),
    ("solve a --output=b --output c", "--output is given twice; give it once"),
    ("solve a --set b", "--set b; allowed: KEY=VALUE, such as --set solver.rtol=1e-6"),
    ("solve a --set= --quiet", "--set ; allowed: KEY=VALUE, such as --set solver.rtol=1e-6"),
    ("solve a --set =1", "--set =1; allowed: KEY=VALUE, such as --set solver.rtol=1e-6"),
    ("verify a --backend=numpy", "--backend needs --refine: without --refine, verify compares every backend"),
    (
        "verify a --set=run.backend=numpy",
        "--set run.backend needs --refine: without --refine, verify compares every backend",
    ),
    ("verify a --set output.file=b.h5", "--set output.file: verify writes no result; leave this key out"),
    ("verify a --refine x", "--refine x; allowed: a whole number of grids, at least 2"),
    ("verify a --refine=1", "--refine 1; allowed: a whole number of grids, at least 2"),
    ("verify a --refine=-4", "--refine -4; allowed: a whole number of grids, at least 2"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_a_wrong_line_is_refused_in_one_line(
    words: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for request in (Solve, Verify, Info, Measurement):
        monkeypatch.setattr(request, "execute", lambda self: pytest.fail("carried out"))
    assert main(words.split()) == 2
    assert capsys.readouterr() == ("", f"poisson: error: {message}\n")


UNDERSTOOD = [
    (["solve", "a.toml"], Solve("a.toml", (), quiet=False)),
    (["solve", "--quiet", "a.toml"], Solve("a.toml", (), quiet=True)),
    (["solve", "1e3"], Solve("1e3", (), quiet=False)),
    (["solve", "[a]", "--output", "None"], Solve("[a]", ('output.file="None"',), quiet=False)),
    (["solve", "{'a': 1}", "--output=1e3"], Solve("{'a': 1}", ('output.file="1e3"',), quiet=False)),
    (["solve", "'a'", "--output=--x"], Solve("'a'", ('output.file="--x"',), quiet=False)),
    (["solve", "a=b", "--output", "-x"], Solve("a=b", ('output.file="-x"',), quiet=False)),
    (["solve", "a", "--output", 'é "x"\\'], Solve("a", ('output.file="é \\"x\\"\\\\"',), quiet=False)),
    (
        ["solve", "--set", "run.backend=gpu", "a", "--set=b.c=[1, 2]", "--set", "d=x=y", "--backend=numpy"],
        Solve("a", ("run.backend=gpu", "b.c=[1, 2]", "d=x=y", 'run.backend="numpy"'), quiet=False),
    ),
    (["verify", "a"], Verify("a", (), None, quiet=False)),
    (
        ["verify", "a", "--refine", "4", "--quiet", "--set=b=1", "--backend", "numpy"],
        Verify("a", ("b=1", 'run.backend="numpy"'), 4, quiet=True),
    ),
    (["solve", "a", "--overwrite"], Solve("a", (), quiet=False, overwrite=True)),
    (
        ["solve", "a", "--profile", "--json", "--log", "a.log"],
        Solve("a", (), quiet=False, profile=True, json=True, log="a.log"),
    ),
    (["solve", "a", "-q", "-o", "b.h5"], Solve("a", ('output.file="b.h5"',), quiet=True)),
    (["solve", "a", "-o=b.h5"], Solve("a", ('output.file="b.h5"',), quiet=False)),
    (["info"], Info(None)),
    (["info", "True"], Info("True")),
]


@pytest.mark.parametrize(("words", "request_expected"), UNDERSTOOD)
def test_a_line_becomes_a_request_with_the_text_typed(
    words: list[str], request_expected: cli.Invocation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._bind(words[0], words[1:]) == request_expected
    assert capsys.readouterr() == ("", "")


MISREAD = [
    ["--quiet", "a"],
    ["a", "-s", "b=1"],
    ["a", "--noquiet"],
    ["a", "--quiet=no"],
    ["a", "--output"],
    ["a", "case"],
    ["a", "--set=b=1", "--set=c=2"],
    ["a", "--output", "-x"],
]


@pytest.mark.parametrize("words", MISREAD)
def test_fire_alone_misreads_what_is_sorted_out_in_front_of_it(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Fire comes to do so itself, it need not be done for it any more."""

    def plain(case: str, *, set: str = "", output: str = "", quiet: bool = False) -> Solve:
        return Solve(case, (set, output), quiet)

    def outcome(line: list[str]) -> object:
        try:
            return fire.Fire(plain, command=line, serialize=lambda _: None)
        except fire.core.FireExit:
            return "refused"

    alone = outcome(words)
    try:
        assert alone != outcome(cli._unmistakable("solve", words))
    except UsageError:
        assert alone != "refused"


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PYTHON, *words], capture_output=True, text=True, timeout=300, check=False, **options)


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help(words: list[str]) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, cli.help_text() + "\n", "")


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_help_on_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["a.toml", "-h"], ["--qiuet", "--help"]):
        assert main([*command.split(), *words]) == 0
        assert capsys.readouterr() == (inspect.getdoc(cli.COMMANDS[command]) + "\n", "")


def test_help_on_a_word_that_begins_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    assert capsys.readouterr() == ("".join(f"python -m poisson bench {name} --help\n" for name in BENCHES), "")


def test_help_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words, asked in ((["help"], []), (["help", "help"], []), (["help", "info"], ["info", "--help"])):
        assert main(words) == main(asked) == 0
        out = capsys.readouterr().out
        assert out == 2 * out[: len(out) // 2] and out


def test_the_columns_of_every_help_are_straight() -> None:
    for text in (cli.help_text(), *(inspect.getdoc(function) or "" for function in cli.COMMANDS.values())):
        # After the lines of usage, which are not in columns, and before the exit codes.
        body = text.partition("\n\n")[2].partition("Usage:")[2].partition("\n\n")[2].partition("Examples:")[0]
        found = re.findall(r"^(  \S.*?  +|   +)(?=\S)", body, re.MULTILINE)
        assert len({len(column) for column in found}) == ("\n  " in f"\n{body}"), text


def test_help_is_complete_and_fits_a_terminal() -> None:
    for name, function in cli.COMMANDS.items():
        text = inspect.getdoc(function) or ""
        for parameter in inspect.signature(function).parameters.values():
            option = f"--{parameter.name.strip('_').replace('_', '-')}"
            shown = option if parameter.kind is parameter.KEYWORD_ONLY else parameter.name.upper()
            assert len(re.findall(rf"^  {shown}\b", text, re.MULTILINE)) == 1, (name, shown)
        names = re.findall(r"--backend NAMES? .*?(\w+(?:, \w+)*) (?:or|and) (\w+)[,;\n]", text)
        for several, last in names:
            assert [name for name in (*several.split(", "), last) if name != "auto"] == list(NAMES)
        assert bool(names) == ("--backend" in text) and "{" not in text
        assert "Examples:\n" in text and "\nExit codes: 0 " in text
        first = text.splitlines()[0].rstrip(".")
        assert re.search(rf"^  {name} .*\b{re.escape(first[0].lower() + first[1:])}$", cli.help_text(), re.MULTILINE)
        assert max(map(len, text.splitlines())) <= 120
    assert max(map(len, cli.help_text().splitlines())) <= 100


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from poisson.cli import main; main(['solve', '--help']);"
        "print(sorted({'numpy', 'scipy', 'h5py', 'fire', 'rich', 'sympy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.endswith("\n[]\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == main(["-V"]) == 0
    assert capsys.readouterr() == (2 * f"poisson {poisson.__version__}\n", "")


def test_json_has_numbers_and_null_for_what_is_not_finite() -> None:
    given = {"a": np.float64(0.5), "b": float("nan"), "c": (np.int64(3), -math.inf, True), "d": Path("x"), "e": None}
    assert as_json(given) == '{"a": 0.5, "b": null, "c": [3, null, true], "d": "x", "e": null}'


class FakeRun:
    """Stands in for loading and solving; keeps what it was asked."""

    def __init__(self, path: Path) -> None:
        self.solution: Solution = make_solution(2)
        self.asked: tuple[object, ...] = ()
        self.appraised = False
        self.before_end: Callable[[], None] = lambda: None
        self.case = SimpleNamespace(
            problem=self.solution.problem,
            run=RunSettings(backend="numpy"),
            solver=SolverSettings().having(method="jacobi", loop="fused"),
            output=SimpleNamespace(file=path, fields=("u",)),
        )

    def load(self, path: str, overrides: tuple[str, ...]) -> SimpleNamespace:
        self.asked = (path, overrides)
        return self.case

    def solve(
        self, case: object, saved: object, *, observer: Any, appraise: Any, keep: Any, comm: Communicator
    ) -> Solution:
        assert case is self.case and saved is None
        assert comm.size == 1 and gc.isenabled()
        self.appraised = appraise is not None
        logging.getLogger("poisson.run.run").info("backend numpy")
        logging.getLogger("poisson.run.run").warning("f is not balanced")
        observer.start(1e-8, "f", 100)
        observer(0, 1.0)
        self.before_end()
        keep(self.solution)
        return self.solution


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRun:
    fake = FakeRun(tmp_path / "result.h5")
    monkeypatch.setattr("poisson.case.load", fake.load)
    monkeypatch.setattr("poisson.run.run.go_on", fake.solve)
    monkeypatch.setattr("poisson.cli.solving.time", SimpleNamespace(perf_counter=lambda: 0.0))
    monkeypatch.setattr("poisson.run.memory.result_bytes", lambda problem, dtype, fields: 1000)
    monkeypatch.setattr(
        "poisson.perf.traffic.sweep_bytes", lambda problem, itemsize, loop: 3.0 * itemsize * problem.lattice.nodes
    )
    return fake


def test_solve_writes_the_result_and_the_summary(
    fake: FakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gc.unfreeze()
    gc.disable()  # as `poisson.__main__` does
    assert main(["solve", "a.toml", "--set", "solver.rtol=1", "--backend", "numpy"]) == 0
    # What was loaded is not searched for garbage.
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    assert fake.asked == ("a.toml", ("solver.rtol=1", 'run.backend="numpy"'))
    assert sorted(os.listdir(tmp_path)) == ["result.h5", "result.xmf"]
    with h5py.File(tmp_path / "result.h5") as file:
        assert file.attrs["title"] == "A test"
    out, err = capsys.readouterr()
    files = (tmp_path / "result.h5", tmp_path / "result.xmf")
    assert out == Ended(fake.solution, (0.0, 19.0), files, 480.0, 0.0).lines() + "\n"
    assert err == "backend numpy\npoisson: warning: f is not balanced\n"
    assert not fake.appraised
    assert main(["solve", "a.toml", "--profile"]) == 0
    assert capsys.readouterr().out == Ended(fake.solution, (0.0, 19.0), files, 480.0, 0.0, profile=True).lines() + "\n"
    assert fake.appraised


def test_solve_prints_one_json_object(fake: FakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "a.toml", "--json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["command"], found["exit_code"], found["u_max"]) == ("solve", 0, 19.0)
    assert found["file"] == str(tmp_path / "result.h5")
    assert err == "poisson: warning: f is not balanced\n"


def test_quiet_shows_only_warnings(fake: FakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "--quiet", "a.toml"]) == 0
    assert (tmp_path / "result.h5").exists()
    assert capsys.readouterr() == ("", "poisson: warning: f is not balanced\n")
    fake.solution = replace(fake.solution, status=Status.DIVERGED)
    assert main(["solve", "--quiet", "a.toml"]) == 1
    warning = f"poisson: warning: diverged: {Status.DIVERGED.advice}\n"
    assert capsys.readouterr() == ("", "poisson: warning: f is not balanced\n" + warning)


def test_the_log_is_as_it_was_afterwards(fake: FakeRun) -> None:
    logger, below = logging.getLogger("poisson"), logging.getLogger("poisson.run.run")
    before = (logger.level, logger.propagate, list(logger.handlers), below.isEnabledFor(logging.INFO))
    main(["solve", "a.toml"])
    assert (logger.level, logger.propagate, list(logger.handlers), below.isEnabledFor(logging.INFO)) == before
    assert not before[-1]


EXIT_CODES = dict.fromkeys(Status, 1) | dict.fromkeys((Status.CONVERGED, Status.AT_ROUNDING, Status.CONVOLVED), 0)
EXIT_CODES[Status.INTERRUPTED] = 130


@pytest.mark.parametrize("status", list(Status))
def test_the_exit_code_says_how_it_ended_and_the_file_is_there(fake: FakeRun, tmp_path: Path, status: Status) -> None:
    fake.solution = replace(fake.solution, status=status)
    assert main(["solve", "a.toml"]) == EXIT_CODES[status]
    with h5py.File(tmp_path / "result.h5") as file:
        assert file.attrs["status"] == status.value


ERRORS = [
    (CaseError(["a: b", "c: d"]), 2, "poisson: error: a: b\npoisson: error: c: d\n"),
    (OutputError("x.h5: full"), 2, "poisson: error: x.h5: full\n"),
    (MemoryError("8 TiB"), 2, "poisson: error: not enough memory (8 TiB); use fewer nodes (domain.shape)\n"),
    (MemoryError(), 2, "poisson: error: not enough memory; use fewer nodes (domain.shape)\n"),
    (KeyboardInterrupt(), 130, "poisson: interrupted\n"),
]


@pytest.mark.parametrize(("error", "code", "message"), ERRORS)
def test_errors(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: Solve, communicator: Communicator) -> int:
        raise error

    monkeypatch.setattr(Solve, "execute", fail)
    assert main(["solve", "a.toml"]) == code
    assert capsys.readouterr() == ("", message)


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Solve, "execute", lambda self, communicator: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["solve", "a.toml"])


def test_a_result_that_cannot_be_written_exits_with_2(
    fake: FakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "folder"
    folder.mkdir()
    fake.case.output.file = folder / "result.h5"
    fake.before_end = lambda: shutil.rmtree(folder)
    assert main(["solve", "a.toml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    error = err.splitlines()[-1]
    assert error.startswith(f"poisson: error: {fake.case.output.file}: the folder does not exist;")
    assert h5py.is_hdf5(error.rpartition("the result is saved as ")[2])


def test_a_result_that_could_not_be_written_is_not_computed(
    fake: FakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.before_end = lambda: pytest.fail("solved")
    fake.case.output.file = tmp_path / "missing" / "result.h5"
    assert main(["solve", "a.toml"]) == 2
    message = "the folder does not exist; create it or choose another place with --output"
    assert capsys.readouterr() == ("", f"poisson: error: {tmp_path / 'missing' / 'result.h5'}: {message}\n")
    fake.case.output.file = tmp_path / "result.h5"
    monkeypatch.setattr("poisson.run.memory.result_bytes", lambda problem, dtype, fields: 1 << 80)
    assert main(["solve", "a.toml"]) == 2
    assert "1.21e+12 TB, and the disk has " in capsys.readouterr().err


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_verify(fake: FakeRun, monkeypatch: Any, capsys: Any, passed: bool, quiet: bool, code: int) -> None:
    def verify(case: object, refine: int | None, *, comm: Communicator) -> Verification:
        assert (case, refine) == (fake.case, 3)
        columns = (Column("backend", "backend"), Column("u", "u", ".0e"), Column("shape", "nodes"))
        records = ({"backend": "numpy", "u": 1e-15, "shape": (3, 4)}, {"backend": "gpu", "u": math.nan})
        return Verification("Comparison", columns, records, ("note",), passed=passed)

    monkeypatch.setattr("poisson.run.verify.verify", verify)
    assert main(["verify", "a.toml", "--refine=3", "--set=a=1", *(["--quiet"] if quiet else [])]) == code
    assert fake.asked == ("a.toml", ("a=1",))
    report = "Comparison\n\nbackend      u  nodes\n-------  -----  -----\nnumpy    1e-15  3 x 4\ngpu        nan\nnote\n"
    assert capsys.readouterr() == ("" if quiet and passed else report, "")
    assert main(["verify", "a.toml", "--refine=3", "--json"]) == code
    assert json.loads(capsys.readouterr().out) == {
        "command": "verify",
        "title": "Comparison",
        "passed": passed,
        "exit_code": code,
        "rows": [{"backend": "numpy", "u": 1e-15, "shape": [3, 4]}, {"backend": "gpu", "u": None, "shape": None}],
        "notes": ["note"],
    }


def test_info_describes_a_file(fake: FakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["solve", "--quiet", "a.toml"])
    capsys.readouterr()
    assert main(["info", str(tmp_path / "result.h5")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'result.h5'}: A test\nequation ")
    assert err == ""
    for words in ([], ["--json"]):
        assert main(["info", str(tmp_path / "none.h5"), *words]) == 2
        assert capsys.readouterr() == ("", f"poisson: error: {tmp_path / 'none.h5'}: no such file; check the name\n")
    assert main(["info", str(tmp_path / "result.h5"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["command"], found["title"], found["shape"], found["iterations"]) == ("info", "A test", [5, 4], 40)
    of_u = {"least": 0.0, "largest": 19.0, "not_finite": 0, "type": "float64"}
    assert found["fields"]["u"] | of_u == found["fields"]["u"]
    assert found["axes"]["y"] == {"lower": -1.0, "upper": 1.0, "spacing": 0.5, "periodic": True}
    assert (found["provenance"]["threads"], found["seconds"]) == (2, {"set_up": 0.5, "solve": 2.0})


def test_info_lists_what_is_installed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [BackendInfo("gpu", False, "", "CuPy is not installed"), BackendInfo("numpy", True, "CPU", "")]
    monkeypatch.setattr("poisson.backends.describe", lambda: rows)
    assert main(["info"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (installation(rows) + "\n", "")
    lines = out.splitlines()
    assert lines[2:4] == ["gpu      no         CuPy is not installed", "numpy    yes        CPU"]
    assert f"h5py     {h5py.__version__}" in lines
    assert f"Python   {sys.version.split()[0]}" in lines
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["backends"][0] == {"name": "gpu", "available": False, "device": "", "reason": "CuPy is not installed"}
    assert (found["command"], found["versions"]["h5py"]) == ("info", h5py.__version__)


@pytest.mark.parametrize("option", ["--csv", "--plot"])
def test_a_measurement_refused_by_the_disk_names_its_option(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is measured."""
    path = tmp_path / "nowhere" / "rows"
    assert main(["bench", "laplacian", "--n=9", "--backend=numpy", f"{option}={path}"]) == 2
    assert capsys.readouterr().err == (
        f"poisson: error: {path}: the folder does not exist; create it or choose another place with {option}\n"
    )
