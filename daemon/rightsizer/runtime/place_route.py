"""Where this node says which GPUs to take; what searches is loaded with the first question."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.routes import Route, Site
from rightsizer.runtime.settings import Settings

if TYPE_CHECKING:
    from rightsizer.runtime.placing import Given

__all__ = ["PLACE_PATH", "PlaceRoutes"]

PLACE_PATH: Final = "/api/v1/place"


class PlaceRoutes:
    """Answers which seats are best by the latest report; it gives nothing away."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        given: Callable[[], Given | None] = lambda: None,
    ) -> None:
        """Routes over the settings in force.

        Args:
            settings: Tells them; a reload may change them.
            given: Tells what is lent at present; `None` where nothing ever is.
        """
        self._settings, self._given = settings, given

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where they are served."""
        return (Route("GET", PLACE_PATH, self._answer),)

    def _answer(self, site: Site, request: Request) -> Response:
        from rightsizer.runtime.placing import Given, answered  # noqa: PLC0415 - as said above.

        return answered(site, request, self._settings(), self._given() or Given())
