"""Report of a history as a document, by the flags of a command or the parameters of a request."""

import argparse
import datetime as dt
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import asdict

from rightsizer.agent.report_facts import ReportQuery, report_facts
from rightsizer.agent.settings import Settings
from rightsizer.console.answer import FORMATS
from rightsizer.console.flags import duration, moment
from rightsizer.model.values import Nanoseconds, UsageError, nanoseconds
from rightsizer.report.builder import report_model
from rightsizer.report.focus import FOCUS
from rightsizer.report.model import ReportModel
from rightsizer.report.node_focus import focus_document
from rightsizer.report.report_blocks import report_blocks, report_title, screen_blocks
from rightsizer.report.summary import summary_of

SCHEMA_VERSION: Final = 2
"""Rises when a key changes its meaning or is removed; new keys do not change it."""
REPORT_FORMATS: Final = (*FORMATS, FOCUS)
MEDIA_TYPES: Final = {
    "text": "text/plain",
    "html": "text/html",
    "markdown": "text/markdown",
    "json": "application/json",
    FOCUS: "text/csv",
}


def rendered_report(name: str, model: ReportModel, timezone: dt.tzinfo) -> str:
    """Return the whole report in a format, or a summary as text, with times in the time zone."""
    if name == FOCUS:
        return focus_document(model, timezone)
    blocks = (screen_blocks if name == "text" else report_blocks)(model, timezone)
    story = {"schema_version": SCHEMA_VERSION, "story": list(summary_of(model))}
    result = story | asdict(model)
    return FORMATS[name](report_title(model, timezone), result, blocks) + "\n"


def report_document(
    path: Path, settings: Settings, asked: Mapping[str, str], mark: str = ""
) -> str:
    """Render the document in the requested format; errors name a parameter with `mark` before it.

    Raises:
        HistoryError: there is no history, it is empty, or it cannot be read.
        UsageError: a parameter is wrong.
    """
    if (name := asked["format"]) not in REPORT_FORMATS:
        raise UsageError(f"{mark}format: '{name}'; choose from {', '.join(REPORT_FORMATS)}")
    query = _query(asked, mark)
    model = report_model(report_facts(path, settings, query))
    return rendered_report(name, model, query.timezone)


def _query(asked: Mapping[str, str], mark: str) -> ReportQuery:
    if "from" in asked and "last" in asked:
        raise UsageError(
            f"{mark}last: {mark}from already says where the report begins; give one of them"
        )
    timezone_name = asked.get("timezone", "UTC")
    timezone = time_zone(timezone_name, mark)

    def time(name: str) -> Nanoseconds | None:
        return _read(name, lambda text: moment(text, timezone))

    def _read(name: str, read: Callable[[str], Nanoseconds]) -> Nanoseconds | None:
        try:
            return read(asked[name]) if name in asked else None
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"{mark}{name}: {error}") from None

    return ReportQuery(
        since=time("from"),
        until=time("to"),
        last=_read("last", lambda text: nanoseconds(duration(text))),
        timezone=timezone,
        timezone_name=timezone_name,
    )


def time_zone(name: str, mark: str) -> tzinfo:
    """Return a time zone by its name; raises `UsageError`."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"{mark}timezone: '{name}' is not known on this machine; write it like Europe/Berlin, "
            "or install tzdata"
        ) from None
