"""Actions feature of an agent.

Job, routes, metrics; loads its machinery only where an action is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from rightsizer.actions.settings import ActionFeatureSettings, ActionSettings
from rightsizer.advice.service import AdviceService
from rightsizer.host.files import read_line
from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.io.jobs import Job
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.report import Report
from rightsizer.web.message import SocketPeer, WebRequest, WebResponse
from rightsizer.web.router import Route, Router

if TYPE_CHECKING:
    from rightsizer.actions.encoder import ActionState
    from rightsizer.actions.service import ActionService


ACTIONS_PATH: Final = "/api/v1/actions"


class ActionsApi:
    """Answers from what is remembered; names neither commands nor addresses."""

    def __init__(self, state: Callable[[], ActionState]) -> None:
        """A route over whoever knows; asked from any thread."""
        self._state = state

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where it is served."""
        return (Route("GET", ACTIONS_PATH, self._answer),)

    def _answer(self, site: Router, request: WebRequest) -> WebResponse:
        from rightsizer.actions.encoder import state_form  # noqa: PLC0415 - as said above.

        del site, request
        return WebResponse.of_json(state_form(self._state()))


_BOOT: Final = "sys/kernel/random/boot_id"
"""Names this run of the machine."""


class ActionsFeature:
    """What an agent does on advice: nothing, unless its settings name an action."""

    def __init__(
        self,
        settings: ActionFeatureSettings,
        advice: AdviceService,
        latest: Callable[[], Report | None],
        database: Database | None,
        clock: Clock,
    ) -> None:
        """Nothing runs yet.

        Args:
            settings: As they are when the agent starts.
            advice: Keeps the advice, and takes claims.
            latest: The latest report.
            database: Keeps what was done; `None` for memory.
            clock: The agent's.
        """
        self._database = database
        self._station = _service_of(settings, advice, latest, database, clock)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """What runs at intervals."""
        return self._station.jobs if self._station else ()

    @property
    def routes(self) -> tuple[Route, ...]:
        """What the API tells; of an earlier agent's actions too."""
        return ActionsApi(self._state).routes

    def start(self) -> None:
        """See to what the last agent left."""
        if self._station:
            self._station.start()

    def stop(self) -> None:
        """End what is under way, before the history closes."""
        if self._station:
            self._station.stop()

    def claimed(
        self, advice: Advice, actor: str, peer: SocketPeer | None, identity: str | None
    ) -> None:
        """Take note of a claim, which may approve an action; from any thread."""
        if self._station:
            self._station.note_claim(advice, actor, peer, identity)

    def counters(self) -> dict[str, float]:
        """What was done and was not, by the names of metrics."""
        return self._station.counters() if self._station else {}

    def _state(self) -> ActionState:
        from rightsizer.actions.encoder import ActionState  # noqa: PLC0415 - as said above.

        if self._station:
            return self._station.state()
        from rightsizer.actions.repository import action_repository  # noqa: PLC0415 - the same.

        return ActionState(records=action_repository(self._database).records())


def _service_of(
    settings: ActionFeatureSettings,
    advice: AdviceService,
    latest: Callable[[], Report | None],
    database: Database | None,
    clock: Clock,
) -> ActionService | None:
    if not settings.actions:
        return None
    # As said above.
    from rightsizer.actions.order import ActionContext  # noqa: PLC0415
    from rightsizer.actions.repository import action_repository  # noqa: PLC0415
    from rightsizer.actions.service import ActionService  # noqa: PLC0415

    witness = ActionContext(
        latest,
        lambda: advice.advice,
        lambda: advice.claims,
        lambda advice_id, actor, why: advice.act(advice_id, AdviceState.CLAIMED, actor, why),
    )
    boot = read_line(f"{settings.path.procfs}/{_BOOT}")
    return ActionService(
        actions_here(settings.actions, settings.node.pool),
        settings.acting,
        witness,
        action_repository(database),
        clock=clock,
        boot=boot,
    )


def actions_here(actions: Iterable[ActionSettings], pool: str) -> tuple[ActionSettings, ...]:
    """The actions that are for this machine, by its pool."""
    return tuple(
        replace(each, match=replace(each.match, pool="*"))
        for each in actions
        if fnmatchcase(pool, each.match.pool)
    )
