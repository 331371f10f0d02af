# SPDX-License-Identifier: MIT
"""The signals that end a command as Ctrl-C does: what batch systems, closing terminals and launchers send."""

import contextlib
import signal
import threading
from collections.abc import Iterator

from poisson.run.interrupts import Ending


@contextlib.contextmanager
def ending(*, launched: bool = False) -> Iterator[None]:
    """Within, SIGTERM and SIGHUP interrupt, and of processes that were launched together SIGUSR1 as well.

    A signal that is ignored stays so, as that of the closing terminal is under nohup, and so does the handler of a
    program that calls this package.

    `launched`: whether a launcher has started this process with others: they end processes by SIGTERM, once or more
    often, and hand on SIGUSR1.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {signal.SIGTERM: Ending(once=launched), signal.SIGHUP: Ending()}
    if launched:
        handlers[signal.SIGUSR1] = Ending()
    before = {number: signal.getsignal(number) for number in handlers}
    ours = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
