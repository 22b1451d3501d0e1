"""How the agent is reached from outside, and what of that can be read again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.web.access import Access
from rightsizer.publish.web.activation import activated_sockets
from rightsizer.publish.web.toolkit.guard import Guard
from rightsizer.publish.web.toolkit.passwords import Passwords
from rightsizer.publish.web.toolkit.watched import WebConfigFile
from rightsizer.publish.web.toolkit.web_config import WebConfigReader
from rightsizer.runtime.reloader import ReloadPart
from rightsizer.runtime.settings import Settings

__all__ = ["Door", "open_door"]


@dataclass(frozen=True, slots=True)
class Door:
    """What stands between the network and the site, and where it was configured."""

    access: Access
    parts: tuple[ReloadPart, ...] = ()


def open_door(settings: Settings, wall_time: Callable[[], Nanoseconds] = time.time_ns) -> Door:
    """What the settings ask for.

    Raises:
        ConfigurationError: the web configuration has faults.
        RightsizerError: no socket was handed over.
    """
    web = settings.web
    file = None
    if web.config_file:
        file = WebConfigFile(WebConfigReader(Path(web.config_file)), wall_time)
    access = Access(
        guard=None if file is None else Guard(file.current, Passwords(web.server.passwords)),
        allows_changes=web.enable_lifecycle,
        telemetry_path=web.telemetry_path,
        route_prefix=web.route_prefix,
        sockets=tuple(activated_sockets()) if web.systemd_socket else (),
    )
    return Door(access, () if file is None else (file,))
