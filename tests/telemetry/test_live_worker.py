"""Threads that may hang."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rightsizer.io.worker import Crashed, Stuck, Worker

SOON = 0.02


class Desk:
    """Something that belongs to one thread."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.entered = 0
        self.left = threading.Semaphore(0)

    @contextmanager
    def enter(self) -> Iterator["Desk"]:
        """Sit down, and note who did."""
        self.entered += 1
        self.threads.append(threading.get_ident())
        yield self
        self.left.release()


def make(desk: Desk, *, patience_seconds: float = 60.0, maximum: int = 2) -> Worker[Desk, object]:
    """A worker at the desk."""
    return Worker(
        "test", desk.enter, abandon_after_seconds=patience_seconds, abandoned_maximum=maximum
    )


def in_time() -> float:
    """A deadline that is not meant to pass."""
    return time.monotonic() + 10


def soon() -> float:
    """A deadline that is meant to pass."""
    return time.monotonic() + SOON


def test_answers_come_from_one_thread() -> None:
    """All jobs run on the thread that entered the state, which leaves it on closing."""
    desk = Desk()
    worker = make(desk)
    seen = []
    for _ in range(3):
        assert worker.ask(lambda _: threading.get_ident())
        seen.append(worker.answer(in_time()))
    worker.close()
    assert worker.join(in_time())
    assert seen == desk.threads * 3
    assert threading.get_ident() not in seen
    assert desk.left.acquire(timeout=10)


def test_error_is_an_answer() -> None:
    """A job that raises leaves the worker fit for the next one."""
    worker = make(Desk())
    worker.ask(lambda _: 1 // 0)
    answer = worker.answer(in_time())
    assert isinstance(answer, Crashed)
    assert isinstance(answer.error, ZeroDivisionError)
    worker.ask(lambda _: "fine")
    assert worker.answer(in_time()) == "fine"
    worker.close()


def test_nothing_asked_is_an_error() -> None:
    """An answer without a question is the caller's mistake."""
    with pytest.raises(LookupError, match="asked for nothing"):
        make(Desk()).answer(in_time())


def test_stuck_job_refuses_the_next_until_it_is_back() -> None:
    """While a job hangs nothing is queued behind it; once it returns the worker goes on."""
    desk, gate = Desk(), threading.Event()
    worker = make(desk)
    worker.ask(lambda _: gate.wait())
    stuck = worker.answer(soon())
    assert isinstance(stuck, Stuck)
    assert stuck.seconds >= SOON
    assert not worker.ask(lambda _: "second")
    gate.set()
    assert worker.answer(in_time()) is True
    assert worker.ask(lambda _: "third")
    assert worker.answer(in_time()) == "third"
    assert desk.entered == 1
    worker.close()


def test_hung_thread_is_replaced_and_leaves_when_it_returns() -> None:
    """Past its patience the worker starts afresh; the old thread leaves its state by itself."""
    desk, gate = Desk(), threading.Event()
    worker = make(desk, patience_seconds=0.0)
    worker.ask(lambda _: gate.wait())
    assert isinstance(worker.answer(soon()), Stuck)
    assert worker.ask(lambda _: "fresh")
    assert worker.answer(in_time()) == "fresh"
    assert desk.entered == 2
    gate.set()
    assert desk.left.acquire(timeout=10)
    worker.close()
    assert worker.join(in_time())


def test_abandoned_threads_are_bounded() -> None:
    """When as many threads hang as are allowed, no more are started."""
    desk, gate = Desk(), threading.Event()
    worker = make(desk, patience_seconds=0.0, maximum=2)
    started = []
    for _ in range(6):
        started.append(worker.ask(lambda _: gate.wait()))
        assert isinstance(worker.stuck(), Stuck)
    assert started == [True, True, True, False, False, False]
    assert desk.entered <= 3
    gate.set()
    worker.close()
    assert worker.join(in_time())


def test_renewed_worker_counts_the_hung() -> None:
    """A new state for a worker whose thread hangs does not forget that thread."""
    first, second, gate = Desk(), Desk(), threading.Event()
    worker = make(first, maximum=0)
    worker.ask(lambda _: gate.wait())
    worker.renew(second.enter)
    assert not worker.ask(lambda _: "refused")
    gate.set()
    assert worker.join(in_time())
    assert worker.ask(lambda desk: desk)
    assert worker.answer(in_time()) is second
    worker.close()


def test_a_state_that_cannot_be_made_is_a_crash_and_tried_again() -> None:
    """It hangs in nothing: the answer comes at once, and the next job finds a state."""
    desk = Desk()
    troubles: list[BaseException] = [OSError("no driver"), SystemExit(3)]

    @contextmanager
    def enter() -> Iterator[Desk]:
        if troubles:
            raise troubles.pop(0)
        with desk.enter():
            yield desk

    worker: Worker[Desk, object] = Worker(
        "test", enter, abandon_after_seconds=60.0, abandoned_maximum=0
    )
    for trouble in tuple(troubles):
        assert worker.ask(lambda _: "unreached")
        assert worker.answer(in_time()) == Crashed(trouble)
    assert worker.ask(lambda _: "reached")
    assert worker.answer(in_time()) == "reached"
    worker.close()
    assert worker.join(in_time())
    assert (desk.entered, desk.left.acquire(timeout=10)) == (1, True)
