"""Checks of the agent's own resources: history, socket, web ports, broker, profile captures."""

import grp
import os
import pwd
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rightsizer.agent.doctor.check import (
    Check,
    CheckContext,
    Verdict,
    connect_error,
    failed_check,
    folder_fault,
    is_listened_at,
    is_served_at,
)
from rightsizer.broker.settings import BrokerSettings
from rightsizer.host.listeners import listening_process
from rightsizer.io.program import program_of
from rightsizer.notify.webhook.settings import read_token
from rightsizer.owners.extension import loaded_extensions
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings
from rightsizer.web.settings import parse_address

_PRIVILEGED_PORTS: Final = 1024
_LENDING: Final = "GPUs for those who ask by 'rightsizer run'"
_LANDING: Final = "profiles beside telemetry"
_CALLING: Final = "profiles taken when a finding asks for one"
_LEAST_ROOM_BYTES: Final = 64 * 2**20
"""More than a full queue with its log takes."""


def check_extensions(_: CheckContext) -> Check:
    """Whether what other packages add could be loaded."""
    name = "extensions"
    extensions = loaded_extensions()
    if not extensions:
        return Check(name, Verdict.UNUSED, "no other package adds rules, owners or collectors")
    if broken := [
        f"{extension} ({extension.fault})" for extension in extensions if extension.fault
    ]:
        return failed_check(name, Verdict.LIMITED, "broken", f"left out: {'; '.join(broken)}")
    return Check(name, Verdict.OK, ", ".join(map(str, extensions)))


def check_history(context: CheckContext) -> Check:
    """Whether the configured history can be written."""
    name = "history"
    settings = context.settings.history
    if not settings.path:
        return Check(name, Verdict.UNUSED, "history.path is empty: nothing outlives a restart")
    path = Path(settings.path)
    lost = "all that was learned, at each restart; advice that takes days"
    return _unwritable(name, path, lost) or _room(name, path, settings.maximum_size_bytes)


def _unwritable(name: str, path: Path, lost: str) -> Check | None:
    """Return why the agent cannot write a file of its own, or `None` if it can.

    A missing folder often means that its file system is not mounted.
    """
    folder = path.parent
    if (reason := folder_fault(folder)) is not None:
        return failed_check(name, Verdict.MISSING, "absent", reason, lost=lost)
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        observation = f"{path} may not be written by user {os.geteuid()}"
        return failed_check(name, Verdict.LIMITED, "closed", observation, lost=lost)
    return None


def _room(name: str, path: Path, least_bytes: int) -> Check:
    disk = os.statvfs(path.parent)
    if (free := disk.f_bavail * disk.f_frsize) < least_bytes:
        observation = f"{path.parent} has {free // 2**20} MiB free"
        return failed_check(name, Verdict.LIMITED, "full", observation, size=least_bytes)
    return Check(name, Verdict.OK, f"{path}, {free // 2**20} MiB free")


def check_local_socket(context: CheckContext) -> Check:
    """Whether an agent answers at the socket, or one could be created there."""
    name = "local socket"
    path = context.settings.path.api_socket
    if not path:
        return Check(name, Verdict.UNUSED, "path.api_socket is empty")
    lost = "claim, dismiss, snooze, release and resume beside a running agent"
    if context.settings.broker.enabled:
        lost = f"run, queue, reserve and cancel, so that no GPU is lent; {lost}"
    if (error := connect_error(path)) is None:
        return Check(name, Verdict.OK, f"an agent answers at {path}")
    if isinstance(error, PermissionError):
        observation = f"{path} is closed to user {os.geteuid()}"
        return failed_check(name, Verdict.LIMITED, "closed", observation, lost=lost)
    if os.access(folder := Path(path).parent, os.W_OK):
        return Check(name, Verdict.OK, f"no agent runs; {folder} is open to this user")
    closed = f"user {os.geteuid()} may not put a socket into {folder}"
    observation = f"no agent answers at {path}, and {folder_fault(folder) or closed}"
    return failed_check(name, Verdict.LIMITED, "away", observation, lost=lost)


def check_web_port(context: CheckContext) -> Check:
    """Whether the addresses can be bound, or the agent has them already."""
    name = "web port"
    web = context.settings.web
    if web.systemd_socket:
        return Check(name, Verdict.OK, "systemd hands it over")
    troubles = []
    notes = []
    for text in web.listen_addresses:
        address = parse_address(text)
        if (refusal := _why_not(address.host, address.port)) is None:
            notes.append(f"{text} is free")
        elif isinstance(refusal, PermissionError) and address.port < _PRIVILEGED_PORTS:
            troubles.append(f"{text}: {refusal.strerror}")
        elif is_listened_at(address.host, address.port):
            process = listening_process(address.host, address.port)
            by = "another program" if process is None else "process {} ({})".format(*process)
            if is_served_at(address.host, address.port) or _may_have_tls(context):
                by = "the agent" if process is None else f"the agent, {by}"
                notes.append(f"{text} is taken by {by}")
            else:
                troubles.append(f"{text} is taken by {by}")
        else:
            troubles.append(f"{text}: {refusal.strerror}")
    if troubles:
        return failed_check(name, Verdict.MISSING, "closed", "; ".join(troubles))
    return Check(name, Verdict.OK, "; ".join(notes))


