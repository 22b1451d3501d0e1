"""Where the broker is asked, and what is answered where there is none."""

from http import HTTPStatus
from typing import Final

from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.routes import Route, Site

__all__ = ["BROKER_PATH", "LEASES_PATH", "RESERVATIONS_PATH", "closed_routes"]

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


def _closed(site: Site, request: Request) -> Response:
    del site, request
    return Response.of_text(_OFF, HTTPStatus.CONFLICT)
