"""The page at `/`: the report through pure views into one self-contained HTML document."""

import threading
from typing import TYPE_CHECKING

from rightsizer.domain.report import Report
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.publish.web.view import FitSettings, node_view

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["Page"]


class Page:
    """Renders reports; the template engine is loaded by the first reader."""

    def __init__(
        self, freshness: FreshnessSettings, fit: FitSettings, refresh_seconds: float
    ) -> None:
        """A page that renews itself every `refresh_seconds`, 0 for never."""
        self._fit = fit
        self._freshness = freshness
        self._refresh_seconds = refresh_seconds
        self._lock = threading.Lock()
        self._template: Template | None = None

    def render(self, report: Report | None, now: Nanoseconds, *, is_paused: bool = False) -> bytes:
        """The document for a report; `is_paused` keeps it from renewing itself."""
        view = node_view(report, now, self._freshness, self._fit)
        refresh_seconds = 0 if is_paused else round(self._refresh_seconds)
        document = self._loaded().render(
            node=view,
            refresh_seconds=refresh_seconds,
            is_paused=is_paused,
            can_refresh=self._refresh_seconds > 0,
        )
        return document.encode()

    def _loaded(self) -> "Template":
        with self._lock:
            if self._template is None:
                # 10 MB of template engine that an agent nobody looks at never needs.
                import jinja2  # noqa: PLC0415

                environment = jinja2.Environment(
                    loader=jinja2.PackageLoader("rightsizer.publish.web"),
                    autoescape=True,
                    trim_blocks=True,
                    lstrip_blocks=True,
                    undefined=jinja2.StrictUndefined,
                )
                self._template = environment.get_template("page.html")
            return self._template
