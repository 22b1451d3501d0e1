"""Actions feature of an agent; imports its modules only if an action is configured."""

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
from rightsizer.model.advice import AdviceState
from rightsizer.model.report import Report
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route

if TYPE_CHECKING:
    from rightsizer.actions.controller import ActionController
    from rightsizer.actions.encoder import ActionState


ACTIONS_PATH: Final = "/api/v1/actions"
_BOOT: Final = "sys/kernel/random/boot_id"


def actions_route(state: Callable[[], ActionState]) -> Route:
    """Route of the recorded actions, without commands and addresses.

    `state` is called from any thread.
    """

    def answer(_: WebRequest) -> WebResponse:
        from rightsizer.actions.encoder import encode_state  # noqa: PLC0415 - see the module's docstring.

        return WebResponse.of_json(encode_state(state()))

    return Route("GET", ACTIONS_PATH, answer)


def action_controller(
    settings: ActionFeatureSettings,
    advice: AdviceService,
    latest: Callable[[], Report | None],
    database: Database,
    clock: Clock,
) -> ActionController | None:
    """Controller of an agent, not started; `None` if no action is configured."""
    if not settings.actions:
        return None
    # See the module's docstring.
    from rightsizer.actions.audit_log import AuditLog  # noqa: PLC0415
    from rightsizer.actions.controller import ActionContext, ActionController  # noqa: PLC0415
    from rightsizer.actions.repository import ActionRepository  # noqa: PLC0415
    from rightsizer.actions.runner import ActionRunner  # noqa: PLC0415

    context = ActionContext(
        latest,
        lambda: advice.advice,
        lambda: advice.claims,
        lambda advice_id, actor, why: advice.act(advice_id, AdviceState.CLAIMED, actor, why),
    )
    boot = read_line(f"{settings.path.procfs}/{_BOOT}")
    audit = AuditLog(ActionRepository(database), settings.acting.audit_file, clock, boot)
    actions = actions_here(settings.actions, settings.node.pool)
    runner = ActionRunner()
    return ActionController(actions, settings.acting, context, runner, audit, clock=clock)


def action_state(controller: ActionController | None, database: Database) -> ActionState:
    """State of actions; without a controller, the actions of earlier agents."""
    from rightsizer.actions.encoder import ActionState  # noqa: PLC0415 - see the module's docstring.
    from rightsizer.actions.repository import ActionRepository  # noqa: PLC0415 - likewise.

    if controller:
        return controller.state()
    return ActionState(records=ActionRepository(database).records())


def actions_here(actions: Iterable[ActionSettings], pool: str) -> tuple[ActionSettings, ...]:
    """Actions configured for this machine's pool."""
    return tuple(
        replace(each, match=replace(each.match, pool="*"))
        for each in actions
        if fnmatchcase(pool, each.match.pool)
    )
