"""Worker threads that may hang: one job at a time, answers awaited with a deadline."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

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
    """The job raised."""

    error: BaseException


class Worker(Generic[S, T]):
    """A thread with a state of its own, replaced when it hangs for too long.

    The thread enters the state before its first job and leaves it after its last, so that what
    the state owns is touched by that thread alone. A thread that hangs is left behind; if it
    comes back, it leaves its state and ends. All are daemons: none keeps the process alive.
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

        Args:
            name: Of its threads.
            enter: Makes the state that a thread works on.
            abandon_after_seconds: How long a job may give no sign that it gets on.
            abandoned_maximum: How many threads may be left behind in a job.
            moved_at: When the state last gave such a sign, on the monotonic clock; another
                thread asks. Without it the start of the job is the only one.
        """
        self._name = name
        self._enter = enter
        self._abandon_after_seconds = abandon_after_seconds
        self._abandoned_maximum = abandoned_maximum
        self._moved_at = moved_at
        self._lane: _WorkerThread[S, T] | None = None
        self._last: _WorkerThread[S, T] | None = None
        self._left: list[_WorkerThread[S, T]] = []

    def ask(self, job: Callable[[S], T]) -> bool:
        """Start a job, unless a former one hangs; whether it was started.

        An answer that nobody has fetched is dropped.
        """
        if self._lane is not None and self._lane.is_busy:
            still_seconds = self._lane.still_seconds(self._moved_at)
            if still_seconds < self._abandon_after_seconds or not self._may_abandon(1):
                return False
            self.close()
        if self._lane is None:
            if not self._may_abandon(0):
                return False
            self._lane = _WorkerThread(self._name, self._enter)
        self._last = self._lane
        self._lane.post(job)
        return True

    def answer(self, deadline: float) -> T | Stuck[S] | Crashed:
        """The answer to the last job, waited for until a point on the monotonic clock.

        Raises:
            LookupError: nothing was asked.
        """
        job = self._last.job if self._last is not None else None
        if job is None:
            raise LookupError(f"worker '{self._name}' was asked for nothing")
        try:
            error = job.exception(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return self.stuck()
        return job.result() if error is None else Crashed(error)

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


class _WorkerThread(Generic[S, T]):
    """One thread of a worker, with the job that it was given last."""

    def __init__(self, name: str, enter: Callable[[], AbstractContextManager[S]]) -> None:
        self.state: S | None = None
        self.job: Future[T] | None = None
        self._posted = 0.0
        self._enter = enter
        self._jobs: SimpleQueue[tuple[Callable[[S], T], Future[T]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_busy(self) -> bool:
        return self.job is not None and not self.job.done()

    @property
    def busy_seconds(self) -> float:
        return time.monotonic() - self._posted

    def still_seconds(self, moved_at: Callable[[S], float]) -> float:
        moved = 0.0 if self.state is None else moved_at(self.state)
        return time.monotonic() - max(self._posted, moved)

    def post(self, job: Callable[[S], T]) -> None:
        self.job = Future()
        self._posted = time.monotonic()
        self._jobs.put((job, self.job))

    def end(self) -> None:
        self._jobs.put(None)

    def join(self, deadline: float) -> bool:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def _work(self) -> None:
        with self._enter() as state:
            self.state = state
            while (item := self._jobs.get()) is not None:
                job, future = item
                try:
                    future.set_result(job(state))
                except Exception as error:  # noqa: BLE001 - whoever asked gets it as the answer.
                    future.set_exception(error)
