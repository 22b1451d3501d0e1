"""`rightsizer report`: GPU use over a span as text, HTML or JSON; the history is read only."""

import argparse
import re
import sys
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from rightsizer.agent.report_document import (
    REPORT_FORMATS,
    rendered_report,
    report_document,
    time_zone,
)
from rightsizer.agent.settings import Settings
from rightsizer.console.command import Command, add_flags, help_of, program, say
from rightsizer.console.flags import (
    REPORT_PATH,
    add_config_flag,
    add_history_flag,
    duration_text,
    history_path,
    settings_of,
    source_flags,
)
from rightsizer.console.remote_agent import RemoteAgent, add_url_flags, ask_node
from rightsizer.io.codec import convert
from rightsizer.io.files import whole_file
from rightsizer.model.values import HistoryError, RightsizerError, UsageError
from rightsizer.report.focus import FOCUS, PARQUET, write_focus
from rightsizer.report.model import ReportModel

_HELP: Final = help_of(__file__)
_EXPLAIN: Final = re.compile(r"^( *)rightsizer (explain \w+)$", re.MULTILINE)
_PATIENCE_SECONDS: Final = 60.0
"""Time for an agent to read up to a year of its history."""


def _configure(parser: argparse.ArgumentParser) -> None:
    report_format = {"choices": REPORT_FORMATS}
    zone = {"default": "UTC"}
    flags = {"timezone": zone, "format": report_format, "output": Path, "last": duration_text}
    add_flags(parser.add_argument, _HELP["flags"], **flags)
    add_url_flags(parser)
    add_history_flag(parser)
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    is_read_now = arguments.output is None and sys.stdout.isatty()
    report_format = arguments.format or ("text" if is_read_now else "html")
    query = {"format": report_format, "timezone": arguments.timezone, "last": arguments.last}
    query |= {"from": arguments.from_, "to": arguments.to}
    asked = {name: value for name, value in query.items() if value is not None}
    output = arguments.output
    is_bill = report_format == FOCUS
    if output is not None and output.suffix == PARQUET and not is_bill:
        raise UsageError(f"--output {output}: Parquet is for --format focus; name it otherwise")
    document = _of_agent(asked, arguments) if arguments.url else _of_history(arguments, asked)
    if output is None:
        if report_format == "text":
            # What makes the document may be an agent, which does not know these flags.
            next_command = rf"\1{program()} \2{source_flags(arguments)}"
            document = _EXPLAIN.sub(lambda line: line.expand(next_command), document)
        say(document.removesuffix("\n").removesuffix("\r"), may_color=report_format == "text")
        return 0
    if is_bill:
        write_focus(document, output)
        return 0
    with whole_file(output, "report") as file:
        file.write(document.encode())
    return 0


def _of_agent(asked: dict[str, str], arguments: argparse.Namespace) -> str:
    if asked["format"] != "text":
        agent = RemoteAgent.of(arguments, accept="text/*", timeout_seconds=_PATIENCE_SECONDS)
        return str(agent.get(f"{REPORT_PATH}?{urlencode(asked)}"))
    # Lines as wide as the reader's terminal, which the agent does not know.
    timezone = time_zone(asked["timezone"], "--")
    agent = RemoteAgent.of(arguments, timeout_seconds=_PATIENCE_SECONDS)
    answer = agent.get(f"{REPORT_PATH}?{urlencode(asked | {'format': 'json'})}", "summary")
    try:
        return rendered_report("text", convert(answer, ReportModel), timezone)
    except ValueError as error:
        fault = f"{agent.url}: its report is of another version ({error})"
        raise RightsizerError(f"{fault}; ask for --format json or html") from None


def _of_history(arguments: argparse.Namespace, asked: dict[str, str]) -> str:
    settings = settings_of(arguments, Settings)
    path = history_path(arguments, settings.history)
    if arguments.output is not None and arguments.output.resolve() == path.resolve():
        raise UsageError(f"--output {arguments.output}: is the history itself; name another file")
    try:
        return report_document(path, settings, asked, mark="--")
    except HistoryError as error:
        return ask_node(arguments, settings.web, partial(_of_agent, asked), error)


COMMAND = Command("report", _configure, _run, _HELP["description"])
