"""Approvals of actions: claims by users the kernel or the server vouches for."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from rightsizer.actions.repository import ActionRecord
from rightsizer.host.process_table import user_name
from rightsizer.model.advice import Advice
from rightsizer.model.units import Nanoseconds
from rightsizer.web.message import SocketPeer

_NOBODY = "nobody can tell who claimed it"


@dataclass(frozen=True, slots=True)
class Approval:
    """A claim, and whether it approves."""

    claimed: Nanoseconds
    """Wall time of the claim."""
    actor: str
    """Who, as he calls himself, and as the kernel or the server knows him."""
    why_not: str = ""
    """Why it approves nothing; empty where it does."""


class Approvals:
    """The claims that this agent has taken; safe for threads."""

    def __init__(
        self,
        approvers: Sequence[str],
        own_uid: int | None = None,
        user_of: Callable[[int], str] = user_name,
    ) -> None:
        """Nobody has claimed anything yet.

        Args:
            approvers: Who may approve beside root and the agent's own user, see `acting.approvers`.
            own_uid: The agent's user; this process's unless told otherwise.
            user_of: The name of a user.
        """
        self._approvers = frozenset(approvers)
        self._own_uid = os.getuid() if own_uid is None else own_uid
        self._user_of = user_of
        self._lock = threading.Lock()
        self._claims: dict[str, Approval] = {}
        self._log = structlog.get_logger(component="actions")

    def note(
        self, advice: Advice, actor: str, peer: SocketPeer | None, identity: str | None
    ) -> None:
        """Take note of a claim that was just made.

        Args:
            advice: As the claim left it.
            actor: What the request calls whoever asks.
            peer: What the kernel says of him, over the local socket.
            identity: What he has proved, over TCP.
        """
        known_as = identity or "unknown" if peer is None else f"uid {peer.uid}"
        who, why_not = f"{actor} ({known_as})", ""
        if not self._may_approve(peer, identity):
            why_not = f"{who} claimed it, who may not approve; see acting.approvers"
            self._log.warning("claim_approves_nothing", id=advice.id, why=why_not)
        with self._lock:
            self._claims[advice.id] = Approval(advice.updated, who, why_not)

    def standing(
        self, claims: Callable[[], Mapping[str, Nanoseconds]], records: Sequence[ActionRecord]
    ) -> dict[str, Approval]:
        """Of each piece of advice that is claimed now, what its claim is worth.

        Args:
            claims: Since when advice is claimed, by its id.
            records: The audit log, which has what an earlier agent took note of.
        """
        with self._lock:
            # Asked under the lock: what is noted by now is among the claims, or over.
            now = claims()
            self._claims = {
                key: each for key, each in self._claims.items() if now.get(key) == each.claimed
            }
            noted = dict(self._claims)
        kept = {
            each.advice: Approval(each.approved, each.approver)
            for each in records
            if each.approved is not None and now.get(each.advice) == each.approved
        }
        return {
            key: noted.get(key) or kept.get(key) or Approval(since, "", _NOBODY)
            for key, since in now.items()
        }

    def _may_approve(self, peer: SocketPeer | None, identity: str | None) -> bool:
        if peer is None:
            return identity is not None and identity in self._approvers
        return peer.uid in (0, self._own_uid) or self._user_of(peer.uid) in self._approvers
