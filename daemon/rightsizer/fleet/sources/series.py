"""Series of a store: label spellings of scrapes, samples on a grid, and resolution by day."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain, pairwise
from typing import Final, TypeVar

import numpy as np

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, FINE_STEP, Grid
from rightsizer.fleet.prometheus.selector import any_of, quoted
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, StoreLimitError

_Word = TypeVar("_Word", bound=StrEnum)
_Value = TypeVar("_Value")

NODE_LABELS: Final = ("node", "nodename", "Hostname", "hostname", "kubernetes_node")
SCRAPER_LABELS: Final = (
    "instance",
    "job",
    "prometheus",
    "prometheus_replica",
    "replica",
    "__replica__",
)
"""Labels that distinguish scrapes of the same thing."""
_TARGET: Final = re.compile(r"(?:https?://)?(\[[^]]+\]|[^:/]*)(?::[\w-]+)?(?:/.*)?")
"""Address, and port or its name; some keep the whole URL."""


def one_of(label: str, values: Iterable[str]) -> str:
    """Return a matcher for any of some values of a label."""
    return f"{label}=~{quoted(any_of(values))}"


def first_label(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the first non-empty value of these labels; else an empty string."""
    return next((labels[name] for name in names if labels.get(name)), "")


def node_of(labels: Mapping[str, str]) -> str:
    """Return the host's name: from a node label, else the instance without its port."""
    return first_label(labels, NODE_LABELS) or instance_of(labels)


def names_of_node(node: str) -> tuple[str, ...]:
    """Return the names of a node, also without the domain that schedulers leave out.

    What ends in an address has no domain: `10.0.0.1`, `cn-hangzhou.10.0.0.1`.
    """
    short, _, domain = node.partition(".")
    return (node,) if domain.rpartition(".")[2].isdecimal() else (node, short)


def instance_of(labels: Mapping[str, str]) -> str:
    """Return the host of a scrape's target."""
    match = _TARGET.fullmatch(instance := labels.get("instance", ""))
    return (match[1] if match and match[1] else instance).strip("[]")


def word_of(words: type[_Word], text: str) -> _Word | None:
    """Return the enum member for a label; `None` if unknown."""
    try:
        return words(text)
    except ValueError:
        return None


DIGITS: Final = "0123456789abcdef"
_DEEPEST: Final = 2
"""Digits of a uuid by which a fleet is split: 256 parts."""


def divided(
    store: MetricStore,
    ask: Callable[[MetricStore], Iterable[_Value]],
    labels: Sequence[str] = ("uuid",),
) -> list[_Value]:
    """Return an answer about devices, split into parts of them if it is too large.

    `ask` must return the same for all devices as for all parts in turn. `labels` may contain a
    device's uuid; if several do, the first of a series counts.

    Raises:
        StoreError: the store does not answer, or refuses even a part.
    """
    try:
        return list(ask(store))
    except StoreLimitError:
        others = ",".join(f'{label}!~"(GPU|MIG)-[{DIGITS}].*"' for label in labels)
        return [*_by_digit(store, ask, labels, ""), *ask(store.within(others))]


def matchers_of(labels: Sequence[str], start: str) -> list[str]:
    """Return matchers of devices whose uuids begin with some digits, for each uuid label."""
    return [
        ",".join((f'{label}=~"(GPU|MIG)-{start}.*"', *(f'{other}=""' for other in labels[:place])))
        for place, label in enumerate(labels)
    ]


def _by_digit(
    store: MetricStore,
    ask: Callable[[MetricStore], Iterable[_Value]],
    labels: Sequence[str],
    begin: str,
) -> Iterator[_Value]:
    for digit in DIGITS:
        start = begin + digit
        parts = matchers_of(labels, start)
        try:
            values = [value for matchers in parts for value in ask(store.within(matchers))]
        except StoreLimitError:
            if len(start) >= _DEEPEST:
                raise
            values = list(_by_digit(store, ask, labels, start))
        yield from values


