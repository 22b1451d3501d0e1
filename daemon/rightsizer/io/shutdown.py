"""Stop signals of a service, and its end in time, whatever hangs."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rightsizer.io.log import logger
from rightsizer.io.log_queue import drain_standard_error
from rightsizer.io.thread import DaemonThread, outlive_shortages

_STOPS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_END_SECONDS: Final = 4.0
"""Source: with what the log may take then, below 5 s; containers are given 10 s, units 15 s."""


@contextmanager
def ended_by_signals(hanging: Callable[[], str]) -> Iterator[threading.Event]:
    """Event that SIGTERM and SIGINT set; if the block does not end soon after, the process does.

    `hanging` names the part that is not ending, for the log. Signals arrive over a pipe, since
    Python runs their handlers on the main thread, which may be what hangs.
    """
    stop = threading.Event()
    ended = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def watch() -> None:
        while number := os.read(reading, 1):
            if number[0] in _STOPS:
                stop.set()
                break
        if stop.is_set() and not ended.wait(_END_SECONDS):
            _abandon(hanging())
        os.close(reading)

    DaemonThread("shutdown", outlive_shortages, watch).start()
    for number in _STOPS:
        signal.signal(number, lambda *_: stop.set())
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield stop
    finally:
        ended.set()
        signal.set_wakeup_fd(-1)
        os.close(writing)


def _abandon(part: str) -> None:
    """End the process at once: what was not written yet is lost, as at a power cut."""
    logger("shutdown").error(
        "shutdown_abandoned",
        part=part,
        seconds=_END_SECONDS,
        remedy="check the disk, and what this speaks to: the part did not end in time",
    )
    drain_standard_error()
    # The interpreter's own end would wait for what hangs.
    os._exit(0)
