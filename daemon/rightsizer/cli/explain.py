"""`rightsizer explain ID`: the whole reasoning behind a piece of advice, or behind a verdict."""

import argparse
import contextlib
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rightsizer.agent.offline_advice import explain_offline
from rightsizer.agent.settings import Settings
from rightsizer.console.command import Command, answer
from rightsizer.console.explanation import explanation_text
from rightsizer.console.remote_agent import RemoteAgent, add_url_flags
from rightsizer.console.settings_flags import (
    add_config_flag,
    add_history_flag,
    history_path,
    settings_of,
)
from rightsizer.fleet.ledger import explain_from_ledger
from rightsizer.fleet.settings import FleetConfig
from rightsizer.io.local import LocalClient
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.model.errors import AgentAbsentError, HistoryError
from rightsizer.report.json_encoder import Form

_DESCRIPTION: Final = """\
Tell what was seen, over which time and against which thresholds, how sure that is, what could be
done and what speaks for each way, what it saves at which price, how to do it, what has become of
it, and the PromQL that leads to the same numbers. The history is only read, beside a running agent
too; where none is kept, the agent is asked. Abstentions have ids as well: 'rightsizer advise'
lists them. With --url, an agent is asked at its address. With --fleet, the advice is what
`rightsizer fleet` has kept; what it did not keep,
'rightsizer fleet --explain ID' judges again.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Which verdict, and how to answer."""
    parser.add_argument("id", help="the id of a piece of advice, or of a verdict")
    parser.add_argument("--fleet", action="store_true", help="the advice of `rightsizer fleet`")
    add_history_flag(parser)
    add_url_flags(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON; times in seconds")
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain it."""
    if arguments.url:
        form = RemoteAgent.of(arguments).get(_target(arguments.id))
    elif arguments.fleet:
        fleet = settings_of(arguments, FleetConfig)
        configure_log(fleet.log.format, LogLevel.WARNING)
        form = explain_from_ledger(fleet, arguments.id)
    else:
        settings = settings_of(arguments, Settings)
        configure_log(settings.log.format, LogLevel.WARNING)
        form = _form(arguments, settings)
    answer(arguments, form, explanation_text(form))
    return 0


def _target(advice_id: str) -> str:
    return f"/api/v1/advice/{quote(advice_id, safe='')}"


def _form(arguments: argparse.Namespace, settings: Settings) -> Form:
    form: Form = {}
    try:
        return explain_offline(history_path(arguments, settings.history), settings, arguments.id)
    except HistoryError:
        if settings.path.api_socket:
            with contextlib.suppress(AgentAbsentError):
                form = LocalClient(Path(settings.path.api_socket)).get(_target(arguments.id))
        if not form:
            raise
        return form


COMMAND: Final = Command("explain", configure, run, _DESCRIPTION)