def _may_have_tls(context: CheckContext) -> bool:
    """Whether an agent runs, whose server may not answer without TLS."""
    path = context.settings.path.api_socket
    return bool(context.settings.web.config_file and path) and connect_error(path) is None


def _why_not(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return error
    return None


def check_broker(context: CheckContext) -> Check:
    """Whether the lease file is writable, a socket is configured, and the named users exist."""
    name = "broker"
    settings = context.settings.broker
    if not settings.enabled:
        return Check(name, Verdict.UNUSED, "broker.enabled is false: no GPU is lent")
    path = Path(settings.path)
    if (trouble := _unwritable(name, path, _LENDING)) is not None:
        return trouble
    if not context.settings.path.api_socket:
        observation = "path.api_socket is empty: no command can ask"
        return failed_check(name, Verdict.MISSING, "unasked", observation, lost=_LENDING)
    room = _room(name, path, _LEAST_ROOM_BYTES)
    if room.verdict is Verdict.OK and (unknown := ", ".join(_unknown(settings))):
        return failed_check(name, Verdict.LIMITED, "unknown", f"unknown: {unknown}")
    return room


def _unknown(settings: BrokerSettings) -> Iterator[str]:
    """Yield the configured users and groups that do not exist, each with its key."""
    lookups: dict[str, Callable[[str], object]] = {
        **dict.fromkeys(("users", "operators"), pwd.getpwnam),
        **dict.fromkeys(("groups", "operator_groups"), grp.getgrnam),
    }
    for key, look_up in lookups.items():
        for name in getattr(settings, key):
            try:
                look_up(name)
            except KeyError:
                yield f"'{name}' of broker.{key}"


def check_drop_folder(context: CheckContext) -> Check:
    """Whether profiles can be read from the drop folder, and captures be stored there."""
    name = "drop folder"
    settings = context.settings.profiles
    if not settings.drop_folder.path:
        return Check(name, Verdict.UNUSED, "profiles.drop_folder.path is not set")
    folder = Path(settings.drop_folder.path)
    if (reason := folder_fault(folder, os.R_OK | os.X_OK)) is not None:
        return failed_check(name, Verdict.MISSING, "absent", reason, lost=_LANDING)
    if folder.stat().st_mode & stat.S_IWOTH:
        return failed_check(name, Verdict.LIMITED, "open", f"everybody may write into {folder}")
    if settings.capture.kind is CaptureKind.NONE:
        return Check(name, Verdict.OK, str(folder))
    if not os.access(folder, os.W_OK):
        observation = f"{folder} may not be written by user {os.geteuid()}"
        return failed_check(name, Verdict.LIMITED, "closed", observation, lost=_CALLING)
    return _capture_room(name, folder, settings.capture)


def _capture_room(name: str, folder: Path, settings: CaptureSettings) -> Check:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    kept_free = settings.room.minimum_free_ratio * disk.f_blocks * disk.f_frsize
    observation = f"{folder}, {free // 2**20} MiB free"
    if free < settings.room.quota_bytes + kept_free:
        return failed_check(
            name, Verdict.LIMITED, "full", observation, quota=settings.room.quota_bytes
        )
    return Check(name, Verdict.OK, observation)


def check_capture(context: CheckContext) -> Check:
    """Whether the configured profiler can be called."""
    name = "capture"
    settings = context.settings.profiles.capture
    try:
        observation = _called(settings, context)
    except (OSError, ValueError) as error:
        return failed_check(name, Verdict.MISSING, "wrong", str(error))
    if observation is None:
        return Check(name, Verdict.UNUSED, "profiles.capture.kind is none")
    if settings.kind is CaptureKind.DYNOLOG and not is_listened_at(
        "localhost", settings.dynolog.port
    ):
        observation = f"no process listens on port {settings.dynolog.port}"
        return failed_check(name, Verdict.MISSING, "away", observation)
    return Check(name, Verdict.OK, observation)


def _called(settings: CaptureSettings, context: CheckContext) -> str | None:
    """Return what is called, `None` for no profiler; raise `OSError` or `ValueError` if absent."""
    if settings.kind is CaptureKind.COMMAND:
        return program_of(settings.command[0], context.environ)
    if settings.kind is CaptureKind.DYNOLOG:
        return program_of(settings.dynolog.program, context.environ)
    if settings.kind is CaptureKind.WEBHOOK:
        read_token(settings.webhook.token_file, context.environ)
        return "a webhook; whether it answers is seen with the first capture"
    return None
