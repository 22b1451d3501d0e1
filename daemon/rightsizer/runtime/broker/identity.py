"""Who is at the other end of the local socket, as the kernel tells, and whether he may ask."""

import grp
import os
import pwd
from collections.abc import Callable, Collection

from rightsizer.domain.errors import UsageError
from rightsizer.placement.lease import Client
from rightsizer.publish.web.message import Peer
from rightsizer.runtime.broker.process_table import ProcessTable
from rightsizer.runtime.broker.settings import BrokerSection

__all__ = ["client_of", "name_of", "why_not_served"]


def name_of(uid: int) -> str:
    """A user's name; the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def client_of(
    peer: Peer | None,
    table: ProcessTable,
    asked_groups: Collection[str] = (),
    groups_of: Callable[[str], frozenset[str]] | None = None,
) -> Client:
    """The process that asks.

    Its start is read before and after its user: a process that has taken over the number of one
    that ended in between is not taken for it.

    Args:
        peer: What the kernel says of the socket's other end.
        table: The processes.
        asked_groups: Those of which it matters whether its user is in them.
        groups_of: The groups of a user by name; the system's unless told otherwise.

    Raises:
        UsageError: it cannot be told.
    """
    if peer is None:
        raise UsageError("nobody can tell who asks; ask over the agent's local socket")
    before, uid, after = table.row(peer.pid), table.user(peer.pid), table.row(peer.pid)
    if peer.pid == 0 or before is None or after is None:
        raise UsageError(
            f"process {peer.pid} cannot be seen by the agent, or has ended; ask from outside of "
            "containers, or let the agent see the host's processes"
        )
    if before.started_ticks != after.started_ticks or uid != peer.uid:
        raise UsageError(f"process {peer.pid} is not the one that has asked; ask again")
    user = name_of(peer.uid)
    # Groups of a directory service take a look over the network.
    groups = (groups_of or _groups_of)(user) & set(asked_groups) if asked_groups else ()
    return Client(peer.uid, user, peer.pid, before.started_ticks, tuple(sorted(groups)))


def why_not_served(
    client: Client,
    settings: BrokerSection,
    groups_of: Callable[[str], frozenset[str]] | None = None,
) -> str | None:
    """Why somebody may not ask for GPUs; `None` where he may.

    Args:
        client: Who asks.
        settings: Say who may.
        groups_of: The groups of a user by name; the system's unless told otherwise.
    """
    if settings.is_operator(client) or not (settings.users or settings.groups):
        return None
    if client.user in settings.users:
        return None
    if settings.groups and (groups_of or _groups_of)(client.user) & set(settings.groups):
        return None
    return (
        f"{client.user} may not ask for GPUs here; an operator can say so by broker.users or "
        "broker.groups of the agent's configuration"
    )


def _groups_of(user: str) -> frozenset[str]:
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return frozenset()
    return frozenset(map(_group_name, os.getgrouplist(user, entry.pw_gid)))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
