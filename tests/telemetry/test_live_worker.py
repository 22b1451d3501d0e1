"""Worker threads that may hang."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from rightsizer.io import thread as thread_module
from rightsizer.io import worker as worker_module
from rightsizer.io.thread import DaemonThread
from rightsizer.io.worker import Crashed, Stuck, Worker
from thread_limit import no_more_threads

SOON = 0.02


class ThreadContext:
    """A context that belongs to one thread."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.entered = 0
        self.left = threading.Semaphore(0)

    @contextmanager
    def enter(self) -> Iterator["ThreadContext"]:
        """Record the thread that enters."""
        self.entered += 1
        self.threads.append(threading.get_ident())
        yield self
        self.left.release()


def make(
    context: ThreadContext, *, patience_seconds: float = 60.0, maximum: int = 2
) -> Worker[ThreadContext, object]:
    """A worker that enters the context."""
    return Worker(
        "test", context.enter, abandon_after_seconds=patience_seconds, abandoned_maximum=maximum
    )


def in_time() -> float:
    """A deadline that is not meant to pass."""
    return time.monotonic() + 10


def soon() -> float:
    """A deadline that is meant to pass."""
    return time.monotonic() + SOON


def test_answers_come_from_one_thread() -> None:
    """All jobs run on the thread that entered the context, which exits it on closing."""
    context = ThreadContext()
    worker = make(context)
    seen = []
    for _ in range(3):
        assert worker.ask(lambda _: threading.get_ident())
        seen.append(worker.answer(in_time()))
    worker.close()
    assert worker.join(in_time())
    assert seen == context.threads * 3
    assert threading.get_ident() not in seen
    assert context.left.acquire(timeout=10)


def test_error_is_an_answer() -> None:
    """After a job that raises, the worker runs the next one."""
    worker = make(ThreadContext())
    worker.ask(lambda _: 1 // 0)
    answer = worker.answer(in_time())
    assert isinstance(answer, Crashed)
    assert isinstance(answer.error, ZeroDivisionError)
    worker.ask(lambda _: "fine")
    assert worker.answer(in_time()) == "fine"
    worker.close()


def test_nothing_asked_is_an_error() -> None:
    """Waiting without a submitted job is an error of the caller."""
    with pytest.raises(LookupError, match="asked for nothing"):
        make(ThreadContext()).answer(in_time())


def test_thread_without_memory_is_an_answer_and_the_next_job_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker neither waits for it, nor counts it as abandoned."""
    worker = make(ThreadContext(), maximum=0)
    with monkeypatch.context() as short_of_memory:
        short_of_memory.setattr(thread_module, "_BEGIN_SECONDS", 0.05)
        short_of_memory.setattr(DaemonThread, "_bootstrap", lambda _: None)
        assert worker.ask(lambda _: "lost")
    answer = worker.answer(in_time())
    assert isinstance(answer, Crashed)
    assert "does not begin" in str(answer.error)
    assert worker.ask(lambda _: "fine")
    assert worker.answer(in_time()) == "fine"
    worker.close()


def test_answer_without_memory_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is over, and its thread does the next one."""

    def short_of_memory(_: BaseException) -> Crashed:
        raise MemoryError

    worker = make(ThreadContext())
    with monkeypatch.context() as patched, capture_logs():
        patched.setattr(worker_module, "Crashed", short_of_memory)
        worker.ask(lambda _: 1 // 0)
        answer = worker.answer(in_time())
    assert isinstance(answer, Crashed)
    assert isinstance(answer.error, MemoryError)
    worker.ask(lambda _: threading.current_thread().name)
    assert worker.answer(in_time()) == "test"
    worker.close()


def test_stuck_job_refuses_the_next_until_it_is_back() -> None:
    """Nothing is queued behind a hanging job; once it returns the worker continues."""
    context = ThreadContext()
    gate = threading.Event()
    worker = make(context)
    worker.ask(lambda _: gate.wait())
    stuck = worker.answer(soon())
    assert isinstance(stuck, Stuck)
    assert stuck.seconds >= SOON
    assert not worker.ask(lambda _: "second")
    gate.set()
    assert worker.answer(in_time()) is True
    assert worker.ask(lambda _: "third")
    assert worker.answer(in_time()) == "third"
    assert context.entered == 1
    worker.close()


def test_hung_thread_is_replaced_and_leaves_when_it_returns() -> None:
    """After a timeout the worker starts a new thread; the old one exits its context by itself."""
    context = ThreadContext()
    gate = threading.Event()
    worker = make(context, patience_seconds=0.0)
    worker.ask(lambda _: gate.wait())
    assert isinstance(worker.answer(soon()), Stuck)
    assert worker.ask(lambda _: "fresh")
    assert worker.answer(in_time()) == "fresh"
    assert context.entered == 2
    gate.set()
    assert context.left.acquire(timeout=10)
    worker.close()
    assert worker.join(in_time())


def test_abandoned_threads_are_bounded() -> None:
    """When the allowed number of threads hangs, no more are started."""
    context = ThreadContext()
    gate = threading.Event()
    worker = make(context, patience_seconds=0.0, maximum=2)
    started = []
    for _ in range(6):
        started.append(worker.ask(lambda _: gate.wait()))
        assert isinstance(worker.stuck(), Stuck)
    assert started == [True, True, True, False, False, False]
    assert context.entered <= 3
    gate.set()
    worker.close()
    assert worker.join(in_time())


def test_renewed_worker_counts_the_hung() -> None:
    """A new context for a worker with a hanging thread keeps counting that thread."""
    first = ThreadContext()
    second = ThreadContext()
    gate = threading.Event()
    worker = make(first, maximum=0)
    worker.ask(lambda _: gate.wait())
    worker.renew(second.enter)
    assert not worker.ask(lambda _: "refused")
    gate.set()
    assert worker.join(in_time())
    assert worker.ask(lambda context: context)
    assert worker.answer(in_time()) is second
    worker.close()


def test_a_state_that_cannot_be_made_is_a_crash_and_tried_again() -> None:
    """It is not a hang: the answer comes at once, and the next job may get a context."""
    context = ThreadContext()
    troubles: list[BaseException] = [OSError("no driver"), SystemExit(3)]

    @contextmanager
    def enter() -> Iterator[ThreadContext]:
        if troubles:
            raise troubles.pop(0)
        with context.enter():
            yield context

    worker: Worker[ThreadContext, object] = Worker(
        "test", enter, abandon_after_seconds=60.0, abandoned_maximum=0
    )
    for trouble in tuple(troubles):
        assert worker.ask(lambda _: "unreached")
        assert worker.answer(in_time()) == Crashed(trouble)
    assert worker.ask(lambda _: "reached")
    assert worker.answer(in_time()) == "reached"
    worker.close()
    assert worker.join(in_time())
    assert (context.entered, context.left.acquire(timeout=10)) == (1, True)


def test_a_thread_that_cannot_start_is_an_answer_and_hangs_in_nothing() -> None:
    """At a limit of threads a job fails at once; none counts as abandoned, and the next starts."""
    worker = make(ThreadContext(), patience_seconds=0.0, maximum=1)
    with no_more_threads():
        for _ in range(3):
            assert worker.ask(lambda _: "never")
            answer = worker.answer(soon())
            assert isinstance(answer, Crashed)
            assert "can't start new thread" in str(answer.error)
        worker.renew(ThreadContext().enter)
    assert worker.abandoned == 0
    assert worker.ask(lambda _: "fine")
    assert worker.answer(in_time()) == "fine"
    worker.close()
    assert worker.join(in_time())
