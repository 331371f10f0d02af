# SPDX-License-Identifier: MIT
"""Ranks with a GPU each, whose arrays go from device to device by NCCL; everything else goes by MPI.

What is exchanged takes its place among the launches of a stream, and can be part of a recorded graph. The host does not
wait for it. Where it waits for the device it has to look, now and then, whether another rank has failed (`look`), as
what that one was to send will never come.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from poisson.errors import BackendUnavailable
from poisson.parallel.communicator import Message
from poisson.parallel.mpi import MpiCommunicator

MULTICAST_VARIABLE = "NCCL_NVLS_ENABLE"
"""Multicast over NVLink gains nothing between neighbours, and hangs on some machines; a user may switch it on."""


PATIENCE = 1.0
"""Seconds in which NCCL ends what is under way, and more than it takes."""


class NcclCommunicator:
    """The ranks of an MPI communicator, each of which has chosen a GPU of its own. Making one is a collective call.

    `control`: the ranks, for numbers, objects, arrays on the host and failures. `nccl`: ``cupy.cuda.nccl``. `stream`:
    gives the address of the stream that launches now go to. `recordings`: from whoever has recordings with exchanges
    (`poisson.parallel.recording`) to what holds them. Raises `BackendUnavailable` on every rank, if NCCL does not start
    on one.
    """

    on_device = True

    def __init__(self, control: MpiCommunicator, nccl: ModuleType | Any, stream: Callable[[], int]) -> None:
        self.rank = control.rank
        self.size = control.size
        self.control = control
        self._nccl = nccl
        self._stream = stream
        self._comm: Any = None
        self.recordings: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
        os.environ.setdefault(MULTICAST_VARIABLE, "0")
        reason, name = "", None
        try:
            name = nccl.get_unique_id() if self.rank == 0 else None
        except (nccl.NcclError, RuntimeError) as error:
            reason = str(error)
        name = control.broadcast(name)
        try:
            if name is not None:
                self._comm = nccl.NcclCommunicator(self.size, name, self.rank)
        except (nccl.NcclError, RuntimeError) as error:
            reason = str(error)
        reasons = control.broadcast(control.gather(reason))
        for rank, said in enumerate(reasons):
            if said:
                self.abort()
                raise BackendUnavailable(f"NCCL does not start on process {rank} ({said}): update the driver or CuPy")

    # ---- arrays

    def exchange(self, messages: Sequence[Message]) -> None:
        """Send and receive; arrays on the device in the order of the stream, NumPy arrays before this returns."""
        on_host = [each for each in messages if isinstance(each.array, np.ndarray)]
        if on_host:
            self.control.exchange(on_host)
        on_device = [each for each in messages if each.array.nbytes and not isinstance(each.array, np.ndarray)]
        if not on_device:
            return
        if self._comm is None:
            self.control.look()
            raise BackendUnavailable("NCCL was shut down after a failure: make a new solver")
        stream = self._stream()
        # There are no tags: between two ranks the first that is sent is the first that is received.
        self._nccl.groupStart()
        for each in sorted(on_device, key=lambda message: (message.peer, message.tag)):
            move = self._comm.send if each.sends else self._comm.recv
            move(each.array.data.ptr, each.array.nbytes, self._nccl.NCCL_INT8, each.peer, stream)
        self._nccl.groupEnd()

    # ---- numbers and objects, as every `Communicator` has them

    def allgather(self, values: Sequence[float]) -> list[tuple[float, ...]]:
        with self._ended_together():
            return self.control.allgather(values)

    def broadcast(self, value: Any, root: int = 0) -> Any:
        with self._ended_together():
            return self.control.broadcast(value, root)

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        with self._ended_together():
            return self.control.gather(value, root)

    def barrier(self, *, asleep: bool = False) -> None:
        with self._ended_together():
            self.control.barrier(asleep=asleep)

    def agree(self, flag: bool) -> bool:
        with self._ended_together():
            return self.control.agree(flag)

    # ---- failures

    def look(self) -> None:
        """Raise the failure of another rank, or of NCCL, if one is known.

        Raises `RemoteFailure` if another rank has failed; `BackendUnavailable` if NCCL has.
        """
        with self._ended_together():
            self.control.look()
            if self._comm is not None:
                try:
                    self._comm.check_async_error()
                except self._nccl.NcclError as error:
                    raise BackendUnavailable(f"NCCL has failed ({error}): see NCCL_DEBUG=INFO") from error

    def fail(self, error: BaseException) -> None:
        """Tell every other rank that this one has failed."""
        self.control.fail(error)
        self.abort()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Within, an exception on one rank ends the block on every one, and this communicator."""
        with self.control.together(), self._ended_together():
            yield

    @contextlib.contextmanager
    def _ended_together(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """End what is under way on the device and waits for others; what was recorded with exchanges is gone then.

        NCCL does not come back before the last such recording has ended, and whoever handles the failure may hold one
        that is not in `recordings`: so a thread waits for that.
        """
        comm, self._comm = self._comm, None
        if comm is not None:
            waiting = threading.Thread(target=self._end, args=(comm,), daemon=True)
            waiting.start()
            for recorded in list(self.recordings.values()):
                recorded.clear()
            waiting.join(PATIENCE)

    def _end(self, comm: Any) -> None:
        with contextlib.suppress(self._nccl.NcclError):
            comm.abort()
