"""`rightsizer claim`, `dismiss` and `snooze`: say what becomes of a piece of advice."""

import argparse
import getpass
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rightsizer.cli.command import Command, add_config_flag, duration, settings_of
from rightsizer.cli.history_flag import add_history_flag, history_path
from rightsizer.cli.output import say
from rightsizer.domain.errors import AgentAbsentError, HistoryError, RightsizerError
from rightsizer.edge.local import LocalClient
from rightsizer.publish.json_form import Form, advice_form
from rightsizer.runtime.advice_control import ACTS
from rightsizer.runtime.log import LogLevel
from rightsizer.runtime.log import configure as configure_log
from rightsizer.runtime.offline import act_offline
from rightsizer.runtime.settings import PathSettings, Settings

__all__ = ["CLAIM", "DISMISS", "SNOOZE"]

_HOW: Final = """\
The running agent is asked over its socket; where none runs, its history is changed under its lock,
and the next agent goes on from there. 'rightsizer advise' lists the ids.
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
        help="the agent's socket; without it path.api_socket of the configuration "
        f"(default: {PathSettings().api_socket})",
    )
    add_history_flag(parser)
    add_config_flag(parser)


def _run(verb: str, arguments: argparse.Namespace) -> int:
    """Do it, and say how the advice stands."""
    settings = settings_of(arguments)
    form = _asked(verb, arguments, settings) or _offline(verb, arguments, settings)
    if arguments.json:
        say(json.dumps({"advice": form}, indent=1))
        return 0
    say(f"{_DONE[verb]} by {form['actor']}: {form['summary']}")
    if form["expires"] is not None:
        until = datetime.fromtimestamp(form["expires"], UTC)
        say(f"It stays so until {until:%Y-%m-%d %H:%M} UTC.")
    return 0


def _asked(verb: str, arguments: argparse.Namespace, settings: Settings) -> Form | None:
    """The advice as the agent answers; `None` where no agent runs."""
    path = arguments.api_socket or settings.path.api_socket
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
    for_seconds = None if arguments.for_time is None else duration(arguments.for_time)
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
            for_seconds=for_seconds,
        )
    except HistoryError as error:
        socket = arguments.api_socket or settings.path.api_socket or "path.api_socket, which is ''"
        raise RightsizerError(f"no agent answers at {socket}, and {error}") from None
    return advice_form(advice)


def _span(text: str) -> str:
    """A duration that was looked at, as it was written: the agent reads it too."""
    duration(text)
    return text


def _user() -> str:
    """Who types, whoever they have become to do so."""
    if told := os.environ.get("SUDO_USER"):
        return told
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A user without an entry, as in a container.
        return f"uid:{os.getuid()}"


def _command(verb: str, summary: str, words: str) -> Command:
    run: Callable[[argparse.Namespace], int] = partial(_run, verb)
    return Command(verb, summary, _configure, run, f"{words}\n\n{_HOW}")


CLAIM: Final = _command(
    "claim",
    "say that somebody acts on a piece of advice",
    "Say that somebody acts on a piece of advice. It stays open, and once what it is about has "
    "changed, before and after are compared.",
)
DISMISS: Final = _command(
    "dismiss",
    "close a piece of advice that is not wanted",
    "Close a piece of advice that is not wanted. The same is not advised again for a while.",
)
SNOOZE: Final = _command(
    "snooze",
    "put a piece of advice off",
    "Put a piece of advice off: it stays open, and alerts of it rest for a while.",
)
