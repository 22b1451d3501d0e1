"""Operators of an agent with a broker: who may change it over the local socket."""

import grp
import os
import pwd
from collections.abc import Callable, Collection

from rightsizer.broker.settings import BrokerSettings
from rightsizer.host.process_table import user_name
from rightsizer.web.message import SocketPeer

_ROOT = 0


def groups_of_user(user: str) -> frozenset[str]:
    """System groups of a user."""
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


def may_operate(
    peer: SocketPeer,
    settings: BrokerSettings,
    approvers: Collection[str] = (),
    *,
    groups_of: Callable[[str], frozenset[str]] = groups_of_user,
    own_uid: int | None = None,
) -> bool:
    """Whether a client of the socket may change the agent, beyond leases and tickets of its own.

    Those who may approve actions (`acting.approvers`) may. `own_uid` is the agent's.
    """
    if peer.uid in (_ROOT, os.getuid() if own_uid is None else own_uid):
        return True
    user = user_name(peer.uid)
    if user in settings.operators or user in approvers:
        return True
    # Groups of a directory service need network requests.
    groups = settings.operator_groups
    return bool(groups) and not groups_of(user).isdisjoint(groups)
