"""Checks of the agent's own: history, local socket, web ports, broker."""

import grp
import os
import pwd
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from rightsizer.agent.doctor.check import Check, CheckContext, Verdict
from rightsizer.broker.settings import BrokerSettings
from rightsizer.web.settings import parse_address

_PRIVILEGED_PORTS: Final = 1024


def check_history(place: CheckContext) -> Check:
    """Whether the history can be written where it is configured."""
    name, settings = "history", place.settings.history
    if not settings.path:
        return Check(name, Verdict.UNUSED, "history.path is empty: nothing outlives a restart")
    path = Path(settings.path)
    folder = path.parent
    lost = "all that was learned, at each restart; advice that takes days"
    if (trouble := unwritable(name, path, lost)) is not None:
        return trouble
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < settings.maximum_size_bytes:
        return Check(
            name,
            Verdict.LIMITED,
            f"{folder} has {free // 2**20} MiB free",
            "what comes once the disk is full",
            f"make room, or set history.maximum_size below {settings.maximum_size_bytes} bytes",
        )
    return Check(name, Verdict.OK, f"{path}, {free // 2**20} MiB free")


def unwritable(name: str, path: Path, lost: str) -> Check | None:
    """What keeps the agent from writing a file of its own; `None` where nothing does.

    A folder that is not there is one whose file system is not mounted, as often as not.

    Args:
        name: Of the check.
        path: The file's.
        lost: What there is not without it.
    """
    folder = path.parent
    if not folder.is_dir():
        return Check(
            name,
            Verdict.MISSING,
            f"there is no folder {folder}, or it is closed to user {os.geteuid()}",
            lost,
            "create it for the agent's user (systemd does, by StateDirectory=)",
        )
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        return Check(
            name,
            Verdict.LIMITED,
            f"{path} may not be written by user {os.geteuid()}",
            lost,
            "give the folder to the agent's user; outside of /var/lib/rightsizer add it to "
            "ReadWritePaths= as well",
        )
    return None


def check_local_socket(place: CheckContext) -> Check:
    """Whether an agent answers at its socket, or one could be put there."""
    name, path = "local socket", place.settings.path.api_socket
    if not path:
        return Check(name, Verdict.UNUSED, "path.api_socket is empty")
    lost = "claim, dismiss, snooze, release and resume beside a running agent"
    if place.settings.broker.enabled:
        lost = f"run, queue, reserve and cancel, so that nobody is lent a GPU; {lost}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except PermissionError:
            return Check(
                name,
                Verdict.LIMITED,
                f"{path} is closed to user {os.geteuid()}",
                lost,
                "join the agent's group: 'usermod -aG rightsizer NAME'",
            )
        except OSError:
            folder = Path(path).parent
        else:
            return Check(name, Verdict.OK, f"an agent answers at {path}")
    if os.access(folder, os.W_OK):
        return Check(name, Verdict.OK, f"no agent runs; {folder} is open to this user")
    return Check(
        name,
        Verdict.LIMITED,
        f"no agent answers, and user {os.geteuid()} may not put a socket into {folder}",
        lost,
        "start the agent ('systemctl start rightsizer'), or set path.api_socket",
    )


def check_web_port(place: CheckContext) -> Check:
    """Whether the addresses can be listened at, or are already."""
    name, web = "web port", place.settings.web
    if web.systemd_socket:
        return Check(name, Verdict.OK, "systemd hands it over")
    troubles, notes = [], []
    for text in web.listen_addresses:
        address = parse_address(text)
        refusal = _why_not(address.host, address.port)
        if refusal is None:
            notes.append(f"{text} is free")
        elif isinstance(refusal, PermissionError) and address.port < _PRIVILEGED_PORTS:
            troubles.append(f"{text}: {refusal.strerror}")
        elif _is_listened_at(address.host, address.port):
            notes.append(f"{text} is taken; by the agent, if it runs")
        else:
            troubles.append(f"{text}: {refusal.strerror}")
    if troubles:
        return Check(
            name,
            Verdict.MISSING,
            "; ".join(troubles),
            "metrics, page and API over the network",
            "choose another address with web.listen_addresses; for ports below 1024 use "
            "rightsizer.socket with rightsizer.service.d/socket.conf",
        )
    return Check(name, Verdict.OK, "; ".join(notes))


def _why_not(host: str, port: int) -> OSError | None:
    """Why nobody can listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return error
    return None


def _is_listened_at(host: str, port: int) -> bool:
    local = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound.
    try:
        with socket.create_connection((local.get(host, host), port), timeout=1.0):
            return True
    except OSError:
        return False


_LENDING: Final = "GPUs for those who ask by 'rightsizer run'"
_LEAST_ROOM_BYTES: Final = 64 * 2**20
"""A full queue with its log takes less."""


def check_broker(place: CheckContext) -> Check:
    """Whether leases can be kept where it is configured, asked for, and by those who are named."""
    name, settings = "broker", place.settings.broker
    if not settings.enabled:
        return Check(name, Verdict.UNUSED, "broker.enabled is false: no GPU is lent")
    path = Path(settings.path)
    if (trouble := unwritable(name, path, _LENDING)) is not None:
        return trouble
    if not place.settings.path.api_socket:
        found, remedy = "path.api_socket is empty: nobody can ask", "set path.api_socket"
        return Check(name, Verdict.MISSING, found, _LENDING, remedy)
    disk = os.statvfs(path.parent)
    free = disk.f_bavail * disk.f_frsize
    if free < _LEAST_ROOM_BYTES:
        found = f"{path.parent} has {free // 2**20} MiB free"
        lost = "grants, once the disk is full: what cannot be saved is not lent"
        return Check(name, Verdict.LIMITED, found, lost, "make room")
    unknown = ", ".join(_unknown(settings))
    if unknown:
        remedy = "mend the names, or the directory service that knows them"
        return Check(name, Verdict.LIMITED, f"nobody knows {unknown}", "what they may do", remedy)
    return Check(name, Verdict.OK, f"{path}, {free // 2**20} MiB free")


def _unknown(settings: BrokerSettings) -> Iterator[str]:
    """The users and groups of the settings that there are not, each by its key."""
    yield from _strangers("users", settings.users, pwd.getpwnam)
    yield from _strangers("operators", settings.operators, pwd.getpwnam)
    yield from _strangers("groups", settings.groups, grp.getgrnam)
    yield from _strangers("operator_groups", settings.operator_groups, grp.getgrnam)


def _strangers(key: str, names: Iterable[str], known: Callable[[str], object]) -> Iterator[str]:
    for name in names:
        try:
            known(name)
        except KeyError:
            yield f"'{name}' of broker.{key}"
