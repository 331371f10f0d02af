# SPDX-License-Identifier: MIT
"""`scripts/peers.py`: the solvers that the tests' environment has solve its problems, and its residual is that of A."""

import json

import numpy as np
import peers
import pytest
from scipy.sparse.linalg import spsolve


@pytest.mark.parametrize("shape", [(9, 12), (6, 7, 9)])
@pytest.mark.parametrize("jump", [1.0, 1000.0])
def test_the_residual_is_that_of_the_matrix(shape: tuple[int, ...], jump: float) -> None:
    a, f = peers.COEFFICIENTS["box"](np.indices(shape), jump), peers.source(shape)
    inner = (slice(1, -1),) * len(shape)
    u = peers.padded(spsolve(peers.matrix(a).tocsc(), f[inner].ravel()).reshape([n - 2 for n in shape]))
    assert peers.relative_residual(u, f, a) < 1e-12
    assert peers.relative_residual(np.zeros(shape), f, a) == 1.0


def test_solvers_of_the_same_problem_give_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert peers.main(["poisson,scipy.fft,scipy.sparse,fishpack", "--n", "33x17", "--json", "--repeats", "1"]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["solver"] for row in rows[:3]] == ["poisson", "scipy.fft", "scipy.sparse"]
    assert all(row["residual"] < 1e-8 for row in rows)
    assert len(rows) == 4 or "fishpack: left out (no PyFishPack in this environment)" in err


def test_a_jump_leaves_out_what_has_constant_coefficients(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        peers.main(
            ["poisson,scipy.fft,mkl", "--n", "17x17", "--a", "box", "--jump", "1000", "--repeats", "1", "--json"]
        )
        == 0
    )
    out, err = capsys.readouterr()
    assert [json.loads(line)["solver"] for line in out.splitlines()] == ["poisson"]
    assert err.splitlines()[0] == "scipy.fft: left out (constant coefficients only)"
