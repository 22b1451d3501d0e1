"""Threads with a deadline, threads that poll in the background, and independent calls."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

from msgspec import Struct

from rightsizer.io.thread import DaemonThread, outlive_shortages
from rightsizer.model.snapshot import CollectorOutcome

_STOP_SECONDS: Final = 5.0
S = TypeVar("S")
T = TypeVar("T")


class Stuck(Struct, Generic[S], frozen=True):
    """Job that is still running."""

    state: S | None
    """State that its thread works on; `None` before it exists."""
    seconds: float
    """Since the job was requested."""
    still_seconds: float = 0.0
    """Since the last sign of progress."""


class Crashed(Struct, frozen=True):
    """Job that raised, or could not create its state."""

    error: BaseException


_WITHOUT_MEMORY: Final = Crashed(MemoryError())


class Worker(Generic[S, T]):
    """Thread with its own state, replaced when it hangs for too long.

    The state is entered before the first job and left after the last, and only one thread at a
    time uses it. A thread that hangs is abandoned; if it returns, it leaves the state and ends.
    All are daemon threads, so none keeps the process alive.
    Not thread-safe, except for `join`.
    """

    def __init__(
        self,
        name: str,
        enter: Callable[[], AbstractContextManager[S]],
        *,
        abandon_after_seconds: float,
        abandoned_maximum: int,
        moved_at: Callable[[S], float] = lambda _: 0.0,
    ) -> None:
        """Create a worker; its thread starts with the first job.

        `enter` creates a thread's state. `abandon_after_seconds` is the maximum time without
        progress, `abandoned_maximum` the number of threads that may be abandoned. `moved_at`
        returns the monotonic time of the state's last progress, and is called by another thread; by
        default only the start of a job counts.
        """
        self._name = name
        self._enter = enter
        self._moved_at = moved_at
        self._abandon_after_seconds = abandon_after_seconds
        self._abandoned_maximum = abandoned_maximum
        self._lane: _WorkerThread[S, T] | None = None
        self._last: _WorkerThread[S, T] | None = None
        self._left: list[_WorkerThread[S, T]] = []

    def ask(self, job: Callable[[S], T]) -> bool:
        """Start a job unless the previous one hangs; return whether it was started.

        An answer not yet fetched is dropped.
        """
        if (prepared := self.prepare(job)) is not None:
            prepared.start()
        return prepared is not None

    def prepare(self, job: Callable[[S], T]) -> "WorkerJob[S, T] | None":
        """Job to be started later, or run by another thread; `None` if `ask` would refuse."""
        if self._lane is not None and self._lane.is_busy:
            still_seconds = self._lane.still_seconds(self._moved_at)
            if still_seconds < self._abandon_after_seconds or not self._may_abandon(1):
                return None
            self.close()
        if self._lane is None:
            if not self._may_abandon(0):
                return None
            self._lane = _WorkerThread(self._name, self._enter)
        self._last = self._lane
        return self._lane.prepare(job)

    def answer(self, deadline: float) -> T | Stuck[S] | Crashed:
        """Answer of the last job, awaited until a monotonic time.

        Raises:
            LookupError: no job was requested.
        """
        job = self._last.job if self._last is not None else None
        if job is None:
            raise LookupError(f"worker '{self._name}' was asked for nothing")
        answer = job.answer(max(0.0, deadline - time.monotonic()))
        return self.stuck() if answer is None else answer[0]

    def stuck(self) -> Stuck[S]:
        """Progress of the last job."""
        if self._last is None:
            return Stuck(None, 0.0)
        last = self._last
        return Stuck(last.state, last.busy_seconds, last.still_seconds(self._moved_at))

    def renew(self, enter: Callable[[], AbstractContextManager[S]]) -> None:
        """Replace the state from the next job on."""
        self.close()
        self._enter = enter

    def close(self) -> None:
        """Let the thread leave its state and end after the current job."""
        if self._lane is not None:
            self._lane.end()
            self._left.append(self._lane)
            self._lane = None

    @property
    def abandoned(self) -> int:
        """Number of abandoned threads that still hang in a job."""
        return sum(lane.is_busy for lane in self._left)

    def join(self, deadline: float) -> bool:
        """Wait for the threads of a closed worker; return whether all ended in time."""
        ended = [lane.join(deadline) for lane in tuple(self._left)]
        return all(ended)

    def _may_abandon(self, more: int) -> bool:
        self._left = [lane for lane in self._left if lane.is_alive]
        return self.abandoned + more <= self._abandoned_maximum


class WorkerJob(Generic[S, T]):
    """Job on a worker's state, with its answer; lighter than a future."""

    __slots__ = ("_act", "_answer", "_lane", "_pending", "is_done")

    def __init__(self, act: Callable[[S], T], lane: "_WorkerThread[S, T]") -> None:
        self._act = act
        self._lane = lane
        self._answer: T | Crashed = _WITHOUT_MEMORY
        self.is_done = False
        """Whether there is an answer."""
        self._pending = threading.Lock()
        self._pending.acquire()

    def start(self) -> None:
        """Run it on the worker's own thread; if the process may have none, that is the answer."""
        try:
            self._lane.post(self)
        except (MemoryError, RuntimeError) as error:
            self._answer = Crashed(error)
            self._finish()

    def run(self) -> None:
        """Run it on this thread; any exception becomes the answer."""
        try:
            with self._lane.in_use:
                self._answer = self._act(self._lane.entered())
        except BaseException as error:  # noqa: BLE001 - returned to the caller.
            self._answer = Crashed(error)
        finally:  # Even where there was no memory for the answer.
            self._finish()

    def answer(self, timeout_seconds: float) -> tuple[T | Crashed] | None:
        """Answer wrapped in a tuple; `None` if not available in time."""
        if not self.is_done:
            self.wait(timeout_seconds)
        return (self._answer,) if self.is_done else None

    def wait(self, timeout_seconds: float) -> None:
        """Wait for the end of the job, and of the state if it was the last."""
        if self._pending.acquire(timeout=timeout_seconds):
            self._pending.release()

    def _finish(self) -> None:
        self.is_done = True
        try:
            self._lane.finish()
        finally:
            self._pending.release()


