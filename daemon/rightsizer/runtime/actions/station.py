"""All that acts on advice, wired: for an agent whose operator has named an action."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from rightsizer.domain.advice import Advice
from rightsizer.domain.errors import RightsizerError
from rightsizer.domain.metric_family import series_key
from rightsizer.edge.clock import Clock
from rightsizer.publish.web.message import Peer
from rightsizer.runtime.actions.audit import AuditLog
from rightsizer.runtime.actions.book import ActionBook
from rightsizer.runtime.actions.desk import ActionDesk
from rightsizer.runtime.actions.journal import Journal
from rightsizer.runtime.actions.performer import ThreadPerformer
from rightsizer.runtime.actions.settings import ActingSettings, ActionSettings
from rightsizer.runtime.actions.state import ActionState
from rightsizer.runtime.actions.witness import ActionWitness
from rightsizer.runtime.jobs import Job

__all__ = ["ActionStation"]


class ActionStation:
    """The desk, and whoever does what it decides."""

    def __init__(  # noqa: PLR0913 - what it brings together.
        self,
        actions: Sequence[ActionSettings],
        acting: ActingSettings,
        witness: ActionWitness,
        book: ActionBook,
        *,
        clock: Clock,
        boot: str,
    ) -> None:
        """A station that does nothing yet; its arguments are those of its parts."""
        self._actions, self._interval = tuple(actions), acting.interval
        journal = Journal(Path(acting.audit_file) if acting.audit_file else None)
        self._audit = AuditLog(book, journal, clock, boot)
        self._desk = ActionDesk(
            actions, acting, witness, ThreadPerformer(), self._audit, clock=clock
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
        self, advice: Advice, actor: str, peer: Peer | None, identity: str | None
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
