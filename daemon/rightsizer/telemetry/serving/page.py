"""Metrics of serving engines: definition by engine, parser of pages, and their signals."""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from rightsizer.io.codec import convert
from rightsizer.io.document import LINE_MAXIMUM, DocumentLimits, DocumentReading
from rightsizer.io.yaml import load_beside
from rightsizer.model.errors import DriverError
from rightsizer.model.reading import Missing, plausible
from rightsizer.model.signal import Signal
from rightsizer.telemetry.serving.settings import EngineName

_LIMITS: Final = DocumentLimits(8 * 2**20, 100_000, "lines")
"""Source: ten times the lines of twenty histograms of sixteen data-parallel engines."""
_NOT_BEFORE: Final = 0.0
"""Previous value of a histogram without a series on the previous page."""


class MeasureKind(StrEnum):
    """How the series of a page are combined into one number."""

    TOTAL = "total"
    """Sum: requests of all models and replicas, events since the engine started."""
    LARGEST = "largest"
    """Maximum: one replica whose cache is full makes its requests wait."""
    MEAN = "mean"
    """Growth of the sum since the previous page, over growth of the count."""
    OCCUPANCY = "occupancy"
    """Seconds spent since the previous page over the elapsed time: mean number inside (Little)."""


class MeasurePart(Struct, frozen=True):
    """Series of one metric, or those with certain labels."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    factor: float = 1.0
    """Factor to the base unit; negative for a part to subtract."""


class EngineMeasure(Struct, frozen=True):
    """One way to read a signal."""

    signal: Signal
    kind: MeasureKind
    parts: tuple[MeasurePart, ...]
    """Those present on a page are added."""
    counts: tuple[MeasurePart, ...] = ()
    """Divisor of a mean."""


class EngineDefinition(Struct, frozen=True):
    """Metrics of one engine; names are written with `_` where a page may have `:`."""

    name: EngineName
    prefixes: tuple[str, ...]
    measures: tuple[EngineMeasure, ...]
    """In order of preference: the first one of a signal that a page supports is used."""
    copies: frozenset[str] = frozenset()
    """Labels of ranks that all count the same requests."""
    breakdowns: frozenset[str] = frozenset()
    """Labels whose series are parts of one without the label."""
    routers: frozenset[str] = frozenset()
    """Labels by which a router tells its engines apart, whose GPUs are not one engine's."""
    starts_empty: bool = False
    """Whether metrics appear with the first model or request only."""
    unprefixed: frozenset[str] = frozenset()
    """Metrics of releases without a prefix: only all of them tell a page from a gateway's."""

    def recognizes(self, names: frozenset[str]) -> bool:
        """Return whether a page with these metrics is of this engine."""
        has_prefix = any(name.startswith(self.prefixes) for name in names)
        return has_prefix or (bool(self.unprefixed) and self.unprefixed <= names)

    @property
    def names(self) -> frozenset[str]:
        """All metrics that are read."""
        parts = (part for each in self.measures for part in (*each.parts, *each.counts))
        return frozenset(part.name for part in parts)


def canonical(name: str) -> str:
    """Return a metric's name as spelled in the tables.

    Colons are reserved for recording rules, so routers and newer engines write `_` instead.
    """
    return name.replace(":", "_")


ENGINES: Final = convert(load_beside(__file__, "engines.yaml"), tuple[EngineDefinition, ...])
"""In order of detection."""
Labels: TypeAlias = tuple[tuple[str, str], ...]
_NOTHING: Final[Mapping[Labels, float]] = {}


class EngineMetricsPage(Struct, frozen=True):
    """Metrics of an engine by series; not summed, since each series may restart."""

    engine: EngineDefinition
    series: Mapping[str, Mapping[Labels, float]]

    def of(self, part: MeasurePart) -> Mapping[Labels, float]:
        """Return the series of a part, as on the page."""
        found = self.series.get(part.name, _NOTHING)
        if not part.labels:
            return found
        wanted = set(part.labels)
        return {labels: value for labels, value in found.items() if wanted <= set(labels)}


