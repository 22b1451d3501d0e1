"""The broker: its file, its door, and whether those whom its settings name exist."""

import grp
import os
import pwd
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from rightsizer.agent.doctor.check import Check, Place, Verdict
from rightsizer.agent.doctor.own import unwritable
from rightsizer.broker.settings import BrokerSection

_LENDING: Final = "GPUs for those who ask by 'rightsizer run'"
_LEAST_ROOM_BYTES: Final = 64 * 2**20
"""A full queue with its log takes less."""


def check_broker(place: Place) -> Check:
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


def _unknown(settings: BrokerSection) -> Iterator[str]:
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
