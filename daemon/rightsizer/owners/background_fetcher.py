"""Background thread that fetches answers of kubelet, container engine and job files."""

import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from rightsizer.io.worker import FetchResult, PollingThread
from rightsizer.model.values import CollectorOutcome
from rightsizer.owners.collector_settings import OwnerCollectorSettings

T = TypeVar("T")


class BackgroundFetcher(Generic[T]):
    """Last answer of a server that may be slow or absent; only the first one is waited for.

    A server that never existed is no failure: the node may have no kubelet.
    """

    def __init__(  # noqa: PLR0913 - a peer, and how it is asked.
        self,
        name: str,
        fetch: Callable[[], T],
        settings: OwnerCollectorSettings,
        *,
        interval_seconds: float | None = None,
        is_there: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start no query before the first call of `latest`.

        `fetch` returns the answer or raises; `is_there` is not called again once the server
        existed; `interval_seconds` overrides the settings'.
        """
        self.name = name
        self._fetch = fetch
        self._settings = settings
        self._now = now
        self._look_for = is_there
        self._was_there = False
        self._background = PollingThread(
            f"owners-{name}",
            self._attempt,
            interval_seconds=interval_seconds or settings.interval_seconds,
            hold_seconds=settings.hold_seconds,
            now=now,
        )
        self._wait_seconds = settings.first_wait_seconds
        self._has_tried = False
        self._last: FetchResult[T] | None = None
        self._hurried: float | None = None
        self.generation = 0
        """Incremented with every changed answer."""

    def latest(self) -> T | None:
        """Last valid answer."""
        # Once the server existed, its absence is a failure.
        self._was_there = self._was_there or self._look_for()
        if not self._was_there:
            return None
        answer = self._background.latest(self._wait_seconds)
        self._wait_seconds = 0.0
        if not self._has_tried and not answer.duration_seconds:
            return None  # The first attempt is running.
        former = self._last.value if self._last else None
        self._last = answer
        if answer.value is not former and answer.value != former:
            self.generation += 1
        return answer.value

    def refresh_soon(self) -> None:
        """Query again soon because the answer is incomplete, limited by the minimum interval."""
        now = self._now()
        if self._hurried is None or now - self._hurried >= self._settings.floor_seconds:
            self._hurried = now
            self._background.refresh()

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """Outcome of the last attempt; empty if there was none."""
        return {} if self._last is None else {self.name: self._last.outcome}

    def close(self) -> None:
        """Stop the thread."""
        self._background.close()

    def _attempt(self) -> T:
        try:
            return self._fetch()
        finally:
            self._has_tried = True
