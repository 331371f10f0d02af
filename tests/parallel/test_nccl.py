# SPDX-License-Identifier: MIT
"""Arrays that go from device to device: with a stand-in for NCCL on threads, and with NCCL where there are two GPUs."""

import ctypes
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from queue import Queue
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from support.mpi import mpirun
from support.ranks import ThreadCommunicator, on_ranks

from poisson.backends import gpu
from poisson.errors import BackendUnavailable, RemoteFailure
from poisson.parallel.communicator import Message
from poisson.parallel.mpi import MpiCommunicator
from poisson.parallel.nccl import MULTICAST_VARIABLE, NcclCommunicator
from poisson.run import devices

STREAM = 77


class NcclError(RuntimeError):
    pass


class FakeNccl:
    """As much of ``cupy.cuda.nccl`` as is used, for ranks that are threads."""

    NCCL_INT8 = 0
    NcclError = NcclError

    def __init__(self, broken: int | None = None) -> None:
        self._mail: dict[tuple[int, int], Queue[bytes]] = defaultdict(Queue)
        self._group = threading.local()
        self._broken = broken
        self.aborted: list[int] = []
        self.sick = False

    def get_unique_id(self) -> tuple[int, ...]:
        if self._broken == 0:
            raise NcclError("no library")
        return 1, 2, 3

    def NcclCommunicator(self, size: int, name: tuple[int, ...], rank: int) -> Any:  # noqa: N802
        assert name == (1, 2, 3)
        if rank == self._broken:
            raise NcclError("unhandled system error")
        return SimpleNamespace(
            send=lambda *call: self._group.calls.append(("send", rank, *call)),
            recv=lambda *call: self._group.calls.append(("recv", rank, *call)),
            abort=lambda: self.aborted.append(rank),
            check_async_error=self._check,
        )

    def _check(self) -> None:
        if self.sick:
            raise NcclError("remote error")

    def groupStart(self) -> None:  # noqa: N802
        self._group.calls = []

    def groupEnd(self) -> None:  # noqa: N802
        calls = self._group.calls
        for kind, rank, pointer, count, kind_of_data, peer, stream in calls:
            assert (kind_of_data, stream) == (self.NCCL_INT8, STREAM)
            if kind == "send":
                self._mail[rank, peer].put(ctypes.string_at(pointer, count))
        for kind, rank, pointer, count, _, peer, _ in calls:
            if kind == "recv":
                found = self._mail[peer, rank].get(timeout=300)
                assert len(found) == count
                ctypes.memmove(pointer, found, count)


