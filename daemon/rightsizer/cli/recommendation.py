"""Commands on one recommendation: `rightsizer explain`, `claim`, `dismiss` and `snooze`."""

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import methodcaller
from typing import Any, Final, TypeVar
from urllib.parse import quote

from rightsizer.agent.offline_advice import act_offline, explain_offline
from rightsizer.agent.settings import Settings
from rightsizer.console.agent_client import add_agent_flags, asked_at, user_name
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import (
    FLEET_FILE,
    add_config_flag,
    add_history_flag,
    duration,
    duration_text,
    history_path,
    settings_of,
)
from rightsizer.console.remote_agent import ADVICE_PATH, RemoteAgent, add_url_flags, ask_node
from rightsizer.fleet.ledger import act_on_ledger, explain_from_ledger
from rightsizer.fleet.settings import FleetConfig
from rightsizer.io.codec import JsonObject, plain
from rightsizer.io.local import LocalClient
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.model.values import HistoryError, RightsizerError, UsageError, utc_text
from rightsizer.report.advice_document import advice_document
from rightsizer.report.explanation import Explanation, read_explanation
from rightsizer.report.explanation_blocks import explanation_blocks
from rightsizer.web.advice_api import ACTS

_HELP: Final = help_of(__file__)
_FLEET: Final = "recommendations of `rightsizer fleet`"
_Known = TypeVar("_Known")
_DONE: Final = {"claim": "Claimed", "dismiss": "Dismissed", "snooze": "Snoozed"}


def _configure_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="the id of a recommendation, or of a verdict")
    parser.add_argument("--fleet", action="store_true", help=_FLEET)
    add_history_flag(parser)
    add_url_flags(parser)
    add_format_flag(parser, "times in seconds")
    add_config_flag(parser)


def _explain(arguments: argparse.Namespace) -> int:
    if arguments.url:
        explanation = _explained_by_agent(arguments)
    elif arguments.fleet:
        fleet = _fleet_settings(arguments)
        configure_log(fleet.log.format, LogLevel.WARNING)
        explanation = explain_from_ledger(fleet, arguments.id)
    else:
        settings = settings_of(arguments, Settings)
        configure_log(settings.log.format, LogLevel.WARNING)
        explanation = _explained(arguments, settings)
    show(arguments, explanation.title, explanation, explanation_blocks(explanation))
    return 0


def _explained(arguments: argparse.Namespace, settings: Settings) -> Explanation:
    path = history_path(arguments, settings.history)

    def asked(error: HistoryError) -> Explanation:
        ask = methodcaller("get", _target(arguments.id))
        socket = settings.path.api_socket
        document: JsonObject | None = asked_at(socket, ask)
        if document is not None:
            return read_explanation(document)
        places = [socket] if socket else []
        return ask_node(arguments, settings.web, _explained_by_agent, error, places)

    return _known(arguments, lambda: explain_offline(path, settings, arguments.id), asked)


def _known(
    arguments: argparse.Namespace,
    offline: Callable[[], _Known],
    asked: Callable[[HistoryError], _Known],
) -> _Known:
    """Return what the history has, else what the agent of this node knows."""
    try:
        return offline()
    except HistoryError as error:
        return asked(error)
    except UsageError as unknown:
        # The agent may keep another history, or none.
        if not arguments.history_path:
            with suppress(RightsizerError):
                return asked(HistoryError(str(unknown)))
        raise


def _explained_by_agent(arguments: argparse.Namespace) -> Explanation:
    return read_explanation(RemoteAgent.of(arguments).get(_target(arguments.id)))


def _target(advice_id: str) -> str:
    return f"{ADVICE_PATH}/{quote(advice_id, safe='')}"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="the recommendation's id")
    add_flags(
        parser.add_argument, _HELP["flags"], for_=duration_text, actor={"default": user_name()}
    )
    add_format_flag(parser, "times in seconds")
    add_agent_flags(parser)
    parser.add_argument("--fleet", action="store_true", help=_FLEET)
    add_url_flags(parser)
    add_history_flag(parser)


def _run(verb: str, arguments: argparse.Namespace) -> int:
    if arguments.url:
        document = _asked_over_tcp(verb, arguments)
    else:
        document = (_of_fleet if arguments.fleet else _of_agent)(verb, arguments)
    done = _DONE[verb]
    said = [f"{done} by {document['actor']}: {document['summary']}"]
    if document["expires"] is not None:
        said.append(f"It stays so until {utc_text(document['expires'])}.")
    show(arguments, done, {"advice": document}, said)
    return 0


def _fleet_settings(arguments: argparse.Namespace) -> FleetConfig:
    arguments.usual_config_file = arguments.usual_config_file.with_name(FLEET_FILE)
    return settings_of(arguments, FleetConfig)


def _of_fleet(verb: str, arguments: argparse.Namespace) -> JsonObject:
    settings = _fleet_settings(arguments)
    socket = arguments.path_api_socket or settings.fleet.api_socket
    asked: JsonObject | None = asked_at(socket, partial(_asked, verb, arguments))
    if asked is not None:
        return asked
    configure_log(settings.log.format, LogLevel.WARNING)
    decision = _decision(verb, arguments)
    now = time.time_ns()
    return plain(advice_document(act_on_ledger(settings, arguments.id, **decision, now=now)))


def _of_agent(verb: str, arguments: argparse.Namespace) -> JsonObject:
    settings = settings_of(arguments, Settings)
    socket = arguments.path_api_socket or settings.path.api_socket
    asked: JsonObject | None = asked_at(socket, partial(_asked, verb, arguments))
    if asked is not None:
        return asked
    path = history_path(arguments, settings.history)
    configure_log(settings.log.format, LogLevel.WARNING)
    places = [str(socket)] if socket else []
    return _known(
        arguments,
        lambda: plain(
            advice_document(act_offline(path, settings, arguments.id, **_decision(verb, arguments)))
        ),
        lambda error: ask_node(
            arguments, settings.web, partial(_asked_over_tcp, verb), error, places
        ),
    )


def _asked_over_tcp(verb: str, arguments: argparse.Namespace) -> JsonObject:
    return _asked(verb, arguments, RemoteAgent.of(arguments))


def _asked(
    verb: str, arguments: argparse.Namespace, client: LocalClient | RemoteAgent
) -> JsonObject:
    body = {"actor": arguments.actor, "why": arguments.why, "for": arguments.for_}
    document: JsonObject = client.post(f"{_target(arguments.id)}/{verb}", body)["advice"]
    return document


def _decision(verb: str, arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "state": ACTS[verb],
        "actor": arguments.actor,
        "why": arguments.why or "",
        "for_seconds": None if arguments.for_ is None else duration(arguments.for_),
    }


def _command(verb: str) -> Command:
    description = f"{_HELP[verb]}\n{_HELP['description']}"
    return Command(verb, _configure, partial(_run, verb), description)


EXPLAIN: Final = Command("explain", _configure_explain, _explain, _HELP["explain"])
CLAIM: Final = _command("claim")
DISMISS: Final = _command("dismiss")
SNOOZE: Final = _command("snooze")