class _WorkerThread(Generic[S, T]):
    """State of a worker, its last job, and a thread started on demand."""

    def __init__(self, name: str, enter: Callable[[], AbstractContextManager[S]]) -> None:
        self.state: S | None = None
        self.job: WorkerJob[S, T] | None = None
        self.in_use = threading.Lock()
        """Held by the thread that uses the state."""
        self._posted = 0.0
        self._is_ended = False
        self._name = name
        self._enter = enter
        self._entered = contextlib.ExitStack()
        self._found: list[S] = []
        self._jobs: SimpleQueue[WorkerJob[S, T] | None] = SimpleQueue()
        self._thread: DaemonThread | None = None

    @property
    def is_alive(self) -> bool:
        return self.is_busy or (self._thread is not None and self._thread.is_alive())

    @property
    def is_busy(self) -> bool:
        return self.job is not None and not self.job.is_done

    @property
    def busy_seconds(self) -> float:
        return time.monotonic() - self._posted

    def still_seconds(self, moved_at: Callable[[S], float]) -> float:
        moved = 0.0 if self.state is None else moved_at(self.state)
        return time.monotonic() - max(self._posted, moved)

    def prepare(self, act: Callable[[S], T]) -> WorkerJob[S, T]:
        self.job = WorkerJob(act, self)
        self._posted = time.monotonic()
        return self.job

    def entered(self) -> S:
        if not self._found:
            # Inside a job, so that a failed state becomes the answer and is retried.
            self._found.append(self._entered.enter_context(self._enter()))
            self.state = self._found[0]
        return self._found[0]

    def post(self, job: WorkerJob[S, T] | None) -> None:
        if self._thread is None:
            thread = DaemonThread(self._name, self._work)
            thread.start()
            self._thread = thread
        self._jobs.put(job)

    def end(self) -> None:
        self._is_ended = True
        # A job run by another thread ends there.
        if self._thread is not None or not self.is_busy:
            # If the process may have no more threads, the state ends with it.
            with contextlib.suppress(MemoryError, RuntimeError):
                self.post(None)

    def join(self, deadline: float) -> bool:
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        elif self.job is not None:
            self.job.wait(max(0.0, deadline - time.monotonic()))
        return not self.is_alive

    def finish(self) -> None:
        """Leave the state after the last job."""
        if self._is_ended:
            with self.in_use:
                self._entered.close()

    def _work(self) -> None:
        outlive_shortages(self._run_jobs)
        self.finish()

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()


