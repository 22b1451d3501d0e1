"""The flags of the HTTP server, named as in every Prometheus exporter."""

import argparse
from dataclasses import replace

from rightsizer.console.flags import checked_address
from rightsizer.model.errors import UsageError
from rightsizer.web.settings import WebTree, checked_path


def add_listen_flags(parser: argparse.ArgumentParser) -> None:
    """Where it listens, and where things are."""
    default = WebTree()
    parser.add_argument(
        "--web.listen-address",
        dest="listen_addresses",
        action="append",
        metavar="ADDRESS",
        help="where to listen, as host:port, :port or [::1]:port; may be repeated; without it "
        f"web.listen_addresses of the configuration (default: {default.listen_addresses[0]})",
    )
    parser.add_argument(
        "--web.systemd-socket",
        dest="systemd_socket",
        action="store_true",
        help="listen on the sockets that systemd hands over, and not on addresses",
    )
    parser.add_argument(
        "--web.telemetry-path",
        dest="telemetry_path",
        metavar="PATH",
        help="where the metrics are; without it web.telemetry_path of the configuration "
        f"(default: {default.telemetry_path})",
    )
    parser.add_argument(
        "--web.route-prefix",
        dest="route_prefix",
        metavar="PATH",
        help="what every path begins with, behind a proxy that passes paths on as they are; "
        "without it web.route_prefix of the configuration (default: nothing)",
    )


def add_access_flags(parser: argparse.ArgumentParser) -> None:
    """Who may ask, and for what."""
    parser.add_argument(
        "--web.config.file",
        dest="web_config_file",
        metavar="FILE",
        help="TLS, users, headers and limits, in the format of all Prometheus exporters; without "
        "it web.config_file of the configuration (default: plain HTTP, no users)",
    )
    parser.add_argument(
        "--web.enable-lifecycle",
        dest="enable_lifecycle",
        action="store_true",
        help="take /-/reload over TCP, and from those who prove who they are whatever changes "
        "something",
    )


def with_web_flags(web: WebTree, arguments: argparse.Namespace) -> WebTree:
    """The settings with what those flags say; a flag goes before the file.

    Raises:
        UsageError: an address or a path is none.
    """
    given = vars(arguments)
    if given.get("listen_addresses"):
        addresses = tuple(map(checked_address, given["listen_addresses"]))
        web = replace(web, listen_addresses=addresses)
    if given.get("telemetry_path") is not None:
        web = replace(web, telemetry_path=_path("telemetry-path", given["telemetry_path"]))
    if given.get("route_prefix") is not None:
        web = replace(web, route_prefix=_path("route-prefix", given["route_prefix"]))
    if given.get("web_config_file") is not None:
        web = replace(web, config_file=given["web_config_file"])
    return replace(
        web,
        systemd_socket=web.systemd_socket or given.get("systemd_socket", False),
        enable_lifecycle=web.enable_lifecycle or given.get("enable_lifecycle", False),
    )


def _path(flag: str, text: str) -> str:
    try:
        return checked_path(text)
    except UsageError as error:
        raise UsageError(f"--web.{flag}: {error}") from None
