# SPDX-License-Identifier: MIT
"""Wrong options of the commands that measure: each is refused in one line, before anything is measured."""

import sys
from pathlib import Path

import pytest

from poisson.backends.registry import NAMES, backend_names
from poisson.case.settings import FIELDS
from poisson.cli import main
from poisson.cli.measuring import Measurement
from poisson.errors import PoissonError
from poisson.output.table import Report
from poisson.perf.benchmark.call import METHODS as CALLED
from poisson.perf.benchmark.jacobi import ALL_LOOPS
from poisson.perf.benchmark.solve import METHODS
from poisson.perf.benchmark.works import KINDS

NO_THREADS = "--threads 2: only the openmp backend has a number of threads"
NO_BACKEND = f"--backend cpu; allowed: {', '.join(backend_names())}; did you mean 'openmp'?"
NO_TYPE = "--precision half; allowed: float64, float32"
REFUSED = [
    ("bench laplacian --n=2", "--n 2; allowed: a whole number, at least 3"),
    ("bench laplacian --n=8,9", "--n 8,9; allowed: a whole number, at least 3"),
    ("bench laplacian --n=8x9", "--n 8x9; allowed: one number for a cube, or NXxNYxNZ"),
    ("bench laplacian --sizes=", "--sizes ; allowed: a whole number, at least 3"),
    ("bench laplacian --n=8 --study", "--n and --study both set the sizes: give only one of them"),
    ("bench laplacian --once --profile", "--profile already implies --once: give only one of them"),
    ("bench laplacian --backend=cpu", NO_BACKEND),
    ("bench laplacian --precision=half", NO_TYPE),
    (
        "bench derivative --backend=numpy --n=8",
        "x: 8 nodes; a difference of order 8 needs at least 9: take a lower order or more nodes",
    ),
    ("bench derivative --n=2", "--n 2; allowed: a whole number, at least 3"),
    ("bench derivative --n=9x9x9x9", "--n 9x9x9x9; allowed: NXxNY or NXxNYxNZ"),
    ("bench derivative --order=3", "--order 3; allowed: 2, 4, 6, 8"),
    ("bench derivative --precision=half", NO_TYPE),
    ("bench jacobi --n=0", "--n 0; allowed: a whole number, at least 1"),
    ("bench jacobi --iterations 1e3", "--iterations 1e3; allowed: a whole number, at least 1"),
    ("bench jacobi --check-every=-1", "--check-every -1; allowed: a whole number, at least 1"),
    ("bench jacobi --threads=two", "--threads two; allowed: a whole number, at least 0"),
    ("bench jacobi --threads=2 --backend=gpu,numpy", NO_THREADS),
    (
        "bench jacobi --problem=laplacian",
        "--problem laplacian; allowed: heated_square, laplace; did you mean 'laplace'?",
    ),
    ("bench jacobi --loop=fused,fuse", f"--loop fuse; allowed: {', '.join(ALL_LOOPS)}; did you mean 'fused'?"),
    ("bench jacobi --backend=hip", f"--backend hip; allowed: {', '.join(NAMES)}; did you mean 'gpu'?"),
    ("bench jacobi --precision=half", NO_TYPE),
    ("bench jacobi --problem=laplace --n=4", "n = 4: the problem laplace needs at least 5"),
    (
        "bench jacobi --loop=structured --backend=numpy --n=5",
        "only the openmp backend has the loop structured: add --backend=openmp, or another loop",
    ),
    ("bench operations --sizes=9", "--sizes 9; allowed: NXxNY or NXxNYxNZ"),
    ("bench operations --sizes=9x9,9x8", "--sizes 8; allowed: a whole number, at least 9"),
    ("bench operations --sizes=9x9x9x9", "--sizes 9x9x9x9; allowed: NXxNY or NXxNYxNZ"),
    ("bench operations --backend=cpu", NO_BACKEND),
    ("bench operations --precision=half", NO_TYPE),
    ("bench operations --threads=-1", "--threads -1; allowed: a whole number, at least 0"),
    ("bench operations --threads=2 --backend=numpy", NO_THREADS),
    ("bench solve --n=33", "--n 33; allowed: NXxNY or NXxNYxNZ"),
    ("bench solve --n=33x32", "--n 32; allowed: a whole number, at least 33"),
    ("bench solve --n=33x33 --study", "--n and --study both set the sizes: give only one of them"),
    ("bench solve --backend=gpu --threads=2", NO_THREADS),
    ("bench solve --jump=3", "--jump needs --n, which sets the grids"),
    ("bench solve --n=33x33 --jump=-1", "--jump -1; allowed: a finite number > 0"),
    ("bench solve --n=33x33 --jump=much", "--jump much; allowed: a finite number > 0"),
    ("bench solve --method=jacobi", f"--method jacobi; allowed: {', '.join(METHODS)}"),
    ("bench solve --backend=cpu", NO_BACKEND),
    ("bench solve --repeats=0", "--repeats 0; allowed: a whole number, at least 1"),
    (
        "bench solve --n=33x33 --jump=9 --method=fft --backend=numpy",
        "--method fft: transforms need a constant a; leave out --jump, or measure cg",
    ),
    ("bench call --n=9", "--n 9; allowed: NXxNY or NXxNYxNZ"),
    ("bench call --n=9x2", "--n 2; allowed: a whole number, at least 3"),
    ("bench call --method=jacobi", f"--method jacobi; allowed: {', '.join(CALLED)}"),
    ("bench call --threads=2 --backend=numpy", NO_THREADS),
    ("bench call --repeats=0", "--repeats 0; allowed: a whole number, at least 1"),
    ("bench command --n=9", "--n 9; allowed: NXxNY or NXxNYxNZ"),
    ("bench command --fields=v", f"--fields v; allowed: {', '.join(FIELDS)}"),
    (
        "bench command --folder=/nowhere --n=9x9",
        "/nowhere: the folder does not exist; create it or choose another place",
    ),
    ("bench scaling --ranks=2,1", "--ranks 2,1; allowed: increasing numbers, such as 1,2,4"),
    (
        "bench scaling --ranks=1,2 --threads=1,2,4",
        "--threads 1,2,4; allowed: one number, or one for each entry of --ranks",
    ),
    ("bench scaling --work=cooking", f"--work cooking; allowed: {', '.join(KINDS)}"),
    ("bench scaling --n=9x9", "--n 9; allowed: a whole number, at least 17"),
    ("tune --backend=cpu", NO_BACKEND),
    ("tune a.toml --shape=9x9", "--shape cannot be combined with a case file, which has its own shape"),
    ("roofline --backend=cpu", NO_BACKEND),
]


@pytest.mark.usefixtures("short_measurements")
@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_a_wrong_option_is_refused_in_one_line(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [said for said in err.splitlines() if said.startswith("poisson: ")] == [f"poisson: error: {message}"]


@pytest.mark.parametrize("drawn", [False, True])
def test_a_figure_that_cannot_be_drawn_names_the_option(
    drawn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Report("A measurement", (), (), draw=(lambda figure: None) if drawn else None)
    if drawn:
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        line = "--plot needs matplotlib: pip install matplotlib, or leave out --plot"
    else:
        line = "this measurement has no figure: leave out --plot"
    with pytest.raises(PoissonError, match=f"^{line}$"):
        Measurement(lambda: report, json=False, csv=None, plot=str(tmp_path / "a.png")).execute()
    assert list(tmp_path.iterdir()) == []
