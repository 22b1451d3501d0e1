"""What a scrape of `/metrics/dcgm` gets: the text format alone, rendered once a generation."""

import gzip
import os
import socket
import threading
from collections.abc import Callable
from typing import Final

from rightsizer.domain.report import Report
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.freshness import FreshnessSettings, fresh_devices
from rightsizer.publish.metrics.dcgm.labels import Spelling
from rightsizer.publish.metrics.dcgm.page import dcgm_page
from rightsizer.publish.metrics.rendering import Rendering
from rightsizer.publish.metrics.settings import MetricsSettings

__all__ = ["DcgmExposition", "node_name"]

_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_OFF: Final = "/metrics/dcgm is off; set web.metrics.dcgm to true to serve it"
_OWN_SOURCE: Final = (
    "/metrics/dcgm is refused while a dcgm-exporter is read itself, at {url}: every GPU would be "
    "there twice; scrape that one, or set sources.dcgm.url to ''"
)


def node_name() -> str:
    """The node's name as dcgm-exporter finds it: Kubernetes's, or the host's own."""
    return os.environ.get("NODE_NAME") or socket.gethostname()


class DcgmExposition:
    """Renders the latest report in dcgm-exporter's manner."""

    def __init__(  # noqa: PLR0913 - the clock and the name are the outside world's.
        self,
        latest: Callable[[], Report | None],
        *,
        settings: MetricsSettings,
        freshness: FreshnessSettings,
        wall_time: Callable[[], Nanoseconds],
        own_source: str = "",
        hostname: str = "",
    ) -> None:
        """An exposition, refused unless it is switched on.

        Args:
            latest: Gives the report to render, `None` before the first.
            settings: Whether it is on, and the labels' spelling.
            freshness: When a reading is too old to be exported.
            wall_time: The clock that the report's own times are of.
            own_source: The address of the dcgm-exporter that is read; empty for none.
            hostname: The node's name; empty for that which dcgm-exporter would find.
        """
        self._latest = latest
        self._settings = settings
        self._freshness = freshness
        self._wall_time = wall_time
        self._own_source = own_source
        self._hostname = hostname or node_name()
        self._lock = threading.Lock()
        self._key: object = None
        self._bodies: dict[bool, bytes] = {}

    @property
    def refusal(self) -> str | None:
        """Why it is not served and what to do, `None` where it is."""
        if not self._settings.dcgm:
            return _OFF
        return _OWN_SOURCE.format(url=self._own_source) if self._own_source else None

    def render(self, *, is_gzip: bool = False) -> Rendering:
        """The page as a scraper wants it; empty before the first report."""
        with self._lock:
            bodies = self._current()
            if is_gzip and True not in bodies:
                bodies[True] = gzip.compress(bodies[False], self._settings.gzip_level, mtime=0)
            return Rendering(bodies[is_gzip], _CONTENT_TYPE, "gzip" if is_gzip else None)

    def _current(self) -> dict[bool, bytes]:
        report = self._latest()
        if report is None:
            return {False: b""}
        fresh = fresh_devices(report, self._wall_time(), self._freshness)
        key = (report.generation, fresh)
        if key != self._key:
            spelling = Spelling(
                self._settings.dcgm_labels,
                self._hostname,
                report.node.driver.get("driver_version", ""),
            )
            self._key, self._bodies = key, {False: dcgm_page(report, fresh, spelling).encode()}
        return self._bodies
