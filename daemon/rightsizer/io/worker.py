"""Threads with a deadline, threads that poll in the background, and acts that may each fail."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Generic, TypeVar

from rightsizer.model.frozen import dataclass
from rightsizer.model.snapshot import CollectorOutcome

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stuck(Generic[S]):
    """The job is still under way."""

    state: S | None
    """What its thread works on; `None` before it has that."""
    seconds: float
    """Since the job was asked for."""
    still_seconds: float = 0.0
    """Since there was a last sign that it gets on."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The job raised, or the state that it works on could not be made."""

    error: BaseException


class Worker(Generic[S, T]):
    """A thread with a state of its own, replaced when it hangs for too long.

    The state is entered before its first job and left after its last, and what it owns is touched
    by one thread at a time. A thread that hangs is left behind; if it comes back, the state is
    left and it ends. All are daemons: none keeps the process alive.
    Everything here is for one caller's thread, but for `join`.
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
        """A worker that starts its thread with its first job.

        `enter` makes the state that a thread works on. `abandon_after_seconds`: how long a job may
        give no sign that it gets on; `abandoned_maximum`: how many threads may be left behind in a
        job. `moved_at`: when the state last gave such a sign, on the monotonic clock, asked by
        another thread; without it the start of the job is the only one.
        """
        self._name, self._enter, self._moved_at = name, enter, moved_at
        self._abandon_after_seconds = abandon_after_seconds
        self._abandoned_maximum = abandoned_maximum
        self._lane: _WorkerThread[S, T] | None = None
        self._last: _WorkerThread[S, T] | None = None
        self._left: list[_WorkerThread[S, T]] = []

    def ask(self, job: Callable[[S], T]) -> bool:
        """Start a job, unless a former one hangs; whether it was started.

        An answer that was not fetched is dropped.
        """
        if (prepared := self.prepare(job)) is not None:
            prepared.start()
        return prepared is not None

    def prepare(self, job: Callable[[S], T]) -> "WorkerJob[S, T] | None":
        """A job that has yet to be started, or run by another thread; `None` as `ask` refuses."""
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
        """The answer to the last job, waited for until a point on the monotonic clock.

        Raises:
            LookupError: nothing was asked.
        """
        job = self._last.job if self._last is not None else None
        if job is None:
            raise LookupError(f"worker '{self._name}' was asked for nothing")
        answer = job.answer(max(0.0, deadline - time.monotonic()))
        return self.stuck() if answer is None else answer[0]

    def stuck(self) -> Stuck[S]:
        """Where the last job is, and since when."""
        if self._last is None:
            return Stuck(None, 0.0)
        last = self._last
        return Stuck(last.state, last.busy_seconds, last.still_seconds(self._moved_at))

    def renew(self, enter: Callable[[], AbstractContextManager[S]]) -> None:
        """Work on another state from the next job on."""
        self.close()
        self._enter = enter

    def close(self) -> None:
        """Let the thread leave its state and end, after the job under way."""
        if self._lane is not None:
            self._lane.end()
            self._left.append(self._lane)
            self._lane = None

    @property
    def abandoned(self) -> int:
        """How many threads were left behind in a job that hangs."""
        return sum(lane.is_busy for lane in self._left)

    def join(self, deadline: float) -> bool:
        """Wait for the threads of a closed worker; whether all have ended in time."""
        ended = [lane.join(deadline) for lane in tuple(self._left)]
        return all(ended)

    def _may_abandon(self, more: int) -> bool:
        self._left = [lane for lane in self._left if lane.is_alive]
        return self.abandoned + more <= self._abandoned_maximum


class WorkerJob(Generic[S, T]):
    """Something to do with a worker's state, and what came of it; lighter than a future."""

    __slots__ = ("_act", "_answer", "_lane", "_pending")

    def __init__(self, act: Callable[[S], T], lane: "_WorkerThread[S, T]") -> None:
        self._act, self._lane = act, lane
        self._answer: tuple[T | Crashed] | None = None
        self._pending = threading.Lock()
        self._pending.acquire()

    def start(self) -> None:
        """Have the worker's own thread do it."""
        self._lane.post(self)

    def run(self) -> None:
        """Do it on this thread; whatever is raised is the answer."""
        try:
            with self._lane.in_use:
                answer: T | Crashed = self._act(self._lane.entered())
        except BaseException as error:  # noqa: BLE001 - the caller gets it as the answer.
            answer = Crashed(error)
        self._answer = (answer,)
        self._lane.finish()
        self._pending.release()

    @property
    def is_done(self) -> bool:
        """Whether there is an answer."""
        return self._answer is not None

    def answer(self, timeout_seconds: float) -> tuple[T | Crashed] | None:
        """The answer by itself in a tuple; `None` where it does not come in time."""
        if self._answer is None:
            self.wait(timeout_seconds)
        return self._answer

    def wait(self, timeout_seconds: float) -> None:
        """Wait until it has ended, and the state is left where this was the last."""
        if self._pending.acquire(timeout=timeout_seconds):
            self._pending.release()


