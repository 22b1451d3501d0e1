"""How the agent is reached from outside, and what of that can be read again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rightsizer.agent.reloader import ReloadPart
from rightsizer.model.units import Nanoseconds
from rightsizer.web.authenticator import Authenticator
from rightsizer.web.listener import activated_sockets
from rightsizer.web.passwords import Passwords
from rightsizer.web.server import WebAccess
from rightsizer.web.settings import WebTree
from rightsizer.web.web_config import WebConfigFile, WebConfigReader


@dataclass(frozen=True, slots=True)
class Door:
    """What stands between the network and the site, and where it was configured."""

    access: WebAccess
    parts: tuple[ReloadPart, ...] = ()


def open_door(web: WebTree, wall_time: Callable[[], Nanoseconds] = time.time_ns) -> Door:
    """What the settings ask for.

    Raises:
        ConfigurationError: the web configuration has faults.
        RightsizerError: no socket was handed over.
    """
    file = None
    if web.config_file:
        file = WebConfigFile(WebConfigReader(Path(web.config_file)), wall_time)
    access = WebAccess(
        guard=None
        if file is None
        else Authenticator(file.current, Passwords(web.server.passwords)),
        allows_changes=web.enable_lifecycle,
        telemetry_path=web.telemetry_path,
        route_prefix=web.route_prefix,
        sockets=tuple(activated_sockets()) if web.systemd_socket else (),
    )
    return Door(access, () if file is None else (file,))
