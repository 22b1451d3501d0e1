"""What the API says of captures; whoever asks first has it loaded."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.routes import Route, Site

if TYPE_CHECKING:
    from rightsizer.runtime.capture.state import CaptureState

__all__ = ["CAPTURES_PATH", "CaptureRoutes"]

CAPTURES_PATH: Final = "/api/v1/captures"


class CaptureRoutes:
    """Answers from what is remembered; names files and no folders of this machine."""

    def __init__(self, state: "Callable[[], CaptureState]") -> None:
        """A route over whoever knows; asked from any thread."""
        self._state = state

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where it is served."""
        return (Route("GET", CAPTURES_PATH, self._answer),)

    def _answer(self, site: Site, request: Request) -> Response:
        from rightsizer.runtime.capture.state import state_form  # noqa: PLC0415 - as said above.

        del site, request
        return Response.of_json(state_form(self._state()))
