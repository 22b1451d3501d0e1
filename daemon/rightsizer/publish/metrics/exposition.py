"""What a scrape gets: the format it asked for, rendered once a generation."""

import gzip
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    ProcessCollector,
)
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted

from rightsizer.domain.report import Report
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.freshness import FreshnessSettings, fresh_devices
from rightsizer.publish.metrics import writer
from rightsizer.publish.metrics.collector import ReportCollector
from rightsizer.publish.metrics.settings import MetricsSettings

__all__ = ["Exposition", "Rendering"]

_OPEN_METRICS: Final = "application/openmetrics-text"
_PLAIN_ESCAPINGS: Final = ("escaping=dots", "escaping=values")
_RENDERINGS_KEPT: Final = 16
"""Formats, encodings and name filters of one generation; more are rendered anew."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """A scrape's answer."""

    body: bytes
    content_type: str
    encoding: str | None
    """`gzip`, or `None` for a body as it is."""


@dataclass(slots=True)
class _Generation:
    key: object = None
    families: list[Metric] = field(default_factory=list)
    renderings: dict[object, Rendering] = field(default_factory=dict)


class Exposition:
    """Renders the latest report, for any number of scrapers at the price of one."""

    def __init__(
        self,
        latest: Callable[[], Report | None],
        settings: MetricsSettings | None = None,
        freshness: FreshnessSettings | None = None,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
    ) -> None:
        """An exposition on a registry of its own.

        Args:
            latest: Gives the report to render, `None` before the first.
            settings: How much is exported.
            freshness: When a reading is too old to be exported.
            wall_time: The clock that the report's own times are of.
        """
        self._latest = latest
        self._settings = settings or MetricsSettings()
        self._freshness = freshness or FreshnessSettings()
        self._wall_time = wall_time
        self._collector = ReportCollector(
            self._settings.advice_limit, details=self._settings.details
        )
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self._collector)
        ProcessCollector(registry=self.registry)
        self._lock = threading.Lock()
        self._generation = _Generation()

    def render(
        self,
        accept: str = "",
        accept_encoding: str = "",
        names: Sequence[str] = (),
    ) -> Rendering:
        """The metrics as a scraper wants them.

        Args:
            accept: The request's `Accept` header.
            accept_encoding: Its `Accept-Encoding` header.
            names: Only samples of these names, as `name[]=` asks; all where there are none.
        """
        encoder, content_type = choose_encoder(accept)
        is_gzip = gzip_accepted(accept_encoding)
        wanted = frozenset(names)
        key = (content_type, is_gzip, wanted)
        with self._lock:
            generation = self._current()
            if key in generation.renderings:
                return generation.renderings[key]
            body = _encode(_restricted(generation.families, wanted), content_type, encoder)
            if is_gzip:
                body = gzip.compress(body, self._settings.gzip_level, mtime=0)
            rendering = Rendering(body, content_type, "gzip" if is_gzip else None)
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
            self._collector.show(report, fresh)
            self._generation = _Generation(key, list(self.registry.collect()))
        return self._generation


def _restricted(families: Iterable[Metric], names: frozenset[str]) -> list[Metric]:
    if not names:
        return list(families)
    restricted = []
    for family in families:
        samples = [sample for sample in family.samples if sample.name in names]
        if samples:
            chosen = Metric(family.name, family.documentation, family.type, family.unit)
            chosen.samples = samples
            restricted.append(chosen)
    return restricted


class _Collected:
    """Families that stand where an encoder expects a registry."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _encode(
    families: list[Metric], content_type: str, encoder: Callable[[_Collected], bytes]
) -> bytes:
    if any(escaping in content_type for escaping in _PLAIN_ESCAPINGS):
        # Nobody asks for these; our writer does not rewrite names.
        return encoder(_Collected(families))
    write = writer.open_metrics if content_type.startswith(_OPEN_METRICS) else writer.text
    return write(families)
