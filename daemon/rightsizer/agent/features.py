"""Features of an agent: the protocol, and the registry that loads those its settings configure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from rightsizer.accounting.service import AccountingService
from rightsizer.actions.feature import action_state, actions_here, actions_route
from rightsizer.advice.service import AdviceService, Recommender
from rightsizer.agent.settings import Settings
from rightsizer.broker.feature import closed_routes, place_route
from rightsizer.host.files import boot_id
from rightsizer.host.process_table import ProcessTable
from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.io.jobs import Job
from rightsizer.model.values import AdviceState
from rightsizer.profiler.capture.feature import CaptureContext, CaptureState, captures_route
from rightsizer.profiler.service import ProfileService, profiles_route
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.telemetry.source import ReleaseController, StillHeld
from rightsizer.web.message import SocketPeer
from rightsizer.web.router import Route

if TYPE_CHECKING:
    from rightsizer.actions.controller import ActionController
    from rightsizer.broker.service import BrokerService
    from rightsizer.profiler.capture.service import CaptureService


class Feature(Protocol):
    """A capability beside sampling and advice."""

    @property
    def jobs(self) -> Sequence[Job]:
        """Jobs at intervals."""

    def start(self) -> None:
        """Start, once the history is restored."""

    def stop(self) -> None:
        """End its work, before the history closes."""

    def metrics(self) -> Mapping[str, float]:
        """Counters and gauges by series, `device_up{uuid="..."}`."""


class FeatureContext(Struct, frozen=True):
    """Parts of an agent that its features use."""

    settings: Callable[[], Settings]
    """Those in force."""
    accounting: AccountingService
    recommender: Recommender
    advice: AdviceService
    profiles: ProfileService
    database: Database
    freshness: FreshnessSettings
    clock: Clock
    notify: Callable[[str], None]
    """Sends JSON to the webhooks."""
    controls: ReleaseController
    still_held: StillHeld


class Features:
    """The features that the settings configure; others are not imported."""

    def __init__(self, context: FeatureContext) -> None:
        """Create the features, without starting them.

        Raises:
            HistoryError: the broker's database cannot be opened.
        """
        self._context = context
        self.captures = _capture_service(context)
        self.actions = _action_controller(context)
        self.broker = _broker_service(context)
        features = self.captures, self.actions, self.broker
        self.all: tuple[Feature, ...] = tuple(feature for feature in features if feature)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Routes of all features; those that are off say so, or show what earlier agents did."""
        context = self._context
        return (
            profiles_route(context.profiles.profiles),
            captures_route(self.captures.state if self.captures else CaptureState),
            actions_route(partial(action_state, self.actions, context.database)),
            place_route(
                context.settings,
                context.accounting.latest,
                context.freshness,
                context.clock,
                self.broker,
            ),
            *(self.broker.routes if self.broker else closed_routes()),
        )

    def may_operate(self, peer: SocketPeer) -> bool:
        """Whether a client of the local socket is an operator; without a broker all are."""
        if self.broker is None:
            return True
        from rightsizer.broker.operators import may_operate  # noqa: PLC0415 - as for the broker.

        settings = self._context.settings()
        return may_operate(peer, settings.broker, settings.acting.approvers)


def _capture_service(context: FeatureContext) -> CaptureService | None:
    settings = context.settings().profiles
    if not settings.drop_folder.path:
        return None
    # Imported on use: most agents have no drop folder.
    from rightsizer.profiler.capture.repository import CaptureRepository  # noqa: PLC0415
    from rightsizer.profiler.capture.service import CaptureService  # noqa: PLC0415

    recommender = context.recommender
    advice = context.advice
    return CaptureService(
        settings.drop_folder,
        settings.capture,
        CaptureContext(
            context.accounting.latest, lambda: recommender.judgements, lambda: advice.advice
        ),
        CaptureRepository(context.database),
        context.profiles.take,
        limits=lambda: context.settings().profiles.read_limits,
        controls=context.controls,
        still_held=context.still_held,
        clock=context.clock,
    )


def _action_controller(context: FeatureContext) -> ActionController | None:
    settings = context.settings()
    advice = context.advice
    if not settings.actions:
        return None
    # Imported on use: most agents have no actions.
    from rightsizer.actions.audit_log import AuditLog  # noqa: PLC0415
    from rightsizer.actions.controller import ActionContext, ActionController  # noqa: PLC0415
    from rightsizer.actions.repository import ActionRepository  # noqa: PLC0415
    from rightsizer.actions.runner import ActionRunner  # noqa: PLC0415

    latest = context.accounting.latest
    clock = context.clock
    repository = ActionRepository(context.database)
    boot = boot_id(settings.path.procfs)
    processes = ProcessTable(settings.path.procfs)
    return ActionController(
        actions_here(settings.actions, settings.node.pool),
        settings.acting,
        ActionContext(
            latest,
            lambda: advice.advice,
            lambda advice_id, actor, why: advice.act(advice_id, AdviceState.CLAIMED, actor, why),
            lambda process: processes.generation(process.pid) == process,
        ),
        ActionRunner(),
        AuditLog(repository, settings.acting.audit_file, clock, boot),
        clock=clock,
    )


def _broker_service(context: FeatureContext) -> BrokerService | None:
    if not context.settings().broker.enabled:
        return None
    # Imported on use: most agents have no broker.
    from rightsizer.broker.service import BrokerService  # noqa: PLC0415

    latest = context.accounting.latest
    return BrokerService(
        context.settings(), latest, context.freshness, context.clock, context.notify
    )
