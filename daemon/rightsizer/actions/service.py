"""Action service: controller, audit log and runner of an agent with actions."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from rightsizer.actions.audit_log import AuditFile, AuditLog
from rightsizer.actions.controller import ActionController
from rightsizer.actions.encoder import ActionState
from rightsizer.actions.order import ActionContext
from rightsizer.actions.repository import ActionRepository
from rightsizer.actions.runner import ThreadedActionRunner
from rightsizer.actions.settings import ActionSettings, ActionsSettings
from rightsizer.io.clock import Clock
from rightsizer.io.jobs import Job
from rightsizer.model.advice import Advice
from rightsizer.model.errors import RightsizerError
from rightsizer.model.metric_family import series_key
from rightsizer.web.message import SocketPeer


class ActionService:
    """The desk, and whoever does what it decides."""

    def __init__(  # noqa: PLR0913 - what it brings together.
        self,
        actions: Sequence[ActionSettings],
        acting: ActionsSettings,
        witness: ActionContext,
        book: ActionRepository,
        *,
        clock: Clock,
        boot: str,
    ) -> None:
        """A station that does nothing yet; its arguments are those of its parts."""
        self._actions, self._interval = tuple(actions), acting.interval
        journal = AuditFile(Path(acting.audit_file) if acting.audit_file else None)
        self._audit = AuditLog(book, journal, clock, boot)
        self._desk = ActionController(
            actions, acting, witness, ThreadedActionRunner(), self._audit, clock=clock
        )

    @property
    def jobs(self) -> tuple[Job, ...]:
        """What runs at intervals."""
        return (Job("actions", self._desk.look, self._interval),)

    def start(self) -> None:
        """See to what the last agent left."""
        with contextlib.suppress(RightsizerError):  # Whoever looks next is told.
            self._desk.start()

    def stop(self) -> None:
        """End what is under way, before the history closes."""
        self._desk.stop()

    def note_claim(
        self, advice: Advice, actor: str, peer: SocketPeer | None, identity: str | None
    ) -> None:
        """Take note of a claim, which may approve an action; from any thread."""
        self._desk.note_claim(advice, actor, peer, identity)

    def counters(self) -> dict[str, float]:
        """What was done and was not, by the names of metrics."""
        return {
            series_key("rightsizer_actions_total", action=action, outcome=outcome): float(count)
            for (action, outcome), count in self._audit.counts.items()
        }

    def state(self) -> ActionState:
        """What the API tells."""
        desk = self._desk
        return ActionState(self._actions, desk.suspended, desk.proposals, self._audit.records())
