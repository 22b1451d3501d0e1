"""HTTP route of placement, paths of the broker's API, and its answers where the broker is off."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from rightsizer.broker.settings import PlacementSettings
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route, Router

if TYPE_CHECKING:
    from rightsizer.broker.placement import LeasedSlots


LEASES_PATH: Final = "/api/v1/leases"
BROKER_PATH: Final = "/api/v1/broker"
RESERVATIONS_PATH: Final = "/api/v1/reservations"
_SERVED: Final = (
    ("POST", LEASES_PATH),
    ("GET", f"{LEASES_PATH}/{{id}}"),
    ("DELETE", f"{LEASES_PATH}/{{id}}"),
    ("GET", BROKER_PATH),
    ("POST", RESERVATIONS_PATH),
    ("DELETE", f"{RESERVATIONS_PATH}/{{id}}"),
)
_OFF: Final = (
    "this agent lends no GPUs; write `broker: {enabled: true}` into its configuration and restart "
    "it (`systemctl restart rightsizer`)"
)


def closed_routes() -> tuple[Route, ...]:
    """Routes of an agent that lends nothing: each says how to change that."""
    return tuple(Route(method, path, _closed, is_local=True) for method, path in _SERVED)


def _closed(site: Router, request: WebRequest) -> WebResponse:
    del site, request
    return WebResponse.of_text(_OFF, HTTPStatus.CONFLICT)


PLACE_PATH: Final = "/api/v1/place"


class PlaceApi:
    """Answers which seats are best by the latest report; it gives nothing away."""

    def __init__(
        self,
        settings: Callable[[], PlacementSettings],
        given: Callable[[], LeasedSlots | None] = lambda: None,
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

    def _answer(self, site: Router, request: WebRequest) -> WebResponse:
        from rightsizer.broker.placement import LeasedSlots, placement_response  # noqa: PLC0415 - as said above.

        return placement_response(site, request, self._settings(), self._given() or LeasedSlots())
