"""The store: range and instant queries that are whole, within limits, and matched as told."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from rightsizer.domain.errors import StoreError, StoreLimitError
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.fleet.prometheus.answer import Answer, parsed
from rightsizer.fleet.prometheus.endpoint import Endpoint
from rightsizer.fleet.prometheus.identity import Identity, identified
from rightsizer.fleet.prometheus.join import joined
from rightsizer.fleet.prometheus.limits import Limit, LimitKind
from rightsizer.fleet.prometheus.matchers import Matchers
from rightsizer.fleet.prometheus.span import Span
from rightsizer.fleet.prometheus.use import StoreUse
from rightsizer.fleet.settings import StoreSettings
from rightsizer.fleet.store import Sampled

__all__ = ["PrometheusStore"]

_WHOLE: Final = (
    # Thanos: replicas once, and nothing rather than a part.
    ("dedup", "true"),
    ("partial_response", "false"),
    # A cluster of VictoriaMetrics: the same.
    ("deny_partial_response", "1"),
    # VictoriaMetrics shifts times to fit its cache and holds back the newest 30 s otherwise.
    ("nocache", "1"),
)
"""Each store takes its own and ignores the others'."""


class PrometheusStore:
    """A `Store` over HTTP; for many threads.

    Args:
        settings: Where it is, who asks, and how patiently.
        matchers: Label matchers that every selector of every query gets, as `cluster="paris"`.
        sleep: Waits between tries; where it returns true, there are no more.
        clock: Monotonic seconds, to measure how long a store takes.
        jitter: A random number from 0 to 1.

    Raises:
        ValueError: the address or the matchers cannot be used.
    """

    def __init__(
        self,
        settings: StoreSettings,
        matchers: str = "",
        *,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._matchers = Matchers.parse(matchers)
        self._clock = clock
        self._endpoint = Endpoint(settings, sleep=sleep, clock=clock, jitter=jitter)
        self._span = Span()
        self._warnings: set[str] = set()
        self._slow = 0
        self._lock = threading.Lock()

    @property
    def use(self) -> StoreUse:
        """What it was asked for so far."""
        return self._endpoint.meter.use

    @property
    def warnings(self) -> tuple[str, ...]:
        """What it said of queries whose answers were whole, each once."""
        with self._lock:
            return tuple(sorted(self._warnings))

    def identity(self) -> Identity:
        """Which store it is, as far as it tells."""
        return identified(self._endpoint)

    def close(self) -> None:
        """Let go of idle connections."""
        self._endpoint.close()

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[Sampled]:
        """As in `Store`."""
        query = self._matchers.merge(promql)
        found: list[Sequence[Sampled]] = []
        span, was_refused = self._span.points(step), False
        begin, left = start, (end - start) // step + 1
        while left > 0:
            points = min(span, left)
            answer = self._stretch(query, begin, points, step)
            if isinstance(answer, Limit):
                if points == 1:
                    raise self._too_much(answer, query)
                self._endpoint.meter.add(StoreUse(halvings=1))
                span, was_refused = (points + 1) // 2, True
                continue
            self._span.succeed(step, points, was_refused=was_refused)
            found.append(answer)
            begin, left = begin + points * step, left - points
        return joined(found)

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[Sampled]:
        """As in `Store`; a range selector gives the samples as they were scraped."""
        query = self._matchers.merge(promql)
        answer = self._series("/api/v1/query", query, (("time", _seconds(time)),), 0)
        if isinstance(answer, Limit):
            raise self._too_much(answer, query)
        return answer

    def _stretch(
        self, query: str, begin: Nanoseconds, points: int, step: Nanoseconds
    ) -> Sequence[Sampled] | Limit:
        times = (
            ("start", _seconds(begin)),
            ("end", _seconds(begin + (points - 1) * step)),
            ("step", _seconds(step)),
        )
        return self._series("/api/v1/query_range", query, times, step)

    def _series(
        self, path: str, query: str, times: Sequence[tuple[str, str]], step: Nanoseconds
    ) -> Sequence[Sampled] | Limit:
        timeout = ("timeout", f"{self._settings.timeout_seconds:g}s")
        raw = self._endpoint.ask(path, (("query", query), *times, timeout, *_WHOLE))
        if isinstance(raw, Limit):
            self._count_slow(raw)
            if raw.kind is LimitKind.TEXT:
                raise self._too_much(raw, query)
            return raw
        with self._lock:
            self._slow = 0
        # Whose samples are no numbers has none.
        return [each for each in self._whole(raw, step).series if each.values]

    def _whole(self, raw: bytes, step: Nanoseconds) -> Answer:
        began = self._clock()
        try:
            answer = parsed(raw, step)
        except ValueError as error:
            said = self._endpoint.quoted(str(error))
            raise StoreError(f"{self._endpoint.name} answered with {said}") from None
        if answer.partial is not None:
            raise StoreError(
                f"{self._endpoint.name} answered with a part of what it has: "
                f"{self._endpoint.quoted(answer.partial)}; see that all of its parts are up, as "
                "nothing is concluded from a part"
            )
        samples = sum(len(each.values) for each in answer.series)
        spent = self._clock() - began
        self._endpoint.meter.add(
            StoreUse(series=len(answer.series), samples=samples, parse_seconds=spent)
        )
        if answer.warnings:
            with self._lock:
                self._warnings.update(map(self._endpoint.quoted, answer.warnings))
        return answer

    def _count_slow(self, limit: Limit) -> None:
        """Less at a time makes a busy store quicker, and no store that hangs."""
        with self._lock:
            self._slow = self._slow + 1 if limit.kind is LimitKind.TIME else 0
            is_hanging = self._slow >= self._settings.tries * self._settings.concurrency
        if is_hanging:
            raise StoreError(
                f"{self._endpoint.name} answers nothing in time, however little is asked: "
                f"{self._endpoint.quoted(limit.text)}; see how loaded it is, or raise "
                "fleet.store.timeout"
            )

    def _too_much(self, limit: Limit, query: str) -> StoreLimitError:
        name, text = self._endpoint.name, self._endpoint.quoted(limit.text)
        if limit.kind is LimitKind.TIME:
            return StoreLimitError(
                f"{name} is too slow even for one moment of a query: {text}; see how loaded it "
                "is, or raise fleet.store.timeout"
            )
        return StoreLimitError(
            f"{name} allows less than one moment of a query of {len(query.encode())} bytes: "
            f"{text}; ask about fewer devices at once (fleet.store.series_maximum), or raise the "
            "limit that it names"
        )


def _seconds(time: Nanoseconds) -> str:
    """As stores read them, to the millisecond."""
    whole, rest = divmod(time // (NANOSECONDS_PER_SECOND // 1000), 1000)
    return f"{whole}.{rest:03d}" if rest else str(whole)
