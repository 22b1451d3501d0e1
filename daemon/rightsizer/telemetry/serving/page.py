"""Metrics of serving engines: definition by engine, parser of pages, and their signals."""

import contextlib
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from rightsizer.io.codec import convert
from rightsizer.io.document import LINE_MAXIMUM, DocumentLimits, DocumentReading
from rightsizer.io.yaml import load_beside
from rightsizer.model.values import DriverError, Missing, ServedFigure, Signal, plausible
from rightsizer.telemetry.serving.settings import EngineName

_LIMITS: Final = DocumentLimits(8 * 2**20, 100_000, "lines")
"""Source: ten times the lines of twenty histograms of sixteen data-parallel engines."""
_PLAIN_SAMPLE: Final = re.compile(
    r'([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="[^"\\]*",?)*)\})? +(\S+)', re.ASCII
)
"""A line without escapes, times and exemplars, as engines write almost all of theirs."""
_PLAIN_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="([^"\\]*)"', re.ASCII)
_SUM: Final = "_sum"
_BUCKET: Final = "_bucket"
_BOUND: Final = "le"
_START: Final = "process_start_time_seconds"


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
    GROWTH = "growth"
    """Growth since the previous page."""
    PRODUCT = "product"
    """Product of the parts, each the largest of its series."""
    TEXT = "text"
    """The first text that says something."""


class MeasurePart(Struct, frozen=True):
    """Series of one metric, or those with certain labels."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    factor: float = 1.0
    """Factor to the base unit; negative for a part to subtract."""
    value: str = ""
    """Label whose text is the value, of metrics that only carry labels."""


class PageMeasure(Struct, frozen=True, kw_only=True):
    """One way to read a number or a text."""

    kind: MeasureKind
    parts: tuple[MeasurePart, ...]
    """Those present on a page are added."""
    counts: tuple[MeasurePart, ...] = ()
    """Divisor of a mean."""

    @property
    def buckets(self) -> MeasurePart | None:
        """Buckets of the histogram whose mean it is, or `None`."""
        if self.kind is not MeasureKind.MEAN or not self.parts[0].name.endswith(_SUM):
            return None
        return replace(self.parts[0], name=self.parts[0].name.removesuffix(_SUM) + _BUCKET)


class EngineMeasure(PageMeasure, frozen=True, kw_only=True):
    """One way to read a signal."""

    signal: Signal


class ServedMeasure(PageMeasure, frozen=True, kw_only=True):
    """One way to read a figure."""

    figure: ServedFigure


DISTRIBUTED: Final = (Signal.TIME_TO_FIRST_TOKEN_SECONDS, Signal.TIME_PER_OUTPUT_TOKEN_SECONDS)
"""Signals whose distribution is read, beside their mean."""


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
    models: frozenset[str] = frozenset()
    """Labels that name the model."""
    replicas: frozenset[str] = frozenset()
    """Labels that tell the engines of one page apart, each with the whole model."""
    served: tuple[ServedMeasure, ...] = ()
    """As `measures`, of figures."""

    def recognizes(self, names: frozenset[str]) -> bool:
        """Return whether a page with these metrics is of this engine."""
        has_prefix = any(name.startswith(self.prefixes) for name in names)
        return has_prefix or (bool(self.unprefixed) and self.unprefixed <= names)

    @property
    def names(self) -> frozenset[str]:
        """All metrics that are read."""
        measures: tuple[PageMeasure, ...] = (*self.measures, *self.served)
        parts = (part for measure in measures for part in (*measure.parts, *measure.counts))
        return frozenset(part.name for part in parts)

    @property
    def distributions(self) -> frozenset[str]:
        """Histograms of which the buckets are read, too."""
        measures: tuple[PageMeasure, ...] = (
            *(measure for measure in self.measures if measure.signal in DISTRIBUTED),
            *self.served,
        )
        return frozenset(measure.buckets.name for measure in measures if measure.buckets)


def canonical(name: str) -> str:
    """Return a metric's name as spelled in the tables.

    Colons are reserved for recording rules, so routers and newer engines write `_` instead.
    """
    return name.replace(":", "_")


ENGINES: Final = convert(load_beside(__file__, "engines.yaml"), tuple[EngineDefinition, ...])
"""In order of detection."""
_READ: Final = {engine.name: engine.names | engine.distributions | {_START} for engine in ENGINES}
Labels: TypeAlias = tuple[tuple[str, str], ...]
_NOTHING: Final[Mapping[Labels, float]] = {}
_RESTART_SECONDS: Final = 1.0
"""Between two starts; what is less is how a start is rounded."""


class EngineMetricsPage(Struct, frozen=True):
    """Metrics of an engine by series; not summed, since each series may restart."""

    engine: EngineDefinition
    series: Mapping[str, Mapping[Labels, float]]

    def of(self, part: MeasurePart) -> Mapping[Labels, float]:
        """Return the series of a part, as on the page."""
        series = self.series.get(part.name, _NOTHING)
        if not part.labels:
            return series
        wanted = set(part.labels)
        return {labels: value for labels, value in series.items() if wanted <= set(labels)}

    def numbers(self, part: MeasurePart) -> list[float]:
        """Return the values of a part by series, in base units, without texts that are none."""
        if not part.value:
            return [value * part.factor for value in self.of(part).values()]
        numbers = []
        for text in self.texts(part):
            with contextlib.suppress(ValueError):
                numbers.append(float(text) * part.factor)
        return [number for number in numbers if 0 <= number < math.inf]

    def texts(self, part: MeasurePart) -> list[str]:
        """Return the texts of a part's label by series."""
        return [text for labels in self.of(part) if (text := dict(labels).get(part.value))]

    @property
    def started_seconds(self) -> float | None:
        """When the engine started, since the epoch; `None` if it does not tell."""
        return max(self.series.get(_START, _NOTHING).values(), default=None)


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
    read = _READ[engine.name]
    wanted = [line for line, name in names.items() if name in read]
    if not (is_empty or engine.starts_empty or engine.names & set(names.values())):
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
        engine_names = ", ".join(engine.name for engine in ENGINES)
        raise DriverError(f"the page has no metrics of a serving engine ({engine_names})")
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
            if plain := _PLAIN_SAMPLE.fullmatch(line):
                name, labels, text = plain.groups()
                if 0 <= (value := float(text)) <= sys.float_info.max:
                    yield canonical(name), dict(_PLAIN_LABEL.findall(labels or "")), value
                continue
            for family in text_string_to_metric_families(line):
                for sample in family.samples:
                    # NaN, infinities and negative numbers are no counts.
                    if 0 <= sample.value <= sys.float_info.max:
                        yield canonical(sample.name), sample.labels, float(sample.value)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise DriverError(f"the page is not in Prometheus's text format: {error}") from None


