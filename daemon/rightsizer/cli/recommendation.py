"""Commands on one recommendation: `rightsizer explain`, `claim`, `dismiss` and `snooze`."""

import argparse
import getpass
import json
import os
import time
from datetime import UTC, datetime
from functools import partial
from operator import methodcaller
from typing import Any, Final
from urllib.parse import quote

from rightsizer.agent.offline_advice import act_offline, explain_offline
from rightsizer.agent.settings import Settings
from rightsizer.console.agent_client import add_socket_flag, asked_at
from rightsizer.console.command import Command, add_flags, answer, say
from rightsizer.console.explanation import explanation_text
from rightsizer.console.flags import (
    add_config_flag,
    add_history_flag,
    duration,
    duration_text,
    history_path,
    settings_of,
)
from rightsizer.console.remote_agent import RemoteAgent, add_url_flags
from rightsizer.fleet.ledger import act_on_ledger, explain_from_ledger
from rightsizer.fleet.settings import FleetConfig
from rightsizer.io.local import LocalClient
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.model.errors import HistoryError, RightsizerError
from rightsizer.report.json_encoder import Form, advice_form
from rightsizer.web.advice_api import ACTS

_EXPLAINED: Final = """\
Tell what was seen, over which time and against which thresholds, how sure that is, what could be
done and what speaks for each way, what it saves at which price, how to do it, what has become of
it, and the PromQL that leads to the same numbers. The history is only read, beside a running agent
too; where none is kept, the agent is asked. Abstentions have ids as well: 'rightsizer advise'
lists them. With --url, an agent is asked at its address. With --fleet, the advice is what
`rightsizer fleet` has kept; what it did not keep,
'rightsizer fleet --explain ID' judges again.
"""
_HOW: Final = """\
The running agent is asked over its socket; where none runs, its history is changed under its lock,
and the next agent goes on from there. 'rightsizer advise' lists the ids. With --url, an agent is
asked at its address; it takes decisions of users alone, where web.enable_lifecycle is on.

With --fleet, the advice is that of 'rightsizer fleet': its service is asked over fleet.api_socket;
where none runs, its ledger is changed, and the next look tells of it.
"""
_DECISION: Final = """
--why TEXT: the reason, kept with it
--for TIME: how long it is to stay so, as in 12h or 7d; without it as recommender.ledger says
--actor NAME: who does so
--json: answer in JSON; times in seconds
"""
_DONE: Final = {"claim": "Claimed", "dismiss": "Dismissed", "snooze": "Snoozed"}
_CLAIMED: Final = (
    "Mark a recommendation as being worked on. It stays open, and once its GPUs have changed, "
    "before and after are compared."
)
_DISMISSED: Final = (
    "Close a recommendation that is not wanted. The same is not recommended again for a while."
)
_SNOOZED: Final = "Postpone a recommendation: it stays open, and its alerts are silent for a while."


def _configure_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="the id of a recommendation, or of a verdict")
    parser.add_argument("--fleet", action="store_true", help="the advice of `rightsizer fleet`")
    add_history_flag(parser)
    add_url_flags(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON; times in seconds")
    add_config_flag(parser)


def _explain(arguments: argparse.Namespace) -> int:
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
        form = _explained(arguments, settings)
    answer(arguments, form, explanation_text(form))
    return 0


def _explained(arguments: argparse.Namespace, settings: Settings) -> Form:
    try:
        return explain_offline(history_path(arguments, settings.history), settings, arguments.id)
    except HistoryError:
        ask = methodcaller("get", _target(arguments.id))
        form: Form | None = asked_at(settings.path.api_socket, ask)
        if not form:
            raise
        return form


def _target(advice_id: str) -> str:
    return f"/api/v1/advice/{quote(advice_id, safe='')}"


def _configure(parser: argparse.ArgumentParser) -> None:
    """Which advice, why, and for how long."""
    parser.add_argument("id", help="the advice's id")
    add_flags(parser.add_argument, _DECISION, for_=duration_text, actor={"default": _user()})
    add_socket_flag(parser)
    parser.add_argument("--fleet", action="store_true", help="the advice of `rightsizer fleet`")
    add_url_flags(parser)
    add_history_flag(parser)
    add_config_flag(parser)


def _run(verb: str, arguments: argparse.Namespace) -> int:
    """Do it, and say how the advice stands."""
    if arguments.url:
        form = _asked(verb, arguments, RemoteAgent.of(arguments))
    else:
        form = (_of_fleet if arguments.fleet else _of_agent)(verb, arguments)
    if arguments.json:
        say(json.dumps({"advice": form}, indent=1))
        return 0
    say(f"{_DONE[verb]} by {form['actor']}: {form['summary']}")
    if form["expires"] is not None:
        until = datetime.fromtimestamp(form["expires"], UTC)
        say(f"It stays so until {until:%Y-%m-%d %H:%M} UTC.")
    return 0


def _of_fleet(verb: str, arguments: argparse.Namespace) -> Form:
    settings = settings_of(arguments, FleetConfig)
    socket = arguments.path_api_socket or settings.fleet.api_socket
    asked: Form | None = asked_at(socket, partial(_asked, verb, arguments))
    if asked is not None:
        return asked
    configure_log(settings.log.format, LogLevel.WARNING)
    decision, now = _decision(verb, arguments), time.time_ns()
    return advice_form(act_on_ledger(settings, arguments.id, **decision, now=now))


def _of_agent(verb: str, arguments: argparse.Namespace) -> Form:
    settings = settings_of(arguments, Settings)
    socket = arguments.path_api_socket or settings.path.api_socket
    asked: Form | None = asked_at(socket, partial(_asked, verb, arguments))
    if asked is not None:
        return asked
    path = history_path(arguments, settings.history)
    configure_log(settings.log.format, LogLevel.WARNING)
    try:
        return advice_form(act_offline(path, settings, arguments.id, **_decision(verb, arguments)))
    except HistoryError as error:
        there = socket or "path.api_socket, which is ''"
        raise RightsizerError(f"no agent answers at {there}, and {error}") from None


def _asked(verb: str, arguments: argparse.Namespace, client: LocalClient | RemoteAgent) -> Form:
    body = {"actor": arguments.actor, "why": arguments.why, "for": arguments.for_}
    form: Form = client.post(f"{_target(arguments.id)}/{verb}", body)["advice"]
    return form


def _decision(verb: str, arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "state": ACTS[verb],
        "actor": arguments.actor,
        "why": arguments.why or "",
        "for_seconds": None if arguments.for_ is None else duration(arguments.for_),
    }


def _user() -> str:
    """Who types, before `sudo`."""
    if told := os.environ.get("SUDO_USER"):
        return told
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A user without an entry, as in a container.
        return f"uid:{os.getuid()}"


def _command(verb: str, words: str) -> Command:
    return Command(verb, _configure, partial(_run, verb), f"{words}\n\n{_HOW}")


EXPLAIN: Final = Command("explain", _configure_explain, _explain, _EXPLAINED)
CLAIM: Final = _command("claim", _CLAIMED)
DISMISS: Final = _command("dismiss", _DISMISSED)
SNOOZE: Final = _command("snooze", _SNOOZED)
