"""The flags of the HTTP server, named as in every Prometheus exporter."""

import argparse
from dataclasses import replace
from typing import Final

from rightsizer.console.command import add_flags
from rightsizer.console.flags import checked_address
from rightsizer.model.errors import UsageError
from rightsizer.web.settings import WebTree, checked_path

_ACCESS: Final = """
--web.config.file FILE: TLS, users, headers and limits, in the format of all Prometheus exporters;
  without it web.config_file of the configuration (default: plain HTTP, no users)
--web.enable-lifecycle: take /-/reload over TCP, and from those who prove who they are whatever
  changes something
"""


def add_listen_flags(parser: argparse.ArgumentParser) -> None:
    """Where it listens, and where things are."""
    default = WebTree()
    flags = f"""
--web.listen-address ADDRESS: where to listen, as host:port, :port or [::1]:port; may be repeated;
  without it web.listen_addresses of the configuration (default: {default.listen_addresses[0]})
--web.systemd-socket: listen on the sockets that systemd hands over, and not on addresses
--web.telemetry-path PATH: where the metrics are; without it web.telemetry_path of the configuration
  (default: {default.telemetry_path})
--web.route-prefix PATH: what every path begins with, behind a proxy that passes paths on as they
  are; without it web.route_prefix of the configuration (default: nothing)
"""
    add_flags(parser.add_argument, flags, web_listen_address={"action": "append"})


def add_access_flags(parser: argparse.ArgumentParser) -> None:
    """Who may ask, and for what."""
    add_flags(parser.add_argument, _ACCESS)


def with_web_flags(web: WebTree, arguments: argparse.Namespace) -> WebTree:
    """The settings with what those flags say; a flag goes before the file.

    Raises:
        UsageError: an address or a path is none.
    """
    if arguments.web_listen_address:
        addresses = tuple(map(checked_address, arguments.web_listen_address))
        web = replace(web, listen_addresses=addresses)
    if arguments.web_telemetry_path is not None:
        web = replace(web, telemetry_path=_path("telemetry-path", arguments.web_telemetry_path))
    if arguments.web_route_prefix is not None:
        web = replace(web, route_prefix=_path("route-prefix", arguments.web_route_prefix))
    file = web.config_file if arguments.web_config_file is None else arguments.web_config_file
    return replace(
        web,
        config_file=file,
        systemd_socket=web.systemd_socket or arguments.web_systemd_socket,
        enable_lifecycle=web.enable_lifecycle or arguments.web_enable_lifecycle,
    )


def _path(flag: str, text: str) -> str:
    try:
        return checked_path(text)
    except UsageError as error:
        raise UsageError(f"--web.{flag}: {error}") from None
