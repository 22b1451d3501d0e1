"""Exposition of a report: selection, format and rendering of a scrape, once per generation."""

import gzip
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Final

from rightsizer.exposition.dcgm import DCGM_CONTENT_TYPE, DcgmLabelEncoder, dcgm_page
from rightsizer.exposition.families import (
    Families,
    SampleFamily,
    SeriesCache,
    open_metrics_text,
    prometheus_text,
)
from rightsizer.exposition.negotiation import ExpositionFormat, Rendering, accepts_gzip, format_for
from rightsizer.exposition.process_metrics import process_families
from rightsizer.exposition.report_collector import add_report
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.host.node_name import node_name
from rightsizer.model.values import Collector, Nanoseconds, Report, UsageError
from rightsizer.report.facts import RateOf, no_rate
from rightsizer.report.freshness import FreshnessSettings, fresh_devices


def _selected_collectors(
    collect: Sequence[str], exclude: Sequence[str], enabled: frozenset[Collector]
) -> frozenset[Collector] | None:
    """Return the collectors that a request selects, or `None` for all enabled ones.

    Raises:
        UsageError: a collector is unknown or off, or both lists are given.
    """
    if collect and exclude:
        raise UsageError("collect[] and exclude[] exclude each other; use one of them")
    if exclude:
        return enabled - _known(exclude, enabled)
    return _known(collect, enabled) if collect else None


def _selected(
    families: Iterable[SampleFamily], names: frozenset[str], collectors: frozenset[Collector] | None
) -> list[SampleFamily]:
    chosen = [
        sample_family
        for sample_family in families
        if collectors is None or sample_family.head.collector in collectors
    ]
    if not names:
        return chosen
    return [family for sample_family in chosen if (family := sample_family.restricted(names)).lines]


def _known(asked: Iterable[str], enabled: Collection[Collector]) -> frozenset[Collector]:
    for name in asked:
        if name not in set(Collector):
            enabled_names = ", ".join(sorted(enabled))
            raise UsageError(f"there is no collector '{name}'; those that are on: {enabled_names}")
        if name not in enabled:
            raise UsageError(
                f"the collector '{name}' is off; start the agent with --collector.{name}, or set "
                f"web.metrics.collectors.{name} to true"
            )
    return frozenset(map(Collector, asked))


_CHANGING_ESCAPINGS: Final = ("dots", "values")
_DCGM_TWICE: Final = (
    "/metrics/dcgm is refused while a dcgm-exporter is read itself, at {url}: every GPU would be "
    "there twice; scrape that one, or set sources.dcgm.url to ''"
)
_RENDERINGS_KEPT: Final = 16
"""Cached formats, encodings and filters of one generation; others are rendered each time."""


@dataclass(slots=True)
class _Generation:
    key: object = None
    report: Report | None = None
    fresh: frozenset[str] = frozenset()
    families: list[SampleFamily] | None = None
    renderings: dict[object, Rendering] = field(default_factory=dict)


