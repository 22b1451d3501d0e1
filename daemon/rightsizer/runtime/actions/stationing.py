"""Whether an agent acts on anything; most do not, and load nothing for it."""

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from rightsizer.domain.advice import Advice, AdviceState
from rightsizer.domain.report import Report
from rightsizer.edge.clock import Clock
from rightsizer.publish.web.message import Peer
from rightsizer.publish.web.routes import Route
from rightsizer.runtime.actions.routes import ActionRoutes
from rightsizer.runtime.actions.settings import ActionSettings
from rightsizer.runtime.chores import Chores
from rightsizer.runtime.jobs import Job
from rightsizer.runtime.settings import Settings
from rightsizer.runtime.storage import Storage
from rightsizer.telemetry.host.text import words

if TYPE_CHECKING:
    from rightsizer.runtime.actions.state import ActionState
    from rightsizer.runtime.actions.station import ActionStation

__all__ = ["Acting", "actions_here"]


_BOOT: Final = "sys/kernel/random/boot_id"
"""Names this run of the machine."""


class Acting:
    """What an agent does on advice: nothing, unless its settings name an action."""

    def __init__(
        self,
        settings: Settings,
        chores: Chores,
        latest: Callable[[], Report | None],
        storage: Storage,
        clock: Clock,
    ) -> None:
        """Nothing runs yet.

        Args:
            settings: As they are when the agent starts.
            chores: Keep the advice, and take claims.
            latest: The latest report.
            storage: Remembers what was done.
            clock: The agent's.
        """
        self._storage = storage
        self._station = _station_of(settings, chores, latest, storage, clock)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """What runs at intervals."""
        return self._station.jobs if self._station else ()

    @property
    def routes(self) -> tuple[Route, ...]:
        """What the API tells; of an earlier agent's actions too."""
        return ActionRoutes(self._state).routes

    def start(self) -> None:
        """See to what the last agent left."""
        if self._station:
            self._station.start()

    def stop(self) -> None:
        """End what is under way, before the history closes."""
        if self._station:
            self._station.stop()

    def claimed(self, advice: Advice, actor: str, peer: Peer | None, identity: str | None) -> None:
        """Take note of a claim, which may approve an action; from any thread."""
        if self._station:
            self._station.note_claim(advice, actor, peer, identity)

    def counters(self) -> dict[str, float]:
        """What was done and was not, by the names of metrics."""
        return self._station.counters() if self._station else {}

    def _state(self) -> "ActionState":
        from rightsizer.runtime.actions.state import ActionState  # noqa: PLC0415 - as said above.

        if self._station:
            return self._station.state()
        return ActionState(records=self._storage.actions.records())


def _station_of(
    settings: Settings,
    chores: Chores,
    latest: Callable[[], Report | None],
    storage: Storage,
    clock: Clock,
) -> "ActionStation | None":
    if not settings.actions:
        return None
    # As said above.
    from rightsizer.runtime.actions.station import ActionStation  # noqa: PLC0415
    from rightsizer.runtime.actions.witness import ActionWitness  # noqa: PLC0415

    witness = ActionWitness(
        latest,
        lambda: chores.advice,
        lambda: chores.claims,
        lambda advice_id, actor, why: chores.act(advice_id, AdviceState.CLAIMED, actor, why),
    )
    boot = words(f"{settings.path.procfs}/{_BOOT}")
    return ActionStation(
        actions_here(settings), settings.acting, witness, storage.actions, clock=clock, boot=boot
    )


def actions_here(settings: Settings) -> tuple[ActionSettings, ...]:
    """The actions that are for this machine, by its pool."""
    return tuple(
        replace(each, match=replace(each.match, pool="*"))
        for each in settings.actions
        if fnmatchcase(settings.node.pool, each.match.pool)
    )
