"""`rightsizer replay`: account for a recording."""

import argparse
import contextlib
import json
import sys
from pathlib import Path

from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.command import Command
from rightsizer.cli.output import say
from rightsizer.cli.replay_text import replay_text
from rightsizer.cli.settings_flag import add_config_flag, settings_of
from rightsizer.domain.errors import HistoryError, UsageError
from rightsizer.runtime.filling import Filling
from rightsizer.runtime.log import LogLevel
from rightsizer.runtime.log import configure as configure_log
from rightsizer.runtime.replay import replay, replay_form
from rightsizer.runtime.timeline import Timeline
from rightsizer.telemetry.recorded.source import open_recording

__all__ = ["COMMAND"]

_DESCRIPTION = """\
Account for a recording: nvidia-smi CSV and dmon, dcgmi dmon, gpustat JSON, Prometheus text with
timestamps or JSON of range queries, our own recordings, CSV of signals, or any CSV by a column map.
Several files of one recording merge by device and time; each may be gzipped. Times without a zone
are taken as UTC.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """What to read, by which map, and where to leave what comes of it."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="files of a recording")
    parser.add_argument(
        "--board",
        metavar="KEY",
        help="board of the catalogue, such as H100-SXM5-80GB, for what the log does not say: "
        "memory in bytes, power limit in watts, clocks in hertz",
    )
    parser.add_argument(
        "--columns", type=Path, metavar="MAP.yaml", help="which columns of a CSV mean what"
    )
    parser.add_argument(
        "--timeline",
        type=Path,
        metavar="OUT.csv",
        help="write every stretch of every device; start and end in seconds since the epoch",
    )
    parser.add_argument(
        "--into", type=Path, metavar="HISTORY", help="fill a history with the recording"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON; times in seconds")
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay and print what came of it."""
    settings = settings_of(arguments)
    configure_log(settings.log.format, LogLevel.WARNING)
    _check_outputs(arguments)
    source = open_recording(
        arguments.files, catalogue=built_in(), board=arguments.board, columns=arguments.columns
    )
    with contextlib.ExitStack() as stack:
        stack.callback(source.close)
        sinks = []
        if arguments.timeline is not None:
            sinks.append(stack.enter_context(Timeline(arguments.timeline)))
        history = None
        if arguments.into is not None:
            history = stack.enter_context(Filling(arguments.into)).history
        result = replay(source, settings, entries=sinks, history=history)
        warnings = source.warnings
    for warning in warnings:
        print(f"rightsizer: warning: {warning}", file=sys.stderr)
    if arguments.json:
        say(json.dumps(replay_form(result), indent=1))
    else:
        say(replay_text(result))
    return 0


def _check_outputs(arguments: argparse.Namespace) -> None:
    inputs = {file.resolve() for file in arguments.files}
    for flag, output in (("--timeline", arguments.timeline), ("--into", arguments.into)):
        if output is not None and output.resolve() in inputs:
            raise UsageError(f"{flag} {output}: is a file of the recording; name another")
    into = arguments.into
    # The agent makes its own folder; one that a person has mistyped is not to be made.
    if into is not None and not into.parent.exists():
        raise HistoryError(
            f"history '{into}' cannot be written: there is no folder '{into.parent}'; "
            "make it, or name another"
        )


COMMAND = Command("replay", "account for a recording", configure, run, _DESCRIPTION)
