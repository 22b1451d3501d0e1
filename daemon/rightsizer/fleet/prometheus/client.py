"""PrometheusStore: complete range and instant queries within the store's limits."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rightsizer.fleet.prometheus.endpoint import Endpoint, LimitKind, StoreLimit, WaitingCallback
from rightsizer.fleet.prometheus.response_parser import BrokenAnswerError, parse_response
from rightsizer.fleet.prometheus.selector import Matchers, with_exact_names
from rightsizer.fleet.settings import StoreSettings
from rightsizer.fleet.source import SampledSeries, StoreUse
from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, StoreError, StoreLimitError

POINTS_MAXIMUM: Final = 11_000
"""Prometheus returns no more points per series, regardless of configuration."""
_GROWS_AFTER: Final = 8
"""Successes in a row, so that one query in nine is refused while the limit stays."""


class QuerySpan:
    """Points per query that the store allowed recently, by step; thread-safe."""

    def __init__(self) -> None:
        self._allowed: dict[Nanoseconds, int] = {}
        self._successes: dict[Nanoseconds, int] = {}
        self._lock = threading.Lock()

    def points(self, step: Nanoseconds) -> int:
        """Return the number of steps to query."""
        return self._allowed.get(step, POINTS_MAXIMUM)

    def succeed(self, step: Nanoseconds, points: int, *, was_refused: bool) -> None:
        """Record an answer, after more points had been refused or not.

        After a refusal, what was allowed is queried from then on; after some successes in a row
        more is tried again, as another query may be lighter.
        """
        with self._lock:
            if was_refused:
                self._allowed[step] = points
                self._successes[step] = 0
            elif step in self._allowed and points >= self._allowed[step]:
                self._successes[step] += 1
                if self._successes[step] >= _GROWS_AFTER:
                    self._successes[step] = 0
                    self._allowed[step] = min(POINTS_MAXIMUM, 2 * points)


def joined(answers: Sequence[Sequence[SampledSeries]]) -> Sequence[SampledSeries]:
    """Join consecutive answers into one."""
    if len(answers) == 1:
        return answers[0]
    parts: dict[tuple[tuple[str, str], ...], list[SampledSeries]] = {}
    for series in chain.from_iterable(answers):
        parts.setdefault(tuple(sorted(series.labels.items())), []).append(series)
    all_series = []
    times: dict[tuple[int, ...], NDArray[np.int64]] = {}
    for same in parts.values():
        # Series that shared the arrays of their times still do.
        shared = tuple(id(series.times) for series in same)
        if shared not in times:
            times[shared] = np.concatenate([series.times for series in same])
        values = np.concatenate([series.values for series in same])
        all_series.append(SampledSeries(same[0].labels, times[shared], values))
    return all_series


_LIKE_PROMETHEUS: Final = (
    # Thanos: deduplicate replicas, and fail rather than return a partial answer.
    ("dedup", "true"),
    ("partial_response", "false"),
    # VictoriaMetrics cluster: the same.
    ("deny_partial_response", "1"),
    # VictoriaMetrics aligns times to its cache and delays the newest 30 s otherwise.
    ("nocache", "1"),
    # It takes a series for there for a whole step of a query otherwise, which may be a day.
    ("max_lookback", "5m"),
)
"""Each store uses its own parameters and ignores the others, but for Google's and Elastic's, which
refuse unknown ones and have no partial answers."""


class PrometheusStore:
    """`MetricStore` over HTTP; thread-safe.

    Args:
        settings: Address, credentials and limits.
        matchers: Label matchers added to every selector of every query, as `cluster="paris"`.
        sleep: Waits between tries; if it returns true, there are no more.
        jitter: Random number from 0 to 1.
        waiting: Called before each wait for an unavailable or busy store.
        has_answered: Whether it is known to be a store, from an earlier process.

    Raises:
        ValueError: the address or the matchers are invalid.
    """

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        settings: StoreSettings,
        matchers: str = "",
        *,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
        waiting: WaitingCallback = lambda *_: None,
        has_answered: bool = False,
    ) -> None:
        self._settings = settings
        self.matchers = Matchers.parse(matchers)
        self._endpoint = Endpoint(
            settings, sleep, jitter, waiting=waiting, has_answered=has_answered
        )
        self._span = QuerySpan()
        self._warnings: set[str] = set()
        self._slow = 0
        self._lock = threading.Lock()

    def within(self, matchers: str) -> "PrometheusStore":
        """See `MetricStore`; connections, limits and counts are shared."""
        both = ",".join(filter(None, (self.matchers.text, matchers)))
        store = copy(self)
        store.matchers = Matchers.parse(both)
        return store

    @property
    def use(self) -> StoreUse:
        """Requests and samples so far."""
        return self._endpoint.meter.use

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the store about complete answers, each once."""
        with self._lock:
            return tuple(sorted(self._warnings))

    def close(self) -> None:
        """Close idle connections."""
        self._endpoint.close()

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[SampledSeries]:
        """See `MetricStore`."""
        query = self.matchers.merge(promql)
        series: list[Sequence[SampledSeries]] = []
        span = self._span.points(step)
        was_refused = False
        begin = start
        left = (end - start) // step + 1
        while left > 0:
            points = min(span, left)
            times = {"start": begin, "end": begin + (points - 1) * step, "step": step}
            answer = self._series("/api/v1/query_range", query, times)
            if isinstance(answer, StoreLimit):
                if points == 1:
                    raise self._too_much(answer, query)
                self._endpoint.meter.add(StoreUse(halvings=1))
                span = (points + 1) // 2
                was_refused = True
                continue
            self._span.succeed(step, points, was_refused=was_refused)
            series.append(answer)
            begin = begin + points * step
            left = left - points
        return joined(series)

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        """See `MetricStore`; a range selector returns the samples as scraped."""
        query = self.matchers.merge(promql)
        answer = self._series("/api/v1/query", query, {"time": time})
        if isinstance(answer, StoreLimit):
            raise self._too_much(answer, query)
        return answer

    def _series(
        self, path: str, query: str, times: Mapping[str, Nanoseconds]
    ) -> Sequence[SampledSeries] | StoreLimit:
        may_be_less = times.get("start") != times.get("end")
        parameters = self._parameters(query, times)
        ask = partial(self._endpoint.ask, path, read=self._whole, may_be_less=may_be_less)
        series = ask(parameters)
        if _is_dialect(series):
            self._endpoint.has_exact_names = True
            series = ask(self._parameters(query, times))
        if isinstance(series, StoreLimit) and _is_dialect(series):
            raise StoreError(f"{self._endpoint.name} refused: {self._endpoint.quoted(series.text)}")
        is_slow = isinstance(series, StoreLimit) and series.kind is LimitKind.TIME
        with self._lock:
            self._slow = self._slow + 1 if is_slow else 0
            # A store that has answered may have a queue for concurrent queries.
            at_once = self._settings.concurrency if self._endpoint.has_answered else 1
            is_hanging = self._slow >= self._settings.tries * at_once
        if not isinstance(series, StoreLimit):
            return series
        if is_hanging:
            # Smaller queries help a busy store, but not one that hangs.
            raise StoreError(
                f"{self._endpoint.name} answers nothing in time, however little is asked: "
                f"{self._endpoint.quoted(series.text)}; see how loaded it is, or raise "
                "fleet.store.timeout"
            )
        if series.kind is LimitKind.TEXT:
            raise self._too_much(series, query)
        return series

    def _parameters(
        self, query: str, times: Mapping[str, Nanoseconds]
    ) -> tuple[tuple[str, str], ...]:
        """Return what is sent; only what all stores know, if this one refuses the rest."""
        written = tuple((name, _seconds(time)) for name, time in times.items())
        if self._endpoint.has_exact_names:
            return (("query", with_exact_names(query)), *written)
        timeout = ("timeout", f"{self._settings.timeout_seconds:g}s")
        return (("query", query), *written, timeout, *_LIKE_PROMETHEUS)

    def _too_much(self, limit: StoreLimit, query: str) -> StoreLimitError:
        name = self._endpoint.name
        text = self._endpoint.quoted(limit.text)
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

    def _whole(self, raw: bytes) -> Sequence[SampledSeries]:
        """Return the series of a complete answer; non-numeric ones are empty.

        Raises:
            BrokenAnswerError: it was cut off.
            StoreError: it is no answer, or not complete.
        """
        began = time.monotonic()
        name = self._endpoint.name
        quoted = self._endpoint.quoted
        try:
            answer = parse_response(raw)
        except BrokenAnswerError:
            raise
        except ValueError as error:
            raise StoreError(f"{name} answered with {quoted(str(error))}") from None
        if answer.partial is not None:
            raise StoreError(
                f"{name} returned a partial answer: {quoted(answer.partial)}; check that all of "
                "its parts are up; partial answers are not used"
            )
        # Stores of several parts return series in the order in which the parts answer.
        series = sorted(
            (sampled_series for sampled_series in answer.series if len(sampled_series.values)),
            key=lambda sampled_series: tuple(sampled_series.labels.items()),
        )
        samples = sum(len(sampled_series.values) for sampled_series in series)
        spent = time.monotonic() - began
        use = StoreUse(series=len(answer.series), samples=samples, parse_seconds=spent)
        self._endpoint.meter.add(use)
        with self._lock:
            self._warnings.update(map(quoted, answer.warnings))
        return series


def _is_dialect(answer: object) -> bool:
    return isinstance(answer, StoreLimit) and answer.kind is LimitKind.DIALECT


def _seconds(time: Nanoseconds) -> str:
    """Format a time for stores, to the millisecond."""
    whole, rest = divmod(time // (NANOSECONDS_PER_SECOND // 1000), 1000)
    return f"{whole}.{rest:03d}" if rest else str(whole)