class FetchResult(Struct, Generic[T], frozen=True):
    """Current value of a polled source."""

    value: T | None
    """Last fetched value; `None` before the first and after it expired."""
    error: str | None = None
    """Why the last attempt failed, or `None`."""
    duration_seconds: float = 0.0
    """Duration of the last completed attempt."""

    @property
    def outcome(self) -> CollectorOutcome:
        """Outcome of the last attempt."""
        failure = self.error if self.duration_seconds else None  # Else there was none yet.
        return CollectorOutcome(self.error is None, self.duration_seconds, failure)


class TaskThread:
    """Thread for one task at a time; subclasses watch the event that asks a task to end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a task is under way."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """End the task under way, and wait for it for some seconds."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _begin(self, task: Callable[..., None], *arguments: object) -> None:
        self._thread = DaemonThread(self._name, task, *arguments)
        self._thread.start()


class PollingThread(Generic[T]):
    """Fetches a value on its own thread when it is due and requested.

    A fetch that hangs blocks only its own thread; after a failure the previous value remains
    valid until it expires. Not thread-safe.
    """

    def __init__(
        self,
        name: str,
        fetch: Callable[[], T],
        *,
        interval_seconds: float,
        hold_seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Fetch nothing before the first request; a value expires without a newer one."""
        self.name = name
        self._fetch = fetch
        self._now = now
        self._interval_seconds = interval_seconds
        self._hold_seconds = hold_seconds
        self._duration_seconds = 0.0
        self._worker: Worker[None, tuple[T, float]] = Worker(
            name,
            contextlib.nullcontext,
            abandon_after_seconds=max(60.0, 4 * interval_seconds),
            abandoned_maximum=1,
        )
        self._is_waiting = False
        self._due = now()
        self._fetched_at: float | None = None
        self._last: FetchResult[T] = FetchResult(None, "nothing was fetched yet")

    def latest(self, wait_seconds: float = 0.0) -> FetchResult[T]:
        """Current value; starts the next fetch when due, optionally waiting for it."""
        if self._is_waiting:
            self._take(0.0)
        now = self._now()
        if not self._is_waiting and now >= self._due:
            self._is_waiting = self._worker.ask(self._timed)
            self._due = now + self._interval_seconds
        if self._is_waiting and wait_seconds > 0:
            self._take(wait_seconds)
        if self._fetched_at is not None and self._now() - self._fetched_at > self._hold_seconds:
            self._fetched_at = None
            self._last = FetchResult(None, self._last.error or "it is too old", 0.0)
        return self._last

    def refresh(self) -> None:
        """Fetch on the next request, due or not."""
        self._due = self._now()

    def close(self) -> None:
        """Stop the thread; abandon it if it hangs."""
        self._worker.close()

    def _timed(self, _: None) -> tuple[T, float]:
        """Fetch the value with its time, since it may be collected later."""
        started = time.perf_counter()
        try:
            return self._fetch(), self._now()
        finally:
            self._duration_seconds = time.perf_counter() - started

    def _take(self, wait_seconds: float) -> None:
        answer = self._worker.answer(time.monotonic() + wait_seconds)
        if isinstance(answer, Stuck):
            if answer.seconds > self._interval_seconds:
                error = f"no answer within {self._interval_seconds:.0f} s"
                self._last = FetchResult(self._last.value, error, answer.seconds)
                # When the next fetch is due, the worker may retry on a new thread.
                if self._now() >= self._due:
                    self._is_waiting = self._worker.ask(self._timed) or self._is_waiting
            return
        self._is_waiting = False
        if isinstance(answer, Crashed):
            error = str(answer.error) or repr(answer.error)
            self._last = FetchResult(self._last.value, error, self._duration_seconds)
        else:
            value, self._fetched_at = answer
            self._last = FetchResult(value, None, self._duration_seconds)


def attempt_all(acts: Iterable[Callable[[], object]]) -> None:
    """Call all; raise the first failure at the end."""
    failures = []
    for act in acts:
        try:
            act()
        except Exception as failure:  # noqa: BLE001 - the others must still run.
            failures.append(failure)
    if failures:
        raise failures[0]
