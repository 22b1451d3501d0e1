"""Broker and placement of an agent: routes, and the service where the settings turn it on."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from rightsizer.broker.request import PLACE_PATH, ROUTES
from rightsizer.broker.settings import BrokerFeatureSettings, PlacementSettings
from rightsizer.io.clock import Clock
from rightsizer.model.report import Report
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route, Router

if TYPE_CHECKING:
    from rightsizer.broker.service import BrokerService


_OFF: Final = (
    "this agent lends no GPUs; write `broker: {enabled: true}` into its configuration and restart "
    "it (`systemctl restart rightsizer`)"
)


def broker_service(
    settings: BrokerFeatureSettings,
    latest: Callable[[], Report | None],
    freshness: FreshnessSettings,
    clock: Clock,
    notify: Callable[[str], None],
) -> BrokerService | None:
    """The service as `BrokerService` takes its arguments; `None` where the broker is off.

    Raises:
        HistoryError: the broker's file cannot be opened.
    """
    if not settings.broker.enabled:
        return None
    # Most agents have no broker, and load nothing for it.
    from rightsizer.broker.service import BrokerService  # noqa: PLC0415

    return BrokerService(settings, latest, freshness, clock, notify)


def closed_routes() -> tuple[Route, ...]:
    """Routes of an agent without a broker: each says how to turn it on."""
    closed = WebResponse.of_text(_OFF, HTTPStatus.CONFLICT)
    return tuple(Route(method, path, lambda *_: closed, is_local=True) for method, path in ROUTES)


def place_route(
    settings: Callable[[], PlacementSettings], broker: BrokerService | None = None
) -> Route:
    """The route that answers which slots are best by the latest report, and grants nothing."""

    def answer(site: Router, request: WebRequest) -> WebResponse:
        from rightsizer.broker.placement import LeasedSlots, placement_response  # noqa: PLC0415 - as said above.

        leased = broker.leased() if broker else LeasedSlots()
        return placement_response(site, request, settings(), leased)

    return Route("GET", PLACE_PATH, answer)