class DeviceArray:
    """The memory of a NumPy array, as one on a device shows its own."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values
        self.nbytes = values.nbytes
        self.data = SimpleNamespace(ptr=values.ctypes.data)


class Control(ThreadCommunicator):
    """Threads with what a communicator of MPI says of failures."""

    remote: RemoteFailure | None = None
    told: BaseException | None = None

    def look(self) -> None:
        if self.remote is not None:
            raise self.remote

    def fail(self, error: BaseException) -> None:
        self.told = error


def communicator(comm: ThreadCommunicator, nccl: FakeNccl) -> NcclCommunicator:
    comm.__class__ = Control
    return NcclCommunicator(cast(MpiCommunicator, comm), nccl, lambda: STREAM)


def test_arrays_go_both_ways_around_a_ring_by_their_tags() -> None:
    nccl = FakeNccl()

    def around(comm: ThreadCommunicator) -> None:
        ranks = communicator(comm, nccl)
        assert (ranks.rank, ranks.size, ranks.on_device) == (comm.rank, comm.size, True)
        below, above = (ranks.rank - 1) % ranks.size, (ranks.rank + 1) % ranks.size
        for turn in range(5):
            for dtype in (np.float32, np.float64):
                own = [DeviceArray(np.array([ranks.rank, turn, tag], dtype)) for tag in (1, 2)]
                found = [DeviceArray(np.zeros(3, dtype)) for _ in (1, 2)]
                empty, on_host = DeviceArray(np.zeros(0)), np.full(2, -1.0)
                # On two ranks both messages go to the same peer, and only their tags tell them apart.
                ranks.exchange(
                    [
                        Message(own[1], below, 2, True),
                        Message(found[0], below, 1, False),
                        Message(own[0], above, 1, True),
                        Message(found[1], above, 2, False),
                        Message(empty, above, 3, True),
                        Message(np.full(2, float(ranks.rank)), above, 9, True),
                        Message(on_host, below, 9, False),
                    ]
                )
                assert [each.values.tolist() for each in found] == [[below, turn, 1], [above, turn, 2]]
                assert on_host.tolist() == [below, below]
        assert ranks.allgather([ranks.rank]) == [(rank,) for rank in range(ranks.size)]
        assert (ranks.broadcast(ranks.rank, 1), ranks.agree(ranks.rank == 1)) == (1, True)
        assert ranks.gather(ranks.rank) == (list(range(ranks.size)) if ranks.rank == 0 else None)
        ranks.barrier()

    for size in (2, 3, 4):
        on_ranks(size, around)
    assert nccl.aborted == []


@pytest.mark.parametrize(("broken", "reason"), [(0, "no library"), (1, "unhandled system error")])
def test_nccl_that_does_not_start_is_said_on_all_ranks(broken: int, reason: str) -> None:
    nccl = FakeNccl(broken)

    def start(comm: ThreadCommunicator) -> str:
        with pytest.raises(BackendUnavailable) as unavailable:
            communicator(comm, nccl)
        return str(unavailable.value)

    line = f"NCCL does not start on process {broken} ({reason}): update the driver or CuPy"
    assert on_ranks(2, start) == [line, line]


def test_a_failure_elsewhere_ends_what_waits_on_the_device() -> None:
    nccl = FakeNccl()

    def work(comm: ThreadCommunicator) -> None:
        ranks = communicator(comm, nccl)
        control = cast(Control, comm)
        ranks.look()
        ranks.barrier()
        if comm.rank == 0:
            error = MemoryError()
            ranks.fail(error)
            assert control.told is error
        else:
            control.remote = RemoteFailure(0, "no memory", 2)
            with pytest.raises(RemoteFailure):
                ranks.look()
            with pytest.raises(RemoteFailure):
                ranks.exchange([Message(DeviceArray(np.zeros(1)), 0, 1, True)])

    on_ranks(2, work)
    assert sorted(nccl.aborted) == [0, 1]


def test_an_error_of_nccl_itself_ends_the_wait() -> None:
    nccl = FakeNccl()

    def work(comm: ThreadCommunicator) -> None:
        ranks = communicator(comm, nccl)
        ranks.barrier()
        nccl.sick = True
        with pytest.raises(BackendUnavailable, match=r"^NCCL has failed \(remote error\)"):
            ranks.look()

    on_ranks(2, work)


class GpuOfTest:
    """As much of a backend as is asked for its communicator."""

    name = "gpu"

    def watch(self, look: Callable[[], None]) -> None:
        self.look = look


def test_gpus_talk_by_nccl_if_all_have_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("poisson.parallel.mpi.MpiCommunicator", ThreadCommunicator)
    nccl, without = FakeNccl(), threading.local()

    def work(comm: ThreadCommunicator, *, missing: int | None) -> bool:
        without.nccl = comm.rank == missing
        comm.__class__ = Control
        comm.attached = None  # type: ignore[attr-defined]
        backends = cast(Any, [GpuOfTest(), GpuOfTest()])
        first, second = (devices.communicator_for(comm, backend) for backend in backends)
        assert first is second
        if first is not comm:
            assert comm.attached is first  # type: ignore[attr-defined]
            assert all(backend.look == cast(NcclCommunicator, first).look for backend in backends)
        return first.on_device

    monkeypatch.setattr("poisson.backends.gpu.nccl", lambda: None if without.nccl else (nccl, lambda: STREAM))
    assert on_ranks(2, partial(work, missing=None)) == [True, True]
    assert caplog.messages == []
    assert on_ranks(2, partial(work, missing=1)) == [False, False]
    assert all("CuPy finds no NCCL" in line for line in caplog.messages) and caplog.messages


def test_what_cupy_tells_of_gpus_and_of_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    cupy, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    cuda.runtime = SimpleNamespace(  # type: ignore[attr-defined]
        getDeviceCount=lambda: 2,
        getDevice=lambda: 1,
        getDeviceProperties=lambda number: {"uuid": bytes([number])},
        deviceGetPCIBusId=lambda number: f"0000:{number}",
        deviceCanAccessPeer=lambda own, other: (own, other) == (1, 0),
    )
    cuda.nccl = SimpleNamespace(get_version=lambda: 22803)  # type: ignore[attr-defined]
    cuda.Device = lambda number: SimpleNamespace(use=lambda: used.append(number))  # type: ignore[attr-defined]
    cuda.get_current_stream = lambda: SimpleNamespace(ptr=STREAM)  # type: ignore[attr-defined]
    cupy.cuda = cuda  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    names = gpu.identities()
    assert len(set(names)) == 2
    assert gpu.peers() == {names[0]: True}
    gpu.use(1)
    assert used == [1]
    found = gpu.nccl()
    assert found is not None
    assert (found[0], found[1]()) == (cuda.nccl, STREAM)
    cuda.nccl = SimpleNamespace()  # type: ignore[attr-defined]
    assert gpu.nccl() is None
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    assert (gpu.identities(), gpu.nccl()) == ((), None)


def test_multicast_is_off_unless_a_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for before, after in ((None, "0"), ("1", "1")):
        if before is None:
            monkeypatch.delenv(MULTICAST_VARIABLE, raising=False)
        else:
            monkeypatch.setenv(MULTICAST_VARIABLE, before)
        on_ranks(1, lambda comm: communicator(comm, FakeNccl()))
        assert os.environ[MULTICAST_VARIABLE] == after
    monkeypatch.delenv(MULTICAST_VARIABLE)


ON_GPUS = """
import time
import cupy
from mpi4py import MPI
from poisson.backends import create
from poisson.errors import RemoteFailure
from poisson.parallel.communicator import Message
from poisson.parallel.mpi import MpiCommunicator
from poisson.run.devices import communicator_for, take_place

