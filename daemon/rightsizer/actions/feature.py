"""Route of the actions of an agent, and those configured for its machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rightsizer.actions.settings import ActionSettings
from rightsizer.io.database import Database
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route

if TYPE_CHECKING:
    from rightsizer.actions.controller import ActionController
    from rightsizer.actions.encoder import ActionState


ACTIONS_PATH: Final = "/api/v1/actions"


def actions_route(state: Callable[[], ActionState]) -> Route:
    """Route of the recorded actions, without commands and addresses.

    `state` is called from any thread.
    """

    def answer(_: WebRequest) -> WebResponse:
        from rightsizer.actions.encoder import state_document  # noqa: PLC0415 - for the first reader.

        return WebResponse.of_json(state_document(state()))

    return Route("GET", ACTIONS_PATH, answer)


def action_state(controller: ActionController | None, database: Database) -> ActionState:
    """State of actions; without a controller, the actions of earlier agents."""
    from rightsizer.actions.encoder import ActionState  # noqa: PLC0415 - for the first reader.
    from rightsizer.actions.repository import ActionRepository  # noqa: PLC0415

    if controller:
        return controller.state()
    return ActionState(records=ActionRepository(database).records())


def actions_here(actions: Iterable[ActionSettings], pool: str) -> tuple[ActionSettings, ...]:
    """Actions configured for this machine's pool."""
    return tuple(
        replace(action, match=replace(action.match, pool="*"))
        for action in actions
        if fnmatchcase(pool, action.match.pool)
    )
