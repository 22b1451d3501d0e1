"""`rightsizer explain ID`: the whole reasoning behind a piece of advice, or behind a verdict."""

import argparse
import json
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rightsizer.cli.command import Command
from rightsizer.cli.explain_text import explanation_text
from rightsizer.cli.fleet_settings import fleet_settings_of
from rightsizer.cli.history_flag import add_history_flag, history_path
from rightsizer.cli.output import say
from rightsizer.cli.settings_flag import add_config_flag, settings_of
from rightsizer.domain.errors import AgentAbsentError, HistoryError
from rightsizer.edge.local import LocalClient
from rightsizer.publish.json_form import Form
from rightsizer.runtime.fleet.by_hand import explain_from_ledger
from rightsizer.runtime.fleet.settings import WholeSettings
from rightsizer.runtime.log import LogLevel
from rightsizer.runtime.log import configure as configure_log
from rightsizer.runtime.offline import explain_offline
from rightsizer.runtime.settings import Settings

__all__ = ["COMMAND"]

_DESCRIPTION: Final = """\
Tell what was seen, over which time and against which thresholds, how sure that is, what could be
done and what speaks for each way, what it saves at which price, how to do it, what has become of
it, and the PromQL that leads to the same numbers. The history is only read, beside a running agent
too; where none is kept, the agent is asked. Abstentions have ids as well: 'rightsizer advise'
lists them. With --fleet, the advice is what `rightsizer fleet` has kept; what it did not keep,
'rightsizer fleet --explain ID' judges anew.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Which verdict, and how to answer."""
    parser.add_argument("id", help="the id of a piece of advice, or of a verdict")
    parser.add_argument("--fleet", action="store_true", help="the advice of `rightsizer fleet`")
    add_history_flag(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON; times in seconds")
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain it."""
    settings = fleet_settings_of(arguments) if arguments.fleet else settings_of(arguments)
    configure_log(settings.log.format, LogLevel.WARNING)
    form = (
        explain_from_ledger(settings, arguments.id)
        if isinstance(settings, WholeSettings)
        else _form(arguments, settings)
    )
    say(json.dumps(form, indent=1) if arguments.json else explanation_text(form))
    return 0


def _form(arguments: argparse.Namespace, settings: Settings) -> Form:
    try:
        return explain_offline(history_path(arguments, settings), settings, arguments.id)
    except HistoryError:
        if not settings.path.api_socket:
            raise
        target = f"/api/v1/advice/{quote(arguments.id, safe='')}"
        try:
            form: Form = LocalClient(Path(settings.path.api_socket)).get(target)
        except AgentAbsentError:
            form = {}
        if not form:
            raise
        return form


COMMAND: Final = Command(
    "explain", "tell the whole reasoning behind a piece of advice", configure, run, _DESCRIPTION
)
