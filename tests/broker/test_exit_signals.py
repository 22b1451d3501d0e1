"""Signals while a client waits: only fatal ones can be handled first."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rightsizer.broker.child_process import ExitSignal, exit_on_signals

PROGRAM = """
import os, signal
from rightsizer.broker.child_process import ExitSignal, exit_on_signals
try:
    with exit_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
except ExitSignal as signaled:
    print("gives back", flush=True)
    signaled.leave()
print("is still there")
"""


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGHUP, signal.SIGTERM)}
    for each in before:
        signal.signal(each, signal.SIG_DFL)
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_a_signal_that_ends_a_process_can_be_answered_first() -> None:
    """It still ends by the signal, so that its parent sees the true cause."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, b"gives back\n")


def test_ignored_signal_stays_ignored() -> None:
    """Such as SIGHUP under nohup(1)."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with exit_on_signals():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_afterwards_all_is_as_before(number: signal.Signals) -> None:
    """Processes started then inherit nothing of it."""
    with pytest.raises(ExitSignal), exit_on_signals():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is signal.SIG_DFL
