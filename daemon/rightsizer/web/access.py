"""Access to the server as it is configured.

Users, certificates, sockets, and what of it reloads.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rightsizer.model.units import Nanoseconds
from rightsizer.web.authenticator import Authenticator
from rightsizer.web.listener import activated_sockets
from rightsizer.web.passwords import Passwords
from rightsizer.web.server import WebAccess
from rightsizer.web.settings import WebTree
from rightsizer.web.web_config import WebConfigFile, WebConfigReader


class Reloadable(Protocol):
    """Something that was configured from a file and can be so again."""

    @property
    def trouble(self) -> str | None:
        """Why what its file says now is not in force; `None` where it is."""

    @property
    def loaded(self) -> Nanoseconds:
        """When its file was last read with success, by the wall clock."""

    def prepare(self) -> Callable[[], None]:
        """Read the file; what it says is in force once the result is called.

        Raises:
            ConfigurationError: it cannot be used; what was in force stays.
        """


@dataclass(frozen=True, slots=True)
class ConfiguredAccess:
    """What stands between the network and the site, and where it was configured."""

    access: WebAccess
    parts: tuple[Reloadable, ...] = ()


def configured_access(
    web: WebTree, wall_time: Callable[[], Nanoseconds] = time.time_ns
) -> ConfiguredAccess:
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
    return ConfiguredAccess(access, () if file is None else (file,))