def parse_page(text: str, expected: EngineName = EngineName.AUTO) -> EngineMetricsPage:
    """Parse a page in Prometheus's text format.

    A page without samples counts as one of the expected engine, before its first request.

    Raises:
        DriverError: the page is not from an engine, or from another than expected.
        DocumentError: the page has more lines than an engine's, or takes too long to read.
    """
    if text.startswith(("[", "{", '"')):
        text = _unquoted(text)
    reading = DocumentReading("the page", _LIMITS)
    reading.check_items(text.count("\n"))
    names = {
        line: canonical("".join(line.partition("{")[0].split(None, 1)[:1]))
        for line in text.split("\n")
        if not line.startswith("#") and len(line) <= LINE_MAXIMUM
    }
    is_empty = not any(names.values())
    engine = _engine(frozenset(names.values()), expected, is_empty=is_empty)
    wanted = [line for line, name in names.items() if name in engine.names]
    if not (is_empty or wanted or engine.starts_empty):
        raise DriverError(
            f"the page has metrics of {engine.name}, but none of those that are read: it is a "
            "router's, or of a release with other names"
        )
    dropped = engine.copies | engine.breakdowns
    series: dict[str, dict[Labels, float]] = {}
    for name, labels, value in _samples(wanted, reading):
        if router := next(iter(engine.routers & labels.keys()), None):
            raise DriverError(
                f"the page is a router's, whose label {router} names several engines; "
                "list each engine's own address"
            )
        if any(labels.get(label) for label in engine.breakdowns):
            continue
        key = tuple(sorted(item for item in labels.items() if item[0] not in dropped))
        of_name = series.setdefault(name, {})
        # Copies of one count: the highest is the most recent.
        of_name[key] = max(value, of_name.get(key, 0.0))
    return EngineMetricsPage(engine, series)


def _unquoted(text: str) -> str:
    """Return the page in a JSON string, as llama.cpp of November 2025 writes it."""
    with contextlib.suppress(ValueError):
        if isinstance(page := json.loads(text), str):
            return page
    raise DriverError(
        "the page is JSON; name the address of metrics in Prometheus's text format, which is "
        "/prometheus/metrics of trtllm-serve"
    )


def _engine(names: frozenset[str], expected: EngineName, *, is_empty: bool) -> EngineDefinition:
    present = [engine for engine in ENGINES if engine.recognizes(names)]
    if expected is EngineName.AUTO:
        if present:
            return present[0]
        known = ", ".join(engine.name for engine in ENGINES)
        raise DriverError(f"the page has no metrics of a serving engine ({known})")
    (engine,) = (engine for engine in ENGINES if engine.name is expected)
    if engine in present or is_empty:
        return engine
    instead = f"; it looks like {present[0].name}" if present else ""
    raise DriverError(f"the page has no metrics of {expected}{instead}")


def _samples(
    lines: list[str], reading: DocumentReading
) -> Iterator[tuple[str, Mapping[str, str], float]]:
    try:
        for line in lines:
            reading.count()
            for family in text_string_to_metric_families(line):
                for sample in family.samples:
                    # NaN, infinities and negative numbers are no counts.
                    if 0 <= sample.value <= sys.float_info.max:
                        yield canonical(sample.name), sample.labels, float(sample.value)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise DriverError(f"the page is not in Prometheus's text format: {error}") from None


def values_of(
    page: EngineMetricsPage, before: EngineMetricsPage | None = None, elapsed_seconds: float = 0.0
) -> Mapping[Signal, float]:
    """Return the signals of a page; means need the previous page of the same engine."""
    former = before if before is not None and before.engine is page.engine else None
    values: dict[Signal, float] = {}
    for measure in page.engine.measures:
        if measure.signal in values:
            continue
        value = _measured(measure, page, former, elapsed_seconds)
        if value is None:
            continue
        checked = plausible(measure.signal, value)
        if not isinstance(checked, Missing):
            values[measure.signal] = checked
    return values


def _measured(
    measure: EngineMeasure,
    page: EngineMetricsPage,
    former: EngineMetricsPage | None,
    elapsed_seconds: float,
) -> float | None:
    if measure.kind in (MeasureKind.TOTAL, MeasureKind.LARGEST):
        found = [value * part.factor for part in measure.parts for value in page.of(part).values()]
        if not found:
            return None
        return sum(found) if measure.kind is MeasureKind.TOTAL else max(found)
    if former is None:
        return None
    if measure.kind is MeasureKind.MEAN:
        return _mean_since(measure, page, former)
    if elapsed_seconds <= 0 or not all(page.of(part) for part in measure.parts):
        return None
    spent = sum(
        # Each counter may have restarted.
        (value if value < before[labels] else value - before[labels]) * part.factor
        for part in measure.parts
        for before in (former.of(part),)
        for labels, value in page.of(part).items()
        if labels in before
    )
    # The subtrahend may have been counted earlier than the whole.
    return max(0.0, spent) / elapsed_seconds


def _mean_since(
    measure: EngineMeasure, page: EngineMetricsPage, former: EngineMetricsPage
) -> float | None:
    """Return the mean; sum and count of a series restart together."""
    (of_sum,), (of_count,) = measure.parts, measure.counts
    sums = page.of(of_sum)
    counts = page.of(of_count)
    sums_before = former.of(of_sum)
    counts_before = former.of(of_count)
    added = happened = 0.0
    for labels in sums.keys() & counts.keys():
        sum_before = sums_before.get(labels, _NOT_BEFORE)
        count_before = counts_before.get(labels, _NOT_BEFORE)
        if sums[labels] < sum_before or counts[labels] < count_before:
            sum_before = count_before = _NOT_BEFORE
        added += sums[labels] - sum_before
        happened += counts[labels] - count_before
    return added * of_sum.factor / happened if happened > 0 else None
