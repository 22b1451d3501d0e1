"""Exposition of a report: selection, format and rendering of a scrape, once a generation."""

import gzip
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client import exposition as library_text
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as library_open_metrics

from rightsizer.exposition import families as writer
from rightsizer.exposition.dcgm import DcgmExposition
from rightsizer.exposition.families import SampleFamily, family_of
from rightsizer.exposition.negotiation import ExpositionFormat, Rendering, accepts_gzip, format_for
from rightsizer.exposition.report_collector import ReportCollector
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.errors import UsageError
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.metric_family import Collector
from rightsizer.model.report import Report
from rightsizer.model.units import Nanoseconds
from rightsizer.report.freshness import FreshnessSettings, fresh_devices


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of the exposition that a request asks for."""

    names: frozenset[str]
    """Of samples; empty for all."""
    collectors: frozenset[Collector] | None
    """`None` for all that are on."""

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        collect: Sequence[str],
        exclude: Sequence[str],
        enabled: frozenset[Collector],
    ) -> "Selection":
        """The selection that the parameters of a request describe.

        Raises:
            UsageError: a collector is unknown or off, or both lists are given.
        """
        if collect and exclude:
            raise UsageError("collect[] and exclude[] exclude each other; use one of them")
        collectors = None
        if collect:
            collectors = _known(collect, enabled)
        elif exclude:
            collectors = enabled - _known(exclude, enabled)
        return cls(frozenset(names), collectors)

    def families(self, families: Iterable[SampleFamily]) -> list[SampleFamily]:
        """What is left of an exposition's families."""
        chosen = [
            family
            for family in families
            if self.collectors is None or family.collector in self.collectors
        ]
        if not self.names:
            return chosen
        restricted = (family.restricted(self.names) for family in chosen)
        return [family for family in restricted if family.samples]


def _known(asked: Iterable[str], enabled: Collection[Collector]) -> frozenset[Collector]:
    for name in asked:
        if name not in set(Collector):
            known = ", ".join(sorted(enabled))
            raise UsageError(f"there is no collector '{name}'; those that are on: {known}")
        if name not in enabled:
            raise UsageError(
                f"the collector '{name}' is off; start the agent with --collector.{name}, or set "
                f"web.metrics.collectors.{name} to true"
            )
    return frozenset(map(Collector, asked))


_CHANGING_ESCAPINGS: Final = ("dots", "values")
_RENDERINGS_KEPT: Final = 16
"""Formats, encodings and filters of one generation; more are rendered anew."""


@dataclass(slots=True)
class _Generation:
    key: object = None
    families: list[SampleFamily] = field(default_factory=list)
    renderings: dict[object, Rendering] = field(default_factory=dict)


class MetricsExposition:
    """Renders the latest report, for any number of scrapers at the price of one."""

    def __init__(
        self,
        latest: Callable[[], Report | None],
        settings: MetricsSettings | None = None,
        freshness: FreshnessSettings | None = None,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
        dcgm_source: str = "",
    ) -> None:
        """An exposition on a registry of its own.

        Args:
            latest: Gives the report to render, `None` before the first.
            settings: How much is exported.
            freshness: When a reading is too old to be exported.
            wall_time: The clock that the report's own times are of.
            dcgm_source: The address of the dcgm-exporter that is read; empty for none.
        """
        self._latest = latest
        self._freshness = freshness or FreshnessSettings()
        self._wall_time = wall_time
        self._dcgm_source = dcgm_source
        self._lock = threading.Lock()
        self.change(settings or MetricsSettings())

    def change(self, settings: MetricsSettings) -> None:
        """Export as other settings say, from the next scrape on."""
        collector = ReportCollector(settings.advice_limit, settings.enabled)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(collector)
        process = ProcessCollector(registry=registry)
        dcgm = DcgmExposition(
            self._latest,
            settings=settings,
            freshness=self._freshness,
            wall_time=self._wall_time,
            own_source=self._dcgm_source,
        )
        with self._lock:
            self._settings, self._enabled = settings, settings.enabled
            self._collector, self._process = collector, process
            self.registry, self.dcgm = registry, dcgm
            self._generation = _Generation()

    def render(
        self,
        accept: str = "",
        accept_encoding: str = "",
        names: Sequence[str] = (),
        collect: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Rendering:
        """The metrics as a scraper wants them.

        Args:
            accept: The request's `Accept` header.
            accept_encoding: Its `Accept-Encoding` header.
            names: Only samples of these names, as `name[]=` asks; all where there are none.
            collect: Only metrics of these collectors, as `collect[]=` asks.
            exclude: All but the metrics of these collectors, as `exclude[]=` asks.

        Raises:
            UsageError: a collector is unknown or off, or both of the last two are given.
        """
        selection = Selection.of(names, collect, exclude, self._enabled)
        chosen, is_gzip = format_for(accept), accepts_gzip(accept_encoding)
        key = (chosen, is_gzip, selection)
        with self._lock:
            generation = self._current()
            if key in generation.renderings:
                return generation.renderings[key]
            body = _encode(selection.families(generation.families), chosen)
            if is_gzip:
                body = gzip.compress(body, self._settings.gzip_level, mtime=0)
            rendering = Rendering(body, chosen.content_type, "gzip" if is_gzip else None)
            if len(generation.renderings) < _RENDERINGS_KEPT:
                generation.renderings[key] = rendering
            return rendering

    def _current(self) -> _Generation:
        report = self._latest()
        fresh: frozenset[str] = frozenset()
        if report is not None:
            fresh = fresh_devices(report, self._wall_time(), self._freshness)
        key = (report.generation if report is not None else None, fresh)
        if key != self._generation.key or report is None:
            # The last one goes before this one comes: memory never holds both.
            self._generation = _Generation()
            self._collector.show(report, fresh)
            families = list(self._collector.families())
            if Collector.PROCESS in self._enabled:
                own = self._process.collect()
                families += [family_of(metric, Collector.PROCESS) for metric in own]
            self._generation = _Generation(key, families)
        return self._generation


class _Collected:
    """Families that stand where one of the library's encoders expects a registry."""

    def __init__(self, families: Iterable[SampleFamily]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return [family.metric() for family in self._families]


def _encode(families: Iterable[SampleFamily], chosen: ExpositionFormat) -> bytes:
    if chosen.escaping in _CHANGING_ESCAPINGS:
        # Nobody asks for these; our writer does not rewrite names.
        library = library_open_metrics if chosen.is_open_metrics else library_text
        return bytes(library.generate_latest(_Collected(families), escaping=chosen.escaping))
    return (writer.open_metrics_text if chosen.is_open_metrics else writer.prometheus_text)(
        families
    )