def at_moment(query: str, now: Nanoseconds) -> Callable[[MetricStore], Sequence[SampledSeries]]:
    """Return an instant query, for `divided`."""
    return lambda store: store.instant(query, now)


def over_time(
    query: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
) -> Callable[[MetricStore], Sequence[SampledSeries]]:
    """Return a range query, for `divided`."""
    return lambda store: store.range(query, start, end, step)


_CLOSER: Final = 6
_ATTEMPTS: Final = 3
"""Moments are closer by this factor each time: from six hours to ten minutes, or a day to 40."""
_FLEETING_RATIO: Final = 0.01
"""Share of devices, so that one that failed at once costs no second query."""


def seen_over(
    store: MetricStore,
    query: str,
    times: tuple[Nanoseconds, Nanoseconds],
    step: Nanoseconds,
    labels: Sequence[str] = ("uuid",),
) -> list[SampledSeries]:
    """Return a query's series between two times, about every device that was there.

    If some were there at one moment only, as on nodes that live for hours, others were there
    between moments: it is asked again at closer ones.
    """
    for attempt in range(_ATTEMPTS):
        sampled_series = divided(store, over_time(query, *times, step // _CLOSER**attempt), labels)
        spans = spans_of(sampled_series, labels)
        newest = max((last for _, last in spans.values()), default=0)
        fleeting = sum(first == last < newest for first, last in spans.values())
        if fleeting <= _FLEETING_RATIO * len(spans):
            break
    return sampled_series


def spans_of(
    answer: Iterable[SampledSeries], labels: Sequence[str] = ("uuid",)
) -> dict[str, tuple[Nanoseconds, Nanoseconds]]:
    """Return when each device was there first and last, by the labels with its uuid."""
    spans: dict[str, tuple[Nanoseconds, Nanoseconds]] = {}
    for series in answer:
        first, last = series.span
        uuid = first_label(series.labels, labels)
        former = spans.get(uuid, (first, last))
        spans[uuid] = min(first, former[0]), max(last, former[1])
    return spans


def number_of(
    store: MetricStore, query: str, now: Nanoseconds, labels: Sequence[str] = ()
) -> float:
    """Return the value of a query that counts; `labels` may contain the uuid of what it counts."""
    ask = at_moment(query, now)
    return sum(series.value for series in (divided(store, ask, labels) if labels else ask(store)))


def shares_of(values: Sequence[_Value], size: int = 200) -> Iterator[Sequence[_Value]]:
    """Yield the values in batches, to limit the length of queries."""
    return (values[at : at + size] for at in range(0, len(values), size))


NAMES_AT_ONCE: Final = 30
"""Metrics of one query. Source: assumed."""
_MOST_MOMENTS: Final = 672
"""Every 15 minutes of a week, the most days of a grid."""


def names_of(
    store: MetricStore,
    names: Sequence[str],
    now: Nanoseconds,
    labels: Sequence[str] = (),
    over: Nanoseconds = 0,
) -> frozenset[str]:
    """Return the metrics that have series now, or had some at a moment of the span before.

    `labels` may contain the uuid of a series' device.

    If one query is too large, metrics are queried one by one, and then by devices.
    """

    def ask(part: MetricStore, some: Sequence[str]) -> Sequence[SampledSeries]:
        query = f"count by (__name__) ({{{one_of('__name__', some)}}})"
        step = max(FINE_STEP, over // _MOST_MOMENTS)
        return part.range(query, now - over, now, step) if over else part.instant(query, now)

    def of(some: Sequence[str]) -> Iterable[SampledSeries]:
        try:
            return ask(store, some)
        except StoreLimitError:
            if len(some) > 1:
                return chain.from_iterable(of((name,)) for name in some)
            if not labels:
                raise
            return divided(store, lambda part: ask(part, some), labels)

    all_series = chain.from_iterable(map(of, shares_of(names, NAMES_AT_ONCE)))
    return frozenset(series.labels["__name__"] for series in all_series)


def last_seen(
    store: MetricStore, names: Sequence[str], now: Nanoseconds, lookback: Nanoseconds
) -> Nanoseconds | None:
    """Return the last moment, by the hour, at which any of some metrics had series."""
    start = now - lookback // COARSE_STEP * COARSE_STEP
    times = list[Nanoseconds]()
    for some in shares_of(names, NAMES_AT_ONCE):
        # Some stores find a series longer than others after its last sample.
        query = f"count(last_over_time({{{one_of('__name__', some)}}}[5m]))"
        times += (series.span[1] for series in store.range(query, start, now, COARSE_STEP))
    return max(times, default=None)


def placed(answer: Sequence[SampledSeries], grid: Grid, blank: float = math.nan) -> Floats:
    """Place the values of series on the grid, a row each; `blank` where there is none."""
    grid_values = np.full((len(answer), grid.count), blank)
    # Most series of an answer share the array of their times.
    rows_by_times = defaultdict[int, list[int]](list)
    for row, series in enumerate(answer):
        rows_by_times[id(series.times)].append(row)
    for rows in rows_by_times.values():
        places = grid.places(np.asarray(answer[rows[0]].times))
        inside = (places >= 0) & (places < grid.count)
        values = np.array([answer[row].values for row in rows])
        if inside.all() and (np.diff(places) == 1).all():
            start = places.min(initial=grid.count)
            grid_values[rows, start : start + len(places)] = values  # Much faster.
        else:
            grid_values[np.ix_(rows, places[inside])] = values[:, inside]
    return grid_values


def together(one: Floats, other: Floats, both: Callable[[Floats, Floats], Floats]) -> Floats:
    """Combine two columns: the known value, or `both` of the two."""
    joined = np.where(np.isnan(one), other, both(one, other))
    return np.where(np.isnan(other), one, joined)


def by_label(
    answer: Iterable[SampledSeries],
    grid: Grid,
    label: str,
    uuids: Mapping[str, int],
    blank: float = math.nan,
) -> dict[str, Floats]:
    """Return the series of an answer on a grid by the value of a label, with a row per device.

    `uuids` maps uuids to rows.
    """
    by_value: defaultdict[str, list[SampledSeries]] = defaultdict(list)
    for series in answer:
        if series.labels.get("uuid", "") in uuids:
            by_value[series.labels.get(label, "")].append(series)
    columns: dict[str, Floats] = {}
    for value, same in by_value.items():
        columns[value] = np.full((len(uuids), grid.count), blank)
        rows = [uuids[series.labels["uuid"]] for series in same]
        columns[value][rows] = placed(same, grid, blank)
    return columns


def runs_of(values: Floats) -> Iterator[tuple[int, int, float]]:
    """Yield the first and last index of each run of equal values, without zeros."""
    cuts = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    for first, last in pairwise(cuts):
        if values[first]:
            yield first, last - 1, float(values[first])


_LOOK_SECONDS: Final = 3600
_EVERY: Final[Nanoseconds] = 3 * _LOOK_SECONDS * NANOSECONDS_PER_SECOND
"""An eighth of all samples is read, of a few series."""
_OUTLIERS: Final = 1
"""Hours in which a scraper started, or was down, do not represent their day."""


def seconds_by_day(
    store: MetricStore, some_series: str, now: Nanoseconds, lookback: Nanoseconds
) -> Mapping[int, float]:
    """Return the seconds between samples of a few permanent series, by UTC day.

    Days without samples are omitted.
    """
    query = f"max(count_over_time({some_series}[{_LOOK_SECONDS}s]))"
    hours: dict[int, list[float]] = {}
    for series in store.range(query, now - lookback, now, _EVERY):
        for time, count in zip(series.times.tolist(), series.values.tolist(), strict=True):
            if count > 0:
                hours.setdefault((time - 1) // DAY, []).append(_LOOK_SECONDS / count)
    return {
        day: sorted(hour, reverse=True)[min(_OUTLIERS, len(hour) - 1)]
        for day, hour in hours.items()
    }
