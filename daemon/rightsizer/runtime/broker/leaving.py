"""Signals that end whoever waits for GPUs: he leaves nothing behind, and ends by them still."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

__all__ = ["Leaving", "leaving_on_signals"]

_ENDING: Final = (signal.SIGHUP, signal.SIGTERM)
"""Python itself makes an exception of SIGINT."""


class Leaving(BaseException):
    """A signal has come that ends this process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._number = number

    def leave(self) -> NoReturn:
        """End as if nothing had been done before."""
        signal.signal(self._number, signal.SIG_DFL)
        os.kill(os.getpid(), self._number)
        raise AssertionError("a signal that ends a process has not")


@contextmanager
def leaving_on_signals() -> Iterator[None]:
    """Have signals raise `Leaving` in the main thread; those that are ignored stay so.

    Raises:
        Leaving: one has come.
    """
    ours = [each for each in _ENDING if signal.getsignal(each) is signal.SIG_DFL]
    for each in ours:
        signal.signal(each, _raise)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise Leaving(number)
