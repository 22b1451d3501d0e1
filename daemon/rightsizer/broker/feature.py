"""Routes of the broker that an agent always has: proposals, and how to enable the rest."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from rightsizer.broker.request import PLACE_PATH, ROUTES
from rightsizer.broker.settings import PlacementSettings
from rightsizer.io.clock import Clock
from rightsizer.model.values import Report
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route

if TYPE_CHECKING:
    from rightsizer.broker.service import BrokerService


_OFF: Final = (
    "this agent lends no GPUs; write `broker: {enabled: true}` into its configuration and restart "
    "it (`systemctl restart rightsizer`)"
)


def closed_routes() -> tuple[Route, ...]:
    """Routes of an agent without a broker, which explain how to enable it."""
    closed = WebResponse.of_text(_OFF, HTTPStatus.CONFLICT)
    return tuple(
        Route(method, path, lambda _: closed, is_local=True, is_for_users=True)
        for method, path in ROUTES
    )


def place_route(
    settings: Callable[[], PlacementSettings],
    latest: Callable[[], Report | None],
    freshness: FreshnessSettings,
    clock: Clock,
    broker: BrokerService | None = None,
) -> Route:
    """Route that proposes the best slots by the latest report, without granting them."""

    def answer(request: WebRequest) -> WebResponse:
        # Imported on use, since most agents have no broker.
        from rightsizer.broker.placement import (  # noqa: PLC0415
            LeasedSlots,
            placement_response,
            view_of,
        )

        placement_settings = settings()
        leased = broker.leased() if broker else LeasedSlots()
        view = view_of(placement_settings, clock.wall_time(), freshness, leased.pids)
        return placement_response(request, latest(), view, placement_settings, leased)

    return Route("GET", PLACE_PATH, answer)
