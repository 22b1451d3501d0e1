"""Threads without memory: their start fails in time, and their loops go on."""

import threading

import pytest
from structlog.testing import capture_logs

from rightsizer.io import thread as thread_module
from rightsizer.io.thread import DaemonThread, outlive_shortages


def test_the_start_of_a_thread_without_memory_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends before it begins, which Python's own start would wait for, for ever."""
    monkeypatch.setattr(thread_module, "_BEGIN_SECONDS", 0.05)
    monkeypatch.setattr(DaemonThread, "_bootstrap", lambda _: None)
    with pytest.raises(RuntimeError, match="does not begin"):
        DaemonThread("late", lambda: None).start()


def test_a_thread_that_begins_too_late_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another may do its work by then."""
    monkeypatch.setattr(thread_module, "_BEGIN_SECONDS", 0.05)
    may_begin = threading.Event()
    ran = threading.Event()
    ended = threading.Event()
    begin = DaemonThread._bootstrap

    def late(thread: DaemonThread) -> None:
        may_begin.wait()
        begin(thread)
        ended.set()

    monkeypatch.setattr(DaemonThread, "_bootstrap", late)
    thread = DaemonThread("late", ran.set)
    with pytest.raises(RuntimeError, match="does not begin"):
        thread.start()
    may_begin.set()
    assert ended.wait(10)
    assert not ran.is_set()


@pytest.mark.parametrize("shortage", [MemoryError(), RuntimeError("can't allocate lock")])
def test_a_loop_begins_again_after_a_shortage(shortage: Exception) -> None:
    """With a line in the log, which names its thread; other failures are its own."""
    failures = iter([shortage, OSError("disk")])

    def loop() -> None:
        raise next(failures)

    with capture_logs() as lines, pytest.raises(OSError, match="disk"):
        outlive_shortages(loop)
    assert [(line["event"], line["thread"]) for line in lines] == [("thread_failed", "MainThread")]
