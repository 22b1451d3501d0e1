"""What a report is of, in a line."""

import datetime as dt
from collections import Counter
from typing import Final

from rightsizer.publish.report.figures import day_text
from rightsizer.publish.report.model import ReportModel, Span

__all__ = ["kinds_text", "period_text"]

_MOMENT: Final = dt.timedelta(seconds=1)


def period_text(span: Span, timezone: dt.tzinfo) -> str:
    """`5 January 2026 to 3 February 2026`, the last day included."""
    first = dt.datetime.fromtimestamp(span.start, timezone).date()
    last = (dt.datetime.fromtimestamp(span.end, timezone) - _MOMENT).date()
    return day_text(first) if first == last else f"{day_text(first)} to {day_text(last)}"


def kinds_text(model: ReportModel) -> str:
    """`8 x NVIDIA H100 80GB HBM3`."""
    counts = Counter(row.model or "GPU of unknown kind" for row in model.devices)
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(counts.items()))