class MetricsExposition:
    """Renders the latest report; the cost does not depend on the number of scrapers."""

    def __init__(  # noqa: PLR0913, PLR0917 - clock and hostname are injected.
        self,
        latest: Callable[[], Report | None],
        settings: MetricsSettings | None = None,
        freshness: FreshnessSettings | None = None,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
        dcgm_source: str = "",
        hostname: str = "",
        rate_of: RateOf = no_rate,
    ) -> None:
        """Create the exposition; `dcgm_source` is the URL of the dcgm-exporter read, if any."""
        self._latest = latest
        self._wall_time = wall_time
        self._freshness = freshness or FreshnessSettings()
        self._dcgm_source = dcgm_source
        self._hostname = hostname or node_name()
        self._rate_of = rate_of
        self._lock = threading.Lock()
        self._series = SeriesCache()
        self.change_settings(settings or MetricsSettings())

    def change_settings(self, settings: MetricsSettings) -> None:
        """Apply other settings from the next scrape on."""
        with self._lock:
            self._settings = settings
            self._enabled = settings.enabled
            self._generation = _Generation()

    def render(
        self,
        accept: str = "",
        accept_encoding: str = "",
        names: Sequence[str] = (),
        collect: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Rendering:
        """Render the metrics for a scrape.

        Args:
            accept: The request's `Accept` header.
            accept_encoding: Its `Accept-Encoding` header.
            names: Only samples of these names, from `name[]=`; all if empty.
            collect: Only metrics of these collectors, from `collect[]=`.
            exclude: All metrics except those of these collectors, from `exclude[]=`.

        Raises:
            UsageError: a collector is unknown or off, or both `collect` and `exclude` are given.
        """
        collectors = _selected_collectors(collect, exclude, self._enabled)
        only = frozenset(names)
        chosen = format_for(accept)
        is_gzip = accepts_gzip(accept_encoding)
        with self._lock:
            return self._rendering(
                (chosen, only, collectors),
                chosen.content_type,
                lambda: _encode(_selected(self._families(), only, collectors), chosen),
                is_gzip=is_gzip,
            )

    def dcgm_refusal(self) -> str | None:
        """Return why `/metrics/dcgm` is not served, with the remedy, or `None` if it is."""
        if not self._settings.dcgm:
            return "/metrics/dcgm is off; set web.metrics.dcgm to true to serve it"
        return _DCGM_TWICE.format(url=self._dcgm_source) if self._dcgm_source else None

    def render_dcgm(self, *, is_gzip: bool = False) -> Rendering:
        """Render the page of dcgm-exporter's metrics; empty before the first report."""
        with self._lock:
            return self._rendering("dcgm", DCGM_CONTENT_TYPE, self._dcgm_page, is_gzip=is_gzip)

    def _rendering(
        self, key: object, content_type: str, encode: Callable[[], bytes], *, is_gzip: bool
    ) -> Rendering:
        """Return a body of the current generation, encoded once per key and encoding."""
        renderings = self._current().renderings
        if (key, is_gzip) in renderings:
            return renderings[key, is_gzip]
        body = encode()
        if is_gzip:
            body = gzip.compress(body, self._settings.gzip_level, mtime=0)
        rendering = Rendering(body, content_type, "gzip" if is_gzip else None)
        if len(renderings) < _RENDERINGS_KEPT:
            renderings[key, is_gzip] = rendering
        return rendering

    def _current(self) -> _Generation:
        if (report := self._latest()) is None:
            self._generation = _Generation()
            return self._generation
        fresh = fresh_devices(report, self._wall_time(), self._freshness)
        if (key := (report.generation, fresh)) != self._generation.key:
            # The old generation is freed first: memory never holds both.
            self._generation = _Generation(key, report, fresh)
        return self._generation

    def _families(self) -> list[SampleFamily]:
        generation = self._generation
        if generation.families is None:
            families = Families(self._enabled, self._settings.level, self._series)
            limit = self._settings.advice_limit
            add_report(families, generation.report, generation.fresh, limit, self._hostname)
            if generation.report is not None:
                _add_prices(families, generation.report, self._rate_of)
            generation.families = list(families)
            if Collector.PROCESS in self._enabled:
                generation.families += process_families()
        return generation.families

    def _dcgm_page(self) -> bytes:
        report = self._generation.report
        if report is None:
            return b""
        version = report.node.driver.get("driver_version", "")
        labels = DcgmLabelEncoder(self._settings.dcgm_labels, self._hostname, version)
        return dcgm_page(report, self._generation.fresh, labels).encode()


def _add_prices(families: Families, report: Report, rate_of: RateOf) -> None:
    for device_report in report.devices:
        device = device_report.device
        if (rate := rate_of(device)) is not None:
            dollars = rate.dollars_per_hour_typical * device.capacity_ratio
            families.add("rightsizer_device_dollars_per_hour", dollars, device.uuid)


def _encode(families: Iterable[SampleFamily], chosen: ExpositionFormat) -> bytes:
    if chosen.escaping in _CHANGING_ESCAPINGS:
        return _escaped(open_metrics_text(families).decode(), chosen)
    return (open_metrics_text if chosen.is_open_metrics else prometheus_text)(families)


def _escaped(text: str, chosen: ExpositionFormat) -> bytes:
    """Return OpenMetrics with names escaped by the library; scrapers do not ask for it."""
    # Imported on use: the library loads its servers and TLS, which few agents need.
    from prometheus_client import exposition as library_text  # noqa: PLC0415
    from prometheus_client.openmetrics import exposition as library_open_metrics  # noqa: PLC0415
    from prometheus_client.openmetrics.parser import text_string_to_metric_families  # noqa: PLC0415

    metrics = list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    # The library's encoders expect a collector.
    collector = SimpleNamespace(collect=lambda: metrics)
    library = library_open_metrics if chosen.is_open_metrics else library_text
    return bytes(library.generate_latest(collector, escaping=chosen.escaping))