def counted_from(
    page: EngineMetricsPage, before: EngineMetricsPage | None
) -> EngineMetricsPage | None:
    """Return the page that counters have grown from: of an engine that has restarted, an empty one.

    `None` without a former page of the same engine.
    """
    if before is None or before.engine is not page.engine:
        return None
    started = page.started_seconds
    former = before.started_seconds
    if started is None or former is None or started - former < _RESTART_SECONDS:
        return before
    return EngineMetricsPage(page.engine, {})


def values_of(
    page: EngineMetricsPage, before: EngineMetricsPage | None = None, elapsed_seconds: float = 0.0
) -> Mapping[Signal, float]:
    """Return the signals of a page; means need the previous page of the same engine."""
    former = counted_from(page, before)
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
    measure: PageMeasure,
    page: EngineMetricsPage,
    former: EngineMetricsPage | None,
    elapsed_seconds: float,
) -> float | None:
    if measure.kind in (MeasureKind.TOTAL, MeasureKind.LARGEST):
        numbers = [number for part in measure.parts for number in page.numbers(part)]
        if not numbers:
            return None
        return sum(numbers) if measure.kind is MeasureKind.TOTAL else max(numbers)
    if former is None:
        return None
    if measure.kind is MeasureKind.MEAN:
        added, happened = grown(measure, page, former)
        return added / happened if happened > 0 else None
    is_whole = all(page.of(part) and former.of(part) for part in measure.parts)
    if elapsed_seconds <= 0 or not is_whole:
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


def grown(
    measure: PageMeasure, page: EngineMetricsPage, former: EngineMetricsPage
) -> tuple[float, float]:
    """Return how much the parts of a measure, and what they are divided by, have grown.

    Series with the same labels restart together; one that is new began at 0.
    """
    restarted = {
        labels
        for part in (*measure.parts, *measure.counts)
        for before in (former.of(part),)
        for labels, value in page.of(part).items()
        if value < before.get(labels, 0.0)
    }
    torn: AbstractSet[Labels] = frozenset()
    if measure.buckets is not None:
        # Sum and count are written one after the other: one alone says nothing.
        sums = page.of(measure.parts[0])
        counts = page.of(measure.counts[0])
        torn = sums.keys() ^ counts.keys()

    def growth(parts: tuple[MeasurePart, ...]) -> float:
        return sum(
            (value - (0.0 if labels in restarted else before.get(labels, 0.0))) * part.factor
            for part in parts
            for before in (former.of(part),)
            for labels, value in page.of(part).items()
            if labels not in torn
        )

    return growth(measure.parts), growth(measure.counts)


def grown_buckets(
    measure: PageMeasure, page: EngineMetricsPage, former: EngineMetricsPage
) -> dict[float, float]:
    """Return how many values a histogram has got by upper bound, above the bound before.

    Without those above the last bound, which are the rest of its count.
    """
    if (part := measure.buckets) is None:
        return {}
    upto: dict[float, float] = {}
    before = former.of(part)
    for labels, value in page.of(part).items():
        with contextlib.suppress(ValueError, StopIteration):
            bound = float(next(text for name, text in labels if name == _BOUND)) * part.factor
            past = before.get(labels, 0.0)
            upto[bound] = upto.get(bound, 0.0) + value - (past if past <= value else 0.0)
    buckets: dict[float, float] = {}
    below = 0.0
    lower = 0.0
    for bound in sorted(upto):
        # A page may be read between the updates of two buckets.
        if math.isfinite(bound) and upto[bound] > below:
            # The bound before an only bucket says where that one begins.
            buckets.setdefault(lower, 0.0)
            buckets[bound] = upto[bound] - below
            below = upto[bound]
        lower = bound
    return buckets
