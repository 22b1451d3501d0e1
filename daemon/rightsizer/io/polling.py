"""Values that a background thread fetches at intervals."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rightsizer.io.worker import Crashed, Stuck, Worker
from rightsizer.model.snapshot import CollectorOutcome

T = TypeVar("T")


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
    """Fetches on a thread of its own whenever that is due and somebody asks for the value.

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
        """Fetches nothing before it is asked.

        Args:
            name: Of the thread.
            fetch: Gives the value or raises; called on the thread alone.
            interval_seconds: From the start of one fetch to the next.
            hold_seconds: How long a value stands without a newer one.
            now: The monotonic clock.
        """
        self._name = name
        self._interval_seconds = interval_seconds
        self._hold_seconds = hold_seconds
        self._now = now
        self._fetch = fetch
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

    @property
    def name(self) -> str:
        """What it is called among the collectors."""
        return self._name

    def latest(self, wait_seconds: float = 0.0) -> FetchResult[T]:
        """What stands now; starts the next fetch when it is due.

        Args:
            wait_seconds: How long to wait for a fetch that is under way.
        """
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
        """The value and when it was there: it may be a while before somebody asks for it."""
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
