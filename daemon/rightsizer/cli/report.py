"""`rightsizer report`: GPU use over a span as text, HTML or JSON; the history is read only."""

import argparse
import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rightsizer.agent.report_facts import ReportQuery, report_facts
from rightsizer.agent.settings import Settings
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import (
    add_config_flag,
    add_history_flag,
    duration,
    history_path,
    moment,
    settings_of,
)
from rightsizer.io.files import whole_file
from rightsizer.model.errors import UsageError
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.report.builder import report_model
from rightsizer.report.documents import html_document, markdown_document, text_document
from rightsizer.report.model import ReportModel
from rightsizer.report.summary import summary_of

_HELP: Final = help_of(__file__)
SCHEMA_VERSION: Final = 1
"""Rises when a key changes its meaning or goes away; new keys do not change it."""


def json_document(model: ReportModel, _: dt.tzinfo) -> str:
    """All of it, floats as they are."""
    form = {"schema_version": SCHEMA_VERSION, "story": list(summary_of(model)), **asdict(model)}
    return json.dumps(form, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


REPORT_FORMATS: Final[Mapping[str, Callable[[ReportModel, dt.tzinfo], str]]] = {
    "text": text_document,
    "html": html_document,
    "markdown": markdown_document,
    "json": json_document,
}
"""Each makes the whole document; times are told in the time zone."""


def _configure(parser: argparse.ArgumentParser) -> None:
    form, zone = {"choices": REPORT_FORMATS}, {"default": "UTC"}
    add_flags(
        parser.add_argument, _HELP["flags"], last=duration, timezone=zone, format=form, output=Path
    )
    add_history_flag(parser)
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, Settings)
    path = history_path(arguments, settings.history)
    if arguments.output is not None and arguments.output.resolve() == path.resolve():
        raise UsageError(f"--output {arguments.output}: is the history itself; name another file")
    query = _query(arguments)
    model = report_model(report_facts(path, settings, query))
    is_read_now = arguments.output is None and sys.stdout.isatty()
    form = arguments.format or ("text" if is_read_now else "html")
    document = REPORT_FORMATS[form](model, query.timezone)
    if arguments.output is None:
        say(document.removesuffix("\n"), may_color=form == "text")
        return 0
    with whole_file(arguments.output, "report") as file:
        file.write(document.encode())
    return 0


def _query(arguments: argparse.Namespace) -> ReportQuery:
    if arguments.from_ is not None and arguments.last is not None:
        raise UsageError("--last: --from already says where the report begins; give one of them")
    timezone = _timezone(arguments.timezone)
    return ReportQuery(
        since=_moment("--from", arguments.from_, timezone),
        until=_moment("--to", arguments.to, timezone),
        last=None if arguments.last is None else nanoseconds(arguments.last),
        timezone=timezone,
        timezone_name=arguments.timezone,
    )


def _moment(flag: str, text: str | None, timezone: tzinfo) -> Nanoseconds | None:
    try:
        return None if text is None else moment(text, timezone)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{flag}: {error}") from None


def _timezone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"--timezone: '{name}' is not known on this machine; write it like Europe/Berlin, or "
            "install tzdata"
        ) from None


COMMAND = Command("report", _configure, _run, _HELP["description"])
