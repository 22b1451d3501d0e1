"""`rightsizer claim`, `dismiss` and `snooze`: decide on a recommendation."""

import argparse
import getpass
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rightsizer.agent.offline_advice import act_offline
from rightsizer.agent.settings import Settings
from rightsizer.console.command import Command, say
from rightsizer.console.flags import duration
from rightsizer.console.settings_flags import (
    add_config_flag,
    add_history_flag,
    history_path,
    settings_of,
)
from rightsizer.fleet.ledger import act_on_ledger, fleet_settings_of
from rightsizer.host.settings import PathSettings
from rightsizer.io.local import LocalClient
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.model.errors import AgentAbsentError, HistoryError, RightsizerError
from rightsizer.report.json_encoder import Form, advice_form
from rightsizer.web.advice_api import ACTS

_HOW: Final = """\
The running agent is asked over its socket; where none runs, its history is changed under its lock,
and the next agent goes on from there. 'rightsizer advise' lists the ids.

With --fleet, the advice is that of 'rightsizer fleet': its service is asked over fleet.api_socket;
where none runs, its ledger is changed, and the next look tells of it.
"""
_DONE: Final = {
    "claim": "Claimed",
    "dismiss": "Dismissed",
    "snooze": "Snoozed",
}


def _configure(parser: argparse.ArgumentParser) -> None:
    """Which advice, why, and for how long."""
    parser.add_argument("id", help="the advice's id")
    parser.add_argument("--why", metavar="TEXT", help="the reason, kept with it")
    parser.add_argument(
        "--for",
        dest="for_time",
        type=_span,
        metavar="TIME",
        help="how long it is to stay so, as in 12h or 7d; without it as recommender.ledger says",
    )
    parser.add_argument(
        "--actor",
        default=_user(),
        metavar="NAME",
        help="who does so",
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON; times in seconds")
    parser.add_argument(
        "--path.api-socket",
        dest="api_socket",
        type=Path,
        metavar="FILE",
        help="the socket to ask at; without it path.api_socket of the configuration "
        f"(default: {PathSettings().api_socket})",
    )
    parser.add_argument("--fleet", action="store_true", help="the advice of `rightsizer fleet`")
    add_history_flag(parser)
    add_config_flag(parser)


def _run(verb: str, arguments: argparse.Namespace) -> int:
    """Do it, and say how the advice stands."""
    form = _fleet(verb, arguments) if arguments.fleet else _agent(verb, arguments)
    if arguments.json:
        say(json.dumps({"advice": form}, indent=1))
        return 0
    say(f"{_DONE[verb]} by {form['actor']}: {form['summary']}")
    if form["expires"] is not None:
        until = datetime.fromtimestamp(form["expires"], UTC)
        say(f"It stays so until {until:%Y-%m-%d %H:%M} UTC.")
    return 0


def _agent(verb: str, arguments: argparse.Namespace) -> Form:
    settings = settings_of(arguments, Settings)
    socket = arguments.api_socket or settings.path.api_socket
    return _asked(verb, arguments, socket) or _offline(verb, arguments, settings)


def _fleet(verb: str, arguments: argparse.Namespace) -> Form:
    settings = fleet_settings_of(arguments)
    asked = _asked(verb, arguments, arguments.api_socket or settings.fleet.api_socket)
    if asked is not None:
        return asked
    configure_log(settings.log.format, LogLevel.WARNING)
    return advice_form(
        act_on_ledger(
            settings,
            arguments.id,
            state=ACTS[verb],
            actor=arguments.actor,
            why=arguments.why or "",
            for_seconds=_seconds(arguments.for_time),
            now=time.time_ns(),
        )
    )


def _asked(verb: str, arguments: argparse.Namespace, path: str | Path) -> Form | None:
    """The advice as the one at a socket answers; `None` where nobody does."""
    if not path:
        return None
    body = {"actor": arguments.actor, "why": arguments.why, "for": arguments.for_time}
    try:
        target = f"/api/v1/advice/{quote(arguments.id, safe='')}/{verb}"
        form: Form = LocalClient(Path(path)).post(target, body)["advice"]
    except AgentAbsentError:
        return None
    return form


def _offline(verb: str, arguments: argparse.Namespace, settings: Settings) -> Form:
    path = history_path(arguments, settings)
    configure_log(settings.log.format, LogLevel.WARNING)
    try:
        advice = act_offline(
            path,
            settings,
            arguments.id,
            state=ACTS[verb],
            actor=arguments.actor,
            why=arguments.why or "",
            for_seconds=_seconds(arguments.for_time),
        )
    except HistoryError as error:
        socket = arguments.api_socket or settings.path.api_socket or "path.api_socket, which is ''"
        raise RightsizerError(f"no agent answers at {socket}, and {error}") from None
    return advice_form(advice)


def _span(text: str) -> str:
    """A duration that was looked at, as it was written: the agent reads it too."""
    duration(text)
    return text


def _seconds(text: str | None) -> float | None:
    return None if text is None else duration(text)


def _user() -> str:
    """Who types, before `sudo`."""
    if told := os.environ.get("SUDO_USER"):
        return told
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A user without an entry, as in a container.
        return f"uid:{os.getuid()}"


def _command(verb: str, words: str) -> Command:
    run: Callable[[argparse.Namespace], int] = partial(_run, verb)
    return Command(verb, _configure, run, f"{words}\n\n{_HOW}")


CLAIM: Final = _command(
    "claim",
    "Say that somebody acts on a piece of advice. It stays open, and once what it is about has "
    "changed, before and after are compared.",
)
DISMISS: Final = _command(
    "dismiss",
    "Close a piece of advice that is not wanted. The same is not advised again for a while.",
)
SNOOZE: Final = _command(
    "snooze",
    "Put a piece of advice off: it stays open, and alerts of it rest for a while.",
)
