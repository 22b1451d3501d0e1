"""Page at `/`: one self-contained HTML document of pure views; cache of the spans that it shows."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from rightsizer.accounting.rollup_store import WindowQuery, device_span
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    SPANS,
    Blocks,
    BlocksOf,
    DeviceSpan,
    Nanoseconds,
    PastOf,
    Report,
    Span,
    TimeRange,
    dollars_text,
    percent_text,
)
from rightsizer.report import labels
from rightsizer.report.facts import RateOf, no_rate
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.report.served_labels import served_detail, served_label
from rightsizer.report.template import environment_of, script_hash
from rightsizer.web.page_query import NodePast, PageQuery, selected_uuids
from rightsizer.web.settings import FitSettings

if TYPE_CHECKING:
    from jinja2 import Template


_TEMPLATES: Final = Path(__file__).with_name("templates")
_SCRIPT: Final = (_TEMPLATES / "page.js").read_text(encoding="utf-8")


class WebPage(Struct, frozen=True):
    """Renders reports; views and template engine are imported with the first reader."""

    freshness: FreshnessSettings
    fit: FitSettings
    refresh_seconds: float
    """Interval of reloads and updates; 0 for none."""
    past: PastOf | None = None
    poll_seconds: float = 5.0
    blocks: BlocksOf | None = None
    has_plan_form: bool = False
    rate_of: RateOf = no_rate
    has_socket: bool = True
    """Whether commands on the node find the agent without its address."""

    def past_of(self, span: Span) -> Mapping[str, DeviceSpan] | None:
        """Return what devices did over a span, or `None` if only the report knows."""
        return self.past(span) if self.past is not None else None

    def render(
        self, report: Report | None, now: Nanoseconds, query: PageQuery | None = None
    ) -> bytes:
        """Render the document for a report."""
        # Imported on use: for the first reader, not in every agent.
        from rightsizer.web.summary import revision_of  # noqa: PLC0415
        from rightsizer.web.view.node import node_view  # noqa: PLC0415

        query = query or PageQuery()
        past = self._past(report, query) if report is not None else None
        view = node_view(report, now, self.freshness, self.fit, query, past)
        interval_seconds = report.agent.interval_seconds if report is not None else 1.0
        document = _template().render(
            node=view,
            script=_SCRIPT,
            revision=revision_of(report, now, self.freshness),
            refresh_seconds=0 if query.is_paused else round(self.refresh_seconds),
            poll_seconds=max(self.poll_seconds, interval_seconds) if self.refresh_seconds else 0,
            query=query,
            has_plan_form=self.has_plan_form,
            has_socket=self.has_socket,
            can_refresh=self.refresh_seconds > 0,
            selection=query.selection if view.selected else "",
        )
        return document.encode()

    def _past(self, report: Report, query: PageQuery) -> NodePast | None:
        """Return the past to draw; `None` if only the report has it."""
        if self.past is None:
            return None
        now = report.wall_time
        drawn = query.zoom or TimeRange(now - query.span.length, now)
        uuids = selected_uuids(report, query)
        return NodePast(
            spans=self.past(query.span),
            detail=None if query.zoom is None else self.past(query.zoom.detail(now)),
            blocks=self.blocks(uuids, drawn) if self.blocks and uuids else {},
            rate_of=self.rate_of,
        )


_RENEWED: Final = 24
"""Fraction of a cell after which a span is read again; earlier changes are not visible."""
_SHORTEST: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND


class SpanCache:
    """Cache of device activity by span, so that many readers cost as little as one."""

    def __init__(self, queries: Callable[[], tuple[Nanoseconds, tuple[WindowQuery, ...]]]) -> None:
        self._queries = queries
        self._lock = threading.Lock()
        self._cached: dict[str, tuple[Nanoseconds, Mapping[str, DeviceSpan]]] = {}

    def __call__(self, span: Span) -> Mapping[str, DeviceSpan]:
        """Activity of each device over a span, by uuid."""
        with self._lock:
            now, queries = self._queries()
            made, spans = self._cached.get(span.name, (None, {}))
            fresh_for = max(_SHORTEST, span.cell // _RENEWED)
            is_fresh = made is not None and 0 <= now - made < fresh_for
            if is_fresh and {query.uuid for query in queries} <= spans.keys():
                return spans
            spans = {query.uuid: device_span(query, span, now) for query in queries}
            self._cached[span.name] = now, spans
            return spans

    def blocks(self, uuids: Collection[str], stretch: TimeRange) -> Mapping[str, Blocks]:
        """Blocks of some devices in a past time range, by uuid."""
        _, queries = self._queries()
        return {
            query.uuid: query.blocks(stretch.start, stretch.end)
            for query in queries
            if query.uuid in uuids
        }


def content_security_policy() -> str:
    """Return the policy of the page: its own script by hash, and requests to this server."""
    return (
        f"default-src 'none'; script-src '{script_hash(_SCRIPT)}'; connect-src 'self'; "
        "style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@functools.cache
def _template() -> Template:
    # Imported on use, as in `render`.
    from rightsizer.advice.compatible import savings_sum  # noqa: PLC0415
    from rightsizer.report import rows  # noqa: PLC0415
    from rightsizer.report.evidence_labels import evidence_labels  # noqa: PLC0415
    from rightsizer.web.view import advice, device, totals  # noqa: PLC0415

    environment = environment_of("rightsizer.web")
    environment.filters |= {
        "served_label": served_label,
        "served_detail": served_detail,
        "name": labels.display_name,
        "dollars": dollars_text,
        "percent": percent_text,
        "uncapitalized": labels.uncapitalized,
    }
    words = {"advice": advice, "cards": device, "labels": labels, "totals": totals}
    functions = {
        "amount_text": rows.amount_text,
        "evidence_labels": evidence_labels,
        "page_columns": [
            column for column in rows.GPU_COLUMNS if column.is_live and "below" not in column.kind
        ],
        "workload_columns": lambda shown: rows.filled(shown, rows.WORKLOAD_COLUMNS),
        "savings_sum": savings_sum,
    }
    environment.globals |= words | functions | {"spans": SPANS}
    return environment.get_template("page.html")
