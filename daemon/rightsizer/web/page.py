"""The page at `/`: the report through pure views into one self-contained HTML document."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rightsizer.model.frozen import dataclass
from rightsizer.model.report import Report
from rightsizer.model.span import DEFAULT_SPAN, SPANS, PastOf, Span
from rightsizer.model.units import Nanoseconds
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.report.labels import (
    PAGE_STATE_LABELS,
    STATE_ORDER,
    display_name,
    percent_label,
)
from rightsizer.web.settings import FitSettings

if TYPE_CHECKING:
    from jinja2 import Template


_TEMPLATES: Final = Path(__file__).with_name("templates")
_SCRIPT: Final = (_TEMPLATES / "page.js").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class PageQuery:
    """How the page is viewed."""

    span: Span
    is_paused: bool = False
    gpu: str = ""
    """The uuid of the one device to look at; empty for all."""
    may_act: bool = False
    """Whether the reader may claim, snooze and dismiss advice here."""


class WebPage:
    """Renders reports; the views and the template engine are loaded by the first reader."""

    def __init__(
        self,
        freshness: FreshnessSettings,
        fit: FitSettings,
        refresh_seconds: float,
        past: PastOf | None = None,
        poll_seconds: float = 5.0,
    ) -> None:
        """A page that is reloaded and polled at intervals; 0 for never."""
        self._fit, self._freshness, self._past = fit, freshness, past
        self._refresh_seconds, self._poll_seconds = refresh_seconds, poll_seconds

    def render(
        self, report: Report | None, now: Nanoseconds, look: PageQuery | None = None
    ) -> bytes:
        """The document for a report."""
        from rightsizer.web.summary import revision_of  # noqa: PLC0415
        from rightsizer.web.view.node import node_view  # noqa: PLC0415

        look = look or PageQuery(DEFAULT_SPAN)
        past = self._past(look.span) if self._past is not None and report is not None else None
        view = node_view(report, now, self._freshness, self._fit, look.span, past, chosen=look.gpu)
        interval_seconds = report.agent.interval_seconds if report is not None else 1.0
        document = _template().render(
            node=view,
            script=_SCRIPT,
            revision=revision_of(report, now, self._freshness),
            refresh_seconds=0 if look.is_paused else round(self._refresh_seconds),
            poll_seconds=max(self._poll_seconds, interval_seconds) if self._refresh_seconds else 0,
            is_paused=look.is_paused,
            can_refresh=self._refresh_seconds > 0,
            query=_query(look),
            may_act=look.may_act,
        )
        return document.encode()


def content_security_policy() -> str:
    """What the page may do: run its own script, known by its hash, and ask this server."""
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; connect-src 'self'; "
        "style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _query(look: PageQuery) -> str:
    """What the page's own address has to say of how it is looked at."""
    parts = [f"span={look.span.name}"] if look.span != DEFAULT_SPAN else []
    if look.gpu:
        parts.append(f"gpu={look.gpu}")
    return "&".join(parts)


@functools.cache
def _template() -> Template:
    # 10 MB of template engine, which an agent without readers never needs.
    import jinja2  # noqa: PLC0415

    from rightsizer.web.view.advice import risk_label  # noqa: PLC0415

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rightsizer.web"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "name": display_name,
        "percent": percent_label,
        "risk": risk_label,
        "version": lambda name: name.removesuffix("_version"),
    }
    environment.globals |= {
        "spans": SPANS,
        "states": STATE_ORDER,
        "state_labels": PAGE_STATE_LABELS,
    }
    return environment.get_template("page.html")
