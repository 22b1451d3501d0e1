"""Series of a store: label spellings of scrapes, samples onto a grid, and their density by day."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Final, TypeVar

from rightsizer.fleet.cache.day_frame import DAY, Grid
from rightsizer.fleet.prometheus.selector import any_of, quoted
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_Word = TypeVar("_Word", bound=StrEnum)
_Value = TypeVar("_Value")

NODE_LABELS: Final = ("node", "nodename", "Hostname", "hostname", "kubernetes_node")
_PORT: Final = re.compile(r":\d+$")


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher for any of some values of a label."""
    return f"{label}=~{quoted(any_of(values))}"


def first_label(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The value of the first of these labels that is there and not empty; else nothing."""
    return next((labels[name] for name in names if labels.get(name)), "")


def node_of(labels: Mapping[str, str]) -> str:
    """The host's name: a label that says it, else the instance without its port."""
    return first_label(labels, NODE_LABELS) or instance_of(labels)


def instance_of(labels: Mapping[str, str]) -> str:
    """The host of a scrape's target."""
    return _PORT.sub("", labels.get("instance", "")).strip("[]")


def word_of(words: type[_Word], text: str) -> _Word | None:
    """The member of a vocabulary that a label means; `None` for one that we do not know."""
    try:
        return words(text)
    except ValueError:
        return None


DIGITS: Final = "0123456789abcdef"
_DEEPEST: Final = 2
"""Digits of a uuid that a part of a fleet is chosen by: 256 parts."""


def divided(
    store: MetricStore,
    ask: Callable[[MetricStore], Iterable[_Value]],
    labels: Sequence[str] = ("uuid",),
) -> list[_Value]:
    """An answer about devices; where it is too much at once, that about a part of them at a time.

    `ask` must come to the same of all devices as of all parts one after the other. `labels` may
    hold a device's uuid; where several do, the first of a series counts.

    Raises:
        StoreError: the store does not answer, or allows no part either.
    """
    try:
        return list(ask(store))
    except StoreLimitError:
        others = ",".join(f'{label}!~"(GPU|MIG)-[{DIGITS}].*"' for label in labels)
        return [*_by_digit(store, ask, labels, ""), *ask(store.within(others))]


def matchers_of(labels: Sequence[str], start: str) -> list[str]:
    """Of devices whose uuids begin with some digits, by each label that may hold them."""
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
            found = [each for matchers in parts for each in ask(store.within(matchers))]
        except StoreLimitError:
            if len(start) >= _DEEPEST:
                raise
            found = list(_by_digit(store, ask, labels, start))
        yield from found


def at_moment(query: str, now: Nanoseconds) -> Callable[[MetricStore], Sequence[SampledSeries]]:
    """An instant query, for `divided`."""
    return lambda store: store.instant(query, now)


def over_time(
    query: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
) -> Callable[[MetricStore], Sequence[SampledSeries]]:
    """A range query, for `divided`."""
    return lambda store: store.range(query, start, end, step)


def total_of(
    store: MetricStore, query: str, now: Nanoseconds, labels: Sequence[str] = ("uuid",)
) -> float:
    """The value of a query that counts devices or their series, 0 where there is none."""
    found = divided(store, at_moment(query, now), labels)
    return sum(series.values[-1] for series in found)


def number_of(store: MetricStore, query: str, now: Nanoseconds) -> float:
    """The one value of an answer, 0 where there is none."""
    return next((series.values[-1] for series in store.instant(query, now)), 0.0)


def shares_of(values: Sequence[_Value], size: int = 200) -> Iterator[Sequence[_Value]]:
    """Some of the values at a time, so that no query grows too long."""
    return (values[at : at + size] for at in range(0, len(values), size))


def names_of(
    store: MetricStore, names: Sequence[str], now: Nanoseconds, labels: Sequence[str] = ()
) -> frozenset[str]:
    """Those of some metrics that have series; `labels` may hold the uuid of a series' device.

    Where all at once are too much they are asked for one by one, and one of them by devices.
    """

    def ask(part: MetricStore, some: Sequence[str]) -> Sequence[SampledSeries]:
        return part.instant(f"count by (__name__) ({{{one_of('__name__', some)}}})", now)

    try:
        found = ask(store, names)
    except StoreLimitError:
        if len(names) > 1:
            each = (names_of(store, (name,), now, labels) for name in names)
            return frozenset[str]().union(*each)
        if not labels:
            raise
        found = divided(store, lambda part: ask(part, names), labels)
    return frozenset(series.labels["__name__"] for series in found)


_MOMENTS: Final[Nanoseconds] = 900 * NANOSECONDS_PER_SECOND


def names_during(store: MetricStore, names: Iterable[str], grid: Grid) -> frozenset[str]:
    """Those of some metrics that had series on the days of a grid, which need not be over.

    They are looked for each quarter of an hour: at the end of today nothing is there yet.
    """
    query = f"count by (__name__) ({{{one_of('__name__', names)}}})"
    found = store.range(query, grid.start + _MOMENTS, grid.end, _MOMENTS)
    return frozenset(series.labels["__name__"] for series in found)


def placed(series: SampledSeries, grid: Grid, blank: float = math.nan) -> array[float]:
    """The values of a series, each where its time belongs; `blank` where it has none."""
    times, values = series.times, series.values
    found = array("d", [blank]) * grid.count
    if not times:
        return found
    if len(values) == grid.count and times[0] == grid.start + grid.step and times[-1] == grid.end:
        return values
    first, last = grid.place(times[0]), grid.place(times[-1])
    if first is not None and last is not None and last - first + 1 == len(values):
        found[first : last + 1] = array("d", values)
        return found
    for time, value in zip(times, values, strict=True):
        place = grid.place(time)
        if place is not None:
            found[place] = value
    return found


def together(
    one: Iterable[float], other: Iterable[float], both: Callable[[float, float], float]
) -> array[float]:
    """Of two columns what is known; where both are, what `both` makes of them."""

    def known(value: float, former: float) -> float:
        if math.isnan(former):
            return value
        return former if math.isnan(value) else both(value, former)

    return array("d", map(known, one, other))


def by_label(
    answer: Iterable[SampledSeries], grid: Grid, label: str, blank: float = math.nan
) -> dict[str, dict[str, array[float]]]:
    """The series of an answer on a grid, by uuid and by the value of a label."""
    found: dict[str, dict[str, array[float]]] = {}
    for series in answer:
        own = found.setdefault(series.labels.get("uuid", ""), {})
        own[series.labels.get(label, "")] = placed(series, grid, blank)
    return found


def runs_of(values: Iterable[float]) -> Iterator[tuple[int, int, float]]:
    """First and last place of each run of the same value, zeros left out."""
    first = 0
    for value, same in groupby(values):
        last = first + sum(1 for _ in same)
        if value:
            yield first, last - 1, value
        first = last


_LOOK_SECONDS: Final = 3600
_EVERY: Final[Nanoseconds] = 3 * _LOOK_SECONDS * NANOSECONDS_PER_SECOND
"""An eighth of all samples is looked at, of a few series."""
_OUTLIERS: Final = 1
"""An hour in which a scraper began, or was away, is no measure of its day."""


def seconds_by_day(
    store: MetricStore, some_series: str, now: Nanoseconds, lookback: Nanoseconds
) -> Mapping[int, float]:
    """Seconds between two samples of a few series that are always there, by UTC day.

    Days without samples are left out.
    """
    query = f"max(count_over_time({some_series}[{_LOOK_SECONDS}s]))"
    hours: dict[int, list[float]] = {}
    for series in store.range(query, now - lookback, now, _EVERY):
        for time, count in zip(series.times, series.values, strict=True):
            if count > 0:
                hours.setdefault((time - 1) // DAY, []).append(_LOOK_SECONDS / count)
    return {
        day: sorted(found, reverse=True)[min(_OUTLIERS, len(found) - 1)]
        for day, found in hours.items()
    }
