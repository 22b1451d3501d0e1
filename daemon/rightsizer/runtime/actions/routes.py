"""What the API says of actions; whoever asks first has it loaded."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.routes import Route, Site

if TYPE_CHECKING:
    from rightsizer.runtime.actions.state import ActionState

__all__ = ["ACTIONS_PATH", "ActionRoutes"]

ACTIONS_PATH: Final = "/api/v1/actions"


class ActionRoutes:
    """Answers from what is remembered; names neither commands nor addresses."""

    def __init__(self, state: "Callable[[], ActionState]") -> None:
        """A route over whoever knows; asked from any thread."""
        self._state = state

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where it is served."""
        return (Route("GET", ACTIONS_PATH, self._answer),)

    def _answer(self, site: Site, request: Request) -> Response:
        from rightsizer.runtime.actions.state import state_form  # noqa: PLC0415 - as said above.

        del site, request
        return Response.of_json(state_form(self._state()))
