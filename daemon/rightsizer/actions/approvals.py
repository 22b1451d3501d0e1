"""Approvals of actions: claims of advice, and whether those who made them may approve."""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.actions.repository import ActionRecord
from rightsizer.host.process_table import user_name
from rightsizer.io.log import logger
from rightsizer.model.values import Advice, AdviceState, Nanoseconds
from rightsizer.web.message import SocketPeer

_NOBODY: Final = "it is not known who claimed it"


class Approval(Struct, frozen=True):
    """Claim of advice, and whether it counts as approval."""

    claimed: Nanoseconds
    """Wall time of the claim."""
    actor: str
    """Name given by the user, and identity known to the kernel or server."""
    why_not: str = ""
    """Why it does not count as approval; empty if it does."""


class Approvals:
    """Claims received by this agent; thread-safe."""

    def __init__(
        self,
        approvers: Sequence[str],
        own_uid: int | None = None,
        user_of: Callable[[int], str] = user_name,
    ) -> None:
        """Start without claims; `approvers` is `acting.approvers`, `own_uid` the agent's."""
        self._approvers = frozenset(approvers)
        self._own_uid = os.getuid() if own_uid is None else own_uid
        self._user_of = user_of
        self._lock = threading.Lock()
        self._claims: dict[str, Approval] = {}
        self._log = logger("actions")

    def note(
        self, advice: Advice, actor: str, peer: SocketPeer | None, identity: str | None
    ) -> None:
        """Note a claim that was just made and produced this advice.

        `actor` is the name in the request, `peer` the client of the local socket according to the
        kernel, `identity` the authenticated identity over TCP.
        """
        known_as = identity or "unknown" if peer is None else f"uid {peer.uid}"
        who = f"{actor} ({known_as})"
        why_not = ""
        if not self._may_approve(peer, identity):
            why_not = f"{who} claimed it, who may not approve; see acting.approvers"
            self._log.warning("claim_approves_nothing", id=advice.id, why=why_not)
        with self._lock:
            self._claims[advice.id] = Approval(advice.updated, who, why_not)

    def standing(
        self, advice: Callable[[], Iterable[Advice]], records: Sequence[ActionRecord]
    ) -> dict[str, Approval]:
        """Status of each current claim, by advice id.

        `advice` returns the present advice; `records` hold approvals of earlier agents.
        """
        with self._lock:
            # Called under the lock, so that every noted claim is either current or over.
            now = {
                recommendation.id: recommendation.trial_since
                for recommendation in advice()
                if recommendation.state is AdviceState.CLAIMED
                and recommendation.trial_since is not None
            }
            claimed = self._claims
            noted = {
                key: approval
                for key, approval in claimed.items()
                if now.get(key) == approval.claimed
            }
            self._claims = dict(noted)
        kept = {
            record.advice: Approval(record.approved, record.approver)
            for record in records
            if record.approved is not None and now.get(record.advice) == record.approved
        }
        unknown = {key: Approval(since, "", _NOBODY) for key, since in now.items()}
        return unknown | kept | noted

    def _may_approve(self, peer: SocketPeer | None, identity: str | None) -> bool:
        if peer is None:
            return identity is not None and identity in self._approvers
        return peer.uid in (0, self._own_uid) or self._user_of(peer.uid) in self._approvers
