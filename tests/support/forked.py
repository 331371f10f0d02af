# SPDX-License-Identifier: MIT
"""Scripts in processes of their own, which need not import again what takes longer than the scripts."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.places import ROOT

SERVER = """
import gc, json, os, signal, sys
import fire, h5py, numpy, rich.live, scipy.fft
import poisson.case.build, poisson.cli.solving, poisson.cli.summary, poisson.cli.terminal, poisson.output.result
import poisson.perf.traffic, poisson.perf.usage, poisson.run.certificate, poisson.run.run, poisson.run.solver
import poisson.solvers.multigrid.galerkin
gc.freeze()
for line in sys.stdin:
    folder, script, words, environment = json.loads(line)
    if pid := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        continue
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(300)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = words
    exec(compile(script, "script", "exec"))
    sys.exit()
"""


class Forks:
    """Processes that are forked where all imports are made; nothing was solved there."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(
        self, script: str, *words: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The effects of a script with these arguments."""
        assert self._server.stdin and self._server.stdout
        with tempfile.TemporaryDirectory() as folder:
            asked = (folder, script, words, dict(os.environ if environment is None else environment))
            print(json.dumps(asked), file=self._server.stdin, flush=True)
            code = int(self._server.stdout.readline())
            said = [Path(folder, name).read_text("utf-8") for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess([script, *words], code, *said)


@contextmanager
def forks() -> Iterator[Forks]:
    """Within, scripts may be run in the checkout."""
    command, pipe = [sys.executable, "-c", SERVER], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT, text=True, encoding="utf-8") as server:
        yield Forks(server)