control = MpiCommunicator.of(MPI.COMM_WORLD)
rank, peer = control.rank, 1 - control.rank
take_place(control, "gpu", 0)
assert cupy.cuda.Device().id == control.local_rank
backend = create("gpu", "float64")
comm = communicator_for(control, backend)
assert comm.on_device
stream = backend.runtime._stream
with stream:
    own, found = cupy.full(10**6, float(rank)), cupy.zeros(10**6)
    messages = [Message(own, peer, 1, True), Message(found, peer, 1, False)]
    comm.exchange(messages)
backend.synchronize()
assert (found == peer).all()
def step():
    with stream:
        comm.exchange(messages)
        cupy.add(found, 1.0, out=own)
step()
backend.synchronize()
held = comm.recordings[step] = {"step": backend.runtime.capture(step)}
for _ in range(10):
    held["step"]()
backend.synchronize()
# Each turn hands over what the other had, and adds one.
assert float(own[0]) == peer + 11.0, own[0]
begin = time.perf_counter()
try:
    with comm.together():
        if rank == 0:
            raise MemoryError("one")
        with stream:
            comm.exchange([Message(found, peer, 1, False)])
        backend.synchronize()
except (MemoryError, RemoteFailure) as error:
    print(type(error).__name__, flush=True)
assert time.perf_counter() - begin < 60.0
assert not held
"""


@pytest.mark.gpu
def test_two_gpus_exchange_in_graphs_and_none_waits_for_one_that_failed() -> None:
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU")
    done = mpirun(2, "-c", ON_GPUS)
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["MemoryError", "RemoteFailure"]), done.stderr