class _WorkerThread(Generic[S, T]):
    """A state of a worker, its last job, and a thread once one is needed."""

    def __init__(self, name: str, enter: Callable[[], AbstractContextManager[S]]) -> None:
        self.state: S | None = None
        self.job: WorkerJob[S, T] | None = None
        self.in_use = threading.Lock()
        """Held by the thread that works on the state."""
        self._posted, self._is_ended = 0.0, False
        self._enter, self._entered = enter, contextlib.ExitStack()
        self._found: list[S] = []
        self._jobs: SimpleQueue[WorkerJob[S, T] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @property
    def is_alive(self) -> bool:
        return self.is_busy or self._thread.is_alive()

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
            # Within a job: a state that cannot be made is an answer, and tried again.
            self._found.append(self._entered.enter_context(self._enter()))
            self.state = self._found[0]
        return self._found[0]

    def post(self, job: WorkerJob[S, T] | None) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._jobs.put(job)

    def end(self) -> None:
        self._is_ended = True
        # What another thread does for it ends there.
        if self._thread.ident is not None or not self.is_busy:
            self.post(None)

    def join(self, deadline: float) -> bool:
        if self._thread.ident is not None:
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
        while (job := self._jobs.get()) is not None:
            job.run()
        self.finish()


@dataclass(frozen=True, slots=True)
class FetchResult(Generic[T]):
    """What stands of a fetched value."""

    value: T | None
    """The last that was fetched; `None` before the first and past its time."""
    error: str | None = None
    """Why the last attempt failed, `None` where it did not."""
    duration_seconds: float = 0.0
    """Of the last attempt that ended."""

    @property
    def outcome(self) -> CollectorOutcome:
        """How the last attempt went."""
        return CollectorOutcome(self.error is None, self.duration_seconds)


class PollingThread(Generic[T]):
    """Fetches on a thread of its own whenever that is due and the value is asked for.

    A fetch that hangs costs its own thread alone; after a failure the former value holds until
    its time is up. Everything here is for one caller's thread.
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
        """Fetches nothing before it is asked; a value holds for a time without a newer one."""
        self.name, self._fetch, self._now = name, fetch, now
        self._interval_seconds, self._hold_seconds = interval_seconds, hold_seconds
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
        """What stands now; starts the next fetch when it is due, and may wait for one."""
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
        """Fetch at the next chance, due or not."""
        self._due = self._now()

    def close(self) -> None:
        """Let the thread end; one that hangs is left behind."""
        self._worker.close()

    def _timed(self, _: None) -> tuple[T, float]:
        """The value and when it was there: it may be asked for later."""
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
                # Past its patience, the worker tries the same on a fresh thread.
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
    """Do all of it; the first failure, whatever it is, is raised after the last."""
    failures = []
    for act in acts:
        try:
            act()
        except Exception as failure:  # noqa: BLE001 - one act's fault is its own.
            failures.append(failure)
    if failures:
        raise failures[0]
