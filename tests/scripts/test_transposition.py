# SPDX-License-Identifier: MIT
"""The script that times transpositions beside `fft`: what it moves, and what it says."""

import re
import sys

import numpy as np
import pytest
from support.places import ROOT
from support.ranks import ThreadCommunicator, on_ranks

from poisson.backends.numpy import NumpyBackend

sys.path.insert(0, str(ROOT / "scripts"))

from transposition import Transposition, compare


@pytest.mark.parametrize("shape", [(5, 7, 8), (9, 11)])
def test_every_rank_has_all_planes_of_its_rows_and_back(shape: tuple[int, ...]) -> None:
    *_, ny, nz = shape
    whole = np.arange(float(np.prod(shape))).reshape(nz, ny, -1)

    def run(communicator: ThreadCommunicator) -> tuple[bool, bool, int]:
        rank, size = communicator.rank, communicator.size
        found = Transposition(NumpyBackend(np.float64), communicator, shape)
        planes, rows = (slice(count * rank // size, count * (rank + 1) // size) for count in (nz, ny))
        found.planes[...] = whole[planes]
        found.forth()
        there = np.array_equal(found.rows, whole[:, rows])
        found.planes[...] = 0.0
        found.back()
        return there, np.array_equal(found.planes, whole[planes]), found.sent

    found = on_ranks(3, run)
    assert [each[:2] for each in found] == [(True, True)] * 3
    kept = sum(
        8 * whole[nz * each // 3 : nz * (each + 1) // 3, ny * each // 3 : ny * (each + 1) // 3].size
        for each in range(3)
    )
    assert sum(each[2] for each in found) == whole.nbytes - kept


def test_a_line_says_what_both_take() -> None:
    lines = on_ranks(2, lambda ranks: compare((17, 18, 19), NumpyBackend(np.float64), ranks, 2), delay=0.0)
    time = r"\d[\d.e-]*"
    assert re.fullmatch(
        rf"17x18x19 on 2 ranks, ms \(fastest, median\): forth {time}, {time}, back {time}, {time}, 0 MB each way at "
        rf"{time} GB/s; fft {time}, {time}; transpositions over fft \d+\.\d\d",
        lines[0],
    )
