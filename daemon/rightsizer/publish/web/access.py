"""How a server is reached over TCP: by whom, where, and what for."""

import socket
from dataclasses import dataclass

from rightsizer.publish.web.routes import METRICS_PATH
from rightsizer.publish.web.toolkit.guard import Guard

__all__ = ["Access"]


@dataclass(frozen=True, slots=True)
class Access:
    """What stands between the network and the site."""

    guard: Guard | None = None
    """Stands before everything; everybody may look at everything where there is none."""
    allows_changes: bool = False
    """Whether who has proved himself to the guard may change things."""
    telemetry_path: str = METRICS_PATH
    """Where the metrics are."""
    route_prefix: str = ""
    """What every path begins with, as `/gpu`."""
    sockets: tuple[socket.socket, ...] = ()
    """Listening sockets that somebody else has bound, in place of the addresses."""
