"""`rightsizer forget`: drop a GPU that is gone from metrics and state."""

import argparse
from contextlib import closing
from pathlib import Path
from typing import Final

from rightsizer.advice.storage import Storage
from rightsizer.agent.local_api import FORGET_PATH, unknown_device
from rightsizer.agent.settings import Settings
from rightsizer.console.agent_client import add_agent_flags, asked_at
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, help_of
from rightsizer.console.flags import add_history_flag, history_path, settings_of
from rightsizer.io.codec import JsonObject
from rightsizer.io.files import is_there
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.model.values import HistoryError

_HELP: Final = help_of(__file__)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("uuid", help="the GPU's uuid, as in device_down of the log or in /metrics")
    add_format_flag(parser, "the uuid")
    add_agent_flags(parser)
    add_history_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, Settings)
    socket = arguments.path_api_socket or settings.path.api_socket
    body = {"uuid": arguments.uuid}
    asked: JsonObject | None = asked_at(socket, lambda client: client.post(FORGET_PATH, body))
    if asked is None:
        configure_log(settings.log.format, LogLevel.WARNING)
        asked = _forget_offline(history_path(arguments, settings.history), settings, arguments.uuid)
    show(arguments, "Forgotten", asked, [f"Forgot {asked['uuid']}; its history is kept."])
    return 0


def _forget_offline(path: Path, settings: Settings, uuid: str) -> JsonObject:
    """Mark the GPU in a history that no agent holds.

    Raises:
        AbsentError: the history has no such GPU.
        HistoryError: there is no history, or an agent holds it.
    """
    if not is_there(path):
        raise HistoryError(f"history '{path}' does not exist; name one with --history.path")
    maximum = settings.history.maximum_size_bytes
    with closing(Storage(str(path), maximum_bytes=maximum)) as storage:
        if not storage.kept_history.forget(uuid):
            raise unknown_device(uuid)
    return {"uuid": uuid}


COMMAND: Final = Command("forget", _configure, _run, _HELP["description"])
