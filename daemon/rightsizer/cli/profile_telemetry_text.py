"""Telemetry beside a profile, for a terminal."""

from collections.abc import Mapping
from typing import Any

from rightsizer.cli.wrapped import wrapped
from rightsizer.publish.report.profile_beside import beside

__all__ = ["telemetry_lines"]


def telemetry_lines(form: Mapping[str, Any] | None) -> list[str]:
    """What the node's history says of the same GPUs and time; nothing where none was asked."""
    if form is None:
        return []
    lines = ["", "  Telemetry of the same GPUs and time"]
    if not form["devices"]:
        lines += wrapped(form["unmatched"] or "there is no GPU in it", 4)
    for each in beside(form):
        lines += wrapped(each.title, 4)
        for detail in each.details:
            lines += wrapped(detail, 6)
        for text in each.contradictions:
            lines += wrapped(f"CONTRADICTION: {text}", 6)
        for text in each.agreements:
            lines += wrapped(text, 6)
    return lines
